//! Stored sets of every kind: found by their files, read beside a writer, merged, forgotten,
//! reopened, after crashes.

use filemap_io::StorageError;
use filemap_io::sim::{Level, Loss, SimDisk};

use super::*;
use crate::canonical::{Rule, RuleSet};
use crate::journal::{Keep, Record};
use crate::{CrawlRules, Exact, Whatwg};

fn url(i: u64) -> Vec<u8> {
    format!("http://example.com/page/{i}").into_bytes()
}

/// Little memory, so that a set on disk has runs.
fn options() -> DiskOptions {
    DiskOptions::new().memory_bytes(64 << 10)
}

fn open_in(dir: Arc<dyn Dir>) -> Result<StoredSet> {
    StoredSet::open_in(dir, "seen", options())
}

fn read_in(dir: Arc<dyn Dir>, name: &str) -> Result<StoredSet> {
    StoredSet::read_in(dir, name, options())
}

/// A new set of each kind.
fn kinds() -> [NewSet; 6] {
    let bloom = NewSet::Bloom(crate::BloomOptions::new(2_000, 1e-9));
    [
        NewSet::Md5Bitmap { bits: 24 },
        bloom,
        NewSet::Growing { rate: 1e-9, seed: 0 },
        NewSet::Trie,
        NewSet::Disk(options()),
        NewSet::HashBitmap { hashes: vec![SlotHash::Bkdr, SlotHash::Ap], slots: (1 << 24) - 3 },
    ]
}

fn filled(disk: &SimDisk, name: &str, new: NewSet, urls: std::ops::Range<u64>) -> StoredSet {
    let set = StoredSet::create_in(disk.dir(), name, new, &Whatwg).expect("made");
    urls.for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    set
}

fn has(set: &StoredSet, i: u64) -> bool {
    !set.contains(&url(i)).expect("known").is_new()
}

#[test]
fn the_kind_is_told_by_the_files_and_what_was_inserted_is_there() {
    let names = ["md5-bitmap", "bloom", "growing", "trie", "disk", "hash-bitmap"];
    for (new, name) in kinds().into_iter().zip(names) {
        let disk = SimDisk::new(1);
        filled(&disk, "seen", new.clone(), 0..1_000).close().expect("closed");
        for set in [read_in(disk.dir(), "seen"), open_in(disk.dir())] {
            let set = set.expect("opened");
            assert_eq!((set.kind().name(), set.len()), (name, 1_000));
            assert!((0..1_000).all(|i| has(&set, i)) && !has(&set, 1_000));
            let len = disk.bytes("seen").expect("the file").len() as u64;
            assert!(set.disk_bytes() > len && set.stats().disk_bytes == set.disk_bytes());
        }
        let again = StoredSet::create_in(disk.dir(), "seen", new, &Whatwg);
        assert!(matches!(&again, Err(Error::Storage(StorageError::Io { op: "create", .. }))), "{again:?}");
    }
}

#[test]
fn a_reader_needs_no_lock_and_changes_nothing() {
    for new in kinds() {
        let disk = SimDisk::new(1);
        let writer = filled(&disk, "seen", new, 0..100);
        writer.sync().expect("synced");
        let reader = read_in(disk.dir(), "seen").expect("opened beside the writer");
        assert!((0..100).all(|i| has(&reader, i)));
        assert!(matches!(open_in(disk.dir()), Err(Error::Storage(StorageError::Locked { .. }))), "{:?}", reader.kind());
        assert!(matches!(reader.check_and_insert(&url(7)), Err(Error::ReadOnly { .. })));
        assert!(matches!(reader.forget(&[] as &[&[u8]]), Err(Error::ReadOnly { .. })));
        assert!(matches!(reader.merge(&reader), Err(Error::ReadOnly { .. })));
        let before = disk.bytes("seen");
        reader.close().expect("nothing to do");
        assert_eq!(disk.bytes("seen"), before);
    }
}

#[test]
fn other_files_and_none_are_told_apart_and_nothing_is_made() {
    let disk = SimDisk::new(1);
    let absent = open_in(disk.dir());
    assert!(
        matches!(&absent, Err(Error::Storage(StorageError::Io { source, .. })) if source.kind() == std::io::ErrorKind::NotFound)
    );
    assert!(disk.dir().list().expect("listed").is_empty(), "not even a lock");
    for bytes in [&b""[..], b"dear", b"SQLite format 3\0 and so on"] {
        disk.set_bytes("seen", bytes);
        assert!(matches!(open_in(disk.dir()), Err(Error::NotASet { .. })));
    }
    let stale = StoredSet::create_in(disk.dir(), "seen", NewSet::Trie, &Whatwg);
    assert!(stale.is_err());
    // A leftover note is not taken for that of the new set.
    disk.set_bytes("other.canon", b"x");
    assert!(StoredSet::create_in(disk.dir(), "other", NewSet::Trie, &Whatwg).is_err());
}

