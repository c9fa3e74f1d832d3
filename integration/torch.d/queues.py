"""Passes tensors between processes by torch.multiprocessing queues, in both directions, and
shares a model's parameters; prints one JSON line.

Sharing is checked, not only content: what one side writes into a tensor the other side sees.
"""

import argparse
import hashlib
import json
import queue

import torch
import torch.multiprocessing as mp

ELEMENTS = 5_000_000  # float32: 20 MB a tensor


def make(index):
    return torch.arange(ELEMENTS, dtype=torch.float32) + 31 * index


def digest(tensors):
    taken = hashlib.blake2b()
    for tensor in tensors:
        taken.update(tensor.numpy())
    return taken.hexdigest()


def child(strategy, inbox, outbox, model, count):
    """Takes `count` tensors, marks each, answers with as many of its own."""
    mp.set_sharing_strategy(strategy)
    got = [inbox.get() for _ in range(count)]
    outbox.put(digest(got))
    for index, tensor in enumerate(got):
        tensor[-1] = -index
    model += 1.0
    mine = [make(count + index) for index in range(count)]
    for tensor in mine:
        outbox.put(tensor)
    # The sender's descriptors must live until the other side has them.
    assert inbox.get() == "seen"
    outbox.put([float(tensor[-1]) for tensor in mine])
    assert inbox.get() == "done"


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--strategy", default="file_descriptor")
    ask.add_argument("--context", default="fork")
    ask.add_argument("--count", type=int, default=6)
    opt = ask.parse_args()

    # GNU OpenMP hangs in a forked child whose parent has used its threads before.
    torch.set_num_threads(1)
    mp.set_sharing_strategy(opt.strategy)
    context = mp.get_context(opt.context)
    inbox, outbox = context.Queue(), context.Queue()
    model = torch.zeros(2 * ELEMENTS).share_memory_()
    other = context.Process(target=child, args=(opt.strategy, inbox, outbox, model, opt.count))
    other.start()
    sent = [make(index) for index in range(opt.count)]
    sent_digest = digest(sent)
    for tensor in sent:
        inbox.put(tensor)

    def take():
        """The next answer; an error instead of waiting for ever if the child died."""
        while True:
            try:
                return outbox.get(timeout=1.0)
            except queue.Empty:
                if not other.is_alive():
                    raise SystemExit(f"the child ended early, exit code {other.exitcode}")

    child_digest = take()
    got = [take() for _ in range(opt.count)]
    got_digest = digest(got)
    for index, tensor in enumerate(got):
        tensor[-1] = -100 - index
    inbox.put("seen")
    seen_by_child = take()
    inbox.put("done")
    other.join()
    print(json.dumps({
        "digest": sent_digest + got_digest,
        "child_got_the_same": child_digest == sent_digest,
        "parent_sees_child": [float(tensor[-1]) for tensor in sent] == [-float(i) for i in range(opt.count)],
        "child_sees_parent": seen_by_child == [-100.0 - i for i in range(opt.count)],
        "model_sum": float(model.sum()) / len(model),
        "live_bytes": (2 * opt.count + 2) * ELEMENTS * 4,
        "child_exit": other.exitcode,
    }), flush=True)


if __name__ == "__main__":
    main()
