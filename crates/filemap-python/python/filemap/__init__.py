"""An embedded store of web pages by URL, for crawlers.

    import filemap

    with filemap.open("pages.fm", "a") as store:
        store.put("http://example.com/", b"<h1>Hello</h1>", headers={"Content-Type": "text/html"})
        print(store["http://example.com/"].text)

One process writes a store (modes `w`, `a`, `x`); any number of processes read it meanwhile
(mode `r`). No mode empties a store.
"""

import os as _os
from datetime import timedelta as _timedelta
from typing import TYPE_CHECKING, TypedDict

from . import _native
from ._crawl import CrawlOptions, OnPage, PageReply, crawl
from ._errors import (
    ClosedError,
    CorruptError,
    FileMapError,
    ForkedError,
    InvalidUrlError,
    InvalidValueError,
    LockedError,
    NotAStoreError,
    OutrunError,
    ReadOnlyError,
    RefusedError,
    RemoteError,
    StoreExistsError,
    StoreIOError,
)
from ._native import (
    Absent,
    Capture,
    Change,
    Changes,
    CrawledPage,
    CrawlSummary,
    Headers,
    Page,
    PageHead,
    Put,
    Table,
    Version,
    __version__,
    canonicalize,
    decode_body,
)
from ._split import Split
from ._store import PageStore, Stat

if TYPE_CHECKING:
    from typing import Literal, Unpack

    from .types import Mode, Path

__all__ = [
    "Absent",
    "Capture",
    "Change",
    "Changes",
    "ClosedError",
    "CorruptError",
    "CrawlOptions",
    "CrawlSummary",
    "CrawledPage",
    "FileMapError",
    "ForkedError",
    "Headers",
    "InvalidUrlError",
    "InvalidValueError",
    "LockedError",
    "NotAStoreError",
    "OnPage",
    "OutrunError",
    "Page",
    "PageHead",
    "PageReply",
    "PageStore",
    "Put",
    "ReadOnlyError",
    "RefusedError",
    "RemoteError",
    "Split",
    "Stat",
    "StoreExistsError",
    "StoreIOError",
    "StoreOptions",
    "Table",
    "Version",
    "__version__",
    "canonicalize",
    "crawl",
    "decode_body",
    "open",
]

_os.register_at_fork(after_in_child=_native._forked)


class StoreOptions(TypedDict, total=False):
    """Options of `open`. An omitted option, or `None`, means the default."""

    canonicalizer: "Literal['whatwg', 'exact', 'crawl', 'surt'] | None"
    durability: "Literal['buffered', 'sync'] | float | _timedelta | None"
    compression_level: int | None
    dictionaries: bool | None
    keep_versions: int | None
    keep_age: _timedelta | float | None
    value_cache_bytes: int | None
    max_value_cache_bytes: int | None
    filter_memory_bytes: int | None
    memtable_bytes: int | None
    checkpoint_bytes: int | None
    segment_bytes: int | None
    large_value_bytes: int | None
    max_open_files: int | None
    free_space_floor: int | None
    space_bound: float | None
    compaction_rate: int | None
    recompression_level: int | None
    recompression_age: _timedelta | float | None
    accept_loss: bool | None
    keys_in_order: bool | None
    token: str | None
    ca_file: str | None


def open(path: "Path", mode: "Mode" = "r", **options: "Unpack[StoreOptions]") -> PageStore:
    """Open a store of pages: a folder, or the address of an `fm-serve` (`http://host:8640`).

    `mode` is `r` (read-only, also while another process writes), `w` (write an existing store),
    `a` (write; made if missing) or `x` (made; must not exist).

    Raises `NotAStoreError` (a `FileNotFoundError`), `StoreExistsError` (a `FileExistsError`),
    `LockedError` (a `BlockingIOError`) if another handle writes it, `CorruptError`.

    For an address the options are `token` and `ca_file` (certificates to trust, PEM), by default
    `FILEMAP_TOKEN` and `FILEMAP_CA_FILE` of the environment. Operations on the files of a store
    raise `FileMapError` there. Puts are durable after `sync` or `close`. Raises `RemoteError` (a
    `ConnectionError`), and `ReadOnlyError` if the server accepts no puts.
    """
    return PageStore(path, mode, **options)
