"""Peer: PyTorch's DistributedDataParallel over Gloo, two processes on a core each, global batch 128; and the all-reduce
of the Net's gradients (34 MB) by itself. Prints a line of JSON a setting."""
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


def all_reduce_ms(numbers=8_922_000):
    t = torch.ones(numbers)
    best = float("inf")
    for _ in range(12):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(t)
        best = min(best, time.perf_counter() - start)
        t.fill_(1)
    return best * 1e3


def run(rank, ranks, bf16):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    os.sched_setaffinity(0, {rank % os.cpu_count()})
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    reduce_ms = all_reduce_ms()

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
                          "images_s": BATCH / min(seconds), "all_reduce_34mb_ms": reduce_ms}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    for bf16 in (False, True):
        mp.spawn(run, (2, bf16), nprocs=2)
