"""Scrapy on a store of pages: its cache, its filter of duplicates, and the pages themselves.

    HTTPCACHE_ENABLED = True
    HTTPCACHE_STORAGE = "filemap.scrapy.FileMapCacheStorage"
    DUPEFILTER_CLASS = "filemap.scrapy.FileMapDupeFilter"
    DOWNLOADER_MIDDLEWARES = {"filemap.scrapy.PageStoreMiddleware": 905}

Each line works without the others. Needs Scrapy 2.13 or later. Any number of processes may use one
store at a time: the first serves the others (`filemap.scrapy.broker`). Several machines share one
behind an `fm-serve`, whose address replaces the path (`filemap.scrapy.addresses`).
"""

from .cache import FileMapCacheStorage
from .dupefilter import FileMapDupeFilter
from .pages import PageStoreMiddleware

__all__ = ["FileMapCacheStorage", "FileMapDupeFilter", "PageStoreMiddleware"]
