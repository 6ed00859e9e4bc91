//! The snapshot's queues: pages of each host that wait, pages that wait for a time, pages in flight,
//! and counts of families. So an opening need not read the rows of all pages.

use crate::blocks::{BlockReader, BlockWriter};
use crate::error::Result;
use crate::failpoint::{Failpoint, planted};
use crate::hosts::Hosts;
use crate::shares::{Family, Shares};
use crate::state::State;
use crate::timers::{LeftOut, Timers};
use crate::window::{Window, page_of};

/// What a snapshot says of the queues.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) timers: Timers,
    pub(super) flying: Vec<u32>,
}

/// Writes the queues; `flying` are the pages in flight.
pub(super) fn put(blocks: &mut BlockWriter<'_>, state: &State, flying: &[u32]) -> Result<()> {
    let shapes = state.table.shares.of_shapes();
    blocks.put(&(shapes.len() as u64).to_le_bytes())?;
    for (key, family) in shapes {
        blocks.put(&key.to_le_bytes())?;
        put_family(blocks, family)?;
    }
    let queues = || {
        let all = (0..state.hosts.len()).flat_map(|host| [(host, 0u32), (host, 1)]);
        let all = all.map(|(host, kind)| (host, kind, state.hosts.queue(host, kind as usize)));
        all.filter(|(_, _, (ready, left_out, entries))| *ready > 0 || *left_out > 0 || !entries.is_empty())
    };
    blocks.put(&(queues().count() as u64).to_le_bytes())?;
    for (host, kind, (ready, left_out, entries)) in queues() {
        [host, kind, ready, entries.len() as u32].iter().try_for_each(|one| blocks.put(&one.to_le_bytes()))?;
        blocks.put(&left_out.to_le_bytes())?;
        entries.iter().try_for_each(|entry| blocks.put(&entry.to_le_bytes()))?;
    }
    let (timers, left_out) = (&state.queue.timers, state.queue.timers.left_out());
    blocks.put(&(timers.iter().len() as u64).to_le_bytes())?;
    timers.iter().try_for_each(|timer| blocks.put(&timer.to_le_bytes()))?;
    let is_kept = !planted(Failpoint::LeftOutDropped);
    let first = left_out.first.filter(|_| is_kept).map_or(0, |first| first.saturating_add(1));
    blocks.put(&first.to_le_bytes())?;
    blocks.put(&u64::from(left_out.latest_s).to_le_bytes())?;
    blocks.put(&(flying.len() as u64).to_le_bytes())?;
    flying.iter().try_for_each(|page| blocks.put(&page.to_le_bytes()))
}

pub(super) fn put_family(blocks: &mut BlockWriter<'_>, family: Family) -> Result<()> {
    [family.bare, family.proofs].iter().try_for_each(|count| blocks.put(&count.to_le_bytes()))
}

/// Reads them of a version, of so many pages; windows go to their hosts, families to `shares`.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(super) fn read(
    blocks: &mut BlockReader<'_>,
    version: u16,
    pages: u32,
    hosts: &mut Hosts,
    shares: &mut Shares,
) -> Result<Queues> {
    for _ in 0..blocks.take_u64()? {
        let key = blocks.take_u64()?;
        shares.load_shape(key, read_family(blocks)?);
    }
    for _ in 0..blocks.take_u64()? {
        read_window(blocks, pages, hosts)?;
    }
    let mut queues = Queues { timers: read_timers(blocks, version, pages)?, flying: Vec::new() };
    for _ in 0..blocks.take_u64()? {
        let page = read_u32(blocks)?;
        check(blocks, page < pages)?;
        queues.flying.push(page);
    }
    Ok(queues)
}

fn read_timers(blocks: &mut BlockReader<'_>, version: u16, pages: u32) -> Result<Timers> {
    let mut timers = Vec::new();
    for _ in 0..blocks.take_u64()? {
        let timer = blocks.take_u64()?;
        check(blocks, (timer as u32) < pages)?;
        timers.push(timer);
    }
    let mut left_out = LeftOut::default();
    if version >= 6 {
        left_out.first = blocks.take_u64()?.checked_sub(1);
        let latest_s = u32::try_from(blocks.take_u64()?);
        left_out.latest_s = latest_s.map_err(|_| blocks.bad("impossible time of a page"))?;
    }
    Ok(Timers::from_parts(timers, left_out))
}

fn read_window(blocks: &mut BlockReader<'_>, pages: u32, hosts: &mut Hosts) -> Result<()> {
    let (host, kind, ready, count) = (read_u32(blocks)?, read_u32(blocks)?, read_u32(blocks)?, read_u32(blocks)?);
    let left_out = blocks.take_u64()?;
    check(blocks, host < hosts.len() && ready <= pages)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let entry = blocks.take_u64()?;
        check(blocks, page_of(entry) < pages)?;
        entries.push(entry);
    }
    check(blocks, kind < 2)?;
    let (before, left_out_before, others) = hosts.queue(host, kind as usize);
    check(blocks, before == 0 && left_out_before == 0 && others.is_empty())?;
    hosts.set_queue(host, kind as usize, Window::from_parts(ready, left_out, entries));
    Ok(())
}

pub(super) fn read_family(blocks: &mut BlockReader<'_>) -> Result<Family> {
    Ok(Family { bare: read_u32(blocks)?, proofs: read_u32(blocks)? })
}

fn read_u32(blocks: &mut BlockReader<'_>) -> Result<u32> {
    blocks.take().map(u32::from_le_bytes)
}

fn check(blocks: &BlockReader<'_>, is_possible: bool) -> Result<()> {
    if is_possible { Ok(()) } else { Err(blocks.bad("impossible queues")) }
}
