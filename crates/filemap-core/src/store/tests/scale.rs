//! Sizes far beyond those a test can fill, as reached after years: sparse files of many GiB,
//! ordinals past 65,536, sequences past 2^32, locations past 1 TiB of log.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use filemap_io::{Access, OsDir};

use crate::format::header::{FileHeader, Kind};
use crate::format::superblock::{COPIES, Superblock, Tail};
use crate::index::superblock::SuperblockFile;
use crate::{Options, Record, Store};

const GIB: u64 = 1 << 30;
/// 70,000 GiB of log were written: segment numbers have wrapped around.
const ORDINAL: u64 = 70_000;
const SEQUENCE: u64 = 5_000_000_000;

fn options() -> Options {
    Options::new().free_space_floor(0)
}

/// Rewrites both copies of a closed store's superblock.
fn change(path: &Path, change: impl Fn(&mut Superblock)) -> Superblock {
    let dir = OsDir::open(path).unwrap();
    let mut superblock = SuperblockFile::open(&dir, Access::Read).unwrap().read(&dir, Access::Read).unwrap();
    change(&mut superblock);
    let file = OpenOptions::new().write(true).open(path.join("SUPERBLOCK")).unwrap();
    for (nth, offset) in COPIES.into_iter().enumerate() {
        let epoch = superblock.epoch - (superblock.epoch + nth as u64) % 2;
        file.write_all_at(&Superblock { epoch, ..superblock.clone() }.encode(), offset).unwrap();
    }
    superblock
}

/// An old store, whose logs end in segments of ordinal 70,000, `room` bytes before their limit.
/// These and address.idx are long and sparse.
fn old_store(path: &Path, room: u64) {
    Store::create(path, options()).unwrap().close().unwrap();
    let superblock = change(path, |s| {
        s.tail = Tail { ordinal: ORDINAL, offset: GIB - room };
        s.next_sequence = SEQUENCE;
        s.key_tail = Tail { ordinal: ORDINAL, offset: GIB / 4 - room };
        s.index.pages = 20 * GIB / 4096;
    });
    let set_len = |name: &Path, len| OpenOptions::new().write(true).open(name).unwrap().set_len(len).unwrap();
    for (kind, name, len) in [(Kind::Values, "value", GIB), (Kind::Keys, "key", GIB / 4)] {
        std::fs::remove_file(path.join(format!("{name}0.dat"))).unwrap();
        let header = FileHeader::new(kind, superblock.store_id, ORDINAL, 0).encode();
        let segment = path.join(format!("{name}{}.dat", ORDINAL % 65_536));
        std::fs::write(&segment, header).unwrap();
        set_len(&segment, len - room);
    }
    set_len(&path.join("address.idx"), 20 * GIB);
}

fn key(i: u64) -> Vec<u8> {
    format!("http://example.com/{i}").into_bytes()
}

#[test]
fn a_store_works_past_every_border_of_32_bits() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    old_store(&path, 8192);
    let store = Store::open(&path, options()).unwrap();
    for (time, body) in [(1, &b"older"[..]), (2, b"newer")] {
        let version = store.put(&Record::new(&key(0), body).time(time)).unwrap();
        assert_eq!(version.sequence, SEQUENCE + time as u64 - 1);
    }
    store.checkpoint().unwrap();
    assert_eq!(store.get(&key(0)).unwrap().unwrap().body, b"newer");
    for i in 1..3000 {
        store.put(&Record::new(&key(i), &key(i)).time(1)).unwrap();
    }
    store.checkpoint().unwrap();
    let last = store.head(&key(2999)).unwrap().unwrap().place;
    assert_eq!(u64::from(last.segment), (ORDINAL + 1) % 65_536, "the log rolled to the next segment");
    let stats = store.stats();
    assert!(stats.key_bytes > GIB / 4 && stats.index_bytes >= 20 * GIB, "{stats:?}");
    store.close().unwrap();

    let store = Store::open(&path, options()).unwrap();
    for i in 1..3000 {
        assert_eq!(store.get(&key(i)).unwrap().unwrap().body, key(i));
    }
    let history = store.history(&key(0)).unwrap();
    assert_eq!(history.iter().map(|h| h.version.sequence).collect::<Vec<_>>(), [SEQUENCE + 1, SEQUENCE]);
    assert!(!store.contains(b"http://example.com/none").unwrap());
    assert!(store.remove(&key(7)).unwrap());
    // The hole before the log's old tail is reported; nothing after it is lost.
    assert_eq!(store.pages().filter(Result::is_ok).count(), 2999);
}

#[test]
fn a_log_of_more_than_a_tebibyte_is_read_from_its_first_to_its_last_segment() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    store.put(&Record::new(b"first", b"in segment 0")).unwrap();
    store.close().unwrap();
    // 1,500 GiB later.
    let superblock = change(&path, |s| s.tail = Tail { ordinal: 1500, offset: 64 });
    for ordinal in 1..=1500u64 {
        let header = FileHeader::new(Kind::Values, superblock.store_id, ordinal, 0).encode();
        std::fs::write(path.join(format!("value{ordinal}.dat")), header).unwrap();
    }
    let store = Store::open(&path, options().max_open_files(4)).unwrap();
    store.put(&Record::new(b"last", b"in segment 1500")).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(store.get(b"first").unwrap().unwrap().body, b"in segment 0");
    let last = store.get(b"last").unwrap().unwrap();
    assert_eq!((last.head.place.segment, &last.body[..]), (1500, &b"in segment 1500"[..]));
    assert_eq!(store.pages().map(Result::unwrap).count(), 2);
    assert_eq!(store.stats().segments, 1501);
    assert!(store.verify().unwrap().problems.is_empty());
}
