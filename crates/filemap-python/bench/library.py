"""Compare the package with the Rust library on one store, in alternating rounds.

    python bench/library.py pages.fm path/to/fm-bench [rounds]

Prints the median of each figure in microseconds a page, and the ratio of library to package.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import filemap


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
        }
        pages = list(store.pages())
    with tempfile.TemporaryDirectory() as folder:
        with filemap.open(Path(folder) / "put.fm", "x") as to:
            start = time.perf_counter()
            for page in pages:
                to.put(page)
            figures["put"] = time.perf_counter() - start
    return {name: seconds * 1e6 / len(urls) for name, seconds in figures.items()}


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
    rounds = [(library(path, fm_bench), package(path)) for _ in range(int(rest[0]) if rest else 5)]
    print(f"{'':10} {'library us':>11} {'package us':>11} {'ratio':>6} {'above us':>9}")
    for name in rounds[0][0]:
        ours = statistics.median(round[1][name] for round in rounds)
        rust = statistics.median(round[0][name] for round in rounds)
        ratio = statistics.median(round[0][name] / round[1][name] for round in rounds)
        above = statistics.median(round[1][name] - round[0][name] for round in rounds)
        print(f"{name:10} {rust:11.2f} {ours:11.2f} {ratio:6.2f} {above:9.2f}")


main()
