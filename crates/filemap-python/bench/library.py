"""Compare the package with the Rust library on one store, in alternating rounds.

    python bench/library.py pages.fm path/to/fm-bench [rounds]

Prints the median of each figure in microseconds a page, and the ratio of library to package; then
how much faster two processes read the store than one.
"""

import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow

import filemap

# The figure of the library that a figure of the package is compared with, where the names differ:
# a table is compared with heads or pages.
COUNTERPART = {"table": "heads", "bodies": "pages"}


def drain(items: Iterable[object]) -> None:
    for _ in items:
        pass


def fastest(passes: int, work: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(passes):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def batches(table: filemap.Table) -> pyarrow.RecordBatchReader:
    return pyarrow.RecordBatchReader.from_stream(table)


def package(path: str) -> dict[str, float]:
    with filemap.open(path) as store:
        urls = list(store)

        def get() -> None:
            for url in urls:
                store[url]

        figures = {
            "get": fastest(3, get),
            "get_many": fastest(3, lambda: drain(store.get_many(urls))),
            "pages": fastest(3, lambda: drain(store.pages())),
            "heads": fastest(3, lambda: drain(store.heads())),
            "table": fastest(3, lambda: drain(batches(store.to_arrow()))),
            "bodies": fastest(3, lambda: drain(batches(store.to_arrow(["url", "body"])))),
        }
        pages = list(store.pages())
    with tempfile.TemporaryDirectory() as folder:
        with filemap.open(Path(folder) / "put.fm", "x") as to:
            start = time.perf_counter()
            for page in pages:
                to.put(page)
            figures["put"] = time.perf_counter() - start
    return {name: seconds * 1e6 / len(urls) for name, seconds in figures.items()}


def drain_split(split: filemap.Split) -> int:
    return sum(1 for _ in split)


def speedup(path: str, rounds: int) -> float:
    """Returns how much faster two processes read all pages than one: the median of rounds."""
    with filemap.open(path) as store:
        (whole,), halves, urls = store.splits(1), store.splits(2), len(store)
    ratios: list[float] = []
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        # The start of the processes is not measured.
        pool.map(drain_split, halves, chunksize=1)
        for _ in range(rounds):
            times: list[float] = []
            for parts in ([whole], halves):
                start = time.perf_counter()
                read = sum(pool.map(drain_split, parts, chunksize=1))
                times.append(time.perf_counter() - start)
                if read != urls:
                    raise SystemExit(f"{read} of {urls} pages were read")
            ratios.append(times[0] / times[1])
    return statistics.median(ratios)


def library(path: str, fm_bench: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run(
            [fm_bench, "--json", "library", path, "--put", f"{folder}/put.fm"],
            check=True,
            capture_output=True,
        ).stdout
    section = json.loads(out)["library"]
    return {name: section[f"{name} us"] for name in ("get", "get_many", "pages", "heads", "put")}


def main() -> None:
    path, fm_bench, *rest = sys.argv[1:]
    count = int(rest[0]) if rest else 5
    rounds = [(library(path, fm_bench), package(path)) for _ in range(count)]
    print(f"{'':10} {'library us':>11} {'package us':>11} {'ratio':>6} {'above us':>9}")
    for name in rounds[0][1]:
        ours = statistics.median(round[1][name] for round in rounds)
        of = COUNTERPART.get(name, name)
        rust = statistics.median(round[0][of] for round in rounds)
        ratio = statistics.median(round[0][of] / round[1][name] for round in rounds)
        above = statistics.median(round[1][name] - round[0][of] for round in rounds)
        print(f"{name:10} {rust:11.2f} {ours:11.2f} {ratio:6.2f} {above:9.2f}")
    print(f"two processes that read a split each: {speedup(path, count):.2f} times as fast as one")


if __name__ == "__main__":
    main()
