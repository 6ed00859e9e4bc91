#!/usr/bin/env python3
"""Tests of report.py: its arithmetic on made-up results, and the committed reports and tables.

    python3 benches/test_report.py
"""

import json
import re
import unittest
from pathlib import Path
from xml.etree import ElementTree

import report
from report import CACHED, FILEMAP, PLAIN, Data, Refused

BENCHES = Path(__file__).resolve().parent
MACHINE = {"kind": "machine", "date": "2026-11-21T20:00:00Z", "cpu": "AMD EPYC", "cores": 2,
           "memory_bytes": 23000000000, "kernel": "6.18.5", "file_system": "ext4",
           "commit": "abc1234", "command": "compare run --set corpus"}
XEON = dict(MACHINE, cpu="Intel Xeon")
MET, MISSED, NOT_MEASURED = True, False, None


def result(engine, name, workload, pages=1000, **figures):
    return {"kind": "result", "engine": engine, "set": name, "pages": pages,
            "raw_bytes": 20000000, "workload": workload, "round": 1, "figures": figures}


def engine_line(name):
    return {"kind": "engine", "engine": name, "version": f"{name} 1.0", "settings": "defaults",
            "compression": "zstd -3"}


def failure(engine, name, workload, what):
    return {"kind": "failure", "engine": engine, "set": name, "workload": workload, "what": what}


def text_of(lines):
    return "\n".join(json.dumps(line) for line in lines)


def data_of(*lines, name="a.jsonl"):
    data = Data()
    data.read(name, text_of(lines))
    return data


def verdicts(data, wanted):
    return [(t.set, t.engine, t.met) for t in report.targets(data) if t.wanted == wanted]


class Lines(unittest.TestCase):
    """Lines that are read, and lines that are refused."""

    def refused(self, text):
        with self.assertRaises(Refused) as caught:
            Data().read("a.jsonl", text)
        return str(caught.exception)

    def test_medians_are_the_middle_or_the_mean_of_the_middle_two(self):
        self.assertIsNone(report.rounds([]))
        self.assertEqual(report.rounds([3, 1, 2]).median, 2)
        self.assertEqual(report.rounds([4, 1, 2, 3]).median, 2.5)
        rounds = report.rounds([90, 110, 100])
        self.assertEqual(rounds, (100, 90, 110, 3))
        self.assertEqual(report.spread(rounds), 0.2)

    def test_rounds_are_gathered_from_all_files(self):
        data = Data()
        for name, rate in (("a", 10), ("b", 30), ("c", 20)):
            data.read(name, text_of([result("lmdb", "corpus", "warm", per_s=rate)]))
        self.assertEqual(data.raw("corpus", "lmdb", "warm", "per_s"), (20, 10, 30, 3))

    def test_a_set_is_of_the_machines_whose_files_have_its_results(self):
        data = data_of(MACHINE, result("lmdb", "corpus", "warm", per_s=1))
        data.read("b", text_of([XEON, result("lmdb", "generated-1m", "warm", per_s=1)]))
        data.read("c", text_of([result("lmdb", "generated-10m", "warm", per_s=1)]))
        host = "AMD EPYC, 2 cores, 23 GB of memory, Linux 6.18.5, ext4"
        self.assertEqual(data.hosts["corpus"], {host})
        self.assertEqual(data.hosts["generated-1m"], {host.replace("AMD EPYC", "Intel Xeon")})
        self.assertNotIn("generated-10m", data.hosts)
        text = report.preface(data)
        self.assertIn("**c does not say where it was measured.**", text)
        self.assertIn("Sets of different machines do not compare", text)
        self.assertNotIn("several machines", text)
        data.read("d", text_of([dict(XEON, date="later"), result("lmdb", "corpus", "warm")]))
        self.assertIn("**These are several machines", report.preface(data))

    def test_an_unknown_line_is_refused_with_its_file_and_line(self):
        good = json.dumps(result("lmdb", "corpus", "warm", per_s=1))
        self.assertRegex(self.refused(good + '\n\n{"kind":"guess"}\n'), "^a.jsonl:3: .*'guess'")
        self.assertRegex(self.refused("not json"), "^a.jsonl:1: ")
        self.assertRegex(self.refused('{"kind":"result"}'), "^a.jsonl:1: .* missing")
        for line, words in ((result("oracle", "corpus", "warm"), "unknown engine 'oracle'"),
                            (result("lmdb", "corpus", "sleep"), "unknown workload 'sleep'"),
                            (result("lmdb", "other", "warm"), "unknown set 'other'"),
                            (failure("lmdb", "corpus", "sleep", ""), "unknown workload 'sleep'"),
                            (dict(result("lmdb", "corpus", "warm"), round=0), "round 0")):
            self.assertIn(f"a.jsonl:1: {words}", self.refused(json.dumps(line)))

    def test_a_file_given_twice_or_a_set_of_two_sizes_is_refused(self):
        self.assertIn("give each file once", self.refused(text_of([MACHINE, MACHINE])))
        sizes = [result("lmdb", "corpus", "warm", pages=pages) for pages in (1000, 999)]
        self.assertIn("999 pages of corpus here and 1000 before", self.refused(text_of(sizes)))

    def test_a_broken_turn_concerns_every_workload_and_a_mix_only_its_own(self):
        data = data_of(failure("lmdb", "corpus", "turn", "killed"),
                       failure("redb", "corpus", "ycsb", "killed"),
                       failure("fjall", "corpus", "ycsb-a", "wrong"))
        self.assertTrue(data.failed("corpus", "lmdb", "warm"))
        self.assertTrue(data.failed("corpus", "redb", "ycsb-c"))
        self.assertFalse(data.failed("corpus", "redb", "warm"))
        self.assertFalse(data.failed("corpus", "fjall", "ycsb-c"))

    def test_sets_stand_by_their_size(self):
        names = ["generated-10m", "generated-5000", "corpus", "generated-1m"]
        data = data_of(*[result("lmdb", name, "warm") for name in names])
        expected = ["corpus", "generated-5000", "generated-1m", "generated-10m"]
        self.assertEqual(data.sets(), expected)


