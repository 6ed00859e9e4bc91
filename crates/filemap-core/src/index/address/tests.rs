//! The index against a map: growth, splits, reopening. No page that a durable root names is ever
//! overwritten.

use std::collections::BTreeMap;
use std::sync::Arc;

use filemap_io::{Access, Dir, File, OsDir};

use super::fill::Filling;
use super::filter::Filter;
use super::*;
use crate::error::StorageError;

mod nodes;
mod runs;

fn open(file: &Arc<dyn File>, root: IndexRoot, epoch: u64) -> (Arc<Index>, IndexWriter) {
    let loaded = load(Arc::clone(file), SEED, US, root, epoch, &Limits::default()).unwrap();
    let index = Arc::clone(&loaded.index);
    (index, IndexWriter::new(loaded, root, epoch + 1, Limits::default()))
}

use crate::format::header::{FileHeader, Kind};
use crate::format::leaf::MIN_DEPTH;
use crate::format::location::{Location, SizeClass};
use crate::format::superblock::IndexRoot;

const SEED: u32 = 9;
const US: Owner = Owner::Us { filter_bytes_max: u64::MAX };

fn file() -> (tempfile::TempDir, Arc<dyn File>) {
    let temp = tempfile::tempdir().unwrap();
    let file = OsDir::open(temp.path()).unwrap().open("address.idx", Access::Create).unwrap();
    let mut page = [0; PAGE_BYTES];
    let header = FileHeader::new(Kind::Index, [0; 16], 0, 0).encode();
    page[..header.len()].copy_from_slice(&header);
    file.write_at(&page, 0).unwrap();
    (temp, file)
}

fn hash(i: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&i.to_le_bytes())
}

fn slot(hash: u64, i: u64) -> Slot {
    let location = Location::new((i % 7) as u16, i % 1000 * 64);
    Slot { hash: kept_bits(hash), key: i, location, size: SizeClass((i % 200) as u8) }
}

/// Enters `batch` (a value of 0 removes), committing stages as a checkpoint does. `durable` gets
/// each root.
fn apply(writer: &mut IndexWriter, batch: &BTreeMap<u64, u64>, durable: &mut dyn FnMut(IndexRoot, u64)) {
    let keys: Vec<(u64, u64)> = batch.iter().map(|(h, i)| (*h, *i)).collect();
    let mut rest = &keys[..];
    while let Some((hash, _)) = rest.first() {
        let old = writer.leaf(*hash).unwrap();
        let (mine, others) = rest.split_at(rest.partition_point(|k| old.covers(k.0)));
        assert!(!mine.is_empty());
        let mut slots = old.slots.clone();
        for (hash, i) in mine {
            slots.retain(|s| s.hash != kept_bits(*hash));
            if *i != 0 {
                slots.push(slot(*hash, *i));
            }
        }
        slots.sort_by_key(|s| s.hash);
        writer.replace(&old, &slots).unwrap();
        if writer.wants_flush() {
            writer.flush().unwrap();
        }
        if writer.stage_is_full() {
            writer.merge(others.first().map(|k| k.0)).unwrap();
            commit(writer, durable);
        }
        rest = others;
    }
    writer.merge(None).unwrap();
    commit(writer, durable);
}

fn commit(writer: &mut IndexWriter, durable: &mut dyn FnMut(IndexRoot, u64)) {
    let root = writer.commit(&[1, 2, 3]).unwrap();
    durable(root, writer.epoch());
    writer.committed(false);
}

fn found(index: &Index, hash: u64) -> Vec<u64> {
    match index.lookup(hash, &mut LastLeaf::default()).unwrap() {
        Lookup::Found(c) => c.iter().map(|s| s.key).collect(),
        Lookup::Stale(_) => panic!("nobody else writes this file"),
    }
}

