"""A downloader middleware that keeps each response as a page, with history, for all spiders.

    DOWNLOADER_MIDDLEWARES = {"filemap.scrapy.PageStoreMiddleware": 905}

| setting | default | meaning |
|---|---|---|
| `FILEMAP_STORE` | `filemap/pages.fm` | the store, below the project's `.scrapy`, or an address |
| `FILEMAP_MAX_AGE` | 0 | a page younger than this many seconds is not requested again |
| `FILEMAP_REVALIDATE` | True | ask whether an older page changed (ETag, Last-Modified) |
| `FILEMAP_IGNORE_HTTP_CODES` | `RETRY_HTTP_CODES` | responses that are not kept |
| `FILEMAP_IGNORE_SCHEMES` | `["file", "data"]` | requests that are not kept |
| `FILEMAP_RESPONSE_CLASSES` | [] | additional response classes that pages may name |
| `FILEMAP_OPTIONS` | {} | options of `filemap.open` |
| `FILEMAP_PATIENCE_SECS` | 30 | wait for a locked store, or for a server |
| `FILEMAP_TOKEN`, `FILEMAP_CA_FILE` | | for a server: see `addresses` |

`request.meta`: `filemap_max_age` overrides the setting; `dont_cache` leaves a request alone.
A response from the store has the flag `filemap`, and its request `filemap_timestamp` in `meta`.

A plain `GET` is the page of its URL. Any other request has its fingerprint as variant. Put the
middleware between the engine and the downloader at 901 or more: below compression, which it
decodes itself, and below Scrapy's own cache.

Stats: `filemap/hit`, `filemap/revalidated`, `filemap/stored`, `filemap/unchanged`,
`filemap/ignored`, `filemap/refused`, `filemap/retrieve_error`, `filemap/store_error`,
`filemap/close_error`, `filemap/attributes_lost`. An unreadable page is requested again, and one
that cannot be stored still goes to the spider: both are logged.
"""

import logging
from time import time
from typing import Final, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Request, Response
from scrapy.utils.httpobj import urlparse_cached

import filemap
from scrapy import Spider, signals

from . import cache
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
from .shared_pages import FAILURES, Record

logger = logging.getLogger(__name__)

FLAG: Final = "filemap"
_ASKED: Final = "_filemap_asked"
_PLAINLY: Final = "_filemap_plainly"
_UNREAD: Final = (*FAILURES, NoteError, UnknownClassError, TypeError, ValueError)


