#!/usr/bin/env python3
"""FileMap over HTTP beside nginx and SQLite, on the same pages, in turn on the loopback.

    benches/serving.py CORPUS OUT [--rounds 5] [--seconds 3]
    benches/serving.py --only cold --store S [--pages 10000000]

CORPUS is made by corpus.sh: 20,000 pieces of 16 KB are cut from its HTML. OUT gets some 2 GB. Needs
`wrk` and `nginx` (Debian: wrk, nginx-light). Build first:

    cargo build --release -p fm-serve -p fm-tool -p filemap-benches --bins --example sqlite_http

GET: nginx with two workers serves the bodies as files; fm-serve with its defaults and with
`--cache 0`; SQLite behind axum (examples/sqlite_http.rs). PUT: new URLs, durable (201) and accepted
(202). Upload: a WARC file of all pages, beside `fm-tool import`. Prints medians of the rounds.

Cold: random GETs of a store with nothing cached, beside the library's `get_ahead` of the same URLs
in the same order, with as many ahead as the server has connections: by one thread and by two, of
which the faster counts. S is made by `fm-bench load S --pages 10000000 --as-pages`. Before each
turn the page cache is dropped, which needs root, and the server is a new one, so that its own cache
is empty too. Each body that the library gets is compared with the one put. Exits with 1 if the
ratio is missed.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

PAGES = 20_000
BYTES = 16_448
CONNECTIONS = 32
RELEASE = (
    pathlib.Path(
        os.environ.get("CARGO_TARGET_DIR", pathlib.Path(__file__).parent.parent / "target")
    )
    / "release"
)

GET = """math.randomseed(os.time())
request = function() return wrk.format("GET", "{before}" .. math.random(0, {pages} - 1) .. ".html") end
"""
# All connections take the URLs of a list in turn, each once.
COLD = """local urls, at = {{}}, 0
for url in io.lines("{urls}") do urls[#urls + 1] = url end
request = function()
  at = at % #urls + 1
  return wrk.format("GET", "/v1/page?url=" .. urls[at])
end
"""
# Rate of cold reads over HTTP by that of the library.
COLD_BAR = 0.9
# Each connection puts bodies in turn, under URLs that no other request has.
PUT = """local bodies, at = {{}}, 0
for page = 0, 1999 do
  local file = io.open("{files}/" .. page .. ".html", "rb")
  bodies[page] = file:read("*a")
  file:close()
end
request = function()
  at = at + 1
  local path = "/v1/page?{query}url=http://bench.test/{round}/" .. at .. ".html"
  return wrk.format("PUT", path, {{["Content-Type"] = "text/html"}}, bodies[at % 2000])
end
"""
NGINX = """worker_processes 2; daemon off; pid {out}/nginx/pid; error_log {out}/nginx/errors;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; types {{ text/html html; }}
  client_body_temp_path {out}/nginx/body; proxy_temp_path {out}/nginx/proxy;
  fastcgi_temp_path {out}/nginx/fastcgi; uwsgi_temp_path {out}/nginx/uwsgi; scgi_temp_path {out}/nginx/scgi;
  server {{ listen 127.0.0.1:{port}; root {files}; }}
}}
"""


def cut_pages(corpus: pathlib.Path, out: pathlib.Path) -> None:
    """Writes the bodies as files, and as one WARC file."""
    files = out / "files"
    if (out / "pages.warc").exists():
        return
    files.mkdir(parents=True)
    rest, page = b"", 0
    with open(out / "pages.warc.part", "wb") as warc:
        for path in sorted(corpus.rglob("*.html")):
            rest += path.read_bytes()
            while len(rest) >= BYTES and page < PAGES:
                body, rest = rest[:BYTES], rest[BYTES:]
                (files / f"{page}.html").write_bytes(body)
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {BYTES}\r\n\r\n".encode()
                fields = (
                    f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://bench.test/{page}.html\r\n"
                    f"WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:{page:032x}>\r\n"
                    f"Content-Type: application/http;msgtype=response\r\nContent-Length: {len(head) + BYTES}\r\n\r\n"
                )
                warc.write(fields.encode() + head + body + b"\r\n\r\n")
                page += 1
            if page == PAGES:
                break
    if page < PAGES:
        raise SystemExit(f"{corpus} has HTML for {page} pages only; {PAGES} are needed")
    # nginx's workers have another user.
    subprocess.run(["chmod", "-R", "a+rX", out], check=True)
    (out / "pages.warc.part").rename(out / "pages.warc")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Serving:
    """A server under test, from its start until it is stopped."""

    def __init__(self, *command: object, port: int | None = None) -> None:
        self.port = port or free_port()
        words = [str(word).replace("PORT", str(self.port)) for word in command]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"{words[0]} does not answer")

    def seconds(self) -> float:
        """Processor time so far."""
        fields = (
            pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def load(port: int, script: pathlib.Path, seconds: int) -> tuple[float, float, int]:
    """Requests a second, p99 in ms, and requests in all."""
    command = [
        "wrk",
        "-t1",
        f"-c{CONNECTIONS}",
        f"-d{seconds}s",
        "--latency",
        "-s",
        script,
        f"http://127.0.0.1:{port}",
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text:
        raise SystemExit(text)
    value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", text).groups()
    p99 = float(value) * {"us": 0.001, "ms": 1, "s": 1000}[unit]
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])
    return rate, p99, int(re.search(r"(\d+) requests in", text)[1])


def gets(out: pathlib.Path, rounds: int, seconds: int) -> None:
    store = out / "pages.fm"
    if not store.exists():
        subprocess.run([RELEASE / "fm-tool", "import", "-q", store, out / "pages.warc"], check=True)
        subprocess.run([RELEASE / "fm-tool", "compact", "-q", store], check=True)
    (out / "nginx").mkdir(exist_ok=True)
    port = free_port()
    (out / "nginx.conf").write_text(
        NGINX.format(out=out.resolve(), files=(out / "files").resolve(), port=port)
    )
    for name, before in ("files", "/"), ("pages", "/v1/page?url=http://bench.test/"):
        (out / f"{name}.lua").write_text(GET.format(before=before, pages=PAGES))
    database = out / "get.sqlite"
    servers = {
        "nginx": Serving("nginx", "-c", (out / "nginx.conf").resolve(), "-p", out, port=port),
        "fm-serve": Serving(RELEASE / "fm-serve", store, "--listen", "127.0.0.1:PORT"),
        "fm-serve --cache 0": Serving(
            RELEASE / "fm-serve", store, "--cache", 0, "--listen", "127.0.0.1:PORT"
        ),
        "SQLite": Serving(RELEASE / "examples/sqlite_http", database, "127.0.0.1:PORT", "--group"),
    }
    fill(servers["SQLite"].port, out / "files")
    scripts = {name: out / ("files.lua" if name == "nginx" else "pages.lua") for name in servers}
    found = {name: [] for name in servers}
    for turn in range(rounds + 1):
        for name, server in servers.items():
            figures = load(server.port, scripts[name], seconds)
            # The first round fills caches.
            if turn > 0:
                found[name].append(figures)
    for server in servers.values():
        server.stop()
    tell("GET", found, seconds, "nginx")


def fill(port: int, files: pathlib.Path) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for page in range(PAGES):
        body = (files / f"{page}.html").read_bytes()
        connection.request("PUT", f"/v1/page?url=http://bench.test/{page}.html", body)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 201:
            raise SystemExit(f"SQLite's server answers {answer.status}")


def puts(out: pathlib.Path, rounds: int, seconds: int) -> None:
    for name in "put.fm", "put.sqlite", "group.sqlite":
        shutil.rmtree(out / name, ignore_errors=True)
        for path in out.glob(f"{name}*"):
            path.unlink()
    fm = Serving(RELEASE / "fm-serve", out / "put.fm", "--write", "--listen", "127.0.0.1:PORT")
    single = Serving(RELEASE / "examples/sqlite_http", out / "put.sqlite", "127.0.0.1:PORT")
    group = Serving(
        RELEASE / "examples/sqlite_http", out / "group.sqlite", "127.0.0.1:PORT", "--group"
    )
    kinds = {
        "fm-serve, durable": (fm, ""),
        "fm-serve, accepted": (fm, "durable=0&"),
        "SQLite, a transaction a page": (single, ""),
        "SQLite, one for all that wait": (group, ""),
    }
    found = {name: [] for name in kinds}
    for turn in range(rounds):
        for number, (name, (server, query)) in enumerate(kinds.items()):
            script = out / "put.lua"
            script.write_text(
                PUT.format(files=out / "files", query=query, round=f"{turn}-{number}")
            )
            before = server.seconds()
            rate, p99, requests = load(server.port, script, seconds)
            found[name].append((rate, p99, requests, (server.seconds() - before) / requests))
    for server in fm, single, group:
        server.stop()
    tell("PUT", found, seconds, "SQLite, a transaction a page")


def uploads(out: pathlib.Path, rounds: int) -> None:
    ratios = []
    for _ in range(rounds):
        for name in "upload.fm", "import.fm":
            shutil.rmtree(out / name, ignore_errors=True)
        server = Serving(
            RELEASE / "fm-serve", out / "upload.fm", "--write", "--listen", "127.0.0.1:PORT"
        )
        begun = time.monotonic()
        answer = subprocess.run(
            [
                *(
                    "curl",
                    "-sf",
                    "-T",
                    out / "pages.warc",
                    "-X",
                    "POST",
                    "-H",
                    "Content-Type: application/warc",
                ),
                f"http://127.0.0.1:{server.port}/v1/pages",
            ],
            check=True,
            capture_output=True,
        ).stdout
        sent = time.monotonic() - begun
        if f'"stored":{PAGES}' not in answer.decode().splitlines()[-1]:
            raise SystemExit(f"the upload was not stored whole: {answer[-500:]!r}")
        server.stop()
        begun = time.monotonic()
        subprocess.run(
            [RELEASE / "fm-tool", "import", "-q", out / "import.fm", out / "pages.warc"], check=True
        )
        ratios.append((time.monotonic() - begun) / sent)
    print(
        f"WARC upload by `fm-tool import`: {statistics.median(ratios):.2f} ({', '.join(f'{r:.2f}' for r in ratios)})"
    )


def drop_caches() -> None:
    """Empties the kernel's caches."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def bench_ahead(options: argparse.Namespace, choice: int, *more: object) -> dict:
    """A run of `fm-bench ahead`, which drops the caches by itself."""
    command = [RELEASE / "fm-bench", "--json", "ahead", options.store, "--pages", options.pages]
    words = [str(word) for word in [*command, "--choice", choice, *more]]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def cold_turn(options: argparse.Namespace, out: pathlib.Path, turn: int) -> tuple[float, float, list[float]]:
    """Requests a second and p99 in ms of a server; gets a second of the library, by one thread and
    by two."""
    plain, urls, script = out / "plain", out / "urls", out / "cold.lua"
    bench_ahead(options, turn, "--gets", options.gets, "--list", plain)
    with open(plain) as lines, open(urls, "w") as encoded:
        for line in lines:
            encoded.write(urllib.parse.quote(line.strip(), safe="") + "\n")
    script.write_text(COLD.format(urls=urls))
    # Twice: what a process has mapped is not dropped, nor what the opening reads.
    drop_caches()
    server = Serving(RELEASE / "fm-serve", options.store, "--listen", "127.0.0.1:PORT")
    drop_caches()
    rate, p99, requests = load(server.port, script, options.seconds)
    server.stop()
    if requests + CONNECTIONS > options.gets:
        raise SystemExit(f"{requests} requests used up the URLs, some were asked for twice: --gets {4 * requests}")
    library = []
    for threads in 1, 2:
        figures = bench_ahead(
            options, turn, "--gets", requests, "--depth", CONNECTIONS, "--threads", threads
        )["get_ahead"]
        if not (figures["pages missing"]["met"] and figures["bodies wrong"]["met"]):
            raise SystemExit(f"{options.store} is not what the load put: {figures}")
        library.append(figures["gets a second"])
    return rate, p99, library


