#!/usr/bin/env python3
"""A crawl of many hosts, each of which allows one request in a fixed time: pages a second, and
whether any host was ever asked faster. Or the time of a crawl beside that of another.

    benches/hosts.py OUT [--hosts 2000] [--every 1] [--minutes 20]
    benches/hosts.py OUT --hosts 10000 --every 10
    benches/hosts.py OUT --compare slow     # 200 plain hosts beside 200 with Crawl-delay: 30
    benches/hosts.py OUT --compare new      # 1,000 new hosts with 64 connections and with 1,000

The hosts are addresses of 127.0.0.0/8, all answered by one program, which notes the time of each
request (tools/fm-crawl/examples/hosts_server.rs). OUT, a new folder on a disk with 10 GB free,
gets the crawl, and `hosts.tsv`: for each host its requests, its shortest gap, by how much a
request came early, and whether that is faster than allowed. Build first:

    cargo build --release -p fm-crawl --bin fm-crawl --example hosts_server

A request that waits for a processor is noted late, and the next one then seems early: up to
`--tolerance` does not count. The longest wait of the server itself is printed beside it. The crawl
is stopped by SIGINT. Exits with 1 if a host was asked faster, if one was never asked, or if there
were fewer pages a second than 95% of what the hosts allow (not judged with `--pages`), and with 2
if the crawl failed.

`--compare` makes two crawls in turns, `--rounds` times, and divides the medians of their times,
from the first request of a crawl to its last one for a page of a plain host. Each host has
`--each` pages. `slow`: the plain hosts alone, and beside as many that ask for a Crawl-delay of
30 s, whose start pages come first; in both with 64 connections. `new`: all hosts with 64
connections, and with one for each. Exits with 1 if the ratio is over 1.1, or if a host was asked
faster than it allows.
"""

import argparse
import contextlib
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import time
import typing
import urllib.request

RELEASE = (
    pathlib.Path(
        os.environ.get("CARGO_TARGET_DIR", pathlib.Path(__file__).parent.parent / "target")
    )
    / "release"
)
# The part of the allowed rate that a crawl must reach.
BAR = 0.95
# The most that a crawl may take beside the other one of a comparison.
RATIO = 1.1
# Seconds of the Crawl-delay that slow hosts ask for, as the server says it.
SLOW = 30
# Connections of a comparison's crawls, unless there is one for each host.
FEW = 64
# Hosts that are named if something is wrong with them; all are in hosts.tsv.
NAMED = 10
# Hosts, seconds between two requests to one, and pages of one.
SIZES = {None: (2000, 1.0, 0), "slow": (200, 0.1, 300), "new": (1000, 1.0, 5)}

Times = dict[str, tuple[list[int], list[int]]]


def address(host: int) -> str:
    """The address of a host, as the server gives it."""
    return f"127.1.{host // 250}.{host % 250 + 1}"


def parse(text: str) -> tuple[int, int, Times]:
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


class Plan(typing.NamedTuple):
    """A crawl: its folder, its hosts in the order of their start pages, and its connections."""

    folder: pathlib.Path
    hosts: list[int]
    connections: int


def crawl(options: argparse.Namespace, port: int, plan: Plan,
          is_enough: typing.Callable[[list[int]], bool], codes: tuple[int, ...]) -> tuple[int, int]:
    """Crawls until the time is over, or until there is enough by the server's clock, pages and
    pages of plain hosts. Returns its clock then, and the crawl's memory."""
    seeds = plan.folder / "seeds"
    seeds.write_text("".join(f"http://{address(host)}:{port}/\n" for host in plan.hosts))
    command = [options.programs / "fm-crawl", "run", plan.folder / "pages.fm", "--seeds", seeds]
    command += ["--rate", str(1 / options.every), "--connections", str(plan.connections)]
    command += ["--allow-private", "--json"]
    out, words = plan.folder / "summary.json", plan.folder / "words"
    with open(out, "wb") as to, open(words, "wb") as complaints:
        process = subprocess.Popen(command, stdout=to, stderr=complaints)
        try:
            end = time.monotonic() + 60 * options.minutes
            while time.monotonic() < end and process.poll() is None:
                time.sleep(0.5)
                if is_enough([int(number) for number in get(port, "/now").split()]):
                    break
            now = int(get(port, "/now").split()[0])
            memory = memory_mib(process) if process.poll() is None else 0
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=300)
        finally:
            # After an error: nothing runs on.
            process.kill()
            process.wait()
    if code not in codes:
        print(f"hosts.py: fm-crawl ended with {code}: {words.read_text()[-2000:]}", file=sys.stderr)
        raise SystemExit(2)
    return now, memory


