#!/usr/bin/env python3
"""Times `fm-tool seen add` and `seen check` through a pipe, and prints docs/SEEN.md's two tables.

    benches/seen_pipe.py FM_TOOL LIST [LINES [SEED]]

FM_TOOL is a release build, LIST a file of URLs, one a line. LINES lines (8 million) are made from it: a
URL of the list, drawn evenly, and a number from 0 to 699 as a last path segment, small ones more
often. Each kind of set gets all of them by `add` and again by `check`, under the rules `whatwg` and
`crawl`. Times are processor time a line, `cat` included, so that other work on the machine does not
count. The trie, which never errs, tells what a set has lost.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile

SETS = [
    ("`md5-bitmap`, 2^28 slots", ["--kind", "md5-bitmap"]),
    ("`bloom`, 6 million at 1e-4", ["--kind", "bloom", "--urls", "6000000", "--rate", "1e-4"]),
    ("`bloom`, the same, blocked", ["--kind", "bloom", "--urls", "6000000", "--rate", "1e-4", "--layout", "blocked"]),
    ("`growing`, 1e-4", ["--kind", "growing", "--rate", "1e-4"]),
    ("`trie`", ["--kind", "trie"]),
    ("`disk`, 256 MiB", ["--kind", "disk"]),
]
RULES = ["whatwg", "crawl"]


def make(source, lines, seed, target):
    urls = [line.strip() for line in open(source, "rb") if line.strip()]
    chance = random.Random(seed)
    with open(target, "wb") as out:
        for _ in range(lines):
            out.write(b"%s/%d\n" % (chance.choice(urls), int(700 * chance.random() ** 1.5)))


def piped(source, command):
    """Processor seconds of `cat source | command`, and the command's largest resident size in bytes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    cat = subprocess.Popen(["cat", source], stdout=subprocess.PIPE)
    asked = subprocess.Popen(command, stdin=cat.stdout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cat.stdout.close()
    _, status, usage = os.wait4(asked.pid, 0)
    asked.returncode = os.waitstatus_to_exitcode(status)
    if asked.returncode not in (0, 1) or cat.wait() != 0:
        sys.exit(f"{' '.join(command)} ended with {asked.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, usage.ru_maxrss * 1024


def urls_in(tool, path):
    stat = subprocess.run([tool, "seen", "stat", path, "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(stat)["urls"]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tool, source = os.path.abspath(sys.argv[1]), sys.argv[2]
    lines = int(sys.argv[3]) if len(sys.argv) > 3 else 8_000_000
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "urls")
        make(source, lines, seed, made)
        print(f"{lines} lines, {os.path.getsize(made) / 1e6:.0f} MB")
        rows, urls = {name: [] for name, _ in SETS}, {}
        for rules in RULES:
            for number, (name, options) in enumerate(SETS):
                path = os.path.join(folder, f"{rules}-{number}")
                subprocess.run([tool, "seen", "create", path, "--quiet", *options, "--canonical", rules], check=True, stdout=subprocess.DEVNULL)
                for verb in ["add", "check"]:
                    seconds, largest = piped(made, [tool, "seen", verb, path, "-"])
                    rows[name].append((seconds / lines * 1e6, largest))
                urls[rules, name] = urls_in(tool, path)
    print("\n| set | add, `whatwg` | check, `whatwg` | add, `crawl` | check, `crawl` | process, at most |\n|---|---|---|---|---|---|")
    for name, cells in rows.items():
        largest = max(cell[1] for cell in cells) / 2**20
        print(f"| {name} | " + " | ".join(f"{cell[0]:.2f} us" for cell in cells) + f" | {largest:.0f} MiB |")
    print("\n| set | new URLs called seen, `whatwg` | `crawl` |\n|---|---|---|")
    for name, _ in SETS:
        if name != "`trie`":
            lost = [urls[rules, "`trie`"] - urls[rules, name] for rules in RULES]
            print(f"| {name} | {lost[0]} | {lost[1]} |")
    print("\nDifferent URLs: " + ", ".join(f"{urls[rules, '`trie`']} by `{rules}`" for rules in RULES))


if __name__ == "__main__":
    main()
