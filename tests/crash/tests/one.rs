//! Removal of one version: a crash at any call leaves it whole or removed, and whoever was told
//! that it was removed does not find it later.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use filemap_core::changes::Change;
use filemap_core::prune::PruneRule;
use filemap_core::sim::{self, Fault, Limits};
use filemap_core::{Options, Record, Store, Version};
use filemap_io::sim::{Level, Loss, SimDisk};

const KEY: &[u8] = b"http://a.example/";

fn options() -> Options {
    crate::with_limits(Limits::default()).canonicalizer("bytes", 1)
}

/// A store with three versions; the last two share the body of the first.
fn store(disk: &SimDisk) -> (Store, Version) {
    let store = sim::create(disk.dir(), options()).unwrap();
    let put = |time_ms| store.put_if_changed(&Record::new(KEY, b"shared").time(time_ms)).unwrap().version();
    let first = put(1);
    assert!(put(2) > first && put(3) > first);
    store.sync().unwrap();
    (store, first)
}

/// The times of the versions shown, whose bodies must be whole.
fn times(store: &Store) -> Vec<i64> {
    let body = |version| store.get_version(KEY, version).unwrap().unwrap().body;
    let history = store.history(KEY).unwrap();
    assert!(history.iter().all(|head| body(head.version) == b"shared"));
    history.iter().map(|head| head.version.time_ms).collect()
}

/// Result of crashes in a removal: the images, the number that still show the version, and the
/// number that show it although the changes say that it was removed.
fn crashed(loss: Loss) -> (usize, usize, usize) {
    let disk = SimDisk::new(5);
    let (store, first) = store(&disk);
    let start = store.changes_end().unwrap();
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    disk.observe(Some(Box::new(move |at| taken.lock().unwrap().push(at.crash(Level::Adversarial, loss, 1)))));
    assert!(store.remove_version(KEY, first).unwrap());
    disk.observe(None);
    assert_eq!(times(&store), [3, 2]);
    sim::abandon(store);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let (mut there, mut told_and_there) = (0, 0);
    for image in &images {
        let reader = sim::open_read_only(image.dir(), options()).unwrap();
        let told = reader.changes(start).unwrap();
        let is_told =
            told.map(Result::unwrap).any(|c| matches!(c, Change::RemovedOne { removed, .. } if removed == first));
        drop(reader);
        let store = sim::open(image.dir(), options()).unwrap();
        let mut shown = times(&store);
        shown.dedup();
        let is_there = shown == [3, 2, 1];
        assert!(is_there || shown == [3, 2], "{shown:?}");
        there += usize::from(is_there);
        told_and_there += usize::from(is_there && is_told);
        // Done again it ends it.
        assert_eq!(store.remove_version(KEY, first).unwrap(), is_there);
        assert_eq!(times(&store), [3, 2]);
        assert_eq!(store.verify().unwrap().problems, []);
        sim::abandon(store);
    }
    (images.len(), there, told_and_there)
}

#[test]
fn a_crash_in_a_removal_of_one_version_leaves_it_whole_or_gone_and_is_not_told_too_early() {
    for loss in Loss::ALL {
        let (images, there, told_and_there) = crashed(loss);
        assert!(there > 0 && there < images, "{loss:?}: {there} of {images}");
        assert_eq!(told_and_there, 0, "{loss:?}");
    }
    let planted = Loss::ALL.map(|loss| {
        sim::plant(Some(Fault::OneRemovedNotReplayed));
        let (_, _, told_and_there) = crashed(loss);
        sim::plant(None);
        told_and_there
    });
    assert!(planted.iter().sum::<usize>() > 0, "the planted fault is not noticed");
}

/// The times shown after a repair that has nothing but the value log. Of the versions that shared
/// the body of the removed one, some had been dropped before by a prune.
fn repaired() -> Vec<i64> {
    let disk = SimDisk::new(6);
    let (store, first) = store(&disk);
    let holder = store.put(&Record::new(KEY, b"shared").time(5)).unwrap();
    store.put_if_changed(&Record::new(KEY, b"shared").time(6)).unwrap();
    let keep = PruneRule { keep_versions: Some(3), ..Default::default() };
    store.prune(keep, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(times(&store), [6, 5, 3, 1], "the first holds a body");
    assert!(store.remove_version(KEY, first).unwrap() && store.remove_version(KEY, holder).unwrap());
    assert_eq!(times(&store), [6, 3]);
    store.close().unwrap();
    ["SUPERBLOCK", "address.idx"].iter().for_each(|name| disk.remove(name));
    let report = sim::repair(disk.dir(), None, &options()).unwrap();
    assert!(report.is_complete(), "{:?}", report.losses);
    let store = sim::open(disk.dir(), options()).unwrap();
    let shown = times(&store);
    sim::abandon(store);
    shown
}

#[test]
fn a_repair_brings_no_removed_version_back_nor_for_one_that_was_dropped_before() {
    assert_eq!(repaired(), [6, 3]);
    sim::plant(Some(Fault::OneRemovedForgotten));
    let shown = repaired();
    sim::plant(None);
    assert!(shown.contains(&1) && shown.contains(&5), "{shown:?}");
}
