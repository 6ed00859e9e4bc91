//! A store over several folders filled by imports and emptied by dumps: what it has is what a
//! store in one folder has, revisits under other hosts too.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::samples::{fresh, run};
use crate::stores::{Memory, contents};
use filemap::access::PutRule;
use filemap::canonical::Whatwg;
use filemap::dump::{DumpEvent, DumpOptions, DumpReport, Format, dump_members, jsonl};
use filemap::erase::{EraseOrder, EraseTarget, detach_among};
use filemap::import::{ImportOptions, ImportProgress, ImportReport, import_into};
use filemap::sharded::ShardedStore;
use filemap::store::RevisitCount;
use filemap::{Options, Page, PageStore, PageWrite};
use tempfile::TempDir;

const MEMBERS: u32 = 3;

fn set(dir: &TempDir) -> ShardedStore {
    let paths: Vec<_> = (0..MEMBERS).map(|number| dir.path().join(format!("{number}.fm"))).collect();
    ShardedStore::open_or_create(&paths, Arc::new(Whatwg), Options::new()).expect("a set")
}

/// A host whose pages are in this member, and the host's page.
fn page_of(member: u32) -> String {
    let mut urls = (0_u32..).map(|host| format!("http://host{host}.example/"));
    urls.find(|url| urlindex::shard(url, MEMBERS) == member).expect("hosts do not run out")
}

fn record(kind: &str, url: &str, day: u32, fields: &str, body: &str) -> Vec<u8> {
    let block = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{body}");
    format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-{day:02}T00:00:00Z\r\n{fields}\
         Content-Type: application/http;msgtype=response\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
    .into_bytes()
}

/// A revisit of the page of `of`, of the first of the month.
fn revisit(url: &str, day: u32, of: &str) -> Vec<u8> {
    let fields = format!(
        "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n\
         WARC-Refers-To-Target-URI: {of}\r\nWARC-Refers-To-Date: 2020-01-01T00:00:00Z\r\n"
    );
    record("revisit", url, day, &fields, "")
}

/// Pages of twelve hosts and more, of all members, some with two versions.
fn records() -> Vec<u8> {
    let page = |nth: u32| {
        let (url, body) = (format!("http://host{}.example/{nth}", nth % 12), format!("the body of {nth}"));
        let first = record("response", &url, 1, "", &body);
        if nth.is_multiple_of(3) { [first, record("response", &url, 2, "", &body)].concat() } else { first }
    };
    let of_each = |member: u32| record("response", &format!("{}more", page_of(member)), 1, "", "more");
    (0..60).flat_map(page).chain((0..MEMBERS).flat_map(of_each)).collect()
}

