//! Looks up the records of a batch in a run, block by block.

use std::ops::Range;

use filemap_runs::fixed::Fixed;
use filemap_runs::{BLOCK_BYTES, CHUNK_BLOCKS, PADDING_BYTES, Run};

use super::key::{DECIDED, SEEN};
use crate::error::Result;

/// Values per record up to which a block is decoded; in others, records are searched.
const VALUES_PER_RECORD: usize = 5;

/// Marks the undecided `records` (in a batch's order) that are in the run. Reads blocks in order,
/// and only those that a record can be in.
pub(super) fn find_all(run: &Run<Fixed>, records: &mut [u128]) -> Result<()> {
    let mut buffer = vec![0; CHUNK_BLOCKS * BLOCK_BYTES + PADDING_BYTES];
    let (mut start, index) = (0, run.index());
    for first in (0..index.len()).step_by(CHUNK_BLOCKS) {
        let end = (first + CHUNK_BLOCKS).min(index.len());
        // Records before the chunk's first block are not in the run, or already searched.
        start += while_below(&records[start..], index[first]);
        let chunk = &mut records[start..];
        let len = if end == index.len() { chunk.len() } else { upto(chunk, index[end]) };
        if len > 0 {
            find_in_chunk(run, first..end, &mut chunk[..len], &mut buffer)?;
        }
    }
    Ok(())
}

fn find_in_chunk(run: &Run<Fixed>, blocks: Range<usize>, records: &mut [u128], buffer: &mut [u8]) -> Result<()> {
    let (index, format) = (run.index(), *run.format());
    // With few records, skip the blocks between them.
    let reads_all = records.len() * 8 >= blocks.len();
    if reads_all {
        run.read_blocks(blocks.start as u64..blocks.end as u64, &mut buffer[..blocks.len() * BLOCK_BYTES])?;
    }
    let (mut start, mut values) = (0, Vec::new());
    for number in blocks.clone() {
        start += while_below(&records[start..], index[number]);
        let rest = &mut records[start..];
        let is_last = number + 1 == blocks.end;
        let len = if is_last { rest.len() } else { upto(rest, index[number + 1]) };
        if len == 0 {
            continue;
        }
        let at = if reads_all { (number - blocks.start) * BLOCK_BYTES } else { 0 };
        if !reads_all {
            run.read_block(number as u64, &mut buffer[..BLOCK_BYTES])?;
        }
        let block = run.block(&buffer[at..at + BLOCK_BYTES + PADDING_BYTES], number as u64)?;
        let records = &mut rest[..len];
        if block.count() <= VALUES_PER_RECORD * len {
            values.clear();
            block.decode(&mut values);
            mark(format, records, &values);
            continue;
        }
        let mut lookup = block.lookup();
        for record in records.iter_mut().filter(|record| **record & DECIDED == 0) {
            if let Some(is_tombstone) = lookup.find((*record & format.mask()) >> format.shift()) {
                *record |= if is_tombstone { DECIDED } else { DECIDED | SEEN };
            }
        }
    }
    Ok(())
}

/// Marks the records among these values, both in order, without an unpredictable branch.
fn mark(format: Fixed, records: &mut [u128], values: &[u128]) {
    let (mask, shift) = (format.mask(), format.shift());
    let (mut i, mut j) = (0, 0);
    while i < records.len() && j < values.len() {
        let (record, value) = ((records[i] & mask) >> shift, values[j] & !1);
        let found = if values[j] & 1 == 1 { DECIDED } else { DECIDED | SEEN };
        let is_found = record == value && records[i] & DECIDED == 0;
        records[i] |= if is_found { found } else { 0 };
        i += usize::from(record <= value);
        // If the next record is of the same URL, it is decided already.
        j += usize::from(value <= record);
    }
}

/// Number of records below an index entry.
fn while_below(records: &[u128], first: u64) -> usize {
    partition(records, |high| high < first)
}

/// Number of records not above an index entry.
fn upto(records: &[u128], first: u64) -> usize {
    partition(records, |high| high <= first)
}

/// `partition_point` on the highest 64 bits, by doubling steps: the point is often near.
fn partition(records: &[u128], is_before: impl Fn(u64) -> bool) -> usize {
    let is_before = |record: &u128| is_before((record >> 64) as u64);
    let mut step = 1;
    while step < records.len() && is_before(&records[step]) {
        step *= 2;
    }
    let from = (step / 2).min(records.len());
    let to = (step + 1).min(records.len());
    from + records[from..to].partition_point(is_before)
}
