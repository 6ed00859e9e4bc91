"""Tables and splits: the same pages as from other calls, in the columns of Common Crawl."""

import os
import pickle
import random
import subprocess
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import pytest

import filemap

pa = pytest.importorskip("pyarrow")

T0 = 1_700_000_000
COLUMNS = ["url", "url_host_name", "fetch_time", "fetch_status", "content_digest", "headers"]


@pytest.fixture
def filled(store: filemap.PageStore) -> filemap.PageStore:
    for n in range(300):
        store.put(
            f"https://h{n % 3}.example.org:8443/a/{n}?q={n}",
            f"<html><title>{n}</title>" + "x" * n,
            status=200 if n % 10 else 404,
            headers=[
                ("Content-Type", "text/html; charset=UTF-8"),
                ("Set-Cookie", "a"),
                ("Set-Cookie", "b"),
            ],
            time=T0 + n,
        )
    return store


def urls_of(split: filemap.Split) -> "list[str]":
    with filemap.open(split.path) as store:
        return [store.key(page.url) for page in split]


def test_the_columns_are_common_crawls(filled: filemap.PageStore) -> None:
    table = pa.table(filled.to_arrow())
    assert table.num_rows == 300 and "body" not in table.column_names
    row = table.filter(
        pa.compute.equal(table["url"], "https://h1.example.org:8443/a/7?q=7")
    ).to_pylist()[0]
    assert row["url_host_name"] == "h1.example.org" and row["url_protocol"] == "https"
    assert (row["url_port"], row["url_path"], row["url_query"]) == (8443, "/a/7", "q=7")
    assert row["url_surtkey"].startswith("org,example,h1") and row["fetch_status"] == 200
    assert (
        row["fetch_time"] == datetime.fromtimestamp(T0 + 7, UTC)
        and row["content_mime_type"] == "text/html"
    )
    assert row["headers"] == [
        ("Content-Type", "text/html; charset=UTF-8"),
        ("Set-Cookie", "a"),
        ("Set-Cookie", "b"),
    ]


def test_bodies_filters_and_batches(filled: filemap.PageStore) -> None:
    reader = pa.RecordBatchReader.from_stream(
        filled.to_arrow(["url", "body"], filter={"host": "h2.example.org"}, batch_rows=30)
    )
    batches = list(reader)
    assert (
        sum(batch.num_rows for batch in batches) == 100
        and max(batch.num_rows for batch in batches) == 30
    )
    for row in batches[0].to_pylist():
        assert filled[row["url"]].body == row["body"]
    count = lambda **filter: pa.table(filled.to_arrow(["url"], filter=filter)).num_rows  # noqa: E731
    assert count(since=T0 + 290) == 10 and count(until=T0 + 9) == 10 and count(status=404) == 30
    assert count(status="4xx", domain="example.org") == 30 and count(prefix="https://h0") == 100
    assert count(host="h1.example.org", domain="example.org") == 100
    assert count(host="h1.example.org", domain="h2.example.org") == 0
    both: filemap.types.Filter = {"host": "h1.example.org", "domain": "example.org"}
    assert sum(len(list(split)) for split in filled.splits(3, filter=both)) == 100
    assert count(mime="text/*") == 300 and count(mime="image/*") == 0 and count() == 300
    assert pa.table(filled.to_arrow(["url"], limit=7)).num_rows == 7
    filled.put("https://h0.example.org:8443/a/0?q=0", b"newer", time=T0 + 1000)
    assert pa.table(filled.to_arrow(["url"])).num_rows == 300
    assert pa.table(filled.to_arrow(["url"], all_versions=True)).num_rows == 301
    with pytest.raises(ValueError, match='no column "bdoy"'):
        filled.to_arrow(["bdoy"])
    with pytest.raises(TypeError, match="no 'hots'"):
        filled.to_arrow(filter={"hots": "x"})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(ValueError, match="status"):
        filled.to_arrow(filter={"status": "good"})
    table = filled.to_arrow()
    pa.table(table)
    with pytest.raises(ValueError, match="read once"):
        pa.table(table)


