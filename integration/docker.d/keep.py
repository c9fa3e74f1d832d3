"""Moves 19 MB batches from a DataLoader's workers and keeps all of them alive until the end; no other work.

usage: keep.py BATCHES
Live at the end: BATCHES x 19.3 MB. Says `kept BATCHES batches` when every batch holds what its worker wrote.
"""
import sys

import torch
from torch.utils.data import DataLoader, Dataset

SHAPE = (32, 3, 224, 224)


class Numbers(Dataset):
    """Batches made in one piece by the worker: all elements of batch `i` are `i` + 1."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        return torch.full(SHAPE, float(index + 1))


def main():
    batches = int(sys.argv[1])
    loader = DataLoader(Numbers(batches), batch_size=None, num_workers=2)
    kept = list(loader)
    for index, batch in enumerate(kept):
        if not torch.equal(batch, torch.full(SHAPE, float(index + 1))):
            sys.exit(f"batch {index} is not what the worker wrote")
    print(f"kept {len(kept)} batches")


if __name__ == "__main__":
    main()
