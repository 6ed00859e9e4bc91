"""No call keeps its arguments or results: this counts the blocks of Python's allocator, and in a
soak the memory of the process."""

import asyncio
import gc
import gzip
import io
import itertools
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import filemap
from filemap import seen, warc
from filemap._native import PutQueue, decode_body

IS_SOAK = os.environ.get("FILEMAP_CHECK") == "soak"
ROUNDS = 500 if IS_SOAK else 60
URL = "http://a.example/1"


def anonymous_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def failing(call: Callable[[], object]) -> Callable[[], object]:
    """Wraps a call that must raise an exception."""

    def called() -> None:
        # `pytest.raises` keeps some memory itself.
        try:
            call()
        except (filemap.FileMapError, TypeError):
            return
        raise AssertionError("it must fail")

    return called


def drained(table: filemap.Table) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow.RecordBatchReader.from_stream(table).read_all()


def put_later(store: filemap.PageStore, body: bytes) -> None:
    queue = PutQueue(store)
    queue.put("http://queue.example/", body)
    queue.close()


def calls(store: filemap.PageStore, known: seen.SeenSet, folder: Path) -> dict[str, Any]:
    body = os.urandom(3000)
    headers = [("Content-Type", "text/html"), ("X", "y")]
    page = filemap.Page(URL, body, headers=headers)
    sink = io.BytesIO()
    warc_file = (
        b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://w.example/\r\n"
        b"WARC-Date: 2020-01-01T00:00:00Z\r\nContent-Length: 4\r\n\r\nbody\r\n\r\n"
    )
    version = store.put(URL, body)
    numbers = itertools.count()
    return {
        "put": lambda: store.put_if_changed(URL, body, headers=headers, time=1.5),
        "put page": lambda: store.put_if_changed(page),
        "put many": lambda: store.put_many([(URL, body), page], if_changed=True),
        "put, wrong": failing(lambda: store.put("no URL", body, headers=headers)),
        "put, mistaken": failing(lambda: store.put(URL, body, nothing=1)),  # type: ignore[call-arg]
        "get": lambda: (store[URL].body, store[URL].headers.raw(), store[URL].time),
        "get, absent": lambda: store.get("http://absent.example/"),
        "head": lambda: repr(store.head(URL)),
        "version": lambda: store.get_version(URL, version),
        "get many": lambda: list(store.get_many([URL, "http://absent.example/"])),
        "history": lambda: [head.time for head in store.history(URL)],
        "urls": lambda: list(store.urls(host="a.example")),
        "pages": lambda: [page.text for page in store.pages(domain="example")],
        "heads": lambda: list(store.heads(variants=True)),
        "left alone": lambda: next(store.pages()),
        "splits": lambda: [list(pickle.loads(pickle.dumps(part))) for part in store.splits(2)],
        "table": lambda: store.to_arrow().__arrow_c_stream__(),
        "table, read": lambda: drained(store.to_arrow()),
        "table, unread": lambda: store.to_arrow(["url"]),
        "stat": store.stat,
        "html": lambda: (store.stat()._repr_html_(), store[URL]._repr_html_()),
        "removed": lambda: (
            store.put("http://gone.example/", body),
            store.remove("http://gone.example/"),
        ),
        "counted": lambda: (len(store), URL in store, list(store.variants(URL))),
        "changes": lambda: list(store.changes()),
        "made durable": lambda: (store.sync(), store.refresh()),
        "pruned": lambda: store.prune(host="none.example", older_than=1),
        "exported": lambda: warc.export(store, folder / f"export{next(numbers)}"),
        "decoded": lambda: decode_body(["gzip"], gzip.compress(body)),
        "queue": lambda: put_later(store, body),
        "verify": lambda: store.verify(quick=True, progress=lambda done, total: None),
        "asyncio": lambda: asyncio.run(store.aget(URL)),
        "import": lambda: warc.import_(store, io.BytesIO(warc_file)),
        "import, wrong": failing(lambda: warc.import_(store, 5)),  # type: ignore[arg-type]
        "seen": lambda: (known.add(URL), known.add_many([URL, b"x"]), URL in known),
        "seen, wrong": failing(lambda: known.add_many([5])),  # type: ignore[list-item]
        "canonical": lambda: filemap.canonicalize("HTTP://A.example/../b?q#x"),
        "opened": lambda: filemap.open(folder / "pages.fm").close(),
        "not opened": failing(lambda: filemap.open(folder / "absent.fm")),
        "refused": failing(lambda: store.put("http://erased.example/", b"x")),
        "sink": lambda: sink.getbuffer().release(),
    }


@pytest.mark.skipif(not IS_SOAK, reason="in the soak")
def test_no_call_keeps_memory(tmp_path: Path) -> None:
    options: Any = {"free_space_floor": 0, "keep_versions": 1}
    with (
        filemap.open(tmp_path / "pages.fm", "a", **options) as store,
        seen.Trie(tmp_path / "seen") as known,
    ):
        for n in range(30):
            store.put(f"http://a.example/{n}", b"<p>" + os.urandom(500).hex().encode())
        store.put("http://erased.example/", b"x")
        store.erase(url="http://erased.example/", reason="asked for")
        kept: dict[str, int] = {}
        for name, call in calls(store, known, tmp_path).items():
            grown: list[int] = []
            for _ in range(4):
                gc.collect()
                blocks = sys.getallocatedblocks()
                for _ in range(ROUNDS):
                    call()
                gc.collect()
                grown.append(sys.getallocatedblocks() - blocks)
            # Python's caches fill up at first; a leak continues.
            kept[name] = min(grown)
        # A leak keeps at least one block per call.
        assert {name: many for name, many in kept.items() if many > ROUNDS // 2} == {}


@pytest.mark.skipif(not IS_SOAK, reason="in the soak")
def test_no_call_keeps_memory_of_the_process(tmp_path: Path) -> None:
    options: Any = {"free_space_floor": 0, "keep_versions": 1, "memtable_bytes": 8 << 20}
    # An automatic one would take more as gets repeat.
    options["value_cache_bytes"] = 0
    with (
        filemap.open(tmp_path / "pages.fm", "a", **options) as store,
        seen.Trie(tmp_path / "seen") as known,
    ):
        grown: dict[str, int] = {}
        for name, call in calls(store, known, tmp_path).items():
            if name.startswith("refused"):
                continue
            for _ in range(ROUNDS):
                call()
            before = anonymous_kib()
            for _ in range(ROUNDS):
                call()
            grown[name] = anonymous_kib() - before
        # The figure includes the memtable and the dictionaries.
        assert {name: kib for name, kib in grown.items() if kib > 24 << 10} == {}
