"""Crawls of a local site with the cache, the filter and the page store."""

import pytest

pytest.importorskip("scrapy.crawler", reason="Scrapy is not installed")

import os
import random
import signal
import subprocess
import time
from pathlib import Path

from helpers import IS_SOAK, Site, crawl, crawl_command, store_of

PAGES = 60
COMPRESSION = {"COMPRESSION_ENABLED": True}


def settings(folder: Path, **more: object) -> dict[str, object]:
    return {"HTTPCACHE_DIR": str(folder / "cache"), **more}


def test_a_second_crawl_asks_for_nothing(cache: str) -> None:
    with Site() as site:
        first = crawl(f"{site.url}/all/{PAGES}", HTTPCACHE_DIR=cache)
        asked = dict(site.asked)
        second = crawl(f"{site.url}/all/{PAGES}", HTTPCACHE_DIR=cache)
    assert first["httpcache/store"] == second["httpcache/hit"] == PAGES + 1
    assert first["item_scraped_count"] == second["item_scraped_count"] == PAGES + 1
    assert dict(site.asked) == asked
    if not cache.startswith("http://"):
        assert len(list(Path(cache, "pages.fm").iterdir())) <= 12


def test_old_entries_are_revalidated_and_304_brings_them_back(cache: str) -> None:
    policy = {"HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy"}
    given = {"HTTPCACHE_DIR": cache, **policy}
    with Site() as site:
        crawl(f"{site.url}/all/{PAGES}", **given)
        for _ in range(2):
            again = crawl(f"{site.url}/all/{PAGES}", **given)
            assert again["httpcache/revalidate"] == PAGES
            assert again["item_scraped_count"] == PAGES + 1
        assert sum(site.not_modified.values()) == 2 * PAGES


def test_a_job_resumes_without_what_it_has_seen(tmp_path: Path) -> None:
    job = settings(tmp_path, JOBDIR=str(tmp_path / "job"), HTTPCACHE_ENABLED=False)
    job["DUPEFILTER_CLASS"] = "filemap.scrapy.FileMapDupeFilter"
    with Site() as site:
        first = crawl(f"{site.url}/all/{PAGES}", **job)
        assert first["item_scraped_count"] == PAGES + 1
        again = crawl(f"{site.url}/all/{PAGES}", **job)
        assert again["dupefilter/filtered"] == PAGES
        assert site.asked["/page/7"] == 1


def test_a_job_that_was_killed_is_told_of(tmp_path: Path) -> None:
    job = settings(tmp_path, JOBDIR=str(tmp_path / "job"), HTTPCACHE_ENABLED=False)
    job["DUPEFILTER_CLASS"] = "filemap.scrapy.FileMapDupeFilter"
    with Site() as site:
        arguments = (f"{site.url}/all/2000",)
        with subprocess.Popen(crawl_command(*arguments, **job), stderr=subprocess.DEVNULL) as run:
            while site.asked.total() < 50:
                time.sleep(0.01)
            run.send_signal(signal.SIGKILL)
        again = crawl(*arguments, **job)
        assert again["filemap/dupefilter/killed"] == 1
        assert "filtered as seen" in again["stderr"]
        assert "filemap/dupefilter/killed" not in crawl(*arguments, **job)


@pytest.mark.parametrize("of", ["cache", "pages"])
def test_a_spider_whose_store_cannot_be_opened_closes(tmp_path: Path, of: str) -> None:
    more: dict[str, object] = {"HTTPCACHE_ENABLED": of == "cache", "DOWNLOAD_DELAY": 0.05}
    if of == "pages":
        more["DOWNLOADER_MIDDLEWARES"] = {"filemap.scrapy.PageStoreMiddleware": 905}
    with Site() as site:
        stats = crawl(
            f"{site.url}/all/{PAGES}",
            **settings(tmp_path, FILEMAP_OPTIONS={"no_option": 1}, **more),
        )
        assert stats["finish_reason"] == "filemap_unavailable"
        assert site.asked.total() < PAGES
    assert "its store cannot be opened" in stats["stderr"]
    assert "no_option" in stats["stderr"]


