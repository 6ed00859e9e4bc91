//! One version of a page that cannot be read costs that version: histories, revisits, imports and
//! dumps continue with the others, and name it.

use crate::stores;
use filemap::store::BodyForm;
use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use filemap::dump::{DumpEvent, DumpOptions, DumpReport, Format, dump};
use filemap::page::{RecordKind, Revisit, RevisitProfile};
use filemap::{Error, Lookup, Options, Page, PageStore, Version};
use tempfile::TempDir;

const URL: &str = "http://a.example/";

/// A store in a folder, closed.
struct Closed {
    path: PathBuf,
    _dir: TempDir,
}

fn sha1(letter: char) -> String {
    format!("sha1:{}", letter.to_string().repeat(32))
}

/// A version of the page at this second, with this body and this for a digest.
fn page(second: i64, body: &str, letter: char) -> Page {
    let mut page = Page::new(URL, second * 1000, 200, body);
    page.digest = Some(sha1(letter));
    page
}

fn revisit(second: i64, letter: Option<char>, refers_to: Option<i64>, profile: RevisitProfile) -> Page {
    let refers_to_ms = refers_to.map(|second| second * 1000);
    Page {
        kind: RecordKind::Revisit,
        digest: letter.map(sha1),
        revisit: Some(Revisit { profile, refers_to_url: None, refers_to_ms, refers_to_id: None, original: None }),
        ..Page::new(URL, second * 1000, 200, "")
    }
}

/// A store of these pages, in which the record of the version of second 20 is overwritten.
fn damaged(pages: &[Page]) -> Closed {
    damaged_at(pages, |_| 0)
}

/// As [`damaged`], at a byte of the record that `at` finds by its length.
fn damaged_at(pages: &[Page], at: impl Fn(u64) -> u64) -> Closed {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let store = PageStore::create(&path, Options::new()).expect("a store");
    for page in pages {
        store.put_page(page).expect("stored");
    }
    let heads = store.engine().history(URL.as_bytes()).expect("whole");
    let head = heads.iter().find(|head| head.version.time_ms == 20_000).expect("there");
    let (place, offset) = (head.place, head.place.offset + at(head.stored_bytes));
    store.close().expect("closed");
    let file = path.join(format!("value{}.dat", place.segment));
    let file = OpenOptions::new().write(true).open(file).expect("a segment");
    file.write_all_at(&[0xee; 16], offset).expect("written");
    Closed { path, _dir: dir }
}

impl Closed {
    fn read(&self) -> PageStore {
        PageStore::open_read_only(&self.path, Options::new()).expect("readable")
    }
}

/// The second of the version that an error says cannot be read.
#[track_caller]
fn lost(error: &Error) -> i64 {
    let (version, words) = match error {
        Error::Unreadable { version, .. } => (version, error.to_string()),
        Error::LostOriginal { source, .. } => return lost(source),
        other => panic!("{other}"),
    };
    let is_told = words.contains(URL) && words.contains("1970-01-01T00:00:20Z") && words.contains(".dat is damaged");
    assert!(is_told && error.is_damage(), "{words}");
    version.time_ms / 1000
}

#[test]
fn a_history_gives_the_versions_that_can_be_read_and_names_the_other() {
    let closed = damaged(&[page(10, "ten", 'a'), page(20, "twenty", 'b'), page(30, "thirty", 'c')]);
    let store = closed.read();
    let told: Vec<(bool, i64)> = store
        .history_iter(URL)
        .expect("a URL")
        .map(|head| head.map_or_else(|error| (false, lost(&error)), |head| (true, head.page.fetched_at_ms / 1000)))
        .collect();
    assert_eq!(told, [(true, 30), (false, 20), (true, 10)]);
    assert_eq!(lost(&store.history(URL).expect_err("one is lost")), 20);
    let versions: Vec<Version> = store.versions_of(URL).expect("whole");
    assert_eq!(store.versions_of(URL).expect("whole").len(), 3);
    let bodies = versions.iter().map(|version| store.get_version(URL, *version));
    let bodies: Vec<_> = bodies.map(|page| page.map(|page| page.expect("there").body)).collect();
    assert_eq!((bodies[0].as_deref().ok(), bodies[2].as_deref().ok()), (Some(&b"thirty"[..]), Some(&b"ten"[..])));
    assert_eq!(lost(bodies[1].as_ref().expect_err("lost")), 20);
    assert_eq!(lost(&store.get(Lookup::new(URL).at(29_999)).expect_err("lost")), 20);
    assert_eq!(lost(&store.head(Lookup::new(URL).at(20_000)).expect_err("lost")), 20);
    assert_eq!(store.get(Lookup::new(URL).at(19_999)).expect("whole").expect("there").body, b"ten");
    assert_eq!(store.get(URL).expect("whole").expect("there").body, b"thirty");
    let closed = damaged(&[page(10, "ten", 'a'), page(20, "twenty", 'b')]);
    let newest = closed.read();
    assert_eq!(lost(&newest.get(URL).expect_err("lost")), 20);
    assert_eq!(lost(&newest.head(URL).expect_err("lost")), 20);
    assert_eq!(lost(&newest.get_reader(URL).expect_err("lost")), 20);
}