#[test]
fn it_agrees_with_a_map_through_growth_removal_and_reopening() {
    let (_temp, file) = file();
    let mut model: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut root, mut epoch) = (IndexRoot::empty(), 1);
    let mut next = 1;
    for round in 0..12u64 {
        let (index, mut writer) = open(&file, root, epoch);
        let mut batch: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..round * round * 300 + 10 {
            batch.insert(hash(next), next);
            next += 1;
        }
        for i in (1..next).step_by(7 + round as usize) {
            batch.insert(hash(i), 0);
        }
        apply(&mut writer, &batch, &mut |r, e| (root, epoch) = (r, e));
        for (h, i) in batch {
            if i == 0 {
                model.remove(&h)
            } else {
                model.insert(h, i)
            };
        }
        assert_eq!(root.keys, model.len() as u64);
        let again = load(Arc::clone(&file), SEED, Owner::Other, root, epoch, &Limits::default()).unwrap().index;
        for i in 1..next + 50 {
            let want: Vec<u64> = model.get(&hash(i)).copied().into_iter().collect();
            assert_eq!(found(&index, hash(i)), want);
            assert_eq!(found(&again, hash(i)), want);
        }
        let mut seen = 0;
        let pages = index
            .check(
                &mut || Ok(()),
                &mut |s| {
                    seen += s.len();
                    Ok(())
                },
                &mut |page, what| panic!("page {page}: {what}"),
            )
            .unwrap();
        assert_eq!((seen, pages), (model.len(), root.leaves));
    }
    assert!(root.depth > MIN_DEPTH && root.leaves > 400, "{root:?}");
    // The mean load of leaves that split when full is ln 2; spare pages are a few per cent.
    let bytes_a_key = root.pages as f64 * PAGE_BYTES as f64 / root.keys as f64;
    assert!((16.0..34.0).contains(&bytes_a_key), "{bytes_a_key}");
}

#[test]
fn what_the_last_durable_root_names_is_untouched_until_the_next_is_durable() {
    let (_temp, file) = file();
    let (_, mut writer) = open(&file, IndexRoot::empty(), 1);
    let mut durable = (IndexRoot::empty(), 1);
    let first: BTreeMap<u64, u64> = (1..80_000).map(|i| (hash(i), i)).collect();
    apply(&mut writer, &first, &mut |r, e| durable = (r, e));
    // The second checkpoint replaces every key. At the end of each stage, just before the
    // superblock is written, the previous root must still give a whole index: each key has its old
    // value or, in a completed stage, its new one.
    let second: BTreeMap<u64, u64> = (1..120_000).map(|i| (hash(i), i + 1_000_000)).collect();
    let mut stages = 0;
    let mut last = durable;
    apply(&mut writer, &second, &mut |root, epoch| {
        let index = load(Arc::clone(&file), SEED, US, last.0, last.1, &Limits::default()).unwrap().index;
        for i in (1..80_000).step_by(97) {
            let keys = found(&index, hash(i));
            assert!(keys == [i] || keys == [i + 1_000_000], "{i}: {keys:?}");
        }
        let (mut slots, mut bad) = (0, 0);
        index
            .check(
                &mut || Ok(()),
                &mut |s| {
                    slots += s.len() as u64;
                    Ok(())
                },
                &mut |_, _| bad += 1,
            )
            .unwrap();
        assert_eq!((slots, bad), (last.0.keys, 0));
        last = (root, epoch);
        stages += 1;
    });
    assert!(stages > 1, "the checkpoint must have stages to show anything");
    let used = last.0.leaves as f64;
    assert!(used / last.0.pages as f64 > 0.7, "{:?}", last.0);
}

#[test]
fn readers_never_miss_a_key_while_pages_are_reused() {
    let (_temp, file) = file();
    let (index, mut writer) = open(&file, IndexRoot::empty(), 1);
    let all: BTreeMap<u64, u64> = (1..20_000).map(|i| (hash(i), i)).collect();
    apply(&mut writer, &all, &mut |_, _| {});
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        let reader = |t| {
            let (index, done) = (&index, &done);
            s.spawn(move || {
                let mut i = t;
                while !done.load(Ordering::Relaxed) {
                    i = i % 19_999 + 1;
                    let keys = found(index, hash(i));
                    assert!(keys.len() == 1 && keys[0] % 100_000 == i, "{i}: {keys:?}");
                }
            })
        };
        let readers: Vec<_> = (0..2).map(reader).collect();
        for round in 1..20u64 {
            let batch: BTreeMap<u64, u64> = (1..20_000).map(|i| (hash(i), i + round * 100_000)).collect();
            apply(&mut writer, &batch, &mut |_, _| {});
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|r| r.join().unwrap());
    });
}

