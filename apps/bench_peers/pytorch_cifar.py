"""Peer: the Net on real CIFAR-10 in PyTorch with torchvision and its loader, as its users write it: seconds an epoch,
training loss and test accuracy, a line of JSON an epoch.

usage: pytorch_cifar.py DIR EPOCHS [--bf16] [--workers N] [--seed N]      DIR holds data_batch_*.bin
"""
import argparse
import glob
import json
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from pytorch_model import Net, sgd
from torchvision import transforms


class Cifar10(torch.utils.data.Dataset):
    def __init__(self, files, transform):
        rows = np.concatenate([np.fromfile(f, np.uint8).reshape(-1, 3073) for f in files])
        self.labels = rows[:, 0].astype(np.int64)
        self.images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy()
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(Image.fromarray(self.images[i])), int(self.labels[i])


def accuracy(net, loader):
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    return 100 * right / len(loader.dataset)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("epochs", type=int)
    p.add_argument("--bf16", action="store_true")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()

    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    to_tensor = [transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)]
    augment = [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip()]
    train = Cifar10(sorted(glob.glob(a.dir + "/data_batch_*.bin")), transforms.Compose(augment + to_tensor))
    test = Cifar10([a.dir + "/test_batch.bin"], transforms.Compose(to_tensor))
    batches = torch.utils.data.DataLoader(train, 128, shuffle=True, num_workers=a.workers)
    test_batches = torch.utils.data.DataLoader(test, 500, num_workers=a.workers)

    net = Net().to(memory_format=torch.channels_last)
    optimizer = sgd(net)
    for epoch in range(a.epochs):
        start, total = time.time(), 0.0
        for x, y in batches:
            optimizer.zero_grad()
            x = x.contiguous(memory_format=torch.channels_last)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.bf16):
                loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(json.dumps({"epoch": epoch, "train_s": round(time.time() - start, 1),
                          "loss": round(total / len(batches), 4),
                          "test_accuracy": round(accuracy(net, test_batches), 2)}), flush=True)


if __name__ == "__main__":
    main()
