//! Several answers of one URL: the page is the page, and the answers to other requests are beside
//! it, each with its own versions, through every form of a dump.

use filemap::store::{BodyForm, Loader};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::samples::{Fresh, fresh, run};
use crate::stores::{Memory, assert_equal, dumped};
use filemap::dump::{DumpOptions, Format, jsonl};
use filemap::erase::{EraseOrder, EraseTarget};
use filemap::import::ImportOptions;
use filemap::page::RecordKind;
use filemap::{Lookup, Options, Page, PageStore, Variant};

const URL: &str = "http://a.example/api";

fn post(body: &str) -> Variant {
    Variant::of_request("POST", Some(b"application/x-www-form-urlencoded"), body.as_bytes()).expect("no GET")
}

fn page(variant: Option<Variant>, time_ms: i64, body: &str) -> Page {
    Page { variant, ..Page::new(URL, time_ms, 200, body) }
}

/// A store with a page, two variants, one of them of two versions, and a record beside each.
fn filled() -> Fresh {
    let fresh = fresh();
    let put = |page: Page| fresh.store.put_page_if_changed(&page).expect("it fits");
    put(page(None, 2000, "page"));
    put(page(Some(post("q=1")), 3000, "one"));
    put(page(Some(post("q=1")), 4000, "one"));
    put(page(Some(post("q=2")), 5000, "two"));
    for variant in [None, Some(post("q=1"))] {
        put(Page { kind: RecordKind::Request, status: None, method: Some("X".into()), ..page(variant, 3000, "asked") });
    }
    fresh
}

fn body(page: filemap::Result<Option<Page>>) -> Option<String> {
    page.expect("readable").map(|page| String::from_utf8(page.body).expect("text"))
}

/// The marks of URLs with variants.
fn marks(store: &PageStore) -> Vec<Vec<u8>> {
    let keys = store.engine().keys().map(|key| key.expect("whole"));
    keys.filter(|key| key.starts_with(b"\0variants")).collect()
}

/// Everything else.
fn records(store: &PageStore) -> usize {
    store.engine().keys().count() - marks(store).len()
}

#[test]
fn urls_of_one_mark_keep_their_variants_when_another_goes() {
    let Fresh { store, dir: _dir } = fresh();
    let url = |number| format!("http://a.example/page/{number}");
    for number in 0..600 {
        let page = Page { variant: Some(post("q=1")), ..Page::new(url(number), 1, 200, "x") };
        store.put_page(&page).expect("it fits");
    }
    let before = marks(&store);
    assert!((200..=256).contains(&before.len()), "{}", before.len());
    assert!(before.iter().all(|mark| !String::from_utf8_lossy(mark).contains("example")));
    for number in 0..300 {
        assert!(store.remove(url(number)).expect("writable"));
        assert!(!store.remove(url(number)).expect("writable"));
    }
    assert_eq!(marks(&store), before);
    for number in 300..600 {
        assert_eq!(store.variants(url(number)).expect("readable").count(), 1, "{number}");
    }
    assert!(!store.may_have_variants("http://b.example/").expect("readable"));
}

#[test]
fn the_mark_beside_a_url_of_earlier_builds_counts_and_is_never_listed() {
    let Fresh { store, dir: _dir } = filled();
    let [mark] = &marks(&store)[..] else { panic!("one site, one mark") };
    let old = [URL.as_bytes(), b"\0variants"].concat();
    let listed = (store.versions().count(), store.sizes().count());
    store.engine().put(&filemap_core::Record::new(&old, b"").time(i64::MAX)).expect("writable");
    store.engine().remove(mark).expect("writable");
    assert_eq!((store.versions().count(), store.sizes().count()), listed);
    assert_eq!(store.variants(URL).expect("readable").count(), 2);
    assert!(store.remove(URL).expect("writable"));
    assert_eq!(records(&store), 0);
}

