"""Compares the cache and the duplicate filter with Scrapy's own, in alternating rounds.

    python bench_scrapy.py HTML_FOLDER [--pages 20000] [--rounds 3] [--urls 10000000] [--only PART]

`HTML_FOLDER` has HTML pages, such as those from `benches/corpus.sh`. Parts: `cache` (puts and gets
through Scrapy's own middleware, bytes and files), `crawl` (2,000 pages of a local server with and
without the cache), `dupes` (answers per second, memory, disk, opening). Prints one table per part:
the median of the rounds, and the bar. Nothing else should run on the machine meanwhile.
"""

import argparse
import gc
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers import STORAGE, crawler_of
from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import HtmlResponse, Request

import filemap
import scrapy
from filemap.scrapy import FileMapDupeFilter
from filemap.scrapy.shared_seen import SharedSeen

Pages = list[tuple[str, bytes]]

OTHERS = {
    "FileMap": STORAGE,
    "Filesystem": "scrapy.extensions.httpcache.FilesystemCacheStorage",
    "DBM": "scrapy.extensions.httpcache.DbmCacheStorage",
}


def pages_of(folder: str, count: int) -> Pages:
    """Pages of the folder in a random order that is the same each time."""
    paths = sorted(str(path) for path in Path(folder).rglob("*.html") if path.is_file())
    random.Random(1).shuffle(paths)
    pages: Pages = []
    for path in paths:
        body = Path(path).read_bytes()
        if len(body) >= 500:
            pages.append((f"https://docs.example.com/{os.path.relpath(path, folder)}", body))
        if len(pages) == count:
            break
    return pages


def disk(folder: str) -> tuple[int, int]:
    """The number of files, and their size on disk in bytes."""
    found = [path.stat() for path in Path(folder).rglob("*") if path.is_file()]
    return len(found), sum(stat.st_blocks * 512 for stat in found)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cache_round(storage: str, pages: Pages, **settings: Any) -> dict[str, float]:
    """Puts and gets all pages through the middleware of the cache."""
    folder = tempfile.mkdtemp()
    given = {"HTTPCACHE_DIR": folder, "HTTPCACHE_ENABLED": True, "HTTPCACHE_STORAGE": storage}
    crawler = crawler_of(**{**given, **settings})
    middleware = HttpCacheMiddleware.from_crawler(crawler)
    spider = crawler.spider
    assert spider is not None
    headers = {"Content-Type": "text/html", "Server": "nginx", "ETag": '"7"', "Date": "now"}
    # A spider argument is deprecated since 2.14, and the warning takes time.
    last = () if scrapy.version_info >= (2, 14) else (spider,)
    made = (HtmlResponse(url, headers=headers, body=body) for url, body in pages)
    given_to = [(Request(response.url), response) for response in made]
    asked = [Request(url) for url, _ in pages]

    def puts() -> None:
        for request, response in given_to:
            middleware.process_response(request, response, *last)

    def gets() -> None:
        for request, (_, body) in zip(asked, pages, strict=True):
            found = middleware.process_request(request, *last)
            assert isinstance(found, HtmlResponse)
            assert found.body == body

    middleware.spider_opened(spider)
    # As in a crawl, each request is looked up first, which computes its fingerprint.
    for request, _ in given_to:
        assert middleware.process_request(request, *last) is None
    gc.collect()
    gc.freeze()  # The waiting pages are not part of the measurement.
    cpu = time.thread_time()
    put_secs = timed(puts)
    cpu = time.thread_time() - cpu
    get_secs = timed(gets)
    close_secs = timed(lambda: middleware.spider_closed(spider))
    gc.unfreeze()
    files, took = disk(folder)
    shutil.rmtree(folder)
    logical = sum(len(body) for _, body in pages)
    return {
        "puts/s": len(pages) / put_secs,
        "us of the thread": cpu / len(pages) * 1e6,
        "gets/s": len(pages) / get_secs,
        "close s": close_secs,
        "files": files,
        "of logical": took / logical,
    }


