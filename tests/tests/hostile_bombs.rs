//! Hostile WARC files: small ones that decompress to much, and ones that make a reader look again
//! and again. Reading ends, in bounded memory.
//!
//! A separate program: its allocator counts the memory of the whole process.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use filemap::import::{ImportOptions, ImportReport, import};
use filemap::warc::Spool;
use filemap::warc::{Item, Reader};
use filemap::{Options, PageStore};
use filemap_core::sim;
use filemap_io::sim::SimDisk;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The spool keeps 8 MiB of a record in memory, the input two windows of 1 MiB; the store its
/// tables.
const MEMORY_LIMIT_MB: f32 = 48.0;

static ALONE: Mutex<()> = Mutex::new(());

/// Runs a test with the counted memory to itself.
fn within(limit_mb: f32, test: impl FnOnce()) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    MEMORY.reset_peak_usage();
    test();
    let peak = MEMORY.peak_usage_as_mb();
    assert!(peak < limit_mb, "{peak} MiB at once");
}

/// Numbers of records and problems in a file.
fn items(file: &[u8]) -> (usize, usize) {
    let mut reader = Reader::new(file, "hostile", Spool::default()).unwrap();
    let (mut records, mut problems) = (0, 0);
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Record(_) => records += 1,
            Item::Problem(_) => problems += 1,
        }
    }
    (records, problems)
}

fn imported(file: &[u8]) -> (ImportReport, PageStore) {
    let options = Options::new().canonicalizer("whatwg", 1).free_space_floor(0).memtable_bytes(256 << 10);
    let store = PageStore::over(sim::create(SimDisk::new(1).dir(), options).unwrap()).unwrap();
    let rules = ImportOptions::new().max_decoded_bytes(1 << 20);
    let report = import(&store, "hostile", file, &rules, &mut |_| ControlFlow::Continue(())).unwrap();
    (report, store)
}

fn record(head: &str, body: &[u8]) -> Vec<u8> {
    let start = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a/\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n\
         Content-Length: {}\r\n\r\n{head}",
        head.len() + body.len()
    );
    [start.as_bytes(), body, b"\r\n\r\n"].concat()
}

fn gzip(parts: usize, part: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    (0..parts).for_each(|_| out.write_all(part).unwrap());
    out.finish().unwrap()
}

/// A frame of this number of blocks of 128 KiB of one byte each: 4 bytes a block.
fn zstd_frame(blocks: u32, byte: u8) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50];
    for nth in 0..blocks {
        let block = (128 << 10) << 3 | 1 << 1 | u32::from(nth + 1 == blocks);
        frame.extend_from_slice(&block.to_le_bytes()[..3]);
        frame.push(byte);
    }
    frame
}

#[test]
fn members_that_decompress_to_128_mib_of_nothing_cost_a_problem_and_the_records_behind_them_are_read() {
    let whole = record("HTTP/1.0 200 OK\r\n\r\n", b"page");
    let bombs = [
        [gzip(128, &vec![0; 1 << 20]), gzip(1, &whole)],
        [zstd_frame(1024, 0), zstd::bulk::compress(&whole, 1).unwrap()],
    ];
    within(MEMORY_LIMIT_MB, || {
        for bomb in bombs {
            assert!(bomb[0].len() < 1 << 20);
            assert_eq!(items(&bomb.concat()), (1, 1));
        }
    });
}

#[test]
fn a_body_that_decompresses_beyond_the_limit_is_kept_as_it_came() {
    let bombs = [("gzip", gzip(64, &vec![0; 1 << 20])), ("zstd", zstd_frame(1024, 0))];
    within(MEMORY_LIMIT_MB, || {
        for (coding, bomb) in bombs {
            let head = format!("HTTP/1.0 200 OK\r\nContent-Encoding: {coding}\r\n\r\n");
            let (report, store) = imported(&record(&head, &bomb));
            assert_eq!((report.stored, report.kept_as_received), (1, 1), "{coding}");
            assert_eq!(store.get("http://a/").unwrap().unwrap().body, bomb);
        }
    });
}

#[test]
fn lengths_beyond_the_file_are_a_cut_record() {
    within(MEMORY_LIMIT_MB, || {
        for length in ["18446744073709551615", "1152921504606846976", "4294967295", "99999999999999999999999999"] {
            let file = format!("WARC/1.0\r\nWARC-Type: response\r\nContent-Length: {length}\r\n\r\nbody");
            let (records, problems) = items(file.as_bytes());
            // What is there of a last record is kept; an invalid length makes it no record.
            let is_length = length.parse::<u64>().is_ok();
            assert_eq!((records, problems), (usize::from(is_length), usize::from(!is_length)), "{length}");
        }
        let chunk = b"fffffffffffffff0\r\nabc";
        let (report, _) = imported(&record("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk));
        assert_eq!((report.records, report.stored), (1, 1));
    });
}

/// A head of a mebibyte has half a million lines of two bytes, which were a hundred bytes each
/// once they were fields.
#[test]
fn heads_of_half_a_million_lines_take_little_memory_and_lose_nothing() {
    let lines = || "a\n".repeat((1 << 19) - 100);
    let message = || format!("HTTP/1.1 200 OK\r\n{}\r\n", lines());
    // Beside the memory of the import the file itself, of 20 MiB.
    within(MEMORY_LIMIT_MB + 24.0, || {
        let (report, store) = imported(&record(&message(), b"body").repeat(20));
        assert_eq!((report.records, report.stored, report.already_there), (20, 1, 19));
        assert_eq!(store.get("http://a/").unwrap().unwrap().body, [message().as_bytes(), b"body"].concat());
    });
    within(MEMORY_LIMIT_MB + 24.0, || {
        let fields = format!("WARC/1.0\r\nWARC-Type: response\r\n{}Content-Length: 0\r\n\r\n\r\n\r\n", lines());
        let (report, _) = imported(fields.repeat(20).as_bytes());
        assert_eq!((report.records, report.damaged), (0, 20));
    });
    within(MEMORY_LIMIT_MB + 24.0, || {
        // As many as a head may have, of messages that a batch has room for.
        let most = record(&format!("HTTP/1.1 200 OK\r\n{}\r\n", "a\n".repeat(9_999)), b"body").repeat(600);
        assert_eq!(imported(&most).0.records, 600);
    });
}

/// Without a bound on the work for each candidate this runs for minutes: the dictionary was made
/// ready for each of them.
#[test]
fn a_dictionary_that_decompresses_to_64_mib_is_made_ready_once() {
    let content = zstd_frame(512, b'd');
    let size = (content.len() as u32).to_le_bytes();
    let candidates = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50, 0xff, 0xff].repeat(4000);
    let file = [&[0x5d, 0x2a, 0x4d, 0x18][..], &size, &content, &candidates].concat();
    // The dictionary itself is there three times over while it is taken.
    within(256.0, || assert_eq!(items(&file).0, 0));
}
