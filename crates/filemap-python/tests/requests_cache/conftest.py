"""Makes the test modules importable; a web site on the loopback address."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from site_of_pages import Answer, Site


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "*")
    with Site(("127.0.0.1", 0), Answer) as site:
        thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield site
        site.shutdown()
        thread.join()
