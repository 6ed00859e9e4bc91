"""A store or a set on this machine that is full or damaged: no request and no response is lost."""

import pytest

pytest.importorskip("scrapy.crawler", reason="Scrapy is not installed")

from pathlib import Path
from unittest import mock

from helpers import crawler_of, storage_of
from scrapy.http import Request, Response

import filemap
import scrapy
from filemap.scrapy import FileMapDupeFilter, PageStoreMiddleware

URL = "http://example.com/a"
FAILURES = [
    filemap.StoreIOError(28, "no space"),
    filemap.CorruptError("torn"),
    OSError(110, "late"),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_the_page_store_asks_again_and_gives_the_response_on(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    crawler = crawler_of(FILEMAP_STORE=str(tmp_path / "pages.fm"), FILEMAP_MAX_AGE=100)
    middleware = PageStoreMiddleware.from_crawler(crawler)
    assert crawler.spider is not None and crawler.stats is not None
    middleware.spider_opened(crawler.spider)
    request, response = Request(URL), Response(URL, body=b"it")
    assert middleware.process_response(request, response) is response
    assert middleware.process_request(Request(URL)) is not None
    assert middleware._pages is not None
    failing = mock.Mock(held=None, call=mock.Mock(side_effect=error))
    with mock.patch.object(middleware._pages, "_member", failing):
        assert middleware.process_request(Request(URL)) is None
        assert middleware.process_response(request, response) is response
    with mock.patch.object(middleware._pages, "close", side_effect=error):
        closing = middleware._pages
        middleware.spider_closed(crawler.spider)
    closing.close()
    for stat in ("stored", "hit", "retrieve_error", "store_error", "close_error"):
        assert crawler.stats.get_value(f"filemap/{stat}") == 1, stat
    assert f"{URL} is not stored: {error}" in caplog.text


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_an_entry_of_the_cache_that_cannot_be_read_is_counted(
    tmp_path: Path, error: Exception
) -> None:
    with storage_of(tmp_path) as storage:
        failing = mock.Mock(held=None, call=mock.Mock(side_effect=error))
        assert storage._stats is not None
        with mock.patch.object(storage.pages, "_member", failing):
            if scrapy.version_info >= (2, 18):
                with pytest.raises(type(error)):
                    storage.retrieve_response(None, Request(URL))
            else:
                assert storage.retrieve_response(None, Request(URL)) is None
        assert storage._stats.get_value("filemap/cache/retrieve_error") == 1


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_a_filter_that_fails_takes_requests_for_new_and_ends_the_crawl(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    crawler = crawler_of(JOBDIR=str(tmp_path))
    ours = FileMapDupeFilter.from_crawler(crawler)
    ours.open()
    assert crawler.stats is not None and ours._seen is not None
    assert not ours.request_seen(Request(URL))
    assert ours.request_seen(Request(URL))
    with (
        mock.patch.object(ours._seen, "add", side_effect=error),
        mock.patch("filemap.scrapy.dupefilter.close_unavailable") as closing,
    ):
        assert not ours.request_seen(Request(URL))
        assert not ours.request_seen(Request(URL))
    closing.assert_called_once_with(crawler.spider)
    assert crawler.stats.get_value("filemap/dupefilter/unanswered") == 2
    assert "it is not known what was seen" in caplog.text
    ours.close("filemap_unavailable")
