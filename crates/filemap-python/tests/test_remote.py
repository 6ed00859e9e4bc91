"""A store behind a server works like a store: `filemap.open("http://...")`; and its changes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import filemap
from fm_serve import served

URL = "http://example.com/"
T0 = 1_700_000_000


@pytest.fixture
def remote(path: Path) -> Iterator[filemap.PageStore]:
    with served(path, "--write") as location, filemap.open(location, "w") as store:
        yield store


def test_what_is_put_comes_back(remote: filemap.PageStore) -> None:
    headers = [("Content-Type", "text/html"), ("Set-Cookie", "a=1"), ("set-cookie", b"b=\xff")]
    version = remote.put(
        "http://Example.com:80/#top", b"\x00<p>\xff", status=404, headers=headers, time=T0
    )
    page = remote[URL]
    assert (page.body, page.status, page.url) == (
        b"\x00<p>\xff",
        404,
        "http://Example.com:80/#top",
    )
    assert page.headers.raw()[2] == (b"set-cookie", b"b=\xff")
    assert (page.time_ms, version.time_ms) == (T0 * 1000, T0 * 1000)
    assert URL in remote and "http://none.example/" not in remote and "no url" not in remote
    assert remote.get("http://none.example/", 7) == 7
    with pytest.raises(KeyError):
        remote["http://none.example/"]
    with pytest.raises(filemap.InvalidValueError, match="not an absolute URL"):
        remote.put("no url", b"x")
    assert len(remote) == 1 and remote.key("HTTP://example.com") == URL
    assert remote.put_if_changed(URL, b"\x00<p>\xff", time=T0 + 1, status=404).changed is False
    assert remote.put_if_changed(URL, "new", time=T0 + 2).changed
    assert [head.time_ms - T0 * 1000 for head in remote.history(URL)] == [2000, 1000, 0]
    at = remote.get(URL, at=T0 + 1)
    assert at is not None and at.status == 404
    head = remote.head(URL)
    assert head is not None and head.body_bytes == 3
    old = remote.get_version(URL, version)
    assert old is not None and old.body == b"\x00<p>\xff"
    del remote[URL]
    assert URL not in remote
    with pytest.raises(KeyError):
        del remote[URL]


def test_lists_and_many_at_once(remote: filemap.PageStore) -> None:
    pages = [(f"http://a.example/{n:04}", f"page {n}") for n in range(2500)]
    assert remote.put_many(iter(pages)) == 2500
    remote.put("http://b.example/", "b")
    remote.put(URL, "posted", variant=b"POST")
    assert len(remote) == 2501
    listed = list(remote.urls(host="a.example"))
    assert listed == [url for url, _ in pages], "in order, over several requests"
    assert list(remote.urls(host="a.example", reverse=True))[0] == pages[-1][0]
    assert next(remote.urls(host="a.example", after=pages[1200][0])) == pages[1201][0]
    assert remote.count(domain="example") == 2501
    assert list(remote) == [*listed, "http://b.example/"]
    wanted = [pages[5][0], "http://none.example/", pages[7][0]]
    found = [page and page.text for page in remote.get_many(wanted, ahead=2)]
    assert found == ["page 5", None, "page 7"]
    assert list(remote.variants(URL)) == [b"POST"]
    posted = remote.get(URL, variant=b"POST")
    assert posted is not None and posted.body == b"posted"
    assert remote.remove(URL, variant=b"POST") and not remote.remove(URL)
    remote.put(URL, "first", time=1000)
    remote.put(URL, "second", time=2000)
    assert remote.remove(URL, at=1000) and not remote.remove(URL, at=1000)
    assert [head.time.timestamp() for head in remote.history(URL)] == [2000]
    assert remote.remove(URL)
    assert isinstance(remote.stat()["keys"], int)


def test_asyncio_methods(remote: filemap.PageStore) -> None:
    async def work() -> None:
        await remote.aput(URL, "hello")
        page = await remote.aget(URL)
        assert page is not None and page.text == "hello" and await remote.acontains(URL)
        await remote.async_()
        kinds = [change.kind async for change in remote.achanges()]
        assert kinds == ["put", "listed"]

    asyncio.run(work())


def test_what_needs_the_files_says_so(remote: filemap.PageStore) -> None:
    for call in (
        remote.verify,
        remote.compact,
        remote.recompress,
        lambda: remote.pages(),
        lambda: remote.splits(2),
        remote.to_arrow,
    ):
        with pytest.raises(filemap.FileMapError, match="behind a server"):
            call()
    assert remote.path == str(remote.path) and remote.canonicalizer == "whatwg"
    assert "127.0.0.1" in repr(remote)


def test_what_a_server_refuses(path: Path, tmp_path: Path) -> None:
    with pytest.raises(filemap.RemoteError):
        filemap.open("http://127.0.0.1:1")
    with pytest.raises(ConnectionError):
        filemap.open("http://127.0.0.1:1", "a")
    filemap.open(path, "x").close()
    tokens = tmp_path / "tokens"
    tokens.write_text("read 0123456789abcdef\n")
    with served(path, "--token-file", str(tokens)) as location:
        with pytest.raises(filemap.RemoteError, match="token"):
            filemap.open(location)
        with pytest.raises(filemap.ReadOnlyError):
            filemap.open(location, "w", token="0123456789abcdef")
        with pytest.raises(TypeError, match="keep_versions"):
            filemap.open(location, keep_versions=1)
        with filemap.open(location, token="0123456789abcdef") as store:
            assert len(store) == 0
            with pytest.raises(filemap.ReadOnlyError):
                store.put(URL, "x")
            with pytest.raises(filemap.ReadOnlyError):
                store.remove(URL)
        with pytest.raises(filemap.ClosedError):
            len(store)


def kinds(changes: filemap.Changes) -> list[tuple[str, str | None]]:
    return [(change.kind, change.url) for change in changes]


@pytest.mark.parametrize("where", ["here", "there"])
def test_changes(path: Path, where: str) -> None:
    if where == "here":
        with filemap.open(path, "x", free_space_floor=0) as store:
            check_changes(store)
    else:
        with served(path, "--write") as location, filemap.open(location, "w") as store:
            check_changes(store)


def check_changes(store: filemap.PageStore) -> None:
    store.put(URL, "one", time=T0)
    store.put("http://a.example/", "a", time=T0, variant=b"POST")
    store.sync()
    changes = store.changes()
    assert kinds(changes) == [("put", URL), ("put", "http://a.example/"), ("listed", None)]
    place = changes.cursor
    assert place is not None
    store.put(URL, "two", time=T0 + 1)
    store.remove(URL)
    store.put("http://b.example/", b"\xff" * 10, time=T0)
    store.sync()
    changes = store.changes(place)
    removed, put = changes
    assert (removed.kind, removed.url, removed.record_kind) == ("removed", URL, "response")
    assert removed.time is not None and removed.page is None
    assert put.page is not None and put.page.body == b"\xff" * 10 and put.variant is None
    assert kinds(store.changes(changes.cursor, wait=0.3)) == []
    assert kinds(store.changes("now")) == []
    with pytest.raises(ValueError):
        store.changes(place, wait=1000)
    lost = place.split("-")
    lost[1] = "0123456789abcdef"
    with pytest.raises(filemap.OutrunError, match="begin anew"):
        list(store.changes("-".join(lost)))
    with pytest.raises(filemap.FileMapError):
        list(store.changes("no place"))
