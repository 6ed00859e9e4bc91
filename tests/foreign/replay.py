"""Reads what a dump wrote with other people's readers, and holds every byte against the dump's JSON Lines.

usage: replay.py FM_TOOL STORE FOLDER

FOLDER has the dump of STORE in all forms: NAME.jsonl, NAME-*.warc* and NAME.cdxj. Every version of a page must be in the WARC
files with the same URL, time, status, headers and body; a revisit must lead to the body that `fm-tool get` prints; the index
must be sorted, have the keys that the `surt` package makes, and lead to each record.
"""

import base64
import glob
import io
import json
import subprocess
import sys
import warnings

warnings.simplefilter("ignore")

import surt
from fastwarc.warc import ArchiveIterator as FastIterator
from fastwarc.warc import WarcRecordType
from warcio.archiveiterator import ArchiveIterator

PAGES = ("response", "resource", "revisit")


def as_bytes(line, name):
    if name + "_base64" in line:
        return base64.b64decode(line[name + "_base64"])
    return line.get(name, "").encode()


def expected(folder):
    """The versions of pages, in the order of the dump."""
    (path,) = glob.glob(f"{folder}/*.jsonl")
    lines = [json.loads(line) for line in open(path, encoding="utf-8")]
    return [line for line in lines if line["kind"] in PAGES]


def read_with_warcio(path):
    with open(path, "rb") as file:
        for record in ArchiveIterator(file):
            if record.rec_type in PAGES:
                header = dict(record.rec_headers.headers)
                message = record.http_headers if "http" in header.get("Content-Type", "") else None
                status = None if message is None else int(message.get_statuscode())
                fields = None if message is None else list(message.headers)
                body = record.raw_stream.read()
                if message is None and "http" in header.get("Content-Type", "") and body:
                    # It takes messages apart under http and https only.
                    head, body = body.split(b"\r\n\r\n", 1)
                    status = int(head.split(b" ")[1])
                yield header, status, fields, body


def read_with_fastwarc(path):
    types = WarcRecordType.response | WarcRecordType.resource | WarcRecordType.revisit
    with open(path, "rb") as file:
        for record in FastIterator(file, record_types=types, parse_http=True):
            header = {name: value for name, value in record.headers}
            message = record.http_headers if "http" in header.get("Content-Type", "") else None
            status = None if message is None else message.status_code
            yield header, status, None, record.reader.read()


def fetched(tool, store, line):
    url = as_bytes(line, "url")
    got = subprocess.run([tool, "get", store, url, "--at", str(line["time_ms"])], capture_output=True, check=True)
    return got.stdout


def check_records(name, records, lines, body_of):
    records = list(records)
    assert len(records) == len(lines), f"{name}: {len(records)} records, {len(lines)} versions"
    originals = {}
    revisits = 0
    for (header, status, fields, body), line in zip(records, lines):
        what = f"{name}: {header['WARC-Target-URI']} {header['WARC-Date']}"
        assert header["WARC-Date"] == line["time"], what
        url = as_bytes(line, "url")
        if url.isascii() and b" " not in url:
            assert header["WARC-Target-URI"].encode() == url, what
        if "status" in line:
            assert status == line["status"], what
        if fields is not None:
            # warcio gives text: UTF-8, or else Latin-1.
            encodings = [[value.encode(encoding, "replace") for _, value in fields] for encoding in ("utf-8", "latin-1")]
            assert [as_bytes(field, "value") for field in line["headers"]] in encodings, what
        if header["WARC-Type"] == "revisit":
            revisits += 1
            body = originals[header["WARC-Refers-To-Target-URI"], header["WARC-Refers-To-Date"]]
        else:
            originals[header["WARC-Target-URI"], header["WARC-Date"]] = body
        assert body == body_of(line), f"{what}: {len(body)} bytes"
    print(f"{name}: {len(records)} records, {revisits} of them revisits, are the store's, byte for byte")


def check_index(folder, files):
    (path,) = glob.glob(f"{folder}/*.cdxj")
    lines = open(path, "rb").read().split(b"\n")
    assert lines.pop() == b"" and lines == sorted(lines), f"{path} is not sorted"
    for line in lines:
        key, stamp, fields = line.decode().split(" ", 2)
        fields = json.loads(fields)
        assert key == surt.surt(fields["url"]), f"{fields['url']}: {key}, not {surt.surt(fields['url'])}"
        assert len(stamp) == 14 and stamp.isdigit(), line
        if fields["filename"].endswith(".zst"):
            continue
        begin = int(fields["offset"])
        member = files[fields["filename"]][begin : begin + int(fields["length"])]
        (record,) = list(ArchiveIterator(io.BytesIO(member)))
        assert record.rec_headers.get_header("WARC-Target-URI") == fields["url"], line
        digest = record.rec_headers.get_header("WARC-Payload-Digest")
        is_web = fields["url"].startswith(("http:", "https:"))
        assert digest == "sha1:" + fields["digest"] or digest is None and not is_web, line
        if record.rec_type == "response" and is_web:
            assert record.http_headers.get_statuscode() == fields["status"], line
    print(f"{path}: {len(lines)} lines, sorted, with the keys of surt, lead to their records")
    return len(lines)


def main(tool, store, folder):
    lines = expected(folder)
    paths = sorted(glob.glob(f"{folder}/*.warc*"))
    bodies = {}

    def body_of(line):
        if line["kind"] != "revisit":
            return as_bytes(line, "body")
        key = (as_bytes(line, "url"), line["time_ms"])
        if key not in bodies:
            bodies[key] = fetched(tool, store, line)
        return bodies[key]

    readers = [("fastwarc", read_with_fastwarc)]
    if not paths[0].endswith(".zst"):
        readers.append(("warcio", read_with_warcio))
    for name, reader in readers:
        records = (record for path in paths for record in reader(path))
        check_records(f"{name} on {folder}", records, lines, body_of)
    files = {path.rsplit("/", 1)[1]: open(path, "rb").read() for path in paths}
    assert check_index(folder, files) == len(lines)


main(*sys.argv[1:])
