//! Ordered runs against a map, under damage and failing calls; helpers shared by the tests.

mod damage;
mod forged;
mod merging;
mod model;

use std::collections::BTreeMap;
use std::sync::Arc;

use filemap_io::StorageError;
use filemap_io::sim::SimDisk;

use super::change::Change;
use super::cursor::Cursor;
use super::format::Home;
use super::run::Run;
use super::writer::Writer;

type Entries = BTreeMap<Vec<u8>, Change>;

fn home(disk: &SimDisk) -> Home {
    Home::new(disk.dir(), "keys", [5; 16], ())
}

fn written(home: &Home, number: u64, entries: &Entries) -> Arc<Run> {
    let mut writer = Writer::create(home, number).expect("created");
    entries.iter().for_each(|(key, change)| writer.push(key, *change).expect("pushed"));
    let written = writer.end().expect("ended").expect("not empty");
    written.sync().expect("synced");
    Arc::new(Run::open(home, written.info()).expect("opens"))
}

/// Keys of 1 to 66,000 bytes that share much or little.
fn key(rng: &mut fastrand::Rng, with_long: bool) -> Vec<u8> {
    let bytes = |rng: &mut fastrand::Rng, len: usize| -> Vec<u8> {
        (0..len).map(|_| [0, b'a', b'b', 0xfe, 0xff][rng.usize(..5)]).collect()
    };
    match rng.u8(..if with_long { 100 } else { 90 }) {
        0..20 => {
            let len = rng.usize(1..7);
            bytes(rng, len)
        }
        20..90 => {
            let host = rng.u32(0..9);
            format!("com,example,{host})/path/{}/{}.html", rng.u32(0..9), rng.u32(0..5_000)).into_bytes()
        }
        90..99 => {
            let len = rng.usize(0..6_000);
            let mut key = vec![b'l'; len];
            key.extend(bytes(rng, 3));
            key
        }
        _ => {
            let mut key = vec![[b'm', 0xff][rng.usize(..2)]; 65_998];
            key.extend(bytes(rng, 2));
            key
        }
    }
}

fn entries(rng: &mut fastrand::Rng, count: usize, with_long: bool) -> Entries {
    let change = |rng: &mut fastrand::Rng| if rng.u8(..4) == 0 { Change::Removed } else { Change::Added };
    (0..count).map(|_| (key(rng, with_long), change(rng))).collect()
}

/// Two to four keys a leaf and separators of 1,300 bytes: a few pages, but three levels.
fn high() -> Entries {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut entries = Entries::new();
    for group in 0..8u8 {
        let start: Vec<u8> = std::iter::once(b'a' + group).chain((0..1_300).map(|_| rng.u8(..))).collect();
        for nth in 0..4u8 {
            let end: Vec<u8> = std::iter::once(nth).chain((0..700).map(|_| rng.u8(..))).collect();
            let change = if nth == 2 { Change::Removed } else { Change::Added };
            entries.insert([&start[..], &end].concat(), change);
        }
    }
    entries
}

fn all(run: &Arc<Run>) -> Result<Entries, StorageError> {
    let (mut cursor, mut entries) = (Cursor::first(Arc::clone(run))?, Entries::new());
    while let Some((key, change)) = cursor.forward()? {
        assert!(entries.last_key_value().is_none_or(|(last, _)| &last[..] < key), "keys rise");
        entries.insert(key.to_vec(), change);
    }
    Ok(entries)
}
