//! Pruning and erasing take no body from what stays, and a dump of a part of a store brings all
//! bodies: versions with bodies, references to them, and revisits of versions of the same URL and
//! of others, by digest, time and record id, through other revisits too, in all mixtures.

use filemap::store::{BodyForm, Loader};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::samples::{fresh, run};
use crate::stores::dumped;
use filemap::access::Scope;
use filemap::dump::{DumpOptions, Format, Selection, jsonl};
use filemap::erase::{EraseOrder, EraseTarget};
use filemap::import::ImportOptions;
use filemap::page::{RecordKind, Revisit, RevisitProfile};
use filemap::{Options, Page, PageStore, Version};
use filemap_core::prune::PruneRule;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sha1::Digest as _;

const URLS: [&str; 4] = ["http://a.example/", "https://a.example/", "http://b.example/1", "http://b.example/2"];

/// One version: which URL, when, and what it is.
#[derive(Clone, Debug)]
struct Put {
    url: usize,
    time_ms: i64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// One of a few bodies, with its digest or without, stored again or not.
    Body { body: u8, has_digest: bool, if_changed: bool },
    /// Of the URL, the time, the id and the body's digest that are given, some of them.
    Revisit { url: Option<usize>, time_ms: Option<i64>, id: Option<usize>, body: Option<u8>, is_not_modified: bool },
}

fn what() -> impl Strategy<Value = What> {
    let body = (0..4u8, any::<bool>(), any::<bool>());
    let revisit = (
        proptest::option::of(0..URLS.len()),
        proptest::option::of((0..12i64).prop_map(|t| t * 1000)),
        proptest::option::of(0..12usize),
        proptest::option::of(0..4u8),
        any::<bool>(),
    );
    prop_oneof![
        body.prop_map(|(body, has_digest, if_changed)| What::Body { body, has_digest, if_changed }),
        revisit.prop_map(|(url, time_ms, id, body, is_not_modified)| What::Revisit {
            url,
            time_ms,
            id,
            body,
            is_not_modified
        }),
    ]
}

fn puts() -> impl Strategy<Value = Vec<Put>> {
    let put = (0..URLS.len(), 0..12i64, what());
    proptest::collection::vec(put.prop_map(|(url, time, what)| Put { url, time_ms: time * 1000, what }), 1..16)
}

fn text(body: u8) -> Vec<u8> {
    format!("body {body}, ").repeat(40 + usize::from(body)).into_bytes()
}

