#!/usr/bin/env python3
"""Makes the report of a folder of comparison results.

    benches/report.py benches/results/2026-11-23-amd-epyc

reads every *.jsonl of the folder (the lines that `compare run --out FILE` writes; subfolders are not
read) and writes into the same folder

    report.md   tables, targets, every figure in which another engine is ahead, failures, runs
    SET.svg     a chart of each set of pages

The same lines give the same bytes. `benches/test_report.py` holds the committed reports equal to
their results, and the tables of docs/BENCHMARKS.md equal to the reports.

A line with an unknown kind, engine, set or workload is an error: a figure that silently fell out of
the report would look like one that nobody lost.
"""

import argparse
import json
import re
import sys
import textwrap
from collections import namedtuple
from pathlib import Path

# The vocabulary: engines in the order of tables, workloads, and the figures that rank engines.

LIMIT, FIO = "limit", "fio"
FILEMAP, PLAIN, CACHED = OURS = ("filemap", "filemap-plain", "filemap-cached")
OTHERS = ("lmdb", "fjall", "redb", "rocksdb", "sqlite", "candystore", "file-per-page", "warc")
ENGINES = (LIMIT, *OURS, *OTHERS, FIO)
# Engines that a user could pick.
PICKS = OURS + OTHERS
NAMES = {
    LIMIT: "no engine but a bare loop: the same zstd level, an append, a hash map in memory",
    FILEMAP: "default options, with dictionaries",
    PLAIN: "without dictionaries, at the others' zstd level",
    CACHED: "default options and a value cache as large as the others' caches",
    FIO: "the device's own random reads",
}

MIXES = ("ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f")
WORKLOADS = ("load", "reopen", "warm", "miss", "cold", "depth", *MIXES, "overwrite", "delete",
             "kill", "durable", "squeeze")
# A failure may also belong to all mixes of YCSB or to an engine's whole turn.
STAGES = WORKLOADS + ("ycsb", "turn", "close")
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
CORPUS, MILLION, TEN_MILLION = "corpus", "generated-1m", "generated-10m"

# `says` is the name for people; `per` is how many raw units make one of `unit`.
Figure = namedtuple("Figure", "workload name says unit per more")


def figure(workload, name, says, unit):
    per = 1e6 if unit == "MB" else 1
    return Figure(workload, name, says, unit, per, unit.endswith("/s"))


def ycsb_figures(mix):
    says = mix.upper().replace("-", " ")
    rows = [("per_s", "", "/s"), ("p50_us", " p50", "us"), ("p99_us", " p99", "us"),
            ("p999_us", " p99.9", "us")]
    if mix != "ycsb-c":
        rows += [("read_p999_us", " p99.9 of reads", "us"),
                 ("write_p999_us", " p99.9 of writes", "us")]
    return [figure(mix, name, says + suffix, unit) for name, suffix, unit in rows]


# A figure that says the same as another in another unit, or only explains one, is not ranked.
FIGURES = [
    figure("load", "mb_per_s", "load", "MB/s"),
    figure("load", "put_p50_us", "put p50", "us"),
    figure("load", "put_p99_us", "put p99", "us"),
    figure("load", "put_p999_us", "put p99.9", "us"),
    figure("load", "put_p9999_us", "put p99.99", "us"),
    figure("load", "put_max_ms", "longest put", "ms"),
    figure("load", "written_bytes", "written by the load", "MB"),
    figure("load", "disk_bytes", "disk after the load", "MB"),
    figure("load", "anonymous_bytes", "anonymous memory after the load", "MB"),
    figure("load", "mapped_bytes", "mapped memory after the load", "MB"),
    figure("reopen", "clean_ms", "clean reopen", "ms"),
    figure("warm", "per_s", "warm get", "/s"),
    figure("warm", "p50_us", "warm get p50", "us"),
    figure("warm", "p99_us", "warm get p99", "us"),
    figure("warm", "p999_us", "warm get p99.9", "us"),
    figure("warm", "anonymous_bytes", "anonymous memory after warm gets", "MB"),
    figure("warm", "mapped_bytes", "mapped memory after warm gets", "MB"),
    figure("miss", "us", "absent key", "us"),
    figure("cold", "per_s", "cold get", "/s"),
    figure("cold", "reads_per_get", "reads a cold get", ""),
    figure("cold", "bytes_per_get", "bytes a cold get", "B"),
    figure("cold", "p50_us", "cold get p50", "us"),
    figure("cold", "p99_us", "cold get p99", "us"),
    figure("cold", "index_cached_reads_per_get", "reads a get with the index cached", ""),
    figure("cold", "index_cached_per_s", "get with the index cached", "/s"),
    *[figure("depth", f"depth_{n}", f"cold gets at depth {n}", "/s") for n in DEPTHS],
    *[figure("depth", f"indexed_{n}", f"gets with the index cached at depth {n}", "/s")
      for n in DEPTHS],
    *[row for mix in MIXES for row in ycsb_figures(mix)],
    figure("overwrite", "puts_per_s", "overwriting puts", "/s"),
    figure("overwrite", "written_bytes", "written by overwriting", "MB"),
    figure("overwrite", "write_amplification", "write amplification", ""),
    figure("overwrite", "disk_bytes", "disk after overwriting", "MB"),
    figure("delete", "seconds", "delete half and reclaim", "s"),
    figure("delete", "disk_after_bytes", "disk after the delete", "MB"),
    figure("kill", "open_ms", "reopen after kill -9", "ms"),
    figure("kill", "lost", "pages lost by kill -9", ""),
    *[figure("durable", f"{name}_{n}", f"durable put{says}, {n} thread{'s' * (n > 1)}", unit)
      for n in (1, 8)
      for name, says, unit in (("per_s", "", "/s"), ("p50_us", " p50", "us"),
                               ("p99_us", " p99", "us"))],
    *[figure("squeeze", f"per_s_{n}", f"get in memory of {n}% of the index", "/s")
      for n in (100, 50, 25)],
]
BY_NAME = {(f.workload, f.name): f for f in FIGURES}


