"""Import and export of WARC, ARC and WACZ files."""

import contextlib
import os
from collections.abc import Generator
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

from . import _native
from ._errors import StoreExistsError
from ._native import ExportReport, ImportReport

if TYPE_CHECKING:
    from ._native import PageStore
    from .types import Path, Progress, Time, Url

__all__ = ["ExportReport", "ImportReport", "export", "import_"]

Format: TypeAlias = Literal["warc.gz", "warc.zst", "warc", "wacz", "jsonl"]


def import_(
    store: "PageStore",
    source: "Path | IO[bytes]",
    *,
    as_received: bool = False,
    keep: list[str] | None = None,
    progress: "Progress | None" = None,
) -> ImportReport:
    """Import a WARC, ARC or WACZ file: a path, or a binary file object.

    Plain, gzip and zstd files are recognised by content. Damage does not end an import: the report
    counts and names what was not stored. Repeating an import adds nothing.

    `as_received` keeps content codings; `keep` names further kinds of records (`request`,
    `metadata`, `conversion`); `progress(bytes_read, pages)` is called ten times a second.
    """
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            name = os.path.basename(str(source))
            return _native.import_(
                store, name, file, as_received=as_received, keep=keep, progress=progress
            )
    if not hasattr(source, "read"):
        what = type(source).__name__
        raise TypeError(
            f"a file to import is a path or a binary file object, one a call, not {what}"
        )
    name = str(getattr(source, "name", "a file object"))
    return _native.import_(
        store, name, source, as_received=as_received, keep=keep, progress=progress
    )


def export(
    store: "PageStore",
    target: "Path",
    *,
    format: Format = "warc.gz",
    host: str | None = None,
    domain: str | None = None,
    prefix: "Url | None" = None,
    since: "Time | None" = None,
    until: "Time | None" = None,
    newest_only: bool = False,
    progress: "Progress | None" = None,
) -> ExportReport:
    """Export pages: to a new or empty folder, or with format `wacz` to the file `target`.

    A folder gets the files `pages-00000.warc.gz` (and so on) with their index `pages.cdxj`, or
    `pages.jsonl`. A file gets its name once it is complete. The report counts what was left out.
    `progress(written, seen)` is called ten times a second.
    """
    choice = {
        "format": format,
        "stem": "pages",
        "host": host,
        "domain": domain,
        "prefix": prefix,
        "since": since,
        "until": until,
        "newest_only": newest_only,
    }
    if format == "wacz":
        with _Part.whole(os.fspath(target)) as part:
            return _native.export(store, choice, _no_file, _no_file, part, progress)
    folder = os.fspath(target)
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise StoreExistsError(f"{folder} is not empty: an export goes to a new or empty folder")
    parts: list[_Part] = []

    def create(name: str) -> _Part:
        parts.append(_Part(os.path.join(folder, name)))
        return parts[-1]

    def place(path: str, content: bytes) -> bool:
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        try:
            with open(full, "xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    try:
        return _native.export(store, choice, create, place, None, progress)
    finally:
        for part in parts:
            part.discard()


def _no_file(*_arguments: Any) -> Any:
    raise RuntimeError("a WACZ file is one file")


class _Part:
    """A file that gets its name when it is closed, and is removed if it never is."""

    def __init__(self, path: str) -> None:
        if os.path.lexists(path):
            raise StoreExistsError(f"{path} exists")
        self._path = path
        self._partial = path + ".partial"
        self._file: IO[bytes] | None = open(self._partial, "wb")

    @classmethod
    @contextlib.contextmanager
    def whole(cls, path: str) -> Generator["_Part"]:
        part = cls(path)
        try:
            yield part
            part.close()
        finally:
            part.discard()

    def _open(self) -> IO[bytes]:
        if self._file is None:
            raise ValueError("the file is closed")
        return self._file

    def write(self, data: bytes) -> int:
        return self._open().write(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._open().seek(offset, whence)

    def flush(self) -> None:
        self._open().flush()

    def close(self) -> None:
        file, self._file = self._open(), None
        with file:
            file.flush()
            os.fsync(file.fileno())
        os.rename(self._partial, self._path)

    def discard(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
            os.unlink(self._partial)
