//! Recovery, and a follower, on files left by a crash.

use crate::Error;
use crate::format::header::{FileHeader, Kind};
use crate::format::names;
use crate::format::rolls::{self, Rolls};
use crate::format::value;
use crate::handle::recover::create;
use crate::logs::segments::FIRST_RECORD;
use crate::{Options, Record, Store};
use filemap_io::OsDir;
use std::os::unix::fs::FileExt;

#[test]
fn a_store_that_was_created_while_its_lock_was_waited_for_is_not_created_again() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, Options::new().free_space_floor(0)).unwrap();
    store.put(&Record::new(b"k", b"v")).unwrap();
    store.close().unwrap();
    // A second creator found the directory vacant, and gets the lock only now.
    let dir = OsDir::open(&path).unwrap();
    let before = std::fs::read(path.join(names::SUPERBLOCK)).unwrap();
    assert!(matches!(create(&dir, &Options::new()), Err(Error::NotEmpty { .. })));
    assert_eq!(std::fs::read(path.join(names::SUPERBLOCK)).unwrap(), before);
    let store = Store::open_or_create(&path, Options::new()).unwrap();
    assert_eq!(store.get(b"k").unwrap().unwrap().body, b"v");
}

#[test]
fn a_whole_record_that_was_there_before_the_log_was_is_none() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let options = || Options::new().free_space_floor(0).space_bound(None);
    let store = Store::create(&path, options()).unwrap();
    store.put(&Record::new(b"a", b"long gone")).unwrap();
    store.remove(b"a").unwrap();
    store.put(&Record::new(b"b", b"here")).unwrap();
    let seed = store.reading.values().segments.log()[0].seed;
    store.close().unwrap();
    // A power loss left a block of another file that had this number: an intact record, at its
    // place, with a sequence of that time.
    let log = std::fs::File::options().read(true).write(true).open(path.join("value0.dat")).unwrap();
    let tail = log.metadata().unwrap().len();
    let mut ghost = vec![0; (tail - FIRST_RECORD) as usize];
    log.read_exact_at(&mut ghost, FIRST_RECORD).unwrap();
    let header = value::peek(&ghost).unwrap();
    ghost.truncate(header.total_bytes() as usize);
    value::seal_head(&header, seed, tail, &mut ghost);
    log.write_all_at(&ghost, tail).unwrap();
    let check = |store: &Store| {
        assert!(store.get(b"a").unwrap().is_none(), "it was removed");
        assert_eq!(store.get(b"b").unwrap().unwrap().body, b"here");
    };
    check(&Store::open_read_only(&path, options()).unwrap());
    let store = Store::open(&path, options()).unwrap();
    check(&store);
    assert_eq!(store.verify().unwrap().problems, []);
    assert_eq!(log.metadata().unwrap().len(), tail, "it was cut off");
    // A put in its place is kept.
    store.put(&Record::new(b"a", b"anew")).unwrap();
    drop(store);
    assert_eq!(Store::open(&path, options()).unwrap().get(b"a").unwrap().unwrap().body, b"anew");
}

#[test]
fn a_reader_does_not_follow_into_a_segment_that_recovery_removes() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let options = || Options::new().segment_bytes(1 << 20).large_value_bytes(256 << 10).free_space_floor(0);
    let store = Store::create(&path, options()).unwrap();
    store.put(&Record::new(b"first", b"v")).unwrap();
    let store_id = store.reading.birth().store_id;
    store.close().unwrap();
    // A writer was killed in the middle of the first write to a new segment.
    let torn = [&FileHeader::new(Kind::Values, store_id, 1, 0).encode()[..], &[7; 5000]].concat();
    std::fs::write(path.join("value1.dat"), torn).unwrap();
    let superblock = std::fs::File::options().write(true).open(path.join("SUPERBLOCK")).unwrap();
    superblock.write_all_at(&Rolls::of(store_id, [0, 1].into_iter()).encode(), rolls::AT).unwrap();
    let reader = Store::open_read_only(&path, options()).unwrap();
    let store = Store::open(&path, options()).unwrap();
    let mut noise = 1u64;
    let mut body = || -> Vec<u8> {
        let mut next = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 56) as u8
        };
        (0..100_000).map(|_| next()).collect()
    };
    // The log continues in the segment before, then in a new one with the removed one's name.
    for i in 0..30u8 {
        store.put(&Record::new(&[b'k', i], &body())).unwrap();
        reader.refresh().unwrap();
        assert!(reader.contains(&[b'k', i]).unwrap(), "{i}");
        assert!(reader.get(&[b'k', i]).unwrap().is_some(), "{i}");
    }
    assert!(store.stats().segments > 2);
}
