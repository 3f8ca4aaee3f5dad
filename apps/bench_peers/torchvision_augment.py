"""Peer: crop, flip, to tensor, normalise with torchvision on one core, in images a second. Prints a line of JSON."""
import json
import time

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision import transforms
from torchvision.transforms import v2

HALF = (0.5, 0.5, 0.5)


def rate(transform, items):
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for item in items:
            transform(item)
        best = min(best, time.perf_counter() - start)
    return len(items) / best


def main():
    torch.set_num_threads(1)
    pixels = np.random.default_rng(0).integers(0, 256, (3000, 32, 32, 3), dtype=np.uint8)
    classic = transforms.Compose([transforms.RandomCrop(32, 4), transforms.RandomHorizontalFlip(),
                                  transforms.ToTensor(), transforms.Normalize(HALF, HALF)])
    tensors = v2.Compose([v2.RandomCrop(32, 4), v2.RandomHorizontalFlip(),
                          v2.ToDtype(torch.float32, scale=True), v2.Normalize(HALF, HALF)])
    print(json.dumps({
        "version": torchvision.__version__,
        "images_s": max(rate(classic, [Image.fromarray(p) for p in pixels]),
                        rate(tensors, [torch.from_numpy(p).permute(2, 0, 1).contiguous() for p in pixels])),
    }))


if __name__ == "__main__":
    main()
