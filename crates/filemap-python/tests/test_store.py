"""Pages: put, get, list, remove; a get returns exactly the page that was put."""

import asyncio
import pickle
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from time import time as now

import pytest

import filemap

URL = "http://example.com/"
T0 = 1_700_000_000


def test_a_page_comes_back_as_it_was_put(store: filemap.PageStore) -> None:
    headers = [("Content-Type", "text/html"), ("Set-Cookie", "a=1"), ("set-cookie", b"b=\xff")]
    version = store.put(
        "http://Example.com:80/#top",
        b"\x00<p>\xff",
        status=404,
        headers=headers,
        time=T0,
        reason="Not Found",
        http_version="HTTP/2",
        method="GET",
        ip="192.0.2.7",
        truncated="length",
        digest="sha1:AAAA",
        record_id="<urn:uuid:1>",
    )
    page = store[URL]
    assert (page.body, page.status, page.url) == (
        b"\x00<p>\xff",
        404,
        "http://Example.com:80/#top",
    )
    assert list(page.headers) == [
        ("Content-Type", "text/html"),
        ("Set-Cookie", "a=1"),
        ("set-cookie", "b=\xff"),
    ]
    assert page.headers.raw()[2] == (b"set-cookie", b"b=\xff")
    assert page.headers.get_all("SET-COOKIE") == ["a=1", "b=\xff"]
    assert (page.headers["content-type"], page.headers.get("x"), page.headers.get("x", 3)) == (
        "text/html",
        None,
        3,
    )
    assert "Set-Cookie" in page.headers and "X" not in page.headers and 3 not in page.headers
    with pytest.raises(KeyError):
        page.headers["X"]
    assert page.time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC) == version.time
    assert (page.time_ms, version.time_ms) == (T0 * 1000, T0 * 1000)
    assert (page.reason, page.http_version, page.method, page.ip) == (
        "Not Found",
        "HTTP/2",
        "GET",
        "192.0.2.7",
    )
    assert (page.truncated, page.digest, page.record_id) == ("length", "sha1:AAAA", "<urn:uuid:1>")
    assert (page.kind, page.content_type, page.variant) == ("response", "text/html", None)
    assert page.body is page.body, "one object, however often it is asked for"
    assert isinstance(page, filemap.Capture)


def test_no_mode_empties_a_store_and_each_says_what_is_wrong(path: Path) -> None:
    for mode in ("r", "w"):
        with pytest.raises(FileNotFoundError) as absent:
            filemap.open(path, mode)  # type: ignore[arg-type]
        assert isinstance(absent.value, filemap.NotAStoreError) and str(path) in str(absent.value)
    with filemap.open(path, "a") as store:
        store.put(URL, b"x")
        with pytest.raises(BlockingIOError) as locked:
            filemap.open(path, "w")
        assert isinstance(locked.value, filemap.LockedError) and locked.value.pid
    with pytest.raises(FileExistsError):
        filemap.open(path, "x")
    for mode in ("r", "w", "a"):
        with filemap.open(path, mode) as store:  # type: ignore[arg-type]
            assert (len(store), store.mode, store.path) == (1, mode, path)
    with filemap.open(path) as store, pytest.raises(PermissionError):
        store.put(URL, b"y")
    with pytest.raises(ValueError, match="no mode empties"):
        filemap.open(path, "wb")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="durabilty"):
        filemap.open(path, durabilty="sync")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="durability"):
        filemap.open(path, durability="often")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="segment_bytes"):
        filemap.open(path, "w", segment_bytes=1)
    assert issubclass(filemap.CorruptError, filemap.FileMapError)


def test_a_closed_store_says_so_and_closes_again(store: filemap.PageStore) -> None:
    urls = store.urls()
    store.close()
    store.close()
    assert store.closed and "closed" in repr(store) and "closed" in store._repr_html_()
    with pytest.raises(filemap.ClosedError):
        store.get(URL)
    with pytest.raises(ValueError):
        len(store)
    with pytest.raises(filemap.ClosedError):
        list(urls)


