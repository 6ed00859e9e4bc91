"""requests-cache's own tests pass with our classes in place of its own."""

import pytest

pytest.importorskip("requests_cache", reason="requests-cache is not installed")

import os
import re

import requests_cache_suites

from fm_serve import program


@pytest.mark.parametrize("there", [False, True])
def test_requests_caches_own_suites_pass(there: bool) -> None:
    if there and program() is None and "FILEMAP_CHECK" not in os.environ:
        pytest.skip("there is no fm-serve: build it, or name it in FM_SERVE")
    done = requests_cache_suites.run(there=there)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed.group(1)) >= 110, done.stdout
