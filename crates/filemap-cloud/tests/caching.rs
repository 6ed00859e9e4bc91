//! The cache on disk: what it saves, and that it never changes an answer: with damaged entries,
//! with a store made anew at the same place, beside another process, and in a verification.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::object_store::memory::InMemory;
use filemap_cloud::{CloudOptions, CloudStore, Error, Mode, open_on};
use filemap_core::compact::CompactionGoal;
use filemap_io::{Access, Dir, OsDir};

use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;

const PAGES: usize = 200;
const MOST: u64 = 4 << 20;

fn options() -> CloudOptions {
    // Later polls must not be counted.
    crate::as_store::options().grace(Duration::ZERO).space_bound(None).poll(Duration::from_secs(3600))
}

fn page(nth: usize, life: u64) -> Page {
    let mut random = fastrand::Rng::with_seed(nth as u64 + life * 1_000);
    let body: String = std::iter::repeat_with(|| random.alphanumeric()).take(8_000).collect();
    Page::new(format!("http://{}.example/{nth}", nth % 7), 1_700_000_000_000, 200, body)
}

fn open(objects: &Arc<InMemory>, mode: Mode, options: &CloudOptions) -> (Arc<Simulated>, CloudStore) {
    let end = Simulated::new(Arc::clone(objects), 0, Faults::default());
    let store = open_on(Arc::clone(&end) as _, "a", "the test", mode, options);
    (end, store.unwrap_or_else(|error| panic!("{error}")))
}

fn filled(objects: &Arc<InMemory>, life: u64) {
    let (_end, store) = open(objects, Mode::Fill, &options());
    (0..PAGES).for_each(|nth| assert!(store.put(&page(nth, life), PutRule::Always).is_ok()));
    store.close().expect("closed");
}

fn reads_all(store: &CloudStore, life: u64) {
    for nth in 0..PAGES {
        let url = page(nth, life).url;
        assert_eq!(store.get(&Lookup::new(&url)).expect("readable"), Some(page(nth, life)), "{nth}");
    }
}

/// Changes a byte in the middle of every file.
fn damage(folder: &Path) {
    let dir = OsDir::open(folder).expect("a folder");
    for name in dir.list().expect("listed") {
        let file = dir.open(&name, Access::Write).expect("a file");
        let (middle, mut byte) = (file.len().expect("a length") / 2, [0]);
        file.read_at(&mut byte, middle).expect("readable");
        file.write_at(&[byte[0] ^ 1], middle).expect("written");
    }
}

#[test]
fn pages_and_blocks_of_the_index_are_read_once_for_all_handles() {
    let objects = Objects::new();
    filled(&objects.objects, 0);
    let folder = tempfile::tempdir().expect("a folder");
    let cached = options().disk_cache(folder.path().join("cache"), MOST);
    let (_end, first) = open(&objects.objects, Mode::Read, &cached);
    reads_all(&first, 0);
    let counts = first.cache_counts().expect("a cache");
    assert!(counts.misses >= PAGES as u64 && counts.bytes > 300_000 && counts.bytes <= MOST, "{counts:?}");
    assert_eq!((counts.damaged, counts.failed), (0, 0));
    // Another handle finds them in the files: its link gives no segment.
    let (end, second) = open(&objects.objects, Mode::Read, &cached);
    end.rule("get", "shard-00/seg/", Rule::Refused);
    end.counts.take();
    reads_all(&second, 0);
    // The index looks once after it was opened.
    let gets = end.counts.take()[0];
    assert!(gets <= 20, "{gets} GET requests of a warm cache");
    assert!(second.cache_counts().expect("a cache").hits >= PAGES as u64);
    let (_end, without) = open(&objects.objects, Mode::Read, &options());
    assert_eq!(without.cache_counts(), None);
    // A writer has none: a page that only a cache has must not count as stored.
    let (_end, writer) = open(&objects.objects, Mode::Write, &cached);
    assert_eq!(writer.cache_counts(), None);
    for nth in (0..PAGES).step_by(2) {
        assert!(writer.remove(&page(nth, 0).url, None).expect("removed"));
    }
    writer.sync().expect("synced");
    assert!(writer.compact(CompactionGoal::NoGarbage).expect("compacted").deleted > 0);
    for nth in 0..PAGES {
        let found = writer.get(&Lookup::new(&page(nth, 0).url)).expect("readable");
        assert_eq!(found, (nth % 2 == 1).then(|| page(nth, 0)));
    }
    writer.close().expect("closed");
}

#[test]
fn damaged_entries_are_read_again_and_counted() {
    let objects = Objects::new();
    filled(&objects.objects, 0);
    let folder = tempfile::tempdir().expect("a folder");
    let cached = options().disk_cache(folder.path().join("cache"), MOST);
    let (_end, first) = open(&objects.objects, Mode::Read, &cached);
    reads_all(&first, 0);
    damage(&folder.path().join("cache"));
    reads_all(&first, 0);
    assert!(first.cache_counts().expect("a cache").damaged > 0);
    let (_end, second) = open(&objects.objects, Mode::Read, &cached);
    reads_all(&second, 0);
}

