"""Crawls the tests' web site in a separate process.

    crawl_site.py SETTINGS_JSON START_URL [SPIDER_NAME]

Follows the links of the start page once, and those of other pages if `FOLLOW` is set. Its last
line of output is its stats as JSON.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from scrapy.crawler import CrawlerProcess
from scrapy.http import Response

import scrapy


class SiteSpider(scrapy.Spider):
    name = sys.argv[3] if len(sys.argv) > 3 else "site"
    start_urls = (sys.argv[2],)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        assert self.settings.getbool("PLAIN") or b"<!DOCTYPE html>" in response.body
        yield {"url": response.url, "bytes": len(response.body)}
        if response.url == sys.argv[2] or self.settings.getbool("FOLLOW"):
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link)


process = CrawlerProcess(
    {
        "LOG_LEVEL": "INFO",
        "TELNETCONSOLE_ENABLED": False,
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_STORAGE": "filemap.scrapy.FileMapCacheStorage",
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DOWNLOAD_DELAY": 0,
        **json.loads(sys.argv[1]),
    }
)
crawler = process.create_crawler(SiteSpider)
process.crawl(crawler)
process.start()
assert crawler.stats is not None
print(json.dumps(crawler.stats.get_stats(), default=str))
