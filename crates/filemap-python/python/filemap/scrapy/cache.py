"""The storage of Scrapy's HTTP cache in one store of pages, for all spiders.

| setting | default | meaning |
|---|---|---|
| `HTTPCACHE_DIR` | `httpcache` | the folder of `pages.fm`, or the address of an `fm-serve` |
| `HTTPCACHE_EXPIRATION_SECS` | 0 | entries older than this are not returned; 0: no limit |
| `HTTPCACHE_GZIP` | | accepted and ignored: all bodies are compressed |
| `FILEMAP_SHARED` | False | True: one entry for all spiders, instead of one each |
| `FILEMAP_RESPONSE_CLASSES` | [] | additional response classes that entries may name |
| `FILEMAP_EXPIRE_AT_CLOSE` | True | remove the spider's expired entries when it closes |
| `FILEMAP_OPTIONS` | {} | options of `filemap.open`; `keep_versions` defaults to 1 |
| `FILEMAP_PATIENCE_SECS` | 30 | wait for a locked store, or for a server |
| `FILEMAP_TOKEN`, `FILEMAP_CA_FILE` | | for a server: see `addresses` |
"""

import hashlib
import logging
import os
from collections.abc import Callable
from time import time
from typing import Any, Final, TypeVar

from scrapy.http import Request, Response
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector
from scrapy.utils.project import data_path

import filemap
import scrapy
from scrapy import Spider

from .addresses import is_address, reach_of
from .closing import or_close
from .responses import (
    Classes,
    NoteError,
    UnknownClassError,
    note_of,
    record_of,
    response_of,
    time_of,
)
from .served_pages import Pages, pages_at
from .shared_pages import FAILURES, Failures, Record, SharedPages

logger = logging.getLogger(__name__)

_R = TypeVar("_R")

FILE_NAME: Final = "pages.fm"
LARGEST_BODY: Final = 1 << 30
"""Longest decoded body if `DOWNLOAD_MAXSIZE` has no bound."""

_UNREAD: Final = (
    filemap.FileMapError,
    OSError,
    NoteError,
    UnknownClassError,
    TypeError,
    ValueError,
)
_CATCHES_SINCE: Final = (2, 18)
_LONGEST_VARIANT: Final = 1024
_LONGEST_URL: Final = 60_000
NOT_DURABLE: Final = "What was stored last may not survive a power failure: %(error)s"


def variant_start(spider_name: str | None) -> bytes:
    """Prefix of the variants of a spider, or of all spiders in a shared cache."""
    name = (spider_name or "").encode()
    if len(name) > _LONGEST_VARIANT - 128:
        name = b"~" + hashlib.sha256(name).hexdigest().encode()
    return b"scrapy:" + name + b":"


def options_of(settings: BaseSettings, path: str, **defaults: Any) -> dict[str, Any]:
    """The options of `filemap.open`; `defaults` are for a local store."""
    given = reach_of(settings) if is_address(path) else defaults
    return {**given, **settings.getdict("FILEMAP_OPTIONS")}


def path_of(setting: str, *names: str) -> str:
    """The path of a setting, below the project's `.scrapy`; an address is unchanged."""
    return setting if is_address(setting) else os.path.join(data_path(setting), *names)


