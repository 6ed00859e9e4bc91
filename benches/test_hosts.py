#!/usr/bin/env python3
"""Tests of hosts.py: what counts as faster than a host allows, the rates, and the comparisons.

    python3 benches/test_hosts.py
"""

import argparse
import contextlib
import io
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import hosts

S = 1_000_000


class Early(unittest.TestCase):
    def test_requests_in_time_are_never_early(self):
        self.assertEqual(hosts.early([], S), 0)
        self.assertEqual(hosts.early([5], S), 0)
        self.assertEqual(hosts.early([0, S, 2 * S, 10 * S, 11 * S], S), 0)

    def test_one_short_gap_counts_by_what_it_lacks(self):
        self.assertEqual(hosts.early([0, S, 2 * S - 300, 3 * S], S), 300)
        # Time that was not used before does not allow it.
        self.assertEqual(hosts.early([0, 100 * S, 101 * S - 300], S), 300)

    def test_a_request_noted_late_makes_the_next_early_once(self):
        # Every tenth is noted 20 ms late: the gap after it is short, and it does not add up.
        times = [number * S + (20_000 if number % 10 == 0 else 0) for number in range(1000)]
        self.assertEqual(hosts.early(times, S), 20_000)

    def test_a_rate_that_is_too_high_adds_up(self):
        times = [number * (S - 1000) for number in range(101)]
        self.assertEqual(hosts.early(times, S), 100 * 1000)

    def test_shortest_gap(self):
        self.assertEqual(hosts.shortest([0, 10, 13, 20]), 3)
        self.assertIsNone(hosts.shortest([7]))


