"""Runs `fm-tool import --from scrapy-httpcache` on caches that the real Scrapy has written.

The environment variable FM_TOOL names the program. Each entry must be in the store with its URL,
status, headers and decoded body, and read back through `FileMapCacheStorage` as through Scrapy's
own storage.
"""

import base64
import contextlib
import gzip
import importlib
import json
import os
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scrapy.crawler", reason="Scrapy is not installed")

from scrapy.http import HtmlResponse, Request, Response, TextResponse
from scrapy.utils.misc import load_object
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from scrapy import Spider

with contextlib.suppress(Exception):  # Another test has installed a reactor.
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")

HTML = b"<html><body>" + b"hello world " * 50 + b"</body></html>"
STORAGES = ["files", "gzip", "dbm.dumb", "dbm.gnu", "dbm.sqlite3"]


class Docs(Spider):
    name = "d\u00f6cs:1"


def has_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def fm_tool(*args: object) -> list[Any]:
    """Runs the program, which must succeed; returns its lines of JSON."""
    program = os.environ.get("FM_TOOL")
    assert program, "set FM_TOOL to the path of fm-tool"
    done = subprocess.run([program, *map(str, args)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def storage_of(folder: Path, storage: str) -> Any:
    settings = {"HTTPCACHE_DIR": str(folder), "HTTPCACHE_GZIP": storage == "gzip"}
    path = "scrapy.extensions.httpcache.FilesystemCacheStorage"
    if storage.startswith("dbm"):
        settings["HTTPCACHE_DBM_MODULE"] = storage
        path = "scrapy.extensions.httpcache.DbmCacheStorage"
    if storage == "filemap":
        path = "filemap.scrapy.FileMapCacheStorage"
    crawler = get_crawler(Docs, settings)
    crawler.spider = Docs.from_crawler(crawler)
    made = load_object(path)(crawler.settings)
    made.open_spider(crawler.spider)
    return made, crawler.spider


def entries() -> list[tuple[Request, Response, bytes]]:
    """Requests, their responses, and the decoded bodies."""
    packed, flat = gzip.compress(HTML), zlib.compress(HTML)
    html = {"Content-Type": "text/html; charset=utf-8"}
    made: list[tuple[Request, type[Response], bytes, dict[str, Any]]] = [
        (Request("http://a.example/"), HtmlResponse, HTML, {"body": HTML, "encoding": "utf-8"}),
        (
            Request("http://a.example/gz?b=2&a=1#f"),
            Response,
            HTML,
            {
                "body": packed,
                "headers": {**html, "Content-Encoding": "gzip", "Content-Length": len(packed)},
            },
        ),
        (
            Request("http://a.example/twice"),
            Response,
            HTML,
            {"body": gzip.compress(flat), "headers": {"Content-Encoding": ["deflate, gzip"]}},
        ),
        (
            Request("http://a.example/lies"),
            Response,
            b"no gzip",
            {"body": b"no gzip", "headers": {"Content-Encoding": "gzip"}},
        ),
        (
            Request("http://a.example/form", method="POST", body=b"q=\xff"),
            TextResponse,
            b"\x00\xff'\"\\",
            {"status": 404, "body": b"\x00\xff'\"\\", "encoding": "latin-1", "flags": ["partial"]},
        ),
        (
            Request("http://a.example/\u00e9'\"?q='\"\\"),
            Response,
            b"",
            {
                "status": 301,
                "headers": {"Location": "/", "Set-Cookie": ["a=1", "b=2", "a=1"], "X": "\u00e9:"},
            },
        ),
        (Request("http://a.example/v6"), Response, b"6", {"body": b"6", "protocol": "HTTP/1.1"}),
    ]
    return [(request, kind(request.url, **values), body) for request, kind, body, values in made]


@pytest.fixture(params=STORAGES)
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A cache that Scrapy wrote."""
    storage: str = request.param
    if storage.startswith("dbm") and not has_module(storage):
        pytest.skip(f"this Python has no {storage}")
    made, spider = storage_of(tmp_path / "cache", storage)
    for asked, response, _ in entries():
        made.store_response(spider, asked, response)
    made.close_spider(spider)
    return tmp_path / "cache", storage


def imported(folder: Path, store: Path, *more: str) -> dict[str, Any]:
    """Imports a cache."""
    found: dict[str, Any] = fm_tool(
        "import", store, "--from", "scrapy-httpcache", folder, "--json", *more
    )[0]
    return found


def variant_of(request: Request, spider: Spider, name: str) -> str:
    fingerprinter = spider.crawler.request_fingerprinter
    assert fingerprinter is not None
    return f"scrapy:{name}:{fingerprinter.fingerprint(request).hex()}"


def test_entries_are_pages_with_their_headers_and_decoded_bodies(
    cache: tuple[Path, str], tmp_path: Path
) -> None:
    folder, storage = cache
    store = tmp_path / "pages.fm"
    report = imported(folder, store)
    assert (report["stored"], report["damaged"], report["decoded"]) == (len(entries()), 0, 2)
    own, spider = storage_of(folder, storage)
    for request, response, body in entries():
        variant = variant_of(request, spider, Docs.name)
        page = fm_tool("get", store, request.url, "--variant", variant, "--json")[0]
        found = (
            base64.b64decode(page["body_base64"])
            if "body_base64" in page
            else page["body"].encode()
        )
        assert (page["status"], found) == (response.status, body), request
        assert page.get("method") == (None if storage.startswith("dbm") else request.method)
        original = own.retrieve_response(spider, request)
        # Older versions do not report the time at which an entry was stored.
        if "cache_timestamp" in request.meta:
            assert page["time_ms"] == int(request.meta["cache_timestamp"] * 1000)
        fields = [
            (
                field["name"].encode(),
                base64.b64decode(field["value_base64"])
                if "value_base64" in field
                else field["value"].encode(),
            )
            for field in page["headers"]
        ]
        # Decoded responses end with the length of the body and the note.
        assert fields.pop()[0] == b"X-Crawler-Scrapy"
        if any(name == b"X-Crawler-Content-Encoding" for name, _ in fields):
            assert fields.pop() == (b"Content-Length", str(len(body)).encode())
        kept = [(name.removeprefix(b"X-Crawler-"), value) for name, value in fields]
        assert kept == [
            (name, value) for name, values in original.headers.items() for value in values
        ]
    own.close_spider(spider)
    again = imported(folder, store)
    assert (again["stored"], again["already_there"]) == (0, len(entries()))


def test_a_shared_import_leaves_the_spider_out(cache: tuple[Path, str], tmp_path: Path) -> None:
    folder, storage = cache
    store = tmp_path / "pages.fm"
    imported(folder, store, "--shared")
    own, spider = storage_of(folder, storage)
    own.close_spider(spider)
    for request, response, _ in entries():
        page = fm_tool(
            "get", store, request.url, "--variant", variant_of(request, spider, ""), "--json"
        )[0]
        assert page["status"] == response.status


def test_entries_read_back_through_the_storage_of_this_package(
    cache: tuple[Path, str], tmp_path: Path
) -> None:
    pytest.importorskip("filemap.scrapy", reason="the package filemap is not installed")
    folder, storage = cache
    (tmp_path / "new").mkdir()
    imported(folder, tmp_path / "new" / "pages.fm")
    own, spider = storage_of(folder, storage)
    ours, our_spider = storage_of(tmp_path / "new", "filemap")
    for request, _, body in entries():
        theirs = own.retrieve_response(spider, request)
        stamp = request.meta.pop("cache_timestamp", None)
        found = ours.retrieve_response(our_spider, request)
        assert found is not None, request
        assert stamp in (None, request.meta["cache_timestamp"])
        assert (found.url, found.status, found.body) == (theirs.url, theirs.status, body)
        assert (found.flags, found.protocol) == (theirs.flags, theirs.protocol)
        coded = body != theirs.body
        # Scrapy only chooses the class for a coded body when it decodes the body.
        assert coded or type(found) is type(theirs)
        left_out = (b"Content-Encoding", b"Content-Length") if coded else ()
        assert dict(found.headers) == {n: v for n, v in theirs.headers.items() if n not in left_out}
    own.close_spider(spider)
    ours.close_spider(our_spider)


def test_an_entry_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    made, spider = storage_of(tmp_path / "cache", "files")
    for asked, response, _ in entries():
        made.store_response(spider, asked, response)
    made.close_spider(spider)
    meta = sorted((tmp_path / "cache").glob("*/*/*/meta"))[0]
    meta.write_text("print('run')")
    program = os.environ.get("FM_TOOL")
    assert program, "set FM_TOOL to the path of fm-tool"
    store = tmp_path / "pages.fm"
    args = [program, "import", store, "--from", "scrapy-httpcache", tmp_path / "cache", "--json"]
    done = subprocess.run(args, capture_output=True, check=False)
    report = json.loads(done.stdout)
    assert (done.returncode, report["damaged"], report["stored"]) == (3, 1, len(entries()) - 1)
    assert meta.parent.name in report["problems"][0]["entry"] and "literal" in done.stderr.decode()
