"""Stores as Spark tables: the same rows as from `to_arrow`, whatever is pushed down.

It needs PySpark and Java. Without them it is skipped, or fails if FILEMAP_SPARK is set
(`check.sh soak`).
"""

import base64
import hashlib
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import filemap

T0 = 1_700_000_000
EXAMPLE = Path(__file__).parents[1] / "examples" / "spark_words.py"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

if "FILEMAP_SPARK" not in os.environ:
    if find_spec("pyspark") is None:
        pytest.skip("Spark: PySpark is not installed", allow_module_level=True)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark: there is no Java", allow_module_level=True)

import pyarrow as pa  # noqa: E402
from pyspark.errors import AnalysisException  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

from filemap.spark import FileMapSource, register  # noqa: E402

# PySpark and pandas give warnings themselves.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(params=["false", "true"])
def either(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    """A session with filter pushdown, and one without."""
    spark.conf.set(PUSHDOWN, request.param)
    register(spark)
    return spark


@pytest.fixture
def pushing(spark: SparkSession) -> SparkSession:
    spark.conf.set(PUSHDOWN, "true")
    register(spark)
    return spark


@pytest.fixture
def filled(store: filemap.PageStore) -> filemap.PageStore:
    """300 pages on three hosts: some are in the index, some only in the tail of the log."""
    for n in range(300):
        if n == 200:
            store.compact()
        store.put(
            f"https://h{n % 3}.example.org/a/{n}?q={n}",
            f"<html><title>{n}</title>" + "x" * n,
            status=200 if n % 10 else 404,
            headers=[("Content-Type", "text/html"), ("Set-Cookie", "a"), ("Set-Cookie", "b")],
            time=T0 + n,
        )
    return store


def load(spark: SparkSession, store: filemap.PageStore, **options: object) -> DataFrame:
    reader = spark.read.format("filemap").option("partitions", 4)
    return reader.options(**options).load(os.fspath(store.path))  # type: ignore[arg-type]


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=str)


def tasks(frame: DataFrame) -> int:
    return frame.rdd.getNumPartitions()


def same_as_arrow(store: filemap.PageStore, **how: Any) -> list[dict[str, Any]]:
    """The rows of `to_arrow` in the form that Spark returns."""
    found = pa.table(store.to_arrow(**how)).to_pylist()
    for row in found:
        if "headers" in row:
            row["headers"] = [{"key": key, "value": value} for key, value in row["headers"]]
        if "fetch_time" in row:
            row["fetch_time"] = row["fetch_time"].replace(tzinfo=None)
    return sorted(found, key=str)


def test_rows_are_those_of_arrow(either: SparkSession, filled: filemap.PageStore) -> None:
    frame = load(either, filled)
    assert tasks(frame) == 4 and rows(frame) == same_as_arrow(filled)
    assert frame.count() == len(filled) == 300
    columns = ["url", "content_digest", "body"]
    found = rows(load(either, filled, columns="url,content_digest,body"))
    assert found == same_as_arrow(filled, columns=columns)
    for row in found:
        assert base64.b32decode(row["content_digest"]) == hashlib.sha1(row["body"]).digest()


def test_every_version_and_variant_on_demand(
    either: SparkSession, filled: filemap.PageStore
) -> None:
    for n in range(0, 300, 3):
        filled.put(f"https://h0.example.org/a/{n}?q={n}", "again", time=T0 + 1000)
    filled.put("https://h1.example.org/a/1?q=1", "fr", variant="fr", time=T0)
    filled.remove("https://h1.example.org/a/4?q=4")
    assert load(either, filled).count() == 299
    assert load(either, filled, versions="all").count() == 399
    assert load(either, filled, variants="true").count() == 300
    for how in ({"all_versions": True}, {"variants": True}, {}):
        options = {"versions": "all"} if "all_versions" in how else {}
        options |= {"variants": "true"} if "variants" in how else {}
        frame = load(either, filled, host="h1.example.org", **options)
        assert rows(frame) == same_as_arrow(filled, filter={"host": "h1.example.org"}, **how)


