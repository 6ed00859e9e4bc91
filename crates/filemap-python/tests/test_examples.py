"""The examples run unchanged."""

import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import filemap

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_near_duplicates_are_found(path: Path) -> None:
    text = " ".join(f"word{n}" for n in range(300))
    html = {"Content-Type": "text/html"}
    with filemap.open(path, "a") as store:
        store.put("http://a/1", f"<p>{text}</p>", headers=html)
        store.put("http://a/2", f"<h1>{text} and</h1> more", headers=html)
        store.put("http://a/3", "<p>something else altogether is here</p>", headers=html)
    out = subprocess.run(
        [sys.executable, EXAMPLES / "near_duplicates.py", path],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (line,) = out.splitlines()
    same, *urls = line.split()
    assert float(same) > 0.9 and urls == ["http://a/1", "http://a/2"]


def test_the_scrapy_project_crawls_and_resumes(tmp_path: Path) -> None:
    # Tests a submodule, since the folder next to this file would pass for the package.
    pytest.importorskip("scrapy.crawler")
    asked: list[str] = []

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            links = "".join(f'<a href="/{n}">{n}</a>' for n in range(5))
            body = f"<!DOCTYPE html><title>{self.path}</title>{links}".encode()
            self.send_response(404 if self.path == "/robots.txt" else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    start = f"start=http://127.0.0.1:{site.server_address[1]}/"
    command = [sys.executable, "-m", "scrapy", "crawl", "site", "-a", start]
    command += ["-s", "TELNETCONSOLE_ENABLED=False"]
    environment = {**os.environ, "SITE_DATA": str(tmp_path / "data"), "SITE_DELAY": "0"}
    for _ in range(2):
        run = subprocess.run(
            command,
            cwd=EXAMPLES / "scrapy-project",
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert run.returncode == 0, run.stderr
    site.shutdown()
    site.server_close()
    assert sorted(set(asked)) == sorted(["/", "/robots.txt", *(f"/{n}" for n in range(5))])
    assert len(asked) == len(set(asked)), "the second run asked no server"
    with filemap.open(tmp_path / "data" / "pages.fm") as store:
        assert len(store) >= 6
