"""Scrapy's own tests pass with our classes in the place of its own."""

import pytest

pytest.importorskip("scrapy", reason="Scrapy is not installed")

import re

import scrapy_suites


def test_scrapys_own_suites_pass() -> None:
    done = scrapy_suites.run()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed.group(1)) >= 40, done.stdout