def table(options: argparse.Namespace, hosts: Times, allowed: float) -> list[tuple[str, int]]:
    """Writes hosts.tsv. `allowed`: us by which a request may seem early. Returns the hosts with the
    time by which a request came early, the worst first."""
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
    allowed = options.tolerance * 1000
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


def seconds(hosts: Times, plain: list[str], each: int) -> float | None:
    """The time from the first request of all to the last one for a page of a plain host; None if
    a page of them was not asked for."""
    if any(len(hosts[name][1]) < each for name in plain):
        return None
    begin = min(times[0] for times, _ in hosts.values() if times)
    return (max(pages[-1] for _, pages in (hosts[name] for name in plain)) - begin) / 1e6


def faster(hosts: Times, every: dict[str, float], allowed: float) -> list[tuple[str, int]]:
    """The hosts that were asked faster than they allow, by more than `allowed` us."""
    found = [(name, early(times, round(every[name] * 1e6))) for name, (times, _) in hosts.items()]
    return sorted((one for one in found if one[1] > allowed), key=lambda one: -one[1])


def measure(options: argparse.Namespace, name: str, slow: int, connections: int) -> tuple[float, list]:
    """Crawls the hosts once, beside `slow` others. Returns the time of the plain ones, and the hosts
    that were asked faster."""
    count = options.hosts + slow
    folder = options.out / name
    folder.mkdir()
    # The slow ones first: they must not keep the plain ones waiting.
    order = [*range(options.hosts, count), *range(options.hosts)]
    wanted = options.hosts * options.each
    with serving(options, count, options.each, slow) as port:
        # A crawl without slow hosts may have ended when it is asked to.
        crawl(options, port, Plan(folder, order, connections), lambda now: now[2] >= wanted, (0, 130))
        _, _, hosts = parse(get(port, "/times"))
    plain = [address(host) for host in range(options.hosts)]
    took = seconds(hosts, plain, options.each)
    if took is None:
        missing = wanted - sum(len(hosts[one][1]) for one in plain)
        print(f"hosts.py: {name}: {missing} of {wanted} pages were not asked for; --minutes?", file=sys.stderr)
        raise SystemExit(2)
    every = {one: options.every for one in plain}
    every |= {address(host): max(SLOW, options.every) for host in range(options.hosts, count)}
    return took, faster(hosts, every, options.tolerance * 1000)


def verdict_of(name: str, other: str, times: dict[str, list[float]], too_fast: list) -> bool:
    """Prints the ratio of the medians of two crawls' times beside its target; returns whether it
    is met."""
    ratio = statistics.median(times[name]) / statistics.median(times[other])
    for one in (other, name):
        each = ", ".join(f"{took:.1f}" for took in times[one])
        print(f"  {one:<30} {statistics.median(times[one]):.1f} s   ({each})")
    print(f"  ratio                          {ratio:.3f}   [<= {RATIO:g}: {verdict(ratio <= RATIO)}]")
    print(f"  hosts asked faster             {len(too_fast)}   [<= 0: {verdict(not too_fast)}]")
    for host, by in too_fast[:NAMED]:
        print(f"  asked faster: {host}, by {by / 1000:.3f} ms")
    return ratio <= RATIO and not too_fast


