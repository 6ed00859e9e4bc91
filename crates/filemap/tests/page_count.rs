//! The number of URLs that have a page, beside the list of them, under random work.

use std::ops::ControlFlow;

use filemap::page::RecordKind;
use filemap::{Options, Page, PageStore, Variant};
use filemap_core::prune::PruneRule;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Op {
    Put(u8),
    PutVariant(u8),
    PutRequest(u8),
    Remove(u8),
    RemoveVariant(u8),
    Prune(i64),
    Checkpoint,
    Compact,
    Count,
    Refresh,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..12u8;
    prop_oneof![
        6 => key.clone().prop_map(Op::Put),
        2 => key.clone().prop_map(Op::PutVariant),
        1 => key.clone().prop_map(Op::PutRequest),
        4 => key.clone().prop_map(Op::Remove),
        1 => key.prop_map(Op::RemoveVariant),
        1 => (0..60i64).prop_map(Op::Prune),
        2 => Just(Op::Checkpoint),
        1 => Just(Op::Compact),
        3 => Just(Op::Count),
        2 => Just(Op::Refresh),
        1 => Just(Op::Reopen),
    ]
}

fn url(key: u8) -> String {
    format!("http://host{}.example/{key}", key % 3)
}

fn variant() -> Variant {
    Variant::new("another").expect("it fits")
}

fn listed(store: &PageStore) -> u64 {
    store.urls().inspect(|url| assert!(url.is_ok(), "readable")).count() as u64
}

fn perform(store: &PageStore, op: Op, time_ms: i64) {
    let page = |key| Page::new(url(key), time_ms, 200, format!("body {time_ms}"));
    let put = |page: Page| assert!(store.put_page(&page).expect("it fits").sequence > 0);
    match op {
        Op::Put(key) => put(page(key)),
        Op::PutVariant(key) => put(Page { variant: Some(variant()), ..page(key) }),
        Op::PutRequest(key) => {
            put(Page { kind: RecordKind::Request, status: None, method: Some("GET".into()), ..page(key) });
        }
        Op::Remove(key) => drop(store.remove(url(key)).expect("removed")),
        Op::RemoveVariant(key) => {
            store.engine().remove(format!("{}\0\0another", url(key)).as_bytes()).expect("removed");
        }
        Op::Prune(since) => {
            let rule = PruneRule { since_ms: Some(since), ..PruneRule::default() };
            store.prune(rule, &mut |_| ControlFlow::Continue(())).expect("pruned");
        }
        Op::Checkpoint => store.engine().checkpoint().expect("durable"),
        Op::Compact => drop(store.engine().compact().expect("compacted")),
        Op::Count | Op::Refresh | Op::Reopen => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_number_of_pages_is_that_of_the_urls(ops in proptest::collection::vec(op(), 1..60)) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("pages.fm");
        let options = || Options::new().free_space_floor(0);
        let mut store = PageStore::create(&path, options()).expect("made");
        let reader = PageStore::open_read_only(&path, options()).expect("opened");
        for (time_ms, op) in (1..).zip(ops) {
            perform(&store, op, time_ms);
            match op {
                Op::Count => prop_assert_eq!(store.count_pages().expect("known"), listed(&store)),
                Op::Refresh => {
                    reader.engine().refresh().expect("followed");
                    prop_assert_eq!(reader.count_pages().expect("known"), listed(&store));
                }
                Op::Reopen => {
                    store.close().expect("closed");
                    store = PageStore::open(&path, options()).expect("opened");
                }
                _ => {}
            }
        }
        prop_assert_eq!(store.count_pages().expect("known"), listed(&store));
        prop_assert_eq!(store.engine().counted_keys().expect("known"), Some(listed(&store)));
        store.engine().checkpoint().expect("durable");
        prop_assert_eq!(store.count_pages().expect("known"), listed(&store));
        prop_assert_eq!(store.engine().verify().expect("read").problems, []);
    }
}

#[test]
fn a_store_that_does_not_know_the_number_lists_its_urls() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let store = PageStore::create(&path, Options::new()).expect("made");
    (0..10).for_each(|key| perform(&store, Op::Put(key), 1));
    store.close().expect("closed");
    let engine = filemap_core::Store::open(&path, Options::new().end_key_order()).expect("opened");
    engine.remove(url(3).as_bytes()).expect("removed");
    let store = PageStore::over(engine).expect("of pages");
    assert_eq!((store.engine().counted_keys().expect("read"), store.count_pages().expect("listed")), (None, 9));
    store.close().expect("closed");
    let store = PageStore::open(&path, Options::new()).expect("opened");
    assert_eq!((store.engine().counted_keys().expect("read"), store.count_pages().expect("listed")), (None, 9));
}
