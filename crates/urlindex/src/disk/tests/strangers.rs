//! Files of others beside a set, and of sets whose manifest is missing: none is removed, and none
//! is in the way.

use filemap_io::StorageError;
use filemap_io::sim::{Level, Loss};

use super::*;
use crate::files::beside;

/// Files of others with names like the set's own.
const OTHERS: [&str; 6] = [
    "seen.20240501.log",
    "seen.000001.log",
    "seen.000004.run",
    "seen.000005.log",
    "seen.0000003.log",
    "seen.+00003.log",
];

fn put_others(disk: &SimDisk) {
    OTHERS.iter().for_each(|name| disk.set_bytes(name, b"GET / 200\n"));
}

fn has_others(disk: &SimDisk) -> bool {
    OTHERS.iter().all(|name| disk.bytes(name).as_deref() == Some(b"GET / 200\n"))
}

fn is_refused<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Storage(StorageError::Io { source, .. })) if source.kind() == std::io::ErrorKind::AlreadyExists)
}

#[test]
fn files_of_others_stay_whatever_they_are_called_and_are_in_nobodys_way() {
    let disk = SimDisk::new(1);
    put_others(&disk);
    let mut set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    for part in 0..5 {
        assert_eq!(insert_batch(&set, part * 500..part * 500 + 500).new_count(), 500);
        (part..5).for_each(|i| assert!(insert(&set, 9_000 + 10 * part + i)));
        drop(set);
        set = DiskUrlSet::open_in(disk.dir(), "seen", options()).expect("opened");
        assert!((0..part * 500 + 500).all(|i| is_seen(&set, i)) && has_others(&disk));
    }
    let copy = SimDisk::new(2);
    put_others(&copy);
    let made = set.snapshot_in(&copy.dir());
    assert!(made.is_ok() || is_refused(&made), "{made:?}");
    assert!(has_others(&copy));
}

#[test]
fn what_a_crash_left_is_removed_and_what_another_set_has_is_not() {
    let (disk, other) = (SimDisk::new(1), SimDisk::new(2));
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    insert_batch(&set, 0..500);
    let next = guard(&set.state).manifest.next_number;
    let home = guard(&set.state).home.clone();
    let whose = DiskUrlSet::create_in(other.dir(), "seen", options()).expect("made");
    insert_batch(&whose, 0..500);
    let run_of_other = other.bytes("seen.000002.run").expect("there");
    drop(set);
    // Each begun and cut short, or whole and not named by a manifest; the last beyond all that a
    // crash can leave.
    let header = |number| filemap_runs::first_header(&home, number);
    let begun = [header(next), vec![7; 9_000]].concat();
    disk.set_bytes(&beside::run("seen", next), &begun);
    disk.set_bytes(&beside::log("seen", next), &log::header(&home, next)[..100]);
    disk.set_bytes(&beside::log("seen", next + 1), &[0; 512]);
    disk.set_bytes(&beside::run("seen", next + 1), &run_of_other);
    disk.set_bytes(&beside::run("seen", next + 2), &[header(next + 2), vec![7; 9_000]].concat());
    let set = DiskUrlSet::open_in(disk.dir(), "seen", options()).expect("opened");
    assert!((0..500).all(|i| is_seen(&set, i)));
    let is_there = |name: String| disk.bytes(&name).is_some();
    assert!(
        !is_there(beside::run("seen", next))
            && !is_there(beside::log("seen", next))
            && !is_there(beside::log("seen", next + 1))
    );
    assert!(is_there(beside::run("seen", next + 1)) && is_there(beside::run("seen", next + 2)));
    insert_batch(&set, 500..2_000);
    assert_eq!(disk.bytes(&beside::run("seen", next + 1)).as_deref(), Some(&run_of_other[..]));
}

#[test]
fn no_set_is_made_over_the_runs_of_one_whose_manifest_is_gone() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    insert_batch(&set, 0..1_000);
    (1_000..1_050).for_each(|i| assert!(insert(&set, i)));
    drop(set);
    let manifest = disk.bytes("seen").expect("there");
    disk.remove("seen");
    let before = disk.names();
    let again = DiskUrlSet::create_in(disk.dir(), "seen", options());
    assert!(is_refused(&again) && disk.names() == before, "{again:?}");
    let from = SimDisk::new(2);
    let other = DiskUrlSet::create_in(from.dir(), "seen", options()).expect("made");
    assert!(is_refused(&other.snapshot_in(&disk.dir())) && disk.names() == before);
    disk.set_bytes("seen", &manifest);
    let set = DiskUrlSet::open_in(disk.dir(), "seen", options()).expect("opened");
    assert!((0..1_050).all(|i| is_seen(&set, i)));
}

#[test]
fn a_set_whose_making_was_cut_short_is_made_again() {
    let disk = SimDisk::new(1);
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    disk.observe(Some(Box::new(move |snapshot| taken.lock().expect("one thread").push(snapshot.kill()))));
    drop(DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made"));
    disk.observe(None);
    let mut made = 0;
    for image in images.lock().expect("one thread").iter().filter(|image| image.bytes("seen").is_none()) {
        let set = DiskUrlSet::create_in(image.dir(), "seen", options()).expect("made again");
        assert!(insert(&set, 1));
        assert_eq!(image.names().iter().filter(|name| name.ends_with(".log")).count(), 1, "{:?}", image.names());
        made += 1;
    }
    assert!(made > 3, "{made}");
}

#[test]
fn a_snapshot_that_was_cut_short_is_made_again() {
    let (disk, copy) = (SimDisk::new(1), SimDisk::new(2));
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    insert_batch(&set, 0..1_000);
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    copy.observe(Some(Box::new(move |snapshot| {
        let mut taken = taken.lock().expect("one thread");
        taken.push(snapshot.kill());
        for loss in [Loss::Everything, Loss::Nothing, Loss::Random] {
            for level in [Level::Ordered, Level::Adversarial] {
                taken.extend((0..3).map(|seed| snapshot.crash(level, loss, snapshot.calls() * 3 + seed)));
            }
        }
    })));
    set.snapshot_in(&copy.dir()).expect("made");
    copy.observe(None);
    let images = images.lock().expect("one thread");
    for image in images.iter().filter(|image| image.bytes("seen").is_none()) {
        set.snapshot_in(&image.dir()).expect("made again");
        let other = DiskUrlSet::open_in(image.dir(), "seen", options()).expect("opened");
        assert!((0..1_000).all(|i| is_seen(&other, i)));
    }
    assert!(images.len() > 100, "{}", images.len());
}