def test_it_is_used_as_a_mapping(store: filemap.PageStore) -> None:
    assert store, "a store is true, also if it is empty"
    store.put(URL, "text")
    assert URL in store and URL.encode() in store and "http://other/" not in store
    assert "no URL" not in store and 5 not in store
    assert (list(store), len(store)) == ([URL], 1)
    assert store.get("http://other/") is None and store.get("http://other/", 7) == 7
    with pytest.raises(KeyError) as missing:
        store["http://other/"]
    assert missing.value.args == ("http://other/",)
    with pytest.raises(filemap.InvalidUrlError):
        store["no URL"]
    del store[URL]
    with pytest.raises(KeyError):
        del store[URL]
    assert len(store) == 0 and not store.remove(URL)


def test_one_version_is_removed_by_its_time(store: filemap.PageStore) -> None:
    for time in (1000, 2000, 3000):
        store.put(URL, f"of {time}", time=time)
    store.sync()
    listed = store.changes()
    assert [change.kind for change in listed] == ["put", "put", "put", "listed"]
    place = listed.cursor
    assert not store.remove(URL, at=1500)
    assert store.remove(URL, at=2000) and not store.remove(URL, at=2000)
    assert [head.time.timestamp() for head in store.history(URL)] == [3000, 1000]
    changes = list(store.changes(place))
    assert [(change.kind, change.url) for change in changes[-1:]] == [("removed-version", URL)]
    assert changes[-1].version_time is not None
    assert changes[-1].version_time.timestamp() == 2000 and changes[-1].page is None
    assert asyncio.run(store.aremove(URL, at=3000)) and URL in store