class PageStoreMiddleware:
    """`filemap.scrapy.PageStoreMiddleware`: keeps a crawl's pages in a store."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        path = settings.get("FILEMAP_STORE", "filemap/pages.fm")
        if not path:
            raise NotConfigured("FILEMAP_STORE is empty")
        assert crawler.stats is not None
        self.crawler = crawler
        self.path: str = cache.path_of(path)
        self.max_age: float = settings.getfloat("FILEMAP_MAX_AGE", 0.0)
        self._revalidates = settings.getbool("FILEMAP_REVALIDATE", True)
        retried = settings.getlist("RETRY_HTTP_CODES")
        codes = settings.getlist("FILEMAP_IGNORE_HTTP_CODES", retried)
        self._ignored_codes = frozenset(int(code) for code in codes)
        schemes = settings.getlist("FILEMAP_IGNORE_SCHEMES", ["file", "data"])
        self._ignored_schemes = frozenset(schemes)
        self._classes = Classes(settings.getlist("FILEMAP_RESPONSE_CLASSES"))
        self._limit = settings.getint("DOWNLOAD_MAXSIZE") or cache.LARGEST_BODY
        self._options = cache.options_of(settings, self.path)
        self._patience = settings.getfloat("FILEMAP_PATIENCE_SECS", 30.0)
        self._stats = crawler.stats
        self._pages: Pages | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """The middleware of a crawler, which opens and closes its store."""
        made = cls(crawler)
        crawler.signals.connect(made.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(made.spider_closed, signal=signals.spider_closed)
        return made

    def spider_opened(self, spider: Spider) -> None:
        """Opens the store, or connects to the process that has it open. On failure the spider
        closes with the reason `filemap_unavailable`."""
        with or_close(spider):
            self._pages = pages_at(self.path, self._options, self._patience)
        logger.debug("Keeping pages in %(path)s", {"path": self.path}, extra={"spider": spider})

    def spider_closed(self, spider: Spider) -> None:
        """Ends this spider's use."""
        pages, self._pages = self._pages, None
        if pages is None:
            return
        try:
            pages.close()
        except FAILURES as error:
            self._stats.inc_value("filemap/close_error")
            logger.error(cache.NOT_DURABLE, {"error": error})

    def process_request(self, request: Request, spider: Spider | None = None) -> Response | None:
        """Answers a fresh page from the store; makes the request for an older one conditional."""
        if self._pages is None or not self._keeps(request):
            return None
        request.meta.pop(_ASKED, None)
        if request.meta.pop(_PLAINLY, False):
            return None
        max_age = float(request.meta.get("filemap_max_age", self.max_age))
        if max_age <= 0 and not self._revalidates:
            return None
        record = self._read(request, with_body=False)
        if record is None:
            return None
        if time() - record.time_ms / 1000 < max_age:
            response = self._stored(request)
            if response is not None:
                self._stats.inc_value("filemap/hit")
            return response
        if self._revalidates and _ask_for_change(request, record):
            request.meta[_ASKED] = True
        return None

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        """Keeps a response; returns the stored one if it has not changed."""
        asked = request.meta.pop(_ASKED, False)
        if self._pages is None or FLAG in response.flags or not self._keeps(request):
            return response
        if response.status == 304:
            return self._unchanged(request, response) if asked else response
        if response.status in self._ignored_codes or "cached" in response.flags:
            self._stats.inc_value("filemap/ignored")
            return response
        self._put(request, response)
        return response

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> None:
        """Removes what was added to a request, for its next attempt."""
        if request.meta.pop(_ASKED, False):
            _forget_question(request)

    def _keeps(self, request: Request) -> bool:
        if request.meta.get("dont_cache", False):
            return False
        return urlparse_cached(request).scheme not in self._ignored_schemes

    def _key(self, request: Request) -> tuple[str, bytes | None]:
        if request.method == "GET" and not request.body:
            return request.url, None
        fingerprinter = self.crawler.request_fingerprinter
        assert fingerprinter is not None
        fingerprint = fingerprinter.fingerprint(request).hex().encode()
        return request.url, cache.variant_start(None) + fingerprint

    def _read(self, request: Request, *, with_body: bool) -> Record | None:
        assert self._pages is not None
        url, variant = self._key(request)
        try:
            return (cache.get if with_body else cache.head)(self._pages, url, variant)
        except _UNREAD as error:
            self._not_read(request, error)
            return None

    def _stored(self, request: Request) -> Response | None:
        record = self._read(request, with_body=True)
        if record is None:
            return None
        try:
            note = note_of(record)
            response = response_of(record, note, self._classes)
        except _UNREAD as error:
            self._not_read(request, error)
            return None
        response.flags.append(FLAG)
        request.meta["filemap_timestamp"] = time_of(record, note)
        return response

    def _unchanged(self, request: Request, response: Response) -> Request | Response:
        stored = self._stored(request)
        _forget_question(request)
        if stored is None:  # Removed meanwhile, or damaged.
            return request.replace(dont_filter=True, meta={**request.meta, _PLAINLY: True})
        stored.headers.update(response.headers)
        self._put(request, stored)
        self._stats.inc_value("filemap/revalidated")
        return stored

    def _put(self, request: Request, response: Response) -> None:
        assert self._pages is not None
        url, variant = self._key(request)
        record, lost = record_of(
            request,
            response,
            url=url,
            variant=variant,
            now=time(),
            limit=int(request.meta.get("download_maxsize", self._limit) or cache.LARGEST_BODY),
            classes=self._classes,
        )
        if lost:
            self._stats.inc_value("filemap/attributes_lost", len(lost))
            logger.warning(
                "Of %(response)s, %(lost)s cannot be stored", {"response": response, "lost": lost}
            )
        try:
            changed = cache.put(self._pages.put, record, variant)
        except filemap.RefusedError as error:
            self._stats.inc_value("filemap/refused")
            logger.info("%(url)s is not kept: %(error)s", {"url": url, "error": error})
            return
        except FAILURES as error:
            self._stats.inc_value("filemap/store_error")
            logger.error("%(url)s is not stored: %(error)s", {"url": url, "error": error})
            return
        self._stats.inc_value("filemap/stored" if changed else "filemap/unchanged")

    def _not_read(self, request: Request, error: Exception) -> None:
        self._stats.inc_value("filemap/retrieve_error")
        logger.warning(
            "Could not read the page of %(request)s, requesting it again: %(error)s",
            {"request": request, "error": error},
            extra={"spider": self.crawler.spider},
        )


_VALIDATORS: Final = ((b"etag", b"If-None-Match"), (b"last-modified", b"If-Modified-Since"))


def _ask_for_change(request: Request, record: Record) -> bool:
    """Makes a request conditional, unless it is; returns whether the page has validators."""
    if any(name in request.headers for _, name in _VALIDATORS):
        return False
    found = {name.lower(): value for name, value in record.headers}
    for validator, name in _VALIDATORS:
        if validator in found:
            request.headers[name] = found[validator]
    return any(validator in found for validator, _ in _VALIDATORS)


def _forget_question(request: Request) -> None:
    for _, name in _VALIDATORS:
        request.headers.pop(name, None)
