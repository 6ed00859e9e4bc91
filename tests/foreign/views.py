#!/usr/bin/env python3
"""Opens every kind of view of fm-serve in headless Chromium: no side scrolling at three widths, no violation that axe-core
finds, in light or dark, and live charts that keep moving.

usage: tests/foreign/views.py FOLDER_OF_fm-serve_AND_fm-tool

axe-core is installed by npm into a separate folder (AXE names one to keep). First it must find what is planted in a page, or
the test sees nothing.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse

AXE_VERSION = "4.14.1"
WIDTHS = [360, 768, 1280]
TIME = 1700000000000
DAY = 86400000
# Rules of drafts and of taste are not asked for.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


class Browser:
    """Chromium, spoken to by a pipe."""

    def __init__(self, work):
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def pipes():
            os.dup2(to_read, 13)
            os.dup2(from_write, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={work}/profile"]
        self.process = subprocess.Popen(command, preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.out, self.back = os.fdopen(to_write, "wb", 0), os.fdopen(from_read, "rb")
        self.nth, self.session, self.events = 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime"]:
            self.call(f"{domain}.enable")

    def receive(self):
        message = b""
        while not message.endswith(b"\0"):
            byte = self.back.read(1)
            if not byte:
                sys.exit("chromium ended")
            message += byte
        return json.loads(message[:-1])

    def call(self, method, **params):
        self.nth += 1
        request = {"id": self.nth, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        self.out.write(json.dumps(request).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == self.nth:
                if "error" in message:
                    sys.exit(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message.get("method"))

    def value(self, expression):
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            sys.exit(f"{expression[:80]}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def open(self, url):
        self.events.clear()
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            sys.exit(f"{url}: {failed}")
        while "Page.loadEventFired" not in self.events:
            self.events.append(self.receive().get("method"))

    def show(self, width, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def violations(self, axe):
        self.value(axe + "; null")
        options = json.dumps({"runOnly": RULES, "iframes": False, "resultTypes": ["violations"]})
        found = self.value(f"axe.run(document, {options}).then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))")
        return [f"{rule}: {nodes[0][:200]} and {len(nodes) - 1} more" for rule, nodes in found]

    def end(self):
        self.process.terminate()
        self.process.wait(30)


def axe_source(work):
    folder = os.environ.get("AXE", os.path.join(work, "axe"))
    path = os.path.join(folder, "node_modules", "axe-core", "axe.min.js")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder]
        subprocess.run([*install, f"axe-core@{AXE_VERSION}"], check=True)
    with open(path, encoding="utf-8") as source:
        return source.read()


def write_pages(out):
    """Pages of every kind that a view shows, with long words, which must not make a page wide."""
    body = "<!DOCTYPE html><html><head><style>p { color: #123; }</style></head><body>\n"
    body += "".join(f"<p class=\"c{at}\">Line {at} &amp; more</p>\n" for at in range(30)) + "</body></html>\n"

    def put(url, time_ms, text, kind="text/html; charset=utf-8"):
        headers = [{"name": "Content-Type", "value": kind}, {"name": "X-Long", "value": "w" * 600 + str(time_ms % 7)}]
        out.write(json.dumps({"url": url, "time_ms": time_ms, "status": 200, "headers": headers, "body": text}) + "\n")

    for at in range(30):
        put("http://a.example/", TIME + at * 11 * DAY, body.replace(f"Line {at} ", "Other words "))
    for at in range(6):
        put("http://a.example/", TIME + 1000 + at, body)
    for path in ["d/e/f", "d/e/g", "long" + "w" * 900]:
        put(f"http://a.example/{path}", TIME, "w" * 3000)
    put("http://a.example/data", TIME, json.dumps({"a": [1, None, "x" * 900]}), "application/json")
    put("http://a.example/data", TIME + DAY, json.dumps({"a": [2, None, "x" * 900]}), "application/json")
    for at in range(3):
        put("http://b.example/", TIME + at * DAY, body)
    put("http://b.example/only", TIME, body)
    for host in range(120):
        put(f"http://h{host}.{'w' * 40}.example/", TIME, body)


def views():
    page = urllib.parse.quote("http://a.example/", safe="")
    data = urllib.parse.quote("http://a.example/data", safe="")
    word = urllib.parse.quote("http://a.example/long" + "w" * 900, safe="")
    yield from ["/", "/hosts", "/seen", "/segments", "/dictionaries", "/crawl", "/list?host=a.example", "/tree?host=a.example"]
    yield from [f"/tree?prefix={page}", f"/captures?url={page}", f"/captures?url={page}&year=2023", f"/captures?url={word}"]
    yield from [f"/show?url={page}", f"/show?url={data}", f"/show?url={word}", f"/compare?url={page}", f"/compare?url={data}"]
    # The oldest, and the only one, are blocked.
    yield from ["/captures?url=http://b.example/", "/show?url=http://b.example/only"]
    yield from ["/captures?url=http://none.example/", "/list?prefix=x&host=y"]


def write_crawl(folder):
    """A crawl's report of itself, with hostile words. Access rules keep its names out of the view."""
    os.mkdir(folder)
    evil = "<script>alert(1)</script>" + "w" * 300
    failure = {"url": "http://a.example/" + evil, "reason": "timeout", "detail": evil, "time_ms": 1_700_000_000_000}
    run = {"fetched": 12, "wire_bytes": 3_000_000, "reasons": {"timeout": 3, evil: 1}, "latest_failures": [failure]}
    host = {"host": evil, "pages": 9, "ready": 5, "in_flight": 1, "next_at_ms": 1_700_000_000_000, "delay_ms": 1000}
    status = {"time_ms": 1_700_000_000_000, "is_running": True, "run_ms": 5000, "run": run, "frontier": {}, "hosts": [host]}
    with open(os.path.join(folder, "status.json"), "w", encoding="utf-8") as out:
        json.dump(status, out)


