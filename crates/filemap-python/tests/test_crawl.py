"""`filemap.crawl` against a local web site: answers, exceptions, Ctrl-C, refusals."""

import gzip
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import filemap

PAGES = 40


def links(number: int) -> list[int]:
    """The pages that a page links to: a tree with four children each."""
    return [child for child in range(4 * number + 1, 4 * number + 5) if child < PAGES]


class Site:
    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.delay = 0.0
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked[self.path] += 1
                time.sleep(site.delay)
                name = self.path.strip("/") or "0"
                known = name.isdigit() and int(name) < PAGES or name == "more"
                number = int(name) if name.isdigit() else PAGES
                anchors = "".join(f"<a href=/{child}>x</a>" for child in links(number))
                body = f"<html lang=en><p>page {name}{anchors}".encode() if known else b"absent"
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def stored(path: Path) -> list[str]:
    with filemap.open(path) as store:
        return [str(url) for url in store.urls() if not str(url).endswith("/robots.txt")]


def test_each_page_is_shown_once_and_answers_change_what_becomes_of_it(
    site: Site, path: Path
) -> None:
    shown: list[str] = []

    def look(crawled: filemap.CrawledPage) -> filemap.PageReply | None:
        shown.append(crawled.url)
        assert crawled.page.status == 200 and crawled.page.body.startswith(b"<html lang=en><p>page")
        assert crawled.page.headers["content-type"].startswith("text/html")
        assert crawled.fields == {"lang": "en"} and crawled.key == crawled.url
        number = int(crawled.url.rsplit("/")[-1] or "0") if "more" not in crawled.url else PAGES
        assert len(crawled.links) == len(links(number))
        if crawled.url == site.url:
            assert crawled.depth == 0 and "CrawledPage(" in repr(crawled)
            return {"links": ["more"], "fields": {"first": "yes"}}
        if crawled.url.endswith("/1"):
            return {"follow": False}
        if crawled.url.endswith("/2"):
            return {"store": False}
        return None

    summary = filemap.crawl(
        path, site.url, on_page=look, rate=0, allow_private=True, fields=["lang"], connections=8
    )
    below = {5, 6, 7, 8} | {child for page in (5, 6, 7, 8) for child in links(page)}
    assert len(shown) == len(set(shown)) == PAGES - len(below) + 1 == summary.fetched
    assert (summary.end, summary.queued, summary.missing, summary.ok) == ("complete", 0, 0, True)
    assert 'end="complete"' in repr(summary) and summary.reasons.get("hook-failed") is None
    urls = stored(path)
    assert f"{site.url}more" in urls and f"{site.url}2" not in urls and f"{site.url}1" in urls


def test_warc_files_are_written_on_the_way(site: Site, path: Path, tmp_path: Path) -> None:
    to = tmp_path / "warc"
    summary = filemap.crawl(path, site.url, warc=to, rate=0, address_rate=0, allow_private=True)
    assert summary.ok and summary.warc_damaged == 0
    (name,) = [entry.name for entry in to.iterdir() if entry.name.endswith(".gz")]
    text = gzip.decompress((to / name).read_bytes()).decode("utf-8", "replace")
    urls = [line.split(": ")[1] for line in text.splitlines() if line.startswith("WARC-Target-URI")]
    assert sorted(url for url in urls if not url.endswith("robots.txt")) == sorted(stored(path))
    with pytest.raises(TypeError):
        filemap.crawl(path, warc=7)  # type: ignore[typeddict-item]


def test_what_a_callback_raises_ends_the_crawl_and_no_page_is_lost(site: Site, path: Path) -> None:
    class Enough(Exception):
        pass

    done: Counter[str] = Counter()
    raised = Enough("no more")

    def look(crawled: filemap.CrawledPage) -> None:
        if len(done) >= 5 and crawled.url not in done:
            raise raised
        done[crawled.url] += 1

    options: filemap.CrawlOptions = {"rate": 0, "allow_private": True, "host_connections": 4}
    with pytest.raises(Enough) as caught:
        filemap.crawl(path, [site.url], on_page=look, **options)
    assert caught.value is raised and len(done) == 5
    # A page that no callback accepted is not stored.
    assert sorted(stored(path)) == sorted(done)
    rest: Counter[str] = Counter()
    summary = filemap.crawl(path, on_page=lambda crawled: rest.update([crawled.url]), **options)
    assert summary.ok and summary.fetched == PAGES - 5
    assert (
        len(rest) == PAGES - 5 and not set(rest) & set(done) and set((done + rest).values()) == {1}
    )
    assert len(stored(path)) == PAGES


