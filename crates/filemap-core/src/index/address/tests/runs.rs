//! Runs against a map: changes wait, are joined, settle and are found after reopening; keys with
//! the same hash bits; a partial settling that is forgotten; damaged pages.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use filemap_io::File;

use super::nodes::Noting;
use super::*;
use crate::format::run::{Change, PARTS};
use crate::index::address::{run_pages, runs};

/// Pages of a few changes, joined by threes.
fn limits() -> Limits {
    Limits {
        leaf_slots: 20,
        join_runs: 3,
        direct_pages: 0,
        direct_percent: 0,
        stage_changes: 5000,
        stage_pages: 4,
        flush_pages: 3,
        ..Limits::default()
    }
}

fn open(file: &Arc<dyn File>, root: IndexRoot, epoch: u64) -> (Arc<Index>, IndexWriter) {
    let loaded = load(Arc::clone(file), SEED, US, root, epoch, &limits()).unwrap();
    let index = Arc::clone(&loaded.index);
    (index, IndexWriter::new(loaded, root, epoch + 1, limits()))
}

/// Expected content of the index: for each hash the addresses of its keys, by the keys' numbers.
type Model = BTreeMap<u64, BTreeMap<u32, u64>>;

/// A checkpoint that gives keys new addresses, or removes them (0), and pays for `leaves`.
fn checkpoint(
    writer: &mut IndexWriter,
    model: &mut Model,
    batch: &BTreeMap<(u64, u32), u64>,
    leaves: u64,
    durable: &mut dyn FnMut(IndexRoot, u64),
) {
    writer.expect(batch.len() as u64);
    assert!(writer.writes_runs(batch.len() as u64, 1));
    let batch: Vec<(&(u64, u32), &u64)> = batch.iter().collect();
    for same in batch.chunk_by(|a, b| a.0.0 == b.0.0) {
        let hash = same[0].0.0;
        let old = writer.slots_of(hash).unwrap();
        let keys = model.entry(hash).or_default();
        let mut new = old.clone();
        for ((_, key), address) in same {
            let before = keys.get(key).copied().unwrap_or(0);
            new.retain(|s| s.key != before);
            keys.remove(key);
            if **address != 0 {
                new.push(slot(hash, **address));
                keys.insert(*key, **address);
            }
        }
        writer.enter(hash, &old, &new, Some(0));
        if writer.stage_is_full() {
            commit(writer, durable);
        }
    }
    writer.pay(leaves * 4 * PAGE_BYTES as u64);
    while writer.settle().unwrap() {
        if writer.wants_flush() {
            writer.flush().unwrap();
        }
        if writer.stage_is_full() {
            commit(writer, durable);
        }
    }
    writer.merge(None).unwrap();
    commit(writer, durable);
}

/// Compares every lookup, and the check in hash order.
fn agrees(index: &Index, model: &Model, root: &IndexRoot) {
    let mut want: Vec<u64> = Vec::new();
    for (hash, keys) in model {
        let mut slots = found(index, *hash);
        slots.sort_unstable();
        let mut keys: Vec<u64> = keys.values().copied().collect();
        keys.sort_unstable();
        assert_eq!(slots, keys, "{hash:x}");
        want.extend(keys);
    }
    assert!(found(index, hash(u64::MAX)).is_empty());
    let mut seen = Vec::new();
    index
        .check(
            &mut || Ok(()),
            &mut |slots| {
                assert!(slots.is_sorted_by_key(|s| s.hash));
                seen.extend(slots.iter().map(|s| s.key));
                Ok(())
            },
            &mut |page, what| panic!("page {page}: {what}"),
        )
        .unwrap();
    seen.sort_unstable();
    want.sort_unstable();
    assert_eq!(seen, want);
    assert_eq!(root.keys, want.len() as u64);
}

fn runs_of(index: &Index) -> usize {
    index.directory.load().runs().all().count()
}

