"""A DataLoader that does nothing but move batches of 32x3x224x224 floats (19.3 MB) from two workers.

usage: batches.py BATCHES DIRECTORY
Prints the batches per second of the last BATCHES; the first ones, while the workers start, are not timed. A sample is
ready before the first batch: what remains is the copy that PyTorch makes into a new segment, and the hand-over. Fails
if a batch seen before or after the timed ones is not a file in DIRECTORY.
"""
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

WARM = 40


class Ready(Dataset):
    def __init__(self, samples):
        self.samples = samples
        self.sample = torch.rand(3, 224, 224)

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        return self.sample


def place(batch):
    """The file that this process has mapped for `batch`, as /proc/self/maps names it."""
    address = batch.data_ptr()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            low, high = (int(bound, 16) for bound in line.split(" ", 1)[0].split("-"))
            if low <= address < high:
                return line.split(None, 5)[5].strip()
    raise LookupError("a batch that is not mapped")


def main():
    timed, directory = int(sys.argv[1]), sys.argv[2]
    after = 5
    count = WARM + timed + after
    loader = DataLoader(Ready(32 * count), batch_size=32, num_workers=2)
    start = end = 0.0
    for index, batch in enumerate(loader):
        if index < WARM or index >= WARM + timed:
            where = place(batch)
            if not where.startswith(directory + "/"):
                sys.exit(f"batch {index} lies in {where}, not in {directory}: this is not what was to be measured")
        if index == WARM - 1:
            start = time.monotonic()
        elif index == WARM + timed - 1:
            end = time.monotonic()
    print(timed / (end - start))


if __name__ == "__main__":
    main()
