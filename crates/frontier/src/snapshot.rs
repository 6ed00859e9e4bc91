//! The snapshot: the whole state at the start of a journal. A frontier's main file: it names the
//! others.
//!
//! The contents of its blocks ([`crate::blocks`]), numbers little-endian; the header's number is
//! the journal's:
//!
//! | size | meaning |
//! |---|---|
//! | 4, 4 | pages; hosts |
//! | 8, 8 | bytes of the file of URLs; seed of the fingerprints |
//! | 8, 8 | rent (0: crawled pages and seeds, 1: all, 2: endorsed pages and seeds); tax in parts of 2^32 |
//! | 8 each | virtual page's credit; growth, weight, weighted turns, turns (floating point); visits since the last sweep |
//! | 8 each | fetches, refreshes, failures |
//! | 8 each | virtual visits a fetch; of the file of links (zeros if there is none): number, length, lists, block and place in it of the next list |
//! | 8, 8; 4 each | credit of pages waiting for their first fetch; 1 if fetched pages are fetched again; pages by status |
//! | 2 + n + 8 + 8 + 8 + 8 + 4 + 4 each | hosts: length of the name, name, 0 or 1 + delay in ms, hold until ms, 0 or 1 + start of the last fetch in ms, known pages; fetched pages without a voucher, and of good standing |
//! | 4, 4, 8 each | blocks of rows ([`crate::table`]): slot, CRC-32 of the frontier's id, the block's number (4 bytes) and the block, what its rows hold |
//! | 8 for each 16 pages | offsets of groups of URLs |
//! | 8; 8, 4, 4 each | shapes: count; 256 times the host, and the shape, fetched pages without a voucher, of good standing |
//! | 8; 4, 4, 4, 4, 8, 8 each | queues: count; host, kind, pages, entries, the best entry left out or 0, entries |
//! | 8; 8 each; 8, 8 | timers: count; page, second (4 bytes each); 0 or 1 + the soonest that was left out, the latest second of those |
//! | 8; 4 each | pages in flight: count; page |
//! | 8 each | pages that get rent; links and fetches told since the last round ([`crate::delivery`]), lists of links examined for each visit; 0 or 1 + what the last round collected for a refund |
//! | as below | gifts and parcels that wait for the next round |
//! | 8 | 1 if a round is under way, and then: |
//! | 8 each | its next page, its end; its lists of links: end of the file, block, place in it, how many; visits wanted; 0, 1 rent, 2 collecting for a refund, 3 paying it, and two numbers of it; what is left to pay, or was collected |
//! | as below | gifts and parcels that are not handed over |
//! | 8; 8 each | looks: count; page (4), and which list (4) |
//! | 8; 4, 8, 1 each | pages visited: count; which list, credit, word |
//! | 4, 4 | pages whose fingerprints are in the runs; runs |
//! | 8, 8, 8 each | runs, the oldest first: number, blocks, pairs |
//! | 8 each | fingerprints of the other pages |
//!
//! Gifts and parcels: count of gifts (8), each with its credit (8) and what the visited page says
//! (1: 0 nothing, its standing, 4 more if it vouches); count of parcels (8), each with its gift's
//! number and its page (4, 4).
//!
//! Version 5 has all timers, and nothing of what was left out. Version 4 has neither the number of pages that get rent nor what waits. Version 3 has all rows
//! in place of their blocks, and neither counts nor the credit of waiting pages nor queues. In
//! versions 1 and 2 each row has the page's fingerprint (8) before it, and the runs and all that
//! follows are missing.

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
use crate::format::{self, HEADER_BYTES, PageRecord, SNAPSHOT};
use crate::hosts::Hosts;
use crate::index::{self, Index};
use crate::links::{Links, Place};
use crate::marks::Status;
use crate::options::{FrontierOptions, Rent, VIRTUAL_VISITS_MAX};
use crate::record::time_of;
use crate::row::Row;
use crate::shape::site;
use crate::shares::Shares;
use crate::state::{State, Told};
use crate::table::{Directory, Named, ROWS, Table};
use crate::texts::{GROUP, Texts};
use queues::Queues;

