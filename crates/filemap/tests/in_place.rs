//! Pages in place: read from the files of their archive, which may move, change or be missing; and
//! adopted.

use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use filemap::dump::{DumpOptions, Format};
use filemap::erase::{EraseOrder, EraseTarget};
use filemap::import::{AdoptStep, ImportOptions, ImportProgress, ImportReport, adopt, cdxj, import};
use filemap::page::{ArchiveId, InPlace};
use filemap::{Error, Options, Page, PageStore};
use filemap_core::prune::PruneRule;
use sha1::Digest as _;

use crate::samples::{self, Fresh, fresh, gz, page, response, zst};
use crate::stores::dumped;

const SAMPLES: [&str; 5] =
    ["cc.warc.gz", "IAH-urls-wget.warc.gz", "example.warc.gz", "example-iana.org-chunked.warc", "python-docs.warc.gz"];

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A digest as archives write it.
fn sha1(text: &str) -> String {
    let hex: String = sha1::Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha1:{hex}")
}

/// Imports a file that is put beside the store, in place.
fn left(fresh: &Fresh, name: &str, file: &[u8]) -> ImportReport {
    let path = fresh.dir.path().join(name);
    std::fs::write(&path, file).expect("a file");
    let options = ImportOptions::new().in_place(text(&path));
    import(&fresh.store, name, file, &options, &mut |_| ControlFlow::Continue(())).expect("the store is fine")
}

/// Every version of every page and of what is beside it, whole.
fn all(store: &PageStore) -> Vec<Page> {
    let mut pages: Vec<Page> = store.versions().map(|page| page.expect("readable")).collect();
    pages.sort_by_key(|page| (page.url.clone(), page.fetched_at_ms, page.kind as u8, page.record_id.clone()));
    pages
}

fn adopted(store: &PageStore) -> (u64, u64) {
    let adopted = adopt(store, &mut |_| ControlFlow::Continue(())).expect("adopted");
    (adopted.pages, adopted.lost)
}

#[test]
fn pages_in_place_read_as_if_they_were_stored_and_are_the_same_when_adopted() {
    for name in SAMPLES {
        let (whole, place) = (fresh(), fresh());
        let stored = samples::run_sample(&whole.store, name, &ImportOptions::new());
        let file = samples::bytes(name);
        let report = left(&place, name, &file);
        assert!(report.in_place > 0, "{name}");
        assert_eq!((report.stored, report.digests, report.variants), (stored.stored, stored.digests, stored.variants));
        assert_eq!(all(&place.store), all(&whole.store), "{name}");
        let newest = |store: &PageStore| -> Vec<Page> { store.pages().map(|page| page.expect("readable")).collect() };
        assert_eq!(newest(&place.store), newest(&whole.store), "{name}: with the bodies of revisits");
        assert_eq!(place.store.check_archives(&mut |_| ControlFlow::Continue(())).expect("read"), report.in_place);

        let again = left(&place, name, &file);
        assert_eq!((again.stored, again.already_there), (0, report.stored + report.already_there), "{name}");

        assert_eq!(adopted(&place.store), (report.in_place, 0), "{name}");
        std::fs::remove_file(place.dir.path().join(name)).expect("there");
        assert_eq!(all(&place.store), all(&whole.store), "{name}: adopted");
        assert_eq!(adopted(&place.store), (0, 0));
    }
}