#[test]
fn keys_with_equal_bits_share_a_page_until_it_is_full_of_them() {
    let (_temp, file) = file();
    let (_, mut writer) = open(&file, IndexRoot::empty(), 1);
    let old = writer.leaf(0).unwrap();
    let same = |n: u64| (0..n).map(|i| Slot { hash: 0, ..slot(0, i) }).collect::<Vec<_>>();
    writer.replace(&old, &same(254)).unwrap();
    // For any expected number of keys, the directory stays within what that number needs.
    for (keys, bits) in [(0, 16), (1 << 20, 16), (1 << 21, 17), (1 << 30, 26), (u64::MAX, 47)] {
        writer.expect(keys);
        let error = writer.replace(&old, &same(255)).unwrap_err();
        let what = format!("255 keys share the first {bits} bits");
        assert!(
            matches!(error, Error::Storage(StorageError::Full { .. })) && error.to_string().contains(&what),
            "{error}"
        );
    }
}

#[test]
fn a_damaged_page_is_an_error_and_not_a_miss() {
    let (_temp, file) = file();
    let (_, mut writer) = open(&file, IndexRoot::empty(), 1);
    let all: BTreeMap<u64, u64> = (1..3000).map(|i| (hash(i), i)).collect();
    let mut durable = (IndexRoot::empty(), 1);
    apply(&mut writer, &all, &mut |r, e| durable = (r, e));
    let (mut wrong, mut errors) = (0, 0);
    for page in 1..durable.0.pages {
        let mut byte = [0];
        let at = page * PAGE_BYTES as u64 + 100;
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 1], at).unwrap();
        match load(Arc::clone(&file), SEED, US, durable.0, durable.1, &Limits::default()) {
            Err(e) => assert!(e.is_corrupt()),
            Ok(loaded) => {
                let index = loaded.index;
                for (h, i) in all.iter().take(600) {
                    match index.lookup(*h, &mut LastLeaf::default()) {
                        Err(e) => {
                            assert!(e.to_string().contains(&format!("offset {}", page * PAGE_BYTES as u64)), "{e}");
                            errors += 1;
                        }
                        Ok(Lookup::Found(c)) => wrong += u32::from(c.iter().next().map(|s| s.key) != Some(*i)),
                        Ok(Lookup::Stale(_)) => wrong += 1,
                    }
                }
            }
        }
        file.write_at(&byte, at).unwrap();
    }
    assert_eq!(wrong, 0);
    assert!(errors > 500);
}

/// Runs the merges and the sweep that checkpoints do after keys were removed.
fn shrink(writer: &mut IndexWriter) {
    loop {
        writer.sweep().unwrap();
        writer.commit(&[]).unwrap();
        writer.committed(false);
        writer.punch();
        if !writer.is_sweeping() {
            return;
        }
    }
}