class Words(unittest.TestCase):
    """Figures, numbers, cells."""

    def test_each_figure_is_there_once_and_of_a_known_workload(self):
        self.assertEqual(len(report.BY_NAME), len(report.FIGURES))
        self.assertLessEqual({of.workload for of in report.FIGURES}, set(report.WORKLOADS))

    def test_rates_are_better_when_more_and_costs_when_less(self):
        rate, cost = report.figures("warm", "per_s", "p50_us")
        self.assertTrue(report.ahead(rate, 2, 1) and report.ahead(cost, 1, 2))
        self.assertFalse(report.ahead(rate, 1, 1) or report.ahead(cost, 1, 1))
        self.assertEqual({of.unit for of in report.FIGURES if of.more}, {"/s", "MB/s"})

    def test_the_limit_and_the_device_are_no_engines(self):
        self.assertEqual(set(report.ENGINES) - set(report.PICKS), {"limit", "fio"})
        self.assertFalse(set(report.OURS) & set(report.OTHERS))

    def test_numbers_carry_three_digits(self):
        for value, words in ((1234567.8, "1,234,568"), (66788.4, "66,788"), (999.6, "1,000"),
                             (856.2, "856"), (97.34, "97.3"), (99.97, "100"), (9.2, "9.20"),
                             (3.0, "3"), (9.999, "10.0"), (0.256, "0.256"), (0.9999, "1.00"),
                             (0.01234, "0.0123"), (0.0, "0"), (-1234.0, "-1,234")):
            self.assertEqual(report.number(value), words)

    def test_units_stand_apart_but_a_second_does_not(self):
        words = [report.with_unit(3.0, unit) for unit in ("us", "/s", "")]
        self.assertEqual(words, ["3 us", "3/s", "3"])

    def test_foreign_words_end_no_row(self):
        text = report.table(["a", "b"], [["x|y\nz", "<!-- c"]])
        self.assertEqual(text, "| a | b |\n| --- | --- |\n| x\\|y z | &lt;!-- c |\n\n")


