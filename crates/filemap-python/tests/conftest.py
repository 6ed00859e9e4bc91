"""Setup and fixtures that all tests of the package share."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import filemap

sys.path.insert(0, str(Path(__file__).parent))
# A shell that starts the tests in the background ignores SIGINT, and their children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pages.fm"


@pytest.fixture
def store(path: Path) -> Iterator[filemap.PageStore]:
    with filemap.open(path, "x", free_space_floor=0) as store:
        yield store
