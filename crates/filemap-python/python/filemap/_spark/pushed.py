"""Conditions that Spark pushes down, if a store can apply them.

Applying a condition here reduces the rows that are read. It may keep more rows than the condition
does, since Spark applies all of them again. A condition is taken only if it certainly drops no row
that Spark would keep; the others are left to Spark.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from ..types import Filter, Time

# Hosts that are their own canonical form: for another spelling a store finds rows that Spark does
# not compare as equal. An IP address ends with a digit.
_HOST: Final = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z][a-z0-9_-]{0,62}")
# Prefixes for which the text of the column `url` equals the bytes in the store.
_PREFIX: Final = re.compile(r"[a-z][a-z0-9+.-]*:[!$&-;=?-Z\[\]_a-z~]*")


class Condition(NamedTuple):
    """A condition on a column, in the form of the classes of `pyspark.sql.datasource`."""

    kind: str
    column: tuple[str, ...]
    value: Any


def narrowed(filter: Filter, conditions: Iterable[Condition]) -> Filter:
    """The filter narrowed by the conditions; its own conditions stay."""
    result = filter.copy()
    for kind, column, value in conditions:
        match column:
            case ("url_host_name",) if isinstance(value, str):
                _host(result, kind, value)
            case ("url",) if isinstance(value, str):
                if kind in ("EqualTo", "StringStartsWith") and _PREFIX.fullmatch(value):
                    result.setdefault("prefix", value)
            case ("fetch_time",) if isinstance(value, datetime) and value.tzinfo is not None:
                _time(result, kind, value)
            case ("fetch_status",) if kind == "EqualTo" and isinstance(value, int):
                if 0 <= value <= 0xFFFF:
                    result.setdefault("status", value)
            case _:
                pass
    return result


def _host(filter: Filter, kind: str, value: str) -> None:
    """The first condition of each name: Spark applies all of them again."""
    if kind == "EqualTo" and _HOST.fullmatch(value):
        filter.setdefault("host", value)
    elif kind == "StringEndsWith" and value.startswith(".") and _HOST.fullmatch(value[1:]):
        filter.setdefault("domain", value[1:])


def _time(filter: Filter, kind: str, value: datetime) -> None:
    """The narrower of two inclusive bounds."""
    if kind in ("EqualTo", "GreaterThan", "GreaterThanOrEqual"):
        filter["since"] = max(_aware(filter.get("since")) or value, value)
    if kind in ("EqualTo", "LessThan", "LessThanOrEqual"):
        filter["until"] = min(_aware(filter.get("until")) or value, value)


def _aware(time: Time | None) -> datetime | None:
    return datetime.fromtimestamp(time, UTC) if isinstance(time, float | int) else time
