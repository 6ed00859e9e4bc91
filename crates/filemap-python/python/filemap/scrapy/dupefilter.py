"""A filter of duplicate requests: exact, small in memory, and quick to open.

| setting | default | meaning |
|---|---|---|
| `JOBDIR` | none | the folder of a crawl that resumes; the set is `filemap.seen` in it |
| `FILEMAP_SEEN` | none | the set's path, instead of `JOBDIR`: spiders with one path share it |
| | | or an address, `http://host:8640/v1/seen/NAME` or `redis://host:6379/NAME` |
| `FILEMAP_SEEN_DURABLE` | False | `http` address: each answer survives a power loss there |
| `DUPEFILTER_DEBUG` | False | log every duplicate, not only the first |
| `FILEMAP_PATIENCE_SECS` | 30 | wait for a locked set, or for a server |
| `FILEMAP_TOKEN`, `FILEMAP_CA_FILE` | | for a server: see `addresses` |

Without a path the set is in a temporary folder, which is removed when the crawl ends.
"""

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Final, Self

from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Request
from scrapy.utils.job import job_dir

from .addresses import reach_of
from .closing import close_unavailable
from .served_seen import Seen, ServedSeen, seen_at
from .shared_pages import FAILURES

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector
    from scrapy.utils.request import RequestFingerprinterProtocol

FILE_NAME: Final = "filemap.seen"
_OLD_NAME: Final = "requests.seen"
_IMPORTED_NAME: Final = "filemap.seen.imported"
_RUNNING_NAME: Final = "filemap.running"
_BATCH: Final = 10_000