#[test]
fn a_bitmap_whose_urls_spell_a_magic_stays_a_bitmap() {
    let disk = SimDisk::new(1);
    filled(&disk, "seen", NewSet::Md5Bitmap { bits: 16 }, 0..0).sync().expect("synced");
    let mut words = disk.bytes("seen").expect("the file");
    words[..8].copy_from_slice(b"FMTRIE02");
    disk.set_bytes("seen", &words);
    assert_eq!(open_in(disk.dir()).expect("opened").kind(), SetKind::Md5Bitmap);
}

#[test]
fn a_flipped_bit_of_the_version_is_damage_and_a_newer_version_is_none() {
    for new in kinds() {
        let disk = SimDisk::new(1);
        filled(&disk, "seen", new, 0..100).close().expect("closed");
        let headed = |name: &String| disk.bytes(name).is_some_and(|bytes| bytes.starts_with(b"FM"));
        let files: Vec<String> = disk.names().into_iter().filter(headed).filter(|n| !n.ends_with(".canon")).collect();
        assert!(!files.is_empty());
        for file in files {
            let whole = disk.bytes(&file).expect("there");
            for bit in 0..16 {
                let mut damaged = whole.clone();
                damaged[8 + bit / 8] ^= 1 << (bit % 8);
                disk.set_bytes(&file, &damaged);
                let opened = open_in(disk.dir());
                assert!(
                    matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file: f, .. })) if *f == file),
                    "{file}: {opened:?}"
                );
            }
            disk.set_bytes(&file, &whole);
        }
    }
    let disk = SimDisk::new(1);
    filled(&disk, "seen", NewSet::Trie, 0..1).close().expect("closed");
    let mut newer = disk.bytes("seen").expect("there");
    newer[8] = 9;
    let crc = crc32fast::hash(&newer[..12]);
    newer[12..16].copy_from_slice(&crc.to_le_bytes());
    disk.set_bytes("seen", &newer);
    assert!(matches!(open_in(disk.dir()), Err(Error::Storage(StorageError::NewerFormat { found: 9, .. }))));
}

#[test]
fn the_canonicaliser_is_remembered_and_a_damaged_note_is_found() {
    let disk = SimDisk::new(1);
    let rules = CrawlRules::new(RuleSet::CRAWL.with(Rule::Www));
    let all: [&dyn Canonicalizer; 4] = [&Whatwg, &Exact, &CrawlRules::surt(), &rules];
    let set = StoredSet::create_in(disk.dir(), "seen", NewSet::Trie, &Whatwg).expect("made");
    for canonicalizer in all {
        set.note_canonicalizer(canonicalizer).expect("noted");
        let found = set.canonicalizer().expect("read").expect("noted");
        assert_eq!((found.name(), found.version()), (canonicalizer.name(), canonicalizer.version()));
    }
    let custom = CrawlRules::crawl().dropping(["q".to_owned()]);
    assert!(matches!(set.note_canonicalizer(&custom), Err(Error::Storage(StorageError::InvalidOption { .. }))));
    for new in kinds() {
        let refused = StoredSet::create_in(disk.dir(), "other", new, &custom);
        assert!(matches!(refused, Err(Error::Storage(StorageError::InvalidOption { .. }))));
        assert!(disk.names().iter().all(|name| !name.starts_with("other")), "nothing was made");
    }
    let whole = disk.bytes("seen.canon").expect("the note");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        disk.set_bytes("seen.canon", &damaged);
        assert!(matches!(set.canonicalizer(), Err(Error::Storage(StorageError::Corrupt { .. }))), "byte {at}");
    }
    let text = "FMCANON1 later 7";
    disk.set_bytes("seen.canon", format!("{text} {:08x}\n", crc32fast::hash(text.as_bytes())).as_bytes());
    assert!(matches!(set.canonicalizer(), Err(Error::UnknownCanonicalizer { version: 7, .. })));
    disk.dir().remove("seen.canon").expect("removed");
    assert!(set.canonicalizer().expect("read").is_none());
}