def compare(options: argparse.Namespace) -> bool:
    """Makes the two crawls of a comparison in turns; returns whether its targets are met."""
    each = f"{options.each} pages each, a request in {options.every:g} s"
    if options.compare == "slow":
        few = options.connections or FEW
        kinds = {"alone": (0, few), "beside slow ones": (options.hosts, few)}
        print(f"{options.hosts} hosts alone, and beside {options.hosts} with Crawl-delay: {SLOW}; {few} connections")
        print(f"  {each}")
    else:
        kinds = {f"{most} connections": (0, most) for most in (options.hosts, options.connections or FEW)}
        print(f"{options.hosts} new hosts")
        print(f"  {each}")
    if len(kinds) < 2:
        print("hosts.py: --connections and --hosts are the same: nothing to compare", file=sys.stderr)
        raise SystemExit(2)
    times, too_fast = {name: [] for name in kinds}, []
    for number in range(options.rounds):
        for name, (slow, connections) in kinds.items():
            took, found = measure(options, f"{name} {number}".replace(" ", "-"), slow, connections)
            times[name].append(took)
            too_fast += found
    other, name = kinds
    return verdict_of(name, other, times, too_fast)


@contextlib.contextmanager
def serving(options: argparse.Namespace, hosts: int, each: int, slow: int) -> typing.Iterator[int]:
    """Runs the server of all hosts; its port."""
    # The server and the crawl keep a connection to each host.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < hosts + 2000:
        print(f"hosts.py: {most} open files are few for {hosts} hosts: ulimit -Hn", file=sys.stderr)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    program = options.programs / "examples/hosts_server"
    numbers = [str(number) for number in (hosts, options.bytes, each, slow)]
    server = subprocess.Popen([program, *numbers], stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        if not line.strip():
            raise SystemExit("hosts.py: hosts_server does not start")
        yield int(line)
    finally:
        server.kill()
        server.wait()


def pace(options: argparse.Namespace) -> bool:
    """One crawl of all hosts; returns whether its targets are met."""
    options.connections = options.connections or 512
    with serving(options, options.hosts, options.each, 0) as port:
        plan = Plan(options.out, list(range(options.hosts)), options.connections)
        end, memory = crawl(options, port, plan, lambda now: 0 < options.pages <= now[1], (130,))
        return report(options, get(port, "/times"), end, memory)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options; sizes that are not given are those of the measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--compare", choices=["slow", "new"], help="the time of a crawl beside that of another")
    parser.add_argument("--hosts", type=int, help="2,000; 200 with --compare slow, 1,000 with new")
    parser.add_argument("--every", type=float, help="seconds between two requests to a host: 1; 0.1 with slow")
    parser.add_argument("--each", type=int, help="pages of a host, with --compare: 300 with slow, 5 with new")
    parser.add_argument("--rounds", type=int, default=3, help="crawls of each kind, with --compare")
    parser.add_argument("--minutes", type=float, default=20, help="the longest time that a crawl runs")
    parser.add_argument("--pages", type=int, default=0, help="stop at this number of pages")
    parser.add_argument("--connections", type=int, help=f"512; {FEW} with --compare")
    parser.add_argument("--tolerance", type=float, default=50, help="ms by which a request may seem early")
    parser.add_argument("--bytes", type=int, default=2048, help="about the size of a page")
    parser.add_argument("--programs", type=pathlib.Path, default=RELEASE, help="folder of the builds")
    options = parser.parse_args(arguments)
    hosts, every, each = SIZES[options.compare]
    options.hosts, options.every = options.hosts or hosts, options.every or every
    options.each = options.each or each
    if options.compare and options.pages:
        parser.error("--pages stops a single crawl; the pages of a host are --each")
    if options.each and not options.compare:
        parser.error("--each is for --compare; without it hosts have endless pages")
    if options.rounds < 1:
        parser.error("--rounds: at least one")
    if options.out.exists() and any(options.out.iterdir()):
        parser.error(f"{options.out} is not empty: give a new folder")
    return options


def main() -> None:
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    is_met = compare(options) if options.compare else pace(options)
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
