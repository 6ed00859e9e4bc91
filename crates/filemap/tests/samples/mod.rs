//! The sample WARC files of the repository, new stores for them, and WARC files built for a test.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use filemap::import::{ImportOptions, ImportReport, import};
use filemap::warc::Spool;
use filemap::warc::{Item, Problem, Reader, Record};
use filemap::{Options, PageStore};

pub fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/warc").join(name)
}

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).expect("the sample is in the repository")
}

/// The decompressed bytes of a sample.
pub fn plain(name: &str) -> Vec<u8> {
    use std::io::Read;
    let (packed, mut out) = (bytes(name), Vec::new());
    flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut out).expect("the sample is whole");
    out
}

pub struct Fresh {
    pub store: PageStore,
    pub dir: tempfile::TempDir,
}

pub fn fresh() -> Fresh {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
    Fresh { store, dir }
}

pub fn run(store: &PageStore, file: &[u8], options: &ImportOptions) -> ImportReport {
    import(store, "test.warc", file, options, &mut |_| ControlFlow::Continue(())).expect("the store is fine")
}

pub fn run_sample(store: &PageStore, name: &str, options: &ImportOptions) -> ImportReport {
    import(store, name, &bytes(name)[..], options, &mut |_| ControlFlow::Continue(())).expect("the store is fine")
}

/// All records and problems of a file.
pub fn read(file: &[u8]) -> (Vec<Record>, Vec<Problem>) {
    let mut reader = Reader::new(file, "test.warc", Spool::default()).expect("a reader");
    let (mut records, mut problems) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next_item().expect("memory does not fail") {
        match item {
            Item::Record(mut record) => {
                problems.extend(record.problem.take());
                records.push(record);
            }
            Item::Problem(problem) => problems.push(problem),
        }
    }
    (records, problems)
}

/// The record ids of a file's whole records.
pub fn ids(file: &[u8]) -> Vec<String> {
    let id = |record: &Record| record.header.text("WARC-Record-ID").expect("an id").to_owned();
    read(file).0.iter().map(id).collect()
}

/// A response record of `http://example.com/<name>` with this block.
pub fn response(name: &str, block: &[u8]) -> Vec<u8> {
    let head = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.com/{name}\r\n\
         WARC-Date: 2020-01-01T00:00:00Z\r\nWARC-Record-ID: <urn:{name}>\r\n\
         Content-Type: application/http\r\nContent-Length: {}\r\n\r\n",
        block.len()
    );
    [head.as_bytes(), block, b"\r\n\r\n"].concat()
}

/// A response record whose page is this text.
pub fn page(name: &str, text: &str) -> Vec<u8> {
    response(name, format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{text}").as_bytes())
}

pub fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}

pub fn zst(bytes: &[u8], dictionary: &[u8]) -> Vec<u8> {
    let mut out = zstd::stream::Encoder::with_dictionary(Vec::new(), 3, dictionary).expect("memory");
    out.include_checksum(true).expect("an option");
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}
