"""A filter of duplicate requests that is exact, small in memory, and open at once.

| setting | default | meaning |
|---|---|---|
| `JOBDIR` | none | the folder of a crawl that resumes; the set is `filemap.seen` in it |
| `FILEMAP_SEEN` | none | the set's path, in the place of `JOBDIR`: spiders with one path share it |
| `DUPEFILTER_DEBUG` | False | log every duplicate, not only the first |
| `FILEMAP_PATIENCE_SECS` | 30 | how long to wait for a set that another program has locked |

Without a path the set is in a temporary folder, which is removed when the crawl ends.
"""

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Final, Self

from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Request
from scrapy.utils.job import job_dir

from .shared_seen import SharedSeen, shared

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector
    from scrapy.utils.request import RequestFingerprinterProtocol

FILE_NAME: Final = "filemap.seen"
_OLD_NAME: Final = "requests.seen"
_IMPORTED_NAME: Final = "filemap.seen.imported"
_RUNNING_NAME: Final = "filemap.running"
_BATCH: Final = 10_000


class FileMapDupeFilter(RFPDupeFilter):
    """`DUPEFILTER_CLASS = "filemap.scrapy.FileMapDupeFilter"`: see the module.

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
        stats: "StatsCollector | None" = None,
    ) -> None:
        super().__init__(None, debug, fingerprinter=fingerprinter)
        self._job_folder = path
        self._path = seen or (os.path.join(path, FILE_NAME) if path else None)
        self._patience = patience
        self._stats = stats
        self._temporary: str | None = None
        self._seen: SharedSeen | None = None
        self._running: IO[bytes] | None = None
        own = type(self).request_fingerprint is not RFPDupeFilter.request_fingerprint
        self._fingerprint_of = self._fingerprint_text if own else self.fingerprinter.fingerprint

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """The filter of a crawler's settings."""
        settings = crawler.settings
        return cls(
            job_dir(settings),
            settings.getbool("DUPEFILTER_DEBUG"),
            fingerprinter=crawler.request_fingerprinter,
            seen=settings.get("FILEMAP_SEEN"),
            patience=settings.getfloat("FILEMAP_PATIENCE_SECS", 30.0),
            stats=crawler.stats,
        )

    def open(self) -> None:
        """Opens the set, or reaches the process that has it open."""
        if self._seen is not None:
            return
        path = self._path
        if path is None:
            self._temporary = tempfile.mkdtemp(prefix="filemap-seen-")
            path = os.path.join(self._temporary, FILE_NAME)
        self._seen = shared(path, self._patience)
        if self._job_folder is not None:
            self._import(self._seen, self._job_folder)
            self._begin(self._job_folder)

    def _begin(self, folder: str) -> None:
        """Tells of a run that was killed: its queue is gone, and what waited in it is seen."""
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
        """Whether an equal request was asked about; adds this one."""
        if self._seen is None:
            self.open()
            assert self._seen is not None
        return not self._seen.add(self._fingerprint_of(request))

    def close(self, reason: str) -> None:
        """Makes the set durable, and removes it if it was temporary."""
        seen, self._seen = self._seen, None
        if seen is not None:
            if self._job_folder is not None and self._running is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(os.path.join(self._job_folder, _RUNNING_NAME))
                self._running.close()
                self._running = None
            if self._stats is not None:
                self._stats.set_value("filemap/dupefilter/fingerprints", len(seen))
            seen.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
        super().close(reason)

    def _fingerprint_text(self, request: Request) -> bytes:
        text = self.request_fingerprint(request)
        try:
            return bytes.fromhex(text)
        except ValueError:
            return text.encode()

    def _import(self, seen: SharedSeen, folder: str) -> None:
        """Adds what `RFPDupeFilter` left, once for each state of its file."""
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
        for batch in _batches(fingerprints_of(old)):
            seen.add_many(batch)
            count += len(batch)
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


def fingerprints_of(path: str) -> Iterator[bytes]:
    """The fingerprints of a `requests.seen`: lines of hexadecimal digits up to Scrapy 2.18, bytes
    with their length in two bytes before each since. What a kill cut at the end is left out."""
    with open(path, "rb") as file:
        is_text = len(first := file.read(1)) == 1 and first in b"0123456789abcdefABCDEF"
        file.seek(0)
        if is_text:
            for line in file:
                try:
                    yield bytes.fromhex(line.decode("ascii"))
                except ValueError:
                    if line.endswith(b"\n"):
                        yield line.strip()
            return
        while len(size := file.read(2)) == 2:
            fingerprint = file.read(int.from_bytes(size, "big"))
            if len(fingerprint) < int.from_bytes(size, "big"):
                return
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