def test_other_readers_of_arrow_take_it(filled: filemap.PageStore) -> None:
    columns = ["url", "fetch_status", "body"]
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(filled.to_arrow(columns)).height == 300
    duckdb = pytest.importorskip("duckdb")
    pages = pa.RecordBatchReader.from_stream(filled.to_arrow(columns))  # noqa: F841 (DuckDB finds it)
    counted = duckdb.sql(
        "SELECT fetch_status, count(*) FROM pages GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert counted == [(200, 270), (404, 30)]


@pytest.mark.skipif("FM_TOOL" not in os.environ, reason="FM_TOOL names the program")
def test_others_read_the_parquet_file_of_fm_tool(
    filled: filemap.PageStore, path: Path, tmp_path: Path
) -> None:
    from pyarrow import parquet

    want = pa.table(filled.to_arrow([*COLUMNS, "body"]))
    filled.close()
    file = tmp_path / "pages.parquet"
    command = [os.environ["FM_TOOL"], "dump", path, "--format", "parquet", "-o", file]
    subprocess.run(command, check=True, capture_output=True)
    found = parquet.read_table(file, columns=want.column_names)
    assert found.sort_by("url").equals(want.sort_by("url"))
    duckdb = pytest.importorskip("duckdb")
    counted = duckdb.sql(f"SELECT count(*), sum(octet_length(body)) FROM '{file}'").fetchall()
    assert counted == [(300, sum(len(body.as_py()) for body in want["body"]))]


def flip_in(path: Path, body: bytes) -> None:
    """Flips a bit in the body that starts with `body`, in a store without compression."""
    file = path / "value0.dat"
    data = bytearray(file.read_bytes())
    data[data.index(body) + 50] ^= 1
    file.write_bytes(data)


def test_damage_is_an_error_and_all_else_is_read(path: Path) -> None:
    with filemap.open(path, "a", dictionaries=False, compression_level=0) as store:
        for n in range(20):
            store.put(f"http://h/{n}", f"unique-{n}-" * 100)
    flip_in(path, b"unique-7-")
    with filemap.open(path) as store:
        rows = 0
        with pytest.raises(Exception, match=r"value0\.dat") as damage:
            for batch in pa.RecordBatchReader.from_stream(store.to_arrow(["url", "body"])):
                rows += batch.num_rows
        assert rows >= 19 and damage.value
        table = store.to_arrow(["url", "body"], skip_damage=True)
        assert pa.table(table).num_rows >= 19
        assert table.damaged + table.bodiless == 1 and "value0.dat" in (table.first_error or "")
        read, errors = [], 0
        for split in store.splits(2):
            pages = split.pages()
            while True:
                try:
                    read.append(next(pages).url)
                except StopIteration:
                    break
                except filemap.CorruptError:
                    errors += 1
            assert next(pages, None) is None
        assert (len(set(read)), len(read), errors) == (19, 19, 1)


def test_splits_are_disjoint_and_together_all(filled: filemap.PageStore) -> None:
    for n in range(0, 300, 3):
        filled.put(f"https://h0.example.org:8443/a/{n}?q={n}", b"again", time=T0 + 1000)
    filled.remove("https://h1.example.org:8443/a/1?q=1")
    splits = filled.splits(4)
    assert len(splits) == 4 and pickle.loads(pickle.dumps(splits)) == splits
    filled.compact()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        parts = list(pool.map(urls_of, splits))
    together = [url for part in parts for url in part]
    assert len(together) == len(set(together)) and set(together) == set(filled)
    rows = sum(pa.table(filled.to_arrow(["url"], split=split)).num_rows for split in splits)
    assert rows == len(filled) == 299
    some = [page.url for split in splits for page in split.pages({"host": "h2.example.org"})]
    assert len(some) == 100
    with pytest.raises(filemap.FileMapError):
        list(filemap.Split(splits[0].path, b"nonsense"))


def test_splits_of_few_pages_are_stretches_of_their_urls(filled: filemap.PageStore) -> None:
    urls = list(filled.urls(host="h1.example.org"))
    splits = filled.splits(6, filter={"host": "h1.example.org"})
    assert len(splits) == 2 and pickle.loads(pickle.dumps(splits)) == splits
    filled.put(urls[0], b"later", time=T0 + 1000)
    filled.put("https://h1.example.org:8443/new", b"new", time=T0)
    filled.compact()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        parts = list(pool.map(urls_of, splits))
    assert [url for part in parts for url in part] == urls
    columns = ["url", "fetch_time", "body", "content_digest"]
    tables = [pa.table(filled.to_arrow(columns, split=split)) for split in splits]
    rows = [row for table in tables for row in table.to_pylist()]
    assert [row["url"] for row in rows] == urls
    assert all(row["fetch_time"] < datetime.fromtimestamp(T0 + 1000, UTC) for row in rows)
    for row in rows[1:]:
        assert row["body"] == filled[row["url"]].body
    narrow = filled.splits(6, filter={"host": "h1.example.org", "since": T0 + 290})
    assert sum(1 for split in narrow for _ in split) == 4
    rest = [page for split in splits for page in split.pages({"since": T0 + 290})]
    assert len(rest) == 3
    every = filled.splits(6, filter={"prefix": "https://h1"})
    assert len(every) == 6 and sum(1 for split in every for _ in split) == 101
    with pytest.raises(filemap.FileMapError, match="parts by URL"):
        filled.to_arrow(split=splits[0], variants=True)
    with pytest.raises(filemap.FileMapError):
        list(filemap.Split(splits[0].path, splits[0].part[:-1]))


def test_a_filter_of_splits_is_refused_where_they_are_made(filled: filemap.PageStore) -> None:
    with pytest.raises(TypeError, match="no 'hots'"):
        filled.splits(2, filter={"hots": "x"})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(filemap.InvalidValueError, match="status"):
        filled.splits(2, filter={"status": "good"})
    with pytest.raises(filemap.InvalidValueError, match="time zone"):
        filled.splits(2, filter={"since": datetime(2026, 1, 1)})
    of_tables: list[filemap.types.Filter] = [{"status": 404}, {"mime": "text/*"}]
    for filter in of_tables:
        (name,) = filter
        splits = filled.splits(2, filter=filter)
        tables = [pa.table(filled.to_arrow(["url"], split=split)) for split in splits]
        expected = pa.table(filled.to_arrow(["url"], filter=filter)).num_rows
        assert sum(table.num_rows for table in tables) == expected > 0
        with pytest.raises(filemap.InvalidValueError, match=f"by {name} .*to_arrow"):
            iter(splits[0])
        with pytest.raises(filemap.InvalidValueError, match=f"by {name} .*to_arrow"):
            filled.splits(1)[0].pages(filter)


def test_a_split_has_a_filter_of_its_own(filled: filemap.PageStore) -> None:
    given: filemap.types.Filter = {"prefix": "https://h1", "host": None, "since": None}
    first, second = filled.splits(2, filter=given)
    given["prefix"] = "https://h2"
    first.filter["prefix"] = "https://h0"
    assert second.filter == {"prefix": "https://h1"}
    # `None` means no condition.
    assert sum(1 for _ in second.pages({"host": "h1.example.org", "until": None})) > 0
    assert pa.table(filled.to_arrow(["url"], split=second, filter={"host": None})).num_rows > 0


def test_damage_in_a_stretch_of_urls_is_an_error_too(path: Path) -> None:
    with filemap.open(path, "a", dictionaries=False, compression_level=0) as store:
        for n in range(20):
            store.put(f"http://h{n % 2}/{n}", f"unique-{n}-" * 100)
    flip_in(path, b"unique-7-")
    with filemap.open(path) as store:
        (whole,) = store.splits(1, filter={"host": "h0"})
        assert pa.table(store.to_arrow(["url", "body"], split=whole)).num_rows == 10
        (split,) = store.splits(1, filter={"host": "h1"})
        with pytest.raises(Exception, match=r"left out.*value0\.dat"):
            pa.table(store.to_arrow(["url", "body"], split=split))
        table = store.to_arrow(["url", "body"], split=split, skip_damage=True)
        assert pa.table(table).num_rows == 9 and table.damaged == 1
        # Only the intact head is read; a pass over the log would find the damage in the body.
        assert pa.table(store.to_arrow(["url"], split=split)).num_rows == 10
        with pytest.raises(Exception, match=r"value0\.dat"):
            pa.table(store.to_arrow(["url"]))
        assert pa.table(store.to_arrow(["url"], skip_damage=True)).num_rows == 19


@pytest.mark.parametrize("number", [1, 6])
def test_a_page_whose_key_is_damaged_is_in_the_table_of_its_stretch(
    path: Path, number: int
) -> None:
    with filemap.open(path, "a", dictionaries=False, compression_level=0) as store:
        for n in range(300):
            store.put(f"http://h{n % 3}/{n}", f"unique-{n}-" * 100)
    file = path / "key0.dat"
    data = bytearray(file.read_bytes())
    at = data.index(b"http://h1/151")
    data[at : at + 64] = bytes(byte ^ 0xFF for byte in data[at : at + 64])
    file.write_bytes(data)
    with filemap.open(path) as store:
        splits = store.splits(number, filter={"host": "h1"})
        assert len(splits) == min(number, 2)
        for columns in (["url"], ["url", "body"]):
            tables = [pa.table(store.to_arrow(columns, split=split)) for split in splits]
            urls = [url.as_py() for table in tables for url in table["url"]]
            assert len(urls) == len(set(urls)) == 100 and "http://h1/151" in urls
        # Pages themselves are looked up.
        read, errors = 0, []
        for split in splits:
            pages = split.pages()
            while True:
                try:
                    read += next(pages) is not None
                except StopIteration:
                    break
                except filemap.CorruptError as error:
                    errors.append(str(error))
        assert read == 100 - len(errors) and errors and all("key0.dat" in e for e in errors)


def test_a_segment_that_is_gone_is_named_by_the_splits_of_a_host(path: Path) -> None:
    small = {"segment_bytes": 1 << 20, "large_value_bytes": 1 << 19, "compression_level": 0}
    with filemap.open(path, "a", **small) as store:  # type: ignore[arg-type]
        for n in range(300):
            store.put(f"http://h{n % 3}/{n}", random.Random(n).randbytes(10_000))
    (path / "value1.dat").unlink()
    with filemap.open(path) as store:
        # Its keys may be in no other file, so the splits read all of the remaining files.
        splits = store.splits(6, filter={"host": "h1"})
        assert len(splits) == 6
        with pytest.raises(Exception, match=r"value1\.dat"):
            for split in splits:
                pa.table(store.to_arrow(["url"], split=split))


def test_a_table_outlives_its_store_with_an_error(filled: filemap.PageStore) -> None:
    reader = pa.RecordBatchReader.from_stream(filled.to_arrow(["url"], batch_rows=10))
    reader.read_next_batch()
    filled.close()
    with pytest.raises(Exception, match="closed"):
        while True:
            reader.read_next_batch()
