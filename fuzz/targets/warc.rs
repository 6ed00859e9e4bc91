//! Any bytes as a WARC file: read record by record, imported into a store, imported again.
//!
//! The first byte: bit 0 compresses the rest as one gzip member, so that records behind a checksum
//! are reached; the others choose options.
#![no_main]

#[path = "importing.rs"]
mod importing;

use std::io::Write;

use filemap::warc::Spool;
use filemap::warc::{Item, Reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&flags, bytes)) = data.split_first() else { return };
    let compressed;
    let bytes = if flags & 1 == 0 {
        bytes
    } else {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        compressed = out.write_all(bytes).and_then(|()| out.finish()).expect("memory");
        &compressed
    };
    let mut reader = Reader::new(bytes, "fuzzed", Spool::default()).expect("memory");
    let mut items = 0;
    while let Some(item) = reader.next_item().expect("memory does not fail") {
        items += 1;
        assert!(items <= bytes.len() + 16, "more records than bytes");
        if let Item::Record(mut record) = item {
            let read = std::io::copy(&mut record.block().expect("memory"), &mut std::io::sink()).expect("memory");
            assert_eq!(read, record.block_bytes());
        }
    }
    importing::import_twice(bytes, flags);
});
