//! The snapshot: the whole state at the start of a journal. It is a frontier's main file, and
//! names the others.
//!
//! The contents of its blocks ([`crate::blocks`]) are the records of [`crate::format::body`],
//! whose order is in docs/FRONTIER.md; the header's number is the journal's.
//!
//! Version 5 has all timers, and no record of those left out. Version 4 lacks the number of pages
//! that get rent and the deliveries. Version 3 has all rows in place of their blocks, and lacks
//! counts, the credit of waiting pages and queues. In versions 1 and 2 each row follows the page's
//! fingerprint (8 bytes), and the runs and all that follows are missing.

mod deliveries;
mod queues;

use std::sync::Arc;

use filemap_io::{Access, Dir};
use filemap_runs::RunInfo;

use crate::blocks::{BlockReader, BlockWriter};
use crate::credit::{HISTORY_MAX, TOTAL, Totals, WEIGHT_MAX};
use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::files::{self, SNAPSHOT as NAME};
use crate::format::body::{
    HostName, HostPages, HostTimes, PAGES_BY_STATUS, RowsBlock, RunRecord, RunsHead, SnapshotHead, StatusCounts,
};
use crate::format::{self, HEADER_BYTES, PageRecord, SNAPSHOT};
use crate::hosts::Hosts;
use crate::index::{self, Index};
use crate::links::{Links, Place};
use crate::marks::Status;
use crate::options::{FrontierOptions, Rent, VIRTUAL_VISITS_MAX};
use crate::record::time_of;
use crate::row::Row;
use crate::shape::site;
use crate::shares::{Family, Shares};
use crate::state::{State, Told};
use crate::table::{Directory, Named, ROWS, Table};
use crate::texts::{GROUP, Texts};
use queues::Queues;

const PAGE_BYTES: usize = PageRecord::BYTES;
/// Bound on the growth of the weight: ln 2 / the least window.
const GROWTH_MAX: f64 = 8.0;
/// Bound on any count.
const COUNT_MAX: u64 = 1 << 60;

/// Replaces the snapshot by one of this state, at the start of journal `number`; returns its
/// length. `flying` are the pages in flight.
///
/// # Errors
/// `Io`: the old snapshot is still in place.
pub(crate) fn write(dir: &dyn Dir, id: [u8; 16], number: u64, state: &State, flying: &[u32]) -> Result<u64> {
    let mut len = 0;
    files::replace_snapshot(dir, |file, name| {
        let mut blocks = BlockWriter::new(file, name, SNAPSHOT, id, number)?;
        put_totals(&mut blocks, state)?;
        (0..state.hosts.len()).try_for_each(|number| put_host(&mut blocks, state, number))?;
        for block in state.table.directory().blocks {
            let mut record = [0; RowsBlock::BYTES];
            RowsBlock::SLOT.put(&mut record, block.slot);
            RowsBlock::CRC.put(&mut record, block.crc);
            RowsBlock::CREDIT.put(&mut record, block.credit);
            blocks.put(&record)?;
        }
        state.texts.groups().iter().try_for_each(|group| blocks.put_number(*group))?;
        queues::put(&mut blocks, state, flying)?;
        deliveries::put(&mut blocks, &state.delivery, state.table.members)?;
        put_index(&mut blocks, &state.index)?;
        len = blocks.finish()?;
        Ok(())
    })?;
    Ok(len)
}

fn put_host(blocks: &mut BlockWriter<'_>, state: &State, number: u32) -> Result<()> {
    let (hosts, limits) = (&state.hosts, state.hosts.limits(number));
    let mut name = [0; HostName::BYTES];
    HostName::LEN.put(&mut name, hosts.name(number).len() as u16);
    blocks.put(&name)?;
    blocks.put(hosts.name(number).as_bytes())?;
    let mut times = [0; HostTimes::BYTES];
    HostTimes::DELAY.put(&mut times, limits.delay_ms.map_or(0, |delay| delay.saturating_add(1)));
    HostTimes::HOLD_UNTIL_MS.put(&mut times, limits.hold_until_ms as u64);
    HostTimes::BEGAN.put(&mut times, hosts.began_ms(number).map_or(0, |began| began as u64 + 1));
    blocks.put(&times)?;
    let (mut pages, family) = ([0; HostPages::BYTES], state.table.shares.of_host(number));
    HostPages::PAGES.put(&mut pages, u64::from(hosts.pages(number)));
    HostPages::BARE.put(&mut pages, family.bare);
    HostPages::PROOFS.put(&mut pages, family.proofs);
    blocks.put(&pages)
}

