//! Runs of two formats: fixed-width fingerprints, and texts with values of any length.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use filemap_io::header::{Kind, seal};
use filemap_io::sim::SimDisk;
use filemap_io::{Access, StorageError, varint};
use filemap_runs::fixed::Fixed;
use filemap_runs::{
    BLOCK_BYTES, CHUNK_BLOCKS, Cursor, Format, Found, Home, Run, RunInfo, RunReader, RunWriter, Source,
};

const FILTER_BYTES: usize = 1024;

/// Texts, each with a value or a tombstone.
#[derive(Clone, Debug)]
struct Texts;

type Text = (Vec<u8>, Option<Vec<u8>>);

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(varint::take(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(bytes)
}

impl Format for Texts {
    type Entry = Text;
    type Key<'a> = &'a [u8];

    const KIND: Kind = Kind { magic: *b"TESTRUN1", version: 2, what: "run of texts" };
    const ENTRIES_MAX: usize = 256;

    fn parameter(&self) -> u32 {
        0
    }

    fn key<'a>(&self, entry: &'a Text) -> &'a [u8] {
        &entry.0
    }

    fn compare(&self, entry: &Text, key: &[u8]) -> Ordering {
        entry.0[..].cmp(key)
    }

    fn is_tombstone(&self, entry: &Text) -> bool {
        entry.1.is_none()
    }

    fn head(&self, key: &[u8]) -> u64 {
        let mut first = [0; 8];
        let len = key.len().min(8);
        first[..len].copy_from_slice(&key[..len]);
        u64::from_be_bytes(first)
    }

    fn hash(&self, key: &[u8]) -> u64 {
        // FNV-1a, then the finaliser of SplitMix64.
        let hash = key
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }

    fn encode(&self, entries: &[Text], block: &mut [u8]) -> usize {
        let (mut bytes, mut taken) = (vec![0; 6], 0);
        for (key, value) in entries {
            let before = bytes.len();
            varint::put(&mut bytes, key.len() as u64);
            bytes.extend_from_slice(key);
            bytes.push(u8::from(value.is_some()));
            varint::put(&mut bytes, value.as_ref().map_or(0, Vec::len) as u64);
            bytes.extend_from_slice(value.as_deref().unwrap_or_default());
            if bytes.len() > BLOCK_BYTES {
                bytes.truncate(before);
                break;
            }
            taken += 1;
        }
        bytes[4..6].copy_from_slice(&(taken as u16).to_le_bytes());
        block[..bytes.len()].copy_from_slice(&bytes);
        taken
    }

    fn decode(&self, block: &[u8], entries: &mut Vec<Text>) -> bool {
        let (count, mut rest) = (u16::from_le_bytes([block[4], block[5]]), &block[6..]);
        let mut entry = || {
            let key = take(&mut rest)?.to_vec();
            let (has_value, after) = rest.split_first()?;
            rest = after;
            let value = take(&mut rest)?.to_vec();
            Some((key, (*has_value == 1).then_some(value)))
        };
        (0..count).all(|_| entry().map(|entry| entries.push(entry)).is_some())
    }

    fn find(&self, block: &[u8], key: &[u8]) -> Option<Found<Text>> {
        let mut entries = Vec::new();
        if !self.decode(block, &mut entries) || entries.is_empty() {
            return None;
        }
        Some(match entries.into_iter().rev().find(|entry| &entry.0[..] <= key) {
            None => Found::Before,
            Some(entry) if entry.0 == key => Found::Entry(entry),
            Some(_) => Found::Absent,
        })
    }
}

fn home<F: Format>(disk: &SimDisk, format: F) -> Home<F> {
    Home::new(disk.dir(), "set", [5; 16], format)
}

fn written<F: Format>(home: &Home<F>, number: u64, entries: &[F::Entry]) -> Arc<Run<F>> {
    let mut writer = RunWriter::create(home, number).expect("created");
    entries.iter().for_each(|entry| writer.push(entry.clone()).expect("pushed"));
    let written = writer.end().expect("ended").expect("not empty");
    written.sync().expect("synced");
    Arc::new(Run::open(home, written.info()).expect("opens"))
}

