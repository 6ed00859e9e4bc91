//! Imports a WARC file into a fresh store, judges what is in it, and imports it again.

use filemap::import::{ImportOptions, ImportReport, import};
use filemap::page::RecordKind;
use filemap::{Options, PageStore};
use filemap_core::sim::{self, Limits};
use filemap_io::sim::SimDisk;
use std::ops::ControlFlow;

/// Imports `bytes` twice: whatever they hold, each page then reads, the store is whole, and the
/// second time adds nothing.
pub fn import_twice(bytes: &[u8], flags: u8) -> (ImportReport, PageStore) {
    let options = Options::new().canonicalizer("whatwg", 1).free_space_floor(0).memtable_bytes(256 << 10);
    // A simulated map is memory: as little as the store needs.
    let options = sim::with_limits(options, Limits { map_pages: 16, ..Limits::default() });
    let engine = sim::create(SimDisk::new(1).dir(), options).expect("a store");
    let store = PageStore::over(engine).expect("a known canonicaliser");
    let mut rules = ImportOptions::new().max_decoded_bytes(1 << 20);
    for (flag, kind) in [(4, RecordKind::Request), (8, RecordKind::Metadata), (16, RecordKind::Conversion)] {
        if flags & flag != 0 {
            rules = rules.keep(kind);
        }
    }
    if flags & 2 != 0 {
        rules = rules.as_received();
    }
    let once =
        || import(&store, "fuzzed", bytes, &rules, &mut |_| ControlFlow::Continue(())).expect("memory does not fail");
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
