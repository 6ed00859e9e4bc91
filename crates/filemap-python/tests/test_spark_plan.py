"""`filemap.spark` without a Spark session: options, pushed conditions, columns, parts."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import filemap
from filemap._spark.parts import parts
from filemap._spark.plan import Plan
from filemap._spark.pushed import Condition, narrowed
from filemap.types import Filter

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def test_options_are_a_plan() -> None:
    plan = Plan.of(
        {
            "PATH": "pages.fm",
            "columns": "url, body",
            "partitions": "7",
            "versions": "ALL",
            "damage": "skip",
            "host": "a.example",
            "since": "2026-01-01 00:00:00+00:00",
            "until": "1767225600.5",
        }
    )
    assert plan == Plan(
        "pages.fm",
        ("url", "body"),
        {"host": "a.example", "since": T0, "until": T0 + timedelta(seconds=0.5)},
        7,
        all_versions=True,
        skip_damage=True,
    )
    for text, seconds in (("0", 0), ("1767225600", 1767225600), ("20260101.0", 20260101)):
        since = datetime.fromtimestamp(seconds, UTC)
        assert Plan.of({"path": "a", "since": text}).filter == {"since": since}
    assert Plan.of({"path": "a"}) == Plan("a", None, {}, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "path"),
        ({"path": "a", "hots": "x"}, "no option 'hots'.*host"),
        ({"path": "a", "partitions": "0"}, "partitions='0'"),
        ({"path": "a", "partitions": "many"}, "partitions='many'"),
        ({"path": "a", "versions": "some"}, "versions='some'"),
        ({"path": "a", "variants": "yes"}, "variants='yes'"),
        ({"path": "a", "damage": "ignore"}, "damage='ignore'"),
        ({"path": "a", "since": "yesterday"}, "since='yesterday'"),
        ({"path": "a", "until": "2026-01-01"}, "until='2026-01-01' has no time zone"),
        ({"path": "a", "since": "9" * 30}, "is not a time"),
        ({"path": "s3://bucket/pages"}, "not s3: .*object storage"),
        ({"path": "http://crawler.example:8640"}, "not http: run Spark where"),
        ({"path": "hdfs://a/b"}, "not hdfs"),
        ({"path": "file:///data/pages.fm"}, "path alone, '/data/pages.fm'"),
        ({"path": "file:/data/pages.fm"}, "path alone, '/data/pages.fm'"),
        ({"path": "file://localhost/data/pages.fm"}, "path alone, '/data/pages.fm'"),
        ({"paths": '["a","b"]'}, "one store is one table"),
        ({"path": "a", "since": "20260101"}, "since='20260101' may be a date.*Z, or.*20260101.0"),
        ({"path": "a", "until": "2026"}, "until='2026' may be a date"),
        ({"path": "a", "until": "20260101000000"}, "may be a date"),
        ({"path": "a", "prefix": " "}, "'prefix' is empty"),
        ({"path": "a", "columns": ""}, "'columns' is empty"),
        ({"path": "a", "host": None}, "'host' is empty"),
        ({"path": ""}, "'path' is empty"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_name(
    options: dict[str, str | None], said: str
) -> None:
    with pytest.raises(filemap.InvalidValueError, match=said):
        Plan.of(options)


@pytest.mark.parametrize(
    ("kind", "column", "value", "added"),
    [
        ("EqualTo", "url_host_name", "www.a.example", {"host": "www.a.example"}),
        ("StringEndsWith", "url_host_name", ".a.example", {"domain": "a.example"}),
        ("EqualTo", "url", "http://a.example/x?y=1", {"prefix": "http://a.example/x?y=1"}),
        ("StringStartsWith", "url", "http://a.ex", {"prefix": "http://a.ex"}),
        ("GreaterThan", "fetch_time", T0, {"since": T0}),
        ("LessThanOrEqual", "fetch_time", T0, {"until": T0}),
        ("EqualTo", "fetch_time", T0, {"since": T0, "until": T0}),
        ("EqualTo", "fetch_status", 404, {"status": 404}),
        # The store would find more or other rows than those that Spark compares as equal.
        ("EqualTo", "url_host_name", "WWW.a.example", {}),
        ("EqualTo", "url_host_name", "bücher.example", {}),
        ("EqualTo", "url_host_name", "127.1", {}),
        ("StringEndsWith", "url_host_name", "a.example", {}),
        ("StringStartsWith", "url_host_name", "a", {}),
        ("StringStartsWith", "url", "http", {}),
        ("StringStartsWith", "url", "http://a/%ff", {}),
        ("StringStartsWith", "url", "http://a/ü", {}),
        ("LessThan", "url", "http://a/", {}),
        ("EqualTo", "fetch_time", T0.replace(tzinfo=None), {}),
        ("EqualTo", "fetch_status", 70000, {}),
        ("GreaterThan", "fetch_status", 300, {}),
        ("EqualTo", "url_path", "/", {}),
        ("IsNotNull", "url_host_name", None, {}),
    ],
)
def test_a_condition_narrows_only_what_it_surely_refuses(
    kind: str, column: str, value: object, added: dict[str, object]
) -> None:
    assert narrowed({}, [Condition(kind, (column,), value)]) == added


def test_conditions_are_all_meant() -> None:
    later = T0 + timedelta(days=1)
    given: Filter = {"host": "a.example", "since": later, "until": T0}
    pushed = [
        Condition("EqualTo", ("url_host_name",), "b.example"),
        Condition("GreaterThan", ("fetch_time",), T0),
        Condition("LessThan", ("fetch_time",), later),
        Condition("Not", (), None),
    ]
    assert narrowed(given, pushed) == given and "status" not in given
    assert narrowed({"since": 0}, pushed[1:2]) == {"since": T0}
    assert narrowed({}, [*pushed[:1], Condition("StringEndsWith", ("url_host_name",), ".c.d")]) == {
        "host": "b.example",
        "domain": "c.d",
    }


def test_columns_are_those_of_spark(store: filemap.PageStore) -> None:
    pa = pytest.importorskip("pyarrow")
    from filemap._spark.columns import Column, batches, ddl, declared, table_schema

    fields = [("Set-Cookie", "a"), ("X", "1"), ("Set-Cookie", "b")]
    for n in range(5):
        store.put(f"http://a.example/{n}", b"\xff\0" * n, headers=fields if n else [], time=T0)
    columns = ["url", "fetch_time", "fetch_status", "version_sequence", "headers", "body"]
    schema = table_schema(store.to_arrow(columns))
    assert ddl(schema) == (
        "`url` string not null, `fetch_time` timestamp not null, `fetch_status` int, "
        "`version_sequence` bigint not null, "
        "`headers` array<struct<key:string,value:string>> not null, `body` binary"
    )
    types = [text.split(" ")[1] for text in ddl(schema).split(", ")]
    wanted = declared(
        schema, [Column(name, type, True) for name, type in zip(columns, types, strict=True)]
    )
    # Batches of two rows: the second begins within the arrays of the first.
    table = store.to_arrow(columns, batch_rows=2)
    found = pa.Table.from_batches(batches(table, wanted)).to_pylist()
    assert len(found) == 5
    for n, row in enumerate(found):
        assert row["url"] == f"http://a.example/{n}" and row["body"] == b"\xff\0" * n
        assert row["fetch_time"] == T0 and row["fetch_status"] == 200
        assert [(field["key"], field["value"]) for field in row["headers"]] == (fields if n else [])
    with pytest.raises(filemap.InvalidValueError, match="'fetch_status' is int, not string"):
        declared(schema.remove(0).remove(0), [Column("fetch_status", "string", True)] * 4)
    with pytest.raises(filemap.InvalidValueError, match="'body' is binary, not"):
        declared(pa.schema([schema.field("body")]), [Column("body", "binary", False)])
    everything = store.to_arrow()
    whole = table_schema(everything)
    assert len(ddl(whole).split(", ")) == len(whole) and "body`" not in ddl(whole)


def test_parts_are_of_the_filter(store: filemap.PageStore, path: Path) -> None:
    for n in range(90):
        store.put(f"http://h{n % 3}.example/{n}", "x", time=T0)
    for_host = Plan(str(path), filter={"host": "h1.example"}, partitions=4)
    found = [page.url for split in parts(store, for_host) for page in split]
    assert sorted(found) == sorted(store.urls(host="h1.example"))
    assert len(parts(store, Plan(str(path)))) == 1 and len(parts(store, for_host)) == 2
    with_variants = Plan(str(path), filter={"host": "h1.example"}, partitions=4, variants=True)
    assert len(parts(store, with_variants)) == 4
    for variants in (False, True):
        # The driver raises this, not each task.
        with pytest.raises(filemap.InvalidValueError, match="status"):
            parts(store, Plan(str(path), filter={"status": "good"}, variants=variants))
    assert sum(1 for split in parts(store, with_variants) for _ in split) == 30
    (split, *_) = parts(store, for_host)
    with pytest.raises(filemap.InvalidValueError, match="of a host already"):
        split.pages({"host": "h2.example"})
    with pytest.raises(filemap.InvalidValueError, match="of a host already"):
        store.to_arrow(split=split, filter={"host": "h2.example"})
    assert sum(1 for _ in split.pages({"since": T0})) <= len(found)