fn put_index(blocks: &mut BlockWriter<'_>, index: &Index) -> Result<()> {
    let (named, mut head) = (index.named(), [0; RunsHead::BYTES]);
    RunsHead::PAGES.put(&mut head, named.base);
    RunsHead::RUNS.put(&mut head, named.runs.len() as u32);
    blocks.put(&head)?;
    for run in &named.runs {
        let mut record = [0; RunRecord::BYTES];
        RunRecord::NUMBER.put(&mut record, run.number);
        RunRecord::BLOCKS.put(&mut record, run.blocks);
        RunRecord::PAIRS.put(&mut record, run.live);
        blocks.put(&record)?;
    }
    index.in_memory().iter().try_for_each(|fingerprint| blocks.put_number(*fingerprint))
}

fn put_totals(blocks: &mut BlockWriter<'_>, state: &State) -> Result<()> {
    let (totals, told, mut head) = (&state.totals, &state.told, [0; SnapshotHead::BYTES]);
    let place = state.links.as_ref().map_or(Place::default(), Links::place);
    let rent = Rent::CODES.iter().position(|rent| *rent == state.table.rent).unwrap_or_default();
    SnapshotHead::PAGES.put(&mut head, state.table.len());
    SnapshotHead::HOSTS.put(&mut head, state.hosts.len());
    SnapshotHead::TEXTS_BYTES.put(&mut head, state.texts.bytes());
    SnapshotHead::SEED.put(&mut head, state.index.named().seed);
    SnapshotHead::RENT.put(&mut head, rent as u64);
    SnapshotHead::TAX.put(&mut head, u64::from(totals.tax));
    SnapshotHead::VIRTUAL_CREDIT.put(&mut head, totals.virtual_credit);
    SnapshotHead::GROWTH.put(&mut head, totals.growth);
    SnapshotHead::WEIGHT.put(&mut head, totals.weight);
    SnapshotHead::WEIGHTED_TURNS.put(&mut head, totals.weighted_turns);
    SnapshotHead::TURNS.put(&mut head, totals.turns);
    SnapshotHead::VISITS_SINCE_SWEEP.put(&mut head, totals.visits_since_sweep);
    SnapshotHead::FETCHES.put(&mut head, told.fetches);
    SnapshotHead::REFRESHES.put(&mut head, told.refreshes);
    SnapshotHead::FAILURES.put(&mut head, told.failures);
    SnapshotHead::VIRTUAL_VISITS.put(&mut head, u64::from(state.virtual_visits));
    SnapshotHead::LINKS_NUMBER.put(&mut head, place.number);
    SnapshotHead::LINKS_BYTES.put(&mut head, place.bytes);
    SnapshotHead::LINKS_LISTS.put(&mut head, place.lists);
    SnapshotHead::LINKS_BLOCK.put(&mut head, place.block);
    SnapshotHead::LINKS_AT.put(&mut head, place.at);
    blocks.put(&head)?;
    let mut counts = [0; StatusCounts::BYTES];
    StatusCounts::QUEUED_CREDIT.put(&mut counts, state.queued_credit);
    StatusCounts::HAS_RECRAWLS.put(&mut counts, u64::from(state.has_recrawls));
    PAGES_BY_STATUS.iter().zip(state.table.counts()).for_each(|(field, count)| field.put(&mut counts, *count));
    blocks.put(&counts)
}

/// Contents of a snapshot.
pub(crate) struct Snapshot {
    pub(crate) id: [u8; 16],
    pub(crate) journal: u64,
    pub(crate) state: State,
    pub(crate) bytes: u64,
}

/// The contents of a snapshot before its hosts.
struct Head {
    version: u16,
    pages: u32,
    hosts: u32,
    texts_bytes: u64,
    seed: u64,
    rent: Rent,
    totals: Totals,
    told: Told,
    virtual_visits: u8,
    place: Place,
    queued_credit: u64,
    has_recrawls: bool,
    counts: [u32; Status::ALL.len()],
}

impl Head {
    /// Returns whether the rows are in a separate file.
    fn has_table(&self) -> bool {
        self.version >= 4
    }

    /// Returns whether the version has deliveries.
    fn has_delivery(&self) -> bool {
        self.version >= 5
    }
}

