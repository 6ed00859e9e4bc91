"""The storage of the cache, by itself."""

import pytest

pytest.importorskip("scrapy.crawler", reason="Scrapy is not installed")

import gzip
import ipaddress
import json
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

from helpers import middleware_of, storage_of, store_of
from scrapy.http import HtmlResponse, Request, Response, TextResponse

import filemap
import scrapy
from filemap.scrapy import coding, responses
from filemap.scrapy.shared_pages import PagesService, Record

TEXT = b"<html><p>" + b"The quick brown fox jumps over the lazy dog. " * 20
URL = "http://example.com/a?b=1"


class Priced(HtmlResponse):
    attributes: tuple[str, ...] = (*HtmlResponse.attributes, "price", "odd")

    def __init__(self, *args: Any, price: object = None, odd: object = None, **kwargs: Any):
        self.price, self.odd = price, odd
        super().__init__(*args, **kwargs)


def kept(storage: Any, response: Response, request: Request | None = None) -> Response:
    """Stores a response; returns the response that the storage reads back."""
    asked = request or Request(response.url)
    storage.store_response(None, asked, response)
    found = storage.retrieve_response(
        None, Request(asked.url, method=asked.method, body=asked.body)
    )
    assert isinstance(found, Response)
    return found


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


CODED = [
    ("gzip", gzip.compress(TEXT)),
    ("x-gzip", gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:])),
    ("deflate", zlib.compress(TEXT)),
    ("deflate", raw_deflate(TEXT)),
    ("gzip, identity, deflate", zlib.compress(gzip.compress(TEXT))),
]


@pytest.mark.parametrize(("name", "body"), CODED)
def test_bodies_are_stored_and_given_back_decoded(cache: str, name: str, body: bytes) -> None:
    headers = {
        "Content-Type": "text/html",
        "Content-Encoding": name,
        "Content-Length": str(len(body)),
        "Set-Cookie": ["a=1", "b=2"],
    }
    with storage_of(cache) as storage:
        found = kept(storage, Response(URL, headers=headers, body=body))
        assert (type(found), found.body) == (HtmlResponse, TEXT)
        assert set(found.headers) == {b"Content-Type", b"Set-Cookie"}
        assert found.headers.getlist("Set-Cookie") == [b"a=1", b"b=2"]
        page = storage.pages.get(*storage._key(Request(URL)))
        assert page is not None
        stored = dict(page.headers)
        assert page.body == TEXT
        assert stored[b"X-Crawler-Content-Encoding"] == name.encode()
        assert stored[b"X-Crawler-Content-Length"] == str(len(body)).encode()
        assert stored[b"Content-Length"] == str(len(TEXT)).encode()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("gzip", gzip.compress(TEXT)[:-9]),
        ("gzip", gzip.compress(TEXT) + b"more"),
        ("gzip", TEXT),
        ("gzip", b""),
        ("deflate", zlib.compress(TEXT)[:-1]),
        ("deflate", zlib.compress(TEXT) + b"\0"),
        ("compress", TEXT),
        (", ".join(["gzip"] * 9), TEXT),
    ],
)
def test_a_body_that_does_not_decode_is_kept_as_it_came(cache: str, name: str, body: bytes) -> None:
    headers = {"Content-Encoding": name, "Content-Length": str(len(body))}
    response = Response(URL, headers=headers, body=body)
    with storage_of(cache) as storage:
        found = kept(storage, response)
    assert (found.body, found.headers) == (body, response.headers)


def test_a_bomb_is_kept_as_it_came(cache: str) -> None:
    bomb = gzip.compress(bytes(1 << 20))
    with storage_of(cache, DOWNLOAD_MAXSIZE=1 << 19) as storage:
        assert (
            kept(storage, Response(URL, headers={"Content-Encoding": "gzip"}, body=bomb)).body
            == bomb
        )
    assert coding.decode(["gzip"], bomb, 1 << 20) == bytes(1 << 20)
    assert coding.decode(["gzip"], bomb, (1 << 20) - 1) is None


def test_brotli_and_zstd_decode() -> None:
    brotli = pytest.importorskip("brotli")
    packed = brotli.compress(TEXT)
    assert coding.decode(["br"], packed, 1 << 20) == TEXT
    assert coding.decode(["br"], packed, len(TEXT) - 1) is None
    assert coding.decode(["br"], packed[:-2], 1 << 20) is None
    zstd = pytest.importorskip("backports.zstd")
    packed = zstd.compress(TEXT)
    assert coding.decode(["zstd"], packed + packed, 1 << 20) == TEXT + TEXT
    assert coding.decode(["zstd"], packed[:-2], 1 << 20) is None