def library_round(pages: Pages) -> dict[str, float]:
    """Puts the same bodies with the package itself, on one thread."""
    folder = tempfile.mkdtemp()
    headers = [(b"Content-Type", b"text/html"), (b"Server", b"nginx"), (b"ETag", b'"7"')]
    with filemap.open(f"{folder}/pages.fm", "a") as store:

        def puts() -> None:
            for url, body in pages:
                store.put_if_changed(url, body, headers=headers)

        cpu = time.thread_time()
        secs = timed(puts)
        cpu = time.thread_time() - cpu
    shutil.rmtree(folder)
    return {"puts/s": len(pages) / secs, "us of the thread": cpu / len(pages) * 1e6}


def median(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(round_[name] for round_ in rounds) for name in rounds[0]}


def show(what: str, got: float, bar: str, met: bool) -> None:
    print(f"{what:58} {got:12.3f}  {bar:22} {'met' if met else 'MISSED'}", flush=True)


def bench_cache(folder: str, count: int, rounds: int) -> None:
    pages = pages_of(folder, count)
    logical = sum(len(body) for _, body in pages)
    few = pages[: max(1000, count // 10)]
    print(
        f"cache: {len(pages)} pages of {logical / len(pages):.0f} bytes, {rounds} rounds; ", end=""
    )
    print(f"Filesystem and DBM {len(few)} pages")
    found: dict[str, list[dict[str, float]]] = {name: [] for name in (*OTHERS, "few", "library")}
    for _ in range(rounds):
        for name, storage in OTHERS.items():
            found[name].append(cache_round(storage, pages if name == "FileMap" else few))
        found["few"].append(cache_round(STORAGE, few))
        found["library"].append(library_round(pages))
    for name, results in found.items():
        print(name, {key: round(value, 3) for key, value in median(results).items()}, flush=True)
    ours, library = median(found["FileMap"]), median(found["library"])
    few_ours = median(found["few"])
    by_file = ours["puts/s"] / median(found["Filesystem"])["puts/s"]
    by_dbm = ours["puts/s"] / median(found["DBM"])["puts/s"]
    by_library = ours["puts/s"] / library["puts/s"]
    show("puts/s by Filesystem's", by_file, ">= 10", by_file >= 10)
    show("puts/s by DBM's", by_dbm, ">= 2.5, or the next", by_dbm >= 2.5 or by_library >= 0.6)
    show(
        "puts/s by the package's own",
        by_library,
        ">= 0.6, or the last",
        by_dbm >= 2.5 or by_library >= 0.6,
    )
    bar = 0.15 if len(pages) >= 20_000 else 0.20
    show(
        f"bytes on disk by logical, {len(pages)} pages",
        ours["of logical"],
        f"<= {bar}",
        ours["of logical"] <= bar,
    )
    show(
        f"bytes on disk by logical, {len(few)} pages",
        few_ours["of logical"],
        "<= 0.2",
        few_ours["of logical"] <= 0.2,
    )
    show("files", ours["files"], "<= 12", ours["files"] <= 12)


SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
sys.path.insert(0, sys.argv[1])
from bench_scrapy import pages_of
bodies = [body for _, body in pages_of(sys.argv[2], 2000)]
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        kind, _, number = self.path.strip("/").partition("/")
        body = bodies[int(number)] if kind == "page" else ("<!DOCTYPE html>" + "".join(
            f'<a href="/page/{n}">x</a>' for n in range(int(number)))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def bench_crawl(folder: str, rounds: int) -> None:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", SERVER, here, folder]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{int(server.stdout.readline())}/all/2000"
    times: dict[bool, list[float]] = {True: [], False: []}
    try:
        for _ in range(rounds):
            for cached in (False, True):
                with tempfile.TemporaryDirectory() as work:
                    given = {
                        "HTTPCACHE_ENABLED": cached,
                        "HTTPCACHE_DIR": work,
                        "LOG_LEVEL": "ERROR",
                    }
                    given |= {"METAREFRESH_ENABLED": False, "PLAIN": True}
                    script = [sys.executable, f"{here}/crawl_site.py", json.dumps(given), url]
                    done = subprocess.run(script, capture_output=True, text=True, check=True)
                    stats = json.loads(done.stdout.splitlines()[-1])
                    assert stats["item_scraped_count"] == 2001, stats
                    times[cached].append(stats["elapsed_time_seconds"])
    finally:
        server.kill()
        server.wait()
    medians = {cached: statistics.median(found) for cached, found in times.items()}
    print(
        f"crawl of 2,000 pages: {medians[False]:.2f} s without a cache, {medians[True]:.2f} s with it"
    )
    ratio = medians[True] / medians[False]
    show("time of a crawl by that without a cache", ratio, "<= 1.05", ratio <= 1.05)


def bench_dupes(urls: int, rounds: int) -> None:
    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    numbers = [random.randrange(60_000) for _ in range(100_000)]
    for _ in range(rounds):
        answers = []
        for name, rates in found.items():
            requests = [Request(f"http://example.com/page?b={n}&a=1") for n in numbers]
            with tempfile.TemporaryDirectory() as job:
                dupes: RFPDupeFilter
                if name == "ours":
                    dupes = FileMapDupeFilter.from_crawler(crawler_of(JOBDIR=job))
                    dupes.open()
                else:
                    dupes = RFPDupeFilter(job)
                start = time.perf_counter()
                answers.append([dupes.request_seen(request) for request in requests])
                rates.append(len(requests) / (time.perf_counter() - start))
                dupes.close("finished")
        assert answers[0] == answers[1]
    ours, theirs = statistics.median(found["ours"]), statistics.median(found["theirs"])
    print(f"dupe filter: {ours:.0f} answers/s, RFPDupeFilter {theirs:.0f}")
    show("answers/s by RFPDupeFilter's", ours / theirs, ">= 0.75", ours / theirs >= 0.75)
    command = [sys.executable, __file__, "", "--only", "fill", "--urls", str(urls)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    filled = json.loads(done.stdout.splitlines()[-1])
    show(f"MiB of memory for {urls} URLs", filled["mib"], "<= 100", filled["mib"] <= 100)
    show("bytes a URL on disk", filled["bytes"], "<= 10", filled["bytes"] <= 10)
    show("ms to open", filled["open_ms"], "<= 50", filled["open_ms"] <= 50)
    print(f"filled in {filled['secs']:.1f} s: {urls / filled['secs']:.0f} fingerprints/s")


def memory_mib(name: str) -> float:
    """A figure of this process's memory, as the kernel reports it."""
    status = Path("/proc/self/status").read_text()
    return (
        next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name)) / 1024
    )


def fill(urls: int) -> None:
    """Fills a set, in a separate process; prints the time and space it took, as JSON."""
    with tempfile.TemporaryDirectory() as work:
        before = memory_mib("VmRSS")
        seen = SharedSeen(f"{work}/seen", 10.0)
        seen.users = 1
        draw = random.Random(5).randbytes
        start = time.perf_counter()
        for _ in range(urls):
            seen.add(draw(20))
        secs = time.perf_counter() - start
        mib = memory_mib("VmHWM") - before
        seen.close()
        took = disk(work)[1]
        opened: list[SharedSeen] = []
        open_ms = timed(lambda: opened.append(SharedSeen(f"{work}/seen", 10.0))) * 1000
        assert len(opened[0]) == urls
        opened[0].users = 1
        opened[0].close()
    result = {"mib": mib, "bytes": took / urls, "open_ms": open_ms, "secs": secs}
    print(json.dumps(result))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--urls", type=int, default=10_000_000)
    parser.add_argument("--only", choices=["cache", "crawl", "dupes", "fill"])
    given = parser.parse_args()
    if given.only == "fill":
        return fill(given.urls)
    if given.only in (None, "cache"):
        bench_cache(given.folder, given.pages, given.rounds)
    if given.only in (None, "crawl"):
        bench_crawl(given.folder, given.rounds)
    if given.only in (None, "dupes"):
        bench_dupes(given.urls, given.rounds)
    return None


if __name__ == "__main__":
    main()
