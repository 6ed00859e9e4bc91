//! Pruning gives the same as in the local store; after an erasure no remaining object holds a byte
//! of what was erased, and no repair restores it.

use std::sync::Arc;
use std::time::Duration;

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Options, Page, PageRead, PageStore, PageWrite, Variant};
use filemap_cloud::{CloudOptions, CloudStore, Mode, open_on, repair_on};
use filemap_core::prune::PruneRule;

use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;

const TIME: i64 = 1_700_000_000_000;

fn options() -> CloudOptions {
    // Segments that a compaction has rewritten must not be deleted on their own.
    crate::as_store::options().grace(Duration::from_secs(3600)).space_bound(None)
}

fn open(objects: &Objects, mode: Mode) -> CloudStore {
    open_on(objects.objects.clone(), "a", "the test", mode, &options()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a version with its own body, or with that of the one before.
fn page(host: &str, nth: i64, version: i64) -> Page {
    let body = format!("secret-{host}-{nth}-{} ", version / 2).repeat(20);
    Page::new(format!("http://{host}.example/{nth}"), TIME + version, 200, body)
}

fn fill(store: &dyn PageWrite) {
    for version in 0..5 {
        for nth in 0..40 {
            for host in ["a", "b"] {
                store.put(&page(host, nth, version), PutRule::IfChanged).expect("stored");
            }
        }
        let variant = Variant::new("kept apart").ok();
        store.put(&Page { variant, ..page("a", 1, version) }, PutRule::IfChanged).expect("stored");
    }
    store.sync().expect("synced");
}

/// A URL, the times of its versions, and the body of the newest.
type Seen = (Vec<u8>, Vec<i64>, Vec<u8>);

fn all(store: &dyn PageRead) -> Vec<Seen> {
    let listed = [Scope::new(), Scope::new().variants()].map(|scope| {
        let listed = store.list(&scope, None).expect("listed").map(|entry| entry.expect("readable"));
        let of_entry = listed.map(|entry| {
            let lookup = Lookup::new(&entry.url).variant(entry.variant.as_ref());
            let versions = store.versions(&lookup).expect("readable");
            for version in &versions {
                assert!(store.get_version(&lookup, *version).expect("readable").is_some(), "{version:?}");
            }
            let times = versions.iter().map(|version| version.time_ms).collect();
            let body = store.get(&lookup).expect("readable").expect("there").body;
            (entry.url, times, body)
        });
        of_entry.collect::<Vec<_>>()
    });
    listed.concat()
}

#[test]
fn a_prune_keeps_what_the_local_store_keeps() {
    let rule = |keep_versions, since_ms| PruneRule { keep_versions, since_ms, ..PruneRule::default() };
    for rule in [rule(Some(1), None), rule(None, Some(TIME + 3)), rule(Some(2), Some(TIME + 4))] {
        let (objects, dir) = (Objects::new(), tempfile::tempdir().expect("a folder"));
        let local = PageStore::create(dir.path().join("a"), Options::new()).expect("a store");
        let cloud = open(&objects, Mode::Fill);
        fill(&cloud);
        fill(&local);
        let of_host = cloud.prune(rule, &Scope::new().host("a.example")).expect("pruned");
        let rest = cloud.prune(rule, &Scope::new()).expect("pruned");
        let by_local = local.prune(rule, &mut |_| std::ops::ControlFlow::Continue(())).expect("pruned");
        assert!(of_host.versions > 0 && rest.versions > 0, "{rule:?}");
        assert_eq!(of_host.versions + rest.versions, by_local.versions, "{rule:?}");
        assert_eq!(of_host.keys + rest.keys, by_local.keys, "{rule:?}");
        assert_eq!(all(&cloud), all(&local), "{rule:?}");
        assert_eq!(cloud.prune(rule, &Scope::new()).expect("pruned").versions, 0);
        cloud.close().expect("closed");
        repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
        assert_eq!(all(&open(&objects, Mode::Read)), all(&local), "{rule:?}, repaired");
    }
    let store = open(&Objects::new(), Mode::Fill);
    let bound = PruneRule { max_live_bytes: Some(1), ..PruneRule::default() };
    assert!(store.prune(bound, &Scope::new()).is_err());
    assert!(store.prune(rule(Some(0), None), &Scope::new()).is_err());
    assert_eq!(store.prune(PruneRule::default(), &Scope::new()).expect("nothing").versions, 0);
    store.close().expect("closed");
}

/// Number of segments that hold these bytes.
fn holding(objects: &Objects, bytes: &[u8]) -> usize {
    let holds = |object: Vec<u8>| object.windows(bytes.len()).any(|window| window == bytes);
    objects.names("a/shard-00/seg").iter().filter(|name| holds(objects.read(name))).count()
}

#[test]
fn what_is_erased_is_in_no_segment_and_does_not_come_back() {
    let objects = Objects::new();
    let first = open(&objects, Mode::Fill);
    fill(&first);
    // Removed, but not erased.
    assert!(first.remove(&page("a", 3, 0).url, None).expect("removed"));
    first.sync().expect("synced");
    let store = open(&objects, Mode::Write);
    // Uploaded by a writer that has lost the store.
    first.put(&page("a", 77, 0), PutRule::Always).expect("taken");
    assert!(first.sync().is_err());
    let marks: [&[u8]; 3] = [b"a.example", b"secret-a-3-", b"secret-a-7"];
    assert!(marks.iter().all(|mark| holding(&objects, mark) > 0), "the control: they are not compressed away");
    let kept = all(&store).into_iter().filter(|(url, ..)| url.starts_with(b"http://b.")).collect::<Vec<_>>();
    let report = store.erase(&Scope::new().host("a.example")).expect("erased");
    assert!(report.pages == 39 && report.deleted > 0, "{report:?}");
    // Segments of the earlier writer wait for the grace period, and the report says so.
    assert!(!report.is_complete() && report.waiting == 1 && holding(&objects, b"secret-a-7") == 1, "{report:?}");
    assert_eq!(store.collect(Duration::ZERO).expect("deleted").segments, 1);
    let report = store.erase(&Scope::new().host("a.example")).expect("erased");
    assert!(report.is_complete() && report.pages == 0, "{report:?}");
    for mark in marks {
        assert_eq!(holding(&objects, mark), 0, "{}", String::from_utf8_lossy(mark));
    }
    assert_eq!(all(&store), kept);
    let report = store.erase_url(&page("b", 1, 0).url).expect("erased");
    assert!(report.is_complete() && report.pages == 1, "{report:?}");
    assert_eq!(holding(&objects, b"secret-b-1-"), 0);
    store.close().expect("closed");
    let repaired = repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert_eq!(repaired.damage, [""; 0]);
    let left: Vec<_> = kept.into_iter().filter(|(url, ..)| *url != page("b", 1, 0).url).collect();
    assert_eq!(all(&open(&objects, Mode::Read)), left);
}

#[test]
fn an_erasure_beside_damage_says_that_it_is_not_complete() {
    let objects = Objects::new();
    let store = open(&objects, Mode::Fill);
    fill(&store);
    let name = objects.names("a/shard-00/seg").remove(0);
    let mut bytes = objects.read(&name);
    bytes[60] ^= 1;
    objects.replace(&name, bytes);
    let report = store.erase(&Scope::new().host("a.example")).expect("erased");
    assert!(!report.is_complete() && report.damage.len() == 1, "{report:?}");
}

#[test]
fn an_erasure_that_a_close_interrupts_is_no_success() {
    let objects = Objects::new();
    let end = Simulated::new(Arc::clone(&objects.objects), 0, Faults::default());
    let store = open_on(Arc::clone(&end) as _, "a", "the test", Mode::Fill, &options()).expect("opened");
    for nth in 0..200 {
        for host in ["a", "b"] {
            let body: String = std::iter::repeat_with(fastrand::alphanumeric).take(2000).collect();
            store.put(&Page { body: body.into_bytes(), ..page(host, nth, 0) }, PutRule::Always).expect("stored");
        }
    }
    store.sync().expect("synced");
    end.rule("get", "/seg/", Rule::Waits);
    std::thread::scope(|scope| {
        let erased = scope.spawn(|| store.erase(&Scope::new().host("a.example")));
        // It reads the first segments that it rewrites.
        end.met();
        let closed = scope.spawn(|| store.close());
        std::thread::sleep(Duration::from_millis(300));
        end.no_rule();
        let erased = erased.join().expect("no panic");
        closed.join().expect("no panic").expect("closed");
        assert!(erased.is_err(), "{} segments hold such pages: {erased:?}", holding(&objects, b"http://a.example/"));
    });
    let store = open(&objects, Mode::Write);
    assert!(store.erase(&Scope::new().host("a.example")).expect("erased").is_complete());
    assert_eq!(holding(&objects, b"http://a.example/"), 0);
    store.close().expect("closed");
}