/// Reads the snapshot and opens the files that it names.
///
/// # Errors
/// `Missing`, `Corrupt`, `NewerFormat`, `Io`.
pub(crate) fn read(dir: &Arc<dyn Dir>, options: &FrontierOptions) -> Result<Snapshot> {
    let file = dir.open(NAME, Access::Read).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Missing { file: NAME.into() },
        _ => Error::io("open", NAME)(error),
    })?;
    let mut blocks = BlockReader::new(&*file, NAME, SNAPSHOT)?;
    let (id, journal, bytes) = (blocks.id(), blocks.number(), blocks.len());
    let head = read_head(&mut blocks, format::version(&*file, NAME)?)?;
    let (mut hosts, mut shares) = read_hosts(&mut blocks, &head)?;
    let (mut table, fingerprints) = read_table(&mut blocks, dir, &head, options, &mut hosts)?;
    let groups = read_groups(&mut blocks, head.pages.div_ceil(GROUP), head.texts_bytes)?;
    let queues = match head.has_table() {
        true => queues::read(&mut blocks, head.version, head.pages, &mut hosts, &mut shares)?,
        false => Queues::default(),
    };
    let (delivery, members) = match head.has_delivery() {
        true => deliveries::read(&mut blocks, head.pages, &head.place)?,
        false => (Delivery::default(), 0),
    };
    (table.shares, table.members) = (shares, members);
    let index = read_index(&mut blocks, dir, &head, options, fingerprints)?;
    blocks.finish()?;
    let texts = Texts::open(&**dir, id, head.pages, groups, head.texts_bytes)?;
    let mut state = State::new(options, head.rent, index, table, hosts, head.totals, texts);
    (state.told, state.virtual_visits, state.queued_credit) = (head.told, head.virtual_visits, head.queued_credit);
    state.has_queues = head.has_table() && head.has_recrawls == state.has_recrawls;
    state.queue.timers = queues.timers;
    state.flying = queues.flying;
    let waiting = u64::try_from(delivery.credit()).ok().filter(|waiting| *waiting <= TOTAL);
    state.totals.waiting = waiting.ok_or_else(|| Error::corrupt(NAME, 0, "more credit waits than exists"))?;
    state.delivery = delivery;
    state.check_credit().map_err(|what| Error::corrupt(NAME, 0, what))?;
    if !head.has_delivery() {
        state.count_rows()?;
    }
    if head.virtual_visits > 0 {
        state.links = Some(Links::open(&**dir, id, head.place)?);
    }
    Ok(Snapshot { id, journal, state, bytes })
}

fn read_head(blocks: &mut BlockReader<'_>, version: u16) -> Result<Head> {
    let head: [u8; SnapshotHead::BYTES] = blocks.take()?;
    let (pages, hosts) = (SnapshotHead::PAGES.get(&head), SnapshotHead::HOSTS.get(&head));
    let least = if version < 4 { PAGE_BYTES as u64 * u64::from(pages) } else { u64::from(pages) / 22 };
    if least + u64::from(hosts) * 26 > blocks.len() || pages == u32::MAX {
        return Err(blocks.bad("more pages or hosts than the file has room for"));
    }
    let rent = Rent::CODES.get(SnapshotHead::RENT.get(&head) as usize).copied();
    let rent = rent.ok_or_else(|| blocks.bad("impossible code of rent"))?;
    let totals = totals_of(&head).ok_or_else(|| blocks.bad("impossible totals of credit"))?;
    let told = Told {
        fetches: SnapshotHead::FETCHES.get(&head),
        refreshes: SnapshotHead::REFRESHES.get(&head),
        failures: SnapshotHead::FAILURES.get(&head),
    };
    if told.fetches.max(told.refreshes).max(told.failures).max(blocks.number()) > COUNT_MAX {
        return Err(blocks.bad("impossible count of fetches"));
    }
    let visits = u8::try_from(SnapshotHead::VIRTUAL_VISITS.get(&head)).ok();
    let virtual_visits = visits.filter(|visits| *visits <= VIRTUAL_VISITS_MAX);
    let virtual_visits = virtual_visits.ok_or_else(|| blocks.bad("impossible number of virtual visits"))?;
    let place = place_of(&head, virtual_visits > 0);
    let place = place.ok_or_else(|| blocks.bad("impossible place in the file of links"))?;
    let (mut queued_credit, mut has_recrawls, mut counts) = (0, false, [0; Status::ALL.len()]);
    if version >= 4 {
        let bytes: [u8; StatusCounts::BYTES] = blocks.take()?;
        queued_credit = StatusCounts::QUEUED_CREDIT.get(&bytes);
        has_recrawls = StatusCounts::HAS_RECRAWLS.get(&bytes) > 0;
        counts = PAGES_BY_STATUS.map(|field| field.get(&bytes));
        let all: u64 = counts.iter().copied().map(u64::from).sum();
        if queued_credit > TOTAL || all != u64::from(pages) {
            return Err(blocks.bad("impossible counts of pages"));
        }
    }
    Ok(Head {
        version,
        pages,
        hosts,
        texts_bytes: SnapshotHead::TEXTS_BYTES.get(&head),
        seed: SnapshotHead::SEED.get(&head),
        rent,
        totals,
        told,
        virtual_visits,
        place,
        queued_credit,
        has_recrawls,
        counts,
    })
}

