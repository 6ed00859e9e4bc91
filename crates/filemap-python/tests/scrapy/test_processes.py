"""Many processes on one cache and one filter, killed at any moment.

`FILEMAP_TEST_PROCESSES` and `FILEMAP_TEST_KILLS` are 4 and 6, and in a soak 16 and 100.
"""

import pytest

pytest.importorskip("scrapy.crawler", reason="Scrapy is not installed")

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from helpers import IS_SOAK, page_body, storage_of
from scrapy.http import Request

PROCESSES = int(os.environ.get("FILEMAP_TEST_PROCESSES", "16" if IS_SOAK else "4"))
KILLS = int(os.environ.get("FILEMAP_TEST_KILLS", "100" if IS_SOAK else "6"))
PAGES = int(os.environ.get("FILEMAP_TEST_PAGES", str(60 * PROCESSES + 40 * KILLS)))

WORKER = """
import os, random, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from helpers import crawler_of, page_body, storage_of
from scrapy.http import Request, Response
from filemap.scrapy import FileMapDupeFilter

folder, name, pages = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
log = os.open(folder / f"{name}.said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
say = lambda *words: os.write(log, (" ".join(map(str, words)) + "\\n").encode())
random.seed(name)
dupes = FileMapDupeFilter.from_crawler(crawler_of(FILEMAP_SEEN=str(folder / "seen")))
dupes.open()
holds = False
with storage_of(folder, FILEMAP_SHARED=True) as storage:
    for number in random.sample(range(pages), pages):
        if not holds and (storage.pages.is_holder or dupes._seen.is_holder):
            holds = True
            say("holds", 0)
        request = Request(f"http://example.com/page/{number}")
        if dupes.request_seen(request):
            say("seen", number)
            continue
        say("new", number)
        storage.store_response(None, request, Response(request.url, body=page_body(number)))
        say("stored", number)
        found = storage.retrieve_response(None, request)
        assert found is not None and found.body == page_body(number)
dupes.close("finished")
say("end", 0)
"""


def start(folder: Path, name: str) -> "subprocess.Popen[bytes]":
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", WORKER, here, str(folder), name, str(PAGES)]
    with (folder / f"{name}.err").open("wb") as errors:
        return subprocess.Popen(command, stderr=errors)


def said_by(folder: Path, name: str) -> list[str]:
    log = folder / f"{name}.said"
    return log.read_text().splitlines() if log.exists() else []


def victim_of(folder: Path, running: "dict[str, subprocess.Popen[bytes]]") -> str:
    """Chooses a working process: mostly the holder of the cache or of the filter."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        working = [name for name in running if len(said_by(folder, name)) > 5]
        holders = [name for name in working if "holds 0" in said_by(folder, name)]
        if holders or (working and random.random() < 0.1):
            return random.choice(holders if holders and random.random() < 0.8 else working)
        time.sleep(0.02)
    raise AssertionError("no process works")


def test_nothing_is_lost_by_kills_and_none_is_told_that_it_is_locked(tmp_path: Path) -> None:
    random.seed(11)
    running = {f"worker{n}": start(tmp_path, f"worker{n}") for n in range(PROCESSES)}
    holders = 0
    for kill in range(KILLS):
        victim = victim_of(tmp_path, running)
        time.sleep(random.random() * 0.05)
        process = running.pop(victim)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            holders += "holds 0" in said_by(tmp_path, victim)
        process.wait()
        running[f"next{kill}"] = start(tmp_path, f"next{kill}")
    for name, process in running.items():
        assert process.wait(timeout=300) == 0, (tmp_path / f"{name}.err").read_text()
    for errors in tmp_path.glob("*.err"):
        assert "LockedError" not in errors.read_text()
    check(tmp_path)
    print(f"{holders} of the killed were holders")
    assert holders > 0


def check(folder: Path) -> None:
    said: Counter[tuple[str, int]] = Counter()
    for log in folder.glob("*.said"):
        for line in log.read_text().splitlines():
            word, number = line.split()
            said[word, int(number)] += 1
    new = {number for word, number in said if word == "new"}
    # Each kill may come once between the answer "new" and its entry in the worker's log.
    assert len(set(range(PAGES)) - new) <= KILLS
    assert not [number for (word, number), count in said.items() if word == "new" and count > 1]
    print(f"{PAGES} pages, {KILLS} kills: {PAGES - len(new)} unsaid")
    with storage_of(folder, FILEMAP_SHARED=True) as storage:
        for number in (number for word, number in said if word == "stored"):
            found = storage.retrieve_response(None, Request(f"http://example.com/page/{number}"))
            assert found is not None, number
            assert found.body == page_body(number)