/// Texts whose first 64 bits are equal over several blocks, as URLs of one host are.
fn texts(rng: &mut fastrand::Rng, count: usize) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let text = |rng: &mut fastrand::Rng| {
        let host = rng.u32(0..3);
        format!("com,example,{host})/{}", rng.u32(0..50_000)).into_bytes()
    };
    let value = |rng: &mut fastrand::Rng| (0..rng.usize(0..60)).map(|_| rng.u8(..)).collect();
    (0..count).map(|_| (text(rng), if rng.u8(..5) == 0 { None } else { Some(value(rng)) })).collect()
}

fn all<F: Format>(mut source: Source<'_, F>) -> Result<Vec<F::Entry>, StorageError> {
    let mut entries = Vec::new();
    loop {
        let before = entries.len();
        source.fill(&mut entries)?;
        if entries.len() == before {
            return Ok(entries);
        }
    }
}

#[test]
fn texts_with_values_are_found_and_nothing_else() {
    let mut rng = fastrand::Rng::with_seed(1);
    let disk = SimDisk::new(1);
    let home = home(&disk, Texts);
    let model = texts(&mut rng, 4_000);
    let entries: Vec<Text> = model.clone().into_iter().collect();
    let run = written(&home, 1, &entries);
    let tombstones = model.values().filter(|value| value.is_none()).count() as u64;
    assert_eq!((run.info().entries(), run.info().tombstones), (model.len() as u64, tombstones));
    assert!(run.info().blocks > 20 && run.info().is_possible::<Texts>());
    for (key, value) in &model {
        assert_eq!(run.find(key).expect("read"), Some((key.clone(), value.clone())));
        let other = [key, &b"x"[..]].concat();
        assert_eq!(run.find(&other).expect("read").is_some(), model.contains_key(&other));
    }
    assert_eq!(run.find(b"a").expect("read"), None);
    assert_eq!(all(Source::Run(RunReader::new(run))).expect("read"), entries);
}

#[test]
fn a_cursor_goes_both_ways_from_any_key_on() {
    let mut rng = fastrand::Rng::with_seed(2);
    let disk = SimDisk::new(1);
    let home = home(&disk, Texts);
    let entries: Vec<Text> = texts(&mut rng, 3_000).into_iter().collect();
    let run = written(&home, 1, &entries);
    let mut cursor = Cursor::first(Arc::clone(&run)).expect("read");
    assert!(cursor.back().expect("read").is_none());
    for entry in &entries {
        assert_eq!(cursor.forward().expect("read"), Some(entry));
    }
    assert!(cursor.forward().expect("read").is_none());
    let mut cursor = Cursor::last(Arc::clone(&run)).expect("read");
    for entry in entries.iter().rev() {
        assert_eq!(cursor.back().expect("read"), Some(entry));
    }
    for _ in 0..300 {
        let (entry, cut) = (&entries[rng.usize(..entries.len())], rng.bool());
        let key = &entry.0[..entry.0.len() - usize::from(cut)];
        let mut at = entries.partition_point(|entry| &entry.0[..] < key);
        cursor.seek(key).expect("read");
        for _ in 0..rng.usize(1..200) {
            let is_forward = rng.bool();
            let (got, expected) = match is_forward {
                true => (cursor.forward(), entries.get(at)),
                false => (cursor.back(), at.checked_sub(1).and_then(|at| entries.get(at))),
            };
            assert_eq!(got.expect("read"), expected);
            match is_forward {
                true => at = (at + 1).min(entries.len()),
                false => at = at.saturating_sub(1),
            }
        }
    }
}

