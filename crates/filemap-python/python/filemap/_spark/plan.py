"""What a query reads, by the options that Spark passes as text."""

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

_LOCATION: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://?")


@dataclass(frozen=True)
class Plan:
    """The options of a query. It is sent to the workers with the reader."""

    path: str
    columns: tuple[str, ...] | None = None
    """In this order; by default all that need no body."""
    filter: Filter = field(default_factory=Filter)
    partitions: int | None = None
    """How many parts; by default by the bytes of the store."""
    all_versions: bool = False
    variants: bool = False
    skip_damage: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Plan":
        """The plan of these options, whose names are in any case.

        Raises `InvalidValueError`, which names the option: also for one that is not known, since
        a misspelt `host` would read everything.
        """
        given = {name.lower(): value.strip() for name, value in options.items()}
        unknown = sorted(set(given).difference(OPTIONS))
        if unknown:
            raise InvalidValueError(
                f"there is no option {unknown[0]!r}; there are {_list(OPTIONS)}"
            )
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


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names)


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
        raise InvalidValueError(f"partitions={text!r} is no number of parts, 1 or more")
    return int(text)


def _choice(given: Mapping[str, str], name: str, default: str, other: str) -> bool:
    """Whether an option has its other value."""
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
    try:
        if text.replace(".", "", 1).isdecimal():
            return datetime.fromtimestamp(float(text), UTC)
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError) as error:
        what = "is no time: write 2026-01-01T00:00:00Z, or seconds since 1970"
        raise InvalidValueError(f"{name}={text!r} {what}") from error
    if time.tzinfo is None:
        raise InvalidValueError(f"{name}={text!r} has no time zone: add Z, or +01:00")
    return time
