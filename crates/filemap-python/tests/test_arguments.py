"""Invalid arguments: one class of errors, with the reason in the message; times and headers."""

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import filemap
from filemap import seen, warc

URL = "http://example.com/"
Call = Callable[[Any], object]

PAGES: list[dict[str, Any]] = [
    {"headers": {"A": "1\r\n"}},
    {"headers": {"A": "\u65e5"}},
    {"headers": {"A": "\udc80"}},
    {"reason": "\u65e5"},
    {"status": -1},
    {"status": 65536},
    {"status": 10**20},
    {"ip": "localhost"},
    {"kind": "request"},
    {"variant": ""},
    {"time": float("nan")},
    {"time": float("inf")},
    {"time": 10**30},
    {"time": datetime(2024, 1, 1)},
]
OPTIONS: list[dict[str, Any]] = [
    {"canonicalizer": "best"},
    {"durability": "often"},
    {"durability": -1},
    {"keep_age": timedelta(seconds=-1)},
    {"keep_versions": -1},
    {"compression_level": 2**40},
    {"memtable_bytes": 2**65},
    {"segment_bytes": 1},
    {"space_bound": float("nan")},
]
CALLS: list[Call] = [
    lambda store: store.prune(),
    lambda store: store.prune(keep_versions=-1),
    lambda store: store.prune(max_bytes=-1),
    lambda store: store.prune(keep_versions=1, regex="("),
    lambda store: store.prune(older_than=-1),
    lambda store: store.erase(reason="x"),
    lambda store: store.erase(reason="x", regex="("),
    lambda store: store.erase(reason="x", digest="("),
    lambda store: store.get(URL, at=float("nan")),
    lambda store: store.get("http://a/\ud800"),
    lambda store: store.get_many([], ahead=-1),
    lambda store: store.splits(-1),
    lambda store: store.splits(0),
    lambda store: store.to_arrow(["colour"]),
    lambda store: store.to_arrow(limit=-1),
    lambda store: store.to_arrow(filter={"status": "2yy"}),
    lambda store: store.backup(""),
    lambda store: warc.export(store, "out", format="zip"),  # type: ignore[arg-type]
    lambda store: warc.import_(store, io.BytesIO(), keep=["colour"]),
    lambda store: filemap.open(""),
    lambda store: filemap.open("", "a"),
    lambda store: filemap.open("\ud800"),
    lambda store: filemap.open(store.path, "q"),  # type: ignore[arg-type]
    lambda store: seen.DiskSet(""),
    lambda store: seen.DiskSet("s", "q"),  # type: ignore[arg-type]
    lambda store: seen.DiskSet("s", seed=-1),
    lambda store: seen.Md5Bitmap("s", bits=-1),
    lambda store: seen.Trie("s", canonicalizer="best"),
    lambda store: seen.SeenSet("no kind", "s"),
    lambda store: filemap.canonicalize("http://a/", ["no rule"]),
    lambda store: filemap.decode_body([], b"", max_bytes=-1),
    lambda store: filemap.Version(2**70, 0),
    lambda store: filemap.Version(2**60, 0).time,
]


@pytest.mark.parametrize("given", PAGES, ids=str)
def test_a_page_that_cannot_be(store: filemap.PageStore, given: dict[str, Any]) -> None:
    for call in (lambda: store.put(URL, b"", **given), lambda: filemap.Page(URL, b"", **given)):
        with pytest.raises(filemap.FileMapError) as error:
            call()
        assert type(error.value) is filemap.InvalidValueError
        assert isinstance(error.value, ValueError) and len(str(error.value)) < 150
    assert URL not in store


