//! The key log alone: rolls, reused numbers, removal, and what survives an interrupted checkpoint.

use filemap_io::OsDir;
#[cfg(feature = "sim")]
use filemap_io::sim::SimDisk;

use super::*;
use crate::format::location::{Extent as Place, Location};
use crate::format::superblock;
use crate::limits::Limits;
use crate::logs::scan::Item;
use crate::record::Version;

const BOUNDS: Bounds = Bounds { open_files: 2, numbers: 4 };

fn limits() -> Limits {
    Limits { key_segment_bytes: 256, flush_key_bytes: 1, ..Limits::default() }
}

fn open(path: &std::path::Path, access: Access, tail: Tail) -> Arc<KeyLog> {
    let current = Superblock { key_tail: tail, ..superblock::example() };
    KeyLog::open(Arc::new(OsDir::open(path).unwrap()), access, &current, BOUNDS).unwrap()
}

fn fresh() -> (tempfile::TempDir, Arc<KeyLog>) {
    let temp = tempfile::tempdir().unwrap();
    KeyLog::create(&OsDir::open(temp.path()).unwrap(), superblock::example().store_id, 0).unwrap();
    let log = open(temp.path(), Access::Write, Tail { ordinal: 0, offset: FIRST_RECORD });
    (temp, log)
}

/// A record of 64 bytes for a key of up to 24 bytes: three fit in a segment.
fn record(key: &[u8], sequence: u64) -> KeyRecord {
    KeyRecord {
        key_bytes: key.len() as u32,
        version: Version { time_ms: 0, sequence },
        extent: Place { location: Location::new(0, 64), units: 1 },
        chunked: false,
        previous: 0,
        chain: 1,
        refers_to: 0,
        holder: 0,
    }
}

fn key(i: u64) -> Vec<u8> {
    format!("http://example.com/{i:03}").into_bytes()
}

#[test]
fn no_record_crosses_the_end_of_a_segment_and_a_long_one_has_its_own() {
    let (temp, log) = fresh();
    let mut appender = KeyAppender::new(Arc::clone(&log), &limits()).unwrap();
    let mut places: Vec<(u64, Vec<u8>)> = Vec::new();
    for i in 0..10 {
        let key = if i == 5 { vec![b'k'; 5000] } else { key(i) };
        places.push((appender.append(&record(&key, i), &key).unwrap().0, key));
        if i % 2 == 0 {
            appender.flush().unwrap();
        }
        assert_eq!(
            appender.read(places[i as usize].0).unwrap().1,
            places[i as usize].1,
            "before it is written, or after"
        );
    }
    appender.flush().unwrap();
    appender.sync().unwrap();
    appender.publish();
    let ids: Vec<u16> = places.iter().map(|(address, _)| key::segment_of(*address)).collect();
    assert_eq!(ids, [0, 0, 0, 1, 1, 2, 3, 3, 3, 4]);
    for (i, (address, key)) in places.iter().enumerate() {
        let (found, name) = log.read(*address).unwrap();
        assert_eq!((found.version.sequence, &name), (i as u64, key));
    }
    let reader = open(temp.path(), Access::Read, log.end());
    assert_eq!(reader.read(places[9].0).unwrap().1, key(9));
}

#[test]
#[cfg(feature = "sim")]
fn what_is_read_ahead_is_what_is_read_until_its_number_may_be_that_of_another_segment() {
    let disk = SimDisk::new(0);
    let dir = disk.dir();
    KeyLog::create(&*dir, superblock::example().store_id, 0).unwrap();
    let current = Superblock { key_tail: Tail { ordinal: 0, offset: FIRST_RECORD }, ..superblock::example() };
    let log = KeyLog::open(dir, Access::Write, &current, BOUNDS).unwrap();
    let limits = Limits { key_segment_bytes: 32 << 10, flush_key_bytes: 1 << 20, ..Limits::default() };
    let mut appender = KeyAppender::new(Arc::clone(&log), &limits).unwrap();
    let mut places = Vec::new();
    for i in 0..300 {
        // The first is longer than a read-ahead of any record.
        let key = if i == 0 { vec![b'k'; 500] } else { key(i) };
        places.push(appender.append(&record(&key, i), &key).unwrap().0);
        if i == 250 {
            appender.flush().unwrap();
        }
    }
    let matches = |appender: &KeyAppender| {
        for (i, place) in places.iter().enumerate() {
            assert_eq!(appender.read(*place).unwrap().0.version.sequence, i as u64);
        }
    };
    appender.read_ahead(places.iter().copied());
    // The directory answers as if every other page were in memory; the last records are in the
    // buffer.
    let ahead: Vec<usize> = (0..300).filter(|i| appender.ahead.contains_key(&places[*i])).collect();
    assert!(ahead.len() > 50 && ahead.len() < 200 && *ahead.last().unwrap() < 250, "{ahead:?}");
    assert!(!ahead.contains(&0));
    matches(&appender);
    appender.flush().unwrap();
    matches(&appender);

    let damaged = places[ahead[0]];
    let mut bytes = disk.bytes(&names::keys(0)).unwrap();
    let damage = |bytes: &mut Vec<u8>| {
        bytes[key::offset_of(damaged) as usize + 60] ^= 1;
        disk.set_bytes(&names::keys(0), bytes);
    };
    damage(&mut bytes);
    assert!(appender.read(damaged).is_ok(), "from memory");
    appender.read_ahead(places.iter().copied());
    assert!(!appender.ahead.contains_key(&damaged) && appender.read(damaged).is_err());
    damage(&mut bytes);
    appender.read_ahead(places.iter().copied());
    damage(&mut bytes);
    assert!(appender.read(damaged).is_ok(), "from memory");
    while log.segments.all().len() < 2 {
        appender.append(&record(&key(1), 9), &key(1)).unwrap();
    }
    assert!(appender.ahead.is_empty() && appender.read(damaged).is_err(), "a segment was begun");
}

