#!/usr/bin/env bash
# Compares the size of the corpus as WARC.gz with CDXJ (by warcio) and as a FileMap store that has
# imported that file: after the import, and recompressed at level 9.
#
#     benches/warc_size.sh CORPUS OUT [FM_TOOL]
#
# CORPUS is made by corpus.sh. Needs Python 3 and some 700 MB in OUT, which is created.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: $0 CORPUS OUT [FM_TOOL]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
corpus=$1 out=$2 tool=${3:-$here/../target/release/fm-tool}
mkdir -p "$out"
if [ ! -e "$out/corpus.cdxj" ]; then
    [ -x "$out/py/bin/python" ] || python3 -m venv "$out/py"
    "$out/py/bin/pip" install --quiet warcio==1.8.1 surt==0.3.1
    "$out/py/bin/python" "$here/warc_size.py" "$corpus" "$out"
fi
warc=$(du -cB1 "$out/corpus.warc.gz" "$out/corpus.cdxj" | awk 'END { print $1 }')
echo "WARC.gz and CDXJ: $warc bytes"
rm -rf "$out/pages.fm"
"$tool" import "$out/pages.fm" "$out/corpus.warc.gz"
tell() { du -sB1 "$out/pages.fm" | awk -v warc="$warc" -v what="$1" '{ printf "%s: %d bytes, %.3f of WARC.gz and CDXJ\n", what, $1, $1 / warc }'; }
tell "imported"
"$tool" recompress "$out/pages.fm" --level 9
tell "recompressed"