def ahead(of, one, other):
    """Is `one` strictly better than `other`?"""
    return one > other if of.more else one < other


# The raw results.

Rounds = namedtuple("Rounds", "median min max count")
Size = namedtuple("Size", "pages raw_bytes")


def rounds(values):
    """Median (the mean of the middle two), least, most and number; None of no values."""
    if not values:
        return None
    values = sorted(values)
    count = len(values)
    middle = (values[(count - 1) // 2] + values[count // 2]) / 2
    return Rounds(middle, values[0], values[-1], count)


def spread(of):
    """Most less least, by the median; None if that is zero."""
    return (of.max - of.min) / abs(of.median) if of.median else None


def overlap(one, other):
    """Can the order of the two be chance? Only several rounds can tell."""
    several = one.count > 1 and other.count > 1
    return several and one.min <= other.max and other.min <= one.max


def order_of(name):
    """The corpus, then generated sets by size; None if the name is neither."""
    if name == CORPUS:
        return 0
    found = re.fullmatch(r"generated-(\d+)([km]?)", name)
    return int(found[1]) * {"k": 1_000, "m": 1_000_000, "": 1}[found[2]] if found else None


def host_of(machine):
    memory = number(machine["memory_bytes"] / 1e9)
    return (f"{machine['cpu']}, {machine['cores']} cores, {memory} GB of memory, "
            f"Linux {machine['kernel']}, {machine['file_system']}")


class Refused(Exception):
    """A line that is not understood."""


class Data:
    """All lines that were read."""

    def __init__(self):
        self.machines, self.engines, self.skipped, self.failures, self.homeless = [], [], [], [], []
        self.values, self.sizes, self.hosts = {}, {}, {}

    def read(self, name, text):
        """Takes in a file's text; its name is for errors."""
        machine = None
        for at, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                line = json.loads(line)
                if line["kind"] == "machine":
                    machine = line
                self.take(line, machine)
            except (Refused, ValueError) as error:
                raise Refused(f"{name}:{at}: {error}") from None
            except (KeyError, TypeError) as error:
                raise Refused(f"{name}:{at}: no line of `compare run`: {error} is missing") from None
        if machine is None:
            self.homeless.append(name)

    def take(self, line, machine):
        kind = line["kind"]
        if kind == "machine":
            host_of(line)
            if line in self.machines:
                raise Refused(f"the run of {line['date']} is there already: give each file once")
            self.machines.append(line)
        elif kind == "engine":
            self.known(line, sets=False)
            if line not in self.engines:
                self.engines.append(line)
        elif kind == "result":
            self.known(line, WORKLOADS)
            self.take_result(line, machine)
        elif kind == "skipped":
            self.known(line, STAGES)
            self.skipped.append((line["engine"], line["set"], line["workload"], line["why"]))
        elif kind == "failure":
            self.known(line, STAGES)
            self.failures.append((line["engine"], line["set"], line["workload"], line["what"]))
        else:
            raise Refused(f"unknown kind {kind!r}")

    @staticmethod
    def known(line, workloads=(), sets=True):
        if line["engine"] not in ENGINES:
            raise Refused(f"unknown engine {line['engine']!r}: correct it or add it to ENGINES")
        if sets and order_of(line["set"]) is None:
            raise Refused(f"unknown set {line['set']!r}: it is corpus or generated-N")
        if workloads and line["workload"] not in workloads:
            raise Refused(f"unknown workload {line['workload']!r}: correct it or add it to WORKLOADS")

    def take_result(self, line, machine):
        name, engine = line["set"], line["engine"]
        if line["round"] < 1:
            raise Refused(f"round 0 of {line['workload']}: they count from 1")
        size = Size(line["pages"], line["raw_bytes"])
        known = self.sizes.setdefault((name, engine), size)
        if known != size:
            raise Refused(f"{engine} has {size.pages} pages of {name} here and {known.pages} before")
        if machine:
            self.hosts.setdefault(name, set()).add(host_of(machine))
        for figure_name, value in line["figures"].items():
            key = (name, engine, line["workload"], figure_name)
            self.values.setdefault(key, []).append(float(value))

    def sets(self):
        return sorted({name for name, _ in self.sizes}, key=order_of)

    def raw(self, name, engine, workload, figure_name):
        """The rounds of a figure, in raw units."""
        return rounds(self.values.get((name, engine, workload, figure_name)))

    def rounds(self, name, engine, of):
        return self.raw(name, engine, of.workload, of.name)

    def median(self, name, engine, of):
        found = self.rounds(name, engine, of)
        return found and found.median

    def best(self, name, of, engines):
        """The engine with the best median and that median; None if no engine has the figure."""
        best = None
        for engine in engines:
            median = self.median(name, engine, of)
            if median is not None and (best is None or ahead(of, median, best[1])):
                best = (engine, median)
        return best

    def is_best(self, name, engine, of):
        """Has the engine the best median of those that a user could pick, if there are several?"""
        several = sum(self.rounds(name, pick, of) is not None for pick in PICKS) > 1
        median = self.median(name, engine, of)
        return several and engine in PICKS and median == self.best(name, of, PICKS)[1]

    def size(self, name):
        """The most that any engine was given of the set."""
        return max(size for (of_set, _), size in self.sizes.items() if of_set == name)

    def failed(self, name, engine, workload):
        def concerns(stage):
            return stage in ("turn", "close", workload) or stage == "ycsb" and workload in MIXES
        return any((e, s) == (engine, name) and concerns(stage) for e, s, stage, _ in self.failures)

    def fio(self, name, depth):
        found = self.raw(name, FIO, "depth", f"fio_{depth}")
        return found.median if found and found.median > 0 else None


# Markdown.

def number(value):
    """Three digits, and thousands parted."""
    size = abs(value)
    digits = 0
    if value != int(value):
        bounds = (99.95, 9.995, 0.9995, 0.0995)
        digits = sum(size < bound for bound in bounds)
    return f"{value:,.{digits}f}"


def with_unit(value, unit):
    return number(value) + ("" if not unit or unit.startswith("/") else " ") + unit


def say(of, raw):
    return with_unit(raw / of.per, of.unit)


def plain(words):
    """Words from elsewhere in a cell: nothing that would end the row."""
    return " ".join(str(words).split()).replace("|", "\\|").replace("<!--", "&lt;!--")


def table(head, rows):
    """A table with a blank line behind it; nothing without rows."""
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(plain, line)) + " |\n" for line in lines) + "\n"