#[test]
fn neither_a_prune_nor_a_rule_of_the_empty_body_takes_a_mark() {
    let Fresh { store, dir: _dir } = filled();
    let before = marks(&store);
    let rule = filemap_core::prune::PruneRule { since_ms: Some(i64::MAX), ..Default::default() };
    store.prune(rule, &mut |_| ControlFlow::Continue(())).expect("writable");
    assert_eq!((records(&store), marks(&store)), (0, before));
    let empty = EraseOrder::new(EraseTarget::Digest("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ".into()), "asked for");
    store.erase(&empty, &mut |_| ControlFlow::Continue(())).expect("writable");
    let put =
        |url: &str| store.put_page(&Page { variant: Some(post("q=1")), ..Page::new(url, 1, 200, "x") }).map(|_| ());
    put("http://another.example/").expect("its mark has no body");
    assert_eq!(marks(&store).len(), 2);
}

#[test]
fn a_url_alone_is_the_page_and_a_variant_is_had_by_name() {
    let Fresh { store, dir: _dir } = filled();
    let (one, two, none) = (post("q=1"), post("q=2"), post("q=3"));
    assert_eq!(body(store.get(URL)).as_deref(), Some("page"));
    assert_eq!(body(store.get(URL)).as_deref(), Some("page"));
    assert_eq!(body(store.get(Lookup::new("HTTP://A.example:80/api#x").variant(&one))).as_deref(), Some("one"));
    assert_eq!(body(store.get(Lookup::new(URL).variant(&two))).as_deref(), Some("two"));
    assert_eq!(body(store.get(Lookup::new(URL).variant(&none))), None);
    assert_eq!(body(store.get(Lookup::new(URL).at(9000))).as_deref(), Some("page"));
    assert_eq!(body(store.get(Lookup::new(URL).variant(&one).at(2999))), None);
    let found = store.get(Lookup::new(URL).variant(&two)).expect("readable").expect("there");
    assert_eq!(found, page(Some(two.clone()), 5000, "two"), "a page comes back as it was put");
    assert_eq!(store.history(URL).expect("readable").len(), 1);
    let versions = store.history(Lookup::new(URL).variant(&one)).expect("readable");
    assert_eq!(versions.iter().map(|head| head.version.time_ms).collect::<Vec<_>>(), [4000, 3000]);
    assert_eq!(versions[0].unchanged_since, Some(versions[1].version.sequence));
    let version = store.get_version(Lookup::new(URL).variant(&one), versions[1].version);
    assert_eq!(body(version).as_deref(), Some("one"));
    let has = |variant| store.contains(Lookup::new(URL).variant(variant)).expect("readable");
    assert_eq!((has(None), has(Some(&one)), has(Some(&none))), (true, true, false));
    let (head, mut reader) = store.get_reader(Lookup::new(URL).variant(&two)).expect("readable").expect("there");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).expect("readable");
    assert_eq!((head.variant, text.as_str()), (Some(two.clone()), "two"));
    assert_eq!(store.head(Lookup::new(URL).variant(&two)).expect("readable").expect("there").body_bytes, 3);
    assert_eq!(store.history_beside(Lookup::new(URL).variant(&one), RecordKind::Request).expect("readable").count(), 1);
    assert_eq!(store.history_beside(URL, RecordKind::Request).expect("readable").count(), 1);
}

