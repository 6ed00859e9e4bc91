"""The broker by itself: its service appends lines to a file under a lock."""

import pytest

pytest.importorskip("scrapy.crawler", reason="Scrapy is not installed")

import fcntl
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import filemap
from filemap.scrapy import broker, wire
from filemap.scrapy.broker import Link, Member

# Lets a slow answer go on.
GO = threading.Event()


class Lines:
    """Appends lines to a file and answers with the line number; one process at a time."""

    def __init__(self, path: Path) -> None:
        self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise filemap.LockedError(11, "locked") from None
        self._turn = threading.Lock()
        self._path = path

    def add(self, line: str, again: bool) -> int:
        with self._turn, self._path.open("a+") as file:
            file.seek(0)
            lines = file.read().splitlines()
            if again and line in lines:
                return lines.index(line)
            file.write(line + "\n")
            return len(lines)

    def perform(self, head: Mapping[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        if head.get("fail"):
            raise filemap.CorruptError("line 7 is bad")
        if head.get("odd"):
            raise KeyError("odd")
        if head.get("slow"):
            GO.wait(60)
        return {"at": self.add(body.decode(), bool(head.get("again")))}, body[::-1]

    def close(self) -> None:
        os.close(self._lock)


def member(path: Path, patience: float = 60.0) -> "Member[Lines]":
    return Member(str(path), lambda: Lines(path), patience)


def add(part: "Member[Lines]", line: str) -> int:
    return part.call(
        lambda service, again: service.add(line, again),
        lambda link, again: int(link.ask({"again": again}, line.encode())[0]["at"]),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines"


def test_the_second_asks_the_first_and_takes_its_place(path: Path) -> None:
    first, second = member(path), member(path)
    assert add(first, "a") == 0
    assert add(second, "b") == 1
    assert (first.is_holder, second.is_holder) == (True, False)
    first.close()
    assert add(second, "c") == 2
    assert second.is_holder
    second.close()
    assert path.read_text() == "a\nb\nc\n"
    assert not Path(f"{path}.sock").exists()


def test_an_idle_client_takes_over_by_itself(path: Path) -> None:
    first, second = member(path), member(path)
    add(first, "a"), add(second, "b")
    first.close()
    # A busy machine may take longer than the product needs.
    until = time.monotonic() + 60
    while not second.is_holder and time.monotonic() < until:
        time.sleep(0.01)
    assert second.is_holder
    second.close()


def test_an_idle_client_of_a_killed_holder_takes_over(path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", script_of_client(), str(path), "holder", "1000000"],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    second = member(path)
    add(second, "b")
    assert not second.is_holder
    holder.kill()
    holder.wait()
    # A busy machine may take longer than the product needs.
    until = time.monotonic() + 60
    holder.stdout.close()
    while not second.is_holder and time.monotonic() < until:
        time.sleep(0.01)
    assert second.is_holder
    second.close()


def test_only_the_owner_may_use_the_socket(path: Path) -> None:
    old = os.umask(0)
    try:
        first = member(path)
        first.join()
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(f"{path}.sock").st_mode) == 0o600
    first.close()


def test_a_long_path_is_reached_through_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    first, second = member(folder / "lines"), member(folder / "lines")
    assert (add(first, "a"), add(second, "b")) == (0, 1)
    second.close()
    first.close()


def test_errors_of_the_holder_are_raised_at_the_client(path: Path) -> None:
    first, second = member(path), member(path)
    add(first, "a"), add(second, "b")
    with pytest.raises(filemap.CorruptError, match="line 7"):
        second.call(lambda *_: None, lambda link, _: link.ask({"fail": True}) and None)
    with pytest.raises(broker.Refused, match="odd"):
        second.call(lambda *_: None, lambda link, _: link.ask({"odd": True}) and None)
    assert add(second, "c") == 2
    second.close()
    first.close()


def test_an_answer_that_comes_too_late_is_not_that_of_the_next_call(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "_ANSWER_SECS", 2.0)
    first, second = member(path), member(path, patience=1.0)
    add(first, "a"), add(second, "b")
    with pytest.raises(OSError, match="timed out"):
        second.call(lambda *_: None, lambda link, _: link.ask({"slow": True}, b"slow") and None)
    GO.set()
    until = time.monotonic() + 60
    while "slow" not in path.read_text() and time.monotonic() < until:
        time.sleep(0.01)
    assert add(second, "c") == 3
    assert path.read_text() == "a\nb\nslow\nc\n"
    second.close()
    first.close()


def test_a_lock_that_nobody_answers_for_is_an_error_after_a_time(path: Path) -> None:
    blocker = Lines(path)
    part = member(path, patience=0.2)
    with pytest.raises(filemap.LockedError):
        add(part, "a")
    blocker.close()
    assert add(part, "a") == 0
    part.close()


def test_a_socket_that_a_killed_holder_left_is_replaced(path: Path) -> None:
    part = member(path)
    Path(f"{path}.sock").write_text("left")
    assert add(part, "a") == 0
    other = member(path)
    assert add(other, "b") == 1
    other.close()
    part.close()


def test_a_holder_out_of_descriptors_takes_clients_when_it_has_some_again(path: Path) -> None:
    service = Lines(path)
    server = broker.Server(str(path), service)
    listener = server._listener
    accepts = iter([OSError(24, "Too many open files"), None])

    class Listener:
        def __getattr__(self, name: str) -> Any:
            return getattr(listener, name)

        def accept(self) -> Any:
            if error := next(accepts, None):
                raise error
            return listener.accept()

    server._listener = Listener()  # type: ignore[assignment]
    links = [Link.to(str(path)) for _ in range(3)]  # The first one waited already.
    assert [link.ask({}, b"x")[0]["at"] for link in links] == [0, 1, 2]
    for link in links:
        link.close()
    server.close()
    service.close()


def test_a_message_over_the_bound_ends_the_connection_and_nothing_else(path: Path) -> None:
    first = member(path)
    add(first, "a")
    link = Link.to(str(path))
    link._connection.sendall((1 << 60).to_bytes(8, "big") + b"\xff" * 4)
    with pytest.raises(wire.Broken):
        wire.receive(link._connection)
    link.close()
    second = member(path)
    assert add(second, "b") == 1
    second.close()
    first.close()


def test_many_threads_of_many_members(path: Path) -> None:
    parts = [member(path) for _ in range(4)]
    answers: list[int] = []

    def work(part: "Member[Lines]", name: int) -> None:
        for number in range(50):
            answers.append(add(part, f"{name} {number}"))

    threads = [threading.Thread(target=work, args=(parts[n % 4], n)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for part in parts:
        part.close()
    assert sorted(answers) == list(range(400))


CLIENT = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_broker import add, member
part = member(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    add(part, f"{{sys.argv[2]}} {{number}}")
    print(number, flush=True)
part.close()
"""


def script_of_client() -> str:
    return textwrap.dedent(CLIENT).format(tests=str(Path(__file__).parent))


@pytest.mark.parametrize("round_", range(3))
def test_a_killed_holder_loses_nothing_that_it_answered_and_nothing_is_done_twice(
    path: Path, round_: int
) -> None:
    script = script_of_client()
    count = 200

    def start(name: str, lines: int) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", script, str(path), name, str(lines)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    holder = start("holder", 1_000_000)
    assert holder.stdout is not None
    holder.stdout.readline()
    clients = [start(f"client{n}", count) for n in range(3)]
    for client in clients:
        assert client.stdout is not None
        client.stdout.readline()
    holder.send_signal(signal.SIGKILL)
    told = len(holder.communicate()[0].splitlines())
    for client in clients:
        client.communicate(timeout=300)
        assert client.returncode == 0
    lines = path.read_text().splitlines()
    assert len(lines) == len(set(lines))
    for n in range(3):
        assert sum(line.startswith(f"client{n} ") for line in lines) == count
    assert sum(line.startswith("holder ") for line in lines) >= told
