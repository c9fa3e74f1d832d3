"""Takes batches from a DataLoader, keeps them alive, and prints one JSON line about them.

digest: BLAKE2 over every byte of every kept batch, taken while all of them are alive;
live_bytes: what they hold; where: bytes of shared mappings of this process by directory.
"""

import argparse
import hashlib
import json
import os
import threading

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    """Tensors of 3 x 224 x 224 float32 (602 112 bytes), no two alike, the same in every run."""

    def __init__(self, count):
        self.count = count
        self.base = torch.arange(3 * 224 * 224, dtype=torch.float32).view(3, 224, 224)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.base + 7919 * index, index


class Batch:
    """A batch with the pin_memory method that DataLoader documents for types of one's own."""

    def __init__(self, items):
        self.data, self.labels = torch.utils.data.default_collate(items)
        self.thread = None

    def pin_memory(self):
        self.data, self.labels = self.data.clone(), self.labels.clone()
        self.thread = threading.current_thread().name
        return self


def pretend_device():
    """What DataLoader asks of a device before it starts its pinning thread (there is no GPU here)."""
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.set_device = lambda device: None
    if hasattr(torch, "accelerator"):
        torch.accelerator.is_available = lambda: True
        torch.accelerator.current_accelerator = lambda: torch.device("cpu")
        torch.accelerator.current_device_index = lambda: 0
        torch.accelerator.set_device_index = lambda device: None


def where():
    """Bytes of this process's shared file mappings, by the directory of the file."""
    found = {}
    with open("/proc/self/maps") as maps:
        for line in maps:
            part = line.rstrip("\n").split(maxsplit=5)
            if len(part) == 6 and part[1][3] == "s":
                start, end = (int(edge, 16) for edge in part[0].split("-"))
                path = part[5][: -len(" (deleted)")] if part[5].endswith(" (deleted)") else part[5]
                folder = os.path.dirname(path)
                found[folder] = found.get(folder, 0) + end - start
    return found


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--strategy", default="file_descriptor")
    ask.add_argument("--context", default="fork")
    ask.add_argument("--workers", type=int, default=2)
    ask.add_argument("--batch", type=int, default=32)
    ask.add_argument("--batches", type=int, default=10)
    ask.add_argument("--epochs", type=int, default=1)
    ask.add_argument("--persistent", action="store_true")
    ask.add_argument("--pin", action="store_true")
    ask.add_argument("--preload-workers", metavar="LIBRARY",
                     help="as in a notebook cell: LD_PRELOAD is set when this process already runs")
    opt = ask.parse_args()

    torch.multiprocessing.set_sharing_strategy(opt.strategy)
    if opt.pin:
        pretend_device()
    loader = DataLoader(
        Numbers(opt.batch * opt.batches),
        batch_size=opt.batch,
        collate_fn=Batch,
        num_workers=opt.workers,
        multiprocessing_context=opt.context,
        persistent_workers=opt.persistent,
        pin_memory=opt.pin,
    )
    if opt.preload_workers:
        os.environ["LD_PRELOAD"] = opt.preload_workers

    digests = []
    for _ in range(opt.epochs):
        kept = list(loader)
        taken = hashlib.blake2b()
        for batch in kept:
            taken.update(batch.data.numpy())
            taken.update(batch.labels.numpy())
        digests.append(taken.hexdigest())
        report = {
            "torch": torch.__version__,
            "digest": digests[0],
            "epochs": len(digests),
            "epochs_alike": len(set(digests)) == 1,
            "batches": len(kept),
            "live_bytes": sum(batch.data.numel() * batch.data.element_size() for batch in kept),
            "where": where(),
            "threads": sorted({str(batch.thread) for batch in kept}),
        }
        del kept, batch
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