#[test]
fn lists_of_pages_have_no_variants_and_lists_of_variants_have_them() {
    let Fresh { store, dir: _dir } = filled();
    let other = Page { variant: Some(post("http://b.example/")), ..Page::new("http://a.example/other", 1, 200, "x") };
    store.put_page(&other).expect("it fits");
    for urls in
        [store.urls(), store.urls_of_host("a.example"), store.urls_with_prefix("http://a"), store.urls_where(|_| true)]
    {
        assert_eq!(urls.map(|url| url.expect("whole")).collect::<Vec<_>>(), [URL.as_bytes()]);
    }
    assert_eq!((store.pages().count(), store.heads().count()), (1, 1));
    let of = |found: filemap::store::Variants| found.map(|item| item.expect("whole").1).collect::<BTreeSet<_>>();
    assert_eq!(of(store.variants(URL).expect("readable")), BTreeSet::from([post("q=1"), post("q=2")]));
    assert_eq!(of(store.variants("http://a.example/none").expect("readable")), BTreeSet::new());
    assert_eq!(store.variants_where(|_| true).count(), 3);
    assert_eq!(store.variant_heads().filter(|head| head.as_ref().expect("whole").page.variant.is_some()).count(), 3);
    // Three versions of variants of one URL, one of the other, a page, and two records beside
    // them.
    assert_eq!((store.versions().count(), store.stored_versions().count(), store.stored_newest().count()), (7, 7, 4));
    let sizes: Vec<_> = store.sizes().map(|size| size.expect("whole")).collect();
    assert_eq!(sizes.iter().filter(|size| size.is_page).count(), 1);
    assert_eq!(sizes.iter().filter(|size| size.is_variant).count(), 4);
    assert_eq!(sizes.iter().filter(|size| size.is_variant && size.is_newest).count(), 3);
    assert!(sizes.iter().all(|size| size.url.starts_with(b"http://a.example/") && !size.url.contains(&0)));
}

#[test]
fn removing_a_url_leaves_nothing_of_it_and_removing_a_variant_nothing_of_that() {
    let Fresh { store, dir: _dir } = filled();
    assert!(store.remove_variant(URL, &post("q=2")).expect("writable"));
    assert!(!store.remove_variant(URL, &post("q=2")).expect("writable"));
    assert_eq!(store.variants(URL).expect("readable").count(), 1);
    assert!(store.remove(URL).expect("writable"));
    assert_eq!(records(&store), 0, "no record is left beside it");
    assert!(!store.remove(URL).expect("writable"));

    // A URL that has variants only is something to remove, too.
    store.put_page(&page(Some(post("q=1")), 1, "x")).expect("it fits");
    assert!(store.remove(URL).expect("writable"));
    assert_eq!(records(&store), 0);

    let Fresh { store, dir: _dir } = filled();
    assert!(store.remove_variant(URL, None).expect("writable"), "the page alone");
    assert_eq!((store.contains(URL).expect("readable"), store.variants(URL).expect("readable").count()), (false, 2));
    let mut told = (0, 0);
    let pages = store.remove_where(|url| url == URL.as_bytes(), &mut |removed| {
        let removed = removed.expect("whole");
        told = (told.0 + u64::from(removed.is_page), told.1 + u64::from(removed.is_variant));
        ControlFlow::Continue(())
    });
    assert_eq!((pages.expect("writable"), told), (0, (0, 2)));
    assert_eq!(records(&store), 0);
}

#[test]
fn what_drops_versions_by_age_keeps_the_mark_of_a_variant_that_stays() {
    let Fresh { store, dir: _dir } = fresh();
    let day = 86_400_000;
    for (variant, time_ms) in
        [("q=1", 3 * day), ("q=2", 5 * day - 1), ("q=3", 5 * day), ("q=4", 40 * day), ("q=5", day)]
    {
        store.put_page(&page(Some(post(variant)), time_ms, variant)).expect("it fits");
    }
    let [mark] = &marks(&store)[..] else { panic!("one URL, one mark") };
    let times = || store.engine().versions_of(mark).expect("readable");
    let marks = times();
    assert_eq!(marks.iter().map(|version| version.time_ms / day).collect::<Vec<_>>(), [41, 6, 5, 4]);
    // Nothing is later than the mark, so that it outlives every variant, by age as by number.
    assert!(marks[0].time_ms > 40 * day);
    for time_ms in [i64::MIN, i64::MAX] {
        store.put_page(&page(Some(post("odd")), time_ms, "odd")).expect("it fits");
    }
    assert_eq!(times()[0].time_ms, i64::MAX);
    assert!(store.remove(URL).expect("writable"));
    assert_eq!(records(&store), 0);
}