#[test]
fn a_revisit_has_its_body_unless_that_is_what_is_lost() {
    let identical = || RevisitProfile::IdenticalPayload;
    for (what, revisit, body) in [
        ("of a whole one by time", revisit(40, Some('a'), Some(10), identical()), Some("ten")),
        ("of a whole one by digest", revisit(40, Some('c'), None, identical()), Some("thirty")),
        ("of the lost one, whose body another has", revisit(40, Some('a'), Some(20), identical()), Some("ten")),
        ("of the lost one by time", revisit(40, Some('b'), Some(20), identical()), None),
        ("of the lost one by digest", revisit(40, Some('b'), None, identical()), None),
        ("not modified since a whole one", revisit(40, None, None, RevisitProfile::ServerNotModified), Some("thirty")),
        ("not modified since the lost one", revisit(25, None, None, RevisitProfile::ServerNotModified), None),
    ] {
        let time_ms = revisit.fetched_at_ms;
        let closed = damaged(&[page(10, "ten", 'a'), page(20, "twenty", 'b'), page(30, "thirty", 'c'), revisit]);
        let store = closed.read();
        let got = store.get(Lookup::new(URL).at(time_ms)).map(|page| page.expect("there").body);
        match (got, body) {
            (Ok(got), Some(body)) => assert_eq!(got, body.as_bytes(), "{what}"),
            (Err(error), None) => {
                assert_eq!(lost(&error), 20, "{what}");
                assert!(matches!(error, Error::LostOriginal { time_ms: told, .. } if told == time_ms), "{what}");
            }
            (got, _) => panic!("{what}: {got:?}"),
        }
        // Whoever must not see the lost one is not told of it either.
        let shown = store.with_originals(|version| version.version.time_ms != 20_000);
        let page = shown.get(Lookup::new(URL).at(time_ms)).expect("no error").expect("there");
        assert_eq!(
            (page.body, body.is_none()),
            (body.unwrap_or_default().into(), page.revisit.is_some_and(|own| own.original.is_none())),
            "{what}"
        );
        let (report, told) = dumped(&store, &DumpOptions::new("x", &[Format::Warc]));
        let bodiless = u64::from(body.is_none());
        assert_eq!((report.written, report.bodiless, told.len() as u64), (3, bodiless, bodiless), "{what}");
        assert_eq!(report.damaged, 1, "{what}");
        told.iter().for_each(|told| assert!(told.contains("has no body") && told.contains("00:00:20Z"), "{told}"));
    }
}

#[test]
fn a_revisit_that_the_lost_version_cannot_be_meant_by_has_no_original_as_ever() {
    let unknown = revisit(40, None, Some(35), RevisitProfile::IdenticalPayload);
    let closed = damaged(&[page(10, "ten", 'a'), page(20, "twenty", 'b'), unknown]);
    let store = closed.read();
    assert!(store.get(URL).expect("readable").expect("there").lacks_body());
    let (report, _) = dumped(&store, &DumpOptions::new("x", &[Format::Warc]).newest_only());
    assert_eq!((report.written, report.bodiless), (1, 0));
}

/// Text that hardly compresses.
fn noise() -> String {
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b' ' + (seed >> 57) as u8 % 94)
    };
    (0..4000).map(|_| next()).collect()
}

#[test]
fn a_dump_of_a_part_names_the_original_that_it_has_not_met() {
    let revisit = revisit(40, Some('b'), Some(20), RevisitProfile::IdenticalPayload);
    let pages = [page(10, "ten", 'a'), page(20, &noise(), 'b'), revisit];
    for closed in [damaged(&pages), damaged_at(&pages, |bytes| bytes - 1000)] {
        let store = closed.read();
        for format in [Format::Warc, Format::Jsonl, Format::Files] {
            let (report, told) = dumped(&store, &DumpOptions::new("x", &[format]).newest_only());
            assert_eq!((report.written, report.bodiless, report.damaged), (1, 1, 1), "{format:?}");
            assert!(told[0].contains("1970-01-01T00:00:40Z") && told[0].contains("00:00:20Z"), "{told:?}");
        }
    }
}

