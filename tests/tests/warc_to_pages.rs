//! Every response of every WARC file comes out of a store as another program read it from the
//! file.
//!
//! A script that shares no code with this project made the table of lengths and CRC-32s,
//! `tests/data/expected-responses.tsv`. Every response is looked up by its URL and its time,
//! through a new follower.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use filemap::import::{ImportOptions, ImportReport};
use filemap::{Options, PageStore, date, import};

/// One response as the other program saw it.
struct Expected {
    url: String,
    time_ms: i64,
    status: u16,
    received: (usize, u32),
    decoded: (usize, u32),
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

fn expected() -> BTreeMap<String, Vec<Expected>> {
    let table = std::fs::read_to_string(data("expected-responses.tsv")).expect("the table is there");
    let mut files: BTreeMap<String, Vec<Expected>> = BTreeMap::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [file, url, time, status, received, received_crc, decoded, decoded_crc] = columns[..] else {
            panic!("eight columns: {line}");
        };
        let crc = |text| u32::from_str_radix(text, 16).expect("a CRC-32");
        let number = |text: &str| text.parse().expect("a number");
        files.entry(file.to_owned()).or_default().push(Expected {
            url: url.to_owned(),
            time_ms: date::parse(time).expect("a time"),
            status: status.parse().expect("a status"),
            received: (number(received), crc(received_crc)),
            decoded: (number(decoded), crc(decoded_crc)),
        });
    }
    files
}

fn import(store: &PageStore, name: &str, options: &ImportOptions) -> ImportReport {
    let file = File::open(data("warc").join(name)).expect("the WARC file is there");
    import::import(store, name, file, options, &mut |_| ControlFlow::Continue(()))
        .expect("nothing but damage can go wrong")
}

/// Returns whether some version of the URL and time has this status, length and CRC-32. Two
/// fetches of a URL within one second are two versions of one time.
fn is_there(store: &PageStore, wanted: &Expected, body: (usize, u32)) -> bool {
    let heads = store.history(&wanted.url).expect("the history is read");
    heads.iter().filter(|head| head.version.time_ms == wanted.time_ms).any(|head| {
        let page = store.get_version(&wanted.url, head.version).expect("it is read").expect("it was listed");
        page.status == Some(wanted.status) && (page.body.len(), crc32fast::hash(&page.body)) == body
    })
}

#[test]
fn every_response_comes_out_decoded_and_as_received() {
    let files = expected();
    assert!(files.values().map(Vec::len).sum::<usize>() > 90);
    for as_received in [false, true] {
        for (name, responses) in &files {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = folder.path().join("pages.fm");
            let store = PageStore::create(&path, Options::new()).expect("a new store");
            let options = ImportOptions::new();
            let report = import(&store, name, &if as_received { options.as_received() } else { options });
            assert!(!report.is_damaged(), "{name}: {:?}", report.problems);
            store.close().expect("it closes");

            let reader = PageStore::open_read_only(&path, Options::new()).expect("it opens");
            for wanted in responses {
                let body = if as_received { wanted.received } else { wanted.decoded };
                assert!(is_there(&reader, wanted, body), "{name}: {} of {}", wanted.url, wanted.time_ms);
            }
        }
    }
}

#[test]
fn all_files_in_one_store_are_read_by_a_handle_that_was_open_before_them() {
    let files = expected();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pages.fm");
    let store = PageStore::create(&path, Options::new()).expect("a new store");
    let reader = PageStore::open_read_only(&path, Options::new()).expect("it opens beside the writer");
    for (name, responses) in &files {
        import(&store, name, &ImportOptions::new());
        reader.engine().refresh().expect("it follows");
        for wanted in responses {
            assert!(is_there(&reader, wanted, wanted.decoded), "{name}: {}", wanted.url);
        }
    }
    let report = reader.engine().verify().expect("it reads the live store");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn a_revisit_has_the_body_of_its_original() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = PageStore::create(folder.path().join("pages.fm"), Options::new()).expect("a new store");
    import(&store, "example.warc.gz", &ImportOptions::new());
    let heads = store.history("http://example.com/").expect("the history is read");
    assert_eq!(heads.len(), 2, "a response and a revisit");
    let newest = store.get("http://example.com/").expect("it is read").expect("it is there");
    assert_eq!((newest.body.len(), crc32fast::hash(&newest.body)), (1270, 0x8baa_9508));
    assert!(newest.revisit.is_some_and(|revisit| revisit.original.is_some()));
}

#[test]
fn a_length_that_is_too_small_is_reported_at_its_offset_and_the_record_is_kept_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = PageStore::create(folder.path().join("pages.fm"), Options::new()).expect("a new store");
    let report = import(&store, "example-trunc.warc", &ImportOptions::new());
    assert_eq!((report.damaged, report.stored), (1, 1), "{report:?}");
    assert!(report.problems[0].to_string().starts_with("example-trunc.warc: offset 1197: "), "{report:?}");
    let page = store.get("http://example.com/").expect("it is read").expect("it is there");
    assert_eq!(
        (page.body.len(), crc32fast::hash(&page.body)),
        (1270, 0x8baa_9508),
        "the same page as in the whole file"
    );
}
