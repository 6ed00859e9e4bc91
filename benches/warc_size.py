#!/usr/bin/env python3
"""Writes the corpus as one WARC.gz by warcio, with the headers of a real response, and its CDXJ.

    benches/warc_size.py CORPUS OUT

leaves OUT/corpus.warc.gz and OUT/corpus.cdxj. `benches/warc_size.sh` imports the file into FileMap
and compares the sizes. Pages are in the order of a crawl, as in src/corpus.rs. Needs warcio, surt.
"""
import base64
import hashlib
import io
import json
import random
import sys
from datetime import datetime, timezone
from email.utils import formatdate
from pathlib import Path

import surt
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

SITES = [
    ("rust-doc", "usr/share/doc/rust-doc/html", "https://doc.rust-lang.org/stable", "AmazonS3"),
    ("libstdc++-12-doc", "usr/share/doc/gcc-12-base/libstdc++", "https://gcc.gnu.org/onlinedocs/libstdc++", "Apache/2.4.37"),
    ("postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html", "https://www.postgresql.org/docs/15", "nginx"),
    ("qtbase5-doc-html", "usr/share/qt5/doc", "https://doc.qt.io/qt-5", "nginx/1.18.0"),
    ("libboost1.81-doc", "usr/share/doc/libboost1.81-doc/doc", "https://www.boost.org/doc/libs/1_81_0", "Apache"),
    ("python3.11-doc", "usr/share/doc/python3.11/html", "https://docs.python.org/3.11", "nginx"),
    ("openjdk-17-doc", "usr/share/doc/openjdk-17-jre-headless", "https://docs.oracle.com/en/java/javase/17/docs", "Oracle-HTTP-Server"),
]
START = 1_700_000_000


def crawl_order(corpus: Path):
    placed = []
    for site, (package, root, prefix, server) in enumerate(SITES):
        root = corpus / package / root
        paths = sorted(p for p in root.rglob("*.html") if p.is_file() and not p.is_symlink())
        random.Random(site).shuffle(paths)
        for i, path in enumerate(paths):
            url = f"{prefix}/{path.relative_to(root)}"
            placed.append(((2 * i + 1) / (2 * len(paths)), site, url, server, path))
    placed.sort(key=lambda p: p[:2])
    return [p[2:] for p in placed]


def headers_of(body: bytes, seconds: int, server: str):
    """Headers that servers of such pages send."""
    return [
        ("Date", formatdate(seconds, usegmt=True)),
        ("Server", server),
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Last-Modified", formatdate(seconds - 86_400 * (1 + len(body) % 900), usegmt=True)),
        ("ETag", '"%s"' % hashlib.md5(body).hexdigest()),
        ("Connection", "keep-alive"),
        ("Vary", "Accept-Encoding"),
        ("Cache-Control", "max-age=3600"),
        ("Strict-Transport-Security", "max-age=31536000"),
        ("Accept-Ranges", "bytes"),
    ]


def main(corpus: str, out: str):
    lines = []
    with open(Path(out) / "corpus.warc.gz", "wb") as warc:
        writer = WARCWriter(warc, gzip=True)
        for i, (url, server, path) in enumerate(crawl_order(Path(corpus))):
            body, seconds = path.read_bytes(), START + i // 10
            http = StatusAndHeaders("200 OK", headers_of(body, seconds, server), protocol="HTTP/1.1")
            when = datetime.fromtimestamp(seconds, timezone.utc)
            record = writer.create_warc_record(
                url, "response", payload=io.BytesIO(body), http_headers=http,
                warc_headers_dict={"WARC-Date": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "WARC-IP-Address": "192.0.2.7"},
            )
            offset = warc.tell()
            writer.write_record(record)
            digest = "sha1:" + base64.b32encode(hashlib.sha1(body).digest()).decode()
            fields = {
                "url": url, "mime": "text/html", "status": "200", "digest": digest,
                "length": str(warc.tell() - offset), "offset": str(offset), "filename": "corpus.warc.gz",
            }
            lines.append(f"{surt.surt(url)} {when:%Y%m%d%H%M%S} {json.dumps(fields)}\n")
    lines.sort()
    (Path(out) / "corpus.cdxj").write_text("".join(lines))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: benches/warc_size.py CORPUS OUT")
    main(*sys.argv[1:])