def test_everything_else_of_a_response_comes_back(cache: str) -> None:
    address = ipaddress.ip_address("192.0.2.7")
    given = Response(
        URL,
        status=203,
        headers={"X": ["1", "2"], "Y": b"\xff\x01"},
        body=b"\0\1",
        flags=["mine", "cached"],
        ip_address=address,
        protocol="h2",
    )
    with storage_of(cache) as storage:
        found = kept(storage, given)
    assert (found.status, found.headers, found.body) == (203, given.headers, b"\0\1")
    assert (found.ip_address, found.protocol, found.flags) == (address, "h2", ["mine"])


def test_an_encoding_that_was_given_is_kept(cache: str) -> None:
    given = TextResponse(URL, body="caf\u00e9".encode("cp1252"), encoding="cp1252")
    with storage_of(cache) as storage:
        found = kept(storage, given)
    assert isinstance(found, TextResponse)
    assert found.text == "caf\u00e9"


def test_classes_come_from_a_list_only(cache: str) -> None:
    price = {"net": 7, "of": (1, b"\xff", [None, 2.5])}
    given = Priced(URL, body=b"<p>", price=price)
    with storage_of(cache) as storage:
        found = kept(storage, given)
        assert isinstance(found, Priced)
        assert found.price == price
    with storage_of(cache, FILEMAP_RESPONSE_CLASSES=[Priced]) as storage:
        assert isinstance(storage.retrieve_response(None, Request(URL)), Priced)
    with storage_of(cache) as storage:
        if scrapy.version_info >= (2, 18):
            with pytest.raises(responses.UnknownClassError, match="FILEMAP_RESPONSE_CLASSES"):
                storage.retrieve_response(None, Request(URL))
        else:
            assert storage.retrieve_response(None, Request(URL)) is None
    with (
        pytest.raises(TypeError, match="not a class of responses"),
        storage_of(cache, FILEMAP_RESPONSE_CLASSES=["os.system"]),
    ):
        pass


def test_what_cannot_be_kept_of_a_response_is_counted(cache: str) -> None:
    with storage_of(cache) as storage:
        found = kept(storage, Priced(URL, body=b"<p>", odd=object()))
        assert isinstance(found, Priced)
        assert found.odd is None
        assert storage._stats is not None
        assert storage._stats.get_value("filemap/cache/attributes_lost") == 1


def test_a_header_that_is_none_is_left_out_and_counted(cache: str) -> None:
    with storage_of(cache) as storage:
        found = kept(storage, Response(URL, headers={"A": "1", "B": b"2\0", "C": b"3\r\nD: 4"}))
        assert set(found.headers) == {b"A"}
        assert storage._stats is not None
        assert storage._stats.get_value("filemap/cache/attributes_lost") == 2


def test_a_server_cannot_write_what_is_ours(cache: str) -> None:
    note = {
        "url": "https://bank.example/login",
        "status": 200,
        "time": float("inf"),
        "body": {"bytes": "Zm9yZ2Vk"},
        "flags": ["x"],
    }
    headers = {
        "X-Crawler-Scrapy": [json.dumps(note), "[" * 100_000],
        "X-Crawler-Content-Encoding": "gzip",
        "Content-Length": "4",
    }
    with storage_of(cache) as storage:
        request = Request(URL)
        found = kept(storage, Response(URL, status=404, headers=headers, body=b"real"), request)
        assert (found.url, found.status, found.body, found.flags) == (URL, 404, b"real", [])
        assert found.headers["Content-Length"] == b"4"
        assert storage._stats is not None
        assert storage._stats.get_value("filemap/cache/attributes_lost") == 2
        # A page that came from an import only has the note of its server.
        storage.pages.put(
            Record(
                url=storage._key(request)[0],
                variant=storage._key(request)[1],
                time_ms=int(time.time() * 1000),
                status=404,
                headers=[(b"X-Crawler-Scrapy", json.dumps(note).encode())],
                body=b"imported",
            )
        )
        found = storage.retrieve_response(None, Request(URL))
        assert found is not None
        assert (found.url, found.status, found.body) == (URL, 404, b"imported")