#[test]
fn a_variant_that_does_not_fit_behind_its_url_is_an_error_of_that_page_and_found_nowhere() {
    let Fresh { store, dir: _dir } = fresh();
    let long = format!("http://a.example/{}", "x".repeat(60_000));
    let variant = Variant::new(vec![7; 10_000]).expect("fits");
    let page = Page { variant: Some(variant.clone()), ..Page::new(long.as_str(), 1, 200, "x") };
    assert!(store.put_page(&page).expect_err("too long").concerns_one_page());
    assert_eq!(body(store.get(Lookup::new(&long).variant(&variant))), None);
    assert!(!store.contains(Lookup::new(&long).variant(&variant)).expect("readable"));
    assert!(store.history(Lookup::new(&long).variant(&variant)).expect("readable").is_empty());
    assert!(!store.remove_variant(&long, &variant).expect("writable"));
    assert_eq!(store.engine().keys().count(), 0, "nor is a mark left");
}

#[test]
fn erasing_a_time_takes_the_variants_of_that_time_and_the_others_are_found() {
    let Fresh { store, dir: _dir } = fresh();
    let day = 86_400_000;
    let put =
        |variant: &str, time_ms: i64| store.put_page(&page(Some(post(variant)), time_ms, "a secret of some length"));
    put("before", 10 * day - 1).expect("it fits");
    put("within", 10 * day + 1).expect("it fits");
    let mut order = EraseOrder::new(EraseTarget::Url(URL.into()), "asked for");
    (order.from_ms, order.to_ms) = (Some(10 * day), Some(11 * day));
    assert!(store.erase(&order, &mut |_| ControlFlow::Continue(())).expect("writable").is_complete());
    let left = || store.variants(URL).expect("readable").map(|found| found.expect("whole").1).collect::<Vec<_>>();
    assert_eq!(left(), [post("before")]);
    assert!(put("within", 10 * day + 1).expect_err("refused").refused_by().is_some());
    // A mark whose time a rule names is not a page of that time.
    put("another", 10 * day - 2).expect("another time");
    put("late", 10 * day - 1 + day).expect_err("refused");
    assert_eq!(left().len(), 2);
    order.from_ms = Some(9 * day);
    assert!(store.erase(&order, &mut |_| ControlFlow::Continue(())).expect("writable").is_complete());
    assert_eq!(records(&store), 0);
    put("within", 9 * day).expect_err("refused");
    let host = EraseOrder::new(EraseTarget::Host("b.example".into()), "asked for");
    assert!(store.erase(&host, &mut |_| ControlFlow::Continue(())).expect("writable").is_complete());
    let refused = Page { variant: Some(post("q")), ..Page::new("http://b.example/", 1, 200, "x") };
    store.put_page(&refused).expect_err("refused");
    assert_eq!(marks(&store).len(), 1, "a refused page leaves none");
}

/// A store made of a dump, by its WARC files or by its lines.
fn restored(files: &Memory) -> Fresh {
    let to = fresh();
    for (name, bytes) in files.files() {
        if name.contains(".warc") {
            let report = run(&to.store, &bytes, &ImportOptions::new());
            assert_eq!((report.damaged, report.unusable, report.already_there), (0, 0, 0), "{:?}", report.problems);
        } else if name.ends_with(".jsonl") {
            for line in bytes.split_inclusive(|&byte| byte == b'\n') {
                let (page, unchanged) = jsonl::read_stored(line).expect("a page");
                Loader::default()
                    .put_stored_if_new(&to.store, &page, unchanged.unwrap_or(BodyForm::Whole))
                    .expect("it fits")
                    .expect("new");
            }
        }
    }
    to
}

