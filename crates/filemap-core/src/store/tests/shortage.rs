//! Temporary failures (out of file descriptors, a full disk) stop nothing permanently, are not
//! taken for damage, and leave no part of a batch. Panics of background threads are noticed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use filemap_io::{Access, Dir, File, Identity, Locking, OsDir};

use crate::store::{Store, Threads};
use crate::upkeep::check::VerifyOptions;
use crate::{Durability, Error, Event, Options, Record, StorageError};

/// `EMFILE`.
const TOO_MANY_FILES: i32 = 24;
/// Refuse no call.
const NEVER: i64 = i64::MAX;

/// A directory that refuses to open files.
#[derive(Debug)]
struct Scarce {
    dir: OsDir,
    /// Number of files that may still be opened.
    left: AtomicI64,
    /// Refuse only one call.
    once: bool,
    refused: AtomicU64,
    /// Free space to report.
    free_bytes: AtomicU64,
}

impl Scarce {
    fn new(path: &Path, once: bool) -> Arc<Scarce> {
        let dir = OsDir::open(path).unwrap();
        let (refused, free_bytes) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Arc::new(Scarce { dir, left: AtomicI64::new(NEVER), once, refused, free_bytes })
    }

    fn set(&self, left: i64) {
        self.left.store(left, Ordering::SeqCst);
    }

    fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }
}

impl Dir for Scarce {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.dir.list()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if left == 0 || (left < 0 && !self.once) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(io::Error::from_raw_os_error(TOO_MANY_FILES));
        }
        self.dir.open(name, access)
    }

    fn identity_of(&self, name: &str) -> io::Result<Option<Identity>> {
        self.dir.identity_of(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.dir.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.dir.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.dir.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Locking> {
        self.dir.lock(name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.free_bytes.load(Ordering::SeqCst))
    }

    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.dir.random(buf)
    }
}

fn options() -> Options {
    let mut options = Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .compression_level(0)
        .durability(Durability::Buffered)
        .free_space_floor(0)
        .max_open_files(8);
    options.limits.key_segment_bytes = 1 << 10;
    options
}

fn body(i: u32) -> Vec<u8> {
    i.to_le_bytes().repeat(10_000)
}

fn put(store: &Store, i: u32) -> crate::Result<()> {
    store.put(&Record::new(&i.to_le_bytes(), &body(i)).time(1)).map(|_| ())
}

fn has_all(store: &Store, keys: std::ops::Range<u32>) {
    keys.for_each(|i| assert!(store.get(&i.to_le_bytes()).unwrap().unwrap().body == body(i), "{i}"));
}

#[test]
fn a_segment_that_cannot_be_begun_for_want_of_files_stops_puts_only_until_it_can() {
    // The file that is created, and the same file opened for appending.
    for nth in [0, 1] {
        let temp = tempfile::tempdir().unwrap();
        let dir = Scarce::new(temp.path(), false);
        let store = Store::create_in(Arc::clone(&dir) as _, options(), Threads::None).unwrap();
        let mut i = 0;
        dir.set(nth);
        let error = loop {
            match put(&store, i) {
                Ok(()) => i += 1,
                Err(e) => break e,
            }
        };
        assert!(
            i > 20
                && matches!(&error, Error::Storage(StorageError::Io { source, .. }) if source.raw_os_error() == Some(TOO_MANY_FILES))
        );
        assert!(put(&store, i).is_err() && store.put_stream(b"s", b"", 1).unwrap().push(&body(7).repeat(3)).is_err());
        store.sync().unwrap();
        dir.set(NEVER);
        for i in i..60 {
            put(&store, i).unwrap();
        }
        store.checkpoint().unwrap();
        has_all(&store, 0..60);
        assert_eq!(store.verify().unwrap().problems, []);
        store.close().unwrap();
        let again = Store::open(temp.path(), options()).unwrap();
        has_all(&again, 0..60);
        assert_eq!(again.verify().unwrap().problems, []);
    }
}

