"""Processes and threads: fork, pickling, followers and a writer, kill -9, Ctrl-C, warnings."""

import asyncio
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import filemap
from filemap import seen

IS_SOAK = os.environ.get("FILEMAP_CHECK") == "soak"
URL = "http://example.com/"


def run(code: str, *arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_handle_says_that_it_does_not_survive_a_fork(path: Path, tmp_path: Path) -> None:
    code = """
import os, sys, filemap
from filemap import seen
store = filemap.open(sys.argv[1], "a")
store.put("http://a/", b"x")
urls, many, known = store.urls(), store.get_many(["http://a/"]), seen.DiskSet(sys.argv[2])
pid = os.fork()
if pid == 0:
    said = []
    for call in (lambda: store["http://a/"], store.close, lambda: next(urls), lambda: next(many),
                 lambda: known.add("x"), known.close):
        try:
            call()
        except filemap.ForkedError as error:
            said.append("open the store again" in str(error))
    # Dropping what the parent opened waits for no thread of the parent.
    del store, urls, many, known
    reader = filemap.open(sys.argv[1])
    said.append(reader["http://a/"].body == b"x")
    reader.close()
    print(said, flush=True)
    sys.exit(0 if all(said) and len(said) == 7 else 1)
_, status = os.waitpid(pid, 0)
store.put("http://b/", b"the parent goes on")
store.close(), known.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""
    child = run(code, path, tmp_path / "seen")
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0, out
    with filemap.open(path, "w") as store:
        assert len(store) == 2


def test_handles_cannot_be_pickled_and_say_so(store: filemap.PageStore, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="send its path"):
        pickle.dumps(store)
    with seen.DiskSet(tmp_path / "s") as known, pytest.raises(TypeError, match="send its path"):
        pickle.dumps(known)


def test_a_reader_in_another_process_follows_the_writer(
    path: Path, store: filemap.PageStore
) -> None:
    store.put(URL, b"first")
    reader = run(
        "import sys, filemap\n"
        "with filemap.open(sys.argv[1]) as store:\n"
        "    print(store['http://example.com/'].text, flush=True)\n"
        "    while store['http://example.com/'].text != 'second': store.refresh()\n"
        "    print('seen', flush=True)\n",
        path,
    )
    assert reader.stdout and reader.stdout.readline() == "first\n"
    store.put(URL, b"second")
    assert reader.stdout.readline() == "seen\n"
    assert reader.wait(timeout=120) == 0
    reader.stdout.close()


def test_a_killed_process_loses_no_page_that_was_put(path: Path) -> None:
    writer = run(
        "import sys, filemap\n"
        "store = filemap.open(sys.argv[1], 'a')\n"
        "n = 0\n"
        "while True:\n"
        "    store.put(f'http://h/{n}', str(n) * 100)\n"
        "    print(n, flush=True)\n"
        "    n += 1\n",
        path,
    )
    assert writer.stdout
    last = 0
    for line in writer.stdout:
        last = int(line)
        if last >= 500:
            break
    writer.kill()
    rest = [int(line) for line in writer.stdout.read().split("\n")[:-1]]
    writer.stdout.close()
    writer.wait()
    with filemap.open(path, "w") as store:
        for n in range(max([last, *rest]) + 1):
            assert store[f"http://h/{n}"].body == str(n).encode() * 100


@pytest.mark.parametrize(
    "call",
    [
        "list(store.urls(host='nowhere'))",
        "[len(store) for _ in range(10**6)]",
        "[store.verify() for _ in range(10**6)]",
        "list(url for _ in range(10**6) for url in [len(list(store.heads()))])",
        "list(forever(store))",
    ],
)
def test_ctrl_c_ends_long_calls(path: Path, store: filemap.PageStore, call: str) -> None:
    store.put_many((f"http://h/{n}", b"x" * 100) for n in range(20_000))
    store.close()
    code = f"""
import itertools, sys, filemap
def forever(store):
    return store.get_many(itertools.repeat("http://h/7"))
with filemap.open(sys.argv[1]) as store:
    try:
        print("begun", flush=True)
        while True:
            {call}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
    child = run(code, path)
    assert child.stdout and child.stdout.readline() == "begun\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=120)[0] == "interrupted\n"
    assert child.returncode == 0


@pytest.mark.parametrize(
    "rows", ["filter={'host': 'nowhere'}", "['url', 'body', 'content_digest'], all_versions=True"]
)
@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "RuntimeError"])
def test_a_signal_ends_the_reading_of_a_table(path: Path, rows: str, raised: str) -> None:
    """Reading the table takes longer than the signal; no Python code runs meanwhile."""
    pytest.importorskip("pyarrow")
    body = os.urandom(1 << 20)
    with filemap.open(path, "a", compression_level=0, dictionaries=False) as store:
        store.put_many((f"http://h/{n % 100}", body) for n in range(400))
    code = f"""
import signal, sys, threading, time, filemap, pyarrow
def told(*_):
    raise RuntimeError("told")
if {raised!r} == "RuntimeError":
    signal.signal(signal.SIGINT, told)
with filemap.open(sys.argv[1]) as store:
    reads, begun = 0, time.monotonic()
    tables = iter(lambda: store.to_arrow({rows}), None)
    threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT)).start()
    try:
        try:
            while time.monotonic() < begun + 60:
                reads += 1
                pyarrow.table(next(tables))
        except OSError as error:
            assert "interrupted" in str(error), error
            time.sleep(20)
    except {raised}:
        print("ended", flush=True)
"""
    child = run(code, path)
    assert child.communicate(timeout=150)[0] == "ended\n"