# The tables: one a workload. A cell may hold several figures, each ranked by itself.

def figures(workload, *names):
    return [BY_NAME[workload, name] for name in names]


TABLES = [
    ("Load", [
        ("MB/s", figures("load", "mb_per_s")),
        ("put p50 / p99 us", figures("load", "put_p50_us", "put_p99_us")),
        ("p99.9 / p99.99 us", figures("load", "put_p999_us", "put_p9999_us")),
        ("longest ms", figures("load", "put_max_ms")),
        ("disk MB", figures("load", "disk_bytes")),
        ("written MB", figures("load", "written_bytes")),
        ("anonymous / mapped MB", figures("load", "anonymous_bytes", "mapped_bytes")),
    ]),
    ("Warm get", [
        ("gets/s", figures("warm", "per_s")),
        ("p50 / p99 / p99.9 us", figures("warm", "p50_us", "p99_us", "p999_us")),
        ("absent key us", figures("miss", "us")),
        ("anonymous / mapped MB", figures("warm", "anonymous_bytes", "mapped_bytes")),
    ]),
    ("Cold get", [
        ("gets/s", figures("cold", "per_s")),
        ("p50 / p99 us", figures("cold", "p50_us", "p99_us")),
        ("device reads a get", figures("cold", "reads_per_get")),
        ("index cached: gets/s", figures("cold", "index_cached_per_s")),
        ("reads a get", figures("cold", "index_cached_reads_per_get")),
    ]),
    ("depth", []),
    ("YCSB, Zipfian keys: operations/s / p99.9 us",
     [(mix[5:].upper(), figures(mix, "per_s", "p999_us")) for mix in MIXES]),
    ("Overwrite every page three times, then delete half", [
        ("puts/s", figures("overwrite", "puts_per_s")),
        ("write amplification", figures("overwrite", "write_amplification")),
        ("disk MB", figures("overwrite", "disk_bytes")),
        ("delete s", figures("delete", "seconds")),
        ("disk MB then", figures("delete", "disk_after_bytes")),
    ]),
    ("Open", [
        ("clean ms", figures("reopen", "clean_ms")),
        ("after kill -9 ms", figures("kill", "open_ms")),
        ("synced pages lost", figures("kill", "lost")),
    ]),
    ("Durable put, 1 / 8 threads", [
        ("puts/s", figures("durable", "per_s_1", "per_s_8")),
        ("p50 us", figures("durable", "p50_us_1", "p50_us_8")),
        ("p99 us", figures("durable", "p99_us_1", "p99_us_8")),
    ]),
    ("Gets/s with memory for a part of the index",
     [(f"{n}%", figures("squeeze", f"per_s_{n}")) for n in (100, 50, 25)]),
]
DASH = "–"


