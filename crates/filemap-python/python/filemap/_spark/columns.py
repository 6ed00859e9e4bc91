"""Columns for Spark, which has no unsigned numbers, milliseconds or repeated keys in a map."""

import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .._errors import InvalidValueError

if TYPE_CHECKING:
    from .._native import Table

# pyarrow has no type annotations.
pa: Final[Any] = importlib.import_module("pyarrow")

_PAIR: Final[Any] = pa.struct([("key", pa.string()), ("value", pa.string())])
_NAMES: Final[dict[Any, str]] = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.list_(pa.field("element", _PAIR)): "array<struct<key:string,value:string>>",
}
"""Spark's names of types, which its DDL accepts too."""


class Column(NamedTuple):
    """A column that a query declares."""

    name: str
    type: str
    """The form of Spark's `simpleString`."""
    is_nullable: bool


def _of_spark(type: Any) -> Any:
    """The type in which Spark accepts values of a type of `to_arrow`."""
    if pa.types.is_map(type):
        # A map of Spark's has each key once; header fields are ordered and may repeat.
        return pa.list_(pa.field("element", _PAIR))
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", "UTC")
    if pa.types.is_large_binary(type):
        return pa.binary()
    if pa.types.is_unsigned_integer(type):
        return pa.int32() if type.bit_width < 32 else pa.int64()
    return type


def spark_schema(schema: Any) -> Any:
    """The schema of Spark's rows for one of `to_arrow`."""
    return pa.schema([field.with_type(_of_spark(field.type)) for field in schema])


def ddl(schema: Any) -> str:
    """A schema of Spark's rows as a DDL string."""
    columns = (
        f"`{field.name}` {_NAMES[field.type]}{'' if field.nullable else ' not null'}"
        for field in spark_schema(schema)
    )
    return ", ".join(columns)


def declared(schema: Any, columns: Sequence[Column]) -> Any:
    """The schema of Spark's rows as a query declares it, for one of `to_arrow`.

    Raises `InvalidValueError` for a column of another type.
    """
    fields: list[Any] = []
    for field, column in zip(spark_schema(schema), columns, strict=True):
        name = _NAMES[field.type]
        if column.type != name or (field.nullable and not column.is_nullable):
            null = "" if field.nullable else " not null"
            raise InvalidValueError(f"column {column.name!r} is {name}{null}, not {column.type}")
        fields.append(field.with_nullable(column.is_nullable))
    return pa.schema(fields)


def table_schema(table: "Table") -> Any:
    """The schema of a table of `to_arrow`, which is not read, and cannot be read afterwards."""
    return pa.RecordBatchReader.from_stream(table).schema


def batches(table: "Table", schema: Any) -> Iterator[Any]:
    """The rows of a table of `to_arrow` as record batches of this schema of Spark's rows.

    Values change in form only. A value that does not fit is an error (`pyarrow.ArrowInvalid`);
    damage is an error after the last row.
    """
    for batch in pa.RecordBatchReader.from_stream(table):
        arrays = [_cast(array, field.type) for array, field in zip(batch.columns, schema)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: Any, type: Any) -> Any:
    if pa.types.is_map(array.type):
        pairs = pa.StructArray.from_arrays([array.keys, array.items], fields=list(_PAIR))
        return pa.ListArray.from_arrays(array.offsets, pairs, type=type)
    return array.cast(type)