const PAGE_BYTES: usize = PageRecord::BYTES;
/// Above any growth of the weight: ln 2 by the least window.
const GROWTH_MAX: f64 = 8.0;
/// Above any count.
const COUNT_MAX: u64 = 1 << 60;

/// Replaces the snapshot by this state, at the start of the journal `number`; returns its length.
/// `flying` are the pages in flight.
///
/// # Errors
/// `Io`: the old snapshot is still there then.
pub(crate) fn write(dir: &dyn Dir, id: [u8; 16], number: u64, state: &State, flying: &[u32]) -> Result<u64> {
    let mut len = 0;
    files::replace_snapshot(dir, |file, name| {
        let mut blocks = BlockWriter::new(file, name, SNAPSHOT, id, number)?;
        put_totals(&mut blocks, state)?;
        for number in 0..state.hosts.len() {
            let (name, limits) = (state.hosts.name(number), state.hosts.limits(number));
            blocks.put(&(name.len() as u16).to_le_bytes())?;
            blocks.put(name.as_bytes())?;
            blocks.put(&limits.delay_ms.map_or(0, |delay| delay.saturating_add(1)).to_le_bytes())?;
            blocks.put(&limits.hold_until_ms.to_le_bytes())?;
            blocks.put(&state.hosts.began_ms(number).map_or(0, |began| began as u64 + 1).to_le_bytes())?;
            blocks.put(&u64::from(state.hosts.pages(number)).to_le_bytes())?;
            queues::put_family(&mut blocks, state.table.shares.of_host(number))?;
        }
        for block in state.table.directory().blocks {
            blocks.put(&block.slot.to_le_bytes())?;
            blocks.put(&block.crc.to_le_bytes())?;
            blocks.put(&block.credit.to_le_bytes())?;
        }
        state.texts.groups().iter().try_for_each(|group| blocks.put(&group.to_le_bytes()))?;
        queues::put(&mut blocks, state, flying)?;
        deliveries::put(&mut blocks, &state.delivery, state.table.members)?;
        put_index(&mut blocks, &state.index)?;
        len = blocks.finish()?;
        Ok(())
    })?;
    Ok(len)
}

fn put_index(blocks: &mut BlockWriter<'_>, index: &Index) -> Result<()> {
    let named = index.named();
    blocks.put(&named.base.to_le_bytes())?;
    blocks.put(&(named.runs.len() as u32).to_le_bytes())?;
    for run in &named.runs {
        [run.number, run.blocks, run.live].iter().try_for_each(|number| blocks.put(&number.to_le_bytes()))?;
    }
    index.in_memory().iter().try_for_each(|fingerprint| blocks.put(&fingerprint.to_le_bytes()))
}

fn put_totals(blocks: &mut BlockWriter<'_>, state: &State) -> Result<()> {
    blocks.put(&state.table.len().to_le_bytes())?;
    blocks.put(&state.hosts.len().to_le_bytes())?;
    let totals = &state.totals;
    let place = state.links.as_ref().map_or(Place::default(), Links::place);
    let numbers = [
        state.texts.bytes(),
        state.index.named().seed,
        Rent::CODES.iter().position(|rent| *rent == state.table.rent).unwrap_or_default() as u64,
        u64::from(totals.tax),
        totals.virtual_credit,
        totals.growth.to_bits(),
        totals.weight.to_bits(),
        totals.weighted_turns.to_bits(),
        totals.turns.to_bits(),
        totals.visits_since_sweep,
        state.told.fetches,
        state.told.refreshes,
        state.told.failures,
        u64::from(state.virtual_visits),
        place.number,
        place.bytes,
        place.lists,
        place.block,
        place.at,
        state.queued_credit,
        u64::from(state.has_recrawls),
    ];
    numbers.iter().try_for_each(|number| blocks.put(&number.to_le_bytes()))?;
    state.table.counts().iter().try_for_each(|count| blocks.put(&count.to_le_bytes()))
}

