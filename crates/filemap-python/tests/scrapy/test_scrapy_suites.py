"""Scrapy's own tests pass with our classes in place of its own."""

import pytest

pytest.importorskip("scrapy.crawler", reason="Scrapy is not installed")

import os
import re

import scrapy_suites

from fm_serve import program


@pytest.mark.parametrize("there", [False, True])
def test_scrapys_own_suites_pass(there: bool) -> None:
    if there and program() is None and "FILEMAP_CHECK" not in os.environ:
        pytest.skip("there is no fm-serve: build it, or name it in FM_SERVE")
    done = scrapy_suites.run(there=there)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed.group(1)) >= 40, done.stdout
