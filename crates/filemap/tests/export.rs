//! Stores written out and read back: by WARC files of every form and by JSON Lines, the store is
//! the same again.

use crate::samples::{self, Fresh, fresh, run, run_sample};
use crate::stores::{Memory, assert_equal, contents, dumped};
use filemap::canonical::Exact;
use filemap::dump::{DumpEvent, DumpOptions, Format, Selection, dump, jsonl};
use filemap::import::ImportOptions;
use filemap::page::{Header, HttpVersion, RecordKind, Revisit, RevisitProfile};
use filemap::store::{BodyForm, Loader};
use filemap::warc::{Compression, Item};
use filemap::{Lookup, Options, Page, PageStore, Variant};
use proptest::prelude::*;
use std::ops::ControlFlow;

const SAMPLES: [&str; 7] = [
    "IAH-urls-wget.warc.gz",
    "cc.warc.gz",
    "example-iana.org-chunked.warc",
    "example-trunc.warc",
    "example.warc",
    "example.warc.gz",
    "python-docs.warc.gz",
];

const COMPRESSIONS: [Compression; 3] = [Compression::Gzip, Compression::Zstd, Compression::Plain];

/// The WARC files of a dump, in order.
fn warc_files(files: &Memory) -> Vec<(String, Vec<u8>)> {
    files.files().into_iter().filter(|(name, _)| name.contains(".warc")).collect()
}

/// A store made by importing a dump's WARC files, with the default options.
#[track_caller]
fn imported(files: &Memory, exact_urls: bool) -> Fresh {
    let to = if exact_urls { fresh_exact() } else { fresh() };
    for (name, bytes) in warc_files(files) {
        let report = run(&to.store, &bytes, &ImportOptions::new());
        assert_eq!((report.damaged, report.unusable), (0, 0), "{name}: {:?}", report.problems);
        assert_eq!((report.ignored, report.already_there), (1, 0), "{name}: all but the warcinfo record is kept");
    }
    to
}

fn fresh_exact() -> Fresh {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let store = PageStore::create_with(path, std::sync::Arc::new(Exact), Options::new()).expect("a store");
    Fresh { store, dir }
}

/// A store made by loading a dump's lines.
#[track_caller]
fn loaded(lines: &[u8], exact_urls: bool) -> Fresh {
    let to = if exact_urls { fresh_exact() } else { fresh() };
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let (page, form) = jsonl::read_stored(line).expect("a page");
        let put =
            Loader::default().put_stored_if_new(&to.store, &page, form.expect("a dump says it")).expect("it fits");
        assert!(put.is_some(), "no version is there twice");
    }
    to
}

/// Holds every round trip of a store: three compressions and JSON Lines.
#[track_caller]
fn assert_comes_back(store: &PageStore, exact_urls: bool) {
    for compression in COMPRESSIONS {
        let options = DumpOptions::new("x", &[Format::Warc, Format::Cdxj]).compression(compression);
        let (files, report) = dumped(store, &options);
        assert_eq!(report.inexact, 0);
        assert_equal(&imported(&files, exact_urls).store, store);
        assert!(dumped(store, &options).0.files() == files.files(), "a dump is the same again");
    }
    let (files, _) = dumped(store, &DumpOptions::new("x", &[Format::Jsonl]));
    assert_equal(&loaded(&files.file("x.jsonl"), exact_urls).store, store);
}

#[test]
fn every_sample_comes_back_from_every_form() {
    for name in SAMPLES {
        for as_received in [false, true] {
            let from = fresh();
            let keep =
                ImportOptions::new().keep(RecordKind::Request).keep(RecordKind::Metadata).keep(RecordKind::Conversion);
            run_sample(&from.store, name, &if as_received { keep.as_received() } else { keep });
            assert_comes_back(&from.store, false);
        }
    }
}