#[test]
fn the_newest_entry_of_a_key_counts_in_a_merge() {
    let mut rng = fastrand::Rng::with_seed(3);
    let disk = SimDisk::new(1);
    let home = home(&disk, Texts);
    let mut model = BTreeMap::new();
    let mut runs = Vec::new();
    for number in 1..=4 {
        let some = texts(&mut rng, 2_000);
        let entries: Vec<Text> = some.clone().into_iter().collect();
        runs.insert(0, written(&home, number, &entries));
        model.extend(some);
    }
    let recent: Vec<Text> = texts(&mut rng, 500).into_iter().collect();
    model.extend(recent.clone());
    let mut sources = vec![Source::Memory(&recent[..])];
    sources.extend(runs.iter().map(|run| Source::Run(RunReader::new(Arc::clone(run)))));
    assert_eq!(all(Source::merged(sources, &Texts)).expect("read"), model.into_iter().collect::<Vec<Text>>());
    assert!(all(Source::<Texts>::merged(Vec::new(), &Texts)).expect("nothing").is_empty());
}

#[test]
fn the_newest_entry_of_a_fingerprint_counts_in_a_merge() {
    let fixed = Fixed::new(80);
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..20 {
        let mut model = BTreeMap::new();
        let mut sources: Vec<Vec<u128>> = Vec::new();
        let entries = |some: &BTreeMap<u128, bool>| -> Vec<u128> {
            some.iter().map(|(key, is_tombstone)| key | if *is_tombstone { fixed.mark() } else { 0 }).collect()
        };
        for _ in 0..rng.usize(0..6) {
            let some: BTreeMap<u128, bool> =
                (0..rng.usize(0..20_000)).map(|_| (rng.u128(0..30_000) << 60, rng.bool())).collect();
            sources.insert(0, entries(&some));
            model.extend(some);
        }
        let merged = Source::merged(sources.iter().map(|source| Source::Memory(source)).collect(), &fixed);
        assert!(all(merged).expect("in memory") == entries(&model));
    }
}

#[test]
fn any_flipped_bit_is_an_error_and_never_another_answer() {
    let mut rng = fastrand::Rng::with_seed(4);
    let disk = SimDisk::new(1);
    let home = home(&disk, Fixed::new(80));
    let mut entries: Vec<u128> = (0..2_500).map(|_| rng.u128(..) & home.format.mask()).collect();
    entries.sort_unstable();
    let run = written(&home, 1, &entries);
    let whole = disk.bytes("set.000001.run").expect("there");
    let blocks = run.info().blocks as usize;
    let filters = (1 + blocks) * BLOCK_BYTES..(1 + blocks) * BLOCK_BYTES + blocks * FILTER_BYTES;
    for at in 0..whole.len() {
        // The header and the first block completely, a sample of the rest.
        if at % 7 > 0 && at >= 2 * BLOCK_BYTES {
            continue;
        }
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        disk.set_bytes("set.000001.run", &bytes);
        let read = Run::open(&home, run.info()).and_then(|run| all(Source::Run(RunReader::new(Arc::new(run)))));
        let in_filters = filters.contains(&at);
        // A full pass needs no filters.
        assert!(
            matches!(read, Err(StorageError::Corrupt { .. })) || in_filters && read.is_ok_and(|read| read == entries),
            "byte {at}"
        );
        // Look-ups and a cursor give the right answer from whole blocks, else an error.
        let Ok(run) = Run::open(&home, run.info()) else { continue };
        let block = if in_filters { (at - filters.start) / FILTER_BYTES } else { at / BLOCK_BYTES - 1 } as u64;
        let first = |block: usize| run.index()[block];
        let in_block = |entry: &&u128| {
            let head = (**entry >> 64) as u64;
            head > first(block as usize) && run.index().get(block as usize + 1).is_none_or(|next| head < *next)
        };
        let (inside, outside) = (entries.iter().find(in_block), entries.iter().find(|entry| !in_block(entry)));
        assert!(matches!(run.find(*inside.expect("some")), Err(StorageError::Corrupt { .. })), "byte {at}");
        let outside = *outside.expect("some");
        // An error too: the key may be the first of the block.
        let found = run.find(outside);
        assert!(
            found.as_ref().map_or_else(StorageError::is_corrupt, |found| *found == Some(outside)),
            "byte {at}: {found:?}"
        );
        let mut cursor = match Cursor::first(Arc::new(run)) {
            Ok(cursor) => cursor,
            Err(error) => {
                assert!(block == 0 && error.is_corrupt(), "byte {at}: {error}");
                continue;
            }
        };
        let read = entries.iter().try_for_each(|entry| {
            assert_eq!(cursor.forward()?, Some(entry), "byte {at}");
            Ok::<_, StorageError>(())
        });
        assert!(read.map_or_else(|error| error.is_corrupt(), |()| in_filters), "byte {at}");
    }
    // A whole block from another place, then from another run.
    let mut bytes = whole.clone();
    bytes.copy_within(BLOCK_BYTES..2 * BLOCK_BYTES, 2 * BLOCK_BYTES);
    disk.set_bytes("set.000001.run", &bytes);
    let swapped = Run::open(&home, run.info()).and_then(|run| all(Source::Run(RunReader::new(Arc::new(run)))));
    assert!(matches!(swapped, Err(StorageError::Corrupt { offset: 8192, .. })));
    written(&home, 2, &entries);
    let other = disk.bytes("set.000002.run").expect("there");
    let mut bytes = whole.clone();
    bytes[BLOCK_BYTES..2 * BLOCK_BYTES].copy_from_slice(&other[BLOCK_BYTES..2 * BLOCK_BYTES]);
    disk.set_bytes("set.000001.run", &bytes);
    let foreign = Run::open(&home, run.info()).and_then(|run| all(Source::Run(RunReader::new(Arc::new(run)))));
    assert!(matches!(foreign, Err(StorageError::Corrupt { offset: 4096, .. })));
}

