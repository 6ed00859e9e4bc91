"""Settings: the three parts of FileMap are the last lines."""

import os

BOT_NAME = "site_crawl"
SPIDER_MODULES = ["site_crawl.spiders"]
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 8
DOWNLOAD_DELAY = float(os.environ.get("SITE_DELAY", "0.25"))
DATA = os.environ.get("SITE_DATA", "data")

# Answers are cached: a second run sends no requests.
HTTPCACHE_ENABLED = True
HTTPCACHE_STORAGE = "filemap.scrapy.FileMapCacheStorage"
HTTPCACHE_DIR = os.path.join(os.path.abspath(DATA), "cache")

# Seen requests are kept on disk; with a JOBDIR they outlive the run.
DUPEFILTER_CLASS = "filemap.scrapy.FileMapDupeFilter"

# Each page is kept with its history, for all spiders.
DOWNLOADER_MIDDLEWARES = {"filemap.scrapy.PageStoreMiddleware": 905}
FILEMAP_STORE = os.path.join(os.path.abspath(DATA), "pages.fm")
