"""A page store that many processes share: the calls of the cache and of the page store.

`SharedPages` has the calls; `PagesService` executes them in the process that has the store open.
Both use `Record`, a page without anything specific to Scrapy.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import filemap
from filemap._native import PutQueue

from . import wire
from .broker import Link, Member, Refused
from .waiting import Waiting

logger = logging.getLogger(__name__)

FAILURES: Final = (filemap.CorruptError, Refused, OSError)
"""Exceptions of calls to a store that is damaged, full, locked or unreachable."""

Fields = list[tuple[bytes, bytes]]
Failures = list[tuple[str, Exception]]

_TEXTS: Final = ("http_version", "method", "ip")
# Some 1,200 pages, recompressed in half a second. In a larger cache less than a third was stored
# before there was a dictionary.
_SMALL_BYTES: Final = 5 << 20
_PACKING_LEVEL: Final = 9
_PACKING_SECS: Final = 1.0


class _LateError(Exception):
    """Optional work takes too long and is abandoned."""


@dataclass(slots=True)
class Record:
    """One version of a page."""

    url: str
    variant: bytes | None
    time_ms: int
    status: int
    headers: Fields
    body: bytes = field(default=b"", repr=False)
    http_version: str | None = None
    method: str | None = None
    ip: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """All fields but the body, for JSON."""
        return {
            "url": self.url,
            "variant": None if self.variant is None else wire.text_of(self.variant),
            "time": self.time_ms,
            "status": self.status,
            "headers": [[wire.text_of(name), wire.text_of(value)] for name, value in self.headers],
            **{name: getattr(self, name) for name in _TEXTS},
        }

    @classmethod
    def of_wire(cls, head: Mapping[str, Any], body: bytes) -> "Record":
        """The record of a message. Raises `wire.Broken` if it is invalid."""
        try:
            return cls(
                url=str(head["url"]),
                variant=_variant(head),
                time_ms=int(head["time"]),
                status=int(head["status"]),
                headers=[(wire.bytes_of(n), wire.bytes_of(v)) for n, v in head["headers"]],
                body=body,
                **{name: _text(head[name]) for name in _TEXTS},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise wire.Broken(f"a record lacks or mistakes {error}") from error


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _variant(head: Mapping[str, Any]) -> bytes | None:
    value = head.get("variant")
    return None if value is None else wire.bytes_of(value)


class PagesService:
    """The open store of the holder. Thread-safe."""

    def __init__(self, path: str, options: Mapping[str, Any]) -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._path = path
        self._options = options
        self.store = filemap.open(path, "a", **options)
        self._queue = PutQueue(self.store)
        self._turn = threading.Lock()
        # None if queued pages cannot be noted: then each put is waited for.
        self._waiting: Waiting | None = None
        waiting = Waiting(f"{path}.waiting")
        try:
            self._put_what_is_left(waiting)
            waiting.empty()
            self._waiting = waiting
        except (filemap.FileMapError, OSError) as error:
            waiting.close()
            what = "%s.waiting may have pages of a killed process, for the next opening: %s"
            logger.error(what, path, error)

    def _put_what_is_left(self, waiting: Waiting) -> None:
        """Puts the pages that a killed holder had accepted."""
        count = lost = 0
        for head, body in waiting.left():
            try:
                record = Record.of_wire(head, body)
                if not has(self.store, record):
                    self.store.put_if_changed(record.url, record.body, **arguments_of(record))
                    count += 1
            except (wire.Broken, filemap.RefusedError, TypeError, ValueError) as error:
                lost += 1
                what = "%s, which a killed process had taken, is not kept: %s"
                logger.error(what, head.get("url"), error)
        if waiting.unread_from is not None:
            what = "%s.waiting: from byte %d on nothing can be read: a page that its process was"
            what += " noting when it was killed, or damage that may cost more pages"
            logger.warning(what, self._path, waiting.unread_from)
        if count or lost:
            what = "Of the pages that a killed process had taken, %d are put and %d are not kept"
            logger.info(what, count, lost)

    def get(self, url: str, variant: bytes | None) -> Record | None:
        """The newest version."""
        self._queue.wait(url)
        page = self.store.get(url, variant=variant)
        return None if page is None else record_found(url, variant, page, page.body)

    def head(self, url: str, variant: bytes | None) -> Record | None:
        """The newest version without its body."""
        self._queue.wait(url)
        head = self.store.head(url, variant=variant)
        return None if head is None else record_found(url, variant, head, b"")

    def put(self, record: Record, again: bool) -> bool:
        """Puts a version; if its body is already the newest one, only the description.

        Returns whether the body changed. `again`: it may be stored already, by a holder that died
        before it answered.
        """
        self._queue.wait(record.url)
        if again and has(self.store, record):
            return False
        put = self.store.put_if_changed(record.url, record.body, **arguments_of(record))
        return put.changed

    def put_later(self, record: Record) -> Failures:
        """As `put`, on a separate thread: waits only while 8 MiB or 256 pages are queued, or if
        queued pages cannot be noted. Returns the failures of earlier puts."""
        with self._turn:
            message = self._queue.put(record.url, record.body, **arguments_of(record))
            if not self._is_noted(message):
                self._put_all()
        return self._queue.failures()

    def _is_noted(self, message: bytes | None) -> bool:
        if self._waiting is None or message is None:
            return False
        try:
            return self._waiting.add(message)
        except OSError as error:
            self._note_no_more(error)
            return False

    def _put_all(self) -> None:
        """Waits for all puts, after which no note is needed."""
        self._queue.wait()
        try:
            if self._waiting is not None:
                self._waiting.empty()
        except OSError as error:
            self._note_no_more(error)

    def _note_no_more(self, error: OSError) -> None:
        logger.warning("Pages are put one by one, which takes longer: %s", error)
        self._queue.wait()
        if self._waiting is not None:
            self._waiting.remove()
            self._waiting = None

    def settle(self) -> Failures:
        """Waits for the pages of `put_later`. Returns the failures."""
        self._queue.wait()
        return self._queue.failures()

    def expire(self, start: bytes, before_ms: int) -> int:
        """Removes the variants that begin with `start` and whose newest version is older.

        Returns their number. Reads the list of all pages up to then: seconds for a million.
        """
        with self._turn:
            self._put_all()  # So that no note restores a removed page.
        old = [
            (head.url, head.variant)
            for head in self.store.heads(until=before_ms / 1000, variants=True)
            if head.variant is not None and head.variant.startswith(start)
        ]
        count = 0
        for url, variant in old:
            with self._turn:  # So that no page put meanwhile is removed.
                self._queue.wait(url)
                newest = self.store.head(url, variant=variant)
                if newest is not None and newest.time_ms < before_ms:
                    count += self.store.remove(url, variant=variant)
        return count

    def pack(self) -> None:
        """Recompresses a store that is still small: its first pages were stored before there was a
        dictionary, and the background recompression would wait an hour. Tried once in the store's
        life, for a second. Does nothing if the option `recompression_level` is None."""
        level = self._options.get("recompression_level", _PACKING_LEVEL)
        found = self.store.stat()
        first = found["segments"] == 1 and found["dictionaries"]
        if level is None or not first or int(found["value_bytes"]) > _SMALL_BYTES:
            return
        self._queue.wait()
        end = time.monotonic() + _PACKING_SECS

        def is_in_time(_done: int, _total: int) -> None:
            if time.monotonic() > end:
                raise _LateError

        with contextlib.suppress(_LateError):
            self.store.recompress(level, progress=is_in_time)

    def perform(self, head: Mapping[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """Executes the call of a client."""
        call = head.get("call")
        if call == "put":
            return {"changed": self.put(Record.of_wire(head, body), bool(head.get("again")))}, b""
        if call == "get":
            return _found(self.get(str(head.get("url")), _variant(head)))
        if call == "head":
            return _found(self.head(str(head.get("url")), _variant(head)))
        if call == "expire":
            start, before_ms = wire.bytes_of(head.get("start")), head.get("before")
            if not isinstance(before_ms, int):
                raise wire.Broken(f"{head!r} has no time limit")
            return {"count": self.expire(start, before_ms)}, b""
        raise wire.Broken(f"there is no call {call!r}")

    def close(self) -> None:
        """Makes all puts durable and releases the store's lock."""
        try:
            self._queue.close()
            if self._waiting is not None:
                self._waiting.remove()
        finally:
            self.store.close()