#[test]
fn records_that_cannot_be_read_from_their_offset_are_stored() {
    let records: Vec<Vec<u8>> = (0..4).map(|at| page(&at.to_string(), &format!("the text of page {at}"))).collect();
    let dictionary = records.concat();
    let with = |frames: Vec<u8>| {
        let head = [&[0x5d, 0x2a, 0x4d, 0x18][..], &(dictionary.len() as u32).to_le_bytes(), &dictionary].concat();
        [head, frames].concat()
    };
    let each = |pack: &dyn Fn(&[u8]) -> Vec<u8>| records.iter().flat_map(|record| pack(record)).collect::<Vec<u8>>();
    let forms = [
        ("plain", records.concat(), 4),
        ("members", each(&gz), 4),
        ("one member", gz(&records.concat()), 1),
        ("frames", each(&|record| zst(record, b"")), 4),
        ("a dictionary", with(each(&|record| zst(record, &dictionary))), 4),
        ("a later dictionary", [gz(&records[0]), with(zst(&records[1], &dictionary))].concat(), 1),
    ];
    for (form, file, in_place) in forms {
        let fresh = fresh();
        let report = left(&fresh, "a.warc", &file);
        assert_eq!((report.in_place, report.losses()), (in_place, 0), "{form}");
        for at in 0..report.stored {
            let found = fresh.store.get(&format!("http://example.com/{at}")).expect("readable").expect("there");
            assert_eq!(found.body, format!("the text of page {at}").into_bytes(), "{form}");
            assert_eq!((found.status, found.in_place), (Some(200), None));
        }
    }
}

#[test]
fn what_was_moved_changed_or_is_gone_is_named_and_found_again() {
    let place = fresh();
    let file = [page("a", "first"), page("b", "second")].concat();
    left(&place, "a.warc", &file);
    let (old, new) = (place.dir.path().join("a.warc"), place.dir.path().join("b.warc"));
    let fails = |what: &str| {
        let error = place.store.get("http://example.com/b").expect_err(what);
        assert!(error.is_damage(), "{error}");
        let told = error.to_string();
        assert!(told.contains("a.warc") && told.contains("http://example.com/b") && told.contains(what), "{told}");
        let head = place.store.head("http://example.com/b").expect("described").expect("there");
        assert_eq!(head.page.status, Some(200));
    };
    std::fs::rename(&old, &new).expect("moved");
    fails("the file is missing");
    let (mut there, mut gone) = (0, 0);
    place
        .store
        .check_archives(&mut |read| {
            (there, gone) = (there + u64::from(read.is_ok()), gone + u64::from(read.is_err()));
            ControlFlow::Continue(())
        })
        .expect("the store is fine");
    assert_eq!((there, gone), (0, 2));
    for (bytes, what) in [
        (page("a", "first"), "the file ends before it"),
        ([page("a", "first"), page("c", "third")].concat(), "another page is there: http://example.com/c"),
        ([b"0".to_vec(), file.clone()].concat(), "offset"),
    ] {
        std::fs::write(&old, bytes).expect("a file");
        fails(what);
    }
    std::fs::remove_file(&old).expect("there");
    let [archive] = &place.store.archives().expect("listed")[..] else { panic!("one file") };
    assert_eq!(archive.location, text(&old));
    assert!(place.store.move_archive(archive.id, &text(&new)).expect("moved"));
    assert!(!place.store.move_archive(ArchiveId::of("x"), &text(&new)).expect("no such file"));
    let found = place.store.get("http://example.com/b").expect("readable").expect("there");
    assert_eq!(found.body, b"second");
}

#[test]
fn a_record_of_another_time_and_digest_is_another_visit() {
    let place = fresh();
    let digest = sha1;
    let with = |text: &str| {
        let record = String::from_utf8(page("a", text)).expect("text");
        record.replacen("WARC-Date", &format!("WARC-Payload-Digest: {}\r\nWARC-Date", digest(text)), 1).into_bytes()
    };
    left(&place, "a.warc", &with("first"));
    assert_eq!(place.store.get("http://example.com/a").expect("readable").expect("there").body, b"first");
    let later = |record: Vec<u8>| String::from_utf8(record).expect("text").replacen("2020-", "2021-", 1).into_bytes();
    let damaged = String::from_utf8(with("first")).expect("text").replace("\r\n\r\nfirst", "\r\n\r\nfirsT");
    for (other, what) in [
        (later(with("other")), "another visit is there: of 2021"),
        (later(page("a", "first")), "another visit is there"),
        (damaged.into_bytes(), "does not match its record's digest"),
    ] {
        std::fs::write(place.dir.path().join("a.warc"), other).expect("a file");
        let error = place.store.get("http://example.com/a").expect_err("another");
        assert!(error.to_string().contains(what), "{error}");
    }
    std::fs::write(place.dir.path().join("a.warc"), later(with("first"))).expect("a file");
    assert!(place.store.get("http://example.com/a").is_ok(), "the same body, whatever date a rewriting gave it");
}