/// The report of a dump, and what it told of bodies that are lost.
fn dumped(store: &PageStore, options: &DumpOptions) -> (DumpReport, Vec<String>) {
    let (mut target, mut told) = (stores::Memory::default(), Vec::new());
    let report = dump(store, options, &mut target, &mut |event| {
        if let DumpEvent::NoBody(error) = event {
            told.push(error.to_string());
        }
        ControlFlow::Continue(())
    });
    (report.expect("damage is not an error"), told)
}

#[test]
fn what_is_put_again_beside_a_lost_version_adds_nothing_and_the_lost_one_comes_back() {
    let pages: Vec<Page> = [10, 20, 30].map(|second| page(second, &format!("body {second}"), 'a')).into();
    let closed = damaged(&pages);
    let store = PageStore::open(&closed.path, Options::new()).expect("writable");
    let mut loader = filemap::store::Loader::default();
    for _ in 0..20 {
        for second in [0, 2] {
            assert!(loader.put_page_if_new(&store, &pages[second]).expect("stored").is_none());
        }
    }
    assert!(loader.put_page_if_new(&store, &pages[1]).expect("stored").is_some());
    assert!(loader.put_page_if_new(&store, &pages[1]).expect("stored").is_none());
    assert_eq!(store.get(Lookup::new(URL).at(20_000)).expect("mended").expect("there").body, b"body 20");
}

#[test]
fn a_version_whose_body_cannot_be_read_is_not_there_for_a_load_or_a_merge() {
    let pages = [page(10, &noise(), 'a'), page(20, &noise(), 'b')];
    let is_whole = |store: &PageStore| {
        let body = store.get(Lookup::new(URL).at(20_000)).expect("mended").expect("there").body;
        assert_eq!(body, noise().into_bytes());
        assert_eq!(store.get(URL).expect("mended").expect("there").body, noise().into_bytes());
    };
    // Its head is whole: only what reads the body meets the damage.
    for rounds in [1, 20] {
        let closed = damaged_at(&pages, |bytes| bytes - 1000);
        let store = PageStore::open(&closed.path, Options::new()).expect("writable");
        assert!(store.get(URL).is_err() && store.head(URL).is_ok());
        let mut loader = filemap::store::Loader::default();
        for _ in 0..rounds {
            assert!(loader.put_stored_if_new(&store, &pages[0], BodyForm::Whole).expect("stored").is_none());
        }
        // It is not made a reference to the body that cannot be read.
        assert!(loader.put_stored_if_new(&store, &pages[1], BodyForm::Reference).expect("stored").is_some());
        assert!(loader.put_stored_if_new(&store, &pages[1], BodyForm::Reference).expect("stored").is_none());
        is_whole(&store);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let from = PageStore::create(folder.path().join("a.fm"), Options::new()).expect("new");
    for page in &pages {
        from.put_page(page).expect("stored");
    }
    let closed = damaged_at(&pages, |bytes| bytes - 1000);
    let store = PageStore::open(&closed.path, Options::new()).expect("writable");
    for expected in [(1, 1), (0, 2)] {
        let copied = from.engine().copy_to(store.engine(), Default::default(), &mut |_| ControlFlow::Continue(()));
        let copied = copied.expect("damage is not an error");
        assert_eq!((copied.versions, copied.already_there), expected);
    }
    is_whole(&store);
}

#[test]
fn a_merge_brings_what_differs_in_status_or_headers_only() {
    let dir = tempfile::tempdir().expect("a folder");
    let create = |name: &str| PageStore::create(dir.path().join(name), Options::new()).expect("a store");
    let (from, to) = (create("from.fm"), create("to.fm"));
    let mut other = page(10, "one body", 'a');
    to.put_page(&other).expect("stored");
    from.put_page(&other).expect("stored");
    other.status = Some(404);
    from.put_page(&other).expect("stored");
    other.headers.push("Server", "x");
    from.put_page(&other).expect("stored");
    for expected in [(2, 1), (0, 3)] {
        let copied = from.engine().copy_to(to.engine(), Default::default(), &mut |_| ControlFlow::Continue(()));
        let copied = copied.expect("both are whole");
        assert_eq!((copied.versions, copied.already_there), expected);
    }
    assert_eq!(to.get(URL).expect("readable"), Some(other));
}
