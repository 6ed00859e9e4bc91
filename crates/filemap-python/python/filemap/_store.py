"""`PageStore`: the compiled class, with asyncio methods and a view for notebooks."""

import asyncio
import functools
import html
import os
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from . import _native
from ._split import Split, conditions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._native import Change, Page, PageHead, Put, Table, Version
    from .types import Filter, Text, Time, Url

_P = ParamSpec("_P")
_T = TypeVar("_T")

POOL_THREADS = 8
"""Maximum number of asyncio methods that run at once, for all stores of the process."""


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="filemap")


if hasattr(os, "register_at_fork"):
    # The threads exist in the parent only.
    os.register_at_fork(after_in_child=_pool.cache_clear)


async def _in_pool(call: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool(), functools.partial(call, *args, **kwargs))


def _table(figures: dict[str, int | str]) -> str:
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in figures.items()
    )
    return f"<table>{rows}</table>"


class Stat(dict[str, "int | str"]):
    """Statistics of a store, by name."""

    def _repr_html_(self) -> str:
        return _table(self)


class PageStore(_native.PageStore):
    """A store of pages by URL; see `filemap.open`.

    Thread-safe: any number of threads may use one handle. A handle does not survive a `fork`, and
    cannot be pickled.
    """

    __slots__ = ()

    def stat(self) -> Stat:
        """Statistics, by name. Measures the files: some system calls for each segment."""
        return Stat(super().stat())

    def to_arrow(
        self,
        columns: "Sequence[str] | None" = None,
        *,
        filter: "Filter | None" = None,
        batch_bytes: int | None = None,
        batch_rows: int | None = None,
        limit: int | None = None,
        all_versions: bool = False,
        variants: bool = False,
        skip_damage: bool = False,
        split: "Split | None" = None,
    ) -> "Table":
        """The pages as a table: an object with `__arrow_c_stream__`, to be read once.

        pyarrow (`pyarrow.table(...)`), polars (`polars.DataFrame(...)`), DuckDB and pandas read it
        without a copy, a batch of `batch_bytes` (16 MiB) at a time. `columns` are names of Common
        Crawl's index and `headers`, `body` (docs/PYTHON.md has the list); by default all that need
        no body. A body is read only if requested, and `filter` is applied first.

        Rows are the newest versions of pages; `all_versions` and `variants` add to them. Damage
        is an error after the last row; with `skip_damage` it is counted in the object.
        """
        return self._table(
            columns,
            filter=dict[str, Any](filter or {}) if split is None else split._with(filter),
            batch_bytes=batch_bytes,
            batch_rows=batch_rows,
            limit=limit,
            all_versions=all_versions,
            variants=variants,
            skip_damage=skip_damage,
            part=None if split is None else split.part,
        )

    def splits(self, number: int, *, filter: "Filter | None" = None) -> "list[Split]":
        """The store as of now in `number` disjoint parts that take about equal time to read.

        Each can be pickled and read in another process. Together they have the pages of `pages()`,
        or those that `filter` selects. If it selects a small share by host, domain or prefix (at
        most 4,096 pages or one in 32), the parts are ranges of their URLs: only these are looked
        up, and there are fewer parts, in proportion to the share. Reads some heads of every
        segment, or lists the URLs of such a share. With `status` or `mime` they can be read by
        `to_arrow` only.

        Raises `TypeError` for a condition that no filter has, `InvalidValueError` for its value.
        """
        chosen = self._checked(filter)
        named = dict[str, Any](chosen)
        scope = {name: named.get(name) for name in ("host", "prefix", "domain")}
        # Absolute: a part may be read by a process in another folder.
        path = os.fspath(self._full_path)
        return [Split(path, part, filter=chosen) for part in self._splits(number, **scope)]

    def _checked(self, filter: "Filter | None") -> "Filter":
        """The conditions of a filter. Raises, as a table does, for an invalid one."""
        chosen = conditions(filter)
        self.to_arrow(["url"], filter=chosen, limit=0)
        return chosen

    async def aget(
        self, url: "Url", *, at: "Time | None" = None, variant: "Text | None" = None
    ) -> "Page | None":
        """`get` on a thread of a small pool."""
        return await _in_pool(self.get, url, at=at, variant=variant)

    async def ahead(
        self, url: "Url", *, at: "Time | None" = None, variant: "Text | None" = None
    ) -> "PageHead | None":
        """`head` on a thread of a small pool."""
        return await _in_pool(self.head, url, at=at, variant=variant)

    async def acontains(self, url: "Url") -> bool:
        """`url in store` on a thread of a small pool."""
        return await _in_pool(self.__contains__, url)

    async def aput(self, url: "Url | Page", *args: Any, **kwargs: Any) -> "Version":
        """`put` on a thread of a small pool."""
        put: Callable[..., Version] = self.put
        return await _in_pool(put, url, *args, **kwargs)

    async def aput_if_changed(self, url: "Url | Page", *args: Any, **kwargs: Any) -> "Put":
        """`put_if_changed` on a thread of a small pool."""
        put: Callable[..., Put] = self.put_if_changed
        return await _in_pool(put, url, *args, **kwargs)

    async def aremove(
        self, url: "Url", *, variant: "Text | None" = None, at: "Time | None" = None
    ) -> bool:
        """`remove` on a thread of a small pool."""
        return await _in_pool(self.remove, url, variant=variant, at=at)

    async def aget_many(
        self, urls: "Iterable[Url]", *, ahead: int = 64
    ) -> "AsyncIterator[Page | None]":
        """`get_many`, each batch on a thread of a small pool."""
        pages = self.get_many(urls, ahead=ahead)
        done = object()
        while (page := await _in_pool(next, pages, done)) is not done:
            yield page  # type: ignore[misc]

    async def achanges(
        self, since: str | None = None, *, wait: float = 0.0
    ) -> "AsyncIterator[Change]":
        """`changes`, each on a thread of a small pool. A handle of `changes` has the cursor."""
        changes = await _in_pool(self.changes, since, wait=wait)
        done = object()
        while (change := await _in_pool(next, changes, done)) is not done:
            yield change  # type: ignore[misc]

    async def async_(self) -> None:
        """`sync` on a thread of a small pool."""
        await _in_pool(self.sync)

    async def aclose(self) -> None:
        """`close` on a thread of a small pool."""
        await _in_pool(self.close)

    async def __aenter__(self) -> "PageStore":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def _repr_html_(self) -> str:
        about = html.escape(f"{self.path}, mode {self.mode}" + (", closed" if self.closed else ""))
        return f"<b>filemap.PageStore</b> {about}" + ("" if self.closed else _table(self.stat()))