#[test]
fn it_agrees_with_a_map_while_changes_wait_are_joined_and_settle() {
    let (_temp, file) = file();
    let mut model = Model::new();
    let (mut root, mut epoch) = (IndexRoot::empty(), 1);
    let (mut next, mut most, mut levels, mut least) = (1, 0, 0, usize::MAX);
    for round in 0..40u64 {
        // Reopened now and then: a settling in progress is forgotten.
        let (index, mut writer) = open(&file, root, epoch);
        for part in 0..1 + round % 3 {
            let mut batch = BTreeMap::new();
            for i in 0..400 {
                // Some keys share all hash bits that the index keeps.
                let (hash, key) = (hash((round * 7 + part * 3 + i * i) % 3000), (i % 11 / 10) as u32);
                let gone = i % 5 == 4 || round > 30 && i % 2 == 0;
                batch.insert((hash, key), if gone { 0 } else { next });
                next += 1;
            }
            let pays = [0, 0, 0, 0, 0, 0, 40, 3, 0, 700, 0, 0, 100_000][(round % 13) as usize];
            checkpoint(&mut writer, &mut model, &batch, pays, &mut |r, e| (root, epoch) = (r, e));
        }
        agrees(&index, &model, &root);
        let again = load(Arc::clone(&file), SEED, Owner::Other, root, epoch, &limits()).unwrap().index;
        agrees(&again, &model, &root);
        most = most.max(runs_of(&index));
        if round > 0 {
            least = least.min(runs_of(&index));
        }
        levels = levels.max(index.directory.load().runs().all().map(|run| run.level).max().unwrap_or(0));
    }
    assert!(most > PARTS && levels >= 2, "{most} {levels}");
    // After a checkpoint that pays for everything, only what it has just written is left.
    assert!(least <= PARTS, "{least}");
}

#[test]
fn what_the_last_durable_root_names_is_untouched_until_the_next_is_durable() {
    let (_temp, file) = file();
    let (_, mut writer) = open(&file, IndexRoot::empty(), 1);
    let mut model = Model::new();
    let mut last = (IndexRoot::empty(), 1);
    for round in 0..12u64 {
        let before = model.clone();
        let batch: BTreeMap<(u64, u32), u64> = (0..3000).map(|i| ((hash(i), 0), round * 10_000 + i + 1)).collect();
        let mut after = before.clone();
        batch.iter().for_each(|((hash, key), address)| {
            after.entry(*hash).or_default().insert(*key, *address);
        });
        checkpoint(&mut writer, &mut model, &batch, 150, &mut |root, epoch| {
            let index = load(Arc::clone(&file), SEED, US, last.0, last.1, &limits()).unwrap().index;
            for i in (0..3000).step_by(7) {
                let keys = found(&index, hash(i));
                let is =
                    |model: &Model| model.get(&hash(i)).is_some_and(|m| m.values().copied().eq(keys.iter().copied()));
                assert!(is(&before) || is(&after) || before.is_empty() && keys.is_empty(), "{i}: {keys:?}");
            }
            last = (root, epoch);
        });
    }
    // Pages of joined and settled runs are reused.
    assert!(last.0.pages < 4000, "{:?}", last.0);
}