#[test]
fn a_number_whose_name_is_taken_is_passed_over_and_an_empty_run_leaves_no_file() {
    let disk = SimDisk::new(1);
    let home = home(&disk, Fixed::new(64));
    disk.set_bytes("set.000003.run", b"somebody else's");
    let run = written(&home, 3, &[1 << 100]);
    assert_eq!((run.info().number, run.name()), (4, "set.000004.run"));
    assert!(RunWriter::create(&home, 9).expect("created").end().expect("ended").is_none());
    assert_eq!(disk.names().len(), 2);
}

#[test]
fn an_entry_that_fits_no_block_is_an_error_and_never_an_endless_run() {
    let disk = SimDisk::new(1);
    let home = home(&disk, Texts);
    let mut writer = RunWriter::create(&home, 1).expect("created");
    writer.push((b"a".to_vec(), Some(vec![1]))).expect("pushed");
    writer.push((b"b".to_vec(), Some(vec![1; BLOCK_BYTES]))).expect("pushed, not written yet");
    writer.push((b"c".to_vec(), None)).expect("pushed");
    assert!(matches!(writer.end(), Err(StorageError::Full { .. })));
}

#[test]
fn what_no_run_is_like_is_refused_before_anything_is_read() {
    let disk = SimDisk::new(1);
    let home = home(&disk, Fixed::new(80));
    let info = written(&home, 1, &[1 << 100, 1 << 101]).info();
    for blocks in [0, 3, 1 << 41, u64::MAX] {
        let opened = Run::open(&home, RunInfo { blocks, ..info });
        assert!(opened.is_err_and(|error| error.is_corrupt()), "{blocks} blocks");
    }
    // A run that was created but never completed.
    drop(RunWriter::create(&home, 2).expect("created"));
    assert!(Run::open(&home, RunInfo { number: 2, ..RunInfo::default() }).is_err_and(|error| error.is_corrupt()));
}

/// Block reads for absent keys.
#[test]
fn filters_save_the_reads_of_what_is_not_there() {
    let disk = SimDisk::new(1);
    let home = home(&disk, Fixed::new(80));
    let mut rng = fastrand::Rng::with_seed(4);
    // More than two groups of blocks.
    let mut entries: Vec<u128> = (0..180_000).map(|_| rng.u128(..) & home.format.mask()).collect();
    entries.sort_unstable();
    let run = written(&home, 1, &entries);
    assert!(run.info().blocks > 256 && !run.info().blocks.is_multiple_of(128));
    let reads = || home.traffic.counts().0;
    let before = reads();
    for entry in entries.iter().step_by(7) {
        assert_eq!(run.find(*entry).expect("read"), Some(*entry));
    }
    assert_eq!(reads() - before, entries.len().div_ceil(7) as u64);
    let before = reads();
    for _ in 0..20_000 {
        assert_eq!(run.find(rng.u128(..) & home.format.mask()).expect("read"), None);
    }
    assert!(reads() - before < 400, "{}", reads() - before);
    assert_eq!(all(Source::Run(RunReader::new(run))).expect("read"), entries);
}

