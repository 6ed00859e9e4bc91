"""Asks pywb, over a live fm-serve, for every capture of WARC files, and holds each answer against the file.

usage: live.py FOLDER_OF_PROGRAMS WAYBACK WORK FILE...

A redirect between www. and the bare host is not compared: both have one key in an index, so pywb takes it for a redirect to
itself and goes on to the next capture.
"""

import http.client
import io
import os
import random
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

FIELDS = "urlkey,timestamp,original,mimetype,statuscode,digest,length"
STATUSES = ["200 OK", "404 Not Found", "301 Moved Permanently", "500 Oops", "203 Fine"]


def request(nth, rng):
    """Method, URL, type and body of the nth request."""
    if nth % 6 == 0:
        return "POST", "http://made.example/form", "application/x-www-form-urlencoded", b"a=%d&b=x+y" % nth
    if nth % 6 == 1:
        body = b'{"n":%d,"deep":{"list":[1,2,"three"]},"t":true}' % nth
        return "POST", "http://made.example/api", "application/json", body
    if nth % 30 == 2:
        return "PUT", "http://made.example/put", "application/octet-stream", rng.randbytes(50)
    return "GET", f"http://made{nth % 5}.example/page/{nth}?q={nth % 3}&r=%26", None, b""


def make(path):
    """300 captures, each with its request."""
    rng = random.Random(7)
    with open(path, "wb") as file:
        writer = WARCWriter(file, gzip=True)
        for nth in range(300):
            method, url, kind, body = request(nth, rng)
            answer = rng.randbytes(rng.randrange(1, 5000))
            status = STATUSES[nth % 5]
            fields = [("Content-Type", "application/x-test"), ("Content-Length", str(len(answer)))]
            if status.startswith("301"):
                fields.append(("Location", f"http://elsewhere.example/{nth}"))
            date = {"WARC-Date": "2026-11-20T%02d:%02d:00Z" % divmod(nth, 60)}
            head = StatusAndHeaders(status, fields, protocol="HTTP/1.1")
            response = writer.create_warc_record(
                url, "response", payload=io.BytesIO(answer), http_headers=head, warc_headers_dict=date
            )
            fields = [("Host", urlsplit(url).netloc)]
            if kind:
                fields += [("Content-Type", kind), ("Content-Length", str(len(body)))]
            head = StatusAndHeaders(f"{method} {url} HTTP/1.1", fields, is_http_request=True)
            date["WARC-Concurrent-To"] = response.rec_headers.get_header("WARC-Record-ID")
            asked = writer.create_warc_record(
                url, "request", payload=io.BytesIO(body), http_headers=head, warc_headers_dict=date
            )
            writer.write_record(response)
            writer.write_record(asked)


def captures(path):
    """URL, stamp, status and body of each answer, with method, type and body of its request."""
    answers, requests = [], {}
    with open(path, "rb") as file:
        for record in ArchiveIterator(file):
            header = record.rec_headers.get_header
            if record.http_headers is None:
                continue
            if record.rec_type == "request":
                found = record.http_headers.protocol, record.http_headers.get_header("Content-Type")
                of = found + (record.content_stream().read(),)
                requests[header("WARC-Concurrent-To")] = requests[header("WARC-Record-ID")] = of
            elif record.rec_type == "response" and header("WARC-Target-URI").startswith("http"):
                stamp = "".join(digit for digit in header("WARC-Date")[:19] if digit.isdigit())
                ids = header("WARC-Record-ID"), header("WARC-Concurrent-To")
                status, place = record.http_headers.get_statuscode(), record.http_headers.get_header("Location")
                answers.append((header("WARC-Target-URI"), stamp, status, place, record.content_stream().read(), ids))
    for url, stamp, status, place, body, ids in answers:
        asked = next((requests[id] for id in ids if id in requests), ("GET", None, b""))
        yield url, stamp, status, place, body, (asked[0].split(" ")[0],) + asked[1:]


def bare(url):
    parts = urlsplit(url)
    return parts.netloc.removeprefix("www."), parts.path, parts.query


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port):
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"nothing listens at {port}")


def main():
    programs, wayback, work, *files = sys.argv[1:]
    made = os.path.join(work, "made.warc.gz")
    make(made)
    files.append(made)
    store = os.path.join(work, "pages.fm")
    how = ["--in-place"] if os.environ.get("IN_PLACE") else []
    subprocess.run([f"{programs}/fm-tool", "--quiet", "import", *how, store, *files], check=True)
    serve, replay = free_port(), free_port()
    with open(os.path.join(work, "config.yaml"), "w", encoding="utf-8") as config:
        config.write(
            "collections:\n  live:\n    index:\n      type: cdx\n"
            f"      api_url: http://127.0.0.1:{serve}/cdx?url={{url}}&closest={{closest}}&sort=closest&fl={FIELDS}\n"
            f"      replay_url: http://127.0.0.1:{serve}/web/{{timestamp}}id_/{{url}}\n"
        )
    server = subprocess.Popen([f"{programs}/fm-serve", store, "--listen", f"127.0.0.1:{serve}", "--quiet"])
    with open(os.path.join(work, "pywb.log"), "w", encoding="utf-8") as log:
        pywb = subprocess.Popen([wayback, "-p", str(replay), "--bind", "127.0.0.1"], cwd=work, stdout=log, stderr=log)
    same, skipped, other = {}, 0, []
    try:
        wait_for(serve)
        wait_for(replay)
        for path in files:
            for url, stamp, status, place, body, (method, kind, data) in captures(path):
                if place and bare(place) == bare(url):
                    skipped += 1
                    continue
                client = http.client.HTTPConnection("127.0.0.1", replay, timeout=60)
                headers = {"Content-Type": kind} if kind else {}
                client.request(method, f"/live/{stamp}id_/{url}", body=data or None, headers=headers)
                answer = client.getresponse()
                if (str(answer.status), answer.read()) == (status, body):
                    same[method] = same.get(method, 0) + 1
                else:
                    other.append(f"{method} {url} of {stamp}: {answer.status} for {status}")
    finally:
        server.terminate()
        pywb.terminate()
    print(f"pywb: {sum(same.values())} captures replayed byte for byte {same}, {skipped} redirects to www. not compared")
    if other or sum(same.values()) < 300 or not {"POST", "PUT"} <= set(same):
        sys.exit("\n".join(["these differ:", *other]))


main()