def test_what_cannot_be_stored_is_counted_and_reaches_the_spider(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with storage_of(tmp_path) as storage:
        service = storage.pages._member.held
        assert service is not None
        storage.store_response(None, Request(URL), Response(URL, body=b"a"))
        storage.pages.settle()
        service.store.erase(host="example.com", reason="asked for")
        storage.store_response(None, Request(URL), Response(URL, body=b"b"))
        storage._failed(storage.pages.settle())
        assert storage._stats is not None
        assert storage._stats.get_value("filemap/cache/refused") == 1
        assert storage._stats.get_value("filemap/cache/store_error") is None
        with mock.patch.object(storage, "_pages") as pages:
            pages.put_later.return_value = [(URL, OSError("disk full"))]
            storage.store_response(None, Request(URL), Response(URL, body=b"c"))
        # A client of another process that has the store open behaves the same.
        for error in (filemap.RefusedError("rule 1"), filemap.StoreIOError(28, "full")):
            member = mock.Mock(held=None, call=mock.Mock(side_effect=error))
            with mock.patch.object(storage.pages, "_member", member):
                storage.store_response(None, Request(URL), Response(URL, body=b"d"))
                storage._expire(storage.pages)
        assert storage._stats.get_value("filemap/cache/expire_error") == 2
        assert storage._stats.get_value("filemap/cache/store_error") == 2
        assert storage._stats.get_value("filemap/cache/refused") == 2
    assert f"{URL} is not stored: disk full" in caplog.text


def test_pages_that_wait_are_found_and_survive_a_close(cache: str) -> None:
    bodies = {f"http://a.example/{n}": os.urandom(200_000) for n in range(100)}
    with storage_of(cache) as storage:
        for url, body in bodies.items():
            storage.store_response(None, Request(url), Response(url, body=body))
            if len(url) % 2:
                found = storage.retrieve_response(None, Request(url))
                assert found is not None
                assert found.body == body
    with storage_of(cache) as storage:
        for url, body in bodies.items():
            found = storage.retrieve_response(None, Request(url))
            assert found is not None
            assert found.body == body


def test_a_record_without_a_note_loads(tmp_path: Path) -> None:
    with storage_of(tmp_path) as storage:
        url, variant = storage._key(Request(URL))
        holder = storage.pages._member._role
        assert isinstance(holder, tuple)
        assert isinstance(holder[0], PagesService)
        headers = [(b"content-type", b"text/html")]
        holder[0].store.put(url, b"<p>", headers=headers, variant=variant, time=1_700_000_000)
        request = Request(URL)
        found = storage.retrieve_response(None, request)
        assert isinstance(found, HtmlResponse)
        assert found.headers[b"Content-Type"] == b"text/html"
        assert request.meta["cache_timestamp"] == 1_700_000_000


@pytest.mark.parametrize("note", [b"{", b"[]", b'{"flags":{"odd":1}}', b'{"_class":7}', b"\xff"])
def test_a_damaged_entry_is_an_error_that_becomes_a_miss(cache: str, note: bytes) -> None:
    with middleware_of(cache) as middleware:
        request = Request(URL)
        spider = middleware.storage
        middleware.storage.store_response(None, request, Response(URL, body=b"<p>"))
        url, variant = spider._key(request)
        record = spider.pages.get(url, variant)
        assert record is not None
        record.headers = [(responses.NOTE, note)]
        spider.pages.put(record)
        arguments = () if scrapy.version_info >= (2, 14) else (None,)
        assert middleware.process_request(request, *arguments) is None
        stats = middleware.stats
        assert stats.get_value("httpcache/miss") == 1
        assert stats.get_value("filemap/cache/retrieve_error") == 1


def test_damage_on_disk_is_a_miss_and_a_new_response_takes_its_place(tmp_path: Path) -> None:
    body = os.urandom(1 << 14)
    with storage_of(tmp_path) as storage:
        kept(storage, Response(URL, body=body))
    (log,) = (tmp_path / "pages.fm").glob("value*.dat")
    data = bytearray(log.read_bytes())
    at = data.find(body[:64])
    assert at > 0
    data[at] ^= 1
    log.write_bytes(data)
    with middleware_of(tmp_path) as middleware:
        request = Request(URL)
        arguments = () if scrapy.version_info >= (2, 14) else (None,)
        assert middleware.process_request(request, *arguments) is None
        assert middleware.stats.get_value("filemap/cache/retrieve_error") == 1
        middleware.storage.store_response(None, request, Response(URL, body=b"new"))
        found = middleware.process_request(request, *arguments)
        assert isinstance(found, Response)
        assert found.body == b"new"


def test_spiders_have_entries_of_their_own_unless_they_share(cache: str) -> None:
    long = "x" * 5000
    for name in ("one", "two", long):
        with storage_of(cache, name) as storage:
            assert storage.retrieve_response(None, Request(URL)) is None
            storage.store_response(None, Request(URL), Response(URL, body=name.encode()))
    for name in ("one", "two", long):
        with storage_of(cache, name) as storage:
            found = storage.retrieve_response(None, Request(URL))
            assert found is not None
            assert found.body == name.encode()
    with storage_of(cache, "one", FILEMAP_SHARED=True) as storage:
        kept(storage, Response(URL, body=b"ours"))
    with storage_of(cache, "two", FILEMAP_SHARED=True) as storage:
        assert storage.retrieve_response(None, Request(URL)) is not None
    with store_of(cache) as store:
        variants = list(store.variants(URL))
    fingerprint = variants[0].rpartition(b":")[2]
    assert len(fingerprint) == 40
    assert b"scrapy:one:" + fingerprint in variants
    assert b"scrapy::" + fingerprint in variants
    assert max(map(len, variants)) < 1024


def test_requests_of_one_url_have_entries_of_their_own(cache: str) -> None:
    with storage_of(cache) as storage:
        kept(storage, Response(URL, body=b"got"))
        post = Request(URL, method="POST", body=b"x=1")
        assert kept(storage, Response(URL, body=b"posted"), post).body == b"posted"
        found = storage.retrieve_response(None, Request(URL))
        assert found is not None
        assert found.body == b"got"


@pytest.mark.parametrize(
    "url", ["s3://bucket/key", "data:,hello", "http://256.1.1.1/", "http://a/" + "x" * 70_000]
)
def test_any_url_of_a_request_can_be_kept(cache: str, url: str) -> None:
    with storage_of(cache) as storage:
        found = kept(storage, Response(url, body=b"it"), Request(url))
        assert (found.url, found.body) == (url, b"it")


def test_what_expired_is_no_answer_and_is_removed_at_the_close(cache: str) -> None:
    with storage_of(cache, "other") as storage:
        storage.store_response(None, Request(URL), Response(URL))
    with storage_of(cache, HTTPCACHE_EXPIRATION_SECS=100) as storage:
        storage.store_response(None, Request(URL), Response(URL))
        assert storage.retrieve_response(None, Request(URL)) is not None
        later = storage.pages.get(*storage._key(Request(URL)))
        assert later is not None
        with mock.patch("filemap.scrapy.cache.time", return_value=later.time_ms / 1000 + 102):
            assert storage.retrieve_response(None, Request(URL)) is None
            storage.store_response(None, Request(f"{URL}2"), Response(f"{URL}2"))
            spider = None
            storage.close_spider(spider)
    with store_of(cache) as store:
        (left,) = store.variants(URL)
        assert left.startswith(b"scrapy:other:")
        assert list(store.variants(f"{URL}2")) != []


def test_a_client_of_the_holder_removes_what_expired_of_its_own(tmp_path: Path) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from helpers import storage_of
from scrapy.http import Request, Response
with storage_of({str(tmp_path)!r}, "holder", HTTPCACHE_EXPIRATION_SECS=10) as storage:
    storage.store_response(None, Request({URL!r}), Response({URL!r}))
    storage.pages.settle()
    print("open", flush=True)
    sys.stdin.read()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with storage_of(tmp_path, HTTPCACHE_EXPIRATION_SECS=10) as storage:
            assert not storage.pages.is_holder
            storage.store_response(None, Request(URL), Response(URL))
            storage.store_response(None, Request(f"{URL}2"), Response(f"{URL}2"))
            stats = storage._stats
            with mock.patch("filemap.scrapy.cache.time", return_value=time.time() + 100):
                storage.close_spider(None)
        assert stats is not None
        assert stats.get_value("filemap/cache/expired") == 2
        holder.communicate()
    with store_of(str(tmp_path)) as store:
        (left,) = store.urls(variants=True)
        assert left == URL


def test_the_same_body_again_is_a_version_of_the_description_only(cache: str) -> None:
    options = {} if cache.startswith("http://") else {"keep_versions": 9}
    with storage_of(cache, FILEMAP_OPTIONS=options) as storage:
        for date in ("1", "2"):
            kept(storage, Response(URL, headers={"Date": date}, body=TEXT))
        url, variant = storage._key(Request(URL))
    with store_of(cache) as store:
        newest, first = store.history(url, variant=variant)
        assert (newest.unchanged, first.unchanged) == (True, False)
        assert dict(newest.headers.raw())[b"Date"] == b"2"


def test_a_304_does_not_bring_back_the_coding(cache: str) -> None:
    headers = {"Content-Encoding": "gzip", "ETag": '"1"'}
    with storage_of(cache) as storage:
        found = kept(storage, Response(URL, headers=headers, body=gzip.compress(TEXT)))
        found.headers.update({"Date": "now", "Content-Encoding": "gzip", "Content-Length": "7"})
        assert set(found.headers) == {b"Etag", b"Date"}
        again = kept(storage, found)
        assert (again.body, set(again.headers)) == (TEXT, {b"Etag", b"Date"})
        page = storage.pages.get(*storage._key(Request(URL)))
        assert page is not None
        assert dict(page.headers)[b"X-Crawler-Content-Encoding"] == b"gzip"


def test_a_304_does_not_bring_a_length(cache: str) -> None:
    headers = {"Content-Length": str(len(TEXT)), "ETag": '"1"'}
    with storage_of(cache) as storage:
        found = kept(storage, Response(URL, headers=headers, body=TEXT))
        found.headers.update({"Date": "now", "Content-Length": "0"})
        again = kept(storage, found)
        assert again.headers["Content-Length"] == str(len(TEXT)).encode()
        assert again.headers["Date"] == b"now" and again.body == TEXT


def test_a_note_is_json_and_short(cache: str) -> None:
    with storage_of(cache) as storage:
        kept(storage, HtmlResponse(URL, body=b"<p>"))
        page = storage.pages.get(*storage._key(Request(URL)))
    assert page is not None
    note = json.loads(dict(page.headers)[responses.NOTE])
    assert set(note) == {"time", "_class"}
    assert abs(note["time"] * 1000 - page.time_ms) < 1


def test_a_cache_of_ten_thousand_pages_has_a_dozen_files(tmp_path: Path) -> None:
    folder = tmp_path / "pages.fm"
    with storage_of(tmp_path) as storage:
        for number in range(10_000):
            url = f"{URL}&n={number}"
            storage.store_response(None, Request(url), HtmlResponse(url, body=TEXT + url.encode()))
        open_files = len(list(folder.iterdir()))
    with filemap.open(folder) as store:
        assert store.count(variants=True) == 10_000
    assert max(open_files, len(list(folder.iterdir()))) <= 12


@pytest.mark.parametrize("setting", ["True", "False"])
def test_the_setting_for_gzip_changes_no_answer(tmp_path: Path, setting: str) -> None:
    response = HtmlResponse(URL, body=TEXT)
    with storage_of(tmp_path, HTTPCACHE_GZIP=setting) as storage:
        assert storage.use_gzip == (setting == "True")
        assert kept(storage, response).body == TEXT
    # The setting may change between two crawls.
    with storage_of(tmp_path, HTTPCACHE_GZIP=setting == "False") as storage:
        found = storage.retrieve_response(None, Request(URL))
        assert found is not None and found.body == TEXT


def test_a_small_cache_is_compressed_anew_when_it_is_closed(tmp_path: Path) -> None:
    """Its first pages were stored before there was a dictionary."""
    frame = "".join(f'<div class="part-{n}"><a href="/menu/{n * 7919}">{n}</a>' for n in range(150))

    def fill(name: str, **options: object) -> int:
        folder = f"{tmp_path}/{name}"
        with storage_of(folder, FILEMAP_OPTIONS=options) as storage:
            for n in range(400):
                body = f"<html><body>{frame}<p>Page {n}: {n * 104_729 % 9973}</p>".encode()
                url = f"http://example.com/{n}"
                headers = {"Content-Type": "text/html"}
                storage.store_response(
                    None, Request(url), Response(url, headers=headers, body=body)
                )
            service = storage.pages._member.held
            assert isinstance(service, PagesService)
            while not service.store.stat()["dictionaries"]:
                time.sleep(0.01)  # A background thread trains it.
        with store_of(folder) as store:
            found = store.stat()
            assert (found["dictionaries"], len(store)) == (1, 0)
            assert len(list(store.pages(variants=True))) == 400
            return int(found["live_bytes"])

    with mock.patch.object(PagesService, "pack"):
        as_stored = fill("as-stored")
    assert fill("packed") < as_stored * 0.8
    assert fill("unpacked", recompression_level=None) > as_stored * 0.9
