"""Holds what an import stored against warcio, body by body.

usage: bodies.py FM_TOOL FILE...

Each WARC or ARC file is imported into its own store, and so are ARC files that are made here. Every response and resource
that warcio reads must be in the store with its URL and time and, byte for byte, its body as warcio decodes it or, where it does
not decode, as it came; every revisit must be there, with the body of its original if that is in the same file.
"""

import base64
import datetime
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed


def arc(version):
    """An ARC file of this version: 1.0 or 1.1."""
    fields = "URL IP-address Archive-date Content-type Archive-length\n"
    about = "<arcmetadata>\n</arcmetadata>\n" if version == "1 1" else ""
    block = f"{version} InternetArchive\n{fields}{about}"
    records = [f"filedesc://made.arc 0.0.0.0 20060622190110 text/plain {len(block)}\n{block}\n"]
    for at, body in enumerate(["first\n\nhttp://no/ 1 2 3\n", "", "third" * 1000]):
        message = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{body}"
        line = f"http://made.example/{at} 1.2.3.4 2006062219011{at} text/plain {len(message)}\n"
        records.append(f"{line}{message}\n")
    return [record.encode() for record in records]


def made(folder):
    for name, version in (("one", "1 0"), ("two", "1 1")):
        records = arc(version)
        for suffix, data in (("arc", b"".join(records)), ("arc.gz", b"".join(gzip.compress(r) for r in records))):
            path = os.path.join(folder, f"{name}.{suffix}")
            with open(path, "wb") as file:
                file.write(data)
            yield path


def as_bytes(line, name):
    if name + "_base64" in line:
        return base64.b64decode(line[name + "_base64"])
    return line.get(name, "").encode("utf-8", "surrogateescape")


def stored(tool, store):
    """Bodies by URL, and the times of each."""
    out = subprocess.run([tool, "dump", store, "--quiet"], capture_output=True, check=True).stdout
    for line in out.splitlines():
        line = json.loads(line)
        yield as_bytes(line, "url").replace(b" ", b"%20"), line["time_ms"], line["kind"], as_bytes(line, "body")


def time_ms(text):
    """None: an invalid date, which a rule has mended."""
    try:
        if text.isdigit():
            time = datetime.datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=datetime.timezone.utc)
        else:
            time = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
        return int(time.timestamp() * 1000)
    except ValueError:
        return None


def whole(records):
    """The records up to the first that warcio does not take."""
    try:
        yield from records
    except ArchiveLoadFailed:
        return


def read_with_warcio(path):
    """The pages of a file: kind, URL, time, and the body in every form that warcio has it in."""
    forms = []
    for raw in (True, False):
        with open(path, "rb") as file:
            records = []
            for record in whole(ArchiveIterator(file, no_record_parse=raw, arc2warc=True)):
                if record.rec_type not in ("response", "resource", "revisit"):
                    continue
                header = record.rec_headers
                url = header.get_header("WARC-Target-URI").strip("<>").encode("utf-8", "surrogateescape").replace(b" ", b"%20")
                body = record.raw_stream.read() if raw else record.content_stream().read()
                records.append((record.rec_type, url, time_ms(header.get_header("WARC-Date")), body))
            forms.append(records)
    for (kind, url, time, block), (_, _, _, body) in zip(*forms):
        as_came = block.split(b"\r\n\r\n", 1)[-1]
        yield kind, url, time, (body, as_came, block)


def check(tool, path, folder):
    store = os.path.join(folder, hashlib.sha1(path.encode()).hexdigest())
    ran = subprocess.run([tool, "import", store, path, "--quiet"], capture_output=True, text=True)
    assert ran.returncode in (0, 3), f"{path}: the import ended with {ran.returncode}: {ran.stderr}"
    pages, bodies, revisits = set(), {}, 0
    if os.path.isdir(store):
        for url, time, kind, body in stored(tool, store):
            pages.add((url, time))
            bodies.setdefault(url, set()).add(body)
    read = list(read_with_warcio(path))
    for kind, url, time, forms in read:
        assert url in bodies, f"{path}: {url} is not in the store"
        assert time is None or (url, time) in pages, f"{path}: {url} of {time} is not in the store"
        if kind == "revisit":
            revisits += 1
            continue
        assert bodies[url] & set(forms), f"{path}: {url} has another body: {[len(form) for form in forms]}"
    print(f"{os.path.basename(path)}: {len(read)} pages, {revisits} of them revisits, are in the store, bodies and all")


def main():
    tool, files = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        for path in list(made(folder)) + files:
            check(tool, path, folder)


main()