@pytest.mark.parametrize("given", OPTIONS, ids=str)
def test_an_option_that_cannot_be(path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(filemap.InvalidValueError):
        filemap.open(path, "a", **given)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_cannot_be(
    store: filemap.PageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(filemap.InvalidValueError):
        call(store)


def test_an_error_names_what_is_wrong(store: filemap.PageStore, path: Path) -> None:
    with pytest.raises(TypeError, match="header is str or bytes, not NoneType"):
        store.put(URL, b"", headers={"A": None})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="pairs of a name and a value"):
        store.put(URL, b"", headers=5)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="pairs of a name and a value"):
        store.put(URL, b"", headers=[("A",)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="status: "):
        store.put(URL, b"", status="200")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="keep_versions: "):
        filemap.open(path, keep_versions="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="keep_versions: -1 is out of range"):
        filemap.open(path, keep_versions=-1)
    with pytest.raises(ValueError, match="the path is empty"):
        filemap.open("")


def test_only_times_that_can_be_read_are_put(store: filemap.PageStore) -> None:
    first = datetime.min.replace(tzinfo=UTC)
    last = datetime.max.replace(tzinfo=UTC, microsecond=999_000)
    for time in (first, last):
        store.put(URL, b"", time=time)
        assert store.get(URL, at=time).time == time  # type: ignore[union-attr]
    for seconds in (1e12, -1e12, 253_402_300_800):
        with pytest.raises(ValueError, match="-62135596800 to 253402300799 seconds"):
            store.put(URL, b"", time=seconds)
    # Any time is valid as a bound.
    assert store.get(URL, at=1e12) is not None and list(store.pages(since=-1e12))


def test_seconds_mean_the_millisecond_that_they_are_nearest_to(store: filemap.PageStore) -> None:
    assert store.put(URL, b"", time=1.001).time_ms == 1001
    for nth in range(3000):
        ms = 1_700_000_000_000 + nth * 86_400_007
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
        for given in (ms / 1000, time.timestamp(), time):
            assert filemap.Page(URL, b"", time=given).time_ms == ms
    # Fractions of a millisecond are cut off, as for a datetime.
    for micros in (-1, 1, 499, 501, 999, 1_700_000_000_123_900):
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
        for given in (micros / 1e6, time):
            assert filemap.Page(URL, b"", time=given).time_ms == micros // 1000
    assert filemap.Page(URL, b"", time=253_402_300_799.999).time_ms == 253_402_300_799_999


def test_a_reason_comes_back_as_it_was_put(store: filemap.PageStore) -> None:
    store.put(URL, b"", reason="d\u00e9j\u00e0", headers={"A": "d\u00e9j\u00e0"})
    assert store[URL].reason == store[URL].headers["A"] == "d\u00e9j\u00e0"


def test_parts_are_read_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with filemap.open("pages.fm", "x") as store:
        store.put(URL, b"x")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        (split,) = store.splits(1)
        store.sync()
        assert os.fspath(store.path) == "pages.fm"
    code = "import pickle, sys; print(len(list(pickle.load(sys.stdin.buffer))))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(split), capture_output=True, cwd="/"
    )
    assert done.stdout == b"1\n", done.stderr


def test_no_backup_is_made_inside_its_store(
    store: filemap.PageStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(URL, b"x")
    monkeypatch.chdir(path)
    before = sorted(os.listdir(path))
    for target in (
        path / "backup.fm",
        "backup.fm",
        path.parent / ".." / path.parent.name / path.name / "b",
    ):
        with pytest.raises(filemap.InvalidValueError, match="inside the store"):
            store.backup(target)
    assert sorted(os.listdir(path)) == before
    assert store.backup(path.parent / "pages.fm.backup").files


def test_an_export_to_a_folder_with_files_is_refused(
    store: filemap.PageStore, tmp_path: Path
) -> None:
    with pytest.raises(FileExistsError) as error:
        warc.export(store, tmp_path)
    assert isinstance(error.value, filemap.StoreExistsError)
    (tmp_path / "x.wacz").touch()
    with pytest.raises(filemap.StoreExistsError):
        warc.export(store, tmp_path / "x.wacz", format="wacz")


def test_a_store_over_several_folders_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(filemap.FileMapError, match=r"shards:.*the store of one folder"):
        filemap.open(f"shards:{tmp_path}/a.fm,{tmp_path}/b.fm", "a")
    assert not list(tmp_path.iterdir())


def test_an_unknown_option_and_a_list_of_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"no option 'keep_version'; there are .*keep_versions"):
        filemap.open(tmp_path / "a.fm", "a", keep_version=1)  # type: ignore[call-arg]
    with filemap.open(tmp_path / "a.fm", "a") as store:
        for wrong in (["a.warc"], None, 5):
            with pytest.raises(TypeError, match="one a call"):
                warc.import_(store, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["https://h/", "h:80", "h/x", "", "a b"])
def test_a_host_that_is_none_and_a_prefix_without_a_scheme_are_errors(
    store: filemap.PageStore, host: str, tmp_path: Path
) -> None:
    store.put("https://h/x", b"x")
    for call in (
        lambda: store.urls(host=host),
        lambda: store.pages(domain=host),
        lambda: store.prune(host=host, keep_versions=1),
        lambda: store.erase(host=host, reason="x"),
        lambda: store.to_arrow(filter={"host": host}),
        lambda: filemap.warc.export(store, tmp_path / "out", host=host),
    ):
        with pytest.raises(filemap.InvalidValueError, match="not a host"):
            call()
    for call in (
        lambda: store.urls(prefix="h/x"),
        lambda: store.erase(prefix="h/x", reason="x"),
        lambda: store.to_arrow(filter={"prefix": "h/x"}),
    ):
        with pytest.raises(filemap.InvalidValueError, match="scheme"):
            call()
    assert list(store.urls(host="H", prefix="https://")) == ["https://h/x"]
