//! Damaged files give errors or right answers; failed calls leave nothing that opens wrongly.

use std::sync::Arc;

use filemap_io::StorageError;
use filemap_io::sim::{Failure, Fault, Level, Loss, SimDisk};

use super::super::change::Change;
use super::super::cursor::Cursor;
use super::super::format::{Home, Info, owner};
use super::super::run::Run;
use super::super::writer::Writer;
use super::{Entries, all, high, home, written};

fn is_damage<T: std::fmt::Debug>(result: Result<T, StorageError>) -> bool {
    match result {
        Err(error) => error.is_corrupt(),
        Ok(_) => false,
    }
}

#[test]
fn every_flipped_byte_is_found_and_no_answer_is_wrong() {
    let disk = SimDisk::new(1);
    let home = home(&disk);
    let entries = high();
    let run = written(&home, 1, &entries);
    let (info, whole) = (run.info(), disk.bytes(run.name()).expect("there"));
    assert!(run.root().1 == 2 && whole.len() < 120_000, "{} bytes", whole.len());
    let keys: Vec<&Vec<u8>> = entries.keys().collect();
    let mut sums = vec![0];
    entries.values().for_each(|change| sums.push(sums[sums.len() - 1] + change.sum()));
    let mut bytes = whole.clone();
    for at in 0..whole.len() {
        bytes[at] ^= 1 << (at % 8);
        disk.set_bytes(run.name(), &bytes);
        bytes[at] = whole[at];
        let Ok(run) = Run::open(&home, info).map(Arc::new) else { continue };
        assert!(at >= 4096, "byte {at} of the header");
        assert!(is_damage(run.verify()), "byte {at}");
        let nth = at % keys.len();
        let sum = run.sum_below(keys[nth]);
        assert!(sum.as_ref().map_or_else(StorageError::is_corrupt, |sum| *sum == sums[nth]), "byte {at}: {sum:?}");
        match Cursor::before(run, keys[nth]).and_then(|mut cursor| walk(&mut cursor, &keys[nth..])) {
            Ok(is_right) => assert!(is_right, "byte {at}"),
            Err(error) => assert!(error.is_corrupt(), "byte {at}: {error}"),
        }
    }
}