#[test]
fn a_file_that_was_taken_away_is_noticed_though_no_more_files_can_be_opened() {
    for name in ["LOCK", "SUPERBLOCK", "address.idx", "key0.dat", "value0.dat"] {
        let temp = tempfile::tempdir().unwrap();
        let dir = Scarce::new(temp.path(), false);
        let store = Store::create_in(Arc::clone(&dir) as _, options(), Threads::None).unwrap();
        put(&store, 1).unwrap();
        std::fs::rename(temp.path().join(name), temp.path().join("aside")).unwrap();
        dir.set(0);
        let error = store.checkpoint().unwrap_err();
        assert!(
            matches!(&error, Error::Storage(StorageError::Corrupt { file, .. }) if file == name),
            "{name}: {error}"
        );
        assert_eq!(dir.refused(), 0);
    }
}

#[test]
fn a_batch_that_fails_before_its_last_record_is_ready_stores_none_of_it() {
    let temp = tempfile::tempdir().unwrap();
    let dir = Scarce::new(temp.path(), false);
    let store = Store::create_in(Arc::clone(&dir) as _, options().free_space_floor(1), Threads::None).unwrap();
    let large = vec![7; 300 << 10];
    let small: Vec<Vec<u8>> = (0..5u32).map(body).collect();
    let keys = [b"a", b"b", b"c", b"d", b"e"];
    let mut batch: Vec<Record<'_>> = small.iter().zip(&keys).map(|(b, key)| Record::new(*key, b)).collect();
    batch.push(Record::new(b"large", &large));
    let is_none = || batch.iter().all(|r| store.get(r.key).unwrap().is_none());
    // The last body of the batch is large, and the log must roll in its middle.
    (0..22).for_each(|i| put(&store, i).unwrap());
    dir.set(0);
    assert!(store.put_batch(&batch).is_err() && dir.refused() > 0 && is_none());
    // The same with small bodies only.
    assert!(store.put_batch(&batch[..5]).is_err() && is_none());
    dir.set(NEVER);
    let versions = store.put_batch(&batch).unwrap();
    assert!(versions.len() == 6 && batch.iter().all(|r| store.get(r.key).unwrap().unwrap().body == r.body));
    assert!(versions.is_sorted_by_key(|v| v.sequence));
    store.compact().unwrap();
    assert_eq!(store.verify().unwrap().problems, []);
}

#[test]
fn verification_says_that_a_file_cannot_be_opened_and_never_that_it_is_damaged() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path(), options()).unwrap();
    (0..300).for_each(|i| put(&store, i).unwrap());
    store.checkpoint().unwrap();
    (300..330).for_each(|i| put(&store, i).unwrap());
    store.close().unwrap();
    for (is_writer, is_quick, once) in
        [(true, false, true), (false, false, false), (true, true, false), (false, true, true)]
    {
        let dir = Scarce::new(temp.path(), once);
        let open = if is_writer { Store::open_in } else { Store::open_read_only_in };
        let store = open(Arc::clone(&dir) as _, options(), Threads::None).unwrap();
        let how = if is_quick { VerifyOptions::new().quick() } else { VerifyOptions::new() };
        let verify = || store.verify_with(&how, &mut |_| std::ops::ControlFlow::Continue(()));
        let mut errors = 0;
        for nth in 0.. {
            let before = dir.refused();
            dir.set(nth);
            match verify() {
                Ok(report) => assert_eq!(report.problems, [], "{nth}: {is_writer} {is_quick}"),
                Err(e) => {
                    assert!(matches!(e, Error::Storage(StorageError::Io { .. })), "{nth}: {e}");
                    errors += 1;
                }
            }
            if dir.refused() == before {
                break;
            }
        }
        dir.set(NEVER);
        assert_eq!(verify().unwrap().problems, []);
        assert!(errors > 3, "{errors}");
        has_all(&store, 0..330);
    }
}

