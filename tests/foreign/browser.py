#!/usr/bin/env python3
"""Opens hostile stored pages in headless Chromium, in every way that fm-serve shows them: nothing may be sent anywhere.

usage: tests/foreign/browser.py FOLDER_OF_fm-serve_AND_fm-tool

A listener stands for the world. First the same pages are served plainly: they must reach it, or the test sees nothing.
"""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HITS = []
PLAIN = {}


class World(http.server.BaseHTTPRequestHandler):
    """Notes what is asked for; has the hostile pages below /plain/."""

    def do_GET(self):
        kind, body = PLAIN.get(self.path, ("text/plain", "hit"))
        # Every page of the world makes a browser ask for this.
        if self.path not in PLAIN and self.path != "/favicon.ico":
            HITS.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    do_POST = do_GET

    def log_message(self, *_):
        pass


def pages(world):
    """Name, type and body of each."""
    return {
        "script": ("text/html", f'<script>fetch("{world}/script");new Image().src="{world}/img"</script>x'),
        "top": ("text/html", f'<script>top.location="{world}/top"</script>x'),
        "refresh": ("text/html", f'<meta http-equiv=refresh content="0;url={world}/refresh">x'),
        "form": ("text/html", f'<body onload="f.submit()"><form id=f action="{world}/form" method=post></form>'),
        "media": (
            "text/html",
            f'<img src="{world}/img"><video src="{world}/video"></video><iframe src="{world}/frame"></iframe>'
            f'<link rel=stylesheet href="{world}/css"><object data="{world}/object"></object><link rel=icon href="{world}/icon">'
            f"<style>@import url({world}/import);body{{background:url({world}/background)}}"
            f"@font-face{{font-family:x;src:url({world}/font)}}body{{font-family:x}}</style>x"
            f'<link rel=preload href="{world}/preload" as=image><link rel=prefetch href="{world}/prefetch">',
        ),
        "svg": (
            "image/svg+xml",
            f'<svg xmlns="http://www.w3.org/2000/svg" onload="fetch(\'{world}/svg\')"><image href="{world}/svg-image"/></svg>',
        ),
        "mime": ("image/png", f'<html><script>fetch("{world}/mime")</script></html>'),
        "plain": ("text/plain", f'<html><script>fetch("{world}/plain-text")</script></html>'),
        "worker": ("text/html", '<script>navigator.serviceWorker.register("/v1/page?url=http://h.example/worker-script")</script>x'),
        "worker-script": ("text/javascript", f'fetch("{world}/worker")'),
        "base": ("text/html", f'<base href="{world}/"><img src=base-image><script src=base-script></script>x'),
    }


def visit(url):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


def main():
    programs = os.path.realpath(sys.argv[1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), World)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    world = f"http://127.0.0.1:{server.server_address[1]}"
    hostile = pages(world)
    PLAIN.update({f"/plain/{name}": page for name, page in hostile.items()})
    seen = set()
    for name in hostile:
        before = len(HITS)
        visit(f"{world}/plain/{name}")
        if len(HITS) > before:
            seen.add(name)
    if len(seen) < 6:
        sys.exit(f"served plainly only these reach the world: {sorted(seen)}; the test sees nothing")
    # A request of the last page may be handled late.
    late = -1
    while late != len(HITS):
        late = len(HITS)
        time.sleep(2)
    HITS.clear()
    with tempfile.TemporaryDirectory() as work:
        lines = os.path.join(work, "pages.jsonl")
        with open(lines, "w", encoding="utf-8") as out:
            for name, (kind, body) in hostile.items():
                fields = [
                    ("Content-Type", kind),
                    ("Link", f"<{world}/link>; rel=preload; as=image"),
                    ("Refresh", f"0;url={world}/refresh-header"),
                ]
                headers = [{"name": field, "value": value} for field, value in fields]
                page = {"url": f"http://h.example/{name}", "time_ms": 1700000000000, "status": 200, "headers": headers, "body": body}
                out.write(json.dumps(page) + "\n")
        store = os.path.join(work, "pages.fm")
        subprocess.run([f"{programs}/fm-tool", "--quiet", "import", store, lines], check=True)
        serve = subprocess.Popen([f"{programs}/fm-serve", store, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        try:
            at = serve.stderr.readline().split()[-1]
            views = 0
            for name in hostile:
                url = urllib.parse.quote(f"http://h.example/{name}", safe="")
                ways = [f"/show?url={url}", f"/rendered?url={url}", f"/captures?url={url}", f"/v1/page?url={url}"]
                for way in ways + [f"/web/20231114221320id_/http://h.example/{name}"]:
                    before = len(HITS)
                    text = visit(at + way)
                    if len(HITS) > before:
                        sys.exit(f"{way} sent {HITS[before:]}")
                    if not text:
                        sys.exit(f"{way}: chromium showed nothing")
                    views += 1
            time.sleep(1)
        finally:
            serve.terminate()
    if HITS:
        sys.exit(f"late: {HITS}")
    print(f"browser: {views} views of {len(hostile)} hostile pages sent nothing; served plainly {len(seen)} of them do")


main()