class Tables(unittest.TestCase):
    """The tables of a set."""

    def test_the_best_engine_is_bold_and_the_limit_never(self):
        rates = (("limit", 900), ("filemap", 700), ("lmdb", 710))
        lines = [result(engine, "corpus", "load", mb_per_s=rate) for engine, rate in rates]
        text = report.tables_of(data_of(*lines), "corpus")
        for row in ("| limit | 900 |", "| filemap | 700 |", "| lmdb | **710** |"):
            self.assertIn(row, text)
        self.assertNotIn("Open", text)

    def test_each_figure_of_a_cell_is_ranked_by_itself(self):
        text = report.tables_of(data_of(result("filemap", "corpus", "warm", p50_us=9, p99_us=80),
                                        result("redb", "corpus", "warm", p50_us=8, p99_us=90)),
                                "corpus")
        self.assertIn("| 9 / **80** / – |", text)
        self.assertIn("| **8** / 90 / – |", text)

    def test_the_widest_spread_stands_below(self):
        rates = [("filemap", rate) for rate in (100, 110, 105)] + [("lmdb", 50), ("lmdb", 150)]
        lines = [result(engine, "corpus", "warm", per_s=rate) for engine, rate in rates]
        text = report.tables_of(data_of(*lines), "corpus")
        self.assertIn("warm get 50–150 (lmdb, 100%)", text)

    def test_depths_stand_beside_the_device(self):
        data = data_of(result("fio", "corpus", "depth", fio_1=20000, fio_8=80000),
                       result("filemap", "corpus", "depth", depth_1=19000, depth_2=30000,
                              indexed_8=40000))
        text = report.tables_of(data, "corpus")
        self.assertIn("| fio | 20,000 | – | – | 80,000 |", text)
        self.assertIn("| filemap | 19,000 (0.95) | 30,000 | – |", text)
        self.assertIn("| filemap | – | – | – | 40,000 (0.50) |", text)

    def test_failed_engines_and_smaller_sets_are_marked(self):
        data = data_of(result("candystore", "corpus", "warm", pages=900, per_s=1),
                       result("lmdb", "corpus", "warm", per_s=2),
                       failure("lmdb", "corpus", "warm", "a wrong page"))
        text = report.tables_of(data, "corpus")
        self.assertIn("| lmdb † |", text)
        self.assertIn("| candystore (900 pages) |", text)


