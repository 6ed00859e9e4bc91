"""The backend for requests-cache: stored entries, returned responses, and failures."""

import pytest

pytest.importorskip("requests_cache", reason="requests-cache is not installed")

import gc
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from requests.structures import CaseInsensitiveDict
from requests_cache.models import CachedRequest
from site_of_pages import Site

import filemap
from filemap.requests_cache import FileMapCache, FileMapDict
from requests_cache import CachedResponse, CachedSession

OPTIONS: Any = {"free_space_floor": 0}
NOTE = "X-Crawler-Requests"


@pytest.fixture
def cache(path: Path) -> Iterator[FileMapCache]:
    cache = FileMapCache(path, options=OPTIONS)
    yield cache
    cache.close()


@pytest.fixture
def session(cache: FileMapCache) -> Iterator[CachedSession]:
    with CachedSession(backend=cache, allowable_methods=("GET", "POST")) as session:
        yield session


def response(url: str | None = "http://a.example/", body: bytes = b"x", **more: Any) -> Any:
    made: dict[str, Any] = {"url": url, "status_code": 200, "reason": "OK", **more}
    request = made.setdefault("request", CachedRequest(method="GET", url=url))
    assert request is not None
    given = CachedResponse(**made)
    given._content = body
    return given


def pages(store: filemap.PageStore) -> list[filemap.Page]:
    """The pages of the responses, without the cache entries."""
    found = store.pages(variants=True)
    return [page for page in found if page.variant != b"requests:"]


def check(store: filemap.PageStore) -> int:
    """Checks that each page has a cache entry; returns the number of pages."""
    number = 0
    for page in pages(store):
        assert page.variant is not None
        key = page.variant.removeprefix(b"requests:").decode()
        entry = store.get(f"urn:requests-cache:responses:{key}", variant="requests:")
        assert entry is not None, page
        assert store.key(json.loads(entry.body)["url"]) == store.key(page.url)
        number += 1
    return number


@pytest.mark.parametrize(
    "path_", ["/", "/gzip", "/cookies", "/binary", "/spoof", "/redirect/redirect/x"]
)
def test_a_response_comes_back_equal(session: CachedSession, site: Site, path_: str) -> None:
    first = session.get(site.url(path_), headers={"X-Mine": "1"})
    second: Any = session.get(site.url(path_), headers={"X-Mine": "1"})
    assert (first.from_cache, second.from_cache) == (False, True)
    for name in ("content", "text", "encoding", "url", "status_code", "reason", "elapsed", "ok"):
        assert getattr(first, name) == getattr(second, name), name
    assert dict(first.headers) == dict(second.headers)
    assert dict(first.cookies) == dict(second.cookies)
    assert dict(first.request.headers) == dict(second.request.headers)
    assert [r.url for r in first.history] == [r.url for r in second.history]
    assert [r.content for r in first.history] == [r.content for r in second.history]
    assert first.created_at - second.created_at < timedelta(seconds=5)
    assert second.raw.read() == first.content


def test_pages_are_pages(session: CachedSession, cache: FileMapCache, site: Site) -> None:
    key = session.get(site.url("/gzip?b=1")).cache_key
    session.get(site.url("/cookies"))
    session.post(site.url("/form"), data={"a": "1"})
    page = cache.store.get(site.url("/gzip?b=1"), variant=f"requests:{key}")
    assert page is not None and page.status == 200 and page.reason == "OK"
    assert page.body.startswith(b"<p>") and page.text.startswith("<p>\u00e4")
    assert page.headers["X-Crawler-Content-Encoding"] == "gzip"
    assert page.headers["Content-Length"] == str(len(page.body))
    assert "Content-Encoding" not in page.headers
    assert page.http_version == "HTTP/1.1" and page.method == "GET"
    methods = {p.url: p.method for p in pages(cache.store)}
    assert methods[site.url("/form")] == "POST"
    (cookies,) = (p for p in pages(cache.store) if p.url == site.url("/cookies"))
    assert cookies.headers.get_all("Set-Cookie") == ["a=1; Path=/", "b=2; Path=/"]
    # All of the cache's pages are variants.
    assert len(cache.store) == 0 and list(cache.store.urls()) == []
    assert check(cache.store) == 3


