#!/bin/sh
# Fetches the benchmarks' corpus: the HTML of seven Debian documentation packages (about 54,000
# pages, 1 GB), unpacked, not installed. Debian and Ubuntu.
#
#     benches/corpus.sh DIR
#
# leaves DIR/PACKAGE/usr/share/doc/... for each package. A second run fetches what is missing.
# src/corpus.rs maps packages to URLs.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
for tool in apt-get dpkg; do
    command -v "$tool" >/dev/null || { echo "$0: needs $tool (Debian or Ubuntu)" >&2; exit 2; }
done
mkdir -p "$1"
cd "$1"

# A stale package list names files that no longer exist; only root can refresh it.
[ "$(id -u)" -ne 0 ] || apt-get update -qq

for package in rust-doc libstdc++-12-doc postgresql-doc-15 qtbase5-doc-html libboost1.81-doc python3.11-doc \
    openjdk-17-doc; do
    [ ! -d "$package" ] || continue
    rm -rf download && mkdir download
    (cd download && apt-get download -qq "$package" && dpkg -x ./*.deb unpacked)
    # The folder gets its name only when everything is unpacked.
    mv download/unpacked "$package"
    rm -rf download
    echo "$package: $(find "$package" -type f -name '*.html' | wc -l) pages"
done