class Targets(unittest.TestCase):
    """Judging a target."""

    def test_load_is_held_against_the_limit_and_every_engine(self):
        rates = (("limit", 100), ("filemap", 95), ("filemap-plain", 94.9), ("lmdb", 94.9))
        data = data_of(*[result(e, "corpus", "load", mb_per_s=rate) for e, rate in rates])
        expected = [("corpus", FILEMAP, MET), ("corpus", PLAIN, MISSED)]
        self.assertEqual(verdicts(data, ">= 0.95x the limit"), expected)
        # As fast as another is not ahead of it.
        self.assertEqual(verdicts(data, "ahead of every engine"), expected)
        first = next(t for t in report.targets(data) if t.wanted == "ahead of every engine")
        self.assertEqual(first.measured, "95 MB/s; lmdb 94.9 MB/s: 1.001")
        absent = "without fjall, redb, rocksdb, sqlite, candystore, file-per-page, warc"
        self.assertEqual(first.notes, [absent])

    def test_warm_gets_may_cost_a_tenth_with_dictionaries(self):
        rates = ((FILEMAP, 90), (PLAIN, 99), (CACHED, 500), ("lmdb", 100))
        data = data_of(*[result(e, "corpus", "warm", per_s=rate) for e, rate in rates])
        self.assertEqual(verdicts(data, "with dictionaries >= 0.9x the best"),
                         [("corpus", FILEMAP, MET)])
        self.assertEqual(verdicts(data, ">= 1.0x the best"),
                         [("corpus", PLAIN, MISSED), ("corpus", CACHED, MET)])

    def test_misses_and_cold_reads_have_fixed_bounds_at_ten_million(self):
        name = "generated-10m"
        data = data_of(result(FILEMAP, name, "miss", us=0.25), result(PLAIN, name, "miss", us=0.2501),
                       result(FILEMAP, name, "cold", per_s=11, index_cached_reads_per_get=1.05),
                       result(PLAIN, name, "cold", per_s=9, index_cached_reads_per_get=1.06),
                       result("fjall", name, "cold", per_s=10))
        for wanted in ("<= 0.25 us at 10 M keys", "ahead of every engine at 10 M", "<= 1.05 at 10 M"):
            self.assertEqual(verdicts(data, wanted), [(name, FILEMAP, MET), (name, PLAIN, MISSED)])

    def test_get_many_is_as_good_as_its_worst_depth(self):
        data = data_of(result("fio", "corpus", "depth", fio_1=100, fio_2=200),
                       result(FILEMAP, "corpus", "depth", depth_1=10, indexed_1=90, depth_2=210),
                       result(PLAIN, "corpus", "depth", depth_1=101, depth_2=179))
        wanted = ">= 0.9x fio at the same depth"
        self.assertEqual(verdicts(data, wanted),
                         [("corpus", FILEMAP, MET), ("corpus", PLAIN, MISSED)])
        first = next(t for t in report.targets(data) if t.wanted == wanted)
        self.assertEqual(first.measured, "0.900 of fio at depth 1, up to 1.050 at others")
        self.assertEqual(first.notes, ["without depths 4, 8, 16, 32, 64, 128"])

    def test_disk_and_written_bytes(self):
        def load(engine, name, written, log, disk):
            return result(engine, name, "load", written_bytes=written, value_log_bytes=log,
                          disk_bytes=disk)
        large = "generated-10m"
        data = data_of(load(FILEMAP, "corpus", 110, 100, 110), load(PLAIN, "corpus", 111, 100, 120),
                       result("warc", "corpus", "load", disk_bytes=120),
                       load(FILEMAP, large, 131, 100, 1), load(PLAIN, large, 130, 100, 1))
        self.assertEqual(verdicts(data, "smaller than every engine"),
                         [("corpus", FILEMAP, MET), ("corpus", PLAIN, MISSED),
                          (large, FILEMAP, NOT_MEASURED), (large, PLAIN, NOT_MEASURED)])
        self.assertEqual(verdicts(data, "<= 1.1 on the corpus"),
                         [("corpus", FILEMAP, MET), ("corpus", PLAIN, MISSED)])
        self.assertEqual(verdicts(data, "<= 1.3 at 10 M"),
                         [(large, FILEMAP, MISSED), (large, PLAIN, MET)])

    def test_upkeep(self):
        data = data_of(result(FILEMAP, "corpus", "kill", open_ms=52),
                       result(PLAIN, "corpus", "kill", open_ms=52.1),
                       result("lmdb", "corpus", "kill", open_ms=2),
                       result(FILEMAP, "corpus", "durable", per_s_8=70),
                       result(PLAIN, "corpus", "durable", per_s_8=69),
                       result("rocksdb", "corpus", "durable", per_s_8=70),
                       result(FILEMAP, "corpus", "overwrite", write_amplification=2.5),
                       result(PLAIN, "corpus", "overwrite", write_amplification=2.6))
        for wanted in ("first, or within 50 ms of the first", ">= the best", "<= 2.5 in random order"):
            self.assertEqual(verdicts(data, wanted),
                             [("corpus", FILEMAP, MET), ("corpus", PLAIN, MISSED)])

    def test_ycsb_is_first_only_in_both(self):
        rows = ((FILEMAP, 100, 10), (PLAIN, 101, 10.1), ("redb", 90, 10))
        data = data_of(*[result(e, "corpus", "ycsb-a", per_s=a, p999_us=b) for e, a, b in rows])
        measured = [t for t in report.targets(data) if t.met is not None]
        self.assertEqual([t.met for t in measured], [MET, MISSED])
        self.assertTrue(measured[1].measured.endswith("p99.9 10.1 us; redb 10 us (behind)"))

    def test_flat_compares_rates_at_both_sizes_of_one_machine(self):
        small = [result(FILEMAP, "generated-1m", "miss", us=0.2),
                 result(FILEMAP, "generated-1m", "warm", per_s=100)]
        large = [result(FILEMAP, "generated-10m", "miss", us=0.25),
                 result(FILEMAP, "generated-10m", "warm", per_s=79)]
        wanted = "10 M >= 0.8x of 1 M"

        def of_filemap(data):
            return [t for t in report.targets(data) if t.wanted == wanted and t.engine == FILEMAP]
        met = [t.met for t in of_filemap(data_of(*small, *large))]
        self.assertEqual(met, [MISSED, MET, NOT_MEASURED])
        for target in of_filemap(data_of(MACHINE, *small, XEON, *large)):
            self.assertEqual((target.met, target.notes), (NOT_MEASURED, ["on different machines"]))

    def test_without_results_every_target_has_its_row_and_none_is_met(self):
        targets = list(report.targets(Data()))
        self.assertEqual({t.met for t in targets}, {NOT_MEASURED})
        self.assertGreater(len(targets), 30)

    def test_a_failure_and_lost_pages_are_said_beside_the_verdict(self):
        data = data_of(result(FILEMAP, "corpus", "warm", per_s=2), result("lmdb", "corpus", "warm", per_s=1),
                       failure(FILEMAP, "corpus", "warm", "a wrong page"),
                       result(FILEMAP, "corpus", "kill", open_ms=1, lost=7),
                       result("lmdb", "corpus", "kill", open_ms=1, lost=0))
        text = report.targets_section(data)
        self.assertIn("candystore, file-per-page, warc; with failures, see below) |", text)
        self.assertIn("but lost 7 synced pages) |", text)