#[test]
fn a_large_body_is_read_in_bounded_memory_and_from_anywhere() {
    let place = fresh();
    let text: String = (0..1_500_000).map(|at| format!("{at:08}")).collect();
    left(&place, "a.warc.gz", &gz(&page("a", &text)));
    let (found, mut body) = place.store.get_reader("http://example.com/a").expect("readable").expect("there");
    assert_eq!((found.status, body.remaining(), body.in_memory()), (Some(200), text.len() as u64, None));
    let mut all = String::new();
    body.read_to_string(&mut all).expect("read");
    assert!(all == text && body.remaining() == 0);
    let mut part = [0; 16];
    assert_eq!(body.seek(SeekFrom::End(-16)).expect("in it"), text.len() as u64 - 16);
    body.read_exact(&mut part).expect("read");
    assert_eq!(part, text.as_bytes()[text.len() - 16..]);
    body.seek(SeekFrom::Start(800)).expect("in it");
    body.read_exact(&mut part).expect("read");
    assert_eq!(&part, b"0000010000000101");
}

/// Each capture of a store's archive, by an index that a dump of another store made.
#[test]
fn an_index_describes_what_the_archive_has() {
    for name in SAMPLES {
        let (whole, place) = (fresh(), fresh());
        samples::run_sample(&whole.store, name, &ImportOptions::new());
        let dir = place.dir.path().join("archive");
        std::fs::create_dir(&dir).expect("a folder");
        let (files, _) = dumped(&whole.store, &DumpOptions::new("x", &[Format::Warc, Format::Cdxj]));
        for (name, bytes) in files.files() {
            std::fs::write(dir.join(name), bytes).expect("a file");
        }
        let bytes = files.file("x.cdxj");
        assert!(cdxj::is_index(&bytes[..bytes.len().min(4096)]), "{name}");
        let locate = |file: &str| Ok(text(&dir.join(file)));
        let go_on = &mut |_: ImportProgress| ControlFlow::Continue(());
        let packed = gz(&bytes);
        let report = cdxj::import(&place.store, "index", &packed[..], &locate, go_on).expect("imported");
        let problems = &report.problems;
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        assert_eq!((report.in_place + report.already_there, problems.len()), (lines, 0), "{name}: {problems:?}");
        let mut compared = 0;
        for page in whole.store.versions().map(|page| page.expect("readable")).filter(|page| page.kind.is_page()) {
            // An index has whole seconds.
            let at = page.fetched_at_ms.div_euclid(1000) * 1000;
            let lookup = filemap::Lookup::new(&page.url).variant(page.variant.as_ref()).at(at + 999);
            let found = place.store.get(lookup).expect("readable").expect("there");
            let same = whole.store.get(filemap::Lookup::new(&page.url).variant(page.variant.as_ref()).at(at + 999));
            let same = same.expect("readable").expect("there");
            assert_eq!((found.status, &found.headers), (same.status, &same.headers), "{name}");
            assert!(found.body == same.body, "{name}: {}", String::from_utf8_lossy(&page.url));
            compared += 1;
        }
        assert!(compared > 0);
        let again = cdxj::import(&place.store, "index", &bytes[..], &locate, go_on).expect("imported");
        assert_eq!((again.stored, again.already_there), (0, lines));
    }
}