/// Changes a byte in the middle of the objects of a folder, calls, and restores them.
fn while_damaged(objects: &Objects, folder: &str, what: impl FnOnce()) {
    let names = objects.names("a").into_iter().filter(|name| name.as_ref().contains(folder));
    let whole: Vec<_> = names.map(|name| (name.clone(), objects.read(&name))).collect();
    assert!(!whole.is_empty(), "no object is in {folder}");
    for (name, bytes) in &whole {
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 1;
        objects.replace(name, damaged);
    }
    what();
    whole.into_iter().for_each(|(name, bytes)| objects.replace(&name, bytes));
}

#[test]
fn bytes_that_arrived_damaged_are_read_past_the_cache_and_replaced_there() {
    for part in ["/seg/", "/compacted/"] {
        let objects = Objects::new();
        filled(&objects.objects, 0);
        let folder = tempfile::tempdir().expect("a folder");
        let cached = options().disk_cache(folder.path().join("cache"), MOST);
        let (end, store) = open(&objects.objects, Mode::Read, &cached);
        let mut found: Vec<filemap::Result<Option<Page>>> = Vec::new();
        while_damaged(&objects, part, || {
            found = (0..PAGES).map(|nth| store.get(&Lookup::new(&page(nth, 0).url))).collect();
        });
        assert!(found.iter().any(|page| page.as_ref().is_err_and(filemap::Error::is_damage)), "{part}");
        // The answers were damaged, not the objects.
        reads_all(&store, 0);
        assert!(store.cache_counts().expect("a cache").damaged > 0, "{part}");
        // The cache has the pages now.
        end.rule("get", "shard-00/seg/", Rule::Refused);
        reads_all(&store, 0);
    }
}

#[test]
fn a_store_made_anew_at_the_same_place_has_no_entry_of_the_old_one() {
    let objects = Objects::new();
    let folder = tempfile::tempdir().expect("a folder");
    let cached = options().disk_cache(folder.path().join("cache"), MOST);
    for life in 0..2 {
        // The same names of segments, with other bytes at the same places.
        objects.names("a").iter().for_each(|name| objects.delete(name));
        std::thread::sleep(Duration::from_millis(20));
        filled(&objects.objects, life);
        let (_end, store) = open(&objects.objects, Mode::Read, &cached);
        reads_all(&store, life);
        assert_eq!(store.count(&Scope::new()).expect("counted"), PAGES as u64);
    }
}

#[test]
fn two_stores_have_different_descriptions_though_all_else_is_equal() {
    // A tag may be the digest of the bytes, and a time have whole seconds.
    let descriptions = [0, 1].map(|life| {
        let objects = Objects::new();
        filled(&objects.objects, life);
        objects.read(&"a/STORE".into())
    });
    assert_ne!(descriptions[0], descriptions[1]);
    assert!(String::from_utf8_lossy(&descriptions[0]).contains("\nid "));
}

#[test]
fn a_verification_reads_past_the_cache() {
    let objects = Objects::new();
    filled(&objects.objects, 0);
    let folder = tempfile::tempdir().expect("a folder");
    let cached = options().disk_cache(folder.path().join("cache"), MOST);
    let (_end, store) = open(&objects.objects, Mode::Read, &cached);
    reads_all(&store, 0);
    let name = objects.names("a/shard-00/seg").remove(0);
    let mut bytes = objects.read(&name);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    objects.replace(&name, bytes);
    reads_all(&store, 0);
    assert_eq!(store.verify().expect("read").damage.len(), 1);
    objects.delete(&name);
    assert_eq!(store.verify_quick().expect("listed").gone, 1);
}

#[test]
fn handles_of_several_threads_and_a_bound_that_is_too_small_change_no_answer() {
    let objects = Objects::new();
    filled(&objects.objects, 0);
    let folder = tempfile::tempdir().expect("a folder");
    // Less than the pages take.
    let cached = options().disk_cache(folder.path().join("cache"), 1);
    let handles = [0, 1].map(|_| open(&objects.objects, Mode::Read, &cached));
    std::thread::scope(|scope| {
        for (_, store) in handles.iter().chain(&handles) {
            scope.spawn(move || {
                for nth in (0..PAGES).flat_map(|nth| [nth, nth]) {
                    let found = store.get(&Lookup::new(&page(nth, 0).url)).expect("readable");
                    assert_eq!(found, Some(page(nth, 0)), "{nth}");
                }
            });
        }
    });
    let dir = OsDir::open(&folder.path().join("cache")).expect("a folder");
    let length = |name: &String| dir.open(name, Access::Read).and_then(|file| file.len()).expect("a file");
    let bytes: u64 = dir.list().expect("listed").iter().map(length).sum();
    assert!(bytes <= (1 << 20) + (64 << 10), "{bytes} bytes");
    for (_, store) in &handles {
        let counts = store.cache_counts().expect("a cache");
        assert!(counts.hits > 0 && counts.failed == 0, "{counts:?}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let objects = Objects::new();
    filled(&objects.objects, 0);
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = options().disk_cache(folder.path().join("absent").join("cache"), MOST);
    let error = open_on(objects.objects.clone(), "a", "the test", Mode::Read, &wrong).err().expect("refused");
    assert!(matches!(error, Error::Location { .. }) && error.to_string().contains("absent/cache"), "{error}");
}