#[test]
fn all_samples_in_one_store_come_back_whatever_is_rolled() {
    let from = fresh();
    for name in SAMPLES {
        run_sample(&from.store, name, &ImportOptions::new().keep(RecordKind::Request).keep(RecordKind::Metadata));
    }
    assert_comes_back(&from.store, false);
    for compression in COMPRESSIONS {
        let options = DumpOptions::new("x", &[Format::Warc]).compression(compression).roll_bytes(Some(100_000));
        let (files, report) = dumped(&from.store, &options);
        assert!(report.files.len() > 5, "{:?}", report.files);
        assert_eq!(report.warc_bytes, files.files().values().map(|file| file.len() as u64).sum::<u64>());
        assert_equal(&imported(&files, false).store, &from.store);
    }
}

#[test]
fn a_dump_that_is_stopped_closes_full_files_only() {
    let from = fresh();
    for name in SAMPLES {
        run_sample(&from.store, name, &ImportOptions::new());
    }
    for (after, roll_bytes) in [(3, Some(1 << 30)), (60, Some(20_000)), (50, None)] {
        let options = DumpOptions::new("x", &[Format::Warc, Format::Cdxj, Format::Jsonl, Format::Files, Format::Pages])
            .roll_bytes(roll_bytes);
        let mut files = Memory::default();
        let report = dump(&from.store, &options, &mut files, &mut |event| match event {
            DumpEvent::Progress(report) if report.written >= after => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        let report = report.expect("memory");
        assert!(report.is_cancelled && report.written == after);
        let closed: Vec<String> = files.files().into_keys().filter(|name| !name.contains(".files/")).collect();
        assert_eq!(closed, report.files);
        let is_full = |name: &String| name.ends_with(".warc.gz") && files.file(name).len() >= 20_000;
        assert!(closed.iter().all(is_full) && closed.is_empty() != (after == 60), "{closed:?}");
    }
}

#[test]
fn messages_of_other_schemes_have_no_payload_digest_since_readers_do_not_take_them_apart() {
    let from = fresh();
    let urls = [
        "chrome-extension://abcdefgh/page.html",
        "HTTP://UPPER.example/",
        "ftp://a.example/file",
        "file:///etc/motd",
        "urn:uuid:00000000-0000-0000-0000-000000000000",
        "about:blank",
        "data:text/plain,hello",
        "moz-extension://x/y?z",
        "http://a.example/",
        "https://a.example/",
    ];
    for url in urls {
        let mut page = Page::new(url, 1_700_000_000_000, 200, "the same body");
        page.headers.push("Content-Type", "text/html");
        from.store.put_page(&page).expect("it fits");
        page.fetched_at_ms += 1000;
        from.store.put_page_if_changed(&page).expect("it fits");
        let request = Page { kind: RecordKind::Request, method: Some("GET".to_owned()), status: None, ..page };
        from.store.put_page(&request).expect("it fits");
    }
    let options = DumpOptions::new("x", &[Format::Warc, Format::Cdxj]).compression(Compression::Plain);
    let (files, _) = dumped(&from.store, &options);
    let (records, problems) = samples::read(&files.file("x-00000.warc"));
    assert!(problems.is_empty());
    let mut without = 0;
    for record in records.iter().filter(|record| record.header.record_type() == "response") {
        let uri = record.header.target_uri().expect("a URL");
        let is_web = uri.starts_with(b"http:") || uri.starts_with(b"https:");
        assert_eq!(record.header.text("WARC-Payload-Digest").is_some(), is_web, "{}", String::from_utf8_lossy(uri));
        without += usize::from(!is_web);
    }
    assert_eq!(without, urls.len() - 2);
    let index = String::from_utf8(files.file("x.cdxj")).expect("text");
    assert!(index.lines().count() == 2 * urls.len() && !index.contains("\"digest\":\"-\""), "{index}");
    assert_comes_back(&from.store, false);
}

#[test]
fn importing_an_export_again_adds_nothing() {
    let from = fresh();
    run_sample(&from.store, "IAH-urls-wget.warc.gz", &ImportOptions::new().keep(RecordKind::Request));
    put_unchanged(&from.store);
    let (files, _) = dumped(&from.store, &DumpOptions::new("x", &[Format::Warc]));
    let to = imported(&files, false);
    let again = run(&to.store, &warc_files(&files)[0].1, &ImportOptions::new());
    assert_eq!((again.stored, again.already_there), (0, from.store.versions().count() as u64));
    // Nor does it add to the store that it came from.
    let back = run(&from.store, &warc_files(&files)[0].1, &ImportOptions::new());
    assert_eq!(back.stored, 0);
}

fn put_unchanged(store: &PageStore) {
    for (time_ms, body) in [(1000, "one"), (2000, "one"), (3000, "two"), (4000, "two"), (4000, "two"), (5000, "one")] {
        let mut page = Page::new("http://a.example/again", time_ms, 200, body);
        page.headers.push("X-Visit", store.versions().count().to_string());
        store.put_page_if_changed(&page).expect("it fits");
    }
}

#[test]
fn unchanged_versions_go_out_as_revisits_and_come_back_unchanged() {
    let from = fresh();
    put_unchanged(&from.store);
    let references: Vec<Option<usize>> = contents(&from.store).into_values().flatten().map(|held| held.1).collect();
    assert_eq!(references, [None, Some(3), Some(3), None, Some(5), None]);
    assert_comes_back(&from.store, false);
    let (files, _) = dumped(&from.store, &DumpOptions::new("x", &[Format::Warc, Format::Cdxj]));
    let (records, _) = samples::read(&files.file("x-00000.warc.gz"));
    let revisits: Vec<_> = records.iter().filter(|record| record.header.record_type() == "revisit").collect();
    assert_eq!(revisits.len(), 3);
    let header = &revisits[0].header;
    assert_eq!(header.text("WARC-Refers-To-Target-URI"), Some("http://a.example/again"));
    assert_eq!(header.text("WARC-Refers-To-Date"), Some("1970-01-01T00:00:01Z"));
    let original = records.iter().skip(1).find(|record| record.header.date_ms() == Some(1000)).expect("the original");
    assert_eq!(header.text("WARC-Refers-To"), original.header.text("WARC-Record-ID"));
    assert_eq!(header.text("WARC-Payload-Digest"), original.header.text("WARC-Payload-Digest"));
    let index = String::from_utf8(files.file("x.cdxj")).expect("text");
    assert_eq!(index.lines().filter(|line| line.contains(r#""mime":"warc/revisit""#)).count(), 3, "{index}");
}

#[test]
fn an_unchanged_version_before_its_original_is_a_revisit_of_it_and_stays_one() {
    let from = fresh();
    for time_ms in [1000, 2000] {
        from.store.put_page_if_changed(&Page::new("http://a/", time_ms, 200, "body")).expect("it fits");
    }
    let options = DumpOptions::new("x", &[Format::Warc]).compression(Compression::Plain).roll_bytes(Some(1));
    let (files, _) = dumped(&from.store, &options);
    let (first, second) = (files.file("x-00000.warc"), files.file("x-00001.warc"));
    let to = fresh();
    for file in [&second, &first] {
        assert_eq!(run(&to.store, file, &ImportOptions::new()).stored, 1);
    }
    let page = to.store.get("http://a/").expect("readable").expect("there");
    assert_eq!((page.kind, page.fetched_at_ms, &page.body[..]), (RecordKind::Revisit, 2000, &b"body"[..]));
    for file in [&first, &second] {
        assert_eq!(run(&to.store, file, &ImportOptions::new()).stored, 0, "again, it adds nothing");
    }
}

#[test]
fn a_part_of_a_store_is_whole_in_itself() {
    let from = fresh();
    put_unchanged(&from.store);
    run_sample(&from.store, "example.warc.gz", &ImportOptions::new());
    let part = |selection: Selection, newest: bool| {
        let options = DumpOptions::new("x", &[Format::Warc]).selection(selection);
        let options = if newest { options.newest_only() } else { options };
        let (files, _) = dumped(&from.store, &options);
        samples::read(&files.file("x-00000.warc.gz")).0.split_off(1)
    };
    let late = part(Selection::new().from(1500).before(2500), false);
    assert_eq!((late.len(), late[0].header.record_type()), (1, "response"), "its original is not in the dump");
    let newest = part(Selection::new().prefix("http://example.com/"), true);
    assert_eq!((newest.len(), newest[0].header.record_type()), (1, "response"));
    assert!(newest[0].block_bytes() > 1270, "the newest is a revisit: it has its original's body");
    let both = part(Selection::new().prefix("http://example.com/"), false);
    let types: Vec<&str> = both.iter().map(|record| record.header.record_type()).collect();
    assert_eq!(types, ["response", "revisit"]);
}

#[test]
fn records_are_good_for_readers_that_know_no_stores() {
    let from = fresh();
    let mut page = Page::new("http://bücher.example/é |x", 1_488_772_926_123, 200, "plain");
    page.reason = b"OK\r\nInjected: yes".to_vec();
    page.http_version = Some(HttpVersion::Http2);
    for (name, value) in [
        ("transfer-encoding", "chunked"),
        ("Content-Encoding", "gzip"),
        ("Content-Length", "99"),
        ("X", "a\r\n\r\nb"),
        ("Content-Type", "text/html"),
    ] {
        page.headers.push(name, value);
    }
    from.store.put_page(&page).expect("it fits");
    assert_comes_back(&from.store, false);
    let (files, _) = dumped(&from.store, &DumpOptions::new("x", &[Format::Warc]).compression(Compression::Plain));
    let text = String::from_utf8(files.file("x-00000.warc")).expect("text");
    for line in [
        "WARC-Target-URI: http://xn--bcher-kva.example/%C3%A9%20%7Cx\r\n",
        "WARC-Date: 2017-03-06T04:02:06.123Z\r\n",
        "WARC-Protocol: h2\r\n",
        "Content-Type: application/http;msgtype=response\r\n",
        "\r\n\r\nHTTP/1.1 200 OK  Injected: yes\r\nX-Crawler-transfer-encoding: chunked\r\n\
         X-Crawler-Content-Encoding: gzip\r\nX-Crawler-Content-Length: 99\r\nX: a    b\r\nContent-Type: text/html\r\n\r\n\
         plain\r\n\r\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[test]
fn pages_that_fit_no_record_come_back_all_the_same() {
    let from = fresh_exact();
    let store = &from.store;
    let kinds =
        RecordKind::ALL.map(|kind| Page { kind, ..Page::new("http://a/kind", 5, 7, "HTTP/1.1 200 OK\r\n\r\nx") });
    let mut odd: Vec<Page> = kinds.to_vec();
    odd.push(Page { status: None, ..Page::new("http://a/none", i64::MAX, 1, "HTTP/1.1 200 OK\r\n\r\nx") });
    odd.push(Page { status: Some(u16::MAX), ..Page::new("no url at all", i64::MIN, 1, "") });
    odd.push(Page { status: None, ..Page::new(&b"\xff\xfe"[..], -1, 1, "") });
    let mut large = Page::new("http://a/large", 1, 200, "x");
    large.headers.push("Set-Cookie", vec![b'y'; 100_000]);
    odd.push(large.clone());
    large.url = b"http://a/large-and-odd".to_vec();
    large.headers.push("Set-Cookie", vec![b'\n'; 100_000]);
    odd.push(large);
    let unknown = Revisit {
        profile: RevisitProfile::Other("an odd\r\nprofile".to_owned()),
        refers_to_url: Some(b"\xff".to_vec()),
        refers_to_ms: Some(i64::MIN),
        refers_to_id: Some("an id\r\n".to_owned()),
        original: None,
    };
    odd.push(Page {
        kind: RecordKind::Revisit,
        revisit: Some(unknown),
        ..Page::new("http://a/revisit", 1, 304, "own")
    });
    let mut texts = Page::new("http://a/texts", 1, 200, "x");
    texts.truncated = Some("for some\nreason".to_owned());
    texts.digest = Some("md5 or\nso".to_owned());
    texts.record_id = Some("not an id".to_owned());
    texts.http_version = Some(HttpVersion::Other("GOPHER 7".to_owned()));
    texts.headers.push("", "");
    texts.headers.push(" a:b ", " c ");
    odd.push(texts);
    for page in &odd {
        store.put_page(page).expect("it fits");
    }
    assert_comes_back(store, true);
}

#[test]
fn headers_beyond_what_readers_take_cost_their_exactness_and_are_counted() {
    let from = fresh();
    let mut page = Page::new("http://a/", 1, 200, "body");
    page.headers.push("A", "\n".repeat(900_000));
    from.store.put_page(&page).expect("it fits");
    let (files, report) = dumped(&from.store, &DumpOptions::new("x", &[Format::Warc]));
    assert_eq!(report.inexact, 1);
    let to = imported(&files, false);
    assert_eq!(to.store.get("http://a/").expect("readable").expect("there").body, b"body");
}

#[test]
fn the_index_is_sorted_and_leads_to_every_record() {
    let from = fresh();
    for name in SAMPLES {
        run_sample(&from.store, name, &ImportOptions::new().keep(RecordKind::Request));
    }
    let pages = from.store.versions().filter(|page| page.as_ref().expect("whole").kind.is_page()).count();
    for compression in COMPRESSIONS {
        let options = DumpOptions::new("x", &[Format::Warc, Format::Cdxj]).compression(compression);
        let (files, _) = dumped(&from.store, &options.roll_bytes(Some(300_000)));
        let index = String::from_utf8(files.file("x.cdxj")).expect("text");
        let lines: Vec<&str> = index.lines().collect();
        assert!(lines.is_sorted());
        assert_eq!(lines.len(), pages);
        for line in lines {
            let fields: serde_json::Value =
                serde_json::from_str(&line[line.find('{').expect("an object")..]).expect("JSON");
            let number =
                |name: &str| fields[name].as_str().and_then(|text| text.parse::<usize>().ok()).expect("a number");
            let file = files.file(fields["filename"].as_str().expect("a name"));
            let member = &file[number("offset")..number("offset") + number("length")];
            let member = match compression {
                // A reader has the file's dictionary.
                Compression::Zstd => [&file[..8 + dictionary_bytes(&file)], member].concat(),
                _ => member.to_vec(),
            };
            let (records, problems) = samples::read(&member);
            assert_eq!((records.len(), problems.len()), (1, 0), "{line}: {problems:?}");
            let header = &records[0].header;
            assert_eq!(header.text("WARC-Target-URI"), fields["url"].as_str());
            let digest = format!("sha1:{}", fields["digest"].as_str().expect("a digest"));
            assert_eq!(header.text("WARC-Payload-Digest"), Some(digest.as_str()));
        }
    }
}

fn dictionary_bytes(file: &[u8]) -> usize {
    assert_eq!(file[..4], [0x5d, 0x2a, 0x4d, 0x18], "a dictionary");
    u32::from_le_bytes(file[4..8].try_into().expect("four bytes")) as usize
}

#[test]
fn a_tree_of_files_has_every_body_and_a_list_says_whose() {
    let from = fresh();
    run_sample(&from.store, "IAH-urls-wget.warc.gz", &ImportOptions::new());
    run_sample(&from.store, "example.warc.gz", &ImportOptions::new());
    for (url, body) in [("http://a/x", "file"), ("http://a/x/y", "below"), ("https://a/x", "other"), ("http://a/e", "")]
    {
        from.store.put_page(&Page::new(url, 1000, 200, body)).expect("it fits");
    }
    for newest_only in [false, true] {
        let options = DumpOptions::new("x", &[Format::Files, Format::Jsonl]);
        let options = if newest_only { options.newest_only() } else { options };
        let (files, report) = dumped(&from.store, &options);
        assert_eq!(report.files, ["x.jsonl", "x.files.jsonl"]);
        let list = String::from_utf8(files.file("x.files.jsonl")).expect("text");
        assert_eq!(list.lines().count() as u64, report.written);
        let mut placed = 0;
        for line in list.lines() {
            let fields: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let (url, time_ms) = (fields["url"].as_str().expect("a URL"), fields["time_ms"].as_i64().expect("a time"));
            let whole = from.store.get(Lookup::new(url).at(time_ms)).expect("readable").expect("there");
            match fields["file"].as_str() {
                Some(path) => assert!(files.file(path) == whole.body, "{path}"),
                None => assert_eq!(whole.body, b"", "{line}"),
            }
            placed += usize::from(!fields["file"].is_null());
        }
        assert_eq!(files.files().keys().filter(|name| name.starts_with("x.files/")).count(), placed);
    }
    let (files, _) = dumped(&from.store, &DumpOptions::new("x", &[Format::Files]).newest_only());
    assert_eq!(files.file("x.files/a/x"), b"file");
    assert!(
        files.files().keys().filter(|name| name.starts_with("x.files/a/~/")).count() == 2,
        "{:?}",
        files.files().keys()
    );
}

#[test]
fn several_forms_at_a_time_are_those_of_one_at_a_time() {
    let from = fresh();
    run_sample(&from.store, "python-docs.warc.gz", &ImportOptions::new());
    let formats = [Format::Warc, Format::Cdxj, Format::Jsonl, Format::Files];
    let (together, report) = dumped(&from.store, &DumpOptions::new("x", &formats));
    let mut apart = std::collections::BTreeMap::new();
    for formats in [&[Format::Warc, Format::Cdxj][..], &[Format::Jsonl], &[Format::Files]] {
        apart.extend(dumped(&from.store, &DumpOptions::new("x", formats)).0.files());
    }
    assert!(together.files() == apart);
    assert_eq!((report.written, report.seen), (64, 64));
    let limited = dumped(&from.store, &DumpOptions::new("x", &formats).limit(Some(5))).1;
    assert_eq!(limited.written, 5);
}

#[test]
fn a_field_of_ours_that_lies_makes_an_ordinary_record_of_it() {
    let block = "HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody";
    for field in
        ["head=9999", "head=3", "head=25 renamed=0", "head=25 renamed=9", "head=25 page=AAAA", "head=25 kind=none"]
    {
        let record = samples::response("x", block.as_bytes());
        let text = String::from_utf8(record).expect("text").replacen(
            "Content-Length",
            &format!("FileMap-Page: {field}\r\nContent-Length"),
            1,
        );
        let Some(Item::Record(_)) = first(&text) else { panic!("a record") };
        let to = fresh();
        let report = run(&to.store, text.as_bytes(), &ImportOptions::new());
        assert_eq!((report.stored, report.damaged), (1, 0), "{field}");
        let page = to.store.get("http://example.com/x").expect("readable").expect("there");
        assert_eq!((page.status, &page.body[..]), (Some(200), &b"body"[..]), "{field}");
    }
}

fn first(text: &str) -> Option<Item> {
    filemap::warc::Reader::new(text.as_bytes(), "t", filemap::warc::Spool::default())
        .expect("a reader")
        .next_item()
        .expect("memory")
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,8}", "\\PC{0,12}", "[ \r\n\t:]{0,3}"]
}

fn odd_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..20),
        text().prop_map(String::into_bytes),
        Just(b"chunked".to_vec()),
        Just(b"gzip".to_vec())
    ]
}

fn header_name() -> impl Strategy<Value = Vec<u8>> {
    let known = ["Content-Type", "content-length", "Transfer-Encoding", "Content-Encoding", "X-Crawler-Content-Length"];
    prop_oneof![odd_bytes(), proptest::sample::select(known.to_vec()).prop_map(|name| name.as_bytes().to_vec())]
}

fn page() -> impl Strategy<Value = Page> {
    let url = prop_oneof!["[a-c]{1,2}", "https?://[a-b.]{1,3}/\\PC{0,6}"].prop_map(String::into_bytes);
    let time = prop_oneof![0i64..4, any::<i64>()];
    let status = proptest::option::of(prop_oneof![Just(200u16), 1u16..u16::MAX]);
    let version = proptest::option::of(prop_oneof![
        Just(HttpVersion::Http10),
        Just(HttpVersion::Http11),
        Just(HttpVersion::Http2),
        text().prop_map(|text| HttpVersion::Other(format!("x{text}"))),
    ]);
    let revisit = (proptest::option::of(odd_bytes()), any::<Option<i64>>(), proptest::option::of(text()), 0..3usize);
    let revisit = proptest::option::of(revisit.prop_map(|(refers_to_url, refers_to_ms, refers_to_id, profile)| {
        Revisit {
            profile: [
                RevisitProfile::IdenticalPayload,
                RevisitProfile::ServerNotModified,
                RevisitProfile::Other("x y".into()),
            ][profile]
                .clone(),
            refers_to_url: refers_to_url.filter(|url| !url.is_empty()),
            refers_to_ms,
            refers_to_id,
            original: None,
        }
    }));
    let first = (url, time, 0..6usize, status, odd_bytes(), version, proptest::option::of(text()));
    let headers = proptest::collection::vec((header_name(), odd_bytes()), 0..5);
    let texts = (proptest::option::of(text()), proptest::option::of(text()), proptest::option::of(text()));
    let variant = proptest::option::of(proptest::collection::vec(any::<u8>(), 1..5));
    (first, headers, odd_bytes(), texts, revisit, variant).prop_map(
        |(first, headers, body, texts, revisit, variant)| {
            let (url, fetched_at_ms, kind, status, reason, http_version, method) = first;
            let variant = variant.map(|bytes| Variant::new(bytes).expect("fits"));
            let (truncated, digest, record_id) = texts;
            let headers = headers.into_iter().map(|(name, value)| Header { name, value }).collect();
            let kind = RecordKind::ALL[kind];
            let ip = None;
            Page {
                url,
                variant,
                fetched_at_ms,
                kind,
                status,
                reason,
                http_version,
                method,
                ip,
                headers,
                body,
                truncated,
                digest,
                record_id,
                revisit,
                in_place: None,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_pages_come_back_from_every_form(pages in proptest::collection::vec((page(), any::<bool>()), 1..8)) {
        let from = fresh_exact();
        for (page, unchanged) in &pages {
            let may_refer = *unchanged && page.kind != RecordKind::Revisit;
            let form = if may_refer { BodyForm::Reference } else { BodyForm::Whole };
            Loader::default().put_stored_if_new(&from.store, page, form).expect("it fits");
        }
        assert_comes_back(&from.store, true);
    }
}

#[test]
fn a_dump_of_a_host_is_the_same_by_look_ups_as_by_a_pass_over_the_log() {
    let (ordered, dir) = (fresh(), tempfile::tempdir().expect("a folder"));
    let options = filemap::store::page_options(Options::new().canonicalizer("whatwg", 1)).end_key_order();
    let plain = filemap_core::Store::create(dir.path().join("s"), options).expect("a store");
    let plain = PageStore::over(plain).expect("known");
    let keep = ImportOptions::new().keep(RecordKind::Request).keep(RecordKind::Metadata);
    for store in [&ordered.store, &plain] {
        for sample in SAMPLES {
            run_sample(store, sample, &keep);
        }
        store.put_page(&Page::new("ftp://archive.org/x", 1, 200, "odd")).expect("it fits");
        let post = Variant::new("POST").ok();
        store.put_page(&Page { variant: post, ..Page::new("http://archive.org/", 1, 200, "odd") }).expect("it fits");
    }
    assert_ne!(ordered.store.engine().has_key_order(), plain.engine().has_key_order());
    let selections = [
        Selection::new().host("archive.org"),
        Selection::new().host_with_subdomains("org"),
        Selection::new().prefix("http://archive.org/"),
        Selection::new().prefix("ftp:"),
        Selection::new().prefix("http://a"),
        Selection::new().host("archive.org").status("2xx".parse().expect("a class")),
        Selection::new().host("absent.example"),
    ];
    for selection in selections {
        for newest in [false, true] {
            let options = DumpOptions::new("x", &[Format::Warc, Format::Cdxj, Format::Jsonl, Format::Files]);
            let options = options.selection(selection.clone());
            let options = if newest { options.newest_only() } else { options };
            let ((files, report), (expected, passed)) = (dumped(&ordered.store, &options), dumped(&plain, &options));
            assert_eq!((report.written, report.damaged), (passed.written, 0), "{selection:?}");
            assert!(report.seen <= passed.seen);
            assert!(files.files() == expected.files(), "{selection:?}");
        }
    }
    let (_, report) =
        dumped(&ordered.store, &DumpOptions::new("x", &[Format::Jsonl]).selection(Selection::new().prefix("ftp:")));
    assert_eq!((report.seen, report.written), (1, 1), "nothing else was read");
}
