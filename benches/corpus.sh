#!/bin/sh
# Fetches the real corpus of the benchmarks: the HTML of seven Debian documentation packages (about 54,000 pages,
# 1 GB), unpacked without being installed. Works on Debian and Ubuntu; the pages are not part of this repository.
#
#     benches/corpus.sh DIR
#
# leaves DIR/PACKAGE/usr/share/doc/... for each package, and keeps nothing else. Running it again fetches only what is
# missing. src/corpus.rs knows which package is which site.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
for tool in apt-get dpkg; do
    command -v "$tool" >/dev/null || { echo "$0: needs $tool (Debian or Ubuntu)" >&2; exit 2; }
done
mkdir -p "$1"
cd "$1"

# The list of packages must be fresh enough for the download to find the files; only root can refresh it.
[ "$(id -u)" -ne 0 ] || apt-get update -qq

for package in rust-doc libstdc++-12-doc postgresql-doc-15 qtbase5-doc-html libboost1.81-doc python3.11-doc \
    openjdk-17-doc; do
    [ ! -d "$package" ] || continue
    rm -rf download && mkdir download
    (cd download && apt-get download -qq "$package" && dpkg -x ./*.deb unpacked)
    # Whole or not at all: the name appears only when everything is unpacked.
    mv download/unpacked "$package"
    rm -rf download
    echo "$package: $(find "$package" -type f -name '*.html' | wc -l) pages"
done
