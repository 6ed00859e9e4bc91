//! Imports a WARC file into a fresh store, judges what is in it, and imports it again.

use filemap::import::{ImportOptions, ImportReport, import};
use filemap::{Options, PageStore};
use filemap_core::sim::{self, Limits};
use filemap_io::sim::SimDisk;

/// Imports `bytes` twice: whatever they hold, each page then reads, the store is whole, and the second time adds nothing.
pub fn import_twice(bytes: &[u8], flags: u8) -> (ImportReport, PageStore) {
    let options = Options::new().canonicalizer("whatwg", 1).free_space_floor(0).memtable_bytes(256 << 10);
    // A simulated map is memory: as little as the store needs.
    let options = sim::with_limits(options, Limits { map_pages: 16, ..Limits::default() });
    let engine = sim::create(SimDisk::new(1).dir(), options).expect("a store");
    let store = PageStore::over(engine).expect("a known canonicaliser");
    let rules = ImportOptions::new()
        .as_received(flags & 2 != 0)
        .keep_requests(flags & 4 != 0)
        .keep_metadata(flags & 8 != 0)
        .keep_conversions(flags & 16 != 0)
        .max_decoded_bytes(1 << 20);
    let once = || import(&store, "fuzzed", bytes, &rules, &mut |_| {}).expect("memory does not fail");
    let report = once();
    for page in store.versions() {
        page.expect("a page that was stored");
    }
    let again = once();
    assert_eq!((again.stored, again.unchanged), (0, 0), "an import again adds nothing");
    let verified = store.engine().verify().expect("memory does not fail");
    assert_eq!(verified.problems, []);
    (report, store)
}