def test_threads_use_one_handle(store: filemap.PageStore, tmp_path: Path) -> None:
    errors: list[BaseException] = []
    known = seen.DiskSet(tmp_path / "s")
    new = [0] * 8
    pages = store.put_many((f"http://shared/{n}", str(n)) for n in range(200)) and store.pages()
    taken: list[str] = []

    def work(nth: int) -> None:
        try:
            for n in range(300):
                url = f"http://h{nth}/{n}"
                store.put(url, url)
                assert store[url].text == url
                new[nth] += known.add(f"http://same/{n}")
            for page in pages:
                taken.append(page.url)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(nth,)) for nth in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(store) == 8 * 300 + 200
    assert (sum(new), len(known)) == (300, 300), "each URL was new exactly once"
    assert len(taken) == len(set(taken)) >= 200, "an iterator gives each item to one thread"
    known.close()


def test_closing_in_one_thread_ends_the_others(store: filemap.PageStore) -> None:
    store.put(URL, b"x" * 1000)
    ended: list[str] = []

    def work() -> None:
        try:
            while True:
                store.put(URL, store[URL].body)
        except filemap.ClosedError:
            ended.append("closed")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    store.close()
    for thread in threads:
        thread.join(timeout=120)
    assert ended == ["closed"] * 4


def test_the_interpreter_runs_while_a_store_works(store: filemap.PageStore) -> None:
    store.put_many((f"http://h/{n}", os.urandom(20_000)) for n in range(2000))
    done = threading.Event()
    thread = threading.Thread(target=lambda: (store.verify(), done.set()))
    thread.start()
    turns = 0
    while not done.is_set():
        turns += 1
    thread.join()
    assert turns > 1000


def test_asyncio(store: filemap.PageStore, path: Path) -> None:
    async def work() -> None:
        async with store:
            await asyncio.gather(*(store.aput(f"http://h/{n}", str(n)) for n in range(50)))
            pages = await asyncio.gather(*(store.aget(f"http://h/{n}") for n in range(50)))
            assert [page.text for page in pages if page] == [str(n) for n in range(50)]
            head = await store.ahead("http://h/7")
            assert head and head.body_bytes == 1 and await store.acontains("http://h/7")
            assert not (await store.aput_if_changed("http://h/7", b"7")).changed
            texts = [
                page.text async for page in store.aget_many(["http://h/1", "http://h/2"]) if page
            ]
            assert texts == ["1", "2"]
            await store.async_()
            assert await store.aremove("http://h/7") and await store.aget("http://h/7") is None
        assert store.closed

    asyncio.run(work())


def test_asyncio_works_in_a_child_that_opens_the_store_itself(
    store: filemap.PageStore, path: Path
) -> None:
    store.put(URL, b"x")
    code = """
import asyncio, os, sys, warnings, filemap
warnings.simplefilter("ignore")  # Python warns of each fork beside threads.
async def read():
    async with filemap.open(sys.argv[1]) as store:
        page = await store.aget(sys.argv[2])
        return page.body
assert asyncio.run(read()) == b"x"
if (pid := os.fork()) == 0:
    os._exit(0 if asyncio.run(read()) == b"x" else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    child = run(code, path, URL)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0, out


def test_an_unclosed_store_warns(path: Path) -> None:
    store = filemap.open(path, "a")
    store.put(URL, b"x")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del store
        gc.collect()
    assert [warning.category for warning in told] == [ResourceWarning] and str(path) in str(
        told[0].message
    )
    with filemap.open(path, "w") as store:
        assert URL in store, "and lets go of its lock"


def test_memory_stays_flat(store: filemap.PageStore) -> None:
    import resource
    import tracemalloc

    body = os.urandom(5000)

    def turn(count: int) -> None:
        for n in range(count):
            url = f"http://h/{n % 50}"
            store.put(url, body, headers={"A": "1"}, time=n)
            page = store[url]
            assert (
                page.body == body and page.headers["a"] and page.text and repr(page) and page.time
            )
            assert store.head(url) and url in store and store.get("http://none/") is None
            if n % 2000 == 1999:
                # Otherwise the log grows, and each list reads all of it.
                assert store.prune(keep_versions=1).ok and store.compact().ok
            if n % 50 == 0:
                (
                    list(store.urls()),
                    list(store.heads()),
                    next(store.pages()),
                    list(store.get_many([url] * 5)),
                )
                list(store.variants(url)), next(store.history(url)), store.stat(), len(store)
                for bad in ("no URL", "http://none/"):
                    with pytest.raises((KeyError, ValueError)):
                        store[bad]

    turn(500)
    tracemalloc.start()
    # Python keeps some thousand freed objects; in a soak it has all of them by then.
    turn(60_000 if IS_SOAK else 200)
    before, rss = (
        tracemalloc.get_traced_memory()[0],
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )
    turn(1_000_000 if IS_SOAK else 3000)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 100_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss < 60_000