@pytest.mark.parametrize("answer", [7, {"other": 1}, {"links": 7}, {"fields": {"a": 1}}, {1: 2}])
def test_an_answer_that_is_none_ends_the_crawl(site: Site, path: Path, answer: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        filemap.crawl(path, site.url, on_page=lambda _: answer, allow_private=True)  # type: ignore[arg-type, return-value]


def test_options_of_pages_and_hosts_hold(site: Site, path: Path, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.toml"
    hosts.write_text('[hosts."127.0.0.1"]\npages = 6\n')
    summary = filemap.crawl(
        path,
        site.url,
        rate=0,
        allow_private=True,
        hosts=hosts,
        accept_types=["text/*"],
        reject_extensions=["zip"],
        follow_nofollow=True,
        attempts=2,
        patience=60,
        max_body=60,  # of the start page two links of four
    )
    assert summary.ok and summary.reasons["host-pages-limit"] > 0 and len(stored(path)) <= 6
    assert summary.reasons["body-limit"] > 0 and f"{site.url}3" not in stored(path)
    summary = filemap.crawl(path, f"{site.url}more", allow_private=True, accept_types=["image/*"])
    assert summary.reasons["type"] == 1 and f"{site.url}more" not in stored(path)


def test_what_is_not_stored_is_not_ok(site: Site, path: Path) -> None:
    options: filemap.CrawlOptions = {"rate": 0, "allow_private": True, "max_pages": 1}
    answer: filemap.PageReply = {"fields": {"no name": "x", "good": "y"}}
    summary = filemap.crawl(path, site.url, on_page=lambda _: answer, **options)
    assert (summary.ok, summary.missing, summary.reasons.get("hook-failed")) == (False, 0, 1)
    with filemap.open(path, "a") as store:
        store.erase(reason="a wish", url=f"{site.url}1")
    summary = filemap.crawl(path, rate=0, allow_private=True)
    assert (summary.ok, summary.missing, summary.reasons.get("unstorable")) == (False, 0, 1)
    assert f"{site.url}1" not in stored(path) and f"{site.url}2" in stored(path)


def test_other_threads_run_while_a_crawl_waits(site: Site, path: Path) -> None:
    site.delay = 0.5
    ticks = 0
    end = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not end.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    filemap.crawl(path, site.url, rate=0, allow_private=True, max_pages=2)
    end.set()
    thread.join()
    assert ticks > 50


PROGRAM = """
import sys, filemap
def look(crawled):
    print(crawled.url, flush=True)
try:
    filemap.crawl(sys.argv[1], sys.argv[2], on_page=look, rate=5, allow_private=True)
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(7)
"""


def test_ctrl_c_ends_it_cleanly_and_the_next_call_goes_on(site: Site, path: Path) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path), site.url], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    first = [program.stdout.readline().strip() for _ in range(3)]
    program.send_signal(signal.SIGINT)
    out, _ = program.communicate(timeout=120)
    *more, last = out.split()
    assert (program.returncode, last) == (7, "interrupted")
    seen = {*first, *more}
    assert set(stored(path)) == seen and len(seen) < PAGES
    rest: list[str] = []
    summary = filemap.crawl(
        path, on_page=lambda crawled: rest.append(crawled.url), rate=0, allow_private=True
    )
    assert summary.ok and len(rest) == PAGES - len(seen) and not seen & set(rest)


def test_what_cannot_be_is_refused_and_nothing_is_made(site: Site, path: Path) -> None:
    for seeds, options in [
        ([], {}),
        (["ftp://a/"], {}),
        (["http://a.example/"], {"contact": "nobody"}),
        (["http://a.example/"], {"scope": "planet"}),
        (["http://a.example/"], {"fields": ["title"]}),
        (["http://a.example/"], {"proxy": "gopher://a"}),
        (["http://a.example/"], {"bind": "here"}),
        (["http://a.example/"], {"resolve": ["x"]}),
        (["http://a.example/"], {"include": ["("]}),
        (["http://a.example/"], {"rate": -1.0}),
        (["http://a.example/"], {"accept_types": ["html"]}),
        (["http://a.example/"], {"reject_extensions": ["a/b"]}),
        (["http://a.example/"], {"hosts": "no-such-file.toml"}),
        (["http://a.example/"], {"attempts": -1}),
    ]:
        with pytest.raises(filemap.InvalidValueError):
            filemap.crawl(path, seeds, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no option"):
        filemap.crawl(path, site.url, speed=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="rate"):
        filemap.crawl(path, site.url, rate="fast")  # type: ignore[arg-type]
    assert not path.exists() and not path.with_name("pages.fm.crawl").exists()


def test_a_store_that_somebody_writes_is_locked(site: Site, path: Path) -> None:
    with filemap.open(path, "x", free_space_floor=0), pytest.raises(filemap.LockedError):
        filemap.crawl(path, site.url, allow_private=True)
    assert site.asked.total() == 0