class Rates(unittest.TestCase):
    def test_pages_a_second_from_the_first_page_on(self):
        pages = [10 * S + number * S // 2 for number in range(240)]
        rate, slowest = hosts.rates(pages, 130 * S)
        self.assertAlmostEqual(rate, 2.0)
        self.assertAlmostEqual(slowest, 2.0)

    def test_a_slow_minute_is_seen(self):
        pages = [number * S for number in range(60)] + [90 * S] + [120 * S + number * S for number in range(60)]
        rate, slowest = hosts.rates(pages, 180 * S)
        self.assertAlmostEqual(rate, 121 / 180)
        self.assertAlmostEqual(slowest, 1 / 60)

    def test_pages_after_the_end_do_not_count(self):
        self.assertEqual(hosts.rates([0, S, 11 * S], 10 * S)[0], 0.2)
        self.assertEqual(hosts.rates([], 10 * S), (0.0, None))


class Report(unittest.TestCase):
    def options(self, folder, **more):
        values = {"out": Path(folder), "hosts": 3, "every": 1.0, "connections": 8, "pages": 0,
                  "tolerance": 50.0}
        return argparse.Namespace(**(values | more))

    def report(self, lines, **more):
        words = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(words):
            text = "\n".join(["10000000 1500", *lines])
            is_met = hosts.report(self.options(folder, **more), text, 10 * S, 100)
            rows = (Path(folder) / "hosts.tsv").read_text().splitlines()
        return is_met, words.getvalue(), rows

    def host(self, name, times):
        return " ".join([name, f"r{times[0] - S}", *(f"p{at}" for at in times)])

    def polite(self):
        return [self.host(f"127.1.0.{last}", [number * S for number in range(1, 11)]) for last in (1, 2)]

    def test_a_polite_crawl_meets_all(self):
        lines = self.polite() + [self.host("127.1.0.3", [number * S for number in range(1, 11)])]
        is_met, words, rows = self.report(lines)
        self.assertTrue(is_met, words)
        self.assertNotIn("MISSED", words)
        self.assertEqual(len(rows), 4)
        self.assertEqual(rows[1].split("\t"), ["127.1.0.1", "11", "10", "1000.000", "0.000", "no"])

    def test_a_host_asked_faster_is_named(self):
        lines = self.polite() + [self.host("127.1.0.3", [S, *(number * S - 60_000 for number in range(2, 11))])]
        is_met, words, rows = self.report(lines)
        self.assertFalse(is_met)
        self.assertIn("asked faster: 127.1.0.3, by 60.000 ms", words)
        self.assertTrue(rows[3].endswith("\tyes"))
        self.assertTrue(self.report(lines, tolerance=70.0)[0])

    def test_a_request_of_robots_txt_counts_as_a_request(self):
        lines = self.polite() + ["127.1.0.3 r1000000 p1100000 " + " ".join(f"p{n * S}" for n in range(3, 11))]
        self.assertIn("asked faster: 127.1.0.3, by 900.000 ms", self.report(lines)[1])

    def test_a_host_that_was_never_asked_is_named(self):
        is_met, words, _ = self.report(self.polite() + ["127.1.0.3"])
        self.assertFalse(is_met)
        self.assertIn("no page of: 127.1.0.3", words)

    def test_too_few_pages_are_missed_unless_their_number_was_set(self):
        lines = self.polite() + [self.host("127.1.0.3", [S])]
        is_met, words, _ = self.report(lines)
        self.assertFalse(is_met)
        self.assertIn("[>= 2.85: MISSED]", words)
        self.assertTrue(self.report(lines, pages=21)[0])

    def test_addresses_are_those_of_the_server(self):
        self.assertEqual([hosts.address(host) for host in (0, 249, 250, 9_999)],
                         ["127.1.0.1", "127.1.0.250", "127.1.1.1", "127.1.39.250"])


class Compare(unittest.TestCase):
    PLAIN = ["127.1.0.1", "127.1.0.2"]

    def test_the_time_is_that_of_the_plain_hosts_from_the_first_request_of_all(self):
        web = {
            "127.1.0.1": ([3 * S, 4 * S, 5 * S], [4 * S, 5 * S]),
            "127.1.0.2": ([3 * S, 4 * S, 7 * S], [4 * S, 7 * S]),
            "127.1.0.3": ([2 * S, 32 * S], [32 * S]),
            "127.1.0.4": ([], []),
        }
        self.assertEqual(hosts.seconds(web, self.PLAIN, 2), 5.0)
        self.assertIsNone(hosts.seconds(web, self.PLAIN, 3), "a page is missing")

    def test_each_host_has_its_own_pace(self):
        web = {"a": ([0, S, 2 * S], []), "b": ([0, 29 * S, 60 * S], []), "c": ([0, S // 2], [])}
        found = hosts.faster(web, {"a": 1, "b": 30, "c": 1}, 0.6e6)
        self.assertEqual(found, [("b", S)])
        self.assertEqual([name for name, _ in hosts.faster(web, {"a": 1, "b": 30, "c": 1}, 0)], ["b", "c"])

    def run_of(self, took, *arguments, too_fast=()):
        """The outcome of a comparison whose crawls take these times, its words and its crawls."""
        asked, words = [], io.StringIO()

        def measure(options, name, slow, connections):
            asked.append((name, slow, connections))
            return took[name.rsplit("-", 1)[0]].pop(0), list(too_fast)

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(hosts, "measure", measure):
            options = hosts.parsed([f"{folder}/out", *arguments])
            with contextlib.redirect_stdout(words):
                is_met = hosts.compare(options)
        return is_met, words.getvalue(), asked

    def test_plain_hosts_may_take_a_tenth_longer_beside_slow_ones(self):
        took = {"alone": [30.0, 31.0, 90.0], "beside-slow-ones": [33.0, 34.0, 10.0]}
        is_met, words, asked = self.run_of(took, "--compare=slow")
        self.assertTrue(is_met, words)
        self.assertIn("ratio                          1.065   [<= 1.1: met]", words)
        self.assertEqual(asked[:3], [("alone-0", 0, 64), ("beside-slow-ones-0", 200, 64), ("alone-1", 0, 64)])
        took = {"alone": [30.0], "beside-slow-ones": [33.1]}
        is_met, words, _ = self.run_of(took, "--compare=slow", "--rounds=1")
        self.assertFalse(is_met)
        self.assertIn("1.103   [<= 1.1: MISSED]", words)

    def test_new_hosts_are_as_fast_with_few_connections(self):
        took = {"1000-connections": [6.0], "64-connections": [6.1]}
        is_met, words, asked = self.run_of(took, "--compare=new", "--rounds=1")
        self.assertTrue(is_met, words)
        self.assertEqual(asked, [("1000-connections-0", 0, 1000), ("64-connections-0", 0, 64)])
        took = {"1000-connections": [6.0], "64-connections": [16.0]}
        self.assertFalse(self.run_of(took, "--compare=new", "--rounds=1")[0])

    def test_a_fast_crawl_that_is_not_polite_is_named(self):
        took = {"alone": [30.0], "beside-slow-ones": [30.0]}
        is_met, words, _ = self.run_of(took, "--compare=slow", "--rounds=1", too_fast=[("127.1.0.9", 90_000)])
        self.assertFalse(is_met)
        self.assertIn("asked faster: 127.1.0.9, by 90.000 ms", words)

    def test_sizes_are_those_of_the_measurement_unless_given(self):
        with tempfile.TemporaryDirectory() as folder:
            sizes = lambda *more: (lambda one: (one.hosts, one.every, one.each))(hosts.parsed([folder, *more]))
            self.assertEqual(sizes(), (2000, 1.0, 0))
            self.assertEqual(sizes("--compare=slow"), (200, 0.1, 300))
            self.assertEqual(sizes("--compare=new", "--hosts=9"), (9, 1.0, 5))
            for wrong in (["--each=5"], ["--compare=new", "--pages=5"], ["--compare=new", "--rounds=0"]):
                with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                    sizes(*wrong)


SERVER = """#!{python}
import http.server, os, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        # The crawl is stopped only after it has begun.
        now = "9000000 5 4" if os.path.exists({begun!r}) else "0 0 0"
        text = now if self.path == "/now" else {times!r}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
open({asked!r}, "w").write(" ".join(sys.argv[1:]))
print(server.server_port, flush=True)
server.serve_forever()
"""
CRAWL = """#!{python}
import signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
open({asked!r}, "w").write(" ".join(sys.argv[1:]))
{then}
"""


class Measure(unittest.TestCase):
    """One crawl of a comparison, with programs that only say what they were told."""

    def measured(self, times, then="signal.pause()"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "examples").mkdir()
            for path, text in (("fm-crawl", CRAWL), ("examples/hosts_server", SERVER)):
                asked, begun = (str(folder / f"{name}.asked") for name in (Path(path).name, "fm-crawl"))
                parts = {"python": sys.executable, "times": times, "asked": asked, "begun": begun, "then": then}
                program = folder / path
                program.write_text(text.format(**parts))
                program.chmod(0o755)
            arguments = [f"{name}/out", "--compare=slow", "--hosts=2", "--each=2", "--every=1", "--minutes=1"]
            arguments.append(f"--programs={name}")
            options = hosts.parsed(arguments)
            options.out.mkdir()
            with contextlib.redirect_stderr(io.StringIO()) as words:
                try:
                    found = hosts.measure(options, "one", 1, 64)
                except SystemExit as end:
                    return end.code, words.getvalue(), None, None
            seeds = (options.out / "one" / "seeds").read_text().split()
            return *found, (folder / "hosts_server.asked").read_text(), [seed.split(":")[1][2:] for seed in seeds]

    TIMES = "9000000 0\n127.1.0.1 r0 p1000000 p2000000\n127.1.0.2 r500000 p1500000 p2500000\n127.1.0.3 r0 p{}\n"

    def test_a_crawl_is_stopped_when_the_plain_hosts_have_finished(self):
        took, too_fast, told, seeds = self.measured(self.TIMES.format(30_000_000))
        self.assertEqual((took, too_fast), (2.5, []))
        self.assertEqual(told, "3 2048 2 1")
        self.assertEqual(seeds, ["127.1.0.3", "127.1.0.1", "127.1.0.2"], "the slow one first")

    def test_a_crawl_may_end_by_itself(self):
        self.assertEqual(self.measured(self.TIMES.format(30_000_000), then="sys.exit(0)")[0], 2.5)

    def test_a_slow_host_that_is_asked_too_soon_is_found(self):
        self.assertEqual(self.measured(self.TIMES.format(10_000_000))[1], [("127.1.0.3", 20 * S)])

    def test_a_crawl_that_fails_or_leaves_pages_out_is_no_measurement(self):
        code, words, *_ = self.measured(self.TIMES.format(30_000_000), then="sys.exit(5)")
        self.assertEqual(code, 2)
        self.assertIn("fm-crawl ended with 5", words)
        code, words, *_ = self.measured(self.TIMES.format(30_000_000).replace(" p2500000", ""))
        self.assertEqual(code, 2)
        self.assertIn("1 of 4 pages were not asked for", words)


if __name__ == "__main__":
    unittest.main()
