"""The plan of a query, from the options that Spark passes as text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

from .._errors import InvalidValueError
from ..types import Filter

SELECTING: Final = ("host", "domain", "prefix", "since", "until", "status", "mime")
"""Options that are conditions of `filemap.types.Filter`."""

OPTIONS: Final = ("path", "columns", "partitions", "versions", "variants", "damage", *SELECTING)

# The scheme, and the authority if a path follows it.
_LOCATION: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://[^/]*)?(?=/)")

_DATE_PLACES: Final = (4, 6, 8, 12, 14)
"""Digits of `2026`, `202601`, `20260101` and with a time: not meant as seconds."""


@dataclass(frozen=True)
class Plan:
    """The options of a query. It is sent to the workers with the reader."""

    path: str
    columns: tuple[str, ...] | None = None
    """In this order; by default all that need no body."""
    filter: Filter = field(default_factory=Filter)
    partitions: int | None = None
    """Number of parts; by default it depends on the bytes of the store."""
    all_versions: bool = False
    variants: bool = False
    skip_damage: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str | None]) -> "Plan":
        """The plan of these options, whose names are case-insensitive.

        Raises `InvalidValueError`, which names the option; also for an unknown or empty one, since
        a misspelt `host`, or an empty one, would read everything.
        """
        given = _given(options)
        columns = given.get("columns")
        return cls(
            path=_path(given.get("path")),
            columns=None if columns is None else tuple(name.strip() for name in columns.split(",")),
            filter=_filter(given),
            partitions=_number(given.get("partitions")),
            all_versions=_choice(given, "versions", "newest", "all"),
            variants=_choice(given, "variants", "false", "true"),
            skip_damage=_choice(given, "damage", "fail", "skip"),
        )


def _given(options: Mapping[str, str | None]) -> dict[str, str]:
    given = {name.lower(): (value or "").strip() for name, value in options.items()}
    if "paths" in given:
        # Spark's name for several paths.
        raise InvalidValueError("one store is one table: load each, and unite them with union()")
    for name in sorted(given):
        if name not in OPTIONS:
            raise InvalidValueError(f"there is no option {name!r}; there are {', '.join(OPTIONS)}")
        if not given[name]:
            raise InvalidValueError(f"the option {name!r} is empty: leave it out")
    return given


def _path(path: str | None) -> str:
    if not path:
        raise InvalidValueError("the path of the store is missing: .load('/data/pages.fm')")
    location = _LOCATION.match(path)
    if location is None:
        return path
    elsewhere = {
        "http": "run Spark where that server's store is, on its folder or on a backup of it",
        "https": "run Spark where that server's store is, on its folder or on a backup of it",
        "s3": "a store in object storage is not read in parts yet; see docs/CLOUD.md",
        "file": f"give the path alone, {path[location.end() :]!r}",
    }
    scheme = location[1].lower()
    what = elsewhere.get(scheme, "give the path of a store's folder")
    raise InvalidValueError(f"Spark reads the folder of a store, not {scheme}: {what} ({path!r})")


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InvalidValueError(f"partitions={text!r} is not a number of parts, 1 or more")
    return int(text)


def _choice(given: Mapping[str, str], name: str, default: str, other: str) -> bool:
    """Returns whether an option has its other value."""
    value = given.get(name, default).lower()
    if value not in (default, other):
        raise InvalidValueError(f"{name}={value!r} is neither {default!r} nor {other!r}")
    return value == other


def _filter(given: Mapping[str, str]) -> Filter:
    conditions: dict[str, Any] = {name: given[name] for name in SELECTING if name in given}
    for name in ("since", "until"):
        if name in conditions:
            conditions[name] = _time(name, conditions[name])
    return cast(Filter, conditions)


def _time(name: str, text: str) -> datetime:
    if text.isdecimal() and len(text) in _DATE_PLACES:
        what = "may be a date: write 2026-01-01T00:00:00Z, or seconds since 1970 with a point"
        raise InvalidValueError(f"{name}={text!r} {what}, {text}.0")
    try:
        if text.replace(".", "", 1).isdecimal():
            return datetime.fromtimestamp(float(text), UTC)
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError) as error:
        what = "is not a time: write 2026-01-01T00:00:00Z, or seconds since 1970"
        raise InvalidValueError(f"{name}={text!r} {what}") from error
    if time.tzinfo is None:
        raise InvalidValueError(f"{name}={text!r} has no time zone: add Z, or +01:00")
    return time
