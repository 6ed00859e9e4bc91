"""Crawlers, storages and a small web site for the tests of `filemap.scrapy`."""

import gzip
import json
import os
import subprocess
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.utils.reactor import install_reactor

import filemap
from filemap.scrapy import FileMapCacheStorage
from scrapy import Spider

IS_SOAK = os.environ.get("FILEMAP_CHECK") == "soak"

STORAGE = "filemap.scrapy.FileMapCacheStorage"


def crawler_of(name: str = "test", **settings: Any) -> Crawler:
    """A crawler with a spider of this name; it is not run."""
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    crawler = Crawler(Spider, {"TELNETCONSOLE_ENABLED": False, **settings})
    crawler._apply_settings()
    crawler.spider = crawler._create_spider(name)
    return crawler


@contextmanager
def storage_of(
    folder: Path | str, name: str = "test", **settings: Any
) -> Iterator[FileMapCacheStorage]:
    """An open storage of the cache in a folder, or at an address."""
    crawler = crawler_of(name, HTTPCACHE_DIR=str(folder), **settings)
    storage = FileMapCacheStorage(crawler.settings)
    assert crawler.spider is not None
    storage.open_spider(crawler.spider)
    try:
        yield storage
    finally:
        storage.close_spider(crawler.spider)


@contextmanager
def middleware_of(folder: Path | str, **settings: Any) -> Iterator[HttpCacheMiddleware]:
    """Scrapy's middleware on top of our storage."""
    given = {"HTTPCACHE_DIR": str(folder), "HTTPCACHE_ENABLED": True, "HTTPCACHE_STORAGE": STORAGE}
    crawler = crawler_of(**{**given, **settings})
    middleware = HttpCacheMiddleware.from_crawler(crawler)
    assert crawler.spider is not None
    middleware.spider_opened(crawler.spider)
    try:
        yield middleware
    finally:
        middleware.spider_closed(crawler.spider)


def store_of(cache: str) -> filemap.PageStore:
    """Opens the store of the cache in a folder, or at an address, for reading."""
    return filemap.open(cache if cache.startswith("http://") else Path(cache, "pages.fm"))


def page_body(number: int) -> bytes:
    """The HTML of a page of the site: links to others, and text."""
    links = "".join(f'<a href="/page/{(number * 7 + n) % 10_000}">x</a>' for n in range(5))
    text = f"<p>Page {number} of the site, which says {number * number}.</p>" * 60
    return f"<!DOCTYPE html><title>{number}</title>{links}{text}".encode()


class Site(ThreadingHTTPServer):
    """Serves `/page/N` with an ETag, in gzip on request; `/all/COUNT` links to all pages."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: Counter[str] = Counter()
        self.not_modified: Counter[str] = Counter()
        self.version = 1
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        site = self.server
        site.asked[self.path] += 1
        tag = f'"{site.version}-{self.path}"'
        if self.headers.get("If-None-Match") == tag:
            site.not_modified[self.path] += 1
            # Some servers name the coding of a body that they do not send.
            return self._answer(304, b"", {"ETag": tag, "Content-Encoding": "gzip"})
        kind, _, number = self.path.strip("/").partition("/")
        if kind == "all":
            links = "".join(f'<a href="/page/{n}">{n}</a>' for n in range(int(number)))
            return self._answer(200, f"<!DOCTYPE html><body>{links}".encode(), {})
        if kind == "page":
            body = page_body(int(number)).replace(b"the site", b"the site %d" % site.version)
            return self._coded(body, tag)
        if kind == "moved":
            return self._answer(301, b"", {"Location": f"/page/{number}"})
        return self._answer(int(number or 404), b"no", {})

    def _coded(self, body: bytes, tag: str) -> None:
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            return self._answer(
                200, gzip.compress(body, 1), {"ETag": tag, "Content-Encoding": "gzip"}
            )
        return self._answer(200, body, {"ETag": tag})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def crawl_command(*arguments: str, **settings: Any) -> list[str]:
    """The command that runs `crawl_site.py` with settings."""
    script = str(Path(__file__).with_name("crawl_site.py"))
    return [sys.executable, script, json.dumps(settings), *arguments]


def crawl(*arguments: str, **settings: Any) -> dict[str, Any]:
    """Runs `crawl_site.py` in a separate process; returns its stats."""
    done = subprocess.run(
        crawl_command(*arguments, **settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    stats = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(stats, dict)
    stats["stderr"] = done.stderr
    return stats


def checksum(body: bytes) -> int:
    """A short name of a body."""
    return zlib.crc32(body)
