"""Makes the caches beside this file with the real Scrapy and requests-cache.

    python make.py scrapy SPIDER STORAGE [GZIP]   # files, dumb, gnu, sqlite3: the dbm that is there
    python make.py requests FILE SERIALIZER [BACKEND]

Made with Scrapy 2.19.0, and requests-cache 1.2.1 (json) and 1.3.3 (pickle; files). `lite.db` has the
table of Python 3.13's dbm.sqlite3, filled by Python 3.11.
"""

import gzip
import http.server
import pathlib
import sys
import threading

HERE = pathlib.Path(__file__).parent
HTML = b"<html><body>" + b"hello world " * 20 + b"</body></html>"


def scrapy(name: str, storage: str, is_gzip: str = "") -> None:
    from scrapy import Spider
    from scrapy.extensions.httpcache import DbmCacheStorage, FilesystemCacheStorage
    from scrapy.http import HtmlResponse, Request, Response, TextResponse
    from scrapy.utils.test import get_crawler

    class Docs(Spider):
        pass

    Docs.name = name
    settings = {
        "HTTPCACHE_DIR": str((HERE / "scrapy").absolute()),
        "HTTPCACHE_GZIP": bool(is_gzip),
        "HTTPCACHE_DBM_MODULE": f"dbm.{storage}",
    }
    crawler = get_crawler(Docs, settings)
    crawler.spider = spider = Docs.from_crawler(crawler)
    made = (FilesystemCacheStorage if storage == "files" else DbmCacheStorage)(crawler.settings)
    made.open_spider(spider)

    def put(request: Request, kind: type[Response], **values: object) -> None:
        made.store_response(spider, request, kind(**{"url": request.url, **values}))

    cookies = [("Content-Type", "text/html"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
    put(Request("http://a.example/"), HtmlResponse, headers=cookies, body=HTML, encoding="utf-8")
    packed = gzip.compress(HTML, mtime=0)
    coded = {"Content-Encoding": "gzip", "Content-Length": str(len(packed))}
    put(Request("http://a.example/gz?x=1"), Response, headers=coded, body=packed)
    put(Request("http://a.example/bad"), Response, headers={"Content-Encoding": "gzip"}, body=b"not gzip")
    form = Request("http://a.example/post", method="POST", body=b"q=1")
    put(form, TextResponse, status=404, body=b"\x00\xff'\"", encoding="latin-1", flags=["a"], protocol="HTTP/2")
    made.close_spider(spider)


class Site(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes, *fields: tuple[str, str]) -> None:
        self.send_response(status)
        for field in (*fields, ("Content-Length", str(len(body)))):
            self.send_header(*field)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/gz":
            coded = ("Content-Encoding", "gzip"), ("Content-Type", "text/html")
            self.answer(200, gzip.compress(b"<p>gz</p>" * 5, mtime=0), *coded)
        elif self.path == "/moved":
            self.answer(302, b"moved", ("Location", "/gz"))
        elif self.path == "/json":
            self.answer(200, b'{"a": [1, 2.5, "\\u00e9"]}', ("Content-Type", "application/json"))
        else:
            self.answer(404, bytes(range(256)), ("Content-Type", "image/png"))

    def do_POST(self) -> None:
        self.answer(200, b"posted " + self.rfile.read(int(self.headers["Content-Length"])))


def requests(file: str, serializer: str, backend: str = "sqlite") -> None:
    from requests_cache import CachedSession

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 18765), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session = CachedSession(
        str(HERE / file),
        backend=backend,
        serializer=serializer,
        allowable_methods=("GET", "POST"),
        allowable_codes=(200, 404),
    )
    for path in ("/gz", "/moved", "/json", "/other"):
        session.get("http://127.0.0.1:18765" + path)
    session.post("http://127.0.0.1:18765/form", data={"q": "a b"})
    session.close()
    server.shutdown()


if __name__ == "__main__":
    {"scrapy": scrapy, "requests": requests}[sys.argv[1]](*sys.argv[2:])
