"""What the tests of the package share."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import filemap

sys.path.insert(0, str(Path(__file__).parent))
# A shell that begins the tests in the background has it ignored, and so would their children.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pages.fm"


@pytest.fixture
def store(path: Path) -> Iterator[filemap.PageStore]:
    with filemap.open(path, "x", free_space_floor=0) as store:
        yield store