#[test]
fn lines_that_cannot_be_kept_and_files_that_are_not_there_are_told() {
    let place = fresh();
    let line =
        |url: &str| format!("k 20200101000000 {{\"url\":\"{url}\",\"offset\":\"0\",\"filename\":\"no.warc\"}}\n");
    let index = [
        "!meta 0 {}\n",
        &line("http://a/"),
        "nonsense\n",
        &line("no URL"),
        &"x".repeat(2 << 20),
        "\n",
        &line("http://b/"),
    ];
    let locate = |file: &str| Ok(text(&place.dir.path().join(file)));
    let go_on = &mut |_: ImportProgress| ControlFlow::Continue(());
    let report = cdxj::import(&place.store, "i", index.concat().as_bytes(), &locate, go_on).expect("imported");
    assert_eq!(
        (report.in_place, report.unusable, report.damaged, report.ignored),
        (2, 3, 1, 1),
        "{:?}",
        report.problems
    );
    let told: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    let offset = 11 + line("http://a/").len();
    assert!(told[0].starts_with(&format!("i: offset {offset}: it is not a line")), "{told:?}");
    assert!(told[3].contains("no.warc") && told[3].contains("the 2 captures"), "{told:?}");
}

#[test]
fn an_adoption_that_ends_early_is_continued() {
    let (place, whole) = (fresh(), fresh());
    let file: Vec<u8> = (0..50).flat_map(|at| gz(&page(&at.to_string(), &format!("page {at}")))).collect();
    left(&place, "a.warc.gz", &file);
    samples::run(&whole.store, &file, &ImportOptions::new());
    let mut left = 20;
    let stopped = adopt(&place.store, &mut |step| {
        assert!(matches!(step, AdoptStep::Page(_)));
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let stopped = stopped.expect("adopted");
    assert_eq!((stopped.pages, stopped.is_cancelled), (20, true));
    assert_eq!(all(&place.store), all(&whole.store));
    // An import of the file itself brings the rest: what it brings is no longer in place.
    samples::run(&place.store, &file[..file.len() / 2], &ImportOptions::new());
    assert_eq!(adopted(&place.store), (30, 0));
    assert_eq!(all(&place.store), all(&whole.store));
}

#[test]
fn an_empty_page_does_not_refer_to_one_in_place() {
    let place = fresh();
    left(&place, "a.warc", &page("a", "first"));
    let empty = Page::new("http://example.com/a", 1_700_000_000_000, 204, "");
    for _ in 0..2 {
        place.store.put_page_if_changed(&empty).expect("put");
    }
    assert_eq!(adopted(&place.store), (1, 0));
    assert_eq!(adopted(&place.store), (0, 0), "no version held it");
    assert_eq!(all(&place.store).len(), 3);
}

#[test]
fn no_file_makes_a_page_of_another() {
    let place = fresh();
    left(&place, "a.warc", &page("a", "first"));
    let [archive] = &place.store.archives().expect("listed")[..] else { panic!("one file") };
    let secret = InPlace { archive: archive.id, offset: 0, length: 0 };
    let forged = Page { in_place: Some(secret), ..Page::new("http://example.com/b", 1000, 200, "own") };
    let encoded = filemap::page::meta::encode(&forged, b"").expect("encoded");
    use base64::Engine as _;
    let word = base64::engine::general_purpose::STANDARD.encode(&encoded.meta);
    let record = String::from_utf8(response("b", b"own")).expect("text");
    let record = record.replacen("WARC-Date", &format!("FileMap-Page: head=0 page={word}\r\nWARC-Date"), 1);
    samples::run(&place.store, record.as_bytes(), &ImportOptions::new());
    let found = place.store.get("http://example.com/b").expect("readable").expect("there");
    assert_eq!((found.body, found.in_place), (b"own".to_vec(), None));
    assert_eq!(place.store.head("http://example.com/b").expect("readable").expect("there").page.in_place, None);
}

#[test]
fn a_place_that_the_store_does_not_know_is_refused_and_a_page_with_a_body_is_put_with_it() {
    let place = fresh();
    let unknown = InPlace { archive: ArchiveId::of("x"), offset: 0, length: 0 };
    let there = Page { in_place: Some(unknown), ..Page::new("http://a/", 1000, 200, "body") };
    assert!(matches!(place.store.put_in_place(&there), Err(Error::InPlace { .. })));
    assert!(matches!(place.store.put_in_place(&Page { in_place: None, ..there.clone() }), Err(Error::InPlace { .. })));
    assert!(!place.store.contains("http://a/").expect("readable"));
    place.store.put_page(&there).expect("put");
    assert_eq!(place.store.get("http://a/").expect("readable"), Some(Page { in_place: None, ..there }));
}

/// Puts the lines of an index whose files are in this folder.
fn indexed(store: &PageStore, dir: &Path, lines: &[String]) -> ImportReport {
    let locate = |file: &str| Ok(text(&dir.join(file)));
    let go_on = &mut |_: ImportProgress| ControlFlow::Continue(());
    cdxj::import(store, "index", lines.concat().as_bytes(), &locate, go_on).expect("imported")
}

fn line(name: &str, offset: usize, more: &str) -> String {
    format!(
        "k 20200101000000 {{\"url\":\"http://example.com/{name}\",\"offset\":\"{offset}\",\"filename\":\"a.warc\"{more}}}\n"
    )
}

#[test]
fn a_body_that_was_erased_does_not_come_back_in_place() {
    let place = fresh();
    let bytes = sha1("first");
    let order = EraseOrder::new(EraseTarget::Digest(bytes), "asked for");
    place.store.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased");
    let file = [page("a", "first"), page("b", "second")].concat();
    let report = left(&place, "a.warc", &file);
    assert_eq!((report.in_place, report.refused), (1, 1), "{:?}", report.problems);
    // An index does not say what a body is: its reader learns it.
    let report = indexed(&place.store, place.dir.path(), &[line("a", 0, "")]);
    assert_eq!(report.in_place, 1);
    let refused = |store: &PageStore| store.get("http://example.com/a").expect_err("refused").refused_by().is_some();
    assert!(refused(&place.store));
    place.store.sync().expect("synced");
    let reader = PageStore::open_read_only(place.store.engine().path(), filemap::Options::new()).expect("opened");
    assert!(refused(&reader));
    assert_eq!(adopted(&place.store), (1, 1));
}

#[test]
fn an_empty_body_that_was_erased_is_not_that_of_pages_in_place() {
    let place = fresh();
    let bytes = sha1("");
    let order = EraseOrder::new(EraseTarget::Digest(bytes), "asked for");
    place.store.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased");
    assert_eq!(left(&place, "a.warc", &page("a", "first")).in_place, 1);
    assert!(place.store.get("http://example.com/a").is_ok());
}

#[test]
fn a_revisit_of_an_index_keeps_its_original_through_a_prune() {
    let place = fresh();
    let digest = sha1("first");
    let with = |record: Vec<u8>| {
        let record = String::from_utf8(record).expect("text");
        record.replacen("WARC-Date", &format!("WARC-Payload-Digest: {digest}\r\nWARC-Date"), 1)
    };
    let original = with(page("a", "first"));
    let revisit = with(response("b", b"HTTP/1.1 200 OK\r\n\r\n")).replacen(
        "WARC-Type: response",
        "WARC-Type: revisit\r\nWARC-Refers-To-Target-URI: http://example.com/a\r\n\
         WARC-Profile: http://netpreserve.org/warc/1.0/revisit/identical-payload-digest",
        1,
    );
    std::fs::write(place.dir.path().join("a.warc"), [original.as_bytes(), revisit.as_bytes()].concat())
        .expect("a file");
    let told = format!(",\"digest\":\"{digest}\"");
    let lines = [line("a", 0, &told), line("b", original.len(), &format!("{told},\"mime\":\"warc/revisit\""))];
    assert_eq!(indexed(&place.store, place.dir.path(), &lines).in_place, 2);
    let newer = Page::new("http://example.com/a", 1_700_000_000_000, 200, "newer");
    place.store.put_page(&newer).expect("put");
    let body = || place.store.get("http://example.com/b").expect("readable").expect("there").body;
    assert_eq!(body(), b"first");
    let rule = PruneRule { keep_versions: Some(1), ..PruneRule::default() };
    place.store.prune(rule, &mut |_| ControlFlow::Continue(())).expect("pruned");
    assert_eq!(body(), b"first");
    // What it refers to is in the file alone: without that nothing is dropped.
    std::fs::remove_file(place.dir.path().join("a.warc")).expect("there");
    let error = place.store.prune(rule, &mut |_| ControlFlow::Continue(())).expect_err("not known");
    assert!(error.to_string().contains("a.warc"), "{error}");
}

#[test]
fn an_index_with_the_right_place_mends_one_with_a_wrong_place() {
    let place = fresh();
    let (wrong, right) = (place.dir.path().join("wrong"), place.dir.path().join("right"));
    std::fs::create_dir(&right).expect("a folder");
    std::fs::write(right.join("a.warc"), page("a", "first")).expect("a file");
    let lines = [line("a", 0, "")];
    assert_eq!(indexed(&place.store, &wrong, &lines).damaged, 1);
    assert!(place.store.get("http://example.com/a").is_err());
    let report = indexed(&place.store, &right, &lines);
    assert_eq!((report.in_place, report.losses()), (1, 0));
    assert_eq!(place.store.get("http://example.com/a").expect("readable").expect("there").body, b"first");
    assert_eq!(place.store.history("http://example.com/a").expect("readable").len(), 1, "the wrong one is gone");
    // A move holds, whatever is imported from the old place.
    let moved = place.dir.path().join("moved.warc");
    std::fs::rename(right.join("a.warc"), &moved).expect("moved");
    assert!(place.store.move_archive(ArchiveId::of(&text(&right.join("a.warc"))), &text(&moved)).expect("moved"));
    let again = indexed(&place.store, &right, &lines);
    assert_eq!((again.already_there, again.stored, again.losses()), (1, 0, 0), "it is not missed where it was");
    assert_eq!(place.store.get("http://example.com/a").expect("readable").expect("there").body, b"first");
}

#[test]
fn an_adoption_leaves_the_newest_version_of_a_time_the_newest() {
    let place = fresh();
    left(&place, "a.warc", &page("a", "first"));
    samples::run(&place.store, &page("a", "second"), &ImportOptions::new());
    let body = || place.store.get("http://example.com/a").expect("readable").expect("there").body;
    assert_eq!(body(), b"second");
    assert_eq!(adopted(&place.store), (1, 0));
    assert_eq!(body(), b"second");
    assert_eq!(place.store.history("http://example.com/a").expect("readable").len(), 2);
    // Without a digest in the record, it is the body that tells that the store has it.
    assert_eq!(left(&place, "a.warc", &page("a", "first")).already_there, 1);
}

#[test]
fn a_store_with_retention_adopts_nothing() {
    let place = fresh();
    left(&place, "a.warc", &page("a", "first"));
    let path = place.store.engine().path().to_owned();
    let Fresh { store, dir: _dir } = place;
    store.close().expect("closed");
    let store = PageStore::open(&path, filemap::Options::new().keep_versions(Some(2))).expect("opened");
    let error = adopt(&store, &mut |_| ControlFlow::Continue(())).expect_err("refused");
    assert!(error.to_string().contains("keep_versions"), "{error}");
}

#[test]
fn another_record_of_the_same_second_is_not_the_page() {
    let place = fresh();
    let request = String::from_utf8(response("a", b"GET /a HTTP/1.1\r\nCookie: secret\r\n\r\n")).expect("text");
    let request = request.replacen("WARC-Type: response", "WARC-Type: request", 1);
    let answer = page("a", "first");
    std::fs::write(place.dir.path().join("a.warc"), [request.as_bytes(), &answer].concat()).expect("a file");
    indexed(&place.store, place.dir.path(), &[line("a", 0, "")]);
    let error = place.store.get("http://example.com/a").expect_err("a request");
    assert!(error.to_string().contains("a request is there, not a response"), "{error}");

    let other = fresh();
    let digest = sha1;
    let with = String::from_utf8(page("a", "first")).expect("text");
    let with = with.replacen("WARC-Date", &format!("WARC-Payload-Digest: {}\r\nWARC-Date", digest("first")), 1);
    std::fs::write(other.dir.path().join("a.warc"), with).expect("a file");
    indexed(&other.store, other.dir.path(), &[line("a", 0, &format!(",\"digest\":\"{}\"", digest("other")))]);
    assert!(other.store.get("http://example.com/a").is_err(), "the digest contradicts");
    // That of nothing is what some indexes have for what they did not read.
    let third = fresh();
    std::fs::write(third.dir.path().join("a.warc"), page("a", "first")).expect("a file");
    indexed(&third.store, third.dir.path(), &[line("a", 0, &format!(",\"digest\":\"{}\"", digest("")))]);
    assert_eq!(third.store.get("http://example.com/a").expect("readable").expect("there").digest, None);
}

#[test]
fn an_index_that_is_cut_off_is_taken_in_as_far_as_it_is_there() {
    let place = fresh();
    let lines: String = (0..500).map(|at| line(&at.to_string(), at, "")).collect();
    let packed = gz(lines.as_bytes());
    let locate = |file: &str| Ok(text(&place.dir.path().join(file)));
    let go_on = &mut |_: ImportProgress| ControlFlow::Continue(());
    let cut = &packed[..packed.len() - 100];
    let error = cdxj::import(&place.store, "index.gz", cut, &locate, go_on).expect_err("cut off");
    assert!(matches!(error, Error::Read { .. }), "{error}");
    assert!(place.store.count_pages().expect("counted") > 100);
}

#[test]
fn a_revisit_does_not_stand_for_the_answer_of_its_second() {
    let place = fresh();
    let digest = sha1("first");
    std::fs::write(place.dir.path().join("a.warc"), page("a", "first")).expect("a file");
    let told = format!(",\"digest\":\"{digest}\",\"status\":\"200\"");
    let lines = [line("a", 900, &format!("{told},\"mime\":\"warc/revisit\"")), line("a", 0, &told)];
    assert_eq!(indexed(&place.store, place.dir.path(), &lines).in_place, 2);
    assert_eq!(place.store.get("http://example.com/a").expect("readable").expect("there").body, b"first");
    assert_eq!(indexed(&place.store, place.dir.path(), &lines).already_there, 2);
}

#[test]
fn a_refused_body_is_one_loss_of_a_pass_and_not_its_end() {
    let place = fresh();
    let bytes = sha1("first");
    let order = EraseOrder::new(EraseTarget::Digest(bytes), "asked for");
    place.store.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased");
    let (a, b) = (page("a", "first"), page("b", "second"));
    std::fs::write(place.dir.path().join("a.warc"), [a.as_slice(), &b].concat()).expect("a file");
    indexed(&place.store, place.dir.path(), &[line("a", 0, ""), line("b", a.len(), "")]);
    let mut told = Vec::new();
    let there = place.store.check_archives(&mut |read| {
        told.extend(read.err().map(|error| error.to_string()));
        ControlFlow::Continue(())
    });
    assert_eq!(there.expect("to its end"), 1);
    assert!(told.len() == 1 && told[0].contains("http://example.com/a") && told[0].contains("rule 1"), "{told:?}");
    let versions: Vec<_> = place.store.versions().collect();
    assert!(versions.len() == 2 && versions.iter().filter(|version| version.is_err()).count() == 1, "{versions:?}");
}

#[test]
fn each_version_that_cannot_be_adopted_is_told_once() {
    let place = fresh();
    let file: Vec<u8> = (0..6).flat_map(|at| page("a", &format!("text {at}"))).collect();
    assert_eq!(left(&place, "a.warc", &file).in_place, 6);
    std::fs::remove_file(place.dir.path().join("a.warc")).expect("there");
    assert_eq!(adopted(&place.store), (0, 6));
    std::fs::write(place.dir.path().join("a.warc"), &file).expect("a file");
    let newest = place.store.get("http://example.com/a").expect("readable").expect("there").body;
    assert_eq!(adopted(&place.store), (6, 0));
    assert_eq!(place.store.get("http://example.com/a").expect("readable").expect("there").body, newest);
    assert_eq!(place.store.history("http://example.com/a").expect("readable").len(), 6);
}

#[test]
fn a_copy_is_no_reference_to_a_version_that_goes() {
    let place = fresh();
    left(&place, "a.warc", &page("a", "same"));
    let other = response("a", b"HTTP/1.1 404 Not Found\r\n\r\nsame");
    samples::run(&place.store, &other, &ImportOptions::new());
    assert_eq!(adopted(&place.store), (1, 0));
    let statuses = |store: &PageStore| -> Vec<Option<u16>> {
        store.history("http://example.com/a").expect("readable").iter().map(|head| head.page.status).collect()
    };
    assert_eq!(statuses(&place.store), [Some(404), Some(200)]);
}

#[test]
fn a_file_that_is_back_is_found_by_its_import() {
    let place = fresh();
    let file = page("a", "first");
    left(&place, "a.warc", &file);
    let here = text(&place.dir.path().join("a.warc"));
    let gone = text(&place.dir.path().join("gone.warc"));
    assert!(place.store.move_archive(ArchiveId::of(&here), &gone).expect("moved"));
    assert!(place.store.get("http://example.com/a").is_err());
    assert_eq!(left(&place, "a.warc", &file).already_there, 1);
    assert_eq!(place.store.get("http://example.com/a").expect("readable").expect("there").body, b"first");
}

#[test]
fn a_mending_that_was_stopped_is_continued() {
    let place = fresh();
    let (wrong, right) = (place.dir.path().join("wrong"), place.dir.path().join("right"));
    std::fs::create_dir(&right).expect("a folder");
    let records: Vec<Vec<u8>> = (0..20).map(|at| page(&at.to_string(), "text")).collect();
    std::fs::write(right.join("a.warc"), records.concat()).expect("a file");
    let mut offset = 0;
    let lines: Vec<String> = records
        .iter()
        .enumerate()
        .map(|(at, record)| {
            offset += record.len();
            line(&at.to_string(), offset - record.len(), "")
        })
        .collect();
    indexed(&place.store, &wrong, &lines);
    let locate = |file: &str| Ok(text(&right.join(file)));
    let stop = &mut |at: ImportProgress| if at.pages < 7 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    let stopped = cdxj::import(&place.store, "index", lines.concat().as_bytes(), &locate, stop).expect("stopped");
    assert!(stopped.is_cancelled && stopped.in_place == 7);
    assert_eq!(indexed(&place.store, &right, &lines).in_place, 13);
    let versions: Vec<_> = place.store.versions().collect();
    assert!(versions.len() == 20 && versions.iter().all(Result::is_ok), "{versions:?}");
}

#[test]
fn what_is_gone_stays_described_while_nothing_stands_for_it() {
    let place = fresh();
    let (wrong, right) = (place.dir.path().join("wrong"), place.dir.path().join("right"));
    std::fs::create_dir(&right).expect("a folder");
    let records: Vec<Vec<u8>> = (0..20).map(|at| page(&at.to_string(), "text")).collect();
    std::fs::write(right.join("a.warc"), records.concat()).expect("a file");
    let lines: Vec<String> = (0..20).map(|at| line(&at.to_string(), at * records[0].len(), "")).collect();
    indexed(&place.store, &wrong, &lines);
    // So that the first write is that of the descriptions.
    place.store.put_archive(&text(&right.join("a.warc"))).expect("noted");
    let path = place.dir.path().join("pages.fm");
    drop(place.store);
    let full = PageStore::open(&path, Options::new().free_space_floor(u64::MAX)).expect("opens");
    let locate = |file: &str| Ok(text(&right.join(file)));
    let go_on = &mut |_: ImportProgress| ControlFlow::Continue(());
    let failed = cdxj::import(&full, "index", lines.concat().as_bytes(), &locate, go_on);
    assert!(failed.is_err_and(|error| error.to_string().contains("below the floor")));
    assert_eq!(full.heads().filter(Result::is_ok).count(), 20);
}
