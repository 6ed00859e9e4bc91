//! Tests of the simulated disk's model: what a sync makes durable, what may be lost, what a failed
//! sync does.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::*;
use crate::{Access, Advice, File, Locking};

const LEVELS: [Level; 2] = [Level::Ordered, Level::Adversarial];

fn disk() -> (SimDisk, Arc<dyn Dir>, Arc<dyn File>) {
    let disk = SimDisk::new(1);
    let dir = disk.dir();
    let file = dir.open("f", Access::Create).unwrap();
    (disk, dir, file)
}

/// All crash outcomes of a file; `None` if the file itself is lost.
fn outcomes(disk: &SimDisk, name: &str, level: Level, loss: Loss) -> BTreeSet<Option<Vec<u8>>> {
    (0..400).map(|seed| disk.crash(level, loss, seed).bytes(name)).collect()
}

#[test]
fn what_was_synced_survives_every_crash() {
    let (disk, dir, file) = disk();
    file.write_at(&[7; 1300], 0).unwrap();
    file.sync().unwrap();
    dir.sync().unwrap();
    for level in LEVELS {
        for loss in Loss::ALL {
            assert_eq!(outcomes(&disk, "f", level, loss), BTreeSet::from([Some(vec![7; 1300])]), "{level:?} {loss:?}");
        }
    }
}

#[test]
fn each_sector_holds_any_of_its_contents_whatever_the_others_hold() {
    let (disk, dir, file) = disk();
    file.write_at(&[1; 1024], 0).unwrap();
    file.sync().unwrap();
    dir.sync().unwrap();
    file.write_at(&[2; 1024], 0).unwrap();
    file.write_at(&[3; 1024], 0).unwrap();
    let pairs: BTreeSet<(u8, u8)> = outcomes(&disk, "f", Level::Adversarial, Loss::Random)
        .into_iter()
        .map(|bytes| bytes.map(|b| (b[0], b[512])).unwrap())
        .collect();
    let all: BTreeSet<(u8, u8)> = (1..4).flat_map(|a| (1..4).map(move |b| (a, b))).collect();
    assert_eq!(pairs, all);
    assert_eq!(outcomes(&disk, "f", Level::Adversarial, Loss::Everything), BTreeSet::from([Some(vec![1; 1024])]));
    assert_eq!(outcomes(&disk, "f", Level::Adversarial, Loss::Nothing), BTreeSet::from([Some(vec![3; 1024])]));
}

#[test]
fn a_length_may_come_without_its_bytes_unless_data_is_ordered() {
    let (disk, dir, file) = disk();
    file.sync().unwrap();
    dir.sync().unwrap();
    file.write_at(&[9; 600], 0).unwrap();
    let ordered = outcomes(&disk, "f", Level::Ordered, Loss::Random);
    assert_eq!(ordered, BTreeSet::from([Some(vec![]), Some(vec![9; 600])]));
    let adversarial = outcomes(&disk, "f", Level::Adversarial, Loss::Random);
    assert!(adversarial.contains(&Some(vec![0; 600])) && adversarial.contains(&Some(vec![])), "{adversarial:?}");
    let garbage = outcomes(&disk, "f", Level::Adversarial, Loss::Garbage);
    assert!(garbage.iter().flatten().any(|b| b.len() == 600 && b[..512].iter().any(|&x| x != 0 && x != 9)));
}

#[test]
fn names_survive_in_order_or_each_by_itself() {
    let (disk, dir, _file) = disk();
    dir.open("g", Access::Create).unwrap();
    let both = |level| -> BTreeSet<(bool, bool)> {
        (0..100)
            .map(|seed| disk.crash(level, Loss::Random, seed))
            .map(|d| (d.bytes("f").is_some(), d.bytes("g").is_some()))
            .collect()
    };
    assert_eq!(both(Level::Ordered), BTreeSet::from([(false, false), (true, false), (true, true)]));
    assert_eq!(both(Level::Adversarial).len(), 4);
    dir.rename("g", "h").unwrap();
    dir.sync().unwrap();
    dir.remove("f").unwrap();
    let left: BTreeSet<Vec<String>> =
        (0..100).map(|seed| disk.crash(Level::Adversarial, Loss::Random, seed).names()).collect();
    assert_eq!(left, BTreeSet::from([vec!["f".into(), "h".into()], vec!["h".into()]]));
}

#[test]
fn a_sync_of_a_file_takes_earlier_names_along_only_where_they_are_ordered() {
    let (disk, _dir, file) = disk();
    file.write_at(b"x", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.crash(Level::Ordered, Loss::Everything, 0).names(), ["f"]);
    assert!(disk.crash(Level::Adversarial, Loss::Everything, 0).names().is_empty());
}

#[test]
fn after_a_failed_sync_the_next_one_succeeds_and_the_bytes_are_lost() {
    let mut lost = 0;
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let dir = disk.dir();
        let file = dir.open("f", Access::Create).unwrap();
        file.write_at(&[1; 512], 0).unwrap();
        file.sync().unwrap();
        dir.sync().unwrap();
        file.write_at(&[2; 512], 0).unwrap();
        disk.fail(Some(Failure { at: disk.calls() + 1, fault: Fault::Eio, only_syncs: false, forever: false }));
        assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
        assert_eq!(disk.failed(), 1);
        file.sync().unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [2], "the cache still has it");
        let after = disk.crash(Level::Ordered, Loss::Nothing, 0).bytes("f").unwrap()[0];
        file.advise(Advice::DropCache, 0, 0);
        file.read_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [after], "a dropped cache shows what the device has");
        lost += usize::from(after == 1);
    }
    assert!((5..35).contains(&lost), "{lost} of 40");
}