#[test]
fn variants_come_back_from_every_form_of_a_dump() {
    let from = filled();
    // Those of a caller's own may be of any bytes.
    for bytes in [&b"fingerprint"[..], b"\0", b"\xff\0\xff", b"__wb_method=\xff", b"request"] {
        let variant = Variant::new(bytes).expect("fits");
        from.store.put_page(&page(Some(variant), 7000, "own")).expect("it fits");
    }
    for format in [Format::Warc, Format::Jsonl] {
        let (files, report) = dumped(&from.store, &DumpOptions::new("x", &[format]));
        assert_eq!((report.written, report.inexact), (11, 0));
        let to = restored(&files);
        assert_equal(&to.store, &from.store);
        assert!(dumped(&to.store, &DumpOptions::new("x", &[format])).0.files() == files.files());
        assert_eq!(to.store.variants(URL).expect("readable").count(), 7, "the marks are there again");
    }
    let newest = DumpOptions::new("x", &[Format::Jsonl, Format::Files]).newest_only();
    let (files, report) = dumped(&from.store, &newest);
    assert_eq!(report.written, 8, "the newest of the page and of each variant");
    assert_eq!(files.file("x.files/a.example/api"), b"page", "a variant takes no page's place");
    assert_eq!(files.files().keys().filter(|name| name.starts_with("x.files/a.example/~/")).count(), 7);
}

#[test]
fn the_index_of_an_export_has_a_key_for_each_variant() {
    let from = filled();
    let (files, _) = dumped(&from.store, &DumpOptions::new("x", &[Format::Warc, Format::Cdxj]));
    let index = String::from_utf8(files.file("x.cdxj")).expect("text");
    let keys: BTreeSet<&str> = index.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        keys.into_iter().collect::<Vec<_>>(),
        ["example,a)/api", "example,a)/api?__wb_method=post&q=1", "example,a)/api?__wb_method=post&q=2"]
    );
    assert_eq!(index.lines().count(), 4);
    assert!(index.contains(r#""requestBody":"q=2","method":"POST"}"#), "{index}");
}

#[test]
fn a_store_of_exact_urls_tells_variants_and_urls_apart_whatever_bytes_they_have() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let store =
        PageStore::create_with(path, std::sync::Arc::new(filemap::canonical::Exact), Options::new()).expect("a store");
    let variant = Variant::new("x://h/y").expect("fits");
    store.put_page(&Page { variant: Some(variant.clone()), ..Page::new("a", 1, 200, "variant") }).expect("it fits");
    store.put_page(&Page::new("ax://h/y", 1, 200, "page")).expect("it fits");
    assert_eq!(body(store.get("a")), None);
    assert_eq!(body(store.get(Lookup::new("a").variant(&variant))).as_deref(), Some("variant"));
    assert_eq!(store.urls_of_host("h").map(|url| url.expect("whole")).collect::<Vec<_>>(), [b"ax://h/y"]);
}

#[test]
fn damage_of_an_older_answer_does_not_hide_the_newer_one_in_memory() {
    // The mark of a URL with variants has a time to come, so that the index may have newer
    // versions than the memtable: a get looks there, and met the damage of what is older.
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let options = || Options::new().compression_level(0).free_space_floor(0);
    let put = |store: &PageStore, time_ms, body: &str| {
        store.put_page(&page(Some(post("q=1")), time_ms, body)).expect("it fits");
    };
    let store = PageStore::create(&path, options()).expect("a new store");
    put(&store, 1_700_000_000_000, &"old".repeat(1000));
    store.close().expect("closed");
    let file = path.join("value0.dat");
    let mut bytes = std::fs::read(&file).expect("the segment");
    let body = bytes.windows(9).position(|window| window == b"oldoldold").expect("stored as it is");
    bytes[body + 500] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    let store = PageStore::open(&path, options()).expect("opens");
    let variant = post("q=1");
    let get = || store.get(Lookup::new(URL).variant(&variant));
    assert!(get().expect_err("the only version is damaged").is_damage());
    put(&store, 1_700_000_000_001, "new");
    assert_eq!(body_of(get()), "new");
    put(&store, 1_600_000_000_000, "older yet");
    assert_eq!(body_of(get()), "new");
    store.close().expect("closed");
}

fn body_of(page: filemap::Result<Option<Page>>) -> String {
    body(page).expect("there")
}
