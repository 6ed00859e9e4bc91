"""requests-cache's own tests pass with our classes in the place of its own."""

import pytest

pytest.importorskip("requests_cache", reason="requests-cache is not installed")

import re

import requests_cache_suites


def test_requests_caches_own_suites_pass() -> None:
    done = requests_cache_suites.run()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed.group(1)) >= 110, done.stdout
