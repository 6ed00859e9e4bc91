"""Unreadable entries, made on purpose: only that entry is lost, and it is removed as invalid."""

import pytest

pytest.importorskip("requests_cache", reason="requests-cache is not installed")

import json
import logging
from collections.abc import Iterator
from pathlib import Path

from requests_cache.models import CachedRequest

from filemap.requests_cache import FileMapCache
from requests_cache import CachedResponse

DEEP = "[" * 100_000
ENTRIES = [
    "nope",
    "[]",
    "{}",
    DEEP,
    '{"url": 5}',
    '{"url": [1]}',
    '{"url": "no URL"}',
    '{"url": "http://a/\\ud800"}',
    json.dumps({"url": "http://a/" + "x" * 100_000}),
    '{"value": "no response"}',
]
NOTES = [
    "nope",
    "[]",
    DEEP,
    '{"history": [' * 450 + "{}" + "]}" * 450,
    '{"created_at": 5}',
    '{"expires": "soon"}',
    '{"elapsed": 1e400}',
    '{"headers": 5}',
    '{"cookies": 5, "request": 7}',
]


@pytest.fixture
def cache(path: Path) -> Iterator[FileMapCache]:
    cache = FileMapCache(path, options={"free_space_floor": 0})
    for key in ("a", "z"):
        made = CachedResponse(
            url=f"http://{key}/",
            status_code=200,
            request=CachedRequest(method="GET", url=f"http://{key}/"),
        )
        made._content = b"good"
        cache.responses[key] = made
    yield cache
    cache.close()


def check(cache: FileMapCache, caplog: pytest.LogCaptureFixture) -> None:
    """Checks that `k` cannot be read, and that all other entries are returned and stay."""
    with caplog.at_level(logging.ERROR):
        assert cache.get_response("k") is None
    assert "Unable to read the response of key k" in caplog.text
    assert set(cache.responses) == set(cache.responses.keys()) == {"a", "k", "z"}
    assert [value.content for value in cache.responses.values() if value] == [b"good"] * 2
    assert len(list(cache.filter())) == 2 and len(list(cache.filter(invalid=True))) == 3
    assert list(cache._pages.expired_keys()) == [] and cache.count() == 3
    cache.recreate_keys()
    cache.delete(invalid=True)
    assert len(list(cache.filter(invalid=True))) == 2
    assert "urn:requests-cache:responses:k" not in list(cache.store.urls(variants=True))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[:30])
def test_an_entry_costs_itself_alone(
    cache: FileMapCache, entry: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache.store.put("urn:requests-cache:responses:k", entry, variant="requests:")
    check(cache, caplog)


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note[:30])
def test_a_note_costs_itself_alone(
    cache: FileMapCache, note: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache.responses["k"] = cache.responses["a"]
    headers = {"X-Crawler-Requests": note}
    cache.store.put("http://a/", b"bad", variant="requests:k", headers=headers)
    check(cache, caplog)


@pytest.mark.parametrize("entry", ["nope", "{}", DEEP, '{"value": 5}', '{"value": [1]}'])
def test_a_redirect_costs_itself_alone(cache: FileMapCache, entry: str) -> None:
    cache.redirects["there"] = "a"
    cache.store.put("urn:requests-cache:redirects:k", entry, variant="requests:")
    assert cache.get_response("k") is None
    found = cache.get_response("there")
    assert found is not None and found.content == b"good"
    cache.delete(expired=True)
    assert list(cache.redirects) == ["there"]
