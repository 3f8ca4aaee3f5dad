"""Peer: whole training steps of tiny models in PyTorch, in microseconds. Prints a line of JSON."""
import json
import time

import torch
from torch import nn


def microseconds(net, x, y, criterion, optimizer, steps=600, runs=7):
    def step():
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

    for _ in range(300):
        step()
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        best = min(best, (time.perf_counter() - start) / steps)
    return best * 1e6


def linear(optimizer, **options):
    net = nn.Linear(5, 2)
    return microseconds(net, torch.randn(30, 5), torch.randn(30, 2), nn.MSELoss(),
                        optimizer(net.parameters(), lr=0.01, **options))


def mlp():
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return microseconds(net, torch.randn(32, 32), torch.randint(0, 10, (32,)), nn.CrossEntropyLoss(),
                        torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({
        "version": torch.__version__,
        "linear_sgd": linear(torch.optim.SGD),
        "linear_adam": min(linear(torch.optim.Adam, foreach=False), linear(torch.optim.Adam, fused=True)),
        "mlp_sgd_mom": mlp(),
    }))
