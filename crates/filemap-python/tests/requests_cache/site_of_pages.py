"""A small web site on the loopback address: pages, redirects, cookies, codings."""

import gzip
import http.server


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Site"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer()

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked += 1
        body = f"<p>\u00e4 page: {self.path}</p>".encode() * 20
        fields = [("Content-Type", "text/html; charset=utf-8"), ("X-Path", self.path)]
        status = 200
        if path.startswith("/redirect"):
            status, body = 302, b"elsewhere"
            fields.append(("Location", path.replace("/redirect", "", 1) or "/"))
        elif path == "/cookies":
            fields += [("Set-Cookie", "a=1; Path=/"), ("Set-Cookie", "b=2; Path=/")]
        elif path == "/gzip":
            body = gzip.compress(body)
            fields.append(("Content-Encoding", "gzip"))
        elif path == "/binary":
            body = bytes(range(256)) * 10
            fields[0] = ("Content-Type", "application/octet-stream")
        elif path == "/missing":
            status = 404
        elif path == "/spoof":
            fields.append(("X-Crawler-Requests", '{"url": "http://evil.example/"}'))
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Site(http.server.ThreadingHTTPServer):
    """A web site with pages, redirects and cookies; `asked` counts the requests."""

    daemon_threads = True
    asked = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"