#[test]
fn failures_come_at_their_call_once_or_for_ever() {
    let (disk, _dir, file) = disk();
    let fail = |fault, forever| disk.fail(Some(Failure { at: disk.calls() + 1, fault, only_syncs: false, forever }));
    fail(Fault::Enospc, false);
    assert_eq!(file.write_at(&[1; 8], 0).unwrap_err().raw_os_error(), Some(28));
    file.write_at(&[1; 8], 0).unwrap();
    fail(Fault::ShortWrite, true);
    file.write_at(&[2; 8], 8).unwrap_err();
    file.write_at(&[3; 8], 100).unwrap_err();
    assert_eq!(file.read_at(&mut [0; 4], 0).unwrap(), 4, "reads go on");
    assert_eq!(disk.bytes("f").unwrap()[..12], [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]);
    fail(Fault::Eintr, false);
    file.write_at(&[4; 8], 0).unwrap(); // tried again inside, as the real one does
    disk.fail(None);
    assert_eq!(disk.failed(), 0);
}

#[test]
fn a_map_shows_what_is_written_and_poison_past_the_end() {
    let (_disk, _dir, file) = disk();
    file.write_at(&[1; 4100], 0).unwrap();
    let map = file.map(0, 3 * 4096).unwrap();
    let word = |at: usize| map.words()[at].load(Ordering::Relaxed);
    assert_eq!((word(0), word(512), word(513), word(1023)), (0x0101_0101_0101_0101, 0x0101_0101, 0, 0));
    assert_eq!(word(1024), 0x0bad_0bad_0bad_0bad);
    file.write_at(&7u64.to_le_bytes(), 8192).unwrap();
    assert_eq!((word(513), word(1024), word(1025)), (0, 7, 0));
}

#[test]
fn a_punched_page_is_zeros_that_a_crash_may_take_back_and_takes_no_space() {
    let (disk, dir, file) = disk();
    file.write_at(&[7; 3 * 4096], 0).unwrap();
    file.sync().unwrap();
    dir.sync().unwrap();
    assert!(file.punch(4096, 4096).unwrap());
    assert_eq!((file.len().unwrap(), file.allocated_bytes().unwrap()), (3 * 4096, 2 * 4096));
    let page = |bytes: Option<Vec<u8>>| bytes.map(|b| (b[0], b[4096], b[8192])).unwrap();
    let left: BTreeSet<_> = outcomes(&disk, "f", Level::Adversarial, Loss::Random).into_iter().map(page).collect();
    assert_eq!(left, BTreeSet::from([(7, 7, 7), (7, 0, 7)]));
    file.sync().unwrap();
    let left: BTreeSet<_> = outcomes(&disk, "f", Level::Adversarial, Loss::Random).into_iter().map(page).collect();
    assert_eq!(left, BTreeSet::from([(7, 0, 7)]));
    file.write_at(&[1], 5000).unwrap();
    assert_eq!(file.allocated_bytes().unwrap(), 3 * 4096);
}

#[test]
fn a_killed_process_loses_nothing_and_makes_nothing_durable() {
    let (disk, dir, file) = disk();
    file.write_at(b"abc", 0).unwrap();
    let Locking::Acquired(_held) = dir.lock("LOCK").unwrap() else { panic!("the first lock is free") };
    assert!(matches!(dir.lock("LOCK").unwrap(), Locking::HeldBy(None)));
    let next = disk.kill();
    assert_eq!(next.bytes("f").unwrap(), b"abc");
    assert!(matches!(next.dir().lock("LOCK").unwrap(), Locking::Acquired(_)), "the lock died with the process");
    assert!(next.crash(Level::Adversarial, Loss::Everything, 0).names().is_empty());
}

#[test]
fn the_same_seed_gives_the_same_image() {
    let (disk, _dir, file) = disk();
    for i in 0..20u8 {
        file.write_at(&[i; 700], u64::from(i) * 300).unwrap();
    }
    let image = |seed| disk.crash(Level::Adversarial, Loss::Garbage, seed).bytes("f");
    assert_eq!(image(5), image(5));
    assert!((0..20).any(|seed| image(seed) != image(5)));
}

#[test]
fn an_observer_sees_every_change() {
    let (disk, dir, file) = disk();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    disk.observe(Some(Box::new(move |at| {
        sink.lock().unwrap().push((at.calls(), at.kill().bytes("f").map(|b| b.len())));
    })));
    file.write_at(b"abc", 0).unwrap();
    file.len().unwrap();
    file.set_len(1).unwrap();
    dir.remove("f").unwrap();
    assert_eq!(*seen.lock().unwrap(), [(2, Some(3)), (4, Some(1)), (5, None)]);
}

#[test]
fn what_is_stored_through_a_map_may_be_lost_until_the_file_is_synced() {
    let disk = SimDisk::new(1);
    let dir = disk.dir();
    let file = dir.open("f", Access::Create).unwrap();
    file.write_at(&[0; 4096], 0).unwrap();
    file.sync().unwrap();
    dir.sync().unwrap();
    let map = file.map_writable(0, 4096).unwrap();
    map.words()[1].store(7, Ordering::Relaxed);
    let word = |disk: &SimDisk| disk.bytes("f").unwrap()[8];
    assert_eq!(word(&disk), 7);
    assert_eq!(word(&disk.kill()), 7);
    assert_eq!(word(&disk.crash(Level::Adversarial, Loss::Everything, 1)), 0);
    assert_eq!(word(&disk.crash(Level::Adversarial, Loss::Nothing, 1)), 7);
    file.sync().unwrap();
    assert_eq!(word(&disk.crash(Level::Adversarial, Loss::Everything, 1)), 7);
    map.words()[1].store(8, Ordering::Relaxed);
    drop(map);
    assert_eq!(word(&disk), 8);
}