def test_the_page_store_keeps_history_and_skips_what_is_fresh(cache: str) -> None:
    given = {
        "HTTPCACHE_ENABLED": False,
        "DOWNLOADER_MIDDLEWARES": {"filemap.scrapy.PageStoreMiddleware": 905},
        "FILEMAP_STORE": cache if cache.startswith("http://") else f"{cache}/pages.fm",
    }
    with Site() as site:
        start = f"{site.url}/all/{PAGES}"
        first = crawl(start, "one", **given)
        assert first["filemap/stored"] == PAGES + 1
        # Another spider, and nothing has changed: all pages are revalidated, none is sent.
        second = crawl(start, "two", **given)
        assert second["filemap/revalidated"] == PAGES
        assert second["item_scraped_count"] == PAGES + 1
        asked = sum(site.asked.values())
        third = crawl(start, "three", **given, FILEMAP_MAX_AGE=3600)
        assert third["filemap/hit"] == PAGES + 1
        assert sum(site.asked.values()) == asked
        site.version = 2
        fourth = crawl(start, "four", **given)
        assert fourth["filemap/stored"] == PAGES
        url = f"{site.url}/page/7"
    with store_of(cache) as pages:
        assert b"the site 2" in pages[url].body
        bodies = [head.unchanged for head in pages.history(url)]
        assert bodies == [False, True, False]
        assert len(pages) == PAGES + 1


def kills() -> int:
    return int(os.environ.get("FILEMAP_TEST_KILLS", "100" if IS_SOAK else "3"))


def test_a_killed_crawl_asks_for_no_stored_page_again(tmp_path: Path) -> None:
    import filemap

    pages = 400
    cache = tmp_path / "cache" / "pages.fm"
    given = settings(tmp_path, FILEMAP_SHARED=True, RETRY_ENABLED=False)
    random.seed(7)
    with Site() as site:
        start = f"{site.url}/all/{pages}"
        for _ in range(kills()):
            process = subprocess.Popen(
                crawl_command(start, **given), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            until = time.monotonic() + 300
            have = sum(site.asked.values())
            while sum(site.asked.values()) < min(have + 20, pages) and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(random.random() * 0.3)
            process.send_signal(signal.SIGKILL)
            process.wait()
            time.sleep(0.2)
            stored = [path for path in site.asked if has(cache, f"{site.url}{path}")]
            before = {path: site.asked[path] for path in stored}
            again = crawl(start, **given, CLOSESPIDER_ITEMCOUNT=max(len(stored), 1))
            assert "httpcache/hit" in again
            assert {path: site.asked[path] for path in stored} == before
        final = crawl(start, **given)
        assert final["item_scraped_count"] == pages + 1
        assert "filemap/cache/retrieve_error" not in final
        assert "httpcache/retrieve_error" not in final
    with filemap.open(cache, "w") as store:
        assert store.verify().ok


def has(cache: Path, url: str) -> bool:
    import filemap

    with filemap.open(cache) as store:
        return any(True for _ in store.variants(url))


@pytest.mark.parametrize("processes", [4])
def test_crawls_of_many_processes_share_a_cache_and_a_filter(
    tmp_path: Path, processes: int
) -> None:
    given = settings(
        tmp_path,
        FILEMAP_SHARED=True,
        FILEMAP_SEEN=str(tmp_path / "seen"),
        DUPEFILTER_CLASS="filemap.scrapy.FileMapDupeFilter",
    )
    with Site() as site:
        start = f"{site.url}/all/200"
        running = [
            subprocess.Popen(
                crawl_command(start, f"spider{n}", **given),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for n in range(processes)
        ]
        ends = [process.communicate(timeout=120) for process in running]
        assert [process.returncode for process in running] == [0] * processes, ends
        assert not any("LockedError" in stderr for _, stderr in ends)
        # Exactly one of the spiders got each page, and each was requested once.
        assert {site.asked[f"/page/{n}"] for n in range(200)} == {1}
