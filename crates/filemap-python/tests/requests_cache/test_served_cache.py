"""A cache in the store of an `fm-serve`: shared by processes, and its failures."""

import pytest

pytest.importorskip("requests_cache", reason="requests-cache is not installed")

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from site_of_pages import Site

import filemap
from filemap.requests_cache import FileMapCache
from fm_serve import Server
from requests_cache import CachedSession

OTHER = """
import sys

from filemap.requests_cache import FileMapCache
from requests_cache import CachedSession

with CachedSession(backend=FileMapCache(sys.argv[1])) as session:
    print(*(session.get(url).from_cache for url in sys.argv[2:]))
"""


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    server = Server(path, "--write")
    yield server
    server.stop()


def test_processes_share_a_cache(server: Server, site: Site) -> None:
    with CachedSession(backend=FileMapCache(f"{server.location}/")) as session:
        first = session.get(site.url("/a"))
        assert (first.from_cache, session.get(site.url("/a")).from_cache) == (False, True)
        command = [sys.executable, "-c", OTHER, server.location, site.url("/a"), site.url("/b")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert done.stdout.split() == ["True", "False"], done.stderr
        other = session.get(site.url("/b"))
        assert other.from_cache and other.content == session.get(site.url("/b")).content
        assert len(session.cache.responses) == 2
        page = session.cache.store.get(first.url, variant=f"requests:{first.cache_key}")
        assert page is not None and page.body == first.content
        session.cache.delete(first.cache_key)
        assert not session.get(site.url("/a")).from_cache


def test_a_reader_stores_nothing(server: Server, site: Site) -> None:
    with CachedSession(backend=FileMapCache(server.location)) as session:
        session.get(site.url("/a"))
    with CachedSession(backend=FileMapCache(server.location, read_only=True)) as session:
        assert session.get(site.url("/a")).from_cache
        assert not session.get(site.url("/b")).from_cache
        assert not session.get(site.url("/b")).from_cache


def test_what_an_address_does_not_take_is_said(server: Server) -> None:
    for given in ({"use_temp": True}, {"use_cache_dir": True}):
        with pytest.raises(filemap.InvalidValueError, match="is not in a folder"):
            FileMapCache(server.location, **given)
    with pytest.raises(TypeError, match="the server has its own"):
        FileMapCache(server.location, options={"keep_versions": 1})
    cache = FileMapCache(server.location, options={"token": "first-secret-word"})
    with pytest.raises(filemap.InvalidValueError, match="other options") as refused:
        FileMapCache(server.location, options={"token": "other-secret-word"})
    assert "secret" not in str(refused.value)
    cache.close()


def test_a_server_that_is_gone_is_an_error_until_it_is_back(server: Server, site: Site) -> None:
    with CachedSession(backend=FileMapCache(server.location)) as session:
        session.get(site.url("/a"))
        server.kill()
        with pytest.raises(filemap.RemoteError):
            session.get(site.url("/a"))
        server.start()
        assert session.get(site.url("/a")).from_cache, "what was put survives the server's process"
    server.stop()
    with pytest.raises(filemap.RemoteError):
        FileMapCache(server.location)
