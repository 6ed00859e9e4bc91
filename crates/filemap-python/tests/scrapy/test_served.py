"""Crawls with their cache, pages and seen set on an `fm-serve`, as on several machines."""

import pytest

pytest.importorskip("scrapy.crawler", reason="Scrapy is not installed")

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from helpers import Site, crawl, crawl_command, storage_of
from scrapy.http import Request, Response

import filemap
from filemap import seen
from fm_serve import Server

PAGES = 200
READ, WRITE, ADMIN = "read-token-000001", "write-token-00001", "admin-token-00001"
NO_SERVER = "http://127.0.0.1:1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "sets").mkdir()
    server = Server(tmp_path / "pages.fm", "--write", "--seen-dir", str(tmp_path / "sets"))
    yield server
    server.stop()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    """A server that requires a token."""
    (tmp_path / "sets").mkdir()
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {READ}\nwrite {WRITE}\nadmin {ADMIN}\n")
    sets = ("--write", "--seen-dir", str(tmp_path / "sets"))
    server = Server(tmp_path / "pages.fm", *sets, "--token-file", str(tokens))
    yield server
    server.stop()


def settings_of(server: Server, **more: Any) -> dict[str, Any]:
    return {
        "HTTPCACHE_DIR": server.location,
        "FILEMAP_SHARED": True,
        "FILEMAP_SEEN": server.seen("requests"),
        "FILEMAP_SEEN_DURABLE": True,
        "DUPEFILTER_CLASS": "filemap.scrapy.FileMapDupeFilter",
        **more,
    }


def begin(*arguments: str, **settings: Any) -> "subprocess.Popen[str]":
    command = crawl_command(*arguments, **settings)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(running: "subprocess.Popen[str]") -> dict[str, Any]:
    """Waits for a crawl; returns its stats, with its standard error."""
    stdout, stderr = running.communicate(timeout=300)
    assert running.returncode == 0, stderr
    stats = json.loads(stdout.splitlines()[-1])
    assert isinstance(stats, dict)
    return {**stats, "stderr": stderr}


def wait_for(site: Site, asked: int) -> None:
    until = time.monotonic() + 120
    while site.asked.total() < asked:
        assert time.monotonic() < until, site.asked
        time.sleep(0.01)


def stored_in(server: Server, site: Site) -> set[str]:
    """The paths of the site's pages in the store."""
    with filemap.open(server.location) as store:
        return {url.removeprefix(site.url) for url in store.urls(variants=True)}


def pages(count: int = PAGES) -> set[str]:
    return {f"/page/{n}" for n in range(count)}


def test_crawlers_share_a_store_and_a_seen_set_and_fetch_each_url_once(server: Server) -> None:
    given = settings_of(server)
    with Site() as site:
        start = f"{site.url}/all/{PAGES}"
        running = [begin(start, f"spider{n}", **given) for n in range(3)]
        ends = [end(process) for process in running]
        assert {site.asked[path] for path in pages()} == {1}
        scraped = [stats["item_scraped_count"] for stats in ends]
        # Start requests are not filtered, so each crawler gets that page.
        assert sum(scraped) == PAGES + 3
        assert all(stats["finish_reason"] == "finished" for stats in ends)
        assert not any("filemap/cache/store_error" in stats for stats in ends)
        assert stored_in(server, site) == pages() | {f"/all/{PAGES}"}
        assert ends[-1]["filemap/dupefilter/fingerprints"] <= PAGES
        # The server and a crawler start again: all URLs are still seen.
        server.stop()
        server.start()
        again = end(begin(start, "spider0", **given))
        assert again["dupefilter/filtered"] == PAGES
        assert again["item_scraped_count"] == 1
        # A crawler with another set finds all pages in the store.
        given["FILEMAP_SEEN"] = server.seen("others")
        other = end(begin(start, "spider3", **given))
        assert other["httpcache/hit"] == PAGES + 1
        assert {site.asked[path] for path in pages()} == {1}
    with seen.open(server.seen("requests"), "r") as known:
        assert len(known) == PAGES


def test_a_server_that_dies_and_comes_back_costs_nothing(server: Server) -> None:
    with Site() as site:
        start = f"{site.url}/all/{PAGES}"
        given = settings_of(server, DOWNLOAD_DELAY=0.01, CONCURRENT_REQUESTS_PER_DOMAIN=4)
        running = [begin(start, f"spider{n}", **given) for n in range(2)]
        for kill in range(3):
            wait_for(site, 30 + 30 * kill)
            server.kill()
            time.sleep(0.3)
            server.start()
        ends = [end(process) for process in running]
        assert [stats["finish_reason"] for stats in ends] == ["finished"] * 2
        assert {site.asked[path] for path in pages()} == {1}
        assert sum(stats["item_scraped_count"] for stats in ends) == PAGES + 2
        for stats in ends:
            assert not [name for name in stats if name.endswith(("_error", "unanswered"))]
        assert stored_in(server, site) == pages() | {f"/all/{PAGES}"}