def check_sight(browser, axe):
    """Planted violations must be found."""
    planted = "<html><body><img src=x><p style='color:#aaa;background:#fff'>pale</p><div style='width:3000px'>wide</div>"
    browser.show(360, "light")
    browser.open("data:text/html," + urllib.parse.quote(planted))
    found = " ".join(browser.violations(axe))
    missed = [rule for rule in ["image-alt", "color-contrast", "html-has-lang"] if rule not in found]
    if missed or browser.value("document.documentElement.scrollWidth") <= 360:
        sys.exit(f"of what is planted the test does not see {missed or 'the width'}")


def check_charts(browser, at):
    """The script keeps the charts of rates moving; each point is 10 seconds behind the one before."""
    browser.show(1280, "light")
    browser.open(at + "/")
    for _ in range(180):
        points = browser.value("Array.from(document.querySelectorAll('#rates .chart polyline')).map(l => l.getAttribute('points') || '')")
        if points and all(len(line.split()) >= 2 for line in points):
            return len(points)
        time.sleep(1)
    return sys.exit(f"the charts do not go on: {points}, {browser.value('document.getElementById(`live`).textContent')}")


def main():
    programs = os.path.realpath(sys.argv[1])
    problems, looks = [], 0
    # Processes of Chromium may write to its profile a little longer.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        axe = axe_source(work)
        lines, store = os.path.join(work, "pages.jsonl"), os.path.join(work, "pages.fm")
        with open(lines, "w", encoding="utf-8") as out:
            write_pages(out)
        subprocess.run([f"{programs}/fm-tool", "--quiet", "import", store, lines], check=True)
        write_crawl(store + ".crawl")
        rules = os.path.join(work, "rules.aclj")
        with open(rules, "w", encoding="utf-8") as out:
            out.write('example,b)/ - {"access": "block", "reason": "' + "w" * 900 + '", "before": "20231115000000"}\n')
        command = [f"{programs}/fm-serve", store, "--listen", "127.0.0.1:0", "--access", rules]
        serve = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        browser = Browser(work)
        try:
            # Behind what it says of its rules.
            said = iter(serve.stderr.readline, "")
            at = next(line for line in said if "http://" in line).split()[-1]
            check_sight(browser, axe)
            charts = check_charts(browser, at)
            for view in views():
                for width in WIDTHS:
                    scheme = ["light", "dark"][looks % 2]
                    browser.show(width, scheme)
                    browser.open(at + view)
                    where = f"{view[:80]} at {width}, {scheme}"
                    if browser.value("document.querySelector('main') === null"):
                        sys.exit(f"{where}: no view")
                    wide = browser.value("document.documentElement.scrollWidth")
                    if wide > width:
                        problems.append(f"{where}: {wide} wide")
                    heads = browser.value("Math.max(0, ...Array.from(document.querySelectorAll('thead th'), head => head.offsetHeight))")
                    if heads > 110:
                        problems.append(f"{where}: a column's head is {heads} high, its column too narrow")
                    problems += [f"{where}: {violation}" for violation in browser.violations(axe)]
                    looks += 1
        finally:
            browser.end()
            serve.terminate()
    if problems:
        sys.exit("\n".join(problems))
    print(f"views: {looks} looks at {len(list(views()))} views, none is too wide, none has a violation; {charts} charts go on")


main()
