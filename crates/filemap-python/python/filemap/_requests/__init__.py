"""The parts of `filemap.requests_cache`."""
