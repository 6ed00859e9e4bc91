#!/usr/bin/env bash
# Replays captures by pywb over a live fm-serve, and compares every byte with the WARC files that they came from.
#
# usage: tests/foreign/pywb.sh [FOLDER OF fm-serve AND fm-tool]
#
# It installs pywb into a separate folder (PYWB names one to keep), makes 300 captures with answers to POST and PUT, imports
# them and those of tests/data, and asks pywb for each. With IN_PLACE=1 the records stay in their files.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=$(realpath "${1:-target/release}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
env=${PYWB:-$work/env}
if [ ! -x "$env/bin/wayback" ]; then
    python3 -m venv "$env"
    "$env/bin/pip" install -q 'pywb==2.10.0'
fi
"$env/bin/python" tests/foreign/live.py "$programs" "$env/bin/wayback" "$work" tests/data/warc/*.warc.gz
