"""Parts of a store, to be read by several processes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from ._errors import InvalidValueError

if TYPE_CHECKING:
    from ._native import Page, PageStore
    from .types import Filter


_OF_TABLES: Final = ("status", "mime")
"""Conditions that only tables apply."""


def conditions(filter: "Filter | None") -> "Filter":
    """A copy of a filter, without entries that restrict nothing."""
    named: dict[str, Any] = dict(filter or {})
    return cast("Filter", {name: value for name, value in named.items() if value is not None})


@dataclass(frozen=True)
class Split:
    """One of the disjoint parts from `PageStore.splits`: a part of the store as it was then.

    It can be pickled. Iterating reads its pages, the newest version of each, through a read-only
    handle that is opened by the reading process and closed at the end. Pages removed meanwhile may
    be missing; no page is returned twice from an unchanged store, and compaction does not disturb
    it.
    """

    path: str
    """The store."""
    part: bytes
    """The part, encoded by the store."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """Options of `filemap.open`."""
    filter: "Filter" = field(default_factory=dict)  # type: ignore[assignment]
    """Only these of its pages. `status` and `mime` can be read as a table only."""

    def __post_init__(self) -> None:
        # Neither another split nor a caller shares this filter.
        object.__setattr__(self, "filter", conditions(self.filter))

    def __iter__(self) -> "Iterator[Page]":
        return self.pages()

    def pages(self, filter: "Filter | None" = None) -> "Iterator[Page]":
        """The pages, limited to a host or a range of times by `filter`.

        As for a list of the store: after a `CorruptError`, `next` returns the pages after the
        damage. Raises `InvalidValueError` for a condition that the split has already, and for
        `status` and `mime`, which only tables apply.
        """
        from . import open

        chosen = self._with(filter)
        for name in _OF_TABLES:
            if name in chosen:
                how = "read the split as a table: to_arrow(split=split)"
                raise InvalidValueError(f"pages are not chosen by {name} ({chosen[name]!r}): {how}")
        store = open(self.path, "r", **self.options)
        try:
            pages = store._pages_in(self.part, **chosen)
        except BaseException:
            store.close()
            raise
        return _Pages(store, pages)

    def _with(self, filter: "Filter | None") -> dict[str, Any]:
        """The conditions of both."""
        own, more = dict[str, Any](self.filter), dict[str, Any](conditions(filter))
        twice = sorted(own.keys() & more.keys())
        if twice:
            raise InvalidValueError(f"the split is of a {twice[0]} already: {own[twice[0]]!r}")
        return own | more


class _Pages:
    """The pages of a store that is closed after the last page, or with the last user of this."""

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
