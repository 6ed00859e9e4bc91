"""Count the words of all pages with Spark: `python spark_words.py pages.fm [MASTER]`.

MASTER defaults to `local[*]`; `local-cluster[2,1,1024]` is a cluster of two workers on this
machine, each a process with one core and 1 GiB. Workers on other machines need the store's folder
at the same path, and this package.

Each task reads a part of the store and sends on its counts, never the pages.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import desc

from filemap.spark import register

TAGS = re.compile(r"<(script|style).*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
WORDS = re.compile(r"\w+")


def words(body: bytes, charset: str | None) -> list[str]:
    """The words of a page, in lower case and without its tags."""
    try:
        text = body.decode(charset or "utf-8", "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    return WORDS.findall(TAGS.sub(" ", text).lower())


def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The number of occurrences of each word in the pages of a task."""
    counts: Counter[str] = Counter()
    for batch in batches:
        for body, charset in zip(batch["body"], batch["content_charset"]):
            if body.is_valid:
                counts.update(words(body.as_py(), charset.as_py()))
    yield pa.RecordBatch.from_pydict({"word": list(counts), "number": list(counts.values())})


def word_counts(spark: SparkSession, path: str) -> DataFrame:
    """The words of all HTML pages, with their counts."""
    register(spark)
    pages = (
        spark.read.format("filemap")
        .option("columns", "body,content_charset")
        .option("mime", "text/html")
        .load(os.path.abspath(path))
    )
    counted = pages.mapInArrow(count, "word string, number bigint")
    return counted.groupBy("word").sum("number").withColumnRenamed("sum(number)", "number")


def main() -> None:
    path, *master = sys.argv[1:]
    # The workers use the same Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("words").master(master[0] if master else "local[*]")
    spark = builder.getOrCreate()
    counts = word_counts(spark, path).cache()
    for row in counts.orderBy(desc("number"), "word").take(20):
        print(row.number, row.word)
    print(counts.groupBy().sum("number").head()[0], "words,", counts.count(), "different")
    spark.stop()


if __name__ == "__main__":
    main()
