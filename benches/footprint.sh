#!/usr/bin/env bash
# Measures what crate filemap costs a program that puts and gets one page: crates it depends on,
# time of a clean release build, size of the binary; with and without default features. Offline;
# takes about two minutes on two cores.
#
#   benches/footprint.sh
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$work/target TIMEFORMAT='%R %U %S'

mkdir "$work/src"
cat > "$work/src/main.rs" << 'RUST'
use filemap::{Options, Page, PageStore};

fn main() -> filemap::Result<()> {
    let store = PageStore::open_or_create("pages.fm", Options::new())?;
    store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
    let page = store.get("http://example.com/")?.map(|page| page.body);
    store.close()?;
    assert_eq!(page.as_deref(), Some(&b"hello"[..]));
    Ok(())
}
RUST

printf '| features | crates | clean build, s | CPU, s | binary, MB |\n|---|---|---|---|---|\n'
for defaults in true false; do
    printf '[package]\nname = "footprint"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[profile.release]\nstrip = true\n[dependencies]\nfilemap = { path = "%s/crates/filemap", default-features = %s }\n' \
        "$repository" "$defaults" > "$work/Cargo.toml"
    # Use the versions of the workspace.
    cp "$repository/Cargo.lock" "$work/Cargo.lock"
    cd "$work"
    rm -rf "$CARGO_TARGET_DIR"
    crates=$(cargo tree --offline -e normal --prefix none | sed 's/ (\*)$//' | sort -u | grep -vc '^footprint ')
    read -r wall user system < <({ time cargo build --release --offline --quiet 2> "$work/words"; } 2>&1) || true
    binary=$CARGO_TARGET_DIR/release/footprint
    [ -x "$binary" ] || { cat "$work/words" >&2; exit 1; }
    "$binary"
    printf '| `default-features = %s` | %s | %.0f | %.0f | %.1f |\n' "$defaults" "$crates" "$wall" \
        "$(awk "BEGIN { print $user + $system }")" "$(awk "BEGIN { print $(stat -c %s "$binary") / 1000000 }")"
    rm -rf pages.fm
done