/// Decodes the totals of credit; `None` if invalid.
fn totals_of(head: &[u8]) -> Option<Totals> {
    let totals = Totals {
        virtual_credit: SnapshotHead::VIRTUAL_CREDIT.get(head),
        waiting: 0,
        tax: u32::try_from(SnapshotHead::TAX.get(head)).ok()?,
        growth: SnapshotHead::GROWTH.get(head),
        weight: SnapshotHead::WEIGHT.get(head),
        weighted_turns: SnapshotHead::WEIGHTED_TURNS.get(head),
        turns: SnapshotHead::TURNS.get(head),
        visits_since_sweep: SnapshotHead::VISITS_SINCE_SWEEP.get(head),
    };
    let Totals { virtual_credit, growth, weight, weighted_turns, turns, visits_since_sweep, .. } = totals;
    let is_sane = |float: &f64| (0.0..HISTORY_MAX).contains(float);
    let is_weight = (0.5..2.0 * GROWTH_MAX * WEIGHT_MAX).contains(&weight) && growth < GROWTH_MAX;
    let are_sane = [growth, weight, weighted_turns, turns].iter().all(is_sane);
    (are_sane && is_weight && virtual_credit <= TOTAL && visits_since_sweep <= COUNT_MAX).then_some(totals)
}

/// Decodes the position in the file of links; `None` if invalid. Virtual visits need the file.
fn place_of(head: &[u8], has_visits: bool) -> Option<Place> {
    let place = Place {
        number: SnapshotHead::LINKS_NUMBER.get(head),
        bytes: SnapshotHead::LINKS_BYTES.get(head),
        lists: SnapshotHead::LINKS_LISTS.get(head),
        block: SnapshotHead::LINKS_BLOCK.get(head),
        at: SnapshotHead::LINKS_AT.get(head),
    };
    let Place { number, bytes, lists, block, at } = place;
    let header_bytes = HEADER_BYTES as u64;
    let is_empty = bytes == header_bytes && block == header_bytes && at == 0;
    let is_place = is_empty || block >= header_bytes && block < bytes;
    let is_file = number > 0 && number < COUNT_MAX && lists <= bytes && is_place;
    let is_possible = if has_visits { is_file } else { place == Place::default() };
    is_possible.then_some(place)
}

fn read_hosts(blocks: &mut BlockReader<'_>, head: &Head) -> Result<(Hosts, Shares)> {
    let (mut hosts, mut shares, mut pages) = (Hosts::default(), Shares::default(), 0u64);
    for number in 0..head.hosts {
        let len: [u8; HostName::BYTES] = blocks.take()?;
        let mut name = vec![0; usize::from(HostName::LEN.get(&len))];
        blocks.take_into(&mut name)?;
        let name = String::from_utf8(name).map_err(|_| blocks.bad("host name is not UTF-8"))?;
        if hosts.enter(&name) != number {
            return Err(blocks.bad("duplicate host"));
        }
        let times: [u8; HostTimes::BYTES] = blocks.take()?;
        let delay_ms = HostTimes::DELAY.get(&times).checked_sub(1);
        let hold_until_ms = time_of(HostTimes::HOLD_UNTIL_MS.get(&times));
        if delay_ms.is_some() || hold_until_ms > 0 {
            let limits = hosts.get_mut(number).limits_mut();
            (limits.delay_ms, limits.hold_until_ms) = (delay_ms, hold_until_ms);
        }
        hosts.set_began_ms(number, HostTimes::BEGAN.get(&times).checked_sub(1).map(time_of));
        if head.has_table() {
            let bytes: [u8; HostPages::BYTES] = blocks.take()?;
            let of_host = u32::try_from(HostPages::PAGES.get(&bytes));
            let of_host = of_host.map_err(|_| blocks.bad("impossible count of pages"))?;
            hosts.set_pages(number, of_host);
            pages += u64::from(of_host);
            let family = Family { bare: HostPages::BARE.get(&bytes), proofs: HostPages::PROOFS.get(&bytes) };
            shares.load_host(number, site(&name), family);
        }
    }
    if head.has_table() && pages != u64::from(head.pages) {
        return Err(blocks.bad("the hosts' pages do not add up"));
    }
    Ok((hosts, shares))
}

