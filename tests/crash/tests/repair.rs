//! Records that compaction must leave in the value log for a repair, and a repair whose own calls
//! fail.

use filemap_core::sim::{self, Fault, Limits};
use filemap_core::{Options, Record, Store};
use filemap_io::sim::{Failure, Fault as Refusal, SimDisk};

fn options() -> Options {
    let limits = Limits { slack_bytes: 0, ..Limits::default() };
    crate::with_limits(limits)
}

fn put(store: &Store, key: &str, bytes: usize) {
    store.put(&Record::new(key.as_bytes(), &vec![key.len() as u8; bytes]).time(5)).unwrap();
}

/// A store in whose first segment a removed page lies among others that live, while the segment
/// with its removal was worth compacting. What fills up the first segment lives, or dies as well,
/// so that nothing but removals is moved.
fn removed_and_compacted(filler: &str) -> SimDisk {
    let disk = SimDisk::new(1);
    let store = sim::create(disk.dir(), options()).unwrap();
    put(&store, "gone", 10);
    (0..10).for_each(|i| put(&store, &format!("stays{i}"), 300));
    put(&store, filler, 10);
    assert!(store.remove(b"gone").unwrap());
    (0..40).for_each(|_| put(&store, "again", 300));
    store.checkpoint().unwrap();
    assert!(store.remove(b"again").unwrap());
    (0..20).for_each(|i| put(&store, &format!("later{i}"), 200));
    store.checkpoint().unwrap();
    (0..9).for_each(|_| sim::work(&store));
    assert!(store.stats().compactions > 0);
    assert!(store.segments().iter().any(|s| s.id == 0), "the first segment is not worth it");
    assert!(!store.contains(b"gone").unwrap());
    store.close().unwrap();
    disk
}

fn keys(disk: &SimDisk) -> Vec<Vec<u8>> {
    let store = sim::open(disk.dir(), options()).unwrap();
    let mut keys: Vec<Vec<u8>> = store.keys().map(|k| k.unwrap()).collect();
    assert_eq!(store.verify().unwrap().problems, []);
    sim::abandon(store);
    keys.sort();
    keys
}

#[test]
fn what_was_removed_before_a_compaction_stays_removed_and_a_rebuild_sees_when_it_does_not() {
    let rebuilt = |filler| {
        let disk = removed_and_compacted(filler);
        let before = keys(&disk);
        ["SUPERBLOCK", "address.idx"].iter().for_each(|name| disk.remove(name));
        let report = sim::repair(disk.dir(), None, &options().canonicalizer("bytes", 1)).unwrap();
        assert!(report.is_complete(), "{:?}", report.losses);
        (before, keys(&disk))
    };
    // With nothing but removals to move, the segment that they are moved to must be named, too.
    for filler in ["lives", "again"] {
        let (before, after) = rebuilt(filler);
        assert_eq!(before, after, "{filler}");
    }
    sim::plant(Some(Fault::TombstonesDropped));
    let (before, after) = rebuilt("lives");
    sim::plant(None);
    assert!(!before.contains(&b"gone".to_vec()));
    assert!(after.contains(&b"gone".to_vec()), "the planted fault does nothing");
}

#[test]
fn a_repair_whose_calls_fail_says_so_and_can_be_done_again() {
    let disk = removed_and_compacted("lives");
    let before = keys(&disk);
    ["SUPERBLOCK", "address.idx"].iter().for_each(|name| disk.remove(name));
    let options = options().canonicalizer("bytes", 1);
    let mut failed = 0;
    for (refusal, forever) in [(Refusal::Eio, true), (Refusal::Eio, false), (Refusal::ShortWrite, false)] {
        for at in 1.. {
            let image = disk.kill();
            image.fail(Some(Failure { at, fault: refusal, only_syncs: false, forever }));
            let result = sim::repair(image.dir(), None, &options);
            let (calls, refused) = (image.calls(), image.failed());
            image.fail(None);
            if refused == 0 && calls < at {
                assert!(result.is_ok());
                break;
            }
            failed += u64::from(result.is_err());
            if result.is_err() && sim::open_read_only(image.dir(), options.clone()).is_err() {
                sim::repair(image.dir(), None, &options).unwrap();
            }
            assert!(keys(&image) == before, "call {at} fails with {refusal:?}");
        }
    }
    assert!(failed > 100, "{failed}");
}
