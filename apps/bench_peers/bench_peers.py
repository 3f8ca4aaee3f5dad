#!/usr/bin/env python3
"""Times the same work with Tandem and with what a user would pick instead, in one run, and prints a table with ratios.

The peers come from PyPI, into a virtual environment of their own in the build folder. Each round runs everything once,
one after the other, and the best of the rounds counts: other load on the machine then hits all alike. Nothing else
should run meanwhile; the load at the start is printed.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build"
PROGRAMS = BUILD / "release" / "bin"
VENV = BUILD / "peers-venv"
PYTHON = VENV / "bin" / "python"

# What is compared: key, title, unit, whether more is better.
WORK = [
    ("net", "Net, a training step at batch 128, f32", "images/s", True),
    ("net_bf16", "Net, a training step at batch 128, bf16", "images/s", True),
    ("linear_sgd", "Linear(5, 2), a training step at batch 30, SGD, one thread", "us", False),
    ("linear_adam", "the same with Adam", "us", False),
    ("mlp_sgd_mom", "32-64-64-10 perceptron, a training step at batch 32", "us", False),
    ("augment", "crop, flip, normalise on one core", "images/s", True),
    ("peak_mb", "peak memory of the process that trains the Net", "MB", False),
    ("ddp", "Net by DDP, two processes with a core each, batch 128, f32", "images/s", True),
    ("reduce_34mb", "34 MB all-reduce between two processes: Tandem by shared memory, PyTorch by Gloo", "us", False),
    ("reduce_34mb_sockets", "the same: Tandem by sockets, PyTorch by Gloo", "us", False),
    ("reduce_4kb", "4 KB all-reduce between two processes: Tandem by shared memory, PyTorch by Gloo", "us", False),
    ("reduce_4kb_sockets", "the same: Tandem by sockets, PyTorch by Gloo", "us", False),
    ("broadcast_34mb", "34 MB broadcast between two processes: Tandem by shared memory, PyTorch by Gloo", "us", False),
    ("broadcast_34mb_sockets", "the same: Tandem by sockets, PyTorch by Gloo", "us", False),
    ("start", "start: Tandem's process up to the end of its first step, PyTorch's import alone", "ms", False),
]


def run(command, options, **env):
    """Runs a program that prints a line of JSON, and returns what it says."""
    return run_lines(command, options, **env)[-1]


def run_lines(command, options, **env):
    """The same of a program that prints several."""
    env = dict(os.environ, OMP_NUM_THREADS=str(options.threads), **env)
    result = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{result.stderr[-3000:]}")
    return [json.loads(line) for line in result.stdout.strip().splitlines()]


# What both print of collectives, and what it is called here.
COLLECTIVES = {("all_reduce", 35688000): "reduce_34mb", ("all_reduce", 4096): "reduce_4kb",
               ("broadcast", 35688000): "broadcast_34mb"}


def tandem(options):
    bench = PROGRAMS / "tandem-bench"
    version = re.findall(r"TANDEM_VERSION_\w+ (\d+)", (ROOT / "core" / "version.h").read_text(encoding="utf-8"))
    yield "version", ".".join(version)
    step = run([bench, "step", "--net", "net", "--batch", 128, "--threads", options.threads, "--json"], options)
    yield "net", step["images_s"]
    yield "peak_mb", step["peak_mb"]
    for key, us in run([bench, "toy", "--json"], options).items():
        yield key, us
    yield "augment", run([bench, "data", "--json"], options)["augment_images_s"]
    yield "start", run([bench, "start", "--json"], options)["start_ms"]
    for row in run_lines([bench, "parallel", "--mode", "ddp-processes", "--rounds", 1, "--threads", 2, "--json"],
                         options):
        if row["mode"] == "ddp-processes":
            yield "ddp", row["images_s"]
    for row in run_lines([bench, "collectives", "--over", "shm", "sockets", "--rounds", 1, "--json"], options):
        key = COLLECTIVES.get((row["op"], row["bytes"]))
        if key:
            yield key + ("_sockets" if row["over"] == "sockets" else ""), row["best_us"]


def onednn(options):
    floor = PROGRAMS / "onednn-floor"
    result = run([floor, "--json"], options)
    yield "version", result["version"] + ", the Net's primitives alone"
    yield "net", result["images_s"]
    if options.bf16:
        yield "net_bf16", run([floor, "--json", "--bf16"], options)["images_s"]


def pytorch(options):
    net = [PYTHON, HERE / "pytorch_net.py", "--threads", options.threads]
    result = run(net, options)
    yield "version", result["version"] + ", channels-last"
    yield "net", result["images_s"]
    yield "peak_mb", result["peak_mb"]
    yield "start", result["import_ms"]
    if options.bf16:
        yield "net_bf16", run(net + ["--bf16"], options)["images_s"]
    toy = run([PYTHON, HERE / "pytorch_toy.py"], options)
    for key in ("linear_sgd", "linear_adam", "mlp_sgd_mom"):
        yield key, toy[key]


def pytorch_ddp(options):
    lines = run_lines([PYTHON, HERE / "pytorch_ddp.py"] + (["--bf16"] if options.bf16 else []), options)
    yield "version", lines[0]["version"] + ", DistributedDataParallel over Gloo"
    for row in lines:
        if "images_s" in row and not row["bf16"]:
            yield "ddp", row["images_s"]
        key = COLLECTIVES.get((row.get("op"), row.get("bytes")))
        if key:
            yield key, row["best_us"]
            yield key + "_sockets", row["best_us"]


def torchvision(options):
    result = run([PYTHON, HERE / "torchvision_augment.py"], options)
    yield "version", result["version"]
    yield "augment", result["images_s"]


def libtorch(options):
    result = run([BUILD / "peers-libtorch", options.threads], options)
    yield "version", result["version"] + ", channels-last"
    yield "net", result["images_s"]
    yield "linear_sgd", result["linear_sgd"]


def tensorflow(options):
    net = [PYTHON, HERE / "tensorflow_net.py", "--threads", options.threads]
    result = run(net, options)
    yield "version", result["version"] + ", tf.function with oneDNN"
    yield "net", result["images_s"]
    yield "peak_mb", result["peak_mb"]
    if options.bf16:
        yield "net_bf16", run(net + ["--bf16"], options)["images_s"]


def jax(options):
    net = [PYTHON, HERE / "jax_net.py"]
    # XLA's thread pool has as many threads as the process may use cores.
    if shutil.which("taskset"):
        net = ["taskset", "-c", f"0-{options.threads - 1}"] + net
    result = run(net, options)
    yield "version", result["version"] + ", jit"
    yield "net", result["images_s"]
    yield "peak_mb", result["peak_mb"]
    if options.bf16:
        yield "net_bf16", run(net + ["--bf16"], options)["images_s"]


# Peers and the packages they need.
PEERS = {
    "onednn": (onednn, []),
    "pytorch": (pytorch, ["torch", "numpy"]),
    "pytorch-ddp": (pytorch_ddp, ["torch", "numpy"]),
    "torchvision": (torchvision, ["torch", "torchvision", "numpy"]),
    "libtorch": (libtorch, ["torch"]),
    "tensorflow": (tensorflow, ["tensorflow-cpu"]),
    "jax": (jax, ["jax"]),
}


def install(peers):
    """Makes the virtual environment, once, and compiles the libtorch program."""
    packages = sorted({package for peer in peers for package in PEERS[peer][1]})
    if packages:
        if not PYTHON.exists():
            venv.create(VENV, with_pip=True)
        print(f"installing {' '.join(packages)} into {VENV} where missing", flush=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", *packages], check=True)
    if "libtorch" in peers:
        program, source = BUILD / "peers-libtorch", HERE / "libtorch_net.cpp"
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            print("compiling the libtorch program", flush=True)
            torch = next(VENV.glob("lib/python*/site-packages/torch"))
            includes = [f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"]
            subprocess.run(["g++", "-O3", "-march=native", "-std=c++20", *includes, source, "-o", program,
                            f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib", "-Wl,--no-as-needed",
                            "-ltorch", "-ltorch_cpu", "-lc10"], check=True)


def measure(options):
    """{peer: {key: best figure, or text}} over all rounds."""
    higher = {key: more for key, _, _, more in WORK}
    best = {}
    for round_ in range(options.rounds):
        for name in ["tandem"] + options.peers:
            print(f"round {round_ + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
            measured = tandem(options) if name == "tandem" else PEERS[name][0](options)
            figures = best.setdefault(name, {})
            for key, value in measured:
                if key in figures and key in higher:
                    value = max(value, figures[key]) if higher[key] else min(value, figures[key])
                figures[key] = value
    return best


def machine():
    name = platform.processor()
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{name}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} at the start"


def print_table(best):
    for key, title, unit, more in WORK:
        rows = {peer: figures[key] for peer, figures in best.items() if key in figures}
        if len(rows) < 2:
            continue
        print(f"\n{title}")
        ours = rows.get("tandem")
        for peer, figure in rows.items():
            ratio = ""
            if ours and peer != "tandem":
                ratio = f"tandem is {(ours / figure if more else figure / ours):.2f}x as good"
            digits = 1 if figure < 100 else 0
            print(f"  {peer:12} {figure:10.{digits}f} {unit:9} {ratio}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="default: all")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--bf16", action="store_true", help="the peers in bf16 as well")
    options = p.parse_args()

    install(options.peers)
    print(machine())
    print(f"{options.threads} threads, best of {options.rounds} rounds", flush=True)
    best = measure(options)
    for name, figures in best.items():
        if "version" in figures:
            print(f"  {name:12} {figures['version']}")
    print_table(best)


if __name__ == "__main__":
    main()
