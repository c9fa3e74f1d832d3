#!/usr/bin/env python3
"""Train a small convolutional network on images that the data set draws itself.

Each picture is a striped pattern under noise; the network learns to tell in
which of eight directions the stripes run. The pictures are made by the
DataLoader's worker processes, so a batch of 32 RGB pictures of 224 x 224
floats (19 MB) travels from a worker to the trainer through shared memory, as
it does in any training with num_workers > 0.

    python3 train.py
    python3 train.py --workers 8 --epochs 10
"""

import argparse
import math
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Stripes(Dataset):
    """Pictures of stripes in one of `classes` directions, the label being the direction.

    A picture depends on its index and the seed alone: it is the same in every
    epoch and whichever worker draws it.
    """

    classes = 8

    def __init__(self, pictures, size, seed):
        self.pictures = pictures
        self.seed = seed
        axis = torch.linspace(-1.0, 1.0, size)
        self.x = axis.view(1, size).expand(size, size)
        self.y = axis.view(size, 1).expand(size, size)

    def __len__(self):
        return self.pictures

    def __getitem__(self, index):
        draw = torch.Generator().manual_seed(self.seed + index)
        label = int(torch.randint(self.classes, (1,), generator=draw))
        wave, phase = torch.rand(2, generator=draw).tolist()
        angle = math.pi * label / self.classes
        across = self.x * math.cos(angle) + self.y * math.sin(angle)
        stripes = torch.sin(across * (40.0 + 20.0 * wave) + 2.0 * math.pi * phase)
        noise = torch.randn(3, *stripes.shape, generator=draw)
        return stripes + 0.5 * noise, label


class Net(nn.Module):
    """Four convolutions, an average over the picture, one linear layer."""

    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 9, stride=2, padding=4), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        )
        self.head = nn.Linear(32, classes)

    def forward(self, pictures):
        return self.head(self.features(pictures).mean(dim=(2, 3)))


def main():
    ask = argparse.ArgumentParser(description="Train a small network on drawn pictures.")
    ask.add_argument("--epochs", type=int, default=4)
    ask.add_argument("--batch", type=int, default=32, help="pictures in a batch")
    ask.add_argument("--batches", type=int, default=20, help="batches in an epoch")
    ask.add_argument("--size", type=int, default=224, help="edge of a picture in pixels")
    ask.add_argument("--workers", type=int, default=4, help="processes that draw pictures")
    ask.add_argument("--prefetch", type=int, default=2, help="batches each worker draws ahead")
    ask.add_argument("--persistent", action="store_true", help="keep the workers between epochs")
    ask.add_argument("--lr", type=float, default=3e-3)
    ask.add_argument("--seed", type=int, default=1)
    opt = ask.parse_args()

    torch.manual_seed(opt.seed)
    pictures = Stripes(opt.batch * opt.batches, opt.size, opt.seed)
    loader = DataLoader(
        pictures,
        batch_size=opt.batch,
        shuffle=True,
        num_workers=opt.workers,
        persistent_workers=opt.persistent and opt.workers > 0,
        **({"prefetch_factor": opt.prefetch} if opt.workers > 0 else {}),
    )
    net = Net(Stripes.classes)
    optimiser = torch.optim.Adam(net.parameters(), lr=opt.lr)
    judge = nn.CrossEntropyLoss()

    megabytes = opt.batch * 3 * opt.size * opt.size * 4 / 1e6
    print(f"torch {torch.__version__}: {len(loader)} batches of {megabytes:.1f} MB an epoch, "
          f"{opt.workers} workers", flush=True)
    for epoch in range(1, opt.epochs + 1):
        start, total, right = time.monotonic(), 0.0, 0
        for batch, labels in loader:
            optimiser.zero_grad()
            scores = net(batch)
            loss = judge(scores, labels)
            loss.backward()
            optimiser.step()
            total += loss.item() * len(labels)
            right += int((scores.argmax(dim=1) == labels).sum())
        print(f"epoch {epoch}/{opt.epochs}: loss {total / len(pictures):.4f}, "
              f"accuracy {100.0 * right / len(pictures):.1f} %, "
              f"{time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
