//! Forged files: arbitrary bytes under valid checksums. Nothing panics or loops for ever, and keys
//! rise along every walk.

use std::ops::Bound;
use std::sync::Arc;

use filemap_io::header::seal;
use filemap_io::sim::SimDisk;

use super::super::change::Change;
use super::super::cursor::Cursor;
use super::super::format::{Home, Info, OrderedBlock, OrderedHeader};
use super::super::merge::Merge;
use super::super::run::Run;
use super::super::source::{Direction, Source};
use super::{Entries, entries, high, home, written};
use crate::run::{checksum, salt};

/// Changes a few bytes of a block, mostly near its front, and makes its checksum valid.
fn forge(rng: &mut fastrand::Rng, bytes: &mut [u8], number: u64) {
    let page = rng.usize(..bytes.len() / 4096);
    let pages = match page {
        0 => 1,
        _ => usize::from(OrderedBlock::PAGES.get(&bytes[page * 4096..])).clamp(1, bytes.len() / 4096 - page),
    };
    let block = &mut bytes[page * 4096..][..pages * 4096];
    for _ in 0..rng.usize(1..4) {
        let at = match rng.u8(..4) {
            0 => rng.usize(4..12),
            1 => rng.usize(12..100),
            2 => rng.usize(40..88),
            _ => rng.usize(4..block.len()),
        };
        let from = rng.usize(4..block.len());
        block[at] = match rng.u8(..4) {
            0 => rng.u8(..),
            1 => block[at] ^ 1 << rng.u8(..8),
            2 => [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)],
            _ => block[from],
        };
    }
    match page {
        0 => seal(block),
        _ => {
            let crc = checksum(&salt([5; 16], number), page as u64, block);
            OrderedBlock::CRC.put(block, crc);
        }
    }
}

/// Every read operation, within a bound of steps.
fn read(run: &Arc<Run>, keys: &[&Vec<u8>]) {
    let steps = run.entries().min(20_000) + 10;
    let _ = run.verify();
    for key in keys {
        let _ = run.sum_below(key);
        for is_back in [false, true] {
            let Ok(mut cursor) = Cursor::before(Arc::clone(run), key) else { continue };
            let mut last: Option<Vec<u8>> = None;
            for _ in 0..steps {
                let found = if is_back { cursor.back() } else { cursor.forward() };
                let Ok(Some((key, _))) = found else { break };
                let is_behind = |last: &Vec<u8>| if is_back { key < &last[..] } else { key > &last[..] };
                assert!(last.as_ref().is_none_or(is_behind));
                last = Some(key.to_vec());
            }
        }
    }
    let memory: [(&[u8], Change); 1] = [(b"a", Change::Added)];
    let sources = vec![Source::Run(Arc::clone(run)), Source::Memory(&memory)];
    let Ok(mut merge) = Merge::new(sources, Direction::Back, Bound::Unbounded) else { return };
    let mut count = 0;
    while let Ok(Some(_)) = merge.next_entry() {
        count += 1;
        assert!(count <= steps);
    }
}

fn forge_often(rng: &mut fastrand::Rng, home: &Home, disk: &SimDisk, entries: &Entries, rounds: usize) -> usize {
    let run = written(home, 1, entries);
    let (info, whole) = (run.info(), disk.bytes(run.name()).expect("there"));
    let keys: Vec<&Vec<u8>> = entries.keys().collect();
    let mut opened = 0;
    for _ in 0..rounds {
        let mut bytes = whole.clone();
        (0..rng.usize(1..3)).for_each(|_| forge(rng, &mut bytes, info.number));
        disk.set_bytes(run.name(), &bytes);
        // As the forged header says.
        let forged = Info {
            number: info.number,
            leaves: OrderedHeader::LEAVES.get(&bytes),
            pages: OrderedHeader::PAGES.get(&bytes),
            added: OrderedHeader::ADDED.get(&bytes),
            removed: OrderedHeader::REMOVED.get(&bytes),
        };
        let chosen = [keys[0], keys[rng.usize(..keys.len())]];
        for info in [info, forged] {
            if let Ok(run) = Run::open(home, info) {
                opened += 1;
                read(&Arc::new(run), &chosen);
            }
        }
    }
    opened
}

#[test]
fn forged_blocks_do_no_harm() {
    let mut rng = fastrand::Rng::with_seed(1);
    for entries in [high(), entries(&mut rng, 60, true), entries(&mut rng, 700, false)] {
        let disk = SimDisk::new(1);
        let opened = forge_often(&mut rng, &home(&disk), &disk, &entries, 1_500);
        assert!(opened > 500, "{opened}");
    }
}

/// Changed bytes: offset and new value.
type Changes<'a> = &'a [(usize, u8)];

/// Blocks that decode, each with one flaw.
#[test]
fn verification_finds_what_right_checksums_hide() {
    let disk = SimDisk::new(1);
    let home = home(&disk);
    let added = |nth: u32| (format!("com,example)/{nth:06}").into_bytes(), Change::Added);
    let entries: Entries = (0..3_000).map(added).collect();
    let run = written(&home, 1, &entries);
    let (info, whole) = (run.info(), disk.bytes(run.name()).expect("there"));
    let (root, height) = run.root();
    assert_eq!((height, root.pages), (1, 1));
    let inner = run.top().expect("an inner block");
    let mut separator = Vec::new();
    inner.separator(1, &mut separator);
    let (at, second) = (root.page as usize * 4096, inner.child(1));
    let in_root = |text: &[u8]| at + whole[at..].windows(text.len()).position(|bytes| bytes == text).expect("there");
    let end_of_separator = in_root(&separator) + separator.len() - 1;
    let used = OrderedBlock::BYTES_USED.get(&whole[at..]) as usize;
    let leaf = second.page as usize * 4096;
    let last = inner.child(inner.len() - 1).page as usize * 4096;
    let end_of_last = OrderedBlock::BYTES_USED.get(&whole[last..]) as usize;
    assert!(end_of_last < 4096);
    // A separator too high, one too low; a wrong sum, and one that another child's compensates; a
    // byte after the end of an inner block, of a leaf; keys below those of the leaf before.
    let cases: [(Changes<'_>, bool); 7] = [
        (&[(end_of_separator, whole[end_of_separator] + 1)], false),
        (&[(end_of_separator, whole[end_of_separator] - 1)], false),
        (&[(end_of_separator + 4, 1)], true),
        (&[(at + 13, whole[at + 13] - 1), (end_of_separator + 2, whole[end_of_separator + 2] + 1)], true),
        (&[(at + used + 1, 1)], false),
        (&[(last + end_of_last, 1)], false),
        (&[(leaf + 14 + 13, b'!')], true),
    ];
    for (nth, (changes, is_seen_by_cursors)) in cases.into_iter().enumerate() {
        let mut bytes = whole.clone();
        changes.iter().for_each(|(place, byte)| bytes[*place] = *byte);
        assert_ne!(bytes, whole, "case {nth}");
        let page = changes[0].0 / 4096;
        let crc = checksum(&salt([5; 16], 1), page as u64, &bytes[page * 4096..][..4096]);
        OrderedBlock::CRC.put(&mut bytes[page * 4096..], crc);
        disk.set_bytes(run.name(), &bytes);
        let walked = Run::open(&home, info).and_then(|run| super::all(&Arc::new(run)));
        assert!(!is_seen_by_cursors || walked.is_err(), "case {nth}");
        let verified = Run::open(&home, info).and_then(|run| run.verify());
        assert!(verified.is_err_and(|error| error.is_corrupt()), "case {nth}");
    }
}