#[test]
fn an_index_that_grows_and_shrinks_again_and_again_is_what_a_map_is() {
    let (_temp, file) = file();
    let (mut index, mut writer) = open(&file, IndexRoot::empty(), 1);
    let (mut root, mut epoch) = (IndexRoot::empty(), 1);
    let mut model = BTreeMap::new();
    let mut state = 3u64;
    let mut random = |below: u64| {
        state = hash(state);
        state % below
    };
    for round in 0..24 {
        let mut batch = BTreeMap::new();
        // Rounds of growth, of removal, and of both.
        let (count, removes) =
            [(30_000, 10), (30_000, 95), (2000, 50), (40_000, 0), (60_000, 100), (500, 60)][round % 6];
        for _ in 0..count {
            let i = 1 + random(59_999);
            batch.insert(hash(i), if random(100) < removes { 0 } else { i + 1_000_000 * round as u64 });
        }
        if removes == 100 {
            batch.extend(model.keys().map(|h| (*h, 0)));
        }
        apply(&mut writer, &batch, &mut |r, e| (root, epoch) = (r, e));
        for (h, i) in batch {
            if i == 0 {
                model.remove(&h)
            } else {
                model.insert(h, i)
            };
        }
        if round % 5 == 4 {
            (index, writer) = open(&file, root, epoch);
        }
        if writer.wants_sweep() {
            shrink(&mut writer);
            (root, epoch) = (writer.root(), writer.epoch() - 1);
        }
        assert_eq!(root.keys, model.len() as u64);
        if model.is_empty() {
            assert_eq!((root.leaves, root.depth), (0, MIN_DEPTH));
            assert!(file.allocated_bytes().unwrap() < 200 * PAGE_BYTES as u64);
        }
        let again = load(Arc::clone(&file), SEED, Owner::Other, root, epoch, &Limits::default()).unwrap().index;
        for i in 1..60_000 {
            let want: Vec<u64> = model.get(&hash(i)).copied().into_iter().collect();
            assert_eq!(found(&index, hash(i)), want);
            assert_eq!(found(&again, hash(i)), want);
        }
        let mut seen = 0;
        let bad = &mut |page, what: &str| panic!("page {page}: {what}");
        let pages = index
            .check(
                &mut || Ok(()),
                &mut |s| {
                    seen += s.len();
                    Ok(())
                },
                bad,
            )
            .unwrap();
        assert_eq!((seen, pages), (model.len(), root.leaves));
        let least = root.keys / 254;
        assert!(root.leaves <= 128 + 4 * least, "{} leaves for {} keys", root.leaves, root.keys);
    }
}

#[test]
fn the_filter_hides_no_key_and_nearly_all_that_are_not_there() {
    let (_temp, file) = file();
    let (index, mut writer) = open(&file, IndexRoot::empty(), 1);
    let mut durable = (IndexRoot::empty(), 1);
    // Number of 20,000 absent keys whose lookup reads a page although all pages were checked
    // before.
    let passed = |index: &Index, keys: u64| {
        assert!((1..keys).all(|i| found(index, hash(i)) == [i]));
        let directory = index.directory.load();
        let passed =
            (1..=20_000).filter(|i| !directory.lacks(directory.find(hash(keys + i)).ok().unwrap().0, hash(keys + i)));
        passed.count()
    };
    let (mut keys, mut most, mut depths) = (1, 0, std::collections::BTreeSet::new());
    for round in 0..12 {
        let more = 6_000 + 3_000 * round;
        let batch: BTreeMap<u64, u64> = (keys..keys + more).map(|i| (hash(i), i)).collect();
        apply(&mut writer, &batch, &mut |r, e| durable = (r, e));
        keys += more;
        depths.insert(index.directory.load().depth());
        most = most.max(passed(&index, keys));
        let again = load(Arc::clone(&file), SEED, US, durable.0, durable.1, &Limits::default()).unwrap();
        most = most.max(passed(&again.index, keys));
        assert!(most > 0, "it cannot know all of them");
    }
    assert!(depths.len() > 3 && most < 2_000, "{depths:?}, {most} of 20,000");
    // The filter does not wear out: keys are removed as fast as added, until all have changed six
    // times.
    let depth = index.directory.load().depth();
    let part = keys / 2;
    let (mut first, mut next) = (1, keys);
    for _ in 0..12 {
        let gone = (first..first + part).map(|i| (hash(i), 0));
        let batch: BTreeMap<u64, u64> = gone.chain((next..next + part).map(|i| (hash(i), i))).collect();
        apply(&mut writer, &batch, &mut |r, e| durable = (r, e));
        assert!((first..first + part).all(|i| found(&index, hash(i)).is_empty()));
        (first, next) = (first + part, next + part);
        assert!((first..next).all(|i| found(&index, hash(i)) == [i]));
    }
    let directory = index.directory.load();
    let strangers = (1..=20_000).map(|i| hash(next + i));
    let passed = strangers.filter(|hash| !directory.lacks(directory.find(*hash).ok().unwrap().0, *hash)).count();
    assert!(directory.depth() == depth && passed < 2_000, "{passed} of 20,000");
}