@pytest.mark.parametrize(
    ("condition", "number"),
    [
        ("url_host_name = 'h1.example.org'", 100),
        ("url_host_name = 'H1.example.org'", 0),
        ("url_host_name LIKE '%.example.org'", 300),
        ("url LIKE 'https://h2.example.org/a/2%'", 39),
        ("url = 'https://h2.example.org/a/2?q=2'", 1),
        ("fetch_time >= TIMESTAMP '2023-11-14 22:16:40Z'", 100),
        ("fetch_time < TIMESTAMP '2023-11-14 22:16:40Z' AND fetch_status = 404", 20),
        ("url_host_name = 'h1.example.org' OR fetch_status = 404", 120),
        ("url_host_name = 'h1.example.org' AND url_host_name = 'h2.example.org'", 0),
        ("NOT url_host_name = 'h1.example.org'", 200),
    ],
)
def test_a_condition_gives_the_same_rows_pushed_or_not(
    either: SparkSession, filled: filemap.PageStore, condition: str, number: int
) -> None:
    assert load(either, filled).where(condition).count() == number


def test_a_pushed_host_leaves_the_tasks_of_its_share(
    pushing: SparkSession, filled: filemap.PageStore
) -> None:
    filled.put("https://few.example/1", "few", time=T0)
    frame = load(pushing, filled)
    assert tasks(frame) == 4
    assert tasks(frame.where("url_host_name = 'few.example'")) == 1
    assert tasks(frame.where("url LIKE 'https://h1.example.org/%'")) == 2
    assert tasks(load(pushing, filled, host="few.example")) == 1
    assert tasks(load(pushing, filled, host="few.example", variants="true")) == 4
    assert load(pushing, filled).where("url_host_name = 'few.example'").count() == 1


def test_options_select_without_the_setting(
    either: SparkSession, filled: filemap.PageStore
) -> None:
    count = lambda **options: load(either, filled, **options).count()  # noqa: E731
    assert count(host="h1.example.org") == 100 and count(prefix="https://h2.example.org/a/2") == 39
    assert count(domain="example.org", status="4xx") == 30 and count(mime="image/*") == 0
    assert count(since=datetime.fromtimestamp(T0 + 290, UTC)) == 10 and count(until=T0 + 9) == 10


def test_columns_that_are_not_asked_for_are_not_read(filled: filemap.PageStore) -> None:
    schema = StructType().add("fetch_status", "integer").add("url", "string")
    reader: Any = FileMapSource({"path": os.fspath(filled.path)}).reader(schema)
    assert reader._plan.columns == ("fetch_status", "url")
    (part,) = pickle.loads(pickle.dumps(reader.partitions()))
    batches = list(pickle.loads(pickle.dumps(reader)).read(part))
    assert [batch.schema.names for batch in batches] == [["fetch_status", "url"]]
    assert batches[0].num_rows == 300


def test_a_schema_names_the_columns(either: SparkSession, filled: filemap.PageStore) -> None:
    reader = either.read.format("filemap").option("host", "h1.example.org")
    frame = reader.schema("url string, body binary").load(os.fspath(filled.path))
    expected = same_as_arrow(filled, columns=["url", "body"], filter={"host": "h1.example.org"})
    assert rows(frame) == expected
    wrong = reader.schema("url string, fetch_status string").load(os.fspath(filled.path))
    with pytest.raises(Exception, match="'fetch_status' is int, not string"):
        wrong.count()


def test_parts_are_of_one_state_of_the_store(filled: filemap.PageStore) -> None:
    schema = StructType().add("url", "string").add("version_sequence", "long")
    options = {"path": os.fspath(filled.path), "partitions": "4"}
    reader: Any = FileMapSource(options).reader(schema)
    expected = same_as_arrow(filled, columns=["url", "version_sequence"])
    parts = reader.partitions()
    assert len(parts) == 4
    for n in range(0, 300, 2):
        filled.put(f"https://h{n % 3}.example.org/a/{n}?q={n}", "later", time=T0 + 1000)
        filled.put(f"https://new.example.org/{n}", "new", time=T0)
    filled.compact()
    read = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert sorted(read, key=str) == expected


