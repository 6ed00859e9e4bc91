"""Import and export of WARC and WACZ files."""

import io
import os
from pathlib import Path

import pytest

import filemap
from filemap import _native, warc

SAMPLES = Path(__file__).parents[3] / "tests" / "data" / "warc"


def contents(store: filemap.PageStore) -> "list[tuple[str, int, bytes]]":
    return sorted((page.url, page.time_ms, page.body) for page in store.pages(all_versions=True))


@pytest.mark.parametrize("format", ["warc.gz", "warc.zst", "warc", "wacz"])
def test_an_export_comes_in_again(store: filemap.PageStore, tmp_path: Path, format: str) -> None:
    report = warc.import_(store, SAMPLES / "python-docs.warc.gz")
    assert report.ok and report.stored > 50 and report.losses == 0 and "stored=" in repr(report)
    assert warc.import_(store, SAMPLES / "python-docs.warc.gz").stored == 0
    target = tmp_path / "out"
    written = warc.export(store, target, format=format)  # type: ignore[arg-type]
    assert written.written == report.stored and written.damaged == 0
    files = [target] if format == "wacz" else [target / name for name in os.listdir(target)]
    assert not [file for file in files if file.name.endswith(".partial")]
    with filemap.open(tmp_path / "copy.fm", "a") as copy:
        for file in files:
            if not file.name.endswith(".cdxj"):
                assert warc.import_(copy, file).losses == 0
        assert contents(copy) == contents(store)
    with pytest.raises(FileExistsError):
        warc.export(store, target, format=format)  # type: ignore[arg-type]


def test_json_lines_and_selections(store: filemap.PageStore, tmp_path: Path) -> None:
    store.put("http://a.org/", b"a", time=100)
    store.put("http://b.a.org/", b"b", time=200)
    store.put("http://c.org/", b"c", time=300)
    assert warc.export(store, tmp_path / "1", format="jsonl", domain="a.org").written == 2
    assert warc.export(store, tmp_path / "2", format="jsonl", host="a.org").written == 1
    assert warc.export(store, tmp_path / "3", format="jsonl", since=200, until=200).written == 1
    assert (tmp_path / "2" / "pages.jsonl").read_text().count("\n") == 1
    with pytest.raises(ValueError, match="format"):
        warc.export(store, tmp_path / "4", format="zip")  # type: ignore[arg-type]


def test_damage_is_counted_and_named(store: filemap.PageStore) -> None:
    whole = (SAMPLES / "python-docs.warc.gz").read_bytes()
    report = warc.import_(store, io.BytesIO(whole[: len(whole) // 2]))
    assert (
        not report.ok
        and report.stored > 10
        and report.losses >= 1
        and "a file object" in report.problems[0]
    )


def test_errors_of_the_file_object_are_the_callers(
    store: filemap.PageStore, tmp_path: Path
) -> None:
    class Bad(io.RawIOBase):
        def read(self, _size: int = -1) -> bytes:
            raise OSError(5, "the disk is on fire")

    with pytest.raises(OSError, match="on fire"):
        warc.import_(store, Bad())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes, not str"):
        warc.import_(store, io.StringIO("text"))  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        warc.import_(store, tmp_path / "none.warc")
    store.put("http://a/", b"x")

    def enough(_done: int, _seen: int) -> None:
        raise KeyboardInterrupt

    try:
        warc.export(store, tmp_path / "out", progress=enough)
    except KeyboardInterrupt:
        assert os.listdir(tmp_path / "out") == []


class Failing:
    """A file that raises when it is read or written for the `nth` time."""

    def __init__(self, error: BaseException, nth: int = 0, content: bytes = b"") -> None:
        self._error, self._left, self._file = error, nth, io.BytesIO(content)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise self._error

    def read(self, size: int) -> bytes:
        self._count()
        return self._file.read(size)

    def write(self, data: bytes) -> int:
        self._count()
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


ERRORS = [KeyboardInterrupt(), OSError(28, "full"), InterruptedError(4, "x"), ZeroDivisionError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_a_file_object_raises_comes_out_as_it_is(
    store: filemap.PageStore, error: BaseException
) -> None:
    sample = (SAMPLES / "python-docs.warc.gz").read_bytes()
    # In the first read, and in one on the thread that reads ahead.
    for file in (Failing(error), Failing(error, 1, sample)):
        with pytest.raises(type(error)) as raised:
            warc.import_(store, file)  # type: ignore[arg-type]
        assert raised.value is error
    assert "failed at offset" in error.__notes__[0]
    store.put_many((f"http://h/{n}", os.urandom(100_000)) for n in range(20))
    choice = {"stem": "pages", "newest_only": False} | dict.fromkeys(
        ["host", "domain", "prefix", "since", "until"]
    )
    for format in ("warc", "warc.gz", "wacz"):
        with pytest.raises(type(error)) as raised:
            given = {"format": format, **choice}
            whole = Failing(error) if format == "wacz" else None
            _native.export(store, given, lambda _: Failing(error), lambda *_: True, whole)
        assert raised.value is error
    assert store.verify().ok