class FileMapCacheStorage:
    """`HTTPCACHE_STORAGE = "filemap.scrapy.FileMapCacheStorage"`: Scrapy's HTTP cache in a store.

    Each entry is a page under the URL of its request, with the spider's name and the request's
    fingerprint as its variant. Any number of processes may use one folder: see `broker`.
    """

    def __init__(self, settings: BaseSettings) -> None:
        self.cachedir: str = path_of(settings["HTTPCACHE_DIR"])
        self._path = path_of(settings["HTTPCACHE_DIR"], FILE_NAME)
        self.expiration_secs: int = settings.getint("HTTPCACHE_EXPIRATION_SECS")
        self.use_gzip: bool = settings.getbool("HTTPCACHE_GZIP")
        self._is_shared = settings.getbool("FILEMAP_SHARED")
        self._expires_at_close = settings.getbool("FILEMAP_EXPIRE_AT_CLOSE", True)
        self._classes = Classes(settings.getlist("FILEMAP_RESPONSE_CLASSES"))
        self._limit = settings.getint("DOWNLOAD_MAXSIZE") or LARGEST_BODY
        self._options = options_of(settings, self._path, keep_versions=1)
        self._patience = settings.getfloat("FILEMAP_PATIENCE_SECS", 30.0)
        self._pages: Pages | None = None
        self._stats: StatsCollector | None = None
        self._start = b""

    @property
    def pages(self) -> Pages:
        """The store. Raises `ClosedError` before `open_spider` and after `close_spider`."""
        if self._pages is None:
            raise filemap.ClosedError("the cache is not open")
        return self._pages

    def open_spider(self, spider: Spider) -> None:
        """Opens the store, or connects to the process that has it open. On failure the spider
        closes with the reason `filemap_unavailable`."""
        self._start = variant_start(None if self._is_shared else spider.name)
        self._stats = spider.crawler.stats
        fingerprinter = spider.crawler.request_fingerprinter
        assert fingerprinter is not None
        self._fingerprinter = fingerprinter
        with or_close(spider):
            self._pages = pages_at(self._path, self._options, self._patience)
        extra = {"spider": spider}
        logger.debug("Using FileMap cache storage in %(path)s", {"path": self._path}, extra=extra)

    def close_spider(self, spider: Spider) -> None:
        """Removes expired entries, and ends this spider's use."""
        pages, self._pages = self._pages, None
        if pages is None:
            return
        try:
            self._failed(pages.settle())
            if self.expiration_secs > 0 and self._expires_at_close:
                self._expire(pages)
        finally:
            self._close(pages)

    def retrieve_response(self, spider: Spider, request: Request) -> Response | None:
        """The cached response, or None. Sets `request.meta["cache_timestamp"]`.

        An unreadable entry raises where Scrapy catches it (from 2.18 on); otherwise it is logged,
        counted as `filemap/cache/retrieve_error`, and treated as a miss.
        """
        try:
            return self._retrieve(request)
        except _UNREAD as error:
            self._count("filemap/cache/retrieve_error")
            if scrapy.version_info >= _CATCHES_SINCE:
                raise
            logger.warning(
                "Could not read the cache entry for %(request)s, treating it as a cache miss:"
                " %(error)s",
                {"request": request, "error": error},
                extra={"spider": spider},
            )
            return None

    def store_response(self, spider: Spider, request: Request, response: Response) -> None:
        """Stores a response; if its body is stored already, only the new description.

        A thread compresses and writes it; a request for it waits for that. A page that cannot be
        stored is logged and counted: `filemap/cache/refused` if a rule of the store refuses it,
        else `filemap/cache/store_error`.
        """
        url, variant = self._key(request)
        limit = int(request.meta.get("download_maxsize", self._limit) or LARGEST_BODY)
        record, lost = record_of(
            request,
            response,
            url=url,
            variant=variant,
            now=time(),
            limit=limit,
            classes=self._classes,
        )
        if lost:
            self._count("filemap/cache/attributes_lost", len(lost))
            logger.warning(
                "Of %(response)s, %(lost)s cannot be stored", {"response": response, "lost": lost}
            )
        self._failed(put(self.pages.put_later, record, variant))

    def _expire(self, pages: Pages) -> None:
        before = int((time() - self.expiration_secs) * 1000)
        try:
            self._count("filemap/cache/expired", pages.expire(self._start, before))
        except FAILURES as error:
            self._count("filemap/cache/expire_error")
            logger.error("Expired entries are not all removed: %(error)s", {"error": error})

    def _close(self, pages: Pages) -> None:
        try:
            if isinstance(pages, SharedPages):
                pages.pack()
            pages.close()
        except FAILURES as error:
            self._count("filemap/cache/close_error")
            logger.error(NOT_DURABLE, {"error": error})

    def _failed(self, failures: Failures) -> None:
        for url, error in failures:
            if isinstance(error, filemap.RefusedError):
                self._count("filemap/cache/refused")
                logger.info("%(url)s is not kept: %(error)s", {"url": url, "error": error})
            else:
                self._count("filemap/cache/store_error")
                logger.error("%(url)s is not stored: %(error)s", {"url": url, "error": error})

    def _retrieve(self, request: Request) -> Response | None:
        url, variant = self._key(request)
        record = get(self.pages, url, variant)
        if record is None:
            return None
        note = note_of(record)
        stored = time_of(record, note)
        if 0 < self.expiration_secs < time() - stored:
            return None
        response = response_of(record, note, self._classes)
        request.meta["cache_timestamp"] = stored
        return response

    def _key(self, request: Request) -> tuple[str, bytes]:
        fingerprint = self._fingerprinter.fingerprint(request).hex().encode()
        return request.url, self._start + fingerprint

    def _count(self, name: str, by: int = 1) -> None:
        if self._stats is not None and by:
            self._stats.inc_value(name, by)


def stand_in(variant: bytes | None, url: str) -> str:
    """The key of a URL that the store refuses: one that its canonicaliser rejects, such as one
    with an invalid host, or one of over 60,000 characters."""
    name = variant.rpartition(b":")[2].decode("ascii") if variant else ""
    return f"urn:filemap:request:{name or hashlib.sha256(url.encode()).hexdigest()}"


def put(call: Callable[[Record], _R], record: Record, variant: bytes | None) -> _R:
    """Puts a record by a call of the store, under a substitute if the store refuses its URL."""
    url = record.url
    if len(url) <= _LONGEST_URL:
        try:
            return call(record)
        except filemap.InvalidUrlError:
            pass
    record.url = stand_in(variant, url)
    return call(record)


def get(pages: Pages, url: str, variant: bytes | None) -> Record | None:
    """The record of a URL, under a substitute if the store refuses the URL."""
    return _found(pages.get, url, variant)


def head(pages: Pages, url: str, variant: bytes | None) -> Record | None:
    """As `get`, without the body."""
    return _found(pages.head, url, variant)


def _found(
    find: Callable[[str, bytes | None], Record | None], url: str, variant: bytes | None
) -> Record | None:
    if len(url) <= _LONGEST_URL:
        try:
            return find(url, variant)
        except filemap.InvalidUrlError:
            pass
    record = find(stand_in(variant, url), variant)
    if record is not None:
        record.url = url
    return record