def cell(data, name, engine, ranked):
    """The medians of some figures, the best of an engine in bold; a dash if there is none."""
    def part(of):
        median = data.median(name, engine, of)
        if median is None:
            return DASH
        words = number(median / of.per)
        return f"**{words}**" if data.is_best(name, engine, of) else words
    parts = [part(of) for of in ranked]
    return DASH if set(parts) == {DASH} else " / ".join(parts)


def tables_of(data, name):
    out = ""
    for title, columns in TABLES:
        if title == "depth":
            out += depth_tables(data, name)
            continue
        rows = ranked_rows(data, name, columns)
        if rows:
            ranked = [of for _, some in columns for of in some]
            out += f"### {title}\n\n" + table(["engine", *[head for head, _ in columns]], rows)
            out += notes_of(data, name, ranked)
    return out


def ranked_rows(data, name, columns):
    rows = []
    for engine in ENGINES:
        cells = [cell(data, name, engine, ranked) for _, ranked in columns]
        if set(cells) == {DASH}:
            continue
        workloads = {of.workload for _, ranked in columns for of in ranked}
        dagger = " †" if any(data.failed(name, engine, workload) for workload in workloads) else ""
        given = data.sizes[name, engine].pages
        fewer = f" ({given:,} pages)" if given < data.size(name).pages else ""
        rows.append([engine + dagger + fewer, *cells])
    return rows


def depth_tables(data, name):
    out = ""
    titles = (("depth", "Cold get by depth: gets/s, and their share of fio's reads/s"),
              ("indexed", "The same with the index cached, where it has files of its own"))
    for what, title in titles:
        ranked = figures("depth", *[f"{what}_{depth}" for depth in DEPTHS])
        rows = []
        for engine in ENGINES:
            cells = []
            for depth, of in zip(DEPTHS, ranked):
                median, fio = data.median(name, engine, of), data.fio(name, depth)
                share = f" ({median / fio:.2f})" if median is not None and fio else ""
                cells.append(cell(data, name, engine, [of]) + share)
            if set(cells) != {DASH}:
                rows.append([engine, *cells])
        if rows:
            fio = [data.fio(name, depth) for depth in DEPTHS]
            if any(fio):
                rows.insert(0, [FIO, *[number(rate) if rate else DASH for rate in fio]])
            out += f"### {title}\n\n" + table(["engine", *DEPTHS], rows)
            out += notes_of(data, name, ranked)
    return out


def notes_of(data, name, ranked):
    """The engine whose rounds lie farthest apart, figure by figure; what the marks mean."""
    widest = []
    for of in ranked:
        all_rounds = [(engine, data.rounds(name, engine, of)) for engine in ENGINES]
        wide = [(spread(found) or 0, engine, found) for engine, found in all_rounds if found]
        wide = [row for row in wide if row[0] >= 0.005]
        if wide:
            far, engine, found = max(wide, key=lambda row: row[0])
            least, most = number(found.min / of.per), number(found.max / of.per)
            widest.append(f"{of.says} {least}–{most} ({engine}, {far:.0%})")
    out = f"Widest spread of the rounds: {'; '.join(widest)}.\n\n" if widest else ""
    workloads = {of.workload for of in ranked}
    if any(data.failed(name, engine, workload) for engine in ENGINES for workload in workloads):
        out += "† Failed: see *Failures*.\n\n"
    return out