#[test]
fn a_filter_is_filled_from_the_file_but_for_damaged_pages() {
    let (_temp, file) = file();
    let (root, epoch) = (IndexRoot::empty(), 1);
    let (_, mut writer) = open(&file, root, epoch);
    let mut durable = (root, epoch);
    let keys = 50_000;
    let batch: BTreeMap<u64, u64> = (1..keys).map(|i| (hash(i), i)).collect();
    apply(&mut writer, &batch, &mut |r, e| durable = (r, e));
    drop(writer);
    let (index, _writer) = open(&file, durable.0, durable.1);
    let passed = |index: &Index| {
        let directory = index.directory.load();
        (keys..2 * keys).filter(|i| !directory.lacks(directory.find(hash(*i)).ok().unwrap().0, hash(*i))).count()
    };
    let fill = |index: &Index| while index.fill_filter(&mut Filling::default(), &mut |e| panic!("{e}")) {};
    assert_eq!(passed(&index), keys as usize);
    fill(&index);
    assert!(passed(&index) < keys as usize / 10, "{}", passed(&index));
    assert!(index.directory.load().is_filter_full());
    assert!((1..keys).all(|i| found(&index, hash(i)) == [i]));
    // A damaged leaf is not an error until a look-up reads it.
    let page = index.directory.load().find(hash(1)).ok().unwrap().1.page;
    file.write_at(b"damage", u64::from(page) * PAGE_BYTES as u64 + 100).unwrap();
    let (index, _writer) = open(&file, durable.0, durable.1);
    fill(&index);
    assert!(passed(&index) < keys as usize / 10);
    assert!(index.lookup(hash(1), &mut LastLeaf::default()).is_err());
    // Nor does filling replace the check at the first look-up.
    let page = index.directory.load().find(hash(2)).ok().unwrap().1.page;
    file.write_at(b"damage", u64::from(page) * PAGE_BYTES as u64 + 100).unwrap();
    assert!(index.lookup(hash(2), &mut LastLeaf::default()).is_err());
}

#[test]
fn blocks_of_a_filter_become_shorter_before_there_is_none() {
    let bytes = |entries| Filter::new(entries, 1 << 20).map(|filter| filter.bytes() as usize);
    let entries = [1 << 12, (1 << 20) / 192, (1 << 20) / 128, (1 << 20) / 64, (1 << 20) / 64 + 1];
    let expected = [Some(192 << 12), Some(entries[1] * 192), Some(1 << 20), Some(1 << 20), None];
    assert_eq!(entries.map(bytes), expected);
}

#[test]
fn a_filter_takes_no_more_memory_than_it_may_and_a_foreign_index_has_none() {
    let (_temp, file) = file();
    let bytes_max = 30_000;
    let us = Owner::Us { filter_bytes_max: bytes_max };
    let open = |root, epoch, owner| load(Arc::clone(&file), SEED, owner, root, epoch, &Limits::default()).unwrap();
    let loaded = open(IndexRoot::empty(), 1, us);
    let index = Arc::clone(&loaded.index);
    let mut writer = IndexWriter::new(loaded, IndexRoot::empty(), 2, Limits::default());
    let mut durable = (IndexRoot::empty(), 1);
    assert!((1..=bytes_max).contains(&index.filter_bytes()));
    for (keys, has_one) in [(1..2_000, true), (2_000..90_000, false)] {
        let batch: BTreeMap<u64, u64> = keys.clone().map(|i| (hash(i), i)).collect();
        apply(&mut writer, &batch, &mut |r, e| durable = (r, e));
        assert_eq!(index.filter_bytes() > 0, has_one);
        assert!(index.filter_bytes() <= bytes_max);
        assert_eq!(open(durable.0, durable.1, us).index.filter_bytes(), index.filter_bytes());
        let foreign = open(durable.0, durable.1, Owner::Other).index;
        assert_eq!(foreign.filter_bytes(), 0);
        assert!(keys.clone().all(|i| found(&index, hash(i)) == [i] && found(&foreign, hash(i)) == [i]));
    }
}