#[test]
fn readers_never_miss_a_key_while_runs_come_and_go() {
    let (_temp, file) = file();
    let (index, mut writer) = open(&file, IndexRoot::empty(), 1);
    let mut model = Model::new();
    let all = |round: u64| (1..3000).map(|i| ((hash(i), 0), i + round * 100_000)).collect();
    checkpoint(&mut writer, &mut model, &all(0), 0, &mut |_, _| {});
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        for t in 0..2 {
            let (index, done) = (&index, &done);
            s.spawn(move || {
                let mut i = t;
                while !done.load(Ordering::Relaxed) {
                    i = i % 2999 + 1;
                    let keys = found(index, hash(i));
                    assert!(keys.len() == 1 && keys[0] % 100_000 == i, "{i}: {keys:?}");
                }
            });
        }
        for round in 1..25 {
            checkpoint(&mut writer, &mut model, &all(round), 200, &mut |_, _| {});
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_damaged_page_of_a_run_is_reported_and_its_part_does_not_settle() {
    let (_temp, file) = file();
    let mut model = Model::new();
    let (mut root, mut epoch) = (IndexRoot::empty(), 1);
    let (index, mut writer) = open(&file, root, epoch);
    let batch = |from: u64| (0..2000).map(|i| ((hash(i), 0), from + i)).collect();
    checkpoint(&mut writer, &mut model, &batch(1), 0, &mut |r, e| (root, epoch) = (r, e));
    let hit = Arc::clone(&index.directory.load().runs().parts[runs::part_of(hash(7))][0]);
    let spoil = |page: u32| file.write_at(&[0xaa; 9], u64::from(page) * PAGE_BYTES as u64 + 100).unwrap();
    let flaws_of = |index: &Index| {
        let (mut slots, mut flaws) = (0, Vec::new());
        let pages = index
            .check(
                &mut || Ok(()),
                &mut |s| {
                    slots += s.len();
                    Ok(())
                },
                &mut |page, what| flaws.push((page, what.to_owned())),
            )
            .unwrap();
        assert_eq!(pages, index.run_pages());
        (slots, flaws)
    };
    // A damaged summary alone loses nothing: it is rebuilt from its pages.
    spoil(hit.groups[0].page);
    let summary = (hit.groups[0].page, "checksum mismatch in a summary".to_owned());
    let (index, _) = open(&file, root, epoch);
    assert!((0..2000).all(|i| found(&index, hash(i)) == [1 + i]));
    assert_eq!(flaws_of(&index), (2000, vec![summary.clone()]));
    hit.all_pages().skip(1).for_each(spoil);
    let (index, mut writer) = open(&file, root, epoch);
    let lookup = index.lookup(hash(7), &mut LastLeaf::default());
    let at = u64::from(hit.groups[0].page) * PAGE_BYTES as u64;
    assert!(
        matches!(&lookup, Err(Error::Storage(StorageError::Corrupt { offset, .. })) if *offset == at),
        "{:?}",
        lookup.map(|_| ())
    );
    let others = (0..2000).filter(|i| runs::part_of(hash(*i)) != usize::from(hit.part));
    assert!(others.clone().all(|i| found(&index, hash(i)) == [1 + i]));
    let (slots, flaws) = flaws_of(&index);
    assert_eq!(slots, others.clone().count());
    let bad = |page| (page, "checksum mismatch in a page of changes".to_owned());
    let want: Vec<_> = std::iter::once(summary).chain(hit.all_pages().skip(1).map(bad)).collect();
    assert_eq!(flaws, want);
    // The other parts settle.
    let mine: BTreeMap<(u64, u32), u64> = others.clone().take(50).map(|i| ((hash(i), 0), 10_000 + i)).collect();
    for _ in 0..2 {
        checkpoint(&mut writer, &mut model, &mine, 100_000, &mut |r, e| (root, epoch) = (r, e));
    }
    let left: Vec<u8> = index.directory.load().runs().all().filter(|run| run.changes > 5).map(|run| run.part).collect();
    assert_eq!(left, [hit.part]);
}

#[test]
fn a_list_of_runs_that_cannot_be_is_refused() {
    let (_temp, file) = file();
    let (index, mut writer) = open(&file, IndexRoot::empty(), 1);
    let batch = (0..3000).map(|i| ((hash(i), 0), i + 1)).collect();
    let mut at = (IndexRoot::empty(), 1);
    checkpoint(&mut writer, &mut Model::new(), &batch, 0, &mut |r, e| at = (r, e));
    let words = index.directory.load().runs().encode();
    let decode = |words: &[u64]| runs::Runs::decode(words, at.0.pages, at.1);
    assert_eq!(decode(&words).unwrap().encode(), words);
    assert!(decode(&words[..4]).is_err() && decode(&words[..7]).is_err());
    assert!(decode(&words[..1]).is_err());
    let head = |part: u64, runs: u64, next: u64| [&[part << 56 | runs, next], &words[2..]].concat();
    assert_eq!(decode(&head(3, 1, 3 << 57 | 9)).unwrap().encode(), head(3, 1, 3 << 57 | 9));
    assert!(decode(&head(3, 2, 3 << 57)).is_err() && decode(&head(3, 1, 4 << 57)).is_err());
    assert!(decode(&head(200, 1, 3 << 57)).is_err());
    assert!(runs::Runs::decode(&words, 5, at.1).is_err() && runs::Runs::decode(&words, at.0.pages, 1).is_err());
    for (word, change) in [(2, 1 << 63), (2, 1 << 31), (3, 1 << 50), (5, 0xffff_ffff)] {
        let mut bad = words.clone();
        bad[word] ^= change;
        assert!(decode(&bad).is_err(), "word {word}");
    }
    let first = 2 + (words.len() - 2) / PARTS;
    let swapped = [&words[..2], &words[first..], &words[2..first]].concat();
    assert!(decode(&swapped).is_err());
}

#[test]
fn changes_applied_again_change_nothing() {
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..500 {
        // Chains of a few keys, some of which share a hash.
        let (mut now, mut next) = ([0u64; 5], 1);
        let place = |key: usize| hash(key as u64 / 2);
        let mut leaf: Vec<Slot> = Vec::new();
        let mut all: Vec<Change> = Vec::new();
        for nth in 0..rng.usize(1..30) {
            let key = rng.usize(..now.len());
            let is_removed = now[key] != 0 && rng.u8(..4) == 0;
            // Addresses of removed records are reused.
            let free: Vec<u64> = (1..next).filter(|address| !now.contains(address)).collect();
            let address = match rng.choice(&free) {
                _ if is_removed => 0,
                Some(free) if rng.bool() => *free,
                _ => next,
            };
            next += 1;
            let mut to = slot(place(key), address.max(1));
            to.key = address;
            if nth < 6 {
                // The leaf with the changes so far.
                leaf.retain(|s| s.key != now[key]);
                if address != 0 {
                    leaf.push(to);
                }
            } else {
                all.push(Change { slot: to, replaces: now[key] });
            }
            now[key] = address;
        }
        leaf.sort_by_key(|s| s.hash);
        let sorted = |slots: &[Slot]| {
            let mut keys: Vec<(u64, u64)> = slots.iter().map(|s| (s.hash, s.key)).collect();
            keys.sort_unstable();
            keys
        };
        let mut whole = leaf.clone();
        run_pages::apply(&mut whole, &all);
        let live = now.iter().filter(|address| **address != 0).count();
        assert_eq!(whole.len(), live);
        for partly in 0..=all.len() {
            let mut slots = leaf.clone();
            run_pages::apply(&mut slots, &all[..partly]);
            run_pages::apply(&mut slots, &all);
            assert_eq!(sorted(&slots), sorted(&whole));
        }
    }
}

#[test]
fn a_group_is_one_request_with_its_neighbours_once_the_run_was_read() {
    let (_temp, file) = file();
    let (mut root, mut epoch) = (IndexRoot::empty(), 1);
    let (_, mut writer) = open(&file, root, epoch);
    // All in one part.
    let mut keys: Vec<u64> = (0..1200).map(|i| hash(i) >> PARTS.ilog2()).collect();
    keys.sort_unstable();
    let mut model = Model::new();
    let mut load_after = |model: &mut Model, from: u64| {
        let mut batch: BTreeMap<(u64, u32), u64> = keys.iter().zip(from..).map(|(hash, i)| ((*hash, 0), i)).collect();
        if model.is_empty() {
            // Another part, which is fuller, so that it settles first.
            batch.extend((0..1300).map(|i| ((1 << 57 | hash(i) >> PARTS.ilog2(), 0), 5000 + i)));
        }
        checkpoint(&mut writer, model, &batch, 0, &mut |r, e| (root, epoch) = (r, e));
        let noting = Arc::new(Noting::of(Arc::clone(&file)));
        let index = load(noting.clone(), SEED, US, root, epoch, &limits()).unwrap().index;
        noting.asked.lock().unwrap().clear();
        (index, noting)
    };
    let (index, noting) = load_after(&mut model, 1);
    let run = Arc::clone(&index.directory.load().runs().parts[0][0]);
    assert!(run.groups.len() == 9 && run.pages == 60, "twenty changes a page: {run:?}");
    let pages = |groups: Range<usize>| {
        let last = groups.end - 1;
        u64::from(run.groups[groups.start].page)..u64::from(run.groups[last].page) + 1 + run.pages_of(last) as u64
    };
    let asked = |group: usize| {
        let key = group * 140 + 70;
        assert_eq!(found(&index, keys[key]), [1 + key as u64]);
        std::mem::take(&mut *noting.asked.lock().unwrap())
    };
    assert_eq!(asked(5), [pages(5..6)], "the first one alone");
    assert_eq!(asked(2), [pages(0..4)]);
    assert_eq!(asked(8), [pages(8..9)]);
    assert!(asked(2).is_empty() && asked(5).is_empty());
    // Of two runs, both groups before one of them is read.
    let (index, noting) = load_after(&mut model, 10_001);
    assert_eq!(found(&index, keys[70]), [10_071]);
    assert_eq!(noting.asked.lock().unwrap().len(), 2);
}