def test_versions_are_found_by_time(store: filemap.PageStore) -> None:
    for day in range(3):
        store.put(URL, f"day {day}", time=T0 + day * 86400)
    noon = datetime.fromtimestamp(T0 + 86400 + 5, timezone(timedelta(hours=5)))
    assert store[URL].body == b"day 2"
    assert [
        page and page.body for page in (store.get(URL, at=noon), store.get(URL, at=T0 - 1))
    ] == [b"day 1", None]
    assert [head.time_ms // 1000 - T0 for head in store.history(URL)] == [2 * 86400, 86400, 0]
    newest, *_, oldest = store.history(URL)
    assert newest.version > oldest.version and newest.body_bytes == 5
    found = store.get_version(URL, oldest.version)
    assert found and found.body == b"day 0"
    assert [head.time_ms for head in store.history(URL, until=T0)] == [T0 * 1000]
    head = store.head(URL, at=noon)
    assert (
        head and head.version.time_ms == (T0 + 86400) * 1000 and store.head("http://other/") is None
    )
    assert pickle.loads(pickle.dumps(oldest.version)) == oldest.version


def test_times_without_a_zone_are_refused(store: filemap.PageStore) -> None:
    with pytest.raises(ValueError, match="time zone"):
        store.put(URL, b"", time=datetime(2024, 1, 1))
    with pytest.raises(TypeError):
        store.put(URL, b"", time="yesterday")  # type: ignore[call-overload]
    with pytest.raises(ValueError):
        store.put(URL, b"", time=float("nan"))
    store.put(URL, b"", time=-1.5)
    assert store[URL].time == datetime(1969, 12, 31, 23, 59, 58, 500000, tzinfo=UTC)
    before = datetime.now(UTC)
    store.put(URL, b"")
    assert (
        timedelta(0)
        <= store[URL].time - before.replace(microsecond=before.microsecond // 1000 * 1000)
        < timedelta(minutes=1)
    )


def test_an_unchanged_body_is_not_stored_again(store: filemap.PageStore) -> None:
    first = store.put_if_changed(URL, b"x" * 5000, time=T0)
    again = store.put_if_changed(URL, b"x" * 5000, time=T0 + 1, headers={"ETag": "2"})
    other = store.put_if_changed(URL, b"y" * 5000, time=T0 + 2)
    assert [put.changed for put in (first, again, other)] == [True, False, True]
    assert [head.unchanged for head in store.history(URL)] == [False, True, False]
    page = store.get(URL, at=T0 + 1)
    assert page and page.body == b"x" * 5000 and page.headers["etag"] == "2"


def test_bodies_of_every_kind_and_size(store: filemap.PageStore) -> None:
    for nth, body in enumerate([b"", b"a", bytearray(b"b"), memoryview(b"cd")[1:], "\u00e9"]):
        store.put(f"http://h/{nth}", body)
    assert [store[f"http://h/{nth}"].body for nth in range(5)] == [
        b"",
        b"a",
        b"b",
        b"d",
        b"\xc3\xa9",
    ]
    with pytest.raises(TypeError, match="bytes or str"):
        store.put("http://h/x", 5)  # type: ignore[call-overload]
    for size in (1 << 20, (1 << 20) + 1, 5_000_000):
        body = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
        store.put("http://large/", body)
        assert store["http://large/"].body == body
        assert next(iter(store.get_many(["http://large/"]))).body == body  # type: ignore[union-attr]
    large = store.put_if_changed("http://large/", store["http://large/"].body)
    assert not large.changed and len(store["http://large/"].body) == 5_000_000


def test_pages_are_put_as_objects(store: filemap.PageStore) -> None:
    page = filemap.Page(
        URL, "body", status=None, headers={"A": ["1", "2"]}, time=T0, kind="resource"
    )
    store.put(page)
    assert store[URL].status is None and store[URL].kind == "resource"
    assert store[URL].headers == filemap.Headers([("A", "1"), ("A", "2")]) == page.headers
    with pytest.raises(TypeError):
        store.put(page, b"x")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="no argument 'colour'"):
        filemap.Page(URL, b"", colour="red")  # type: ignore[call-arg]
    with pytest.raises(ValueError):
        filemap.Page(URL, b"", headers={"A": "1\r\nB: 2"})
    with pytest.raises(ValueError, match="IP"):
        filemap.Page(URL, b"", ip="localhost")
    with pytest.raises(filemap.InvalidValueError):
        filemap.Page(URL, b"", status=-1)
    with pytest.raises(filemap.InvalidUrlError):
        store.put("no URL", b"")
    with pytest.raises(filemap.InvalidValueError):
        store.put(URL, b"", variant="v" * 100_000)


def test_many_pages_are_put_and_read_in_order(store: filemap.PageStore) -> None:
    assert store.put_many((f"http://h{n % 3}.example.org/{n}", str(n)) for n in range(100)) == 100
    assert store.put_many([filemap.Page(URL, b"x", time=T0)], if_changed=True) == 1
    wanted = [f"http://h{n % 3}.example.org/{n}" for n in reversed(range(120))]
    found = list(store.get_many(wanted, ahead=7))
    assert [page.body if page else None for page in found] == [
        str(n).encode() if n < 100 else None for n in reversed(range(120))
    ]

    def items() -> "list[tuple[str, bytes]]":
        return [("http://ok/", b""), ("no URL", b""), ("http://after/", b"")]

    with pytest.raises(filemap.InvalidUrlError):
        store.put_many(items())
    assert "http://ok/" in store and "http://after/" not in store
    with pytest.raises(TypeError, match="pair"):
        store.put_many([("http://b/", b""), 5])  # type: ignore[list-item]
    assert "http://b/" in store, "what came before a wrong item is put"
    many = store.get_many(["http://ok/", "no URL", "http://ok/"])
    assert next(many) is not None
    with pytest.raises(filemap.InvalidUrlError):
        next(many)
    assert next(many) is not None, "an error does not end it"
    with pytest.raises(StopIteration):
        next(many)


def test_lists_by_host_domain_prefix_and_time(store: filemap.PageStore) -> None:
    urls = ["http://a.org/1", "http://b.a.org/2", "http://ba.org/3", "https://a.org/4"]
    for nth, url in enumerate(urls):
        store.put(url, str(nth), time=T0 + nth)
    assert sorted(store.urls(host="A.org")) == ["http://a.org/1", "https://a.org/4"]
    in_order = ["http://a.org/1", "https://a.org/4", "http://b.a.org/2"]
    assert list(store.urls(domain="a.org")) == in_order
    assert list(store.urls(prefix="https:")) == ["https://a.org/4"]
    assert sorted(store.urls()) == sorted(urls)
    assert [page.body for page in store.pages(domain="a.org", since=T0 + 1)] == [b"1", b"3"]
    assert [page.body for page in store.pages(until=T0 + 1)] == [b"0", b"1"]
    assert [head.url for head in store.heads(host="ba.org")] == ["http://ba.org/3"]
    assert len(list(store.pages())) == 4
    store.put(urls[0], "again", time=T0 + 9)
    assert [page.body for page in store.pages(host="a.org", prefix="http:", all_versions=True)] == [
        b"0",
        b"again",
    ]


def test_urls_go_both_ways_and_on_behind_a_page_and_are_counted(store: filemap.PageStore) -> None:
    urls = [f"http://{host}.example/{page}" for host in ("a", "b.a", "c") for page in range(3)]
    for url in reversed(urls):
        store.put(url, "x")
    store.put(urls[0], "x", variant="fr")
    assert list(store.urls()) == list(store) == urls
    assert list(store.urls(reverse=True)) == urls[::-1]
    for at, url in enumerate(urls):
        assert list(store.urls(after=url)) == urls[at + 1 :]
        before = urls[: min(at, 6)][::-1]
        assert list(store.urls(after=url, reverse=True, domain="a.example")) == before
    assert next(store.urls(after="HTTP://B.A.Example/00")) == urls[4], "no page need be there"
    assert (store.count(), store.count(domain="a.example")) == (9, 6)
    assert store.count(host="c.example") == 3
    assert (store.count(prefix=urls[0]), store.count(variants=True)) == (1, 1)
    assert list(store.urls(variants=True, reverse=True)) == [urls[0]]
    with pytest.raises(filemap.InvalidUrlError):
        store.urls(after="no URL")
    with pytest.raises(filemap.InvalidValueError):
        store.urls(after=URL, variants=True)


def test_a_store_without_an_order_lists_in_any_and_says_so(path: Path) -> None:
    with filemap.open(path, "x", keys_in_order=False) as store:
        store.put("http://a.example/", b"A page.")
        assert list(store.urls(host="a.example")) == ["http://a.example/"]
        with pytest.raises(filemap.FileMapError, match="a repair makes one"):
            store.urls(reverse=True)


def test_variants_stand_beside_the_page(store: filemap.PageStore) -> None:
    store.put(URL, b"page")
    store.put(URL, b"fr", variant="fr")
    store.put(URL, b"de", variant=b"de")
    assert store[URL].body == b"page" and len(store) == 1
    assert sorted(store.variants(URL)) == [b"de", b"fr"] and list(store.variants("http://o/")) == []
    page = store.get(URL, variant="fr")
    assert page and page.body == b"fr" and page.variant == b"fr"
    assert sorted(head.variant or b"" for head in store.heads(variants=True)) == [b"de", b"fr"]
    assert sorted(page.body for page in store.pages(variants=True)) == [b"de", b"fr"]
    assert list(store.urls(host="example.com", variants=True)) == [URL, URL]
    assert store.remove(URL, variant="fr") and not store.remove(URL, variant="fr")
    assert store.remove(URL) and list(store.variants(URL)) == []


def test_urls_that_are_no_utf8_come_back(path: Path) -> None:
    with filemap.open(path, "a", canonicalizer="exact") as store:
        assert store.canonicalizer == "exact"
        store.put(b"http://h/\xff", b"x")
        (url,) = store
        assert url == "http://h/\udcff" and store[url].body == b"x" and store[url].url == url
    with pytest.raises(filemap.FileMapError, match="exact"):
        filemap.open(path, "w", canonicalizer="whatwg")


@pytest.mark.parametrize(
    ("body", "content_type", "text", "encoding"),
    [
        (b"caf\xc3\xa9", None, "caf\u00e9", "UTF-8"),
        (b"caf\xe9", None, "caf\u00e9", "windows-1252"),
        (b"caf\xe9", "text/html; charset=iso-8859-1", "caf\u00e9", "windows-1252"),
        (b'<meta charset="koi8-r">\xc1', None, '<meta charset="koi8-r">\u0430', "KOI8-R"),
        (b"\xef\xbb\xbfx", "text/html; charset=koi8-r", "x", "UTF-8"),
        (b"\xff\xfex\x00", None, "x", "UTF-16LE"),
    ],
)
def test_text_is_decoded_by_bom_header_and_meta(
    store: filemap.PageStore, body: bytes, content_type: str | None, text: str, encoding: str
) -> None:
    store.put(URL, body, headers={"Content-Type": content_type} if content_type else None)
    assert (store[URL].text, store[URL].encoding) == (text, encoding)


def test_views_for_notebooks_are_escaped(store: filemap.PageStore) -> None:
    store.put("http://h/?<script>", b"", headers={"Content-Type": "<img src=x onerror=1>"})
    (url,) = store
    for shown in (store[url]._repr_html_(), next(store.heads())._repr_html_()):
        assert "<script>" not in shown and "<img" not in shown and "&lt;img" in shown
    assert "<table>" in store._repr_html_() and store.stat()["puts"] == 1
    assert "puts" in store.stat()._repr_html_()


def test_damage_is_an_error_with_file_and_offset(path: Path) -> None:
    noise = bytes(range(256)) * 40
    with filemap.open(path, "a", dictionaries=False, compression_level=0) as store:
        for n in range(20):
            store.put(f"http://h/{n}", noise + str(n).encode())
    file = path / "value0.dat"
    data = bytearray(file.read_bytes())
    middle = data.index(noise + b"7") + 100
    data[middle] ^= 0xFF
    file.write_bytes(data)
    with filemap.open(path) as store:
        with pytest.raises(filemap.CorruptError) as damage:
            store["http://h/7"]
        assert damage.value.file == "value0.dat" and 0 < (damage.value.offset or 0) <= middle
        read = []
        pages = store.pages()
        errors = 0
        while True:
            try:
                read.append(next(pages).url)
            except StopIteration:
                break
            except filemap.CorruptError:
                errors += 1
        assert (len(read), errors) == (19, 1), "the other pages are read"
        report = store.verify()
        assert not report.ok and report.problems[0].file == "value0.dat" and report.complete


def test_absent_files_are_named(path: Path) -> None:
    with filemap.open(
        path,
        "a",
        segment_bytes=1 << 20,
        large_value_bytes=1 << 19,
        dictionaries=False,
        compression_level=0,
    ) as store:
        for n in range(40):
            store.put(f"http://h/{n}", bytes([n]) * 100_000)
    (path / "value1.dat").unlink()
    with pytest.raises(filemap.CorruptError, match="value1.dat"):
        filemap.open(path, "w")
    with filemap.open(path) as store:
        (absent,) = store.absent
        assert absent.file == "value1.dat" and not absent.accepted and not store.verify().ok
        seen = 0
        pages = store.pages()
        with pytest.raises(filemap.CorruptError, match="value1.dat"):
            for _ in pages:
                seen += 1
        assert seen > 20
    with filemap.open(path, "w", accept_loss=True) as store:
        assert store.absent[0].accepted


@pytest.mark.parametrize(
    ("scope", "of"),
    [
        ({"host": "a.example.org"}, ["http://a.example.org/"]),
        ({"prefix": "http://b.example.org/x"}, ["http://b.example.org/x/"]),
        ({"regex": "/x/$"}, ["http://b.example.org/x/", "http://c.example.net/x/"]),
    ],
)
def test_pruning_a_part_leaves_all_else(
    store: filemap.PageStore, scope: dict[str, str], of: list[str]
) -> None:
    urls = ["http://a.example.org/", "http://b.example.org/x/", "http://c.example.net/x/"]
    for url in urls:
        store.put(url, b"old", time=T0)
        store.put(url, b"new", time=now())
    pruned = store.prune(**scope, older_than=3600.0)
    assert pruned.ok and pruned.versions == len(of)
    for url in urls:
        assert len(list(store.history(url))) == (1 if url in of else 2)
        assert store[url].body == b"new"


def test_upkeep(store: filemap.PageStore, tmp_path: Path) -> None:
    for n in range(50):
        store.put(f"http://h/{n}", bytes([n]) * 20_000, time=T0 + n)
        store.put(f"http://h/{n}", bytes([n]) * 20_001, time=T0 + 100 + n)
    planned = store.prune(keep_versions=1, dry_run=True)
    pruned = store.prune(keep_versions=1)
    assert planned.versions == 50 == pruned.versions and planned.ok and pruned.ok
    with pytest.raises(ValueError, match="keep_versions"):
        store.prune()
    with pytest.raises(ValueError, match="negative"):
        store.prune(older_than=-5)
    told: list[tuple[int, int]] = []
    compacted = store.compact(progress=lambda done, total: told.append((done, total)))
    assert (
        compacted.ok and compacted.removed_segments == 1 and "removed_segments=1" in repr(compacted)
    )
    told.clear()
    anew = store.recompress(12, progress=lambda done, total: told.append((done, total)))
    assert anew.ok and anew.copied_bytes > 0 and store.recompress(9).copied_bytes == 0
    with pytest.raises(ValueError, match="level"):
        store.recompress(20)
    assert store.verify(quick=True).ok and store.verify().value_records >= 50
    backup = store.backup(tmp_path / "copy.fm")
    assert backup.files > 2
    with filemap.open(tmp_path / "copy.fm") as copy:
        assert sorted(copy) == sorted(store)
    with pytest.raises(FileExistsError):
        store.backup(tmp_path / "copy.fm")
    report = store.erase(url="http://h/7", reason="asked for")
    assert report.complete and report.urls == 1 and "http://h/7" not in store
    with pytest.raises(filemap.RefusedError) as refused:
        store.put("http://h/7", b"again")
    assert refused.value.rule == report.rules[0]
    assert "http://h/7: erased" in str(refused.value)
    with pytest.raises(ValueError, match="exactly one"):
        store.erase(reason="x")


def test_an_exception_in_a_callback_ends_the_work(store: filemap.PageStore, tmp_path: Path) -> None:
    store.put_many((f"http://h/{n}", bytes([n % 256]) * 200_000) for n in range(2000))

    class Enough(Exception):
        pass

    def progress(_done: int, _total: int) -> None:
        raise Enough

    raised = 0
    for call in (
        store.verify,
        lambda progress: store.backup(tmp_path / "b", copy_all=True, progress=progress),
    ):
        try:
            call(progress=progress)
        except Enough:
            raised += 1
    assert raised or store.verify().complete, (
        "each is shorter than a tenth of a second, or was ended"
    )


def test_canonical_urls() -> None:
    assert filemap.canonicalize("HTTP://Example.com:80/a/../b#c") == "http://example.com/b"
    assert filemap.canonicalize("../c?x", base="http://e/a/b/d") == "http://e/a/c?x"
    assert filemap.canonicalize("http://e/?b=1&a=2", "crawl") == filemap.canonicalize(
        "http://e/?a=2&b=1", "crawl"
    )
    with pytest.raises(filemap.InvalidUrlError):
        filemap.canonicalize("/a")
    with pytest.raises(ValueError, match="canonicaliser"):
        filemap.canonicalize("http://e/", "best")
    with pytest.raises(ValueError, match="no rule"):
        filemap.canonicalize("http://e/", ["no such rule"])


def test_bodies_are_decoded_to_their_end() -> None:
    import gzip
    import zlib

    packed = gzip.compress(b"hello")
    assert filemap.decode_body(["gzip"], packed) == b"hello"
    assert filemap.decode_body(["deflate", "GZIP"], gzip.compress(zlib.compress(b"x"))) == b"x"
    assert filemap.decode_body(["deflate"], zlib.compress(b"x")[2:-4]) == b"x", "raw deflate"
    assert filemap.decode_body([], b"x") == b"x"
    assert filemap.decode_body(["gzip"], packed[:-1]) is None
    assert filemap.decode_body(["gzip"], packed + b"!") is None
    assert filemap.decode_body(["rot13"], packed) is None
    assert filemap.decode_body(["gzip"], gzip.compress(bytes(1000)), max_bytes=999) is None
    assert filemap.decode_body(["gzip"] * 9, packed) is None
