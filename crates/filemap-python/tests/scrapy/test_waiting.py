"""Records that wait to be put when their process is killed."""

import pytest

pytest.importorskip("scrapy.crawler", reason="Scrapy is not installed")

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from helpers import storage_of
from scrapy.http import Request

import filemap.scrapy.waiting
from filemap._native import PutQueue
from filemap.scrapy.shared_pages import PagesService, Record, arguments_of
from filemap.scrapy.waiting import Waiting, message_of

COUNT = 60

KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from helpers import storage_of
from scrapy.http import Request, Response
from test_waiting import COUNT, body_of

with storage_of(Path(sys.argv[2])) as storage:
    for number in range(COUNT):
        url = f"http://example.com/{number}"
        storage.store_response(None, Request(url), Response(url, body=body_of(number)))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def body_of(number: int) -> bytes:
    """A text that takes long to compress."""
    return b"".join(b"%d " % (number * n) for n in range(20_000))


def kill_after_all(folder: Path) -> None:
    here = str(Path(__file__).parent)
    killed = subprocess.run([sys.executable, "-c", KILLED, here, str(folder)], check=False)
    assert killed.returncode == -signal.SIGKILL


def assert_all_are_there(folder: Path) -> None:
    with storage_of(folder) as storage:
        for number in range(COUNT):
            found = storage.retrieve_response(None, Request(f"http://example.com/{number}"))
            assert found is not None and found.body == body_of(number), number
    assert not (folder / "pages.fm.waiting").exists()


def test_all_that_was_taken_outlives_a_kill(tmp_path: Path) -> None:
    kill_after_all(tmp_path)
    assert len(list(Waiting(str(tmp_path / "pages.fm.waiting")).left())) > 10
    assert_all_are_there(tmp_path)


def test_a_page_survives_a_kill_where_the_file_cannot_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "pages.fm.waiting").mkdir()
    kill_after_all(tmp_path)
    with storage_of(tmp_path):
        pass
    assert "pages.fm.waiting may have pages" in caplog.text
    (tmp_path / "pages.fm.waiting").rmdir()
    assert_all_are_there(tmp_path)


def record_of(number: int, time_ms: int = 1000) -> Record:
    return Record(f"http://example.com/{number}", b"v", time_ms, 200, [(b"A", b"b")], b"body")


@contextmanager
def service_of(folder: Path) -> Iterator[PagesService]:
    service = PagesService(str(folder / "a.fm"), {"keep_versions": 9})
    try:
        yield service
    finally:
        service.close()


def leave(folder: Path, *records: Record) -> Path:
    """Writes the file of a process that was killed before it put these records."""
    path = folder / "a.fm.waiting"
    waiting = Waiting(str(path))
    for record in records:
        assert waiting.add(message_of(record.to_wire(), record.body))
    waiting.close()
    return path


def test_what_is_in_the_store_is_not_put_again(tmp_path: Path) -> None:
    with service_of(tmp_path) as service:
        for time_ms in (1000, 2000):
            service.put(record_of(1, time_ms), False)
    leave(tmp_path, record_of(1, 1000), record_of(1, 2000), record_of(1, 1500), record_of(2))
    with service_of(tmp_path) as service:
        service.settle()
        history = service.store.history("http://example.com/1", variant="v")
        assert [head.time_ms for head in history] == [2000, 1500, 1000]
        assert service.get("http://example.com/2", b"v") is not None


