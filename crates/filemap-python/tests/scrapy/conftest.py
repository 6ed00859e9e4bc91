"""Makes the test modules importable; the fixtures that they share."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fm_serve import served

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["here", "there"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """`HTTPCACHE_DIR`: a folder, and the address of a server."""
    if request.param == "here":
        yield str(tmp_path / "cache")
    else:
        with served(tmp_path / "pages.fm", "--write") as location:
            yield location
