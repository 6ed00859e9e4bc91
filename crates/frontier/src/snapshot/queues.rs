//! The snapshot's queues: queued pages of each host, timers, pages in flight, and counts of
//! families. With them an opening need not read the rows of all pages.

use crate::blocks::{BlockReader, BlockWriter};
use crate::error::Result;
use crate::failpoint::{Failpoint, planted};
use crate::format::body::{QueueHead, ShapeRecord, TimersLeftOut};
use crate::hosts::Hosts;
use crate::shares::{Family, Shares};
use crate::state::State;
use crate::timers::{LeftOut, Timers};
use crate::window::{Window, page_of};

/// The queues in a snapshot.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) timers: Timers,
    pub(super) flying: Vec<u32>,
}

/// Writes the queues; `flying` are the pages in flight.
pub(super) fn put(blocks: &mut BlockWriter<'_>, state: &State, flying: &[u32]) -> Result<()> {
    let shapes = state.table.shares.of_shapes();
    blocks.put_number(shapes.len() as u64)?;
    for (key, family) in shapes {
        let mut shape = [0; ShapeRecord::BYTES];
        ShapeRecord::KEY.put(&mut shape, key);
        ShapeRecord::BARE.put(&mut shape, family.bare);
        ShapeRecord::PROOFS.put(&mut shape, family.proofs);
        blocks.put(&shape)?;
    }
    let queues = || {
        let all = (0..state.hosts.len()).flat_map(|host| [(host, 0u32), (host, 1)]);
        let all = all.map(|(host, kind)| (host, kind, state.hosts.queue(host, kind as usize)));
        all.filter(|(_, _, (ready, left_out, entries))| *ready > 0 || *left_out > 0 || !entries.is_empty())
    };
    blocks.put_number(queues().count() as u64)?;
    for (host, kind, (ready, left_out, entries)) in queues() {
        let mut head = [0; QueueHead::BYTES];
        QueueHead::HOST.put(&mut head, host);
        QueueHead::KIND.put(&mut head, kind);
        QueueHead::READY.put(&mut head, ready);
        QueueHead::COUNT.put(&mut head, entries.len() as u32);
        QueueHead::LEFT_OUT.put(&mut head, left_out);
        blocks.put(&head)?;
        entries.iter().try_for_each(|entry| blocks.put_number(*entry))?;
    }
    let (timers, left_out) = (&state.queue.timers, state.queue.timers.left_out());
    blocks.put_list(timers.iter())?;
    let is_kept = !planted(Failpoint::LeftOutDropped);
    let first = left_out.first.filter(|_| is_kept).map_or(0, |first| first.saturating_add(1));
    let mut bytes = [0; TimersLeftOut::BYTES];
    TimersLeftOut::FIRST.put(&mut bytes, first);
    TimersLeftOut::LATEST_S.put(&mut bytes, u64::from(left_out.latest_s));
    blocks.put(&bytes)?;
    blocks.put_list(flying.iter().copied())
}

/// Reads the queues of `pages` pages; windows go to their hosts, families to `shares`.
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
    for _ in 0..blocks.take_count()? {
        let shape: [u8; ShapeRecord::BYTES] = blocks.take()?;
        let family = Family { bare: ShapeRecord::BARE.get(&shape), proofs: ShapeRecord::PROOFS.get(&shape) };
        shares.load_shape(ShapeRecord::KEY.get(&shape), family);
    }
    for _ in 0..blocks.take_count()? {
        read_window(blocks, pages, hosts)?;
    }
    let mut queues = Queues { timers: read_timers(blocks, version, pages)?, flying: Vec::new() };
    for _ in 0..blocks.take_count()? {
        let page: u32 = blocks.take_number()?;
        check(blocks, page < pages)?;
        queues.flying.push(page);
    }
    Ok(queues)
}

fn read_timers(blocks: &mut BlockReader<'_>, version: u16, pages: u32) -> Result<Timers> {
    let mut timers = Vec::new();
    for _ in 0..blocks.take_count()? {
        let timer: u64 = blocks.take_number()?;
        check(blocks, (timer as u32) < pages)?;
        timers.push(timer);
    }
    let mut left_out = LeftOut::default();
    if version >= 6 {
        let bytes: [u8; TimersLeftOut::BYTES] = blocks.take()?;
        left_out.first = TimersLeftOut::FIRST.get(&bytes).checked_sub(1);
        let latest_s = u32::try_from(TimersLeftOut::LATEST_S.get(&bytes));
        left_out.latest_s = latest_s.map_err(|_| blocks.bad("impossible time of a page"))?;
    }
    Ok(Timers::from_parts(timers, left_out))
}

fn read_window(blocks: &mut BlockReader<'_>, pages: u32, hosts: &mut Hosts) -> Result<()> {
    let head: [u8; QueueHead::BYTES] = blocks.take()?;
    let (host, kind) = (QueueHead::HOST.get(&head), QueueHead::KIND.get(&head));
    let (ready, left_out) = (QueueHead::READY.get(&head), QueueHead::LEFT_OUT.get(&head));
    check(blocks, host < hosts.len() && ready <= pages)?;
    let mut entries = Vec::new();
    for _ in 0..QueueHead::COUNT.get(&head) {
        let entry = blocks.take_number()?;
        check(blocks, page_of(entry) < pages)?;
        entries.push(entry);
    }
    check(blocks, kind < 2)?;
    let (before, left_out_before, others) = hosts.queue(host, kind as usize);
    check(blocks, before == 0 && left_out_before == 0 && others.is_empty())?;
    hosts.set_queue(host, kind as usize, Window::from_parts(ready, left_out, entries));
    Ok(())
}

fn check(blocks: &BlockReader<'_>, is_possible: bool) -> Result<()> {
    if is_possible { Ok(()) } else { Err(blocks.bad("impossible queues")) }
}
