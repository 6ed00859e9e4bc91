#!/usr/bin/env python3
"""A crawl of many hosts, each of which allows one request in a fixed time: pages a second, and
whether any host was ever asked faster.

    benches/hosts.py OUT [--hosts 2000] [--every 1] [--minutes 20]
    benches/hosts.py OUT --hosts 10000 --every 10

The hosts are addresses of 127.0.0.0/8, all answered by one program, which notes the time of each
request (tools/fm-crawl/examples/hosts_server.rs). OUT, a new folder on a disk with 10 GB free,
gets the crawl, and `hosts.tsv`: for each host its requests, its shortest gap, by how much a
request came early, and whether that is faster than allowed. Build first:

    cargo build --release -p fm-crawl --bin fm-crawl --example hosts_server

A request that waits for a processor is noted late, and the next one then seems early: up to
`--tolerance` and the longest wait of the server itself, which is printed, does not count. The crawl
is stopped by SIGINT. Exits with 1 if a host was asked faster, if one was never asked, or if there
were fewer pages a second than 95% of what the hosts allow (not judged with `--pages`), and with 2
if the crawl failed.
"""

import argparse
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
import urllib.request

RELEASE = (
    pathlib.Path(
        os.environ.get("CARGO_TARGET_DIR", pathlib.Path(__file__).parent.parent / "target")
    )
    / "release"
)
# The part of the allowed rate that a crawl must reach.
BAR = 0.95
# Hosts that are named if something is wrong with them; all are in hosts.tsv.
NAMED = 10


def address(host: int) -> str:
    """The address of a host, as the server gives it."""
    return f"127.1.{host // 250}.{host % 250 + 1}"


def parse(text: str) -> tuple[int, int, dict[str, tuple[list[int], list[int]]]]:
    """The server's clock, its longest wait, and for each host the times of all requests in order
    and of those for pages; all in microseconds."""
    head, *lines = text.splitlines()
    now, late = map(int, head.split())
    hosts = {}
    for line in lines:
        name, *requests = line.split(" ")
        times = sorted((int(one[1:]), one[0] == "p") for one in requests)
        hosts[name] = ([at for at, _ in times], [at for at, is_page in times if is_page])
    return now, late, hosts


def early(times: list[int], every: int) -> int:
    """By how much a request came early: the most by which any number of requests in a row took
    less time than their host allows. 0 if none did.

    A gap that only seems short, as the request before it was noted late, does not add up over many
    requests; asking too fast does.
    """
    worst, latest = 0, None
    for number, at in enumerate(times):
        # When the first request would have to come for this one to be in time.
        begin = at - number * every
        if latest is not None:
            worst = max(worst, latest - begin)
        latest = begin if latest is None else max(latest, begin)
    return worst


def shortest(times: list[int]) -> int | None:
    """The shortest time between two requests."""
    return min((after - at for at, after in zip(times, times[1:])), default=None)


def rates(pages: list[int], end: int) -> tuple[float, float | None]:
    """Pages a second from the first page to `end`, and in the slowest whole minute between."""
    pages = [at for at in pages if at <= end]
    if not pages:
        return 0.0, None
    begin = min(pages)
    counts = [0] * ((end - begin) // 60_000_000)
    for at in pages:
        minute = (at - begin) // 60_000_000
        if minute < len(counts):
            counts[minute] += 1
    seconds = max(end - begin, 1) / 1e6
    return len(pages) / seconds, min(counts) / 60 if counts else None


def get(port: int, path: str) -> str:
    return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=600).read().decode()


def memory_mib(process: subprocess.Popen) -> int:
    """The most memory that a running process has had."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def crawl(options: argparse.Namespace, port: int) -> tuple[int, int]:
    """Crawls until the time or the number of pages is reached; returns the server's clock then,
    and the crawl's memory."""
    seeds = options.out / "seeds"
    seeds.write_text("".join(f"http://{address(host)}:{port}/\n" for host in range(options.hosts)))
    command = [options.programs / "fm-crawl", "run", options.out / "pages.fm", "--seeds", seeds]
    command += ["--rate", str(1 / options.every), "--connections", str(options.connections)]
    command += ["--allow-private", "--json"]
    out, words = options.out / "summary.json", options.out / "words"
    with open(out, "wb") as to, open(words, "wb") as complaints:
        process = subprocess.Popen(command, stdout=to, stderr=complaints)
        try:
            end = time.monotonic() + 60 * options.minutes
            while time.monotonic() < end:
                time.sleep(0.5)
                if process.poll() is not None:
                    break
                if options.pages and int(get(port, "/now").split()[1]) >= options.pages:
                    break
            now = int(get(port, "/now").split()[0])
            memory = memory_mib(process) if process.poll() is None else 0
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=300)
        finally:
            # After an error: nothing runs on.
            process.kill()
            process.wait()
    if code != 130:
        print(f"hosts.py: fm-crawl ended by itself, with {code}: {words.read_text()[-2000:]}", file=sys.stderr)
        raise SystemExit(2)
    return now, memory


