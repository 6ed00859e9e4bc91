#!/usr/bin/env bash
# Exports checked by other people's readers: warcio, fastwarc and warcat must find nothing wrong, every page must replay from the
# files byte for byte, and an import of them must give an equal store.
#
#     tests/foreign/export.sh FM_TOOL
#
# WACZ files too: py-wacz must find them valid, and what is in them is read by the same readers.
#
# It needs Python 3 and cargo, and installs the readers into a separate folder ($FOREIGN_TOOLS, to keep them for the next time).
# warcio does not read zstd. warcat (0.3) does not read zstd files of several records, not even those that it writes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tool=$(realpath "$1")
data=$here/../data/warc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tools=${FOREIGN_TOOLS:-$work/tools}

fail() { printf 'export: %s\n' "$1" >&2; exit 1; }

if [ ! -e "$tools/complete" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet warcio==1.8.1 fastwarc==2.0.1 surt==0.3.1 cdxj-indexer==1.5.0 wacz==0.6.0 2> "$work/pip.log" ||
        { tail -n 5 "$work/pip.log" >&2; fail "cannot install the Python readers"; }
    cargo install warcat --debug --version 0.3.4 --features bin --locked --quiet --force --root "$tools" || fail "cannot install warcat"
    touch "$tools/complete"
fi

# A store with all that the samples have, and with what only a store has: versions put by hand, without ids or protocols, with
# headers that do not hold, in odd letters, unchanged, at odd times, of no text.
store=$work/pages.fm
"$tool" import "$store" --quiet --keep request,metadata,conversion "$data"/*.warc* 2> "$work/import.log" || [ $? -eq 3 ]
cat > "$work/odd.jsonl" <<'LINES'
{"url":"http://odd.example/h2","time_ms":1700000000123,"status":200,"http_version":"HTTP/2","reason":"","headers":[{"name":"content-type","value":"text/html"},{"name":"content-encoding","value":"gzip"},{"name":"transfer-encoding","value":"chunked"},{"name":"content-length","value":"7"}],"body":"<p>plain after all"}
{"url":"http://odd.example/h2","time_ms":1700000001000,"status":200,"headers":[{"name":"X-Second","value":"visit"}],"body":"<p>plain after all"}
{"url":"http://odd.example/h2","time_ms":1700000002000,"status":404,"reason":"Not Found","headers":[],"body":"<p>plain after all"}
{"url":"http://odd.example/grüße and |x","time_ms":1700000000000,"status":200,"headers":[{"name":"X-Odd","value_base64":"6Q=="}],"body_base64":"AP8NCg0K"}
{"url":"http://odd.example/empty","time_ms":1700000000000,"status":204,"headers":[],"body":""}
{"url":"http://www.odd.example:8080/A/../b?Z=1&a=%20","time_ms":1700000000000,"kind":"resource","headers":[{"name":"Content-Type","value":"text/plain"}],"body":"a file"}
{"url":"https://odd.example/http","time_ms":1700000000000,"status":200,"headers":[],"body":"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"}
{"url":"chrome-extension://abcdefgh/page.html","time_ms":1700000000000,"status":200,"headers":[{"name":"Content-Type","value":"text/html"}],"body":"<p>an extension's"}
{"url":"chrome-extension://abcdefgh/page.html","time_ms":1700000001000,"status":200,"headers":[],"body":"<p>an extension's"}
{"url":"HTTP://UPPER.example/","time_ms":1700000000000,"status":200,"headers":[{"name":"Content-Type","value":"text/html"}],"body":"upper"}
{"url":"ftp://odd.example/file","time_ms":1700000000000,"status":226,"headers":[],"body":"a file"}
{"url":"file:///etc/motd","time_ms":1700000000000,"status":200,"headers":[],"body":"hello"}
{"url":"urn:uuid:00000000-0000-0000-0000-000000000000","time_ms":1700000000000,"status":404,"headers":[],"body":"nothing"}
{"url":"about:blank","time_ms":1700000000000,"status":200,"headers":[],"body":""}
{"url":"moz-extension://x/y?z","time_ms":1700000000000,"kind":"request","method":"GET","http_version":"HTTP/1.1","headers":[],"body":""}
LINES
"$tool" load "$store" --quiet "$work/odd.jsonl"
"$tool" dump "$store" --quiet | sort > "$work/expected"
# Every page of the samples, and of ARC files made for it, is in the store with the body that warcio reads.
"$tools/bin/python" "$here/bodies.py" "$tool" "$data"/*.warc*
echo "export: a store of $(wc -l < "$work/expected") versions"

for form in gzip zstd none gzip-rolled zstd-rolled; do
    folder=$work/$form
    roll=1GB
    [ "${form%-rolled}" = "$form" ] || roll=100kB
    "$tool" dump "$store" --quiet --format warc,cdxj,jsonl --compression "${form%-rolled}" --roll "$roll" -o "$folder"
    for file in "$folder"/*.warc*; do
        "$tools/bin/fastwarc" check "$file" > "$work/log" 2>&1 || { tail -n 5 "$work/log"; fail "fastwarc refuses $file"; }
        grep -q 'verified successfully' "$work/log" || fail "fastwarc verified nothing of $file"
        case $file in
        *.zst) ;;
        *) "$tools/bin/warcio" check "$file" || fail "warcio refuses $file" ;;
        esac
    done
    case ${form%-rolled} in
    zstd) ;;
    *)
        # All files as one: warcat looks for what a record refers to.
        [ "$form" = none ] && compression=none || compression=gzip
        cat "$folder"/*.warc* | "$tools/bin/warcat" verify --compression "$compression" > "$work/log" 2>&1 ||
            { cat "$work/log"; fail "warcat refuses $form"; }
        [ ! -s "$work/log" ] || { cat "$work/log"; fail "warcat finds faults in $form"; }
        ;;
    esac
    "$tools/bin/python" "$here/replay.py" "$tool" "$store" "$folder"
    "$tool" import "$work/$form.fm" --quiet "$folder"/*.warc*
    "$tool" dump "$work/$form.fm" --quiet | sort | cmp - "$work/expected" || fail "the import of $form gives another store"
done
for form in gzip none; do
    # The same, in a WACZ file.
    folder=$work/wacz-$form
    mkdir "$folder"
    "$tool" dump "$store" --quiet --format wacz --compression "$form" --roll 100kB -o "$work/$form.wacz"
    "$tools/bin/wacz" validate -f "$work/$form.wacz" > "$work/log" 2>&1 || { cat "$work/log"; fail "py-wacz refuses $form"; }
    grep -q 'the passed WACZ is valid' "$work/log" || { cat "$work/log"; fail "py-wacz did not say that $form is valid"; }
    (cd "$folder" && "$tools/bin/python" -m zipfile -e "$work/$form.wacz" .)
    mv "$folder"/archive/* "$folder" && mv "$folder/indexes/index.cdxj" "$folder/x.cdxj"
    "$tool" dump "$store" --quiet > "$folder/x.jsonl"
    "$tools/bin/python" "$here/replay.py" "$tool" "$store" "$folder"
    "$tool" import "$work/wacz-$form.fm" --quiet "$work/$form.wacz"
    "$tool" dump "$work/wacz-$form.fm" --quiet | sort | cmp - "$work/expected" || fail "the import of $form.wacz gives another store"
done
# One that py-wacz made, of the samples.
"$tools/bin/wacz" create -o "$work/foreign.wacz" "$data"/example.warc.gz "$data"/cc.warc.gz > "$work/log" 2>&1 ||
    { cat "$work/log"; fail "py-wacz makes no file"; }
"$tool" import "$work/foreign.fm" --quiet "$work/foreign.wacz"
"$tool" import "$work/direct.fm" --quiet "$data"/example.warc.gz "$data"/cc.warc.gz
"$tool" dump "$work/direct.fm" --quiet | sort > "$work/direct"
"$tool" dump "$work/foreign.fm" --quiet | sort | cmp - "$work/direct" || fail "the import of py-wacz's file gives another store"
"$tool" dump "$store" --quiet | "$tool" load "$work/loaded.fm" --quiet
"$tool" dump "$work/loaded.fm" --quiet | sort | cmp - "$work/expected" || fail "a dump that was loaded gives another store"
# Answers to other requests than GET: an index with the keys of cdxj-indexer.
"$tools/bin/python" "$here/methods.py" make "$work/requests.warc.gz"
"$tool" import "$work/requests.fm" --quiet "$work/requests.warc.gz"
"$tool" dump "$work/requests.fm" --quiet --format warc,cdxj -o "$work/requests"
"$tools/bin/python" "$here/methods.py" check "$work/requests"
echo "export: accepted by all readers and by py-wacz, replayed byte for byte, imported to equal stores"