# The targets. With and without dictionaries are judged each; none is chosen afterwards.

Target = namedtuple("Target", "name wanted set engine measured met notes")


class Look:
    """One figure of one of our variants on one set, held against its target."""

    def __init__(self, data, name, engine, workload, figure_name, title=None):
        self.data, self.set, self.engine = data, name, engine
        self.of = BY_NAME[workload, figure_name]
        self.title = title or self.of.says
        self.ours = data.median(name, engine, self.of)

    def target(self, wanted, found, notes=()):
        """`found` is the words and whether they are as wanted, or None if a figure is missing."""
        notes = list(notes)
        if self.data.failed(self.set, self.engine, self.of.workload):
            notes.append("with failures, see below")
        if found is None:
            found = (DASH if self.ours is None else say(self.of, self.ours), None)
        return Target(self.title, wanted, self.set, self.engine, *found, notes)

    def at_most(self, wanted, most):
        found = None if self.ours is None else (say(self.of, self.ours), self.ours <= most)
        return self.target(wanted, found)

    def beside(self, wanted, holds, whose, theirs, notes=()):
        found = None
        if self.ours is not None and theirs is not None:
            words = f"{say(self.of, self.ours)}; {whose} {say(self.of, theirs)}"
            found = (words + ratio(self.ours, theirs), holds(self.ours, theirs))
        return self.target(wanted, found, notes if found and found[1] else ())

    def beside_others(self, wanted, holds):
        whose, theirs = self.data.best(self.set, self.of, OTHERS) or (None, None)
        return self.beside(wanted, holds, whose, theirs, self.absent())

    def first(self, wanted):
        return self.beside_others(wanted, lambda ours, theirs: ahead(self.of, ours, theirs))

    def absent(self):
        """The other engines without such a figure: a target met says so."""
        absent = [other for other in OTHERS if self.data.rounds(self.set, other, self.of) is None]
        return [f"without {', '.join(absent)}"] if absent else []


def ratio(ours, theirs):
    if not theirs:
        return ""
    # A digit more than elsewhere: it decides near the target.
    value = ours / theirs
    return f": {value:.3f}" if value < 10 else f": {number(value)}"


VARIANTS = (FILEMAP, PLAIN)


def looks(data, workload, figure_name, cached=False, title=None):
    """One a set and variant; of no set a row without figures, so that no target is forgotten."""
    def has(name, engine):
        return data.raw(name, engine, workload, figure_name) is not None
    names = [name for name in data.sets() if any(has(name, engine) for engine in VARIANTS)]
    all_looks = [Look(data, name, engine, workload, figure_name, title)
                 for name in names or ["any"] for engine in VARIANTS]
    if cached:
        all_looks += [Look(data, name, CACHED, workload, figure_name, title)
                      for name in names if has(name, CACHED)]
    return all_looks


def targets(data):
    load = looks(data, "load", "mb_per_s")
    for look in load:
        limit = data.median(look.set, LIMIT, look.of)
        yield look.beside(">= 0.95x the limit", lambda a, b: a >= 0.95 * b, LIMIT, limit)
    for look in load:
        yield look.first("ahead of every engine")
    for look in looks(data, "warm", "per_s", cached=True):
        if look.engine == FILEMAP:
            yield look.beside_others("with dictionaries >= 0.9x the best", lambda a, b: a >= 0.9 * b)
        else:
            yield look.beside_others(">= 1.0x the best", lambda a, b: a >= b)
    for engine in VARIANTS:
        miss = Look(data, TEN_MILLION, engine, "miss", "us")
        yield miss.at_most("<= 0.25 us at 10 M keys", 0.25)
    for engine in VARIANTS:
        cold = Look(data, TEN_MILLION, engine, "cold", "per_s")
        yield cold.first("ahead of every engine at 10 M")
    for engine in VARIANTS:
        reads = Look(data, TEN_MILLION, engine, "cold", "index_cached_reads_per_get")
        yield reads.at_most("<= 1.05 at 10 M", 1.05)
    yield from depth_targets(data)
    for look in looks(data, "load", "disk_bytes"):
        yield look.first("smaller than every engine")
    sets = ((CORPUS, "<= 1.1 on the corpus", 1.1), (TEN_MILLION, "<= 1.3 at 10 M", 1.3))
    for name, wanted, most in sets:
        for engine in VARIANTS:
            yield written(data, name, engine, wanted, most)
    title = "write amplification of overwriting"
    for look in looks(data, "overwrite", "write_amplification", title=title):
        yield look.at_most("<= 2.5 in random order", 2.5)
    for look in looks(data, "kill", "open_ms"):
        target = look.beside_others("first, or within 50 ms of the first", lambda a, b: a <= b + 50)
        lost = data.raw(look.set, look.engine, "kill", "lost")
        if lost and lost.max > 0:
            target.notes.append(f"but lost {number(lost.max)} synced pages")
        yield target
    for look in looks(data, "durable", "per_s_8"):
        yield look.beside_others(">= the best", lambda a, b: a >= b)
    for mix in MIXES:
        for look in looks(data, mix, "per_s", cached=True):
            yield ycsb_target(data, look)
    for workload, name in (("warm", "per_s"), ("miss", "us"), ("ycsb-c", "per_s")):
        for engine in VARIANTS:
            yield flat(data, engine, workload, name)