#[test]
fn sets_take_up_what_they_can_and_say_why_they_cannot() {
    for (into, new) in kinds().into_iter().enumerate() {
        for (from, other) in kinds().into_iter().enumerate() {
            let disk = SimDisk::new(1);
            let set = filled(&disk, "into", new.clone(), 0..600);
            filled(&disk, "from", other, 400..1_000).close().expect("closed");
            let other = read_in(disk.dir(), "from").expect("opened");
            let merged = set.merge(&other);
            let can = from == 3 || (into == from && into != 2);
            if !can {
                assert!(matches!(&merged, Err(Error::Unsupported { why, .. }) if !why.is_empty()), "{merged:?}");
                assert!(!has(&set, 999), "nothing was changed");
                continue;
            }
            let added = merged.expect("taken up").added;
            assert!((396..=404).contains(&added), "{added} of {into} and {from}");
            set.close().expect("closed");
            let set = read_in(disk.dir(), "into").expect("opened");
            assert!((0..1_000).all(|i| has(&set, i)), "{into} and {from}");
        }
    }
}

#[test]
fn a_forgotten_url_is_new_once_more_and_the_others_stay() {
    for (nth, new) in kinds().into_iter().enumerate() {
        let disk = SimDisk::new(1);
        let set = filled(&disk, "seen", new, 0..1_000);
        let (first, absent) = (url(1), url(5_000));
        let forgotten = set.forget(&[&first, &absent, &first]);
        if matches!(nth, 0 | 2 | 5) {
            assert!(matches!(&forgotten, Err(Error::Unsupported { op: "forget a URL", .. })), "{forgotten:?}");
            continue;
        }
        assert_eq!(forgotten.expect("forgotten"), [true, false, false], "of one that comes twice the first is true");
        set.close().expect("closed");
        let set = open_in(disk.dir()).expect("opened");
        assert!((0..1_000).all(|i| has(&set, i) == (i != 1)));
        assert_eq!(set.check_and_insert(&first).expect("inserted"), Verdict::New);
        set.close().expect("closed");
        let set = read_in(disk.dir(), "seen").expect("opened");
        assert!((0..1_000).all(|i| has(&set, i)), "inserted after it was forgotten, though the number is the old one");
    }
}

#[test]
fn whatever_the_power_loss_what_was_synced_is_there() {
    for (nth, new) in kinds().into_iter().enumerate() {
        for seed in 0..8 {
            let disk = SimDisk::new(seed);
            let set = filled(&disk, "seen", new.clone(), 0..200);
            set.sync().expect("synced");
            (200..300).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
            let crashed = disk.crash(Level::Adversarial, Loss::ALL[seed as usize % 4], seed);
            let set = open_in(crashed.dir()).expect("opens by itself");
            assert!((0..200).all(|i| has(&set, i)), "kind {nth}, seed {seed}");
            assert_eq!(set.canonicalizer().expect("read").expect("noted").name(), "whatwg");
        }
    }
}

/// One URL is removed and another inserted: the number stays the same.
#[test]
fn a_trie_is_saved_when_it_changed_though_it_has_as_many_urls() {
    let disk = SimDisk::new(1);
    let set = filled(&disk, "seen", NewSet::Trie, 0..10);
    set.sync().expect("synced");
    let AnySet::Trie(trie) = set.any() else { panic!("a trie was made") };
    assert_eq!(trie.retain(|text| text != url(3)), 1);
    set.insert(&url(10)).expect("inserted");
    set.sync().expect("synced");
    let reader = read_in(disk.dir(), "seen").expect("opened");
    assert!((0..11).all(|i| has(&reader, i) == (i != 3)));
}

#[test]
fn malformed_keys_of_a_request_are_told_with_their_file_and_offset() {
    let disk = SimDisk::new(1);
    let set = filled(&disk, "seen", NewSet::Trie, 0..10);
    let mut journal = set.journal(Keep { requests: 10, ms: 1000 }).expect("opened");
    // A key of 9 bytes, of which there is one.
    let keys = vec![9, 0, 0, 0, b'x'];
    let record = Record { id: 0, digest: 0, at_ms: 1, urls: 1, verdicts: vec![1], keys };
    journal.append(&[record], 1).expect("appended");
    journal.sync().expect("synced");
    drop(journal);
    set.close().expect("closed");
    for opened in [read_in(disk.dir(), "seen"), open_in(disk.dir())] {
        let Err(Error::Storage(StorageError::Corrupt { file, offset, what })) = opened.map(drop) else {
            panic!("opened");
        };
        assert!(file.ends_with(".requests") && offset > 0, "{file} at {offset}");
        assert_eq!(what, "the keys of a request are cut off");
    }
}