def test_it_ends_where_the_process_was_killed_that_wrote(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = leave(tmp_path, record_of(1), record_of(2))
    waiting = Waiting(str(path))
    assert len(list(waiting.left())) == 2 and waiting.unread_from is None
    whole = path.read_bytes().rstrip(b"\0")
    first = whole.index(b"body") + 8
    for end in range(first, len(whole)):
        path.write_bytes(whole[:end])
        assert [head["url"] for head, _ in Waiting(str(path)).left()] == [record_of(1).url]
    for damaged in range(first, len(whole)):
        flipped = bytes([whole[damaged] ^ 1])
        path.write_bytes(whole[:damaged] + flipped + whole[damaged + 1 :])
        waiting = Waiting(str(path))
        assert [head["url"] for head, _ in waiting.left()] == [record_of(1).url]
        assert waiting.unread_from == first
    with service_of(tmp_path) as service:
        assert service.get(record_of(1).url, b"v") is not None
        assert service.get(record_of(2).url, b"v") is None
        assert f"from byte {first} on nothing can be read" in caplog.text
        service.put_later(record_of(4))
        assert service._waiting is not None
        assert [head["url"] for head, _ in service._waiting.left()] == [record_of(4).url]
    assert not path.exists()


def test_what_is_no_page_is_said_and_the_rest_put(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.fm.waiting"
    waiting = Waiting(str(path))
    assert waiting.add(message_of(record_of(1).to_wire(), b"body"))
    assert waiting.add(message_of({"url": 5}, b""))
    assert waiting.add(message_of({**record_of(2).to_wire(), "status": 123456}, b""))
    assert waiting.add(message_of(record_of(3).to_wire(), b"body"))
    waiting.close()
    with service_of(tmp_path) as service:
        assert [service.get(record_of(n).url, b"v") is None for n in (1, 2, 3)] == [0, 1, 0]
    assert caplog.text.count("is not kept") == 2


def test_what_cannot_be_put_stays_for_the_next_opening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = leave(tmp_path, record_of(1), record_of(2))
    before = path.read_bytes()
    full = mock.Mock(side_effect=filemap.StoreIOError(28, "full"))
    with (
        mock.patch.object(filemap.PageStore, "put_if_changed", full),
        service_of(tmp_path) as service,
    ):
        pass
    assert "a.fm.waiting may have pages" in caplog.text and path.read_bytes() == before
    with service_of(tmp_path) as service:
        assert all(service.get(record_of(n).url, b"v") for n in (1, 2))
    assert not path.exists()


def test_a_damaged_entry_is_put_again(tmp_path: Path) -> None:
    leave(tmp_path, record_of(1))
    with service_of(tmp_path) as service:
        service.settle()
    leave(tmp_path, record_of(1))
    corrupt = mock.Mock(side_effect=filemap.CorruptError("value0.dat is damaged"))
    with mock.patch.object(filemap.PageStore, "head", corrupt), service_of(tmp_path) as service:
        history = service.store.history(record_of(1).url, variant="v")
        assert len(list(history)) == 2


def test_it_is_emptied_where_it_is_full(tmp_path: Path) -> None:
    with (
        mock.patch.object(filemap.scrapy.waiting, "_MOST_BYTES", 2000),
        service_of(tmp_path) as service,
    ):
        waiting = service._waiting
        assert waiting is not None
        counts = []
        for number in range(100):
            record = record_of(number)
            # A record that is too large even for an empty file is put at once.
            record.body = b"body" * (1000 if number == 50 else 1)
            service.put_later(record)
            counts.append(len(list(waiting.left())))
            if not counts[-1]:
                # It is in the store already.
                assert service.store.head(record.url, variant="v") is not None
        assert 3 < max(counts) < 20 and counts.count(0) > 4 and counts[50] == 0
        assert all(service.get(record_of(number).url, b"v") for number in range(100))


def test_what_expired_does_not_come_back(tmp_path: Path) -> None:
    with service_of(tmp_path) as service:
        service.put_later(record_of(1))
        assert service.expire(b"v", 5000) == 1
        assert service._waiting is not None and not list(service._waiting.left())
        service.put_later(record_of(2))
        with mock.patch("os.pwritev", side_effect=OSError(28, "full")):
            assert service.expire(b"v", 5000) == 1
    with service_of(tmp_path) as service:
        assert service.get(record_of(2).url, b"v") is None


@pytest.mark.parametrize("call", ["pwritev", "open"])
def test_a_full_disk_leaves_puts_that_are_waited_for(
    tmp_path: Path, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    with service_of(tmp_path) as service:
        for number in range(4):
            with mock.patch(f"os.{call}", side_effect=OSError(28, "full")):
                service.put_later(record_of(number))
            assert service.store.head(record_of(number).url, variant="v") is not None
    assert caplog.text.count("Pages are put one by one") == 1


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "a.fm.waiting").symlink_to(tmp_path / "precious")
    with service_of(tmp_path) as service:
        service.put_later(record_of(1))
        assert service.get("http://example.com/1", b"v") is not None
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert (tmp_path / "a.fm.waiting").is_symlink()


def test_the_store_is_closed_whatever_became_of_the_file(tmp_path: Path) -> None:
    with service_of(tmp_path) as service:
        service.put_later(record_of(1))
        (tmp_path / "a.fm.waiting").unlink()
    with service_of(tmp_path) as service:
        assert service.get("http://example.com/1", b"v") is not None


def test_the_message_of_the_queue_is_that_of_the_record(tmp_path: Path) -> None:
    records = [
        record_of(1),
        Record('http://example.com/ü\u2028?a="', None, -5, 65535, [(b"\xff", b"\x80")], b""),
        Record(
            "http://example.com/3",
            b"\0\xffv",
            2**40,
            1,
            [],
            b"\xff" * 70_000,
            "HTTP/1.1",
            "PÖST",
            "::1",
        ),
    ]
    with filemap.open(tmp_path / "a.fm", "a") as store:
        queue = PutQueue(store)
        for record in records:
            message = queue.put(record.url, record.body, **arguments_of(record))
            assert message == message_of(record.to_wire(), record.body)
        # The caller waits for pages that do not fit in a message.
        assert queue.put(b"http://example.com/\xff", b"") is None
        assert queue.put("http://example.com/", b"", status=None) is None
        assert queue.put("http://example.com/", b"", reason="Fine") is None
        assert queue.put("http://example.com/", bytes(8 << 20)) is None
        queue.close()
        with pytest.raises(filemap.ClosedError):
            queue.put("http://example.com/", b"")