def depth_targets(data):
    """The worst depth decides."""
    names = [name for name in data.sets() if any(data.fio(name, depth) for depth in DEPTHS)]
    for name in names or ["any"]:
        for engine in VARIANTS:
            look = Look(data, name, engine, "depth", "depth_1", "get_many")
            shares = {}
            for depth in DEPTHS:
                # A get reads as much as fio when the index is cached.
                ours = (data.raw(name, engine, "depth", f"indexed_{depth}")
                        or data.raw(name, engine, "depth", f"depth_{depth}"))
                fio = data.fio(name, depth)
                if ours and fio:
                    shares[depth] = ours.median / fio
            found, notes = None, []
            if shares:
                worst = min(shares, key=shares.get)
                found = (f"{shares[worst]:.3f} of fio at depth {worst}, "
                         f"up to {max(shares.values()):.3f} at others", shares[worst] >= 0.9)
                absent = [str(depth) for depth in DEPTHS if depth not in shares]
                if absent and found[1]:
                    notes = [f"without depths {', '.join(absent)}"]
            yield look.target(">= 0.9x fio at the same depth", found, notes)


def written(data, name, engine, wanted, most):
    look = Look(data, name, engine, "load", "written_bytes", "written per byte of value log")
    log = data.raw(name, engine, "load", "value_log_bytes")
    found = None
    if look.ours is not None and log and log.median > 0:
        words = f"{say(look.of, look.ours)} of {say(look.of, log.median)}"
        found = (words + ratio(look.ours, log.median), look.ours / log.median <= most)
    return look.target(wanted, found)


def ycsb_target(data, rate):
    tail = Look(data, rate.set, rate.engine, rate.of.workload, "p999_us")
    words, met = [], True
    for look, prefix in ((rate, ""), (tail, "p99.9 ")):
        best = data.best(look.set, look.of, OTHERS)
        if look.ours is None or best is None:
            return rate.target("first in throughput and in p99.9", None)
        whose, theirs = best
        behind = ahead(look.of, theirs, look.ours)
        met = met and not behind
        words.append(f"{prefix}{say(look.of, look.ours)}; {whose} {say(look.of, theirs)}"
                     + (" (behind)" if behind else ""))
    notes = rate.absent() if met else []
    return rate.target("first in throughput and in p99.9", (". ".join(words), met), notes)


def flat(data, engine, workload, name):
    """The rate at 10 M by that at 1 M; of a time, one over it."""
    large = Look(data, TEN_MILLION, engine, workload, name)
    large.title = f"flat: {large.of.says}"
    hosts = data.hosts.get(TEN_MILLION, set())
    if hosts != data.hosts.get(MILLION, set()) or len(hosts) > 1:
        return large.target("10 M >= 0.8x of 1 M", None, ["on different machines"])
    small = data.median(MILLION, engine, large.of)
    found = None
    if small and large.ours:
        share = large.ours / small if large.of.more else small / large.ours
        words = f"{say(large.of, large.ours)}; {say(large.of, small)} at 1 M: {share:.3f}"
        found = (words, share >= 0.8)
    return large.target("10 M >= 0.8x of 1 M", found)


VERDICTS = {True: "met", False: "**missed**", None: "not measured"}


def targets_section(data):
    all_targets = list(targets(data))
    rows = []
    for target in all_targets:
        notes = f" ({'; '.join(target.notes)})" if target.notes else ""
        rows.append([target.name, target.wanted, target.set, target.engine, target.measured,
                     VERDICTS[target.met] + notes])
    count = {met: sum(target.met is met for target in all_targets) for met in VERDICTS}
    return (f"{count[True]} met, {count[False]} missed, {count[None]} not measured. `filemap` and "
            "`filemap-plain` are judged in all; `filemap-cached` in warm gets and YCSB alone, where "
            "other engines' caches of expanded pages count too. A target met names the engines that "
            "were not measured.\n\n"
            + table(["figure", "target", "set", "engine", "measured", "result"], rows))


