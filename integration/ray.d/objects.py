"""Objects of a Ray store, made and read by workers.

    python3 objects.py STORE_MIB [DIRECTORY]    DIRECTORY: where the store lies, instead of where Ray wants it
"""

import hashlib
import sys

import numpy
import ray


@ray.remote
def make(number):
    return numpy.full(5_000_000, number, dtype=numpy.float64)


@ray.remote
def digest(array):
    return hashlib.sha256(array).hexdigest()


def main():
    directory = {"_plasma_directory": sys.argv[2]} if len(sys.argv) > 2 else {}
    ray.init(num_cpus=2, object_store_memory=int(sys.argv[1]) << 20, include_dashboard=False, **directory)
    # Five objects of 40 MB, all alive at once.
    made = [make.remote(number) for number in range(5)]
    print(ray.get([digest.remote(array) for array in made]))
    put = ray.put(numpy.arange(5_000_000))
    print(ray.get(digest.remote(put)), float(sum(array.sum() for array in ray.get(made))))
    ray.shutdown()


if __name__ == "__main__":
    main()