def test_a_server_that_is_gone_for_good_ends_the_crawl_and_a_job_goes_on(
    server: Server, tmp_path: Path
) -> None:
    given = settings_of(server, JOBDIR=str(tmp_path / "job"), FILEMAP_PATIENCE_SECS=0.5)
    given |= {"DOWNLOAD_DELAY": 0.01, "CONCURRENT_REQUESTS_PER_DOMAIN": 2, "FOLLOW": True}
    count = 10_000  # The number of pages; each links to five.
    with Site() as site:
        start = f"{site.url}/all/20"
        running = begin(start, **given)
        wait_for(site, 15)
        server.kill()
        stats = end(running)
        assert stats["finish_reason"] == "filemap_unavailable"
        assert site.asked.total() < count // 10
        assert "Closing the spider, since it is not known what was seen" in stats["stderr"]
        assert server.location in stats["stderr"]
        assert stats["filemap/dupefilter/unanswered"] > 0
        # Pages that are not in the store were reported and counted.
        fetched = {path for path in site.asked if path != "/all/20"}
        server.start()
        missing = fetched - stored_in(server, site)
        assert missing and len(missing) <= stats["filemap/cache/store_error"]
        for path in missing:
            assert f"{site.url}{path} is not stored: " in stats["stderr"]
        # The job continues, and leaves out no page that it had to fetch.
        given |= {"DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS_PER_DOMAIN": 16, "FOLLOW": False}
        again = end(begin(start, **given))
        assert again["finish_reason"] == "finished"
        assert {f"/page/{n}" for n in range(20)} <= set(site.asked)


def test_a_crawl_goes_on_without_its_cache_and_counts_what_it_lacks(server: Server) -> None:
    with Site() as site:
        start = f"{site.url}/all/{PAGES}"
        given = {"HTTPCACHE_DIR": server.location, "FILEMAP_PATIENCE_SECS": 0.5}
        # The server is killed before the last page, on a busy machine too.
        given |= {"DOWNLOAD_DELAY": 0.04, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}
        running = begin(start, **given)
        wait_for(site, 30)
        server.kill()
        stats = end(running)
        assert stats["finish_reason"] == "finished"
        assert stats["item_scraped_count"] == PAGES + 1 == site.asked.total()
        assert stats["filemap/cache/close_error"] == 1
        assert stats["filemap/cache/retrieve_error"] > 0
        assert "fail at once from now on, until the server answers one" in stats["stderr"]
        server.start()
        stored = stored_in(server, site)
        # One page may be stored although its answer did not arrive.
        lacking = PAGES + 1 - len(stored)
        assert 0 < lacking <= stats["filemap/cache/store_error"] <= lacking + 1


def test_the_page_store_goes_on_without_its_server_and_counts(server: Server) -> None:
    given = {
        "HTTPCACHE_ENABLED": False,
        "DOWNLOADER_MIDDLEWARES": {"filemap.scrapy.PageStoreMiddleware": 905},
        "FILEMAP_STORE": server.location,
        "FILEMAP_PATIENCE_SECS": 0.5,
        "DOWNLOAD_DELAY": 0.04,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
    }
    with Site() as site:
        running = begin(f"{site.url}/all/{PAGES}", **given)
        wait_for(site, 30)
        server.kill()
        stats = end(running)
        assert stats["item_scraped_count"] == PAGES + 1 == site.asked.total()
        assert stats["filemap/stored"] + stats["filemap/store_error"] == PAGES + 1
        assert stats["filemap/close_error"] == 1
        assert stats["filemap/retrieve_error"] > 0
        server.start()
        with filemap.open(server.location) as store:
            assert stats["filemap/stored"] <= len(store) <= stats["filemap/stored"] + 1


@pytest.mark.parametrize("of", ["cache", "pages", "seen"])
@pytest.mark.parametrize("wrong", ["token", "no token", "may only read", "nobody there"])
def test_a_crawl_that_may_not_use_its_server_ends_soon(
    guarded: Server, monkeypatch: pytest.MonkeyPatch, of: str, wrong: str
) -> None:
    address = NO_SERVER if wrong == "nobody there" else guarded.location
    monkeypatch.setenv("FILEMAP_TOKEN", ADMIN)
    with seen.open(guarded.seen("requests")):
        pass
    tokens = {"token": "wrong-token-00001", "no token": "", "may only read": READ}
    monkeypatch.setenv("FILEMAP_TOKEN", tokens.get(wrong, ADMIN))
    given: dict[str, Any] = {"HTTPCACHE_ENABLED": of == "cache", "DOWNLOAD_DELAY": 0.05}
    given["FILEMAP_PATIENCE_SECS"] = 0.5
    if of == "cache":
        given["HTTPCACHE_DIR"] = address
    elif of == "pages":
        given["DOWNLOADER_MIDDLEWARES"] = {"filemap.scrapy.PageStoreMiddleware": 905}
        given["FILEMAP_STORE"] = address
    else:
        given["DUPEFILTER_CLASS"] = "filemap.scrapy.FileMapDupeFilter"
        given["FILEMAP_SEEN"] = f"{address}/v1/seen/requests"
    with Site() as site:
        stats = crawl(f"{site.url}/all/{PAGES}", **given)
        assert site.asked.total() < PAGES // 2
    assert address in stats["stderr"]
    assert stats.get("finish_reason") != "finished"
    assert not any(token in stats["stderr"] for token in (READ, WRITE, ADMIN, "wrong-token-00001"))


