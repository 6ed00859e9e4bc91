//! Finds, walks and counts against a model, over keys of every kind; and what they cost.

use std::sync::Arc;

use filemap_io::StorageError;
use filemap_io::sim::SimDisk;

use super::super::change::Change;
use super::super::cursor::Cursor;
use super::super::format::{MAX_KEY_BYTES, first_header, owner};
use super::super::run::Run;
use super::super::writer::Writer;
use super::{Entries, all, entries, high, home, key, written};

fn check(rng: &mut fastrand::Rng, entries: &Entries) -> Arc<Run> {
    let disk = SimDisk::new(1);
    let run = written(&home(&disk), 1, entries);
    assert_eq!(run.verify().expect("whole"), run.info());
    let removed = entries.values().filter(|change| **change == Change::Removed).count();
    assert_eq!((run.entries(), run.info().removed), (entries.len() as u64, removed as u64));
    assert_eq!(&all(&run).expect("read"), entries);
    let list: Vec<(&[u8], Change)> = entries.iter().map(|(key, change)| (&key[..], *change)).collect();
    let mut cursor = Cursor::last(Arc::clone(&run)).expect("read");
    for entry in list.iter().rev() {
        assert_eq!(cursor.back().expect("read"), Some(*entry));
    }
    assert_eq!(cursor.back().expect("read"), None);
    for _ in 0..60 {
        let sought = match rng.u8(..4) {
            0 => key(rng, true),
            1 => Vec::new(),
            2 => {
                let key = list[rng.usize(..list.len())].0;
                key[..rng.usize(..=key.len())].to_vec()
            }
            _ => list[rng.usize(..list.len())].0.to_vec(),
        };
        let mut at = list.partition_point(|entry| entry.0 < &sought[..]);
        let sum: i64 = list[..at].iter().map(|entry| entry.1.sum()).sum();
        assert_eq!(run.sum_below(&sought).expect("read"), sum);
        cursor.seek(&sought).expect("read");
        for _ in 0..rng.usize(1..300) {
            let is_forward = rng.u8(..3) > 0;
            let (got, expected) = match is_forward {
                true => (cursor.forward(), list.get(at)),
                false => (cursor.back(), at.checked_sub(1).and_then(|at| list.get(at))),
            };
            assert_eq!(got.expect("read"), expected.copied());
            match is_forward {
                true => at = (at + 1).min(list.len()),
                false => at = at.saturating_sub(1),
            }
        }
    }
    run
}

#[test]
fn what_was_written_is_found_walked_and_counted() {
    let mut rng = fastrand::Rng::with_seed(1);
    for count in [1, 2, 3, 10, 100, 1_000] {
        let model = entries(&mut rng, count, count < 1_000);
        check(&mut rng, &model);
    }
    let model = entries(&mut rng, 30_000, false);
    let run = check(&mut rng, &model);
    assert_eq!(run.root().1, 1);
    let run = check(&mut rng, &high());
    assert_eq!(run.root().1, 2);
}

#[test]
fn keys_of_the_greatest_length_make_a_tree() {
    let mut rng = fastrand::Rng::with_seed(2);
    // Keys that differ in the last byte, and pairs that differ early: every second separator is a
    // key.
    let mut model = Entries::new();
    for nth in 0..20u8 {
        let mut key = vec![nth; MAX_KEY_BYTES];
        model.insert(key.clone(), Change::Added);
        key[MAX_KEY_BYTES - 1] ^= 0x80;
        model.insert(key.clone(), Change::Removed);
        model.extend((0..400u16).map(|nth| ([&key[..60_000], &[0xff], &nth.to_be_bytes()].concat(), Change::Added)));
    }
    check(&mut rng, &model);
    // All keys of one byte.
    let model = (0..=255u8).map(|byte| (vec![byte], Change::Added)).collect();
    check(&mut rng, &model);
    // Each key is a prefix of the next; then each shares a byte less than the one before.
    let mut model: Entries = (1..900).map(|len| (vec![b'a'; len], Change::Added)).collect();
    model.extend((0..900).map(|len| ([&vec![b'a'; len][..], b"b"].concat(), Change::Added)));
    check(&mut rng, &model);
}