def cold(options: argparse.Namespace) -> bool:
    """Prints cold reads over HTTP beside the library's; returns whether the target is met."""
    with tempfile.TemporaryDirectory() as folder:
        turns = range(options.rounds)
        found = [cold_turn(options, pathlib.Path(folder), turn) for turn in turns]
    ratios = [rate / max(library) for rate, _, library in found]
    ratio = statistics.median(ratios)
    print(
        f"GET, nothing cached: {options.pages} pages, {CONNECTIONS} connections,"
        f" medians of {options.rounds} rounds of {options.seconds} s"
    )
    rate, p99 = (statistics.median(turn[at] for turn in found) for at in (0, 1))
    print(f"  {'fm-serve':30} {rate:9.0f}/s, p99 {p99:.2f} ms")
    for threads in 1, 2:
        gets = statistics.median(library[threads - 1] for _, _, library in found)
        print(f"  {f'get_ahead, {threads} thread' + 's' * (threads - 1):30} {gets:9.0f}/s")
    is_met = ratio >= COLD_BAR
    rounds = ", ".join(f"{one:.2f}" for one in ratios)
    print(
        f"  fm-serve by the faster: {ratio:.2f} ({rounds})   [>= {COLD_BAR}: {'met' if is_met else 'MISSED'}]"
    )
    return is_met


