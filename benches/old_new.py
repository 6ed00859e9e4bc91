#!/usr/bin/env python3
"""Compares the engine of another revision with that of this checkout, by benches/compare.

    benches/old_new.py OLD_REV [ROUNDS]

Both builds run in turn, on one processor (taskset), with one thread and the page cache kept, so no
root is needed. Printed for each workload:

- throughput: the median over the rounds of new / old;
- instructions: new / old of a call of the engine (put, get), counted by callgrind in a small run.
  Virtual machines rarely have hardware counters, and these calls exclude page generation and
  background threads. Engine: `filemap-plain`, since the time at which a dictionary appears
  changes what a put does.

Needs git, cargo, taskset; valgrind for the instructions. The old revision is checked out with
`git worktree` below the build folder.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Workload: the figure that is its throughput.
RATES = {"load": "mb_per_s", "warm": "per_s", "miss": "per_s", "cold": "per_s",
         "overwrite": "puts_per_s"}
NAMES = {"load": "load", "warm": "get, warm", "miss": "get, absent key",
         "cold": "get after reopen, page cache kept", "overwrite": "overwrite"}
LANE = re.compile(r"engine::filemap::Lane as .*Session>::(put_batch|get_into)")


def run(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, text=True, **more)


def build(checkout, folder, name):
    """The path of `compare`, built from a checkout; its Cargo.lock may change. What both builds
    need is built once."""
    target = folder / "target"
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target))
    manifest = checkout / "benches" / "compare" / "Cargo.toml"
    cargo = os.environ.get("CARGO", "cargo")
    run(cargo, "build", "--release", "--manifest-path", manifest, env=environment)
    return shutil.copy(target / "release" / "compare", folder / name)


def checkout_of(revision, folder):
    if folder.exists():
        run("git", "-C", ROOT, "worktree", "remove", "--force", folder)
    run("git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", folder, revision)
    return folder


def options(place, pages, gets, engine, workloads):
    return ["--dir", place / "stores", "--out", place / "out.jsonl", "--pages", pages,
            "--gets", gets, "--cold-gets", gets, "--threads", 1, "--rounds", 1,
            "--engines", engine, "--workloads", ",".join(workloads), "--keep-page-cache"]


def rates(args, program):
    """One round: workload -> throughput."""
    with tempfile.TemporaryDirectory(dir=args.dir) as place:
        place = Path(place)
        given = options(place, args.pages, args.gets, args.engine, RATES)
        run("taskset", "-c", args.cpu, program, "run", *given, stderr=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]
    failed = [line for line in lines if line["kind"] in ("failure", "skipped")]
    if failed:
        sys.exit(f"old_new.py: {program}: {failed[0]}")
    return {line["workload"]: line["figures"][RATES[line["workload"]]]
            for line in lines if line["kind"] == "result"}


def calls(callgrind):
    """Of the lines of a callgrind.out: (calls, instructions with callees) of put and get."""
    names, callee, cost_follows, found = {}, "", False, {"put_batch": [0, 0], "get_into": [0, 0]}
    for line in callgrind:
        name = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?", line)
        if name:
            if name[3]:
                names[name[2]] = name[3]
            callee = names[name[2]] if name[1] == "cfn" else callee
            continue
        call = LANE.search(callee) if cost_follows or line.startswith("calls=") else None
        if call and cost_follows:
            found[call[1]][1] += int(line.split()[-1])
        elif call:
            found[call[1]][0] += int(line[len("calls="):].split()[0])
        cost_follows = line.startswith("calls=")
    return found


def counted_run(args, program, workload):
    """The calls of a small run of a load and a workload."""
    with tempfile.TemporaryDirectory(dir=args.dir) as place:
        place = Path(place)
        (place / "stores").mkdir()
        turn = ["turn", "--engine", "filemap-plain", "--round", 1]
        given = options(place, args.counted_pages, args.counted_pages, "filemap-plain", [workload])
        out = place / "callgrind.out"
        run("valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}", program, *turn,
            *given, stderr=subprocess.DEVNULL)
        with out.open() as lines:
            found = calls(lines)
    if not found["put_batch"][0]:
        sys.exit(f"old_new.py: callgrind saw no put of {program}")
    return found


def instructions(args, program):
    """Instructions a call, by workload: what a run has beyond the load that begins it."""
    load = counted_run(args, program, "load")
    each = {"load": load["put_batch"][1] / load["put_batch"][0]}
    for workload, name in (("warm", "get_into"), ("miss", "get_into"), ("overwrite", "put_batch")):
        more = counted_run(args, program, workload)[name]
        each[workload] = (more[1] - load[name][1]) / (more[0] - load[name][0])
    return each


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old_rev", help="revision to compare this checkout with")
    parser.add_argument("rounds", nargs="?", type=int, default=9, help="rounds of each (9)")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where stores are made")
    parser.add_argument("--build", type=Path, default=ROOT / "target" / "old_new", help="build folder")
    parser.add_argument("--cpu", default=str(max(os.sched_getaffinity(0))), help="processor (the last)")
    parser.add_argument("--pages", type=int, default=50_000, help="generated pages (50,000)")
    parser.add_argument("--gets", type=int, default=100_000, help="gets of each workload (100,000)")
    parser.add_argument("--counted-pages", type=int, default=2_000, help="pages under callgrind (2,000)")
    parser.add_argument("--engine", default="filemap", help="or filemap-plain, filemap-cached")
    args = parser.parse_args()

    old_checkout = checkout_of(args.old_rev, args.build / "checkout")
    programs = {"old": build(old_checkout, args.build, "old"), "new": build(ROOT, args.build, "new")}
    ratios = {name: [] for name in RATES}
    for number in range(args.rounds):
        # The order of the two changes from round to round.
        order = ("old", "new") if number % 2 == 0 else ("new", "old")
        round_rates = {which: rates(args, programs[which]) for which in order}
        for name in RATES:
            ratios[name].append(round_rates["new"][name] / round_rates["old"][name])
        print(f"round {number + 1}: " + ", ".join(f"{name} {ratios[name][-1]:.3f}" for name in RATES),
              flush=True)
    counts = {}
    if shutil.which("valgrind"):
        counts = {which: instructions(args, program) for which, program in programs.items()}
    else:
        print("valgrind is not there: no instructions are counted")

    print(f"\nnew / old, {args.rounds} rounds on processor {args.cpu}, {args.pages:,} pages; instructions by "
          "callgrind, no hardware counters")
    print("\n| workload | throughput: median | least | most | instructions a call |\n|---|---|---|---|---|")
    for name, values in ratios.items():
        counted = "–"
        if name in counts.get("new", ()):
            old, new = counts["old"][name], counts["new"][name]
            counted = f"{new / old:.4f} ({old:,.0f} to {new:,.0f})"
        print(f"| {NAMES[name]} | {statistics.median(values):.3f} | {min(values):.3f} | "
              f"{max(values):.3f} | {counted} |")


if __name__ == "__main__":
    main()