class Losses(unittest.TestCase):
    """Figures that speak against FileMap."""

    def test_every_loss_of_every_variant_is_listed_with_the_best_first(self):
        rows = (("limit", 900, 1), (FILEMAP, 100, 10), (PLAIN, 300, 40), ("lmdb", 150, 20), ("redb", 200, 20))
        data = data_of(*[result(e, "corpus", "warm", per_s=a, p99_us=b) for e, a, b in rows])
        text = report.losses_section(data)
        self.assertIn("2 of 4 figures", text)
        self.assertIn("| warm get | filemap | 100/s | redb 200 (2.00x), lmdb 150 (1.50x) |", text)
        self.assertIn("| warm get p99 | filemap-plain | 40 us | lmdb 20 (2.00x), redb 20 (2.00x) |", text)
        self.assertNotIn("limit 900", text)

    def test_overlapping_rounds_are_marked_as_maybe_chance(self):
        rates = ((FILEMAP, 100), (FILEMAP, 120), ("lmdb", 110), ("lmdb", 130))
        data = data_of(*[result(e, "corpus", "warm", per_s=rate) for e, rate in rates])
        self.assertIn("lmdb 120 (~1.09x)", report.losses_section(data))

    def test_where_nobody_is_ahead_nothing_is_listed(self):
        data = data_of(*[result(e, "corpus", "warm", per_s=2) for e in (FILEMAP, "lmdb")])
        text = report.losses_section(data)
        self.assertIn("0 of 1 figures", text)
        self.assertNotIn("|", text)

    def test_failures_and_what_was_left_out_are_shown(self):
        skips = [{"kind": "skipped", "engine": "warc", "set": "corpus", "workload": workload,
                  "why": "no deletes"} for workload in ("delete", "overwrite", "delete")]
        data = data_of(*skips, failure("lmdb", "corpus", "kill", "3 pages gone"),
                       result("redb", "corpus", "kill", open_ms=1, lost=7))
        self.assertIn("| warc | corpus | delete, overwrite | no deletes |", report.skipped_section(data))
        self.assertIn("| lmdb | corpus | kill | 3 pages gone |", report.failures_section(data))
        self.assertIn("| redb | corpus | kill | lost 7 pages", report.failures_section(data))
        self.assertEqual(report.failures_section(Data()), "None was recorded.\n\n")