/// Opens the page table. In older versions the rows are in the snapshot, in the first also the
/// fingerprints.
fn read_table(
    blocks: &mut BlockReader<'_>,
    dir: &Arc<dyn Dir>,
    head: &Head,
    options: &FrontierOptions,
    hosts: &mut Hosts,
) -> Result<(Table, Vec<u64>)> {
    let (id, memory_bytes, mut fingerprints) = (blocks.id(), options.table_bytes(), Vec::new());
    if head.has_table() {
        let mut directory = Directory { pages: head.pages, counts: head.counts, blocks: Vec::new() };
        for _ in 0..head.pages.div_ceil(ROWS) {
            let record: [u8; RowsBlock::BYTES] = blocks.take()?;
            directory.blocks.push(Named {
                slot: RowsBlock::SLOT.get(&record),
                crc: RowsBlock::CRC.get(&record),
                credit: RowsBlock::CREDIT.get(&record),
            });
        }
        let mut slots: Vec<u32> = directory.blocks.iter().map(|block| block.slot).collect();
        slots.sort_unstable();
        if slots.windows(2).any(|two| two[0] == two[1]) {
            return Err(blocks.bad("two blocks of rows have one slot"));
        }
        return Ok((Table::open(&**dir, id, directory, hosts.len(), memory_bytes)?, fingerprints));
    }
    let mut table = Table::create(&**dir, id, memory_bytes)?;
    table.hosts = hosts.len();
    for _ in 0..head.pages {
        if head.version <= 2 {
            fingerprints.push(blocks.take_number()?);
        }
        let bytes: [u8; PAGE_BYTES] = blocks.take()?;
        let row = Row::decode(&bytes, hosts.len()).ok_or_else(|| blocks.bad("impossible row of a page"))?;
        hosts.set_pages(row.host, hosts.pages(row.host) + 1);
        table.add(row)?;
    }
    Ok((table, fingerprints))
}

/// Opens the index.
fn read_index(
    blocks: &mut BlockReader<'_>,
    dir: &Arc<dyn Dir>,
    head: &Head,
    options: &FrontierOptions,
    fingerprints: Vec<u64>,
) -> Result<Index> {
    let named = match head.version {
        1 | 2 => index::Named { seed: head.seed, ..index::Named::default() },
        _ => read_runs(blocks, head.seed, head.pages)?,
    };
    let mut index = Index::open(dir, blocks.id(), &named, options.index_bytes())?;
    for page in named.base..head.pages {
        let fingerprint = if head.version <= 2 { fingerprints[page as usize] } else { blocks.take_number()? };
        if index.find_in_memory(fingerprint).is_some() {
            return Err(blocks.bad("duplicate fingerprint"));
        }
        index.add(fingerprint);
    }
    Ok(index)
}

/// Reads the description of the index on disk.
fn read_runs(blocks: &mut BlockReader<'_>, seed: u64, pages: u32) -> Result<index::Named> {
    let head: [u8; RunsHead::BYTES] = blocks.take()?;
    let (base, mut runs) = (RunsHead::PAGES.get(&head), Vec::new());
    for _ in 0..RunsHead::RUNS.get(&head) {
        let record: [u8; RunRecord::BYTES] = blocks.take()?;
        runs.push(RunInfo {
            number: RunRecord::NUMBER.get(&record),
            blocks: RunRecord::BLOCKS.get(&record),
            live: RunRecord::PAIRS.get(&record),
            tombstones: 0,
        });
    }
    let pairs = runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.live));
    let mut numbers: Vec<u64> = runs.iter().map(|run| run.number).collect();
    numbers.sort_unstable();
    let is_twice = numbers.windows(2).any(|two| two[0] == two[1]);
    if base > pages
        || pairs != Some(u64::from(base))
        || is_twice
        || numbers.last().is_some_and(|last| *last > COUNT_MAX)
    {
        return Err(blocks.bad("impossible runs"));
    }
    Ok(index::Named { seed, base, runs })
}

fn read_groups(blocks: &mut BlockReader<'_>, count: u32, texts_bytes: u64) -> Result<Vec<u64>> {
    let mut groups = Vec::with_capacity(count as usize);
    let mut last = HEADER_BYTES as u64;
    for _ in 0..count {
        let group: u64 = blocks.take_number()?;
        if group < last || group >= texts_bytes {
            return Err(blocks.bad("offsets of URL groups are not in order"));
        }
        groups.push(group);
        last = group;
    }
    Ok(groups)
}