def _found(record: Record | None) -> tuple[dict[str, Any], bytes]:
    return ({"found": False}, b"") if record is None else (record.to_wire(), record.body)


def has(store: filemap.PageStore, record: Record) -> bool:
    """Returns whether exactly this version exists. An unreadable one does not count."""
    try:
        found = store.head(record.url, at=record.time_ms / 1000, variant=record.variant)
    except filemap.CorruptError:
        return False
    said = (record.time_ms, record.headers)
    return found is not None and (found.time_ms, found.headers.raw()) == said


def arguments_of(record: Record) -> dict[str, Any]:
    """The arguments of `put` besides the URL and the body."""
    return {
        "status": record.status,
        "headers": record.headers,
        "time": record.time_ms / 1000,
        "variant": record.variant,
        "http_version": record.http_version,
        "method": record.method,
        "ip": record.ip,
    }


def record_found(
    url: str, variant: bytes | None, page: filemap.Page | filemap.PageHead, body: bytes
) -> Record:
    """The record of a page."""
    return Record(
        url=url,
        variant=variant,
        time_ms=page.time_ms,
        status=page.status or 0,
        headers=page.headers.raw(),
        body=body,
        http_version=page.http_version,
        method=page.method,
        ip=page.ip,
    )


class SharedPages:
    """A store of pages that this process holds or reaches through its holder.

    Made by `shared`, which returns the same one to all users in a process.
    """

    def __init__(self, path: str, options: Mapping[str, Any], patience: float) -> None:
        self.path = path
        self.users = 0
        self._member = Member(path, lambda: PagesService(path, options), patience)
        self._member.join()

    @property
    def is_holder(self) -> bool:
        """Returns whether this process has the store open."""
        return self._member.is_holder

    def get(self, url: str, variant: bytes | None) -> Record | None:
        """The newest version of a page."""
        if (held := self._member.held) is not None:
            return held.get(url, variant)
        return self._member.call(
            lambda service, _: service.get(url, variant),
            lambda link, _: _ask_record(link, "get", url, variant),
        )

    def head(self, url: str, variant: bytes | None) -> Record | None:
        """The newest version of a page without its body."""
        return self._member.call(
            lambda service, _: service.head(url, variant),
            lambda link, _: _ask_record(link, "head", url, variant),
        )

    def put(self, record: Record) -> bool:
        """Puts a version of a page; returns whether the body changed."""
        if (held := self._member.held) is not None:
            return held.put(record, False)

        def remote(link: Link, again: bool) -> bool:
            answer, _ = link.ask({"call": "put", "again": again, **record.to_wire()}, record.body)
            return bool(answer["changed"])

        return self._member.call(lambda service, again: service.put(record, again), remote)

    def put_later(self, record: Record) -> Failures:
        """As `put`, but the holder does it on a separate thread. Returns the URLs and exceptions
        of earlier puts that failed; `settle` returns the last ones."""
        if (held := self._member.held) is not None:
            return held.put_later(record)
        try:
            self.put(record)
        except filemap.InvalidUrlError:
            raise
        except (filemap.FileMapError, OSError) as error:
            return [(record.url, error)]
        return []

    def settle(self) -> Failures:
        """Waits until all pages of `put_later` are in the store. Returns the failures."""
        held = self._member.held
        return [] if held is None else held.settle()

    def expire(self, start: bytes, before_ms: int) -> int:
        """As `PagesService.expire`. Raises `RemoteError` if the holder takes longer than a minute;
        the holder continues."""

        def remote(link: Link, _again: bool) -> int:
            said = {"call": "expire", "start": wire.text_of(start), "before": before_ms}
            try:
                return int(link.ask(said)[0]["count"])
            except TimeoutError as error:  # Do not start it a second time.
                what = "the process that holds the store still removes them"
                raise filemap.RemoteError(what) from error

        return self._member.call(lambda service, _: service.expire(start, before_ms), remote)

    def pack(self) -> None:
        """As `PagesService.pack`, if this process is the holder. Clients are served meanwhile."""
        try:
            if (held := self._member.held) is not None:
                held.pack()
        except (filemap.FileMapError, OSError) as error:
            logger.error("%s was not recompressed, and has all its pages: %s", self.path, error)

    def close(self) -> None:
        """Ends this use; the last one in a process releases the store."""
        with _shared_lock:
            self.users -= 1
            if self.users > 0:
                return
            _shared.pop(self.path, None)
        self._member.close()


def _ask_record(link: Link, call: str, url: str, variant: bytes | None) -> Record | None:
    said = None if variant is None else wire.text_of(variant)
    answer, body = link.ask({"call": call, "url": url, "variant": said})
    return None if answer.get("found") is False else Record.of_wire(answer, body)


_shared: dict[str, SharedPages] = {}
_shared_lock = threading.Lock()


def shared(path: str, options: Mapping[str, Any], patience: float) -> SharedPages:
    """The store at `path`, for one more user in this process.

    `options` are those of `filemap.open`; for several users in one process, the first user's
    count.
    """
    path = os.path.realpath(path)
    with _shared_lock:
        found = _shared.get(path)
        if found is None:
            found = _shared[path] = SharedPages(path, options, patience)
        found.users += 1
        return found