# Figures that speak against FileMap.

Loss = namedtuple("Loss", "figure engine ours ahead")


def losses(data, name):
    """Number of our figures with another engine's beside them, and those that are behind."""
    compared, lost = 0, []
    for of in FIGURES:
        theirs = [(other, data.rounds(name, other, of)) for other in OTHERS]
        theirs = [(other, found) for other, found in theirs if found]
        for engine in OURS:
            ours = data.rounds(name, engine, of)
            if ours is None or not theirs:
                continue
            compared += 1
            better = [row for row in theirs if ahead(of, row[1].median, ours.median)]
            better.sort(key=lambda row: -row[1].median if of.more else row[1].median)
            if better:
                lost.append(Loss(of, engine, ours, better))
    return compared, lost


def ahead_words(loss):
    words = []
    for other, theirs in loss.ahead:
        more, less = theirs.median, loss.ours.median
        if not loss.figure.more:
            more, less = less, more
        value = f"{other} {number(theirs.median / loss.figure.per)}"
        # Nothing is so many times better than 0.
        if less > 0:
            chance = "~" if overlap(theirs, loss.ours) else ""
            value += f" ({chance}{more / less:.2f}x)"
        words.append(value)
    return ", ".join(words)


def losses_section(data):
    compared, lost, out = 0, 0, ""
    for name in data.sets():
        of_set, rows = losses(data, name)
        compared, lost = compared + of_set, lost + len(rows)
        rows = [[loss.figure.says, loss.engine, say(loss.figure, loss.ours.median),
                 ahead_words(loss)] for loss in rows]
        if rows:
            out += f"### {name}\n\n" + table(["figure", "engine", "ours", "ahead"], rows)
    return (f"Another engine is ahead in {lost} of {compared} figures. In brackets how many times "
            "better it is; `~` where the rounds of the two overlap, so that it may be chance.\n\n"
            + out)


def failures_section(data):
    rows = []
    for name in data.sets():
        for engine in ENGINES:
            lost = data.raw(name, engine, "kill", "lost")
            if lost and lost.max > 0:
                what = f"lost {number(lost.max)} pages that were acknowledged and synced"
                rows.append([engine, name, "kill", what])
    rows += data.failures
    return table(["engine", "set", "workload", "what"], rows) or "None was recorded.\n\n"


def skipped_section(data):
    grouped = {}
    for engine, name, workload, why in data.skipped:
        workloads = grouped.setdefault((engine, name, why), [])
        if workload not in workloads:
            workloads.append(workload)
    rows = [[engine, name, ", ".join(grouped[engine, name, why]), why]
            for engine, name, why in sorted(grouped, key=lambda g: (order_of(g[1]),
                                                                    ENGINES.index(g[0]), g[2]))]
    return table(["engine", "set", "left out", "why"], rows) or "Nothing.\n\n"


def preface(data):
    out = ""
    for name in data.sets():
        size = data.size(name)
        counts = [len(values) for (of_set, engine, *_), values in data.values.items()
                  if of_set == name and engine != FIO]
        least, most = min(counts, default=0), max(counts, default=0)
        many = f"{most} round{'s' * (most != 1)}"
        many = many if least == most else f"{least} to {many}"
        hosts = "; ".join(sorted(data.hosts.get(name, ["a machine that is not recorded"])))
        out += (f"- **{name}**: {size.pages:,} pages, {number(size.raw_bytes / 1e6)} MB, {many}; "
                f"on {plain(hosts)}.\n")
        if len(data.hosts.get(name, ())) > 1:
            out += "  **These are several machines: their figures do not compare.**\n"
    out += "\nA figure is the median of its rounds; the best engine's is bold. MB are 10^6 bytes.\n"
    if len({frozenset(data.hosts.get(name, ())) for name in data.sets()}) > 1:
        out += "Sets of different machines do not compare; engines within a set do.\n"
    for name in data.homeless:
        out += f"**{plain(name)} does not say where it was measured.**\n"
    return out


def engines_section(data):
    keys = ("version", "settings", "compression")
    in_order = sorted(data.engines, key=lambda line: ENGINES.index(line["engine"]))
    rows = [[line["engine"], *[line[key] for key in keys]] for line in in_order]
    names = "".join(f"- `{name}`: {says}.\n" for name, says in NAMES.items())
    return names + "\n" + table(["engine", *keys], rows)


