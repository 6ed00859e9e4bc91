# pyright: strict
"""Stores as tables of Spark: `spark.read.format("filemap")`, with PySpark 4.1 and later.

    from filemap.spark import register

    register(spark)
    pages = spark.read.format("filemap").option("columns", "url,body").load("/data/pages.fm")

Rows have the columns of `PageStore.to_arrow`, and the options are those of `_spark/plan.py`
(docs/PYTHON.md has the list). The driver splits the store into parts; each task reads one as Arrow
batches, through its own follower.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from . import open as _open
from ._errors import InvalidValueError
from ._spark.columns import Column, batches, ddl, declared, table_schema
from ._spark.parts import parts
from ._spark.plan import Plan
from ._spark.pushed import Condition, narrowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ._native import Table

__all__ = ["FileMapSource", "PushdownSource", "register"]

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""The setting of Spark that passes the conditions of a query to a Python data source."""

_logger: Final = logging.getLogger("filemap.spark")


def register(spark: "SparkSession") -> None:
    """Make the format `filemap` known to a session.

    Conditions are pushed down if `spark.sql.python.filterPushdown.enabled` is true now: otherwise
    Spark refuses a source that accepts them. Call it again after changing the setting.
    """
    pushes = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    spark.dataSource.register(PushdownSource if pushes else FileMapSource)


class FileMapSource(DataSource):
    """The format `filemap`. Conditions of options are pushed down, those of a query are not."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "filemap"

    def schema(self) -> str:
        """The columns of the option, or all that need no body. Opens the store; reads no page."""
        plan = Plan.of(self.options)
        return ddl(_schema(plan))

    def reader(self, schema: "StructType") -> "_Reader":
        """A reader of exactly the columns of a schema."""
        return _Reader(self._plan(schema), schema)

    def _plan(self, schema: "StructType") -> Plan:
        plan, names = Plan.of(self.options), tuple(schema.fieldNames())
        if plan.columns not in (None, names):
            raise InvalidValueError("columns are given twice: by the option and by a schema")
        return replace(plan, columns=names)


class PushdownSource(FileMapSource):
    """The format `filemap` with pushed conditions: an error unless `PUSHDOWN` is true."""

    def reader(self, schema: "StructType") -> "_Reader":
        """As `FileMapSource.reader`, with `pushFilters`."""
        return _PushdownReader(self._plan(schema), schema)


def _schema(plan: Plan) -> Any:
    """The schema of the columns of a plan, as the store gives them."""
    with _open(plan.path) as store:
        return table_schema(store.to_arrow(plan.columns))


def _tell(path: str, table: "Table") -> None:
    """Logs the damage that the rows read so far leave out."""
    if table.damaged or table.bodiless:
        _logger.warning(
            "%s: left out of a part: %d damaged pages, stretches or files; rows without their "
            "body: %d; first: %s",
            path,
            table.damaged,
            table.bodiless,
            table.first_error,
        )


class _Reader(DataSourceReader):
    """The reader of a query: made by the driver, and sent to each task."""

    def __init__(self, plan: Plan, schema: "StructType") -> None:
        columns = [
            Column(field.name, field.dataType.simpleString(), field.nullable)
            for field in schema.fields
        ]
        self._plan = plan
        self._schema = declared(_schema(plan), columns)

    def partitions(self) -> list[InputPartition]:
        """The parts of the store as it is now, one a task."""
        with _open(self._plan.path) as store:
            return [InputPartition(split) for split in parts(store, self._plan)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a part, as record batches."""
        plan, split = self._plan, partition.value
        with _open(split.path) as store:
            table = store.to_arrow(
                plan.columns,
                all_versions=plan.all_versions,
                variants=plan.variants,
                skip_damage=plan.skip_damage,
                split=split,
            )
            try:
                yield from batches(table, self._schema)
            finally:
                # Also for a task that is stopped early, by a LIMIT.
                _tell(split.path, table)


class _PushdownReader(_Reader):
    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """Narrows the rows that are read; Spark applies all conditions again."""
        conditions = [
            Condition(type(f).__name__, getattr(f, "attribute", ()), getattr(f, "value", None))
            for f in filters
        ]
        self._plan = replace(self._plan, filter=narrowed(self._plan.filter, conditions))
        return filters