#[test]
fn what_follows_the_tail_is_appended_after_and_a_segment_begun_there_is_left() {
    let (temp, log) = fresh();
    let mut appender = KeyAppender::new(Arc::clone(&log), &limits()).unwrap();
    let append = |a: &mut KeyAppender, i: u64| {
        let place = a.append(&record(&key(i), i), &key(i)).unwrap();
        a.flush().unwrap();
        a.publish();
        place
    };
    append(&mut appender, 0);
    let tail = log.end();
    append(&mut appender, 1);
    drop(appender);
    // A checkpoint was interrupted in the tail's segment.
    let log = open(temp.path(), Access::Write, tail);
    let mut appender = KeyAppender::new(Arc::clone(&log), &limits()).unwrap();
    let third = append(&mut appender, 2);
    assert_eq!(third, (key::address(1, FIRST_RECORD), 1), "not behind the second, which does not count");
    assert_eq!((log.until(0), log.until(1)), (tail.offset, FIRST_RECORD + 64));
    append(&mut appender, 3);
    drop(appender);
    // A second one was interrupted beyond it: nothing it wrote counts.
    let log = open(temp.path(), Access::Write, tail);
    assert_eq!(log.end(), tail);
    let mut appender = KeyAppender::new(Arc::clone(&log), &limits()).unwrap();
    assert_eq!(append(&mut appender, 4), (key::address(2, FIRST_RECORD), 2));
    assert_eq!(log.end(), Tail { ordinal: 2, offset: FIRST_RECORD + 64 });
    let ends: Vec<(u64, u64)> = log.files().unwrap().0.iter().map(|f| (f.segment.ordinal, f.end)).collect();
    assert_eq!(
        ends,
        [(0, tail.offset), (2, FIRST_RECORD + 64)],
        "of the first segment what counted, of the second nothing"
    );
    // The segment table passes the ends to the next handle.
    let ends = [0, 2].map(|ordinal| (ordinal, appender.end_of(ordinal).unwrap_or(u64::MAX)));
    assert_eq!(ends, [(0, tail.offset), (2, u64::MAX)]);
    let next = open(temp.path(), Access::Read, log.end());
    next.learn(ends.into_iter());
    assert_eq!((next.until(0), next.until(1), next.until(2)), (tail.offset, FIRST_RECORD, FIRST_RECORD + 64));
}

#[test]
fn what_is_left_unfinished_counts_for_nothing() {
    let (_temp, log) = fresh();
    let limits = Limits { flush_key_bytes: 1000, ..limits() };
    let mut appender = KeyAppender::new(Arc::clone(&log), &limits).unwrap();
    let append = |a: &mut KeyAppender, i: u64| a.append(&record(&key(i), i), &key(i)).unwrap().0;
    append(&mut appender, 0);
    // In the buffer an abandoned record leaves no trace.
    let mark = appender.mark();
    append(&mut appender, 1);
    appender.abandon(mark);
    assert_eq!(append(&mut appender, 2), key::address(0, FIRST_RECORD + 64));
    // In the file it stays, and another segment is begun.
    let mark = appender.mark();
    (3..8).for_each(|i| assert_ne!(append(&mut appender, i), 0));
    appender.flush().unwrap();
    appender.abandon(mark);
    appender.publish();
    assert_eq!(log.end(), mark);
    let next = append(&mut appender, 9);
    appender.flush().unwrap();
    appender.publish();
    let counted: Vec<Vec<u8>> = log
        .files()
        .unwrap()
        .0
        .iter()
        .flat_map(|f| {
            let file = f.file.as_ref().unwrap();
            let mut scan = log.scan(&f.segment, &**file, FIRST_RECORD..f.end).unwrap();
            let mut keys = Vec::new();
            while let Some(Item::Record { offset, bytes }) = scan.next().unwrap() {
                keys.push(log.decode(&f.segment, bytes, offset).unwrap().1.to_vec());
            }
            keys
        })
        .collect();
    assert_eq!(counted, [key(0), key(2), key(9)]);
    assert_eq!(log.read(next).unwrap().1, key(9));
}

