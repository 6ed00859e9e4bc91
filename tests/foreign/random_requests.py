#!/usr/bin/env python3
"""Sends random requests to fm-serve: nothing may panic, and no answer be 500 but a capture's own.

usage: tests/foreign/random_requests.py FOLDER_OF_fm-serve_AND_fm-tool [NUMBER [SEED]]

Each is a request of the server's routes and parameters with values that are odd, and at times a few bytes changed.
"""

import collections
import os
import random
import re
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROUTES = os.path.join(HERE, "../../crates/filemap-http/src/server/routes.rs")
URLS = [
    "http://docs.python.localhost/3.11/tutorial/index.html", "http://a/", "https://x.y/z?q=1&r=%26", "dns:x", "", "no url",
    "http://[::1]:1/", "http://" + "a" * 300, "%00", "\udcff", "http://a/\r\nX: y", "*.archive.org", "http://a/*", "ftp://u@h/",
    "http://www.archive.org/?__wb_method=POST&a=1",
]
PARAMETERS = (
    "url variant at version format time status rule durable host domain prefix kind reverse cursor after limit cursors q "
    "matchType from to closest sort filter fl output figures x"
).split()
VALUES = [
    "1", "0", "-1", "9" * 21, "2024", "20240501000000", "9999", "99991231235959", "-9223372036854775808", "1.1", "body", "page",
    "9223372036854775807.18446744073709551615", "always", "if-new", "pages", "variants", "exact", "prefix", "domain", "reverse",
    "closest", "json", "urlkey", "!status:2..", "status:(((", "status:a{1000}{1000}", "AAAA", "%%%", "%zz", "\x00", "\xe9",
]
HEADERS = [
    "Range: bytes=0-0", "Range: bytes=5-", "Range: bytes=-" + "9" * 20, "If-None-Match: *", 'If-Match: "x"',
    "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT", "If-Unmodified-Since: x", "Accept-Encoding: br, gzip, zstd",
    "Accept-Datetime: Thu, 01 Jan 2099 00:00:00 GMT", "Content-Type: application/x-ndjson", "Content-Type: application/warc",
    "Content-Type: application/wacz", "Content-Type: application/vnd.filemap.page", "Content-Type: text/html",
    "Expect: 100-continue", "Transfer-Encoding: chunked", "Content-Encoding: gzip", "X-Archive-Orig-A: b", "Origin: http://evil",
    "Host: evil", "Connection: upgrade", "Upgrade: h2c", "Idempotency-Key: 018bcfe5-6800-7707-8707-070707070707",
    "Idempotency-Key: x", 'Idempotency-Key: "ffffffff-ffff-7fff-bfff-ffffffffffff"',
]
SETS = ["pages", "other", "x" * 65, "..", "A", "%00", "a/b"]
STAMPS = ["2023id_/", "20131021215312id_/", "id_/", "99id_/", "20240501/", "9999id_/"]


class Requests:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        with open(ROUTES, encoding="utf-8") as source:
            self.paths = re.findall(r'\.route\("([^"{]*)', source.read()) + ["/nothing"]

    def escaped(self, text):
        data = text.encode("utf-8", "surrogateescape")
        return "".join(chr(b) if chr(b).isalnum() and b < 128 and self.rng.random() < 0.5 else f"%{b:02X}" for b in data)

    def body(self):
        rng = self.rng
        return rng.choice([
            b"", b"x", rng.randbytes(rng.randrange(2000)), b'{"url":"http://a/","time_ms":1,"body":"x"}\n', b'{"url":"http://a/"}\n{',
            b'{"kind":"%s"}' % rng.choice([b"disk", b"trie", b"bloom", b"growing", b"x"]), b'{"kind":"bloom","capacity":1e3,"rate":-1}',
            b'{"kind":"md5-bitmap","capacity":18446744073709551615}', b"\n" * rng.randrange(9), b"http://a/\r\nhttp://a/\n" + b"x" * 70000,
            b"WARC/1.0\r\n\r\n", b"PK\x03\x04" + rng.randbytes(50), b"http://a/\nno url\n\n", b"\x1f\x8b" + rng.randbytes(30),
        ])

    def one(self):
        rng = self.rng
        method = rng.choice(["GET"] * 6 + ["HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE"])
        target = rng.choice(self.paths)
        if target == "/v1/seen/":
            target += rng.choice(SETS) + rng.choice(["", "", "/add", "/add", "/check", "/none"])
        elif target.endswith("/") and target != "/":
            url = rng.choice(URLS)
            url = rng.choice([url, self.escaped(url)])
            target += (rng.choice(STAMPS) if target == "/web/" else "") + re.sub(r"\s", "", url)
        pairs = []
        for _ in range(rng.randrange(4)):
            name = rng.choice(PARAMETERS)
            value = rng.choice(URLS if name in ("url", "prefix", "after", "q") else VALUES + URLS)
            pairs.append(f"{name}=" + (self.escaped(value) if rng.random() < 0.8 else re.sub(r"\s", "+", value)))
        target += "?" + "&".join(pairs) if pairs else ""
        body = self.body() if method in ("PUT", "POST", "PATCH", "DELETE") or rng.random() < 0.05 else b""
        lines = [f"{method} {target} HTTP/1.1"] + (["Host: localhost"] if rng.random() < 0.97 else [])
        lines += rng.sample(HEADERS, rng.randrange(3)) + ["Connection: close"]
        if body and rng.random() < 0.95:
            lines.append(f"Content-Length: {len(body)}")
        sent = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + body
        if rng.random() < 0.03:
            at = rng.randrange(len(sent))
            sent = sent[:at] + rng.randbytes(rng.randrange(1, 4)) + sent[at + 1 :]
        return sent


def answer(address, sent):
    with socket.create_connection(address, 10) as stream:
        stream.settimeout(30)
        received = b""
        try:
            stream.sendall(sent)
            while part := stream.recv(65536):
                received += part
        except ConnectionError:
            pass
    return received


def main():
    programs = os.path.realpath(sys.argv[1])
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    requests = Requests(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    statuses, bad = collections.Counter(), []
    with tempfile.TemporaryDirectory() as work:
        store = os.path.join(work, "pages.fm")
        data = os.path.join(HERE, "../data/warc")
        files = [os.path.join(data, name) for name in ("python-docs.warc.gz", "IAH-urls-wget.warc.gz")]
        subprocess.run([f"{programs}/fm-tool", "--quiet", "import", store, *files], check=True)
        command = [f"{programs}/fm-serve", store, "--write", "--listen", "127.0.0.1:0", "--idle", "2s"]
        command += ["--seen-dir", os.path.join(work, "sets"), "--seen-memory", "1MiB"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            port = int(server.stderr.readline().rsplit(":", 1)[1])
            for _ in range(number):
                sent = requests.one()
                received = answer(("127.0.0.1", port), sent)
                status = received[9:12].decode("latin-1") if received.startswith(b"HTTP/1.1") else "none"
                statuses[status] += 1
                if status == "500" and b"memento-datetime" not in received.lower():
                    bad.append((sent[:300], received[:300]))
                if server.poll() is not None:
                    sys.exit(f"the server ended: {sent}")
        finally:
            server.terminate()
        words = server.stderr.read()
    print(f"requests: {number} answered {dict(sorted(statuses.items()))}")
    if bad or "panicked" in words:
        sys.exit(f"{len(bad)} are 500, first {bad[:3]}; the log: {words[-2000:]}")


if __name__ == "__main__":
    main()
