//! Merges against sets of keys: several runs and memory, cancelling changes, both directions, from
//! any key on.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use filemap_io::sim::{Failure, Fault, SimDisk};

use super::super::change::{Change, Entry};
use super::super::merge::Merge;
use super::super::run::Run;
use super::super::source::{Direction, Source};
use super::super::writer::Writer;
use super::{Entries, home, key, written};

/// The changes of each of `times` steps, and the keys present at the end.
fn history(rng: &mut fastrand::Rng, times: usize, count: usize) -> (Vec<Entries>, BTreeSet<Vec<u8>>) {
    let mut present = BTreeSet::new();
    let changes = (0..times).map(|_| {
        let mut changes = Entries::new();
        for _ in 0..count {
            let key = match rng.bool() || present.is_empty() {
                true => key(rng, true),
                false => present.iter().nth(rng.usize(..present.len())).cloned().unwrap_or_default(),
            };
            changes.entry(key).or_insert_with_key(|key| match present.remove(key) {
                true => Change::Removed,
                false => {
                    present.insert(key.clone());
                    Change::Added
                }
            });
        }
        changes
    });
    (changes.collect(), present)
}

fn list(mut merge: Merge<'_>) -> Vec<(Vec<u8>, Change)> {
    let mut found = Vec::new();
    while let Some((key, change)) = merge.next_entry().expect("read") {
        found.push((key.to_vec(), change));
    }
    found
}

#[test]
fn lists_of_many_sources_go_both_ways_from_any_key() {
    let mut rng = fastrand::Rng::with_seed(1);
    for times in [1, 2, 3, 5, 8, 13] {
        let disk = SimDisk::new(1);
        let home = home(&disk);
        let (history, present) = history(&mut rng, times, 150);
        let (memory, owned) = (history.last().expect("one"), history.first().filter(|_| times > 2));
        let memory: Vec<Entry<'_>> = memory.iter().map(|(key, change)| (&key[..], *change)).collect();
        let in_runs = &history[usize::from(owned.is_some())..times - 1];
        let runs: Vec<Arc<Run>> = (1..).zip(in_runs).map(|(n, changes)| written(&home, n, changes)).collect();
        let sources = || {
            let runs = runs.iter().map(|run| Source::Run(Arc::clone(run)));
            let owned = owned.map(|changes| Source::Owned(changes.clone().into_iter().collect()));
            runs.chain([Source::Memory(&memory)]).chain(owned).collect::<Vec<_>>()
        };
        for _ in 0..30 {
            let from = match rng.bool() {
                true => key(&mut rng, true),
                false => present.iter().nth(rng.usize(..present.len())).cloned().unwrap_or_default(),
            };
            let bound = match rng.u8(..3) {
                0 => Bound::Unbounded,
                1 => Bound::Included(&from[..]),
                _ => Bound::Excluded(&from[..]),
            };
            let added = |key: &Vec<u8>| (key.clone(), Change::Added);
            let expected: Vec<_> = present.range::<[u8], _>((bound, Bound::Unbounded)).map(added).collect();
            assert!(list(Merge::new(sources(), Direction::Forward, bound).expect("read")) == expected);
            let expected: Vec<_> = present.range::<[u8], _>((Bound::Unbounded, bound)).rev().map(added).collect();
            assert!(list(Merge::new(sources(), Direction::Back, bound).expect("read")) == expected);
        }
        // Resumed after every few keys, sometimes in the other direction.
        let keys: Vec<&Vec<u8>> = present.iter().collect();
        let mut merge = Merge::new(sources(), Direction::Forward, Bound::Unbounded).expect("read");
        let mut at = 0;
        while at < keys.len() {
            let (found, _) = merge.next_entry().expect("read").expect("more");
            assert!(found == keys[at]);
            let (last, back) = (found.to_vec(), rng.u8(..3) == 0);
            if back && at > 0 {
                merge.seek(Direction::Back, Bound::Excluded(&last)).expect("read");
                assert!(merge.next_entry().expect("read").expect("more").0 == keys[at - 1]);
            }
            merge.seek(Direction::Forward, Bound::Excluded(&last)).expect("read");
            at += 1;
        }
        assert!(merge.next_entry().expect("read").is_none());
    }
    assert!(list(Merge::new(Vec::new(), Direction::Back, Bound::Unbounded).expect("read")).is_empty());
}