class FileMapDupeFilter(RFPDupeFilter):
    """`DUPEFILTER_CLASS = "filemap.scrapy.FileMapDupeFilter"`: a dupe filter on disk.

    Answers as `RFPDupeFilter` does. A kill loses no fingerprint older than a second. A
    `requests.seen` in `JOBDIR` is imported when the filter opens, and again if it has changed.
    """

    def __init__(
        self,
        path: str | None = None,
        debug: bool = False,
        *,
        fingerprinter: "RequestFingerprinterProtocol | None" = None,
        seen: str | None = None,
        patience: float = 30.0,
        reach: dict[str, Any] | None = None,
        stats: "StatsCollector | None" = None,
    ) -> None:
        super().__init__(None, debug, fingerprinter=fingerprinter)
        self._job_folder = path
        self._path = seen or (os.path.join(path, FILE_NAME) if path else None)
        self._patience = patience
        self._reach = reach or {}
        self._crawler: Crawler | None = None
        self._is_lost = False
        self._stats = stats
        self._temporary: str | None = None
        self._seen: Seen | None = None
        self._running: IO[bytes] | None = None
        own = type(self).request_fingerprint is not RFPDupeFilter.request_fingerprint
        self._fingerprint_of = self._fingerprint_text if own else self.fingerprinter.fingerprint

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """The filter of a crawler's settings."""
        settings = crawler.settings
        made = cls(
            job_dir(settings),
            settings.getbool("DUPEFILTER_DEBUG"),
            fingerprinter=crawler.request_fingerprinter,
            seen=settings.get("FILEMAP_SEEN"),
            patience=settings.getfloat("FILEMAP_PATIENCE_SECS", 30.0),
            reach={**reach_of(settings), "durable": settings.getbool("FILEMAP_SEEN_DURABLE")},
            stats=crawler.stats,
        )
        made._crawler = crawler
        return made

    def open(self) -> None:
        """Opens the set, or connects to the process that has it open."""
        if self._seen is not None:
            return
        path = self._path
        if path is None:
            self._temporary = tempfile.mkdtemp(prefix="filemap-seen-")
            path = os.path.join(self._temporary, FILE_NAME)
        self._seen = seen_at(path, self._reach, self._patience)
        if self._job_folder is not None:
            self._import(self._seen, self._job_folder)
            self._begin(self._job_folder)

    def _begin(self, folder: str) -> None:
        """Reports that a run was killed: its queue is lost, and requests in it count as seen."""
        path = os.path.join(folder, _RUNNING_NAME)
        was_there = os.path.exists(path)
        try:
            running = open(path, "ab")
        except FileNotFoundError:
            return
        try:
            fcntl.flock(running, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            running.close()
            self.logger.warning(
                "Another process runs in %s, too: Scrapy's queue there takes one run at a time",
                folder,
            )
            return
        self._running = running
        if was_there:
            self.logger.warning(
                "The last run in %s did not end: requests that waited then are lost with Scrapy's"
                " queue, and are filtered as seen. To crawl all, begin with a new JOBDIR; a cache"
                " gives what it has.",
                folder,
            )
            if self._stats is not None:
                self._stats.inc_value("filemap/dupefilter/killed")

    def request_seen(self, request: Request) -> bool:
        """Returns whether an equal request was seen before; adds this one.

        If the set cannot answer (a full disk, damage, a lost server), the request counts as new,
        so that none is lost, and the spider closes with the reason `filemap_unavailable`: without
        a filter a crawl may never end.
        """
        if self._seen is None:
            self.open()
            assert self._seen is not None
        if not self._is_lost:
            fingerprint = self._fingerprint_of(request)
            try:
                return not self._seen.add(fingerprint)
            except FAILURES as error:
                spider = None if self._crawler is None else self._crawler.spider
                if spider is None:
                    raise
                self._is_lost = True
                what = "Closing the spider, since it is not known what was seen: %s"
                self.logger.error(what, error)
                close_unavailable(spider)
        if self._stats is not None:
            self._stats.inc_value("filemap/dupefilter/unanswered")
        return False

    def close(self, reason: str) -> None:
        """Makes the set durable, and removes it if it was temporary."""
        seen, self._seen = self._seen, None
        if seen is not None:
            if self._job_folder is not None and self._running is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(os.path.join(self._job_folder, _RUNNING_NAME))
                self._running.close()
                self._running = None
            self._close_set(seen)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
        super().close(reason)

    def _close_set(self, seen: Seen) -> None:
        if self._is_lost and isinstance(seen, ServedSeen):
            return  # Do not wait for it a second time.
        try:
            try:
                if self._stats is not None:
                    self._stats.set_value("filemap/dupefilter/fingerprints", len(seen))
            finally:
                seen.close()
        except FAILURES as error:
            if self._stats is not None:
                self._stats.inc_value("filemap/dupefilter/close_error")
            self.logger.error("What was seen last may not survive a power failure: %s", error)

    def _fingerprint_text(self, request: Request) -> bytes:
        text = self.request_fingerprint(request)
        try:
            return bytes.fromhex(text)
        except ValueError:
            return text.encode()

    def _import(self, seen: Seen, folder: str) -> None:
        """Imports the file of `RFPDupeFilter`, once for each state of it."""
        old = os.path.join(folder, _OLD_NAME)
        mark = os.path.join(folder, _IMPORTED_NAME)
        try:
            state = os.stat(old)
        except FileNotFoundError:
            return
        now = [state.st_size, state.st_mtime_ns]
        if _imported(mark) == now:
            return
        count = 0
        fingerprints = OldFingerprints(old)
        for batch in _batches(fingerprints):
            seen.add_many(batch)
            count += len(batch)
        if fingerprints.unread_from is not None:
            what = "%s: from byte %d of %d on it cannot be read: a fingerprint that its process was"
            what += " writing when it was killed, or damage that may cost more of them"
            self.logger.warning(what, old, fingerprints.unread_from, state.st_size)
            if self._stats is not None:
                self._stats.inc_value("filemap/dupefilter/import_cut")
        temporary = f"{mark}.new"
        with open(temporary, "w", encoding="ascii") as file:
            json.dump(now, file)
        os.replace(temporary, mark)
        self.logger.info("Imported %d fingerprints from %s", count, old)
        if self._stats is not None:
            self._stats.set_value("filemap/dupefilter/imported", count)


def _imported(mark: str) -> object:
    try:
        with open(mark, encoding="ascii") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None


class OldFingerprints:
    """The fingerprints of a `requests.seen`: lines of hexadecimal digits up to Scrapy 2.18, later
    bytes preceded by their length in two bytes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.unread_from: int | None = None
        """Offset at which the file ends within a fingerprint, once those before are returned."""

    def __iter__(self) -> Iterator[bytes]:
        self.unread_from = None
        with open(self._path, "rb") as file:
            is_text = len(first := file.read(1)) == 1 and first in b"0123456789abcdefABCDEF"
            file.seek(0)
            yield from self._of_lines(file) if is_text else self._of_bytes(file)

    def _of_lines(self, file: IO[bytes]) -> Iterator[bytes]:
        at = 0
        for line in file:
            # A truncated line with an even number of digits would be another fingerprint.
            if not line.endswith(b"\n"):
                self.unread_from = at
                return
            at += len(line)
            try:
                yield bytes.fromhex(line.decode("ascii"))
            except ValueError:
                yield line.strip()

    def _of_bytes(self, file: IO[bytes]) -> Iterator[bytes]:
        at = 0
        while size := file.read(2):
            length = int.from_bytes(size, "big")
            fingerprint = file.read(length)
            # A power failure leaves zeros.
            if len(size) < 2 or length == 0 or len(fingerprint) < length:
                self.unread_from = at
                return
            at += 2 + length
            yield fingerprint


def _batches(items: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for item in items:
        batch.append(item)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
