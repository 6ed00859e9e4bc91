"""What the tests of the package share."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import filemap

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pages.fm"


@pytest.fixture
def store(path: Path) -> Iterator[filemap.PageStore]:
    with filemap.open(path, "x", free_space_floor=0) as store:
        yield store
