"""The number of parts of a store, and the parts."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .plan import Plan

if TYPE_CHECKING:
    from .._split import Split
    from .._store import PageStore

PART_BYTES: Final = 64 << 20
"""Approximate bytes of the value log in a part, if the query does not give their number."""

MOST_PARTS: Final = 10_000


def parts(store: "PageStore", plan: Plan) -> "list[Split]":
    """The parts of a query over the store as it is now; at least one.

    With a filter of few pages by host, domain or prefix there are fewer; but parts by URL have
    pages only, not their variants.
    """
    number = plan.partitions
    if number is None:
        number = min(-(-int(store.stat()["value_bytes"]) // PART_BYTES), MOST_PARTS)
    number = max(number, 1)
    if plan.variants:
        chosen = store._checked(plan.filter)
        return [replace(split, filter=chosen) for split in store.splits(number)]
    return store.splits(number, filter=plan.filter)
