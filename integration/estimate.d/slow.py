#!/usr/bin/env python3
"""A DataLoader whose consumer is slower than its workers, so that all batches drawn ahead lie in shared memory.

    slow.py --workers 4 --prefetch 2 --batch 32 --sample 3x224x224:float32 --sample :int64
    slow.py --workers 4 --prefetch 2 --batch 32 --train examples/train.py --size 224

The consumer does not sleep: it waits until everything that the workers may draw is there, and then takes one batch.
Prints the most bytes that /dev/shm had in use, by statvfs.
"""

import argparse
import importlib.util
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset

PATIENCE = 120  # seconds without progress after which the run has failed


class Tensors(Dataset):
    """Samples of tensors of given shapes and types; a scalar is a Python number, as labels are."""

    def __init__(self, samples, length):
        self.samples = samples
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        sample = []
        for shape, kind in self.samples:
            if shape:
                sample.append(torch.full(shape, index % 100).to(kind))
            else:
                sample.append(float(index) if kind.is_floating_point else index)
        return tuple(sample)


def sample(text):
    shape, _, kind = text.partition(":")
    return [int(side) for side in shape.split("x") if side], getattr(torch, kind or "float32")


def pictures(train, size, length):
    """The data set of a training script, which is left as it is: train.py of the examples."""
    spec = importlib.util.spec_from_file_location("train", train)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Stripes(length, size, 1)


def used():
    """Bytes in use in /dev/shm."""
    told = os.statvfs("/dev/shm")
    return (told.f_blocks - told.f_bfree) * told.f_frsize


def wait_for_all(batches):
    """Waits until every batch that was asked for is in the result queue (or was taken out of it before its turn)."""
    begin = time.monotonic()
    while True:
        early = sum(1 for task in batches._task_info.values() if len(task) == 2)
        if batches._worker_result_queue.qsize() + early >= batches._tasks_outstanding:
            return
        if time.monotonic() - begin > PATIENCE:
            raise SystemExit(f"the workers do not draw: {batches._tasks_outstanding} batches are outstanding")
        time.sleep(0.01)


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--workers", type=int, required=True)
    ask.add_argument("--prefetch", type=int, default=2)
    ask.add_argument("--batch", type=int, required=True)
    ask.add_argument("--sample", type=sample, action="append", dest="samples", help="SHAPE:TYPE of a tensor of a sample")
    ask.add_argument("--train", help="a script whose pictures are drawn instead")
    ask.add_argument("--size", type=int, default=224, help="edge of such a picture")
    ask.add_argument("--strategy", default="file_descriptor")
    ask.add_argument("--keep", type=int, default=1)
    opt = ask.parse_args()

    torch.multiprocessing.set_sharing_strategy(opt.strategy)
    torch.set_num_threads(1)
    count = opt.workers * opt.prefetch + opt.keep + 6
    length = opt.batch * count
    data = pictures(opt.train, opt.size, length) if opt.train else Tensors(opt.samples, length)
    loader = DataLoader(data, batch_size=opt.batch, num_workers=opt.workers, prefetch_factor=opt.prefetch)
    batches = iter(loader)
    wait_for_all(batches)
    peak, hands = used(), []
    for _ in range(count):
        # Let go first: a `for` loop has the last batch until it gets the next, when a quick worker has begun another.
        del hands[:max(0, len(hands) - opt.keep + 1)]
        hands.append(next(batches))
        wait_for_all(batches)
        # What a worker's thread still pickles shows up now or with the next batch: all rounds are alike.
        peak = max(peak, used())
    print(peak)


if __name__ == "__main__":
    main()
