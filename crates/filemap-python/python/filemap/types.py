"""Types of arguments, for annotations."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from ._native import Headers

Url: TypeAlias = str | bytes
"""A URL. Bytes that are not UTF-8 come back as `str` with `surrogateescape`, like file names."""

Text: TypeAlias = str | bytes

Body: TypeAlias = bytes | bytearray | memoryview | str
"""A body; `str` is stored as UTF-8."""

Time: TypeAlias = datetime | float
"""An aware `datetime`, or seconds since 1970."""

Age: TypeAlias = timedelta | float
"""A `timedelta`, or seconds."""

HeadersLike: TypeAlias = (
    "Headers | Mapping[str, Text | Sequence[Text]] | Iterable[tuple[Text, Text]]"
)
"""Header fields: one or more values for each name, or pairs. `str` is Latin-1 text."""

Mode: TypeAlias = Literal["r", "w", "a", "x"]
"""Read-only; write; write, made if missing; made, must not exist."""


class Filter(TypedDict, total=False):
    """A selection of pages. An omitted key restricts nothing."""

    host: str | None
    domain: str | None
    """A host and its subdomains."""
    prefix: Url | None
    """The beginning of the canonical URL."""
    since: Time | None
    until: Time | None
    status: int | str | None
    """`200`, `"2xx"` or `"200-299"`; for tables only."""
    mime: str | None
    """`"text/html"` or `"text/*"`; for tables only."""


Progress: TypeAlias = Callable[[int, int], object]
"""Called about ten times a second with the work done and the total (0 if unknown)."""

Path: TypeAlias = str | os.PathLike[str]
