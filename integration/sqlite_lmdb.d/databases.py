"""SQLite (WAL, mmap) and LMDB databases in /dev/shm, written by several processes at once.

    python3 databases.py sqlite|lmdb ROWS DIRECTORY     ROWS of 1000 bytes by each of three writers

Prints what a reader finds afterwards. A database that is full ends the program with the library's own error.
"""

import hashlib
import multiprocessing
import os
import shutil
import sqlite3
import sys
from pathlib import Path

WRITERS = 3


def row(writer, number):
    return hashlib.sha256(f"{writer} {number}".encode()).digest() * 31


def open_sqlite(path):
    base = sqlite3.connect(path, timeout=60, isolation_level=None)
    base.execute("pragma journal_mode = wal")
    base.execute("pragma synchronous = off")
    base.execute("pragma mmap_size = 268435456")
    return base


def write_sqlite(path, writer, rows):
    base = open_sqlite(path)
    for start in range(0, rows, 500):
        base.execute("begin immediate")
        for number in range(start, min(start + 500, rows)):
            base.execute("insert into rows values (?, ?, ?)", (writer, number, row(writer, number)))
        base.execute("commit")
    base.close()


def read_sqlite(path):
    base = open_sqlite(path)
    print("sqlite", base.execute("pragma journal_mode").fetchone()[0], base.execute("pragma integrity_check").fetchone()[0])
    digest = hashlib.sha256()
    for _, _, content in base.execute("select writer, number, content from rows order by writer, number"):
        digest.update(content)
    print(base.execute("select count(*) from rows").fetchone()[0], digest.hexdigest())
    base.close()


def sqlite(rows, directory):
    path = directory / "base.sqlite"
    base = open_sqlite(path)
    base.execute("create table rows (writer, number, content, primary key (writer, number))")
    base.close()
    run(write_sqlite, path, rows)
    read_sqlite(path)


def open_lmdb(path, in_directory):
    import lmdb

    # 160 MiB of address space. writemap: the file gets that size at once and is written through the mapping.
    return lmdb.open(str(path), map_size=160 << 20, subdir=in_directory, writemap=in_directory, sync=False)


def write_lmdb(path, writer, rows, in_directory=True):
    base = open_lmdb(path, in_directory)
    for start in range(0, rows, 500):
        with base.begin(write=True) as transaction:
            for number in range(start, min(start + 500, rows)):
                transaction.put(f"{writer:02} {number:08}".encode(), row(writer, number))
    base.close()


def read_lmdb(path, in_directory):
    base = open_lmdb(path, in_directory)
    digest = hashlib.sha256()
    with base.begin() as transaction:
        for _, content in transaction.cursor():
            digest.update(content)
        print("lmdb", in_directory, transaction.stat()["entries"], digest.hexdigest())
    base.close()


def lmdb(rows, directory):
    for in_directory in (False, True):
        path = directory / ("base" if in_directory else "base.mdb")
        run(write_lmdb, path, rows, in_directory)
        read_lmdb(path, in_directory)
        for file in [path, Path(f"{path}-lock")]:
            shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)


def run(write, path, rows, *more):
    writers = [multiprocessing.Process(target=write, args=(path, writer, rows, *more)) for writer in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    ended = [writer.exitcode for writer in writers]
    print("writers ended with", ended)
    if any(ended):
        sys.exit(1)


def main():
    # A process that LMDB has been opened in must not fork.
    multiprocessing.set_start_method("spawn")
    kind, rows, directory = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    {"sqlite": sqlite, "lmdb": lmdb}[kind](rows, directory)
    for file in directory.glob("base*"):
        os.remove(file)


if __name__ == "__main__":
    main()