fn digest(body: u8) -> String {
    let digest = sha1::Sha1::digest(text(body));
    format!("sha1:{}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn id(nth: usize) -> String {
    format!("<urn:record:{nth}>")
}

fn store_of(puts: &[Put]) -> (PageStore, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let store = PageStore::create(dir.path().join("a.fm"), Options::new().free_space_floor(0)).unwrap();
    for (nth, put) in puts.iter().enumerate() {
        let mut page = Page::new(URLS[put.url], put.time_ms, 200, "");
        page.record_id = Some(id(nth));
        page.headers.push("Nth", nth.to_string());
        match &put.what {
            What::Body { body, has_digest, if_changed } => {
                page.body = text(*body);
                page.digest = has_digest.then(|| digest(*body));
                if *if_changed {
                    store.put_page_if_changed(&page).unwrap();
                    continue;
                }
            }
            What::Revisit { url, time_ms, id: of, body, is_not_modified } => {
                let profile =
                    if *is_not_modified { RevisitProfile::ServerNotModified } else { RevisitProfile::IdenticalPayload };
                page.kind = RecordKind::Revisit;
                page.digest = body.map(digest);
                page.revisit = Some(Revisit {
                    profile,
                    refers_to_url: url.map(|url| URLS[url].into()),
                    refers_to_ms: *time_ms,
                    refers_to_id: of.map(id),
                    original: None,
                });
            }
        }
        store.put_page(&page).unwrap();
    }
    (store, dir)
}

/// Time and body of versions, by their URL and their number.
type Bodies = BTreeMap<(usize, String), (i64, Vec<u8>)>;

/// The body of every version as a reader gets it.
fn bodies(store: &PageStore) -> Bodies {
    let mut all = BTreeMap::new();
    for (url, text) in URLS.iter().enumerate() {
        for head in store.history(text).unwrap() {
            let page = store.get_version(text, head.version).unwrap().unwrap();
            let nth = String::from_utf8(page.headers.get("Nth").unwrap().to_vec()).unwrap();
            let before = all.insert((url, nth.clone()), (page.fetched_at_ms, page.body));
            assert!(before.is_none(), "version {nth} stands there twice");
        }
    }
    all
}

fn is_sound(store: &PageStore) {
    assert_eq!(store.engine().verify().unwrap().problems, []);
}

/// Of what is there, everything reads as before.
fn reads_as_before(store: &PageStore, before: &Bodies) {
    for (which, read) in bodies(store) {
        let was = &before[&which];
        // What had no body may find one, but none is taken away.
        assert!(read == *was || was.1.is_empty(), "{which:?}: {} bytes are {}", was.1.len(), read.1.len());
    }
}

fn kept(store: &PageStore, rule: PruneRule) -> Vec<(usize, Version)> {
    let of = |(url, text): (usize, &&str)| {
        let kept = store.engine().kept_by(rule, text.as_bytes()).unwrap();
        kept.into_iter().map(move |version| (url, version)).collect::<Vec<_>>()
    };
    URLS.iter().enumerate().flat_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn a_prune_takes_no_body_from_a_version_that_stays(
        puts in puts(),
        keep_versions in proptest::option::of(1..4u32),
        since in proptest::option::of(0..12i64),
        max_live_bytes in proptest::option::of(0..4000u64),
    ) {
        let rule = PruneRule { keep_versions, since_ms: since.map(|t| t * 1000), max_live_bytes };
        prop_assume!(rule.check().is_ok());
        let (store, _dir) = store_of(&puts);
        store.engine().checkpoint().unwrap();
        let before = bodies(&store);
        let by_rule = kept(&store, rule);
        let go_on = &mut |_| ControlFlow::Continue(());
        let planned = store.prune_plan(rule, go_on).unwrap();
        let pruned = store.prune(rule, go_on).unwrap();
        if max_live_bytes.is_none() {
            prop_assert_eq!(planned, pruned, "what was foretold");
            for (url, version) in by_rule {
                prop_assert!(store.get_version(URLS[url], version).unwrap().is_some(), "{} {:?}", url, version);
            }
        }
        prop_assert_eq!(bodies(&store).len() as u64 + pruned.versions, before.len() as u64);
        reads_as_before(&store, &before);
        store.engine().compact_with(filemap_core::compact::CompactionGoal::Bound, &mut |_| ControlFlow::Continue(())).unwrap();
        reads_as_before(&store, &before);
        is_sound(&store);
    }

    #[test]
    fn a_prune_of_one_host_leaves_every_other_page_whole(
        puts in puts(),
        keep_versions in proptest::option::of(1..4u32),
        since in proptest::option::of(0..12i64),
        host in prop_oneof![Just("a.example"), Just("b.example")],
    ) {
        let rule = PruneRule { keep_versions, since_ms: since.map(|t| t * 1000), max_live_bytes: None };
        prop_assume!(rule.check().is_ok());
        let (store, _dir) = store_of(&puts);
        let before = bodies(&store);
        let by_rule = kept(&store, rule);
        let is_of = move || Scope::new().host(host).filter();
        let go_on = &mut |_| ControlFlow::Continue(());
        let planned = store.prune_plan_where(rule, is_of(), go_on).unwrap();
        let pruned = store.prune_where(rule, is_of(), go_on).unwrap();
        prop_assert_eq!((planned.versions, planned.keys), (pruned.versions, pruned.keys), "what was foretold");
        for (url, version) in by_rule {
            prop_assert!(store.get_version(URLS[url], version).unwrap().is_some(), "{} {:?}", url, version);
        }
        let after = bodies(&store);
        for ((url, nth), _) in before.iter().filter(|((url, _), _)| !is_of()(URLS[*url].as_bytes())) {
            prop_assert!(after.contains_key(&(*url, nth.clone())), "{} {}", url, nth);
        }
        prop_assert_eq!(after.len() as u64 + pruned.versions, before.len() as u64);
        reads_as_before(&store, &before);
        is_sound(&store);
    }

    #[test]
    fn an_erasure_takes_no_body_from_a_version_that_stays(
        puts in puts(),
        target in prop_oneof![
            (0..URLS.len()).prop_map(|url| EraseTarget::Url(URLS[url].into())),
            Just(EraseTarget::Host("a.example".into())),
            Just(EraseTarget::Host("b.example".into())),
        ],
        from in proptest::option::of(0..12i64),
        to in proptest::option::of(0..12i64),
    ) {
        let (store, _dir) = store_of(&puts);
        let before = bodies(&store);
        let (from_ms, to_ms) = (from.map(|t| t * 1000), to.map(|t| t * 1000));
        prop_assume!(from_ms.zip(to_ms).is_none_or(|(from, to)| from <= to));
        let mut order = EraseOrder::new(target.clone(), "why");
        (order.from_ms, order.to_ms) = (from_ms, to_ms);
        let go_on = &mut |_| ControlFlow::Continue(());
        let planned = store.erase_plan(&order, go_on).unwrap().erased;
        let done = store.erase(&order, go_on).unwrap();
        prop_assert!(done.is_complete(), "{done:?}");
        prop_assert_eq!(planned.versions, done.erased.versions);
        // A revisit may find its body through another that was given one.
        prop_assert!(planned.promoted >= done.erased.promoted, "{planned:?}, {done:?}");
        let is_about = |url: usize| match &target {
            EraseTarget::Url(text) => URLS[url].as_bytes() == text.as_slice(),
            EraseTarget::Host(host) => URLS[url].contains(host.as_str()),
            _ => unreachable!("no other is made"),
        };
        let after = bodies(&store);
        for ((url, nth), (time_ms, _)) in &before {
            let is_meant = is_about(*url) && from_ms.is_none_or(|t| *time_ms >= t) && to_ms.is_none_or(|t| *time_ms <= t);
            prop_assert_eq!(after.contains_key(&(*url, nth.clone())), !is_meant, "{} {}", url, nth);
        }
        reads_as_before(&store, &before);
        is_sound(&store);
    }

    #[test]
    fn a_dump_of_a_part_brings_the_body_of_every_version_in_it(
        puts in puts(),
        host in proptest::option::of(prop_oneof![Just("a.example"), Just("b.example")]),
        prefix in proptest::option::of(0..URLS.len()),
        from in proptest::option::of(0..12i64),
        before in proptest::option::of(0..12i64),
        newest_only in any::<bool>(),
        limit in proptest::option::of(0..8u64),
    ) {
        let (store, _dir) = store_of(&puts);
        let all = bodies(&store);
        let mut selection = Selection::new();
        if let Some(host) = host {
            selection = selection.host(host);
        }
        if let Some(url) = prefix {
            selection = selection.prefix(URLS[url]);
        }
        if let Some(from) = from {
            selection = selection.from(from * 1000);
        }
        if let Some(before) = before {
            selection = selection.before(before * 1000);
        }
        let options = DumpOptions::new("x", &[Format::Jsonl, Format::Warc]);
        let options = options.selection(selection).limit(limit);
        let options = if newest_only { options.newest_only() } else { options };
        let (files, report) = dumped(&store, &options);
        let (lines, records) = (fresh(), fresh());
        for line in files.file("x.jsonl").split_inclusive(|&byte| byte == b'\n') {
            let (page, unchanged) = jsonl::read_stored(line).unwrap();
            let put = match unchanged {
                Some(unchanged) => Loader::default().put_stored_if_new(&lines.store, &page, unchanged),
                None => lines.store.put_page_if_new(&page),
            };
            prop_assert!(put.unwrap().is_some(), "{}", String::from_utf8_lossy(line));
        }
        for (name, bytes) in files.files() {
            if name.contains(".warc") {
                run(&records.store, &bytes, &ImportOptions::new());
            }
        }
        for to in [&lines.store, &records.store] {
            prop_assert_eq!(bodies(to).len() as u64, report.written);
            reads_as_before(to, &all);
        }
    }
}

#[test]
fn a_revisit_that_comes_again_hides_no_body_that_it_was_given() {
    let record = |kind: &str, url: &str, time: &str, digest: &str, block: &str| {
        format!(
            "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: {time}\r\n{digest}\
             WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n\
             WARC-Refers-To-Target-URI: {}\r\nWARC-Refers-To-Date: 2020-01-01T00:00:00Z\r\n\
             Content-Type: application/http\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
            URLS[0],
            block.len()
        )
    };
    let body = String::from_utf8(text(1)).expect("text");
    for digest in [format!("WARC-Payload-Digest: {}\r\n", digest(1)), String::new()] {
        let first =
            record("response", URLS[0], "2020-01-01T00:00:00Z", &digest, &format!("HTTP/1.1 200 OK\r\n\r\n{body}"));
        let again =
            record("revisit", URLS[2], "2020-01-02T00:00:00Z", &digest, "HTTP/1.1 200 OK\r\nServer: again\r\n\r\n");
        let file = first + &again;
        let erased = fresh();
        run(&erased.store, file.as_bytes(), &ImportOptions::new());
        let part = |format| {
            let selection = Selection::new().prefix(URLS[2]);
            let options = DumpOptions::new("x", &[format]).selection(selection);
            dumped(&erased.store, &options).0
        };
        let (part, lines) = (part(Format::Warc), part(Format::Jsonl));
        let order = EraseOrder::new(EraseTarget::Url(URLS[0].into()), "why");
        assert!(erased.store.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased").is_complete());
        let (of_part, of_lines) = (fresh(), fresh());
        run(&of_part.store, &part.file("x-00000.warc.gz"), &ImportOptions::new());
        for line in lines.file("x.jsonl").split_inclusive(|&byte| byte == b'\n') {
            let (page, unchanged) = jsonl::read_stored(line).expect("a line");
            Loader::default()
                .put_stored_if_new(&of_lines.store, &page, unchanged.unwrap_or(BodyForm::Whole))
                .expect("stored");
        }
        for (store, what) in [(&erased.store, "erased"), (&of_part.store, "part"), (&of_lines.store, "lines")] {
            assert_eq!(store.history(URLS[2]).expect("readable").len(), 1, "{what}");
            for _ in 0..2 {
                let mut report = run(store, again.as_bytes(), &ImportOptions::new());
                assert_eq!((report.stored, report.already_there, report.losses()), (0, 1, 0), "{what}: {report:?}");
                let count = report.unresolved.count(store).expect("readable");
                assert_eq!((count.revisits, count.unresolved), (1, 0), "{what}");
            }
            let rule = PruneRule { keep_versions: Some(1), since_ms: None, max_live_bytes: None };
            store.prune(rule, &mut |_| ControlFlow::Continue(())).expect("pruned");
            let page = store.get(URLS[2]).expect("readable").expect("there");
            assert_eq!((page.body, page.headers.get("Server")), (text(1), Some(&b"again"[..])), "{what}");
        }
    }
}