#[test]
fn a_block_in_which_a_key_was_found_is_not_read_again() {
    let disk = SimDisk::new(1);
    let home = home(&disk, Fixed::new(80));
    let mut rng = fastrand::Rng::with_seed(6);
    let mut entries: Vec<u128> = (0..180_000).map(|_| rng.u128(..) & home.format.mask()).collect();
    entries.sort_unstable();
    entries.iter_mut().step_by(5).for_each(|entry| *entry |= home.format.mark());
    let run = written(&home, 1, &entries);
    let read = || home.traffic.counts().1;
    let strangers: Vec<u128> = (0..20_000).map(|_| rng.u128(..) & home.format.mask()).collect();
    let ask = || {
        entries.iter().for_each(|entry| assert_eq!(run.find(home.format.key(entry)).expect("read"), Some(*entry)));
        strangers.iter().for_each(|entry| assert_eq!(run.find(*entry).expect("read"), None));
    };
    let blocks_read = |before: u64| (read() - before) / BLOCK_BYTES as u64;
    // False positives of the filters read a block each time.
    let ask_for_strangers = || {
        let before = read();
        strangers.iter().for_each(|entry| assert_eq!(run.find(*entry).expect("read"), None));
        blocks_read(before)
    };
    // The first time, each filter is read too.
    assert!(ask_for_strangers() >= run.info().blocks * FILTER_BYTES as u64 / BLOCK_BYTES as u64);
    let positives = ask_for_strangers();
    assert!(positives > 10 && positives == ask_for_strangers(), "{positives}");
    let before = read();
    ask();
    assert_eq!(blocks_read(before), run.info().blocks);
    let before = read();
    ask();
    assert_eq!(read(), before);
    // Another handle begins anew.
    let run = Run::open(&home, run.info()).expect("opens");
    let before = read();
    assert_eq!(run.find(home.format.key(&entries[0])).expect("read"), Some(entries[0]));
    assert_eq!(read() - before, (BLOCK_BYTES + FILTER_BYTES) as u64);
}

/// As version 1 wrote it: blocks without filters.
#[test]
fn a_run_without_filters_is_read() {
    let disk = SimDisk::new(1);
    let home = home(&disk, Fixed::new(80));
    let entries: Vec<u128> = (1..=100_000u128).map(|entry| entry << 90).collect();
    let run = written(&home, 1, &entries);
    let (info, dir) = (run.info(), disk.dir());
    let file = dir.open(run.name(), Access::Read).expect("opens");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_at(&mut bytes, 0).expect("read");
    let (mut old, index) = (bytes[..BLOCK_BYTES].to_vec(), bytes.len() - 8 * info.blocks as usize);
    for group in bytes[BLOCK_BYTES..index].chunks(CHUNK_BLOCKS * (BLOCK_BYTES + FILTER_BYTES)) {
        old.extend_from_slice(&group[..group.len() / (BLOCK_BYTES + FILTER_BYTES) * BLOCK_BYTES]);
    }
    old.extend_from_slice(&bytes[index..]);
    (old[8], old[10]) = (1, 1);
    old[68..72].fill(0);
    seal(&mut old[..BLOCK_BYTES]);
    dir.remove(run.name()).expect("removed");
    dir.open(run.name(), Access::Create).expect("created").write_at(&old, 0).expect("written");
    let run = Arc::new(Run::open(&home, info).expect("opens"));
    assert_eq!(run.disk_bytes(), old.len() as u64);
    assert_eq!(run.find(5 << 90).expect("read"), Some(5 << 90));
    assert_eq!(run.find(5 << 90 | 1 << 80).expect("read"), None);
    assert_eq!(all(Source::Run(RunReader::new(run))).expect("read"), entries);
}

