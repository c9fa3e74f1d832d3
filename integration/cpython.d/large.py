"""300 MiB of shared memory among processes, in the ways of the standard library.

    python3 large.py fork|spawn|forkserver

Prints checksums of what the other processes saw; they do not depend on where the memory lies.
"""

import hashlib
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory
from multiprocessing.managers import SharedMemoryManager

MIB = 1 << 20


def fill(name, start, length, seed):
    """Attaches by name, fills a part with bytes that depend on `seed`."""
    segment = shared_memory.SharedMemory(name)
    pattern = hashlib.sha256(bytes([seed])).digest() * (length // 32)
    segment.buf[start:start + length] = pattern
    segment.close()
    return hashlib.sha256(pattern).hexdigest()


def digest(name, start, length):
    segment = shared_memory.SharedMemory(name)
    result = hashlib.sha256(segment.buf[start:start + length]).hexdigest()
    segment.close()
    return result


def add(array, start, step):
    for index in range(start, len(array), step):
        array[index] += index


def in_others(context, call, arguments):
    # Not a Pool: it waits for ever when a process of its dies.
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        return list(pool.map(call, *zip(*arguments)))


def by_name(context):
    """One segment of 128 MiB: filled by four processes, read by four others."""
    segment = shared_memory.SharedMemory(create=True, size=128 * MIB)
    parts = [(segment.name, part * 32 * MIB, 32 * MIB) for part in range(4)]
    written = in_others(context, fill, [(*part, seed) for seed, part in enumerate(parts)])
    read = in_others(context, digest, parts)
    print("by name:", written == read, hashlib.sha256(segment.buf).hexdigest())
    segment.close()
    segment.unlink()


def of_a_manager(context):
    """Twelve segments of 8 MiB that a manager's process makes and removes."""
    with SharedMemoryManager() as manager:
        segments = [manager.SharedMemory(8 * MIB) for _ in range(12)]
        in_others(context, fill, [(segment.name, 0, 8 * MIB, seed) for seed, segment in enumerate(segments)])
        total = hashlib.sha256()
        for segment in segments:
            total.update(segment.buf[:8 * MIB])
        print("of a manager:", total.hexdigest())


def array(context):
    """A shared array of 76 MiB (nameless, inherited or passed on) that two processes change."""
    numbers = context.Array("q", 10_000_000, lock=False)
    step = 10_007
    workers = [context.Process(target=add, args=(numbers, start, step)) for start in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("array:", [worker.exitcode for worker in workers], sum(numbers[index] for index in range(0, len(numbers), step)))
    # Touch all of it: what is not there yet must be had.
    memory = memoryview(numbers).cast("B")
    for offset in range(0, len(memory), 4096):
        memory[offset] = 7
    print("touched:", len(memory))


def main():
    context = multiprocessing.get_context(sys.argv[1])
    by_name(context)
    of_a_manager(context)
    array(context)


if __name__ == "__main__":
    main()