def table(options: argparse.Namespace, hosts: dict[str, tuple[list[int], list[int]]],
          allowed: float) -> list[tuple[str, int]]:
    """Writes hosts.tsv. `allowed`: us by which a request may seem early. Returns the hosts with the time by which a request came early, the worst
    first."""
    found = []
    with open(options.out / "hosts.tsv", "w") as rows:
        rows.write("host\trequests\tpages\tshortest gap ms\tearly ms\tfaster\n")
        for name, (times, pages) in hosts.items():
            by, gap = early(times, round(options.every * 1e6)), shortest(times)
            is_faster = "yes" if by > allowed else "no"
            gap = "" if gap is None else f"{gap / 1000:.3f}"
            rows.write(f"{name}\t{len(times)}\t{len(pages)}\t{gap}\t{by / 1000:.3f}\t{is_faster}\n")
            found.append((name, by))
    return sorted(found, key=lambda one: -one[1])


def report(options: argparse.Namespace, text: str, end: int, memory: int) -> bool:
    """Prints the figures beside their targets; returns whether all are met."""
    _, late, hosts = parse(text)
    allowed = options.tolerance * 1000 + late
    found = table(options, hosts, allowed)
    faster = [(name, by) for name, by in found if by > allowed]
    never = [name for name, (_, pages) in hosts.items() if not pages]
    rate, slowest = rates([at for _, pages in hosts.values() for at in pages], end)
    least = BAR * options.hosts / options.every
    others = sum(len(times) - len(pages) for times, pages in hosts.values())
    print(f"{options.hosts} hosts, each allows a request in {options.every:g} s; {options.connections} connections")
    bar = f"   [>= {least:g}: {verdict(rate >= least)}]" if not options.pages else ""
    print(f"  pages a second                 {rate:.1f}{bar}")
    if slowest is not None:
        print(f"  of the slowest minute          {slowest:.1f}")
    print(f"  pages; other requests          {sum(len(pages) for _, pages in hosts.values())}; {others}")
    print(f"  hosts asked faster             {len(faster)}   [<= 0: {verdict(not faster)}]")
    print(f"  hosts without a page           {len(never)}   [<= 0: {verdict(not never)}]")
    print(f"  earliest request of all        {found[0][1] / 1000:.3f} ms early, at {found[0][0]}")
    print(f"  longest wait of the server     {late / 1000:.3f} ms, tolerance {options.tolerance:g} ms")
    print(f"  memory of fm-crawl             {memory} MiB")
    for name, by in faster[:NAMED]:
        print(f"  asked faster: {name}, by {by / 1000:.3f} ms")
    for name in never[:NAMED]:
        print(f"  no page of: {name}")
    return not faster and not never and (bool(options.pages) or rate >= least)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--every", type=float, default=1, help="seconds between two requests to a host")
    parser.add_argument("--minutes", type=float, default=20, help="the longest time that the crawl runs")
    parser.add_argument("--pages", type=int, default=0, help="stop at this number of pages")
    parser.add_argument("--connections", type=int, default=512)
    parser.add_argument("--tolerance", type=float, default=50, help="ms by which a request may seem early")
    parser.add_argument("--bytes", type=int, default=2048, help="about the size of a page")
    parser.add_argument("--programs", type=pathlib.Path, default=RELEASE, help="folder of the builds")
    options = parser.parse_args()
    if options.out.exists() and any(options.out.iterdir()):
        parser.error(f"{options.out} is not empty: give a new folder")
    options.out.mkdir(parents=True, exist_ok=True)
    # The server and the crawl keep a connection to each host.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < options.hosts + 2000:
        print(f"hosts.py: {most} open files are few for {options.hosts} hosts: ulimit -Hn", file=sys.stderr)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = subprocess.Popen(
        [options.programs / "examples/hosts_server", str(options.hosts), str(options.bytes)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = server.stdout.readline()
        if not line.strip():
            raise SystemExit("hosts.py: hosts_server does not start")
        end, memory = crawl(options, int(line))
        is_met = report(options, get(int(line), "/times"), end, memory)
    finally:
        server.kill()
        server.wait()
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