def tell(what: str, found: dict[str, list[tuple]], seconds: int, base: str) -> None:
    print(
        f"{what}: {PAGES} pages of {BYTES} bytes, {CONNECTIONS} connections, medians of {len(found[base])} rounds of {seconds} s"
    )
    rates = {name: [figures[0] for figures in all_figures] for name, all_figures in found.items()}
    for name, all_figures in found.items():
        ratio = statistics.median(
            rate / other for rate, other in zip(rates[name], rates[base], strict=True)
        )
        line = f"  {name:30} {statistics.median(rates[name]):9.0f}/s  {ratio:5.2f} of {base},"
        line += f" p99 {statistics.median(figures[1] for figures in all_figures):.2f} ms"
        if len(all_figures[0]) > 3:
            line += f", {statistics.median(figures[3] for figures in all_figures) * 1e6:.0f} us of processor a page"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=pathlib.Path, nargs="?")
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only", choices=["get", "put", "upload", "cold"])
    parser.add_argument("--store", type=pathlib.Path, help="store of the cold reads")
    parser.add_argument("--pages", type=int, default=10_000_000, help="pages of that store")
    parser.add_argument("--gets", type=int, default=300_000, help="URLs for a round of cold reads")
    options = parser.parse_args()
    if options.only == "cold":
        if options.store is None:
            parser.error("--only cold needs --store S, made by `fm-bench load S --as-pages`")
        if os.geteuid() != 0:
            parser.error("--only cold drops the page cache, which needs root")
        sys.exit(0 if cold(options) else 1)
    if options.store is not None or options.corpus is None or options.out is None:
        parser.error("give CORPUS and OUT, or --only cold --store S")
    options.out.mkdir(parents=True, exist_ok=True)
    cut_pages(options.corpus, options.out)
    if options.only in (None, "get"):
        gets(options.out, options.rounds, options.seconds)
    if options.only in (None, "put"):
        puts(options.out, options.rounds, options.seconds)
    if options.only in (None, "upload"):
        uploads(options.out, options.rounds)


if __name__ == "__main__":
    main()
