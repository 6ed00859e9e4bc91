"""The filter for duplicate requests, by itself."""

import pytest

pytest.importorskip("scrapy.crawler", reason="Scrapy is not installed")

import fcntl
import hashlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from helpers import crawler_of
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Request
from scrapy.utils.misc import load_object

from filemap.scrapy import FileMapDupeFilter
from filemap.scrapy.dupefilter import OldFingerprints
from filemap.scrapy.shared_seen import Journal, Notes, SeenService
from fm_serve import served
from redis_server import Redis


def filter_of(**settings: Any) -> FileMapDupeFilter:
    """An open filter."""
    found = load_object("filemap.scrapy.FileMapDupeFilter").from_crawler(crawler_of(**settings))
    assert isinstance(found, FileMapDupeFilter)
    found.open()
    return found


@pytest.fixture(params=["here", "there", "redis"])
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Settings for a set in a file, for one behind a server, and for one on Redis."""
    if request.param == "here":
        yield {"JOBDIR": str(tmp_path)}
    elif request.param == "redis":
        server = Redis(tmp_path)
        yield {"FILEMAP_SEEN": server.seen("requests")}
        server.stop()
    else:
        sets = ("--write", "--seen-dir", str(tmp_path))
        with served(tmp_path / "pages.fm", *sets) as location:
            yield {"FILEMAP_SEEN": f"{location}/v1/seen/requests"}


def test_each_answer_is_that_of_scrapys_own(seen: dict[str, str]) -> None:
    random.seed(3)
    ours, theirs = filter_of(**seen), RFPDupeFilter()
    for _ in range(3000):
        request = Request(f"http://example.com/?b=1&a={random.randrange(1000)}#x")
        assert ours.request_seen(request) == theirs.request_seen(request)
    ours.close("finished")
    theirs.close("finished")


def test_without_a_job_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = filter_of()
    assert not found.request_seen(Request("http://a/"))
    assert found.request_seen(Request("http://a/"))
    assert list(tmp_path.iterdir()) != []
    found.close("finished")
    assert list(tmp_path.iterdir()) == []
    again = filter_of()
    assert not again.request_seen(Request("http://a/"))
    again.close("finished")


def test_a_job_of_a_run_that_goes_on_is_told_of_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = tmp_path / "filemap.running"
    with mark.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        filter_of(JOBDIR=str(tmp_path)).close("finished")
        assert "Another process runs in" in caplog.text
        assert mark.exists()
    caplog.clear()
    filter_of(JOBDIR=str(tmp_path)).close("finished")
    assert "did not end" in caplog.text
    assert not mark.exists()


def test_a_filter_that_was_never_opened_makes_no_file(tmp_path: Path) -> None:
    FileMapDupeFilter.from_crawler(crawler_of(JOBDIR=str(tmp_path))).close("finished")
    assert list(tmp_path.iterdir()) == []


def test_a_job_of_scrapys_own_filter_goes_on(tmp_path: Path, seen: dict[str, str]) -> None:
    seen["JOBDIR"] = str(tmp_path)
    requests = [Request(f"http://a/{n}") for n in range(500)]
    theirs = RFPDupeFilter(str(tmp_path))
    for request in requests:
        theirs.request_seen(request)
    theirs.close("finished")
    for expected in (500, None):
        crawler = crawler_of(**seen)
        ours = FileMapDupeFilter.from_crawler(crawler)
        ours.open()
        assert all(ours.request_seen(request) for request in requests)
        assert crawler.stats is not None
        assert crawler.stats.get_value("filemap/dupefilter/imported") == expected
        ours.close("finished")
        assert crawler.stats.get_value("filemap/dupefilter/fingerprints") == 500


@pytest.mark.parametrize("cut", [0, 1, 7])
def test_both_formats_of_requests_seen_are_read(tmp_path: Path, cut: int) -> None:
    known = [hashlib.sha1(b"%d" % n).digest() for n in range(20)]
    text, binary = tmp_path / "text", tmp_path / "binary"
    text.write_text("".join(f"{fingerprint.hex()}\n" for fingerprint in known))
    binary.write_bytes(b"".join(b"\0\x14" + fingerprint for fingerprint in known))
    binary.write_bytes(binary.read_bytes()[: -cut or None])
    text.write_bytes(text.read_bytes()[: -cut or None])
    for path, at in ((text, 19 * 41), (binary, 19 * 22)):
        found = OldFingerprints(str(path))
        assert list(found) == (known[:-1] if cut else known)
        assert found.unread_from == (at if cut else None)
    zeros = tmp_path / "zeros"
    zeros.write_bytes(b"\0\x14" + known[0] + bytes(100))
    found = OldFingerprints(str(zeros))
    assert (list(found), found.unread_from) == (known[:1], 22)
    empty = OldFingerprints(str(tmp_path / "empty"))
    (tmp_path / "empty").write_bytes(b"")
    assert list(empty) == []
    assert empty.unread_from is None


def test_a_cut_requests_seen_is_told(tmp_path: Path, seen: dict[str, str]) -> None:
    (tmp_path / "requests.seen").write_bytes(b"\0\x14" + bytes(20) + b"\0\x14cut")
    crawler = crawler_of(**{**seen, "JOBDIR": str(tmp_path)})
    ours = FileMapDupeFilter.from_crawler(crawler)
    ours.open()
    ours.close("finished")
    assert crawler.stats is not None
    assert crawler.stats.get_value("filemap/dupefilter/imported") == 1
    assert crawler.stats.get_value("filemap/dupefilter/import_cut") == 1


def test_fingerprints_of_any_length(seen: dict[str, str]) -> None:
    class Long:
        def fingerprint(self, request: Request) -> bytes:
            return request.url.encode() * 9

    found = filter_of(**seen, REQUEST_FINGERPRINTER_CLASS=Long)
    assert not found.request_seen(Request("http://a/1"))
    assert not found.request_seen(Request("http://a/2"))
    assert found.request_seen(Request("http://a/1"))
    found.close("finished")


def test_a_journal_on_a_full_disk_stays_as_it_is(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    keys = [number.to_bytes(32, "big") for number in range(40_000)]
    with mock.patch("os.posix_fallocate", side_effect=OSError(28, "full")):
        with pytest.raises(OSError, match="full"):
            for key in keys:
                journal.write(key)
        with pytest.raises(OSError, match="full"):
            journal.write(keys[0])
    for key in keys[:100]:
        journal.write(key)
    journal.forget()
    journal.close()


def test_the_same_question_has_the_same_answer_also_of_the_next_holder(tmp_path: Path) -> None:
    path, one, two = str(tmp_path / "seen"), b"1" * 16, b"2" * 16
    first = SeenService(path)
    assert first.answer(one, 1, b"x")
    assert first.answer(one, 1, b"x")
    assert not first.answer(one, 2, b"x")
    assert not first.answer(two, 1, b"x")
    assert first.answer(two, 2, b"y")
    # It ends with "y" recorded, and neither file synced.
    before = (tmp_path / "seen.clients").read_bytes()
    first.close()
    for file in tmp_path.glob("seen*"):
        if file.name != "seen.clients":
            file.unlink()  # As if no journal had reached the disk, either.
    assert (tmp_path / "seen.clients").read_bytes() == before
    second = SeenService(path)
    assert not second.answer(one, 3, b"y")
    assert second.answer(two, 2, b"y")
    assert not second.answer(two, 3, b"y")
    second.close()


def test_notes_of_many_clients_and_damaged_ones(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    notes = Notes(str(path))
    for n in range(5000):
        notes.write(n.to_bytes(16, "big"), n, b"key%d" % n)
    assert not notes.has((903).to_bytes(16, "big"), 903)
    assert notes.has((904).to_bytes(16, "big"), 904)
    notes.close()
    assert path.stat().st_size == 4096 * 64
    data = bytearray(path.read_bytes())
    data[64 * 1000 + 20] ^= 1
    path.write_bytes(data[:-7])
    again = Notes(str(path))
    assert len(list(again.keys())) == 4094
    again.close()


KILLED = """
import sys, time
from filemap.scrapy.shared_seen import shared
seen = shared(sys.argv[1], 10)
for number in range(10**9):
    assert seen.add(b"%d" % number)
    if number % 100 == 0:
        print(number, flush=True)
        time.sleep(0.002)
"""


@pytest.mark.parametrize("seconds", [0.3, 6])
def test_a_kill_loses_no_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    path = str(tmp_path / "seen")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    # However slow the machine is, some are reported before the time begins.
    last = 0
    while last <= 100:
        last = int(process.stdout.readline())
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    last = max([last, *map(int, process.communicate()[0].split())])
    service = SeenService(path)
    assert not any(service.add(b"%d" % number) for number in range(last + 1))
    service.close()
    kept = {file.name for file in tmp_path.iterdir()}
    assert not {"seen.journal0", "seen.journal1", "seen.clients"} & kept


def test_a_journal_is_read_up_to_where_a_kill_cut_it(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    keys = [b"", *(b"%032d" % n for n in range(70_000)), b"last"]
    journal = Journal(str(path))
    for key in keys:
        journal.write(key)
    assert path.stat().st_size == 3 << 20
    data = path.read_bytes()
    assert Journal(str(path)).keys == keys
    path.write_bytes(data[: data.index(b"last") + 2])
    assert Journal(str(path)).keys == keys[:-1]
    again = Journal(str(path))
    again.forget()
    again.write(b"new")
    assert Journal(str(path)).keys == [b"new"]
    again.close()
    assert not path.exists()
