"""Peer: the Net's training step in PyTorch, and how long its import takes. Prints a line of JSON."""
import argparse
import json
import resource
import time

start = time.perf_counter()
import torch  # noqa: E402  (timed)
import torch.nn.functional as F  # noqa: E402

import_ms = (time.perf_counter() - start) * 1e3
from pytorch_model import Net, sgd  # noqa: E402


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--steps", type=int, default=15)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--bf16", action="store_true", help="autocast")
    p.add_argument("--contiguous", action="store_true", help="row-major tensors instead of channels-last")
    p.add_argument("--compile", action="store_true", help="torch.compile (slower here)")
    a = p.parse_args()

    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    net = Net()
    x = torch.randn(a.batch, 3, 32, 32)
    y = torch.randint(0, 10, (a.batch,))
    if not a.contiguous:
        net = net.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = sgd(net)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.bf16):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

    if a.compile:
        step = torch.compile(step)
    seconds = []
    for i in range(3 + a.steps):
        start = time.perf_counter()
        step()
        if i >= 3:
            seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "version": torch.__version__,
        "images_s": a.batch / min(seconds),
        "median_ms": sorted(seconds)[len(seconds) // 2] * 1e3,
        "import_ms": import_ms,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))


if __name__ == "__main__":
    main()
