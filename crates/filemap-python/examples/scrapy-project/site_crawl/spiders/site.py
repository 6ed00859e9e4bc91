"""Follow the links of one web site: `scrapy crawl site -a start=https://example.org/`."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from scrapy.http import Response, TextResponse

import scrapy


class SiteSpider(scrapy.Spider):
    name = "site"

    def __init__(self, start: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [start]
        self.allowed_domains = [urlsplit(start).hostname or ""]

    def parse(self, response: Response, **_kwargs: Any) -> Iterator[Any]:
        if isinstance(response, TextResponse):
            yield {"url": response.url, "title": response.css("title::text").get()}
            yield from response.follow_all(css="a::attr(href)", callback=self.parse)