#[test]
fn segments_of_values_and_of_keys_together_keep_to_the_bound_on_open_files() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().canonicalize().unwrap();
    let store = Store::create(&path, options()).unwrap();
    (0..600).for_each(|i| put(&store, i).unwrap());
    store.checkpoint().unwrap();
    let files = std::fs::read_dir(&path).unwrap().filter(|e| e.as_ref().unwrap().file_name() != "LOCK").count();
    has_all(&store, 0..600);
    (0..600u32).for_each(|i| assert_eq!(store.history(&i.to_le_bytes()).unwrap().len(), 1));
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|e| std::fs::read_link(e.ok()?.path()).ok());
    let open: Vec<_> = open.filter(|p| p.parent() == Some(&path) && p.to_string_lossy().contains(".dat")).collect();
    // Plus the files being appended to: the end of each log.
    assert!(files > 40 && open.len() <= 8 + 2, "{files} {open:?}");
}

#[test]
fn pages_and_heads_of_a_reader_that_cannot_follow_its_writer_end() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    (0..30).for_each(|i| put(&store, i).unwrap());
    store.close().unwrap();
    let reader = Store::open_read_only(&path, options()).unwrap();
    let mut superblock = std::fs::read(path.join("SUPERBLOCK")).unwrap();
    superblock.fill(0);
    std::fs::write(path.join("SUPERBLOCK"), superblock).unwrap();
    let pages: Vec<_> = reader.pages().take(1000).collect();
    assert!(pages.iter().filter(|p| p.is_ok()).count() == 30 && pages.len() == 31, "{}", pages.len());
    assert_eq!(reader.version_heads().take(1000).count(), 31);
}

#[test]
fn the_longest_interval_of_syncs_is_as_good_as_none() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options().durability(Durability::Interval(Duration::MAX))).unwrap();
    // The thread must be alive: it prepares the next segment.
    for i in 0..20 {
        put(&store, i).unwrap();
    }
    let prepared = || store.reading.values().segments.is_prepared();
    for _ in 0..12_000 {
        if prepared() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(prepared());
    assert!(store.upkeep().unwrap().writing().poisoned().cause().is_none());
    store.close().unwrap();
}

#[test]
fn a_background_thread_that_panics_poisons_the_handle_and_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let calm = options();
    let options = options().on_event(|event| {
        assert!(!matches!(event, Event::CheckpointStarted { .. }), "a sink that panics");
    });
    let store = Store::create(temp.path().join("a"), options).unwrap();
    put(&store, 1).unwrap();
    store.writing().unwrap().ask_for_checkpoint();
    let error = loop {
        match put(&store, 2) {
            Ok(()) => std::thread::sleep(Duration::from_millis(5)),
            Err(e) => break e,
        }
    };
    assert!(error.to_string().contains("filemap-checkpoint"), "{error}");
    assert!(matches!(store.close(), Err(Error::Storage(StorageError::Poisoned { .. }))));
    // The same for a thread that holds no lock.
    let store = Store::create(temp.path().join("b"), calm).unwrap();
    let threads =
        crate::upkeep::worker::start_some(store.upkeep.as_ref().unwrap(), &[("filemap-sync", |_| panic!("a bug"))])
            .unwrap();
    threads.into_iter().for_each(|t| assert!(t.join().is_err()));
    let error = put(&store, 1).unwrap_err();
    assert!(
        matches!(error, Error::Storage(StorageError::Poisoned { .. })) && error.to_string().contains("filemap-sync"),
        "{error}"
    );
}

#[test]
fn what_was_synced_since_its_position_was_taken_is_no_reason_to_sync() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create_in(Arc::new(OsDir::open(temp.path()).unwrap()), options(), Threads::None).unwrap();
    put(&store, 1).unwrap();
    let writing = store.writing().unwrap();
    // As if another thread had put and synced more, beyond the position that this one takes.
    writing.take_for_synced(u64::MAX / 2);
    let syncs = store.stats().syncs;
    crate::upkeep::worker::write_back(store.upkeep().unwrap(), true);
    assert_eq!(store.stats().syncs, syncs);
    put(&store, 2).unwrap();
}
