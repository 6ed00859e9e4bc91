"""Answers to other requests than GET: the index of a dump has the keys that cdxj-indexer makes of the dump's WARC files.

usage: methods.py make FILE        writes a WARC file of requests and answers, with warcio
       methods.py check FOLDER     compares NAME.cdxj with what cdxj-indexer --post-append says of NAME-*.warc*

Left out of the file is what the tools themselves have two rules for: true, false, null and whole fractions in JSON (cdxj-indexer
1.5: True, None, 44.0; pywb 2.10, which looks pages up, and this store: true, null, 44), and empty bodies of no known type.
cdxj-indexer gives methods other than POST and PUT the key of a GET; those lines are compared without their keys.
"""

import glob
import io
import json
import sys

from cdxj_indexer.main import CDXJIndexer
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

FORM = "application/x-www-form-urlencoded"
PARTS = b'--xy\r\nContent-Disposition: form-data; name="a b"\r\n\r\n1&2\r\n--xy\r\nContent-Disposition: form-data; name="f"; filename="n"\r\nContent-Type: image/png\r\n\r\n\xff\x00\r\n\r\n--xy--\r\n'
REQUESTS = [
    ("GET", "", b""),
    ("POST", FORM, b"q=1"),
    ("POST", FORM, b"q=2&Z=a+b%26c&x=%C3%BC#top"),
    ("POST", FORM, b"\xff"),
    ("POST", FORM, ("q=" + "ü" * 5000 + "x").encode()),
    ("PUT", FORM + "; charset=utf-8", b"q=1"),
    ("POST", "application/json", b'{"a":{"b":1,"a":"x y"},"b":[2,2.5,"\xc3\xbc"],"n":123456789012345678901234567890}'),
    ("POST", "application/json", b"no document"),
    ("POST", "text/plain;charset=UTF-8", b'[{"a":"b"},{"a":"c"}]'),
    ("POST", "text/plain", b"hello"),
    ("POST", "multipart/form-data; boundary=xy", PARTS),
    ("PUT", "application/octet-stream", bytes(range(256)) * 20),
    ("OPTIONS", "", b""),
    ("HEAD", "", b""),
]
URLS = ["http://www.a.example/Api", "https://a.example/api?b=2&a=1", "http://a.example/?"]


def make(path):
    with open(path, "wb") as file:
        writer = WARCWriter(file, gzip=True)
        for nth, (url, (method, mime, body)) in enumerate((url, request) for url in URLS for request in REQUESTS):
            date = {"WARC-Date": f"2020-01-01T00:{nth // 60:02}:{nth % 60:02}Z"}
            answer = StatusAndHeaders("200 OK", [("Content-Type", "text/plain")], protocol="HTTP/1.1")
            content = io.BytesIO(f"{method} {nth}".encode())
            response = writer.create_warc_record(url, "response", content, http_headers=answer, warc_headers_dict=date)
            headers = [("Content-Length", str(len(body)))] + ([("Content-Type", mime)] if mime else [])
            head = StatusAndHeaders(f"{method} / HTTP/1.1", headers, is_http_request=True)
            request = writer.create_warc_record(url, "request", io.BytesIO(body), http_headers=head, warc_headers_dict=date)
            pair = [response, request]
            if nth % 2:
                pair.reverse()
            pair[1].rec_headers.add_header("WARC-Concurrent-To", pair[0].rec_headers.get_header("WARC-Record-ID"))
            for record in pair:
                writer.write_record(record)


def lines(text):
    for line in text.splitlines():
        key, stamp, fields = line.split(" ", 2)
        fields = json.loads(fields)
        fields["digest"] = fields["digest"].removeprefix("sha1:")
        yield (fields["filename"], int(fields["offset"])), (key, stamp, fields)


def check(folder):
    (path,) = glob.glob(f"{folder}/*.cdxj")
    ours = dict(lines(open(path, encoding="utf-8").read()))
    out = io.StringIO()
    CDXJIndexer(out, sorted(glob.glob(f"{folder}/*.warc*")), post_append=True).process_all()
    theirs = dict(lines(out.getvalue()))
    assert ours.keys() == theirs.keys(), f"{len(ours)} lines, theirs are {len(theirs)}"
    assert len(ours) == len(URLS) * len(REQUESTS), len(ours)
    compared = 0
    for place, (key, stamp, fields) in ours.items():
        their_key, their_stamp, their_fields = theirs[place]
        if fields.get("method") not in ("OPTIONS", "HEAD"):
            assert key == their_key, f"{key}\nis not\n{their_key}"
            assert fields == their_fields, f"{fields}\nis not\n{their_fields}"
            compared += 1
        assert stamp == their_stamp
    keys = [key for key, _, _ in ours.values()]
    # One key for http and https, and www., is what an index wants; the queries of the URLs differ.
    assert len(set(keys)) == len(REQUESTS) * len(URLS), len(set(keys))
    print(f"{path}: {compared} lines are those of cdxj-indexer, and no two answers have one key")


{"make": make, "check": check}[sys.argv[1]](sys.argv[2])
