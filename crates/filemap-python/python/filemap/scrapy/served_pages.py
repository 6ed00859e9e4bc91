"""A page store behind a server: the calls of `SharedPages`, each a request to an `fm-serve`.

The server is the store's only writer, so any number of processes and machines use it, and none is
the holder.

A call that is not answered, or refused, is repeated within `patience`. After that the route is
*cut*: calls fail at once, except one from time to time, until one is answered. So a crawl waits
once for a lost server, and not for each page. Reads and writes have separate routes, since a
server with a full disk still answers reads.

Puts wait in memory, and a thread sends them. A kill of this process loses them: the pages are
fetched again. Failures are reported as for a local store.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import quote

import filemap

from .addresses import is_address
from .shared_pages import Failures, Record, SharedPages, arguments_of, has, record_found, shared

logger = logging.getLogger(__name__)

_R = TypeVar("_R")

MOST_BYTES: Final = 8 << 20
MOST_PUTS: Final = 256
"""Maximum number of puts that wait."""

_PAUSE_SECS: Final = 0.1
_CUT_SECS: Final = 1.0
_LONGEST_CUT_SECS: Final = 60.0
_LONGEST_QUERY: Final = 60_000
_EXPIRING_AT_ONCE: Final = 8
_LISTED_AT_ONCE: Final = 1000
_KNOWN_RULES: Final = ("whatwg", "exact", "crawl", "surt")


class Way:
    """The route to a server, for calls of one kind."""

    def __init__(self, name: str, patience: float) -> None:
        self._name = name
        self._patience = patience
        self._lock = threading.Lock()
        self._cut: filemap.RemoteError | None = None
        self._try_again = 0.0

    def ask(self, call: Callable[[bool], _R]) -> _R:
        """Executes a call, which gets `True` if it may have been done before.

        Raises `RemoteError` once patience is over, and any other exception of the call.
        """
        until = time.monotonic() + self._patience
        again = False
        while True:
            begun = time.monotonic()
            if (cut := self._cut) is not None and begun < self._try_again:
                raise filemap.RemoteError(f"not asked again so soon: {cut}")
            try:
                found = call(again)
            except filemap.RemoteError as error:
                if self._cut is not None or time.monotonic() + _PAUSE_SECS >= until:
                    self._lose(error, time.monotonic() - begun)
                    raise
            except filemap.FileMapError:
                self._find()
                raise
            else:
                self._find()
                return found
            again = True
            time.sleep(_PAUSE_SECS)

    def _lose(self, error: filemap.RemoteError, took: float) -> None:
        with self._lock:
            if self._cut is None:
                what = "Calls that %s fail at once from now on, until the server answers one: %s"
                logger.error(what, self._name, error)
            self._cut = error
            # A call that fails slowly is repeated more rarely.
            secs = min(max(_CUT_SECS, 10 * took), _LONGEST_CUT_SECS)
            self._try_again = time.monotonic() + secs

    def _find(self) -> None:
        if self._cut is not None:
            with self._lock:
                self._cut = None
            logger.info("Calls that %s are answered again", self._name)


class ServedPages:
    """A store behind a server. Thread-safe."""

    is_holder = False

    def __init__(self, location: str, options: Mapping[str, Any], patience: float) -> None:
        self.path = location
        self._pid = os.getpid()
        self._reads, self._writes = Way("read", patience), Way("write", patience)
        self._store = filemap.open(location, "w", **options)
        try:
            self._store.sync()  # Fails at once if the token does not allow puts.
            rules = self._store.canonicalizer
        except BaseException:
            self._store.close()
            raise
        self._rules = rules if rules in _KNOWN_RULES else None
        self._turn = threading.Condition()
        self._waiting: deque[Record] = deque()
        self._bytes = 0
        self._failures: Failures = []
        self._is_closed = False
        self._putter = threading.Thread(target=self._put_all, name="filemap-put", daemon=True)
        self._putter.start()

    def get(self, url: str, variant: bytes | None) -> Record | None:
        """The newest version of a page."""
        self._wait_for(url, variant)
        page = self._reads.ask(lambda _: self._store.get(url, variant=variant))
        return None if page is None else record_found(url, variant, page, page.body)

    def head(self, url: str, variant: bytes | None) -> Record | None:
        """The newest version of a page without its body."""
        self._wait_for(url, variant)
        head = self._reads.ask(lambda _: self._store.head(url, variant=variant))
        return None if head is None else record_found(url, variant, head, b"")

    def put(self, record: Record) -> bool:
        """Puts a version of a page; returns whether the body changed."""
        self._wait_for(record.url, record.variant)
        return self._put(record)

    def put_later(self, record: Record) -> Failures:
        """As `put`, on a separate thread: waits only while 8 MiB or 256 pages are queued.
        Returns the URLs and exceptions of earlier puts that failed; `settle` returns the last
        ones."""
        self._check_process()
        try:
            self._check(record.url, record.variant)
        except filemap.RemoteError as error:
            return [(record.url, error)]
        with self._turn:
            self._turn.wait_for(lambda: not self._is_full() or self._is_closed)
            if self._is_closed:
                raise filemap.ClosedError(f"{self.path} is closed")
            self._waiting.append(record)
            self._bytes += len(record.body)
            self._turn.notify_all()
            return self._failed()

    def settle(self) -> Failures:
        """Waits until all pages of `put_later` are in the store, or have failed. Returns the
        failures."""
        self._check_process()
        with self._turn:
            self._turn.wait_for(lambda: not self._waiting)
            return self._failed()

    def expire(self, start: bytes, before_ms: int) -> int:
        """Removes the variants that begin with `start` and whose newest version is older. Returns
        their number.

        Two requests for each entry of the store, eight at a time. Each process does this when it
        ends. The token must allow removing pages.
        """
        with self._turn:
            self._turn.wait_for(lambda: not self._waiting)

        def expire_of(url: str) -> int:
            variants = self._reads.ask(lambda _: list(self._store.variants(url)))
            mine = (variant for variant in variants if variant.startswith(start))
            return sum(self._expire(url, variant, before_ms) for variant in mine)

        count = 0
        with ThreadPoolExecutor(_EXPIRING_AT_ONCE, thread_name_prefix="filemap-expire") as pool:
            urls = self._with_variants()
            while some := list(islice(urls, _LISTED_AT_ONCE)):
                count += sum(pool.map(expire_of, some))
        return count

    def close(self) -> None:
        """Puts all queued pages durably. Raises `RemoteError` if they are not durable yet."""
        with self._turn:
            self._is_closed = True
            self._turn.notify_all()
        self._putter.join()
        try:
            self._writes.ask(lambda _: self._store.sync())
        finally:
            with suppress(filemap.RemoteError):  # Of the call before.
                self._store.close()

    def _check(self, url: str, variant: bytes | None) -> None:
        """Raises `InvalidUrlError` for a URL that the store refuses or that cannot be sent."""
        if 3 * len(url) > _LONGEST_QUERY < len(quote(url, safe="", errors="surrogateescape")):
            raise filemap.InvalidUrlError(f"a URL of {len(url)} characters is too long to be sent")
        if self._rules is not None:
            filemap.canonicalize(url, self._rules)
            return
        try:
            self._reads.ask(lambda _: self._store.key(url))
        except filemap.InvalidValueError as error:
            raise filemap.InvalidUrlError(str(error)) from error

    def _check_process(self) -> None:
        """Raises in a child process, which does not have the thread that puts."""
        if os.getpid() != self._pid:
            raise filemap.ForkedError(f"{self.path} was opened before a fork: open it again")

    def _wait_for(self, url: str, variant: bytes | None) -> None:
        """Waits until no queued put may be of this page."""
        self._check(url, variant)
        with self._turn:
            self._turn.wait_for(lambda: all(record.variant != variant for record in self._waiting))

    def _put(self, record: Record) -> bool:
        def put(again: bool) -> bool:
            if again and has(self._store, record):
                return False
            page = self._store.put_if_changed(record.url, record.body, **arguments_of(record))
            return page.changed

        return self._writes.ask(put)

    def _put_all(self) -> None:
        """The thread: puts queued pages until the store is closed and the queue is empty."""
        while True:
            with self._turn:
                self._turn.wait_for(lambda: bool(self._waiting) or self._is_closed)
                if not self._waiting:
                    return
                record = self._waiting[0]
            failure: Exception | None = None
            try:
                self._put(record)
            except Exception as error:  # noqa: BLE001 (the next caller gets it)
                failure = error
            with self._turn:
                # Only now, because a page being put still counts as waiting.
                self._waiting.popleft()
                self._bytes -= len(record.body)
                if failure is not None:
                    self._failures.append((record.url, failure))
                self._turn.notify_all()

    def _is_full(self) -> bool:
        return len(self._waiting) >= MOST_PUTS or self._bytes >= MOST_BYTES

    def _failed(self) -> Failures:
        failures, self._failures = self._failures, []
        return failures

    def _with_variants(self) -> Iterator[str]:
        last = None
        for url in self._store.urls(variants=True):
            if url != last:
                yield url
            last = url

    def _expire(self, url: str, variant: bytes, before_ms: int) -> int:
        newest = self._reads.ask(lambda _: self._store.head(url, variant=variant))
        if newest is None or newest.time_ms >= before_ms:
            return 0
        # A second attempt finds that the first succeeded.
        return self._writes.ask(lambda again: self._store.remove(url, variant=variant) or again)


Pages = SharedPages | ServedPages
"""The store that the cache and the page store use."""


def pages_at(path: str, options: Mapping[str, Any], patience: float) -> Pages:
    """The store at a path, for one more user in this process, or at an address."""
    if is_address(path):
        return ServedPages(path, options, patience)
    return shared(path, options, patience)