/// Returns whether the next entries, at most four, are these.
fn walk(cursor: &mut Cursor, keys: &[&Vec<u8>]) -> Result<bool, StorageError> {
    for key in keys.iter().take(4) {
        if cursor.forward()?.is_none_or(|entry| entry.0 != &key[..]) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[test]
fn every_truncation_and_every_longer_file_is_refused() {
    let disk = SimDisk::new(1);
    let home = home(&disk);
    let run = written(&home, 1, &high());
    let whole = disk.bytes(run.name()).expect("there");
    for len in 0..whole.len() {
        disk.set_bytes(run.name(), &whole[..len]);
        assert!(is_damage(Run::open(&home, run.info())), "{len} bytes");
        // The handle opened before the damage.
        assert!(len % 31 > 0 || is_damage(run.verify()), "{len} bytes");
    }
    disk.set_bytes(run.name(), &[&whole[..], &[0; 4096]].concat());
    assert!(is_damage(Run::open(&home, run.info())));
}

#[test]
fn blocks_of_other_places_and_other_runs_are_damage() {
    let disk = SimDisk::new(1);
    let home = home(&disk);
    let run = written(&home, 1, &high());
    let other = written(&home, 2, &high());
    let (whole, foreign) = (disk.bytes(run.name()).expect("there"), disk.bytes(other.name()).expect("there"));
    for page in 1..run.info().pages as usize {
        for (from, bytes) in [(page % (run.info().pages as usize - 1) + 1, &whole), (page, &foreign)] {
            let mut mixed = whole.clone();
            mixed[page * 4096..][..4096].copy_from_slice(&bytes[from * 4096..][..4096]);
            disk.set_bytes(run.name(), &mixed);
            assert!(is_damage(Run::open(&home, run.info()).and_then(|run| run.verify())), "page {page}");
        }
    }
}

#[test]
fn what_its_owner_does_not_name_is_not_opened() {
    let disk = SimDisk::new(1);
    let home = home(&disk);
    let info = written(&home, 1, &high()).info();
    let wrong = [
        Info { leaves: info.leaves + 1, ..info },
        Info { pages: info.pages + 1, ..info },
        Info { added: info.added + 1, ..info },
        Info { added: info.added + 1, removed: info.removed - 1, ..info },
        Info { leaves: 0, ..info },
        Info { pages: u64::MAX, ..info },
        Info { added: u64::MAX, removed: u64::MAX, ..info },
        Info { number: 2, ..info },
    ];
    written(&home, 2, &Entries::from([(b"a".to_vec(), Change::Added)]));
    for info in wrong {
        assert!(is_damage(Run::open(&home, info)), "{info:?}");
    }
    let other = Home::new(disk.dir(), "keys", [6; 16], ());
    assert!(is_damage(Run::open(&other, info)));
    drop(Writer::create(&home, 3).expect("created"));
    assert!(is_damage(Run::open(&home, Info { number: 3, ..Info::default() })));
    assert!(is_damage(Run::open(&home, Info { number: 3, ..info })));
    assert!(is_damage(Run::open(&home, Info { number: 9, ..info })));
}

/// Writes a run and opens it.
fn work(home: &Home, entries: &Entries) -> Result<Arc<Run>, StorageError> {
    let mut writer = Writer::create(home, 1)?;
    entries.iter().try_for_each(|(key, change)| writer.push(key, *change))?;
    let written = writer.end()?.expect("not empty");
    written.sync()?;
    home.dir.sync().map_err(StorageError::io("sync", "folder"))?;
    Ok(Arc::new(Run::open(home, written.info())?))
}

#[test]
fn any_call_may_fail_and_what_a_crash_leaves_names_its_owner() {
    let mut entries = high();
    // More than one buffer of the writer.
    entries.extend((0..4_000u32).map(|nth| {
        let middle: Vec<u8> = (0..150).map(|at| (nth.wrapping_mul(at * at + 7) >> 7) as u8).collect();
        ([&b"url"[..], &nth.to_be_bytes(), &middle].concat(), Change::Added)
    }));
    let disk = SimDisk::new(1);
    work(&home(&disk), &entries).expect("works");
    for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite, Fault::Eintr] {
        let calls = disk.refusable(fault);
        assert!(calls.len() > 3, "{fault:?}: {calls:?}");
        for at in calls {
            let disk = SimDisk::new(1);
            disk.fail(Some(Failure { at, fault, only_syncs: false, forever: false }));
            // An interrupted call is retried inside.
            let is_ok = work(&home(&disk), &entries).is_ok();
            assert!(!is_ok || fault == Fault::Eintr, "{fault:?} of call {at}");
            disk.fail(None);
            for (nth, loss) in (0..).zip(Loss::ALL) {
                let crashed = disk.crash(Level::Adversarial, loss, at + nth);
                for name in crashed.names() {
                    let bytes = crashed.bytes(&name).expect("there");
                    let is_ours = owner(&bytes) == Some(([5; 16], 1));
                    assert!(is_ours || bytes.len() <= 4096, "{fault:?} of call {at}: {} bytes", bytes.len());
                }
            }
            // The next free number, beside the leftovers.
            assert_eq!(all(&work(&home(&disk), &entries).expect("works")).expect("read"), entries);
        }
    }
}

#[test]
fn a_cursor_stays_where_it_was_when_a_read_fails() {
    let mut rng = fastrand::Rng::with_seed(1);
    let disk = SimDisk::new(1);
    let entries = high();
    let run = written(&home(&disk), 1, &entries);
    let list: Vec<&Vec<u8>> = entries.keys().collect();
    let (mut cursor, mut at) = (Cursor::first(run).expect("read"), 0);
    let mut failures = 0;
    for _ in 0..3_000 {
        let call = disk.calls() + rng.u64(1..3);
        disk.fail(Some(Failure { at: call, fault: Fault::Eio, only_syncs: false, forever: false }));
        match rng.u8(..8) {
            0 => {
                let to = rng.usize(..list.len());
                match cursor.seek(list[to]) {
                    Ok(()) => at = to,
                    Err(_) => failures += 1,
                }
            }
            1..5 => match cursor.forward() {
                Ok(found) => {
                    assert_eq!(found.map(|entry| entry.0), list.get(at).map(|key| &key[..]));
                    at = (at + 1).min(list.len());
                }
                Err(_) => failures += 1,
            },
            _ => match cursor.back() {
                Ok(found) => {
                    let before = at.checked_sub(1).map(|at| &list[at][..]);
                    assert_eq!(found.map(|entry| entry.0), before);
                    at = at.saturating_sub(1);
                }
                Err(_) => failures += 1,
            },
        }
    }
    assert!(failures > 100, "{failures}");
}
