#!/usr/bin/env bash
# Compares crawlers on one web site on the loopback: the corpus's HTML pages and an index of them.
# fm-crawl, wget --mirror and Scrapy with its HTTP cache take turns, each against a new server that
# counts requests.
#
#     benches/crawl.sh CORPUS OUT [PAGES] [ROUNDS]
#
# CORPUS is made by corpus.sh; PAGES is the number of pages served (default: 50000). Needs wget and
# Python 3; installs Scrapy into OUT, which also keeps the crawls (some 3 GB for all pages). Build
# first: cargo build --release -p fm-crawl --example site_server --bin fm-crawl
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: $0 CORPUS OUT [PAGES] [ROUNDS]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
corpus=$1 out=$2 pages=${3:-50000} rounds=${4:-1}
release=${CARGO_TARGET_DIR:-$here/../target}/release
mkdir -p "$out"
[ -x "$out/py/bin/scrapy" ] || { python3 -m venv "$out/py" && "$out/py/bin/pip" install --quiet scrapy; }
server=
trap '[ -z "$server" ] || kill "$server"' EXIT

serve() { # starts a server: $address, $server
    "$release/examples/site_server" "$corpus" "$pages" > "$out/address" &
    server=$!
    until [ -s "$out/address" ]; do sleep 0.1; done
    read -r address served < "$out/address"
}
# measure NAME COMMAND...: runs a crawler against a new server; prints its speed and the server's
# counts.
measure() {
    local name=$1 begun ended
    shift
    begun=$(date +%s.%N)
    /usr/bin/env time -f '%M %e' -o "$out/$name.time" "$@" > "$out/$name.log" 2>&1 || true
    ended=$(date +%s.%N)
    "$out/py/bin/python" - "$name" "$begun" "$ended" "$address" "$(tail -n 1 "$out/$name.time")" <<'PY'
import json, sys, urllib.request
name, begun, ended, address, used = sys.argv[1:]
counts = json.load(urllib.request.urlopen(f"http://{address}/counts"))
seconds = float(ended) - float(begun)
print(f"{name:9} {counts['pages_asked']:6} of {counts['pages']} pages in {seconds:8.2f} s: {counts['pages_asked'] / seconds:8.1f} pages/s, "
      f"{counts['page_requests'] - counts['pages_asked']} fetched twice, {counts['requests'] - counts['page_requests']} other requests, "
      f"{int(used.split()[0]) // 1024} MiB")
PY
    kill "$server"
    wait "$server" 2> /dev/null || true
    server=
    : > "$out/address"
}

cat > "$out/spider.py" <<'PY'
import scrapy
from scrapy.linkextractors import LinkExtractor

class Site(scrapy.Spider):
    name = "site"
    extract = LinkExtractor(deny_extensions=[])
    def __init__(self, address, **rest):
        super().__init__(**rest)
        self.allowed_domains = [address.split(":")[0]]
        self.start_urls = [f"http://{address}/"]
    def parse(self, response):
        if isinstance(response, scrapy.http.TextResponse):
            for link in self.extract.extract_links(response):
                yield response.follow(link)
PY

: > "$out/address"
for _ in $(seq "$rounds"); do
    rm -rf "$out"/pages.fm "$out"/pages.fm.crawl "$out"/wget "$out"/cache
    serve
    measure fm-crawl "$release/fm-crawl" run "$out/pages.fm" --seed "http://$address/" --rate 0 --allow-private --follow-duplicates \
        --host-connections 32 --max-host-pages 0
    "$release/examples/site_server" "$corpus" "$pages" "$out/pages.fm" "$address"
    serve
    measure wget wget --mirror --no-verbose --directory-prefix "$out/wget" --follow-tags=a,area,iframe,frame,link,meta \
        --reject css,js,png,svg,gif,jpg,ico,woff,woff2 "http://$address/"
    serve
    measure scrapy "$out/py/bin/scrapy" runspider "$out/spider.py" -a "address=$address" -s HTTPCACHE_ENABLED=1 \
        -s "HTTPCACHE_DIR=$out/cache" -s CONCURRENT_REQUESTS=32 -s CONCURRENT_REQUESTS_PER_DOMAIN=32 -s DOWNLOAD_DELAY=0 \
        -s AUTOTHROTTLE_ENABLED=0 -s LOG_LEVEL=WARNING -s ROBOTSTXT_OBEY=1
done