#[test]
fn keys_that_no_run_has_are_refused_and_the_run_goes_on() {
    let disk = SimDisk::new(1);
    let home = home(&disk);
    let mut writer = Writer::create(&home, 1).expect("created");
    assert!(writer.push(b"", Change::Added).is_err());
    writer.push(b"b", Change::Added).expect("pushed");
    for wrong in [&b""[..], b"a", b"b"] {
        assert!(matches!(writer.push(wrong, Change::Added), Err(StorageError::InvalidOption { .. })));
    }
    let long = vec![b'c'; MAX_KEY_BYTES + 1];
    assert!(matches!(writer.push(&long, Change::Added), Err(StorageError::Full { .. })));
    writer.push(&long[1..], Change::Removed).expect("pushed");
    let written = writer.end().expect("ended").expect("not empty");
    let run = Arc::new(Run::open(&home, written.info()).expect("opens"));
    assert_eq!(all(&run).expect("read").len(), 2);
}

#[test]
fn a_taken_name_is_passed_over_and_an_empty_run_leaves_no_file() {
    let disk = SimDisk::new(1);
    let home = home(&disk);
    disk.set_bytes("keys.000003.run", b"somebody else's");
    let run = written(&home, 3, &Entries::from([(b"a".to_vec(), Change::Added)]));
    assert_eq!((run.info().number, run.name()), (4, "keys.000004.run"));
    assert!(Writer::create(&home, 9).expect("created").end().expect("ended").is_none());
    assert_eq!(disk.names().len(), 2);
}

#[test]
fn a_file_names_its_owner_from_the_first_write_on() {
    let disk = SimDisk::new(1);
    let home = home(&disk);
    let mut writer = Writer::create(&home, 3).expect("created");
    let begun = disk.bytes("keys.000003.run").expect("there");
    assert_eq!((&begun, owner(&begun)), (&first_header(&home, 3), Some(([5; 16], 3))));
    writer.push(b"a", Change::Added).expect("pushed");
    writer.end().expect("ended").expect("not empty").sync().expect("synced");
    assert_eq!(disk.bytes("keys.000003.run").map(|bytes| owner(&bytes[..40])), Some(Some(([5; 16], 3))));
    assert_eq!(owner(&begun[..39]), None);
}

#[test]
fn golden_bytes_of_a_run_do_not_change() {
    let disk = SimDisk::new(1);
    let mut model: Entries =
        (0..3_000).map(|nth| (format!("com,example,{})/{nth:07}", nth / 100).into_bytes(), Change::Added)).collect();
    model.insert(vec![b'x'; 5_000], Change::Removed);
    let run = written(&home(&disk), 1, &model);
    let bytes = disk.bytes(run.name()).expect("there");
    let found = (run.root().1, run.info().pages, filemap_io::header::crc32(&[&bytes]));
    assert_eq!(found, (1, 7, 3_542_291_883), "the format changed: raise the version");
}

#[test]
fn a_copy_is_the_same_run() {
    let (disk, other) = (SimDisk::new(1), SimDisk::new(2));
    let run = written(&home(&disk), 1, &high());
    run.copy_to(&home(&other)).expect("copied");
    assert_eq!(disk.bytes(run.name()), other.bytes(run.name()));
}

#[test]
fn opening_and_short_lists_read_a_few_blocks() {
    let mut rng = fastrand::Rng::with_seed(3);
    let disk = SimDisk::new(1);
    let home = home(&disk);
    let run = written(&home, 1, &entries(&mut rng, 60_000, false));
    let reads = || home.traffic.counts();
    let before = reads();
    let again = Arc::new(Run::open(&home, run.info()).expect("opens"));
    assert_eq!((reads().0 - before.0, reads().1 - before.1), (1, 2 * 4096));
    for _ in 0..50 {
        let before = reads().0;
        let mut cursor = Cursor::before(Arc::clone(&again), &key(&mut rng, false)).expect("read");
        (0..100).for_each(|_| assert!(cursor.forward().is_ok()));
        assert!(reads().0 - before <= u64::from(again.root().1) + 1, "{} blocks", reads().0 - before);
    }
}

#[test]
fn runs_and_lists_pass_between_threads() {
    fn passes<T: Send>() {}
    fn is_read_by_many<T: Send + Sync>() {}
    is_read_by_many::<Run>();
    passes::<Cursor>();
    passes::<super::super::merge::Merge<'static>>();
    passes::<Writer<'static>>();
}
