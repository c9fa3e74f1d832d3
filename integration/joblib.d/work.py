"""Joblib's process pool (loky): an array that it memory-maps for its workers, and results that come back.

    python3 work.py MIB     an array of MIB mebibytes
"""

import hashlib
import sys

import joblib
import numpy


def part(array, start, stop):
    # Workers get a memory map of the array, not a copy.
    return type(array).__name__, hashlib.sha256(numpy.ascontiguousarray(array[start:stop])).hexdigest()


def scaled(array, factor):
    return array[:250_000] * factor


def main():
    count = int(sys.argv[1]) << 17
    array = numpy.arange(count, dtype=numpy.float64)
    step = count // 8
    with joblib.Parallel(n_jobs=3, max_nbytes="1M") as pool:
        for kind, digest in pool(joblib.delayed(part)(array, start, start + step) for start in range(0, count, step)):
            print(kind, digest)
        results = pool(joblib.delayed(scaled)(array, factor) for factor in range(6))
        print([float(result.sum()) for result in results])


if __name__ == "__main__":
    main()