#[test]
fn a_segment_that_the_log_ends_in_is_left_though_another_was_begun_after_it() {
    let (temp, log) = fresh();
    let tail = log.end();
    let mut appender = KeyAppender::new(Arc::clone(&log), &limits()).unwrap();
    (0..4).for_each(|i| assert_eq!(appender.append(&record(&key(i), i), &key(i)).unwrap().1, i / 3));
    appender.flush().unwrap();
    drop(appender);
    // No superblock names these segments.
    let log = open(temp.path(), Access::Write, tail);
    let mut appender = KeyAppender::new(Arc::clone(&log), &limits()).unwrap();
    appender.leave(0).unwrap();
    appender.publish();
    assert_eq!(log.end(), Tail { ordinal: 2, offset: FIRST_RECORD });
    log.remove_dead(log.end(), |_| 0).unwrap();
    assert!((0..2).all(|id| !temp.path().join(names::keys(id)).exists()), "nothing is left of what was written");
}

#[test]
fn a_dead_segment_goes_and_its_number_comes_again_with_another_seed() {
    let (temp, log) = fresh();
    let mut appender = KeyAppender::new(Arc::clone(&log), &limits()).unwrap();
    let append = |a: &mut KeyAppender, i: u64| {
        let place = a.append(&record(&key(i), i), &key(i)).unwrap();
        a.flush().unwrap();
        a.publish();
        place
    };
    let (first, ordinal) = append(&mut appender, 7);
    let live = |of: u64| if of == ordinal { 64 } else { 0 };
    for i in 0..8 {
        append(&mut appender, i);
    }
    let files = || (0..4).filter(|id| temp.path().join(names::keys(*id)).exists()).collect::<Vec<_>>();
    let before = log.removals();
    log.remove_dead(log.end(), live).unwrap();
    assert_eq!(files(), [0, 2], "the first has a live record, the last is appended to");
    assert!(log.removals() > before);
    assert!(log.read(key::address(1, FIRST_RECORD)).unwrap_err().is_corrupt());
    // A list that has begun keeps reading removed segments.
    let (open_files, _) = log.files().unwrap();
    log.remove_dead(log.end(), |_| 0).unwrap();
    assert_eq!(files(), [2]);
    let file = open_files[0].file.as_ref().unwrap();
    assert!(
        log.scan(&open_files[0].segment, &**file, FIRST_RECORD..open_files[0].end).unwrap().next().unwrap().is_some()
    );
    // Numbers wrap around after the last; ordinals do not.
    let mut places = Vec::new();
    while places.last().is_none_or(|p: &(u64, u64)| p.1 < 65_536) {
        places.push(append(&mut appender, 9));
    }
    let (again, ordinal) = places[places.len() - 1];
    assert_eq!((again, ordinal), (first, 65_536));
    assert_eq!(log.position(again), Some(Tail { ordinal: 65_536, offset: FIRST_RECORD }));
    assert_eq!(log.read(again).unwrap().0.version.sequence, 9);
    let bytes = std::fs::read(temp.path().join(names::keys(0))).unwrap();
    let other = key::seed(&superblock::example().store_id, 0);
    assert!(KeyRecord::decode(&bytes[64..], other, FIRST_RECORD).is_err(), "a record of its former life does not pass");
}

#[test]
fn a_reader_learns_of_segments_that_were_removed_and_of_those_with_their_numbers() {
    let (temp, log) = fresh();
    let mut appender = KeyAppender::new(Arc::clone(&log), &limits()).unwrap();
    let append = |a: &mut KeyAppender, i: u64| {
        let place = a.append(&record(&key(i), i), &key(i)).unwrap();
        a.flush().unwrap();
        a.publish();
        place.0
    };
    let first = append(&mut appender, 1);
    let reader = open(temp.path(), Access::Read, log.end());
    assert_eq!(reader.read(first).unwrap().1, key(1));
    let mut last = first;
    for round in 0..20 {
        last = append(&mut appender, round);
        log.remove_dead(log.end(), |_| 0).unwrap();
    }
    let newer = Superblock { key_tail: log.end(), ..superblock::example() };
    reader.rescan(&newer).unwrap();
    reader.follow(&newer, std::iter::empty());
    assert_eq!(reader.end(), log.end());
    assert_eq!(reader.read(last).unwrap().1, key(19));
    assert_eq!(reader.segments.all().len(), 1, "what is gone is forgotten");
    assert!(reader.removals() > 0);
    // A superblock may name a removed segment: then there is a newer superblock.
    let old = Superblock { key_tail: Tail { ordinal: 0, offset: 128 }, ..superblock::example() };
    assert!(reader.rescan(&old).unwrap_err().is_corrupt());
}