/// Contents of a snapshot.
pub(crate) struct Snapshot {
    pub(crate) id: [u8; 16],
    pub(crate) journal: u64,
    pub(crate) state: State,
    pub(crate) bytes: u64,
}

/// What a snapshot says before its hosts.
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
    /// Whether the rows are in a file of their own.
    fn has_table(&self) -> bool {
        self.version >= 4
    }

    /// Whether credit may wait for a delivery.
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
    state.totals.waiting = waiting.ok_or_else(|| Error::corrupt(NAME, 0, "more credit waits than there is"))?;
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
    let (pages, hosts) = (u32::from_le_bytes(blocks.take()?), u32::from_le_bytes(blocks.take()?));
    let least = if version < 4 { PAGE_BYTES as u64 * u64::from(pages) } else { u64::from(pages) / 22 };
    if least + u64::from(hosts) * 26 > blocks.len() || pages == u32::MAX {
        return Err(blocks.bad("more pages or hosts than the file has room for"));
    }
    let (texts_bytes, seed) = (blocks.take_u64()?, blocks.take_u64()?);
    let rent = Rent::CODES.get(blocks.take_u64()? as usize).copied();
    let rent = rent.ok_or_else(|| blocks.bad("no rent has this code"))?;
    let totals = read_totals(blocks)?;
    let told = Told { fetches: blocks.take_u64()?, refreshes: blocks.take_u64()?, failures: blocks.take_u64()? };
    if told.fetches.max(told.refreshes).max(told.failures).max(blocks.number()) > COUNT_MAX {
        return Err(blocks.bad("impossible count of fetches"));
    }
    let (virtual_visits, place) = read_place(blocks)?;
    let (mut queued_credit, mut has_recrawls, mut counts) = (0, false, [0; Status::ALL.len()]);
    if version >= 4 {
        queued_credit = blocks.take_u64()?;
        has_recrawls = blocks.take_u64()? > 0;
        for count in &mut counts {
            *count = u32::from_le_bytes(blocks.take()?);
        }
        let all: u64 = counts.iter().copied().map(u64::from).sum();
        if queued_credit > TOTAL || all != u64::from(pages) {
            return Err(blocks.bad("impossible counts of pages"));
        }
    }
    Ok(Head {
        version,
        pages,
        hosts,
        texts_bytes,
        seed,
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

fn read_totals(blocks: &mut BlockReader<'_>) -> Result<Totals> {
    let tax = u32::try_from(blocks.take_u64()?).map_err(|_| blocks.bad("impossible tax"))?;
    let virtual_credit = blocks.take_u64()?;
    let mut floats = [0.0; 4];
    for float in &mut floats {
        *float = f64::from_bits(blocks.take_u64()?);
    }
    let [growth, weight, weighted_turns, turns] = floats;
    let visits_since_sweep = blocks.take_u64()?;
    let is_sane = |float: &f64| (0.0..HISTORY_MAX).contains(float);
    let is_weight = (0.5..2.0 * GROWTH_MAX * WEIGHT_MAX).contains(&weight) && growth < GROWTH_MAX;
    if !floats.iter().all(is_sane) || !is_weight || virtual_credit > TOTAL || visits_since_sweep > COUNT_MAX {
        return Err(blocks.bad("impossible totals of credit"));
    }
    Ok(Totals { virtual_credit, waiting: 0, tax, growth, weight, weighted_turns, turns, visits_since_sweep })
}

/// Virtual visits a fetch, and the place in the file of links.
fn read_place(blocks: &mut BlockReader<'_>) -> Result<(u8, Place)> {
    let visits = u8::try_from(blocks.take_u64()?).ok().filter(|visits| *visits <= VIRTUAL_VISITS_MAX);
    let visits = visits.ok_or_else(|| blocks.bad("impossible number of virtual visits"))?;
    let mut numbers = [0; 5];
    for number in &mut numbers {
        *number = blocks.take_u64()?;
    }
    let [number, bytes, lists, block, at] = numbers;
    let header_bytes = HEADER_BYTES as u64;
    let is_empty = bytes == header_bytes && block == header_bytes && at == 0;
    let is_place = is_empty || block >= header_bytes && block < bytes;
    let is_file = number > 0 && number < COUNT_MAX && lists <= bytes && is_place;
    if visits > 0 && is_file || visits == 0 && numbers == [0; 5] {
        return Ok((visits, Place { number, bytes, lists, block, at }));
    }
    Err(blocks.bad("impossible place in the file of links"))
}

fn read_hosts(blocks: &mut BlockReader<'_>, head: &Head) -> Result<(Hosts, Shares)> {
    let (mut hosts, mut shares, mut pages) = (Hosts::default(), Shares::default(), 0u64);
    for number in 0..head.hosts {
        let mut name = vec![0; usize::from(u16::from_le_bytes(blocks.take()?))];
        blocks.take_into(&mut name)?;
        let name = String::from_utf8(name).map_err(|_| blocks.bad("host name is not UTF-8"))?;
        if hosts.enter(&name) != number {
            return Err(blocks.bad("duplicate host"));
        }
        let (delay_ms, hold_until_ms) = (blocks.take_u64()?.checked_sub(1), time_of(blocks.take_u64()?));
        if delay_ms.is_some() || hold_until_ms > 0 {
            let limits = hosts.get_mut(number).limits_mut();
            (limits.delay_ms, limits.hold_until_ms) = (delay_ms, hold_until_ms);
        }
        hosts.set_began_ms(number, blocks.take_u64()?.checked_sub(1).map(time_of));
        if head.has_table() {
            let of_host = u32::try_from(blocks.take_u64()?).map_err(|_| blocks.bad("impossible count of pages"))?;
            hosts.set_pages(number, of_host);
            pages += u64::from(of_host);
            shares.load_host(number, site(&name), queues::read_family(blocks)?);
        }
    }
    if head.has_table() && pages != u64::from(head.pages) {
        return Err(blocks.bad("the hosts have other pages"));
    }
    Ok((hosts, shares))
}

/// Opens the table of pages; those of older versions have their rows here, and the first one
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
            let (slot, crc) = (u32::from_le_bytes(blocks.take()?), u32::from_le_bytes(blocks.take()?));
            directory.blocks.push(Named { slot, crc, credit: blocks.take_u64()? });
        }
        let mut slots: Vec<u32> = directory.blocks.iter().map(|block| block.slot).collect();
        slots.sort_unstable();
        if slots.windows(2).any(|two| two[0] == two[1]) {
            return Err(blocks.bad("two blocks of rows have one place"));
        }
        return Ok((Table::open(&**dir, id, directory, hosts.len(), memory_bytes)?, fingerprints));
    }
    let mut table = Table::create(&**dir, id, memory_bytes)?;
    table.hosts = hosts.len();
    for _ in 0..head.pages {
        if head.version <= 2 {
            fingerprints.push(blocks.take_u64()?);
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
        let fingerprint = if head.version <= 2 { fingerprints[page as usize] } else { blocks.take_u64()? };
        if index.find_in_memory(fingerprint).is_some() {
            return Err(blocks.bad("duplicate fingerprint"));
        }
        index.add(fingerprint);
    }
    Ok(index)
}

/// What the index has on disk.
fn read_runs(blocks: &mut BlockReader<'_>, seed: u64, pages: u32) -> Result<index::Named> {
    let (base, count) = (u32::from_le_bytes(blocks.take()?), u32::from_le_bytes(blocks.take()?));
    let mut runs = Vec::new();
    for _ in 0..count {
        let (number, count, live) = (blocks.take_u64()?, blocks.take_u64()?, blocks.take_u64()?);
        runs.push(RunInfo { number, blocks: count, live, tombstones: 0 });
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
        let group = blocks.take_u64()?;
        if group < last || group >= texts_bytes {
            return Err(blocks.bad("offsets of URL groups are not in order"));
        }
        groups.push(group);
        last = group;
    }
    Ok(groups)
}
