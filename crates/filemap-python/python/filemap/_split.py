"""Parts of a store, to be read by several processes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._errors import InvalidValueError

if TYPE_CHECKING:
    from ._native import Page, PageStore
    from .types import Filter


@dataclass(frozen=True)
class Split:
    """One of the disjoint parts that `PageStore.splits` gives: a part of the store as it was then.

    It can be pickled. Iterating reads its pages, the newest version of each, through a read-only
    handle that is opened where it is read, and closed at the end. What is removed meanwhile may be
    missing; no page comes twice from an unchanged store, and compaction does not disturb it.
    """

    path: str
    """The store."""
    part: bytes
    """Which part, as the store wrote it."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """Options of `filemap.open`."""
    filter: "Filter" = field(default_factory=dict)  # type: ignore[assignment]
    """Only these of its pages."""

    def __iter__(self) -> "Iterator[Page]":
        return self.pages()

    def pages(self, filter: "Filter | None" = None) -> "Iterator[Page]":
        """The pages, of a host or of some times if `filter` says so.

        As a list of the store: after a `CorruptError`, `next` gives the pages behind the damage.
        Raises `InvalidValueError` for a condition that the split has already.
        """
        from . import open

        store = open(self.path, "r", **self.options)
        try:
            pages = store._pages_in(self.part, **self._with(filter))
        except BaseException:
            store.close()
            raise
        return _Pages(store, pages)

    def _with(self, filter: "Filter | None") -> dict[str, Any]:
        """The conditions of both."""
        own, more = dict[str, Any](self.filter), dict[str, Any](filter or {})
        twice = sorted(own.keys() & more.keys())
        if twice:
            raise InvalidValueError(f"the split is of a {twice[0]} already: {own[twice[0]]!r}")
        return own | more


class _Pages:
    """The pages of a store that is closed behind the last, and with the last user of this."""

    def __init__(self, store: "PageStore", pages: "Iterator[Page]") -> None:
        self._store = store
        self._pages = pages

    def __iter__(self) -> "Iterator[Page]":
        return self

    def __next__(self) -> "Page":
        try:
            return next(self._pages)
        except StopIteration:
            self._pages = iter(())
            self._store.close()
            raise