#[test]
fn runs_merge_in_any_order_and_what_cancels_is_gone() {
    let mut rng = fastrand::Rng::with_seed(2);
    let disk = SimDisk::new(1);
    let home = home(&disk);
    let (history, present) = history(&mut rng, 6, 400);
    let mut runs: Vec<Arc<Run>> = (1..).zip(&history).map(|(n, changes)| written(&home, n, changes)).collect();
    let merged = |number, runs: Vec<Arc<Run>>| {
        let sources = runs.into_iter().map(Source::Run).collect();
        let mut merge = Merge::new(sources, Direction::Forward, Bound::Unbounded).expect("read");
        let mut writer = Writer::create(&home, number).expect("created");
        while let Some((key, change)) = merge.next_entry().expect("read") {
            writer.push(key, change).expect("pushed");
        }
        let written = writer.end().expect("ended").expect("not empty");
        Arc::new(Run::open(&home, written.info()).expect("opens"))
    };
    // First neighbours in time, then all runs in random order.
    let middle = merged(7, runs.drain(2..4).collect());
    assert!(middle.info().removed > 0);
    runs.push(middle);
    rng.shuffle(&mut runs);
    let whole = merged(8, runs);
    assert_eq!((whole.info().removed, whole.info().added), (0, present.len() as u64));
    assert!(super::all(&whole).expect("read").keys().eq(&present));
    assert_eq!(whole.verify().expect("whole"), whole.info());
    assert_eq!(whole.sum_below(&[0xff; 70_000]).expect("read"), present.len() as i64);
}

/// An owner that cannot read its own record of a key adds it again.
#[test]
fn a_key_that_came_twice_is_listed_once() {
    let entries: [Entry<'_>; 1] = [(b"a", Change::Added)];
    let sources = vec![Source::Memory(&entries), Source::Owned(vec![(b"a".to_vec(), Change::Added)])];
    let mut merge = Merge::new(sources, Direction::Forward, Bound::Unbounded).expect("read");
    assert_eq!(merge.sum_in(b"", Some(b"b")).expect("read"), 2);
    assert_eq!(merge.sum_in(b"a\0", None).expect("read"), 0);
    assert_eq!(merge.next_entry().expect("read"), Some((&b"a"[..], Change::Added)));
    assert_eq!(merge.next_entry().expect("read"), None);
}

/// Whichever read fails, the list continues at the same position.
#[test]
fn a_list_goes_on_after_reads_that_failed() {
    let mut rng = fastrand::Rng::with_seed(3);
    let disk = SimDisk::new(1);
    let home = home(&disk);
    let (history, present) = history(&mut rng, 4, 500);
    let runs: Vec<Arc<Run>> = (1..).zip(&history).map(|(n, changes)| written(&home, n, changes)).collect();
    for direction in [Direction::Forward, Direction::Back] {
        let sources = runs.iter().map(|run| Source::Run(Arc::clone(run))).collect();
        let mut merge = Merge::new(sources, direction, Bound::Unbounded).expect("read");
        let (mut found, mut failed) = (Vec::new(), 0);
        loop {
            let at = disk.calls() + rng.u64(1..4);
            disk.fail(Some(Failure { at, fault: Fault::Eio, only_syncs: false, forever: false }));
            match merge.next_entry() {
                Ok(None) => break,
                Ok(Some((key, change))) => {
                    assert_eq!(change, Change::Added);
                    found.push(key.to_vec());
                }
                Err(_) => failed += 1,
            }
        }
        disk.fail(None);
        if direction == Direction::Back {
            found.reverse();
        }
        assert!(found.iter().eq(&present));
        assert!(failed > 5, "{failed} reads failed");
        let at = disk.calls() + 2;
        disk.fail(Some(Failure { at, fault: Fault::Eio, only_syncs: false, forever: false }));
        assert!(merge.seek(direction, Bound::Unbounded).is_err() && merge.next_entry().is_err());
        merge.seek(direction, Bound::Unbounded).expect("read");
        assert!(merge.next_entry().expect("read").is_some());
    }
}