#[test]
fn a_header_with_filters_that_no_version_has_is_refused() {
    let disk = SimDisk::new(1);
    let home = home(&disk, Fixed::new(80));
    let run = written(&home, 1, &[1 << 100, 1 << 101]);
    let whole = disk.bytes(run.name()).expect("there");
    for (version, filter_bytes) in [(2u16, 0u32), (2, 1), (2, 1023), (2, u32::MAX), (1, 1024)] {
        let mut bytes = whole.clone();
        bytes[8..10].copy_from_slice(&version.to_le_bytes());
        bytes[68..72].copy_from_slice(&filter_bytes.to_le_bytes());
        seal(&mut bytes[..BLOCK_BYTES]);
        disk.set_bytes(run.name(), &bytes);
        let opened = Run::open(&home, run.info());
        assert!(
            matches!(opened, Err(StorageError::Corrupt { offset: 68, .. })),
            "version {version}, {filter_bytes} bytes: {opened:?}"
        );
    }
    let longer = [&whole[..], &[0; FILTER_BYTES]].concat();
    disk.set_bytes(run.name(), &longer);
    assert!(Run::open(&home, run.info()).is_err_and(|error| error.is_corrupt()));
}

/// Blocks lie in groups of 128, each followed by its filters.
#[test]
fn blocks_are_found_at_the_borders_of_groups() {
    let disk = SimDisk::new(1);
    let home = home(&disk, Fixed::new(80));
    for (number, blocks) in [(1, 1), (2, 127), (3, 128), (4, 129), (5, 256), (6, 300)] {
        // The densest blocks: 1024 entries.
        let entries: Vec<u128> = (1..=blocks as u128 * 1024).map(|entry| entry << 48).collect();
        let run = written(&home, number, &entries);
        assert_eq!(run.info().blocks, blocks);
        for entry in entries.iter().step_by(511) {
            assert_eq!(run.find(*entry).expect("read"), Some(*entry));
        }
        assert_eq!(run.find((blocks as u128 * 1024 + 1) << 48).expect("read"), None);
        for (start, end) in [(0, blocks), (blocks / 3, blocks), (126, 130), (100, 299)] {
            let (start, end) = (start.min(blocks), end.min(blocks));
            let mut together = vec![0; (end - start) as usize * BLOCK_BYTES];
            run.read_blocks(start..end, &mut together).expect("read");
            for (number, bytes) in (start..end).zip(together.chunks(BLOCK_BYTES)) {
                let mut alone = [0; BLOCK_BYTES];
                run.read_block(number, &mut alone).expect("read");
                assert!(alone == bytes, "block {number} of {blocks}");
            }
        }
    }
}

/// The index holds 64 bits of a key: if many keys share them, several blocks have equal heads.
#[test]
fn keys_that_the_index_cannot_tell_apart_are_found() {
    let disk = SimDisk::new(1);
    let home = home(&disk, Fixed::new(80));
    let mut rng = fastrand::Rng::with_seed(8);
    let heads = [3u128, 7, 8];
    let mut entries = Vec::new();
    for head in heads {
        // Odd tails only, so that every even one is absent.
        let mut tails: Vec<u128> = (0..3_000).map(|_| rng.u128(10..32_000) * 2 + 1).collect();
        tails.sort_unstable();
        tails.dedup();
        entries.extend(tails.iter().map(|tail| head << 64 | tail << 48));
    }
    let run = written(&home, 1, &entries);
    assert!(run.index().windows(3).any(|three| three[0] == three[2]), "no three blocks begin alike");
    for entry in &entries {
        assert_eq!(run.find(*entry).expect("read"), Some(*entry));
        assert_eq!(run.find(entry + (1 << 48)).expect("read"), None);
    }
    for head in 0..10u128 {
        for tail in [0, 1, 65_535] {
            assert_eq!(run.find(head << 64 | tail << 48).expect("read"), None, "{head} {tail}");
        }
    }
}
