"""A Scrapy project that keeps its cache, its dupe filter and its pages in FileMap."""
