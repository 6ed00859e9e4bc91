//! Any bytes as the block of a WARC response or request: the HTTP head, the chunked coding, the
//! content codings.
//!
//! The first byte: bit 0 makes it a request; the others choose options as for whole WARC files.
#![no_main]

#[path = "importing.rs"]
mod importing;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&flags, block)) = data.split_first() else { return };
    let kind = if flags & 1 == 0 { "response" } else { "request" };
    let mut file = format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://a/\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n\
         Content-Type: application/http; msgtype={kind}\r\nContent-Length: {}\r\n\r\n",
        block.len()
    )
    .into_bytes();
    file.extend_from_slice(block);
    file.extend_from_slice(b"\r\n\r\n");
    let (report, store) = importing::import_twice(&file, flags | 4);
    assert_eq!((report.records, report.damaged), (1, 0), "{:?}", report.problems);
    // A request that cannot be read is kept as it is, and named: it does not tell what its answer
    // is of.
    let told = report.stored + report.unusable;
    assert!(told == 1 || (kind == "request" && (report.stored, report.unusable) == (1, 1)), "{:?}", report.problems);
    if kind == "response" && report.stored == 1 {
        let page = store.get("http://a/").expect("readable").expect("just stored");
        assert_eq!(page.url, b"http://a/");
    }
});