/// Imports a file until it has stored this many pages.
fn import(store: &ShardedStore, file: &[u8], most: u64) -> ImportReport {
    let mut stores = |url: &[u8]| store.member_of(url).cloned();
    let watch = &mut |at: ImportProgress| match at.pages < most {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    import_into(&mut stores, "test.warc", file, &ImportOptions::new(), watch).expect("the store is fine")
}

fn count(store: &ShardedStore, report: &ImportReport) -> RevisitCount {
    let mut stores = |url: &[u8]| store.member_of(url).cloned();
    let count = report.unresolved.clone().count_in(&mut stores).expect("readable");
    let all = store.count_revisits(&mut |_| ControlFlow::Continue(())).expect("readable").expect("not cancelled");
    assert_eq!(all, count, "a pass over the members finds the same");
    count
}

fn dumped(store: &ShardedStore, options: &DumpOptions) -> (Memory, DumpReport) {
    let mut target = Memory::default();
    let report = dump_members(store.members(), options, &mut target, &mut |event| {
        if let DumpEvent::Damage(error) = event {
            panic!("{error}");
        }
        ControlFlow::Continue(())
    });
    (target, report.expect("memory does not fail"))
}

#[test]
fn an_import_that_is_stopped_goes_on_and_gives_the_members_what_one_store_gets() {
    let (dir, alone, file) = (tempfile::tempdir().expect("a folder"), fresh(), records());
    let set = set(&dir);
    let all = run(&alone.store, &file, &ImportOptions::new());
    let first = import(&set, &file, 25);
    assert!(first.is_cancelled && first.stored == 25);
    set.close().expect("closed");
    drop(set);

    let paths: Vec<_> = (0..MEMBERS).map(|number| dir.path().join(format!("{number}.fm"))).collect();
    let set = ShardedStore::open(&paths, Options::new()).expect("the set");
    let rest = import(&set, &file, u64::MAX);
    assert_eq!((rest.stored, rest.already_there), (all.stored - 25, 25));
    let again = import(&set, &file, u64::MAX);
    assert_eq!((again.stored, again.already_there), (0, all.stored));
    let mut found = BTreeMap::new();
    for member in set.members() {
        let own = contents(member);
        assert!(!own.is_empty(), "every member has pages");
        found.extend(own);
    }
    assert!(found == contents(&alone.store), "the same versions");
    assert_eq!(set.strays().expect("a list").count(), 0);
}

#[test]
fn a_revisit_under_another_host_counts_until_the_member_of_that_host_has_its_original() {
    let dir = tempfile::tempdir().expect("a folder");
    let (set, of) = (set(&dir), page_of(0));
    // One in the member of the original, one in another, one of a page that never comes.
    let same = format!("{of}same");
    let (other, never) = (page_of(1), page_of(2));
    let file = [revisit(&same, 2, &of), revisit(&other, 2, &of), revisit(&never, 2, "http://absent.example/")].concat();
    let report = import(&set, &file, u64::MAX);
    assert_eq!((count(&set, &report).revisits, count(&set, &report).unresolved), (3, 3));
    assert!(set.get_page(&other).expect("read").expect("there").lacks_body());

    import(&set, &record("response", &of, 1, "", "the original"), u64::MAX);
    let counted = count(&set, &report);
    assert_eq!((counted.unresolved, counted.urls), (1, vec![never.clone().into_bytes()]));
    for url in [&same, &other] {
        assert_eq!(set.get_page(url).expect("read").expect("there").body, b"the original", "{url}");
    }
    assert!(set.get_page(&never).expect("read").expect("there").lacks_body());
}

#[test]
fn a_dump_of_the_members_is_one_and_has_the_originals_of_revisits_in_others() {
    let dir = tempfile::tempdir().expect("a folder");
    let set = set(&dir);
    // Before and after the member of the original.
    let (of, before, after) = (page_of(1), page_of(0), page_of(2));
    let original = record("response", &of, 1, "", "the original");
    let file = [original, revisit(&before, 2, &of), revisit(&after, 2, &of), records()].concat();
    let stored = import(&set, &file, u64::MAX).stored;

    for options in [
        DumpOptions::new("x", &[Format::Warc]).roll_bytes(None),
        DumpOptions::new("x", &[Format::Warc]).roll_bytes(None).newest_only(),
    ] {
        let (files, report) = dumped(&set, &options);
        let to = fresh();
        let mut read = run(&to.store, &files.file("x.warc.gz"), &ImportOptions::new());
        assert_eq!((read.stored, read.losses()), (report.written, 0), "{:?}", read.problems);
        assert_eq!(read.unresolved.count(&to.store).expect("readable").unresolved, 0);
        for url in [&before, &after] {
            let page = to.store.get(url).expect("read").expect("there");
            assert_eq!(page.body, b"the original", "{url}");
        }
    }
    let (files, report) = dumped(&set, &DumpOptions::new("x", &[Format::Jsonl]));
    assert_eq!((report.written, report.damaged), (stored, 0));
    let loaded = fresh();
    for line in files.file("x.jsonl").split_inclusive(|&byte| byte == b'\n') {
        let (page, _) = jsonl::read_stored(line).expect("a page");
        assert!(loaded.store.put(&page, PutRule::Restore).expect("it fits").is_some(), "no version is there twice");
    }
    let (_, report) = dumped(&set, &DumpOptions::new("x", &[Format::Jsonl]).limit(Some(7)));
    assert_eq!(report.written, 7, "the limit is one for all");
}

#[test]
fn a_dump_that_is_stopped_at_the_end_of_a_member_is_not_the_whole() {
    let dir = tempfile::tempdir().expect("a folder");
    let set = set(&dir);
    for member in 0..MEMBERS {
        let page = Page::new(page_of(member).as_str(), 1_700_000_000_000, 200, "hello");
        assert!(set.put(&page, PutRule::IfNew).expect("put").is_some());
    }
    let mut target = Memory::default();
    let options = DumpOptions::new("x", &[Format::Jsonl]);
    let report = dump_members(set.members(), &options, &mut target, &mut |_| ControlFlow::Break(()));
    let report = report.expect("memory does not fail");
    assert!(report.is_cancelled && report.written == 1 && target.files().is_empty(), "{report:?}");
}

#[test]
fn erasures_in_each_member_leave_revisits_in_the_others_their_bodies() {
    let dir = tempfile::tempdir().expect("a folder");
    let (set, of, url) = (set(&dir), page_of(0), page_of(1));
    let file = [record("response", &of, 1, "", "the original"), revisit(&url, 2, &of)].concat();
    assert_eq!(import(&set, &file, u64::MAX).stored, 2);
    let order = EraseOrder::new(EraseTarget::Url(of.clone().into_bytes()), "request 17");
    for detached in [1, 0] {
        let again = detach_among(set.members(), Some(&order), &[], &mut |_| ControlFlow::Continue(()));
        assert_eq!(again.expect("readable"), detached);
    }
    for member in set.members() {
        assert!(member.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased").is_complete());
    }
    assert!(set.get_page(&of).expect("read").is_none());
    let page = set.get_page(&url).expect("read").expect("there");
    assert!(page.body == b"the original" && !page.lacks_body());
}

#[test]
fn an_erasure_keeps_the_bodies_of_revisits_that_are_not_where_their_host_belongs() {
    let dir = tempfile::tempdir().expect("a folder");
    set(&dir).close().expect("closed");
    let url = page_of(1);
    let of = format!("{url}of");
    let body = || {
        let past = PageStore::open_read_only(dir.path().join("0.fm"), Options::new()).expect("a member");
        past.get(&url).expect("read").expect("there").body
    };
    let past = PageStore::open(dir.path().join("0.fm"), Options::new()).expect("a member");
    let file = [record("response", &of, 1, "", "the original"), revisit(&url, 2, &of)].concat();
    assert_eq!(run(&past, &file, &ImportOptions::new()).stored, 2);
    past.close().expect("closed");
    assert_eq!(body(), b"the original");
    let set = set(&dir);
    let order = EraseOrder::new(EraseTarget::Url(of.into_bytes()), "request 17");
    let detached = detach_among(set.members(), Some(&order), &[], &mut |_| ControlFlow::Continue(()));
    assert_eq!(detached.expect("readable"), 1);
    for member in set.members() {
        assert!(member.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased").is_complete());
    }
    set.close().expect("closed");
    assert_eq!(body(), b"the original");
}

#[test]
fn a_revisit_of_a_body_that_goes_by_its_digest_stays_without_it_as_in_one_folder() {
    let dir = tempfile::tempdir().expect("a folder");
    let (set, alone, of) = (set(&dir), fresh(), page_of(0));
    let url = format!("{of}again");
    let file = [record("response", &of, 1, "", "the original"), revisit(&url, 2, &of)].concat();
    assert_eq!(import(&set, &file, u64::MAX).stored, 2);
    assert_eq!(run(&alone.store, &file, &ImportOptions::new()).stored, 2);
    let digest = EraseTarget::Digest("sha1:0abddb0efb64807dfacc9c3ead932813351d13d5".to_owned());
    let order = EraseOrder::new(digest, "request 17");
    let detached = detach_among(set.members(), Some(&order), &[], &mut |_| ControlFlow::Continue(()));
    assert_eq!(detached.expect("readable"), 0, "the body would be erased with the revisit");
    for member in set.members().iter().chain([&alone.store]) {
        assert!(member.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased").is_complete());
    }
    assert!(set.get_page(&of).expect("read").is_none() && alone.store.get(&of).expect("read").is_none());
    let (of_set, of_alone) = (set.get_page(&url), alone.store.get(&url));
    assert!(of_alone.expect("read").expect("there").lacks_body());
    assert!(of_set.expect("read").expect("there").lacks_body());
}