class Whole(unittest.TestCase):
    """The report and its chart as a whole."""

    LINES = [engine_line("filemap"), engine_line("lmdb")] + [
        result(engine, *of, **{name: rate})
        for engine, rate in (("filemap", 100), ("lmdb", 120))
        for *of, name in (("corpus", "load", "mb_per_s"), ("generated-10m", "warm", "per_s"))]

    def test_the_same_results_in_another_order_give_the_same_bytes(self):
        one, other = data_of(MACHINE, *self.LINES), data_of(MACHINE, *reversed(self.LINES))
        self.assertEqual(report.report(one), report.report(other))
        self.assertEqual(report.chart(one, "corpus"), report.chart(other, "corpus"))

    def test_all_parts_are_there_in_order(self):
        text = report.report(data_of(MACHINE, *self.LINES))
        parts = ["- **corpus**: 1,000 pages, 20 MB, 1 round; on AMD EPYC, 2 cores",
                 "## corpus", "](corpus.svg)", "### Load", "## generated-10m", "### Warm get",
                 "## Targets", "## Where another engine is ahead", "## Failures", "## Left out",
                 "## Engines", "| lmdb | lmdb 1.0 | defaults | zstd -3 |", "## Runs",
                 "| 2026-11-21T20:00:00Z | AMD EPYC | abc1234 | `compare run --set corpus` |"]
        places = [text.find(part) for part in parts]
        self.assertNotIn(-1, places)
        self.assertEqual(places, sorted(places))

    def test_only_what_was_measured_is_drawn(self):
        self.assertEqual(report.chart(data_of(result("lmdb", "corpus", "reopen", clean_ms=1)), "corpus"), "")
        svg = report.chart(data_of(dict(MACHINE, cpu="A<B"), result("lmdb", "corpus", "load", mb_per_s=711),
                                   result("redb", "corpus", "warm", per_s=1)), "corpus")
        ElementTree.fromstring(svg)
        for words in (">lmdb<", ">711<", ">load, MB/s<", "A&lt;B", ">–<"):
            self.assertIn(words, svg)
        self.assertNotIn(">fjall<", svg)


class Committed(unittest.TestCase):
    """The committed reports are made of their results."""

    def folders(self):
        found = sorted(path.parent for path in (BENCHES / "results").glob("*/report.md"))
        self.assertTrue(found)
        return found

    def test_reports_are_made_of_their_results(self):
        for folder in self.folders():
            made = report.outputs(folder)
            there = {path.name for path in folder.iterdir() if path.suffix == ".svg"} | {"report.md"}
            self.assertEqual(there, set(made), f"run benches/report.py {folder}")
            for name, text in made.items():
                same = (folder / name).read_text(encoding="utf-8") == text
                self.assertTrue(same, f"{folder / name} is stale: run benches/report.py {folder}")

    def test_the_pages_comparison_has_rows_of_the_reports_alone(self):
        """docs/BENCHMARKS.md copies tables of the reports, whole or not: no row of its own."""
        rows = set()
        for folder in self.folders():
            rows |= set((folder / "report.md").read_text(encoding="utf-8").splitlines())
        page = (BENCHES.parent / "docs" / "BENCHMARKS.md").read_text(encoding="utf-8")
        engines = "|".join(map(re.escape, report.ENGINES))
        copied = [line for line in page.splitlines() if re.match(rf"\| (engine|{engines}) \|", line)]
        self.assertGreater(len(copied), 50)
        self.assertEqual([line for line in copied if line not in rows], [])


if __name__ == "__main__":
    unittest.main()