def test_nothing_is_pickled(cache: FileMapCache, path: Path) -> None:
    cache.responses["k"] = response(body=b"text")
    (page,) = pages(cache.store)
    note = json.loads(page.headers[NOTE])
    assert note["url"] == "http://a.example/" and "_content" not in note
    with pytest.raises(ValueError, match="leave `serializer` out"):
        FileMapCache(path, serializer="pickle")
    with pytest.raises(TypeError):
        cache.redirects["k"] = object()


@pytest.mark.parametrize(
    "headers",
    [
        {"A": "\xe9 caf\xe9"},
        {"A": "\u20ac"},
        {"A": "two\r\nlines", "B": "2"},
        {"Content-Encoding": "gzip", "X-Crawler-Content-Encoding": "br"},
        {"Content-Encoding": "unknown", "Content-Length": "7"},
        {"X-Crawler-Requests": "{}"},
        {"": "x"},
    ],
)
def test_headers_come_back(cache: FileMapCache, headers: dict[str, str]) -> None:
    cache.responses["k"] = response(headers=CaseInsensitiveDict(headers))
    assert dict(cache.responses["k"].headers) == headers


def test_odd_responses(cache: FileMapCache) -> None:
    cache.responses["empty"] = CachedResponse()
    assert cache.responses["empty"].content is None
    assert cache.responses["empty"].status_code == 0
    for url in ("nonsense", "http://[::1/", "http://a.example/" + "x" * 70_000):
        for key in ("k", "K \u20ac/" * 200):
            cache.responses[key] = response(url, status_code=1000, reason="a\r\nb")
            found = cache.responses[key]
            assert (found.url, found.status_code, found.reason) == (url, 1000, "a\r\nb")
            assert found.cache_key == key and key in set(cache.responses)


def test_the_newest_write_is_found(cache: FileMapCache) -> None:
    now = datetime.now(UTC)
    cache.responses["k"] = response(body=b"new", created_at=now)
    cache.responses["k"] = response(body=b"older", created_at=now - timedelta(days=9))
    assert cache.responses["k"].content == b"older"
    assert cache.responses["k"].created_at == now - timedelta(days=9)


def test_a_key_whose_url_changes_has_one_page(cache: FileMapCache) -> None:
    cache.responses["k"] = response("http://a.example/1")
    cache.responses["k"] = response("http://a.example/2")
    assert [page.url for page in pages(cache.store)] == ["http://a.example/2"]
    with pytest.raises(TypeError, match="keeps responses, not str"):
        cache.responses["k"] = "a value"
    values = FileMapDict(cache.db_path, options=OPTIONS)
    values["k"] = "a value"
    assert pages(cache.store) == [] and values["k"] == "a value"
    values.close()


def test_an_entry_without_page_is_a_miss(
    cache: FileMapCache, session: CachedSession, site: Site
) -> None:
    key = session.get(site.url("/")).cache_key
    assert cache.store.remove(site.url("/"), variant=f"requests:{key}")
    assert key not in cache.responses and not cache.contains(url=site.url("/"))
    assert (len(cache.responses), list(cache.responses), cache.count()) == (0, [], 0)
    assert not cache.responses
    with pytest.raises(KeyError):
        cache.responses[key]
    with pytest.raises(KeyError):
        del cache.responses[key]
    assert list(cache.store.urls(variants=True)) == []
    cache.recreate_keys()
    assert not session.get(site.url("/")).from_cache
    assert cache.store.remove(site.url("/"), variant=f"requests:{key}")
    assert not session.get(site.url("/")).from_cache
    assert session.get(site.url("/")).from_cache


