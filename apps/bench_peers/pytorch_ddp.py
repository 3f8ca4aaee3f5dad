"""Peer: PyTorch's DistributedDataParallel over Gloo, two processes on a core each, global batch 128; and collectives by
themselves, among them the all-reduce of the Net's gradients (34 MB). Prints a line of JSON for each."""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from pytorch_model import Net, sgd
from torch.nn.parallel import DistributedDataParallel

BATCH = 128


def collective(op, size):
    """The best and the median call, in microseconds, from a moment at which both have come."""
    t = torch.zeros(size // 4)
    together = 200 if size < 1 << 16 else 1
    us = []
    for i in range(18):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(together):
            if op == "all_reduce":
                dist.all_reduce(t)
            else:
                dist.broadcast(t, 0)
        if i >= 3:
            us.append((time.perf_counter() - start) * 1e6 / together)
    us.sort()
    return {"version": torch.__version__, "op": op, "bytes": size, "best_us": us[0], "median_us": us[len(us) // 2]}


def run(rank, ranks, bf16):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    os.sched_setaffinity(0, {rank % os.cpu_count()})
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for op in ("all_reduce", "broadcast"):
        for size in (35_688_000, 4096):
            row = collective(op, size)
            if rank == 0 and not bf16:
                print(json.dumps(row), flush=True)

    x = torch.randn(BATCH // ranks, 3, 32, 32).to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (BATCH // ranks,))
    net = DistributedDataParallel(Net().to(memory_format=torch.channels_last))
    optimizer = sgd(net)
    seconds = []
    for i in range(20):
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        if i >= 3:
            seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"version": torch.__version__, "processes": ranks, "bf16": bf16,
                          "images_s": BATCH / min(seconds)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--bf16", action="store_true", help="autocast as well")
    for bf16 in (False, True) if p.parse_args().bf16 else (False,):
        mp.spawn(run, (2, bf16), nprocs=2)
