#!/usr/bin/env python3
"""Tests of hosts.py: what counts as faster than a host allows, and the rates.

    python3 benches/test_hosts.py
"""

import argparse
import contextlib
import io
import tempfile
import unittest
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


if __name__ == "__main__":
    unittest.main()