@pytest.mark.parametrize("how", ["environment", "settings"])
def test_a_token_opens_all_and_stands_in_no_log(
    guarded: Server, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    given = settings_of(guarded, LOG_LEVEL="DEBUG")
    if how == "environment":
        monkeypatch.setenv("FILEMAP_TOKEN", WRITE)
    else:
        given["FILEMAP_TOKEN"] = WRITE
    with Site() as site:
        stats = crawl(f"{site.url}/all/20", **given)
        assert stats["finish_reason"] == "finished" and stats["item_scraped_count"] == 21
        assert stats["httpcache/store"] == 21 and "filemap/cache/store_error" not in stats
        monkeypatch.setenv("FILEMAP_TOKEN", READ)
        with filemap.open(guarded.location) as store:
            assert len(list(store.urls(variants=True))) == 21
    assert WRITE not in stats["stderr"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"FILEMAP_OPTIONS": {"keep_versions": 2}}, "keep_versions is an option of stores on"),
        ({"HTTPCACHE_DIR": "{location}/nothing/here"}, "nothing/here"),
        ({"FILEMAP_STORE": "http://u:secret7@127.0.0.1:1"}, "no user and no password"),
        ({"FILEMAP_SEEN": "{location}"}, "none can be made"),
        ({"FILEMAP_SEEN": "{location}/v1/seen/UPPER"}, "UPPER"),
        ({"FILEMAP_SEEN": "http://u:secret7@127.0.0.1:1/v1/seen/a"}, "no user and no password"),
    ],
)
def test_wrong_addresses_are_named(server: Server, settings: dict[str, Any], said: str) -> None:
    given = settings_of(server, DOWNLOAD_DELAY=0.05, FILEMAP_STORE=server.location)
    given["DOWNLOADER_MIDDLEWARES"] = {"filemap.scrapy.PageStoreMiddleware": 905}
    for name, value in settings.items():
        is_text = isinstance(value, str)
        given[name] = value.replace("{location}", server.location) if is_text else value
    with Site() as site:
        stats = crawl(f"{site.url}/all/{PAGES}", **given)
        assert site.asked.total() < PAGES // 2
    assert said in stats["stderr"]
    assert stats.get("finish_reason") != "finished" and "secret7" not in stats["stderr"]


def store(storage: Any, url: str, body: bytes) -> None:
    storage.store_response(None, Request(url), Response(url, body=body))


def test_expiring_counts_and_needs_a_token_that_may_remove(
    guarded: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def left(token: str) -> tuple[int, Callable[[str], Any]]:
        monkeypatch.setenv("FILEMAP_TOKEN", token)
        settings = {"HTTPCACHE_EXPIRATION_SECS": 10, "FILEMAP_PATIENCE_SECS": 0.2}
        later = mock.patch("filemap.scrapy.cache.time", return_value=time.time() + 100)
        with later, storage_of(guarded.location, **settings) as storage:
            stats = storage._stats
        assert stats is not None
        with filemap.open(guarded.location) as kept:
            return len(list(kept.urls(variants=True))), stats.get_value

    monkeypatch.setenv("FILEMAP_TOKEN", WRITE)
    with storage_of(guarded.location) as storage:
        for n in range(30):
            store(storage, f"http://a.example/{n}", b"old")
    with storage_of(guarded.location, "other") as storage:
        store(storage, "http://a.example/1", b"of another spider")
    count, value = left(WRITE)
    assert (count, value("filemap/cache/expire_error")) == (31, 1)
    assert "Expired entries are not all removed" in caplog.text
    count, value = left(ADMIN)
    assert (count, value("filemap/cache/expired")) == (1, 30)
    assert value("filemap/cache/expire_error") is None


def test_what_a_rule_refuses_is_counted_as_that(tmp_path: Path) -> None:
    with filemap.open(tmp_path / "pages.fm", "x") as pages:
        pages.erase(host="gone.example", reason="asked for")
    server = Server(tmp_path / "pages.fm", "--write")
    try:
        with storage_of(server.location) as storage:
            store(storage, "http://gone.example/", b"a")
            store(storage, "http://here.example/", b"b")
            storage._failed(storage.pages.settle())
            stats = storage._stats
            assert stats is not None and stats.get_value("filemap/cache/refused") == 1
            assert stats.get_value("filemap/cache/store_error") is None
            assert storage.retrieve_response(None, Request("http://gone.example/")) is None
            assert storage.retrieve_response(None, Request("http://here.example/")) is not None
    finally:
        server.stop()