def runs_section(data):
    rows = []
    for run in sorted(data.machines, key=lambda run: (run["date"], run["command"])):
        command = f"`{run['command'].replace('`', chr(39))}`"
        rows.append([run["date"], run["cpu"], run["commit"][:12] or "not recorded", command])
    return table(["run of", "machine", "commit", "command"], rows) or "None is known.\n\n"


def report(data):
    """report.md as text."""
    parts = ["# Comparison: report\n\nMade by `benches/report.py` from the results in this folder. "
             "Do not edit.\n\n", preface(data), "\n"]
    for name in data.sets():
        svg = f"![{name}: load, warm get, cold get, YCSB A]({name}.svg)\n\n" if chart(data, name) else ""
        parts.append(f"## {name}\n\n{svg}{tables_of(data, name)}")
    parts += ["## Targets\n\n", targets_section(data), "## Where another engine is ahead\n\n",
              losses_section(data), "## Failures\n\n", failures_section(data),
              "## Left out\n\n", skipped_section(data), "## Engines\n\n", engines_section(data),
              "## Runs\n\n", runs_section(data)]
    return "".join(wrapped(line) + "\n" for line in "".join(parts).rstrip().split("\n"))


def wrapped(line):
    """A line of the report within 99 columns, as all pages are; tables cannot be wrapped."""
    if line.startswith("|"):
        return line
    return textwrap.fill(line, 99, subsequent_indent="  " if line.startswith("- ") else "",
                         break_long_words=False, break_on_hyphens=False)


# The chart of a set: bars of four figures beside each other, each with its own scale.

PANELS = figures("load", "mb_per_s") + figures("warm", "per_s") + figures("cold", "per_s") + \
    figures("ycsb-a", "per_s")
COLOURS = {LIMIT: "#6b7280", FILEMAP: "#2563a8", PLAIN: "#5b8fc7", CACHED: "#1e3a5f"}
NAME_WIDTH, PANEL_WIDTH, ROW, TOP = 120, 240, 22, 60


def escape(words):
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(x, y, words, colour="#111", anchor="start"):
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}" text-anchor="{anchor}">{escape(words)}</text>\n'


def chart(data, name):
    """The SVG of a set, or nothing if it has none of the figures."""
    panels = [of for of in PANELS if any(data.rounds(name, engine, of) for engine in ENGINES)]
    engines = [e for e in ENGINES if any(data.rounds(name, e, of) for of in panels)]
    if not panels:
        return ""
    width, height = NAME_WIDTH + PANEL_WIDTH * len(panels), TOP + ROW * len(engines) + 12
    hosts = "; ".join(sorted(data.hosts.get(name, ())))
    out = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'font-family="sans-serif" font-size="12" role="img">\n<title>{escape(name)}</title>\n'
           f'<rect width="{width}" height="{height}" fill="white"/>\n')
    out += text(width / 2, 18, f"{name}, medians; longer is better. {hosts}", "#555", "middle")
    for row, engine in enumerate(engines):
        colour = COLOURS.get(engine, "#b45309")
        out += text(NAME_WIDTH - 8, TOP + ROW * row + 15, engine, colour, "end")
    for place, of in enumerate(panels):
        left = NAME_WIDTH + PANEL_WIDTH * place
        longest = max(data.median(name, engine, of) or 0 for engine in engines)
        out += text(left, TOP - 10, f"{of.says}, {of.unit}")
        for row, engine in enumerate(engines):
            y, median = TOP + ROW * row, data.median(name, engine, of)
            length = (PANEL_WIDTH - 70) * median / longest if median and longest else 0
            colour = COLOURS.get(engine, "#b45309")
            out += f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="{ROW - 6}" fill="{colour}"/>\n'
            out += text(left + length + 5, y + 15, DASH if median is None else number(median))
    return out + "</svg>\n"


def read_folder(folder):
    """All results of a folder; its subfolders have what no report is made of."""
    data = Data()
    for path in sorted(Path(folder).glob("*.jsonl")):
        data.read(path.name, path.read_text(encoding="utf-8"))
    return data


def outputs(folder):
    """The files of a folder's report: name and text."""
    data = read_folder(folder)
    made = {f"{name}.svg": chart(data, name) for name in data.sets()}
    return {"report.md": report(data), **{name: svg for name, svg in made.items() if svg}}


def main():
    parser = argparse.ArgumentParser(description="Make the report of comparison results.")
    parser.add_argument("folder", nargs="+", help="folder with *.jsonl; gets report.md and charts")
    for folder in parser.parse_args().folder:
        try:
            made = outputs(folder)
        except (Refused, OSError) as error:
            sys.exit(f"report.py: {error}")
        for name, words in made.items():
            (Path(folder) / name).write_text(words, encoding="utf-8")


if __name__ == "__main__":
    main()
