"""What the tests of `filemap.scrapy` share. Without Scrapy they are skipped, and say so."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("scrapy", reason="Scrapy is not installed")

sys.path.insert(0, str(Path(__file__).parent))