def test_damage_fails_the_job_or_is_counted(
    either: SparkSession, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with filemap.open(path, "a", dictionaries=False, compression_level=0) as store:
        for n in range(20):
            store.put(f"http://h/{n}", f"unique-{n}-" * 100)
        file = path / "value0.dat"
        data = bytearray(file.read_bytes())
        data[data.index(b"unique-7-") + 50] ^= 1
    file.write_bytes(data)
    with filemap.open(path) as store:
        with pytest.raises(Exception, match=r"(?s)left out.*value0\.dat"):
            load(either, store, columns="url,body").collect()
        found = rows(load(either, store, columns="url,body", damage="skip"))
        assert len(found) == 19 and not any(row["url"] == "http://h/7" for row in found)
    schema = StructType().add("url", "string").add("body", "binary")
    reader: Any = FileMapSource({"path": os.fspath(path), "damage": "skip"}).reader(schema)
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 19
    assert re.search(r"left out of a part: 1 .*value0\.dat", caplog.text, re.DOTALL)
    caplog.clear()
    # A task that a LIMIT stops early reports the damage that it has found.
    stopped: Any = reader.read(reader.partitions()[0])
    assert next(stopped).num_rows > 0 and not caplog.text
    stopped.close()
    assert re.search(r"left out of a part: 1 .*value0\.dat", caplog.text, re.DOTALL)


def test_a_page_whose_key_is_damaged_is_a_row_of_its_host(
    either: SparkSession, filled: filemap.PageStore, path: Path
) -> None:
    filled.close()
    file = path / "key0.dat"
    data = bytearray(file.read_bytes())
    at = data.index(b"https://h1.example.org/a/151")
    data[at : at + 64] = bytes(byte ^ 0xFF for byte in data[at : at + 64])
    file.write_bytes(data)
    with filemap.open(path) as store:
        frame = load(either, store).where("url_host_name = 'h1.example.org'")
        assert frame.count() == 100 and load(either, store, host="h1.example.org").count() == 100


def test_a_segment_that_is_gone_fails_the_job(either: SparkSession, path: Path) -> None:
    small = {"segment_bytes": 1 << 20, "large_value_bytes": 1 << 19, "compression_level": 0}
    with filemap.open(path, "a", **small) as store:
        for n in range(300):
            store.put(f"http://h/{n}", os.urandom(10_000))
    (path / "value1.dat").unlink()
    with filemap.open(path) as store:
        assert store.absent
        with pytest.raises(Exception, match=r"value1\.dat"):
            load(either, store, columns="url").collect()
        assert 0 < load(either, store, columns="url", damage="skip").count() < 300


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("s3://bucket/pages", "not s3: .*object storage"),
        ("http://127.0.0.1:1", "run Spark where that server's store is"),
        ("/nothing/here", "no such directory"),
    ],
)
def test_another_location_is_refused_by_name(
    pushing: SparkSession, location: str, said: str
) -> None:
    with pytest.raises(AnalysisException, match=said):
        pushing.read.format("filemap").load(location)
    with pytest.raises(AnalysisException, match="one store is one table"):
        pushing.read.format("filemap").load([location, "b"])
    with pytest.raises(AnalysisException, match="'host' is empty"):
        pushing.read.format("filemap").option("host", "").load(location)
    with pytest.raises(AnalysisException, match="no option 'hots'"):
        pushing.read.format("filemap").option("hots", "a").load(location)


@pytest.mark.skipif(
    "FILEMAP_SPARK" not in os.environ, reason="a cluster of processes: with FILEMAP_SPARK set"
)
def test_the_example_counts_on_a_cluster_of_two_workers(path: Path) -> None:
    counts: Counter[str] = Counter()
    with filemap.open(path, "a") as store:
        for n in range(500):
            text = " ".join(f"w{n % k}" for k in range(1, 20))
            counts.update(text.split())
            store.put(
                f"http://h{n % 5}/{n}", f"<p>{text}</p>", headers={"Content-Type": "text/html"}
            )
        store.put("http://h0/image", b"w0 w0", headers={"Content-Type": "image/png"})
    done = subprocess.run(
        [sys.executable, EXAMPLE, path, "local-cluster[2,1,1024]"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    *top, total = done.stdout.splitlines()
    expected = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:20]
    assert top == [f"{number} {word}" for word, number in expected]
    assert total == f"{counts.total()} words, {len(counts)} different"
