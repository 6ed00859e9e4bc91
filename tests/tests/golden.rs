//! The golden stores: what every released format must still read as.

use std::collections::BTreeSet;

use filemap_core::{Store, sim};
use filemap_tests::hostile::golden::{self, KEYS, state};
use filemap_tests::hostile::image::Scratch;
use filemap_tests::hostile::judge::{Expect, Told};
use filemap_tests::hostile::layout::{Cost, Layout};

#[test]
fn the_golden_store_of_format_1_reads_as_it_was_written() {
    let mut scratch = Scratch::default();
    let told = Expect::new(&Cost::default()).both(&golden::image(), &mut scratch);
    assert_eq!(told, Ok(Told { told: false, closed: false }));
    // What was put into it since stays, and a second opening finds all of it in the index.
    let store = sim::open(scratch.dir(), golden::options()).unwrap();
    assert_eq!(store.stats().memtable_entries, 0);
    assert_eq!(store.get(b"http://new.example/").unwrap().unwrap().head.version.time_ms, 1 << 50);
    let live = (0..KEYS.len()).filter(|&key| !state(key, &|_| true).is_empty()).count() as u64;
    assert_eq!(store.stats().indexed_keys, live + 1);
}

#[test]
fn the_golden_store_opens_from_its_folder_too() {
    let temp = tempfile::tempdir().unwrap();
    golden::image().write(temp.path()).unwrap();
    let store = Store::open(temp.path(), golden::options()).unwrap();
    assert_eq!(store.verify().unwrap().problems, []);
    assert_eq!(store.get(KEYS[0].as_bytes()).unwrap().unwrap().body, state(0, &|_| true)[0].body);
}

#[test]
fn the_golden_store_holds_every_kind_of_record() {
    let image = golden::image();
    let layout = Layout::of(&image);
    let kinds: BTreeSet<&str> = layout.values.iter().map(|e| e.kind.as_str()).collect();
    let all = ["page record", "reference record", "tombstone record", "chunk record", "chunked record", "filler"];
    assert_eq!(kinds, BTreeSet::from(all));
    assert_eq!(layout.leaves.len(), 2);
    assert!(layout.leaves.iter().all(|(_, keys)| keys.len() > 5));
    let codecs: BTreeSet<u8> = layout.values.iter().map(|e| image.file("value0.dat")[e.range.start + 9]).collect();
    assert_eq!(codecs, BTreeSet::from([0, 1]), "raw and compressed payloads");
    assert!(image.0.values().map(Vec::len).sum::<usize>() < 48 << 10);
}

#[test]
fn a_golden_store_that_is_made_today_reads_as_the_committed_one() {
    let made = golden::make().unwrap();
    let told = Expect::new(&Cost::default()).both(&made, &mut Scratch::default());
    assert_eq!(told, Ok(Told { told: false, closed: false }));
}
