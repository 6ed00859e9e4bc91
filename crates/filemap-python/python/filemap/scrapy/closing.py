"""Closes a spider whose store cannot be opened, or was lost.

Scrapy logs an exception of a `spider_opened` handler, and continues: the crawl would run to its
end and keep nothing.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

from scrapy.exceptions import CloseSpider

from scrapy import Spider, signals

logger = logging.getLogger(__name__)

REASON: Final = "filemap_unavailable"
"""The `finish_reason` of such a spider."""

_SOON_SECS: Final = 0.05


@contextmanager
def or_close(spider: Spider) -> Generator[None]:
    """Raises any exception of its body, and closes the spider."""
    try:
        yield
    except Exception as error:
        what = "Closing the spider, since its store cannot be opened: %(error)s"
        logger.error(what, {"error": error}, extra={"spider": spider})
        close_unavailable(spider)
        raise


def close_unavailable(spider: Spider) -> None:
    """Closes a spider, soon, with `REASON`."""
    # If each request fails, the spider becomes idle sooner.
    spider.crawler.signals.connect(_end, signal=signals.spider_idle)
    _later(0, lambda: _close(spider))


def _end() -> None:
    raise CloseSpider(REASON)


def _later(secs: float, call: Callable[[], None]) -> None:
    try:
        from scrapy.utils.asyncio import call_later
    except ImportError:  # Before Scrapy 2.14.
        from twisted.internet import reactor

        cast(Any, reactor).callLater(secs, call)
    else:
        call_later(secs, call)


def _close(spider: Spider) -> None:
    engine: Any = spider.crawler.engine
    if engine is None:
        return
    slot = getattr(engine, "_slot", None) or getattr(engine, "slot", None)
    if slot is None or slot.closing is not None:
        return  # It is closed or closing.
    if not slot.heartbeat.running:
        # It is still being opened.
        _later(_SOON_SECS, lambda: _close(spider))
    elif hasattr(engine, "close_spider_async"):
        from scrapy.utils.defer import deferred_from_coro

        deferred_from_coro(engine.close_spider_async(reason=REASON))
    else:
        engine.close_spider(spider, REASON)
