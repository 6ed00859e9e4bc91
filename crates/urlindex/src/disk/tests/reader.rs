//! Sets opened read-only: beside a writer, in any state that it leaves, and long after.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use filemap_io::StorageError;

use super::*;

fn read(disk: &SimDisk) -> DiskUrlSet {
    DiskUrlSet::open_read_only_in(disk.dir(), "seen", options()).expect("opened to be read")
}

fn files(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name))).collect()
}

#[test]
fn a_reader_has_what_was_synced_and_changes_nothing() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    insert_batch(&set, 0..1_000);
    (1_000..1_100).for_each(|i| assert!(insert(&set, i)));
    set.sync().expect("synced");
    let before = files(&disk);
    let reader = read(&disk);
    assert!((0..1_100).all(|i| is_seen(&reader, i)) && !is_seen(&reader, 1_100) && reader.len() == 1_100);
    let is_refused = |result: Result<()>| matches!(result, Err(Error::ReadOnly { file }) if file == "seen");
    assert!(is_refused(reader.insert(&url(5_000)).map(drop)) && is_refused(reader.forget(url(1)).map(drop)));
    assert!(is_refused(reader.forget_all(&[] as &[&[u8]]).map(drop)) && is_refused(reader.merge_from(&set).map(drop)));
    assert!(is_refused(reader.snapshot_in(&SimDisk::new(2).dir())));
    reader.sync().expect("nothing to do");
    // Later inserts do not show, though the files of the opening are removed.
    insert_batch(&set, 1_100..9_000);
    assert!((0..1_100).all(|i| is_seen(&reader, i)) && !is_seen(&reader, 1_100));
    assert_eq!(reader.fingerprints().expect("begun").count(), 1_100);
    drop(reader);
    drop(set);
    let other = SimDisk::new(2);
    before.iter().for_each(|(name, bytes)| other.set_bytes(name, bytes.as_deref().expect("there")));
    other.remove("seen.lock");
    let there = files(&other);
    assert!((0..1_100).all(|i| is_seen(&read(&other), i)));
    assert_eq!(files(&other), there, "not even a lock");
}

#[test]
fn a_reader_finds_the_set_however_often_a_writer_replaces_its_files() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    let synced = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..20_000 {
                insert(&set, i);
                if i % 50 == 0 {
                    set.sync().expect("synced");
                    synced.store(i + 1, Ordering::SeqCst);
                }
            }
        });
        for _ in 0..100 {
            let there = synced.load(Ordering::SeqCst);
            let reader = read(&disk);
            assert!((0..there).step_by(37).all(|i| is_seen(&reader, i)));
        }
    });
}

#[test]
fn damage_is_told_to_a_reader_too() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    insert_batch(&set, 0..1_000);
    drop(set);
    let run = disk.names().into_iter().find(|name| name.ends_with(".run")).expect("a run");
    disk.remove(&run);
    let opened = DiskUrlSet::open_read_only_in(disk.dir(), "seen", options());
    assert!(matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, .. })) if *file == run), "{opened:?}");
}

#[test]
fn a_reader_leaves_out_what_is_too_old_when_it_is_asked() {
    let clock = Arc::new(AtomicU64::new(0));
    let disk = SimDisk::new(1);
    let clocked = || {
        let clock = Arc::clone(&clock);
        options().max_age(Duration::from_millis(800)).clock(move || clock.load(Ordering::Relaxed) as i64)
    };
    let set = DiskUrlSet::create_in(disk.dir(), "seen", clocked()).expect("made");
    assert_eq!(set.max_age(), Some(Duration::from_millis(800)));
    insert_batch(&set, 0..500);
    assert!(set.forget(url(7)).expect("forgotten"));
    clock.store(400, Ordering::Relaxed);
    insert_batch(&set, 500..600);
    (600..650).for_each(|i| assert!(insert(&set, i)));
    set.sync().expect("synced");
    let before = files(&disk);
    let reader = DiskUrlSet::open_read_only_in(disk.dir(), "seen", clocked()).expect("opened");
    let seen = |reader: &DiskUrlSet| (0..700).filter(|&i| is_seen(reader, i)).count() as u64;
    assert_eq!((seen(&reader), reader.len()), (649, 649));
    clock.store(900, Ordering::Relaxed);
    assert_eq!((seen(&reader), reader.len()), (150, 150));
    clock.store(1_300, Ordering::Relaxed);
    assert_eq!((seen(&reader), reader.len()), (0, 0));
    assert_eq!(files(&disk), before);
}

#[test]
fn many_are_forgotten_at_once_each_only_once() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    insert_batch(&set, 0..1_000);
    let urls: Vec<Vec<u8>> = [1, 5_000, 2, 1].into_iter().map(url).collect();
    let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    assert_eq!(set.forget_all(&urls).expect("forgotten"), [true, false, true, false]);
    assert_eq!((set.len(), is_seen(&set, 1), is_seen(&set, 2), is_seen(&set, 3)), (998, false, false, true));
    assert_eq!(set.forget_all(&urls).expect("forgotten"), [false; 4]);
    assert_eq!(set.len(), 998);
}