@pytest.mark.parametrize("note", [None, "{not JSON", "[]", '{"created_at": 7}', '{"request": 7}'])
def test_a_damaged_page_is_a_miss(
    cache: FileMapCache,
    session: CachedSession,
    site: Site,
    note: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = session.get(site.url("/")).cache_key
    headers = {} if note is None else {NOTE: note}
    cache.store.put(site.url("/"), b"damaged", variant=f"requests:{key}", headers=headers)
    with caplog.at_level(logging.ERROR):
        assert cache.get_response(key) is None
    assert "Unable to read" in caplog.text
    cache.recreate_keys()
    cache.delete(expired=True)
    assert not session.get(site.url("/")).from_cache
    assert session.get(site.url("/")).from_cache
    cache.store.put(site.url("/"), b"damaged", variant=f"requests:{key}", headers=headers)
    cache.delete(invalid=True)
    assert list(cache.store.urls(variants=True)) == []


def test_a_damaged_entry_is_a_miss(cache: FileMapCache) -> None:
    cache.responses["k"] = response()
    cache.store.put("urn:requests-cache:responses:k", b"{", variant="requests:")
    assert cache.responses["k"] is None
    cache.responses["k"] = response(body=b"again")
    assert cache.responses["k"].content == b"again"


def test_expiry(cache: FileMapCache, session: CachedSession, site: Site) -> None:
    session.get(site.url("/redirect/old"), expire_after=timedelta(seconds=-5))
    now = datetime.now(UTC)
    cache.responses["old"] = response(expires=now - timedelta(seconds=1))
    cache.responses["new"] = response(expires=now + timedelta(days=1))
    cache.responses["ever"] = response(expires=None)
    cache.redirects["moved"] = "old"
    assert set(cache._pages.expired_keys()) == {"old"} | (
        set(cache.responses) - {"new", "ever", "old"}
    )
    assert cache.count(expired=False) == 2
    cache.delete(expired=True)
    assert set(cache.responses) == {"new", "ever"} and len(cache.redirects) == 0
    cache.reset_expiration(timedelta(days=-1))
    cache.delete(expired=True)
    assert cache.count() == 0 and list(cache.store.urls(variants=True)) == []


def test_clear_leaves_other_pages(cache: FileMapCache) -> None:
    cache.store.put("http://a.example/", b"mine")
    cache.responses["k"] = response()
    cache.redirects["r"] = "k"
    cache.clear()
    assert list(cache.store.urls(variants=True)) == []
    assert list(cache.store.urls()) == ["http://a.example/"]


def test_update_from_sqlite(cache: FileMapCache, site: Site, tmp_path: Path) -> None:
    old = CachedSession(tmp_path / "old.sqlite", backend="sqlite")
    old.get(site.url("/redirect/there"))
    old.get(site.url("/gzip"))
    cache.update(old.cache)
    old.close()
    cache.recreate_keys()
    asked = site.asked
    with CachedSession(backend=cache) as session:
        for path in ("/redirect/there", "/there", "/gzip"):
            assert session.get(site.url(path)).from_cache, path
    assert site.asked == asked
    assert check(cache.store) == 2
    with CachedSession(tmp_path / "new.sqlite", backend="sqlite") as new:
        new.cache.update(cache)
        assert len(new.cache.responses) == 2


def test_caches_of_one_process_share_a_store(path: Path, tmp_path: Path) -> None:
    one = FileMapCache(path, options=OPTIONS)
    two = FileMapCache(str(tmp_path / "." / "pages.fm"), options=OPTIONS)
    one.responses["k"] = response()
    assert two.responses["k"].url == "http://a.example/"
    assert one.store is two.store
    store = one.store
    one.close()
    assert not store.closed and "k" in two.responses
    assert "k" in one.responses  # It is open again.
    with pytest.raises(ValueError, match="other options"):
        FileMapCache(path)
    one.close()
    two.close()
    assert store.closed
    three = FileMapCache(path, options=OPTIONS)
    store = three.store
    del three
    gc.collect()
    assert store.closed


def test_caches_come_and_go_in_threads(path: Path) -> None:
    def work(number: int) -> None:
        for turn in range(20):
            cache = FileMapCache(path, options=OPTIONS)
            cache.cycle = cache  # type: ignore[attr-defined]
            cache.redirects[f"k{number}"] = str(turn)
            assert cache.redirects[f"k{number}"] == str(turn)
            if turn % 3 == 0:
                cache.close()
            del cache
            if turn % 5 == 0:
                gc.collect()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    gc.collect()
    with filemap.open(path, "w", free_space_floor=0) as store:
        assert sum(1 for _ in store.urls(variants=True)) == 8


def test_history_is_kept_if_asked_for(path: Path) -> None:
    cache = FileMapCache(path, options={**OPTIONS, "keep_versions": None})
    for day in range(3):
        created = datetime(2026, 11, 1 + day, tzinfo=UTC)
        cache.responses["k"] = response(body=b"%d" % day, created_at=created)
    found = cache.store.history("http://a.example/", variant="requests:k")
    assert [head.time.day for head in found] == [3, 2, 1]
    cache.close()


def test_a_fork_reads_and_is_told_of_the_lock(cache: FileMapCache, path: Path) -> None:
    cache.responses["k"] = response()
    reader = FileMapCache(path, read_only=True, options=OPTIONS)
    assert "k" in reader.responses
    pid = os.fork()
    if pid == 0:
        code = 9
        try:
            assert "k" in reader.responses
            try:
                cache.responses["k"]
            except filemap.LockedError:
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    cache.responses["k2"] = response()
    reader.close()


def run(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_second_process_reads_beside_the_writer(
    cache: FileMapCache, session: CachedSession, site: Site, path: Path
) -> None:
    session.get(site.url("/redirect/a"))
    code = """
import sys, filemap
from filemap.requests_cache import FileMapCache
try:
    FileMapCache(sys.argv[1])
except filemap.LockedError as error:
    print(error)
"""
    assert "is open for writing by process" in run(code, path)
    reader = FileMapCache(path, read_only=True)
    session.get(site.url("/b"))
    asked = site.asked
    with CachedSession(backend=reader) as beside:
        assert beside.get(site.url("/redirect/a")).from_cache
        assert beside.get(site.url("/b")).from_cache
        assert beside.cache.contains(url=site.url("/b"))
        # A response after a redirect has two keys.
        assert len(beside.cache.responses) == 3
        assert site.asked == asked
        assert not beside.get(site.url("/c")).from_cache
        assert not beside.get(site.url("/c")).from_cache
        with pytest.raises(filemap.ReadOnlyError):
            beside.cache.clear()
    with pytest.raises(FileNotFoundError):
        FileMapCache(path.with_name("absent.fm"), read_only=True)


def test_what_was_erased_is_answered_and_not_stored(
    cache: FileMapCache, session: CachedSession, site: Site
) -> None:
    session.get(site.url("/secret"))
    cache.store.erase(url=site.url("/secret"), reason="a test")
    assert session.get(site.url("/secret")).status_code == 200
    assert not session.get(site.url("/secret")).from_cache
    assert len(cache.responses) == 0 and pages(cache.store) == []
    assert session.get(site.url("/other")).status_code == 200
    assert session.get(site.url("/other")).from_cache


def test_threads(cache: FileMapCache) -> None:
    def work(number: int) -> None:
        for turn in range(40):
            key = f"k{(number + turn) % 10}"
            cache.responses[key] = response(f"http://a.example/{turn % 3}", b"%d" % turn)
            assert cache.get_response(key) is None or key
            if turn % 7 == 0:
                cache.responses.bulk_delete([key])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    assert check(cache.store) == len(cache.responses)


def test_a_kill_leaves_nothing_that_no_entry_finds(path: Path) -> None:
    code = """
import itertools, sys
from requests_cache import CachedResponse
from requests_cache.models import CachedRequest
from filemap.requests_cache import FileMapCache
cache = FileMapCache(sys.argv[1], options={"free_space_floor": 0})
for n in itertools.count():
    url = f"http://a.example/{n % 50}/{n // 50 % 2}"
    made = CachedResponse(url=url, status_code=200, request=CachedRequest(method="GET", url=url))
    made._content = b"%d" % n * 500
    cache.responses[f"k{n % 50}"] = made
    cache.redirects[f"r{n % 50}"] = f"k{n % 50}"
    print(n, flush=True)
"""
    kills = 30 if os.environ.get("FILEMAP_CHECK") == "soak" else 6
    for turn in range(kills):
        with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for _ in range(100 + 13 * turn):
                last = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            rest = child.stdout.read().split()
        last = int(rest[-1]) if rest else last
        cache = FileMapCache(path, options=OPTIONS)
        number = check(cache.store)
        assert number == len(cache.responses) >= 49
        assert cache.store.verify().ok
        said = cache.responses[f"k{last % 50}"]
        # One more entry than reported may be stored, but not under this key.
        assert said.content == b"%d" % last * 500 and len(cache.redirects) == 50
        cache.close()


def test_a_mapping_of_its_own(path: Path) -> None:
    one, two = FileMapDict(path, "one", options=OPTIONS), FileMapDict(path, "two", options=OPTIONS)
    one["k"], two["k"] = response(body=b"1"), response(body=b"2")
    one["A key: \u20ac"] = {"a": [1, None]}
    assert (one["k"].content, two["k"].content) == (b"1", b"2")
    assert one["A key: \u20ac"] == {"a": [1, None]} and set(one) == {"k", "A key: \u20ac"}
    assert 7 not in one
    one.close()
    two.close()


def test_an_unknown_argument_is_an_error(path: Path) -> None:
    with pytest.raises(TypeError, match="readonly"):
        FileMapCache(path, readonly=True)
    FileMapCache(path, options=OPTIONS, expire_after=60, match_headers=True).close()
