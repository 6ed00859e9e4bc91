"""Seen sets on Redis: `filemap.seen.open("redis://...")`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import filemap
from filemap import seen
from redis_server import Redis

URLS = [f"http://a.example/{n}" for n in range(10_000)]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    server = Redis(tmp_path)
    yield server
    server.stop()


def test_a_set_is_a_set(redis: Redis) -> None:
    location = redis.seen("pages")
    with pytest.raises(FileNotFoundError, match="there is no set of this name"):
        seen.open(location, "w")
    with seen.open(location, capacity=100_000) as known, seen.open(location, "w") as other:
        assert known and len(known) == 0 and known.mode == "a" and known.path == location
        assert known.add("http://a/") and not other.add(b"http://a/")
        assert other.add_many(iter(URLS[:6000])) == [True] * 6000
        new = known.add_many([*URLS, URLS[0]])
        assert new == [False] * 6000 + [True] * 4000 + [False]
        assert len(known) == len(other) == 10_001 and known.stat()["urls"] == 10_001
        assert all(known.contains_many(URLS)) and "http://a/" in other and 5 not in known
        assert known.contains_many(["http://absent/", "http://a/"]) == [False, True]
        with pytest.raises(filemap.FileMapError, match="forgets no URL"):
            known.forget_many(["http://a/"])
        with seen.open(location, "r") as reader:
            assert "http://a/" in reader
            with pytest.raises(filemap.ReadOnlyError):
                reader.add("http://b/")
        assert "http://b/" not in known
    with pytest.raises(filemap.ClosedError):
        known.add("http://b/")
    with pytest.raises(FileExistsError):
        seen.open(location, "x")
    with pytest.raises(ValueError, match="capacity: .* made with 100000, not 5"):
        seen.open(location, capacity=5)
    seen.open(location, capacity=100_000).close()


def test_rules_are_those_of_the_set(redis: Redis) -> None:
    with seen.open(redis.seen("rules"), canonicalizer="crawl") as known:
        assert known.add("http://EXAMPLE.com:80/#top")
    with seen.open(redis.seen("rules")) as known:
        assert "http://example.com/" in known
    with pytest.raises(ValueError, match="canonical by crawl"):
        seen.open(redis.seen("rules"), canonicalizer="whatwg")


def test_what_is_wrong_is_named(redis: Redis) -> None:
    with pytest.raises(ValueError, match="redis://HOST:PORT/NAME"):
        seen.open(f"redis://127.0.0.1:{redis.port}/UPPER")
    with pytest.raises(ValueError) as told:
        seen.open(f"redis://me:hidden@127.0.0.1:{redis.port}/a")
    assert "hidden" not in str(told.value)
    with pytest.raises(TypeError, match="token"):
        seen.open(redis.seen("a"), token="t")
    with pytest.raises(TypeError, match="capacity"):
        seen.open("a.set", capacity=10)
    with pytest.raises(ConnectionError, match="does not answer"):
        seen.open("redis://127.0.0.1:1/a", patience=0.1)


def test_a_server_that_goes_is_named(redis: Redis) -> None:
    known = seen.open(redis.seen("gone"), patience=0.2)
    assert known.add("http://a/")
    redis.stop()
    with pytest.raises(ConnectionError, match="ask again with this handle"):
        known.add("http://b/")
