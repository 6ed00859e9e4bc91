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
//! | 2 + n + 8 + 8 + 8 each | hosts: length of the name, name, 0 or 1 + delay in ms, hold until ms, 0 or 1 + start of the last fetch in ms |
//! | 24 each | pages |
//! | 8 for each 16 pages | offsets of groups of URLs |
//! | 4, 4 | pages whose fingerprints are in the runs; runs |
//! | 8, 8, 8 each | runs, the oldest first: number, blocks, pairs |
//! | 8 each | fingerprints of the other pages |
//!
//! A page in flight is written as a queued one. In versions 1 and 2 each page has its fingerprint (8)
//! before it, and the runs and all that follows are missing.

use std::sync::Arc;

use filemap_io::{Access, Dir};
use filemap_runs::RunInfo;

use crate::blocks::{BlockReader, BlockWriter};
use crate::credit::{Ledger, TOTAL, Totals, WEIGHT_MAX};
use crate::error::{Error, Result};
use crate::files::{self, SNAPSHOT as NAME};
use crate::format::{self, HEADER_BYTES, PageRecord, SNAPSHOT};
use crate::hosts::Hosts;
use crate::index::{Index, Named};
use crate::links::{Links, Place};
use crate::options::{Rent, VIRTUAL_VISITS_MAX};
use crate::pages::{Marks, Pages, Status};
use crate::record::time_of;
use crate::shape::site;
use crate::state::{State, Told};
use crate::texts::{GROUP, Texts};

const PAGE_BYTES: usize = PageRecord::BYTES;
/// Above any history, of a page and in sum; 32-bit floats go further.
const HISTORY_MAX: f64 = 1e36;
/// Above any growth of the weight: ln 2 by the least window.
const GROWTH_MAX: f64 = 8.0;
/// Above any count.
const COUNT_MAX: u64 = 1 << 60;

/// Replaces the snapshot by this state, at the start of the journal `number`; returns its length.
///
/// # Errors
/// `Io`: the old snapshot is still there then.
pub(crate) fn write(dir: &dyn Dir, id: [u8; 16], number: u64, state: &State) -> Result<u64> {
    let mut len = 0;
    files::replace_snapshot(dir, |file, name| {
        let mut blocks = BlockWriter::new(file, name, SNAPSHOT, id, number)?;
        put_totals(&mut blocks, state)?;
        for host in state.hosts.iter() {
            blocks.put(&(host.name.len() as u16).to_le_bytes())?;
            blocks.put(host.name.as_bytes())?;
            blocks.put(&host.delay_ms.map_or(0, |delay| delay.saturating_add(1)).to_le_bytes())?;
            blocks.put(&host.hold_until_ms.to_le_bytes())?;
            blocks.put(&host.began_ms.map_or(0, |began| began as u64 + 1).to_le_bytes())?;
        }
        let mut due_s = vec![0; state.pages.len() as usize];
        state.queue.timers().for_each(|(page, due)| due_s[page as usize] = due);
        for (page, due_s) in due_s.into_iter().enumerate() {
            blocks.put(&page_bytes(state, page as u32, due_s))?;
        }
        state.texts.groups().iter().try_for_each(|group| blocks.put(&group.to_le_bytes()))?;
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
    blocks.put(&state.pages.len().to_le_bytes())?;
    blocks.put(&state.hosts.len().to_le_bytes())?;
    let totals = &state.ledger.totals;
    let place = state.links.as_ref().map_or(Place::default(), Links::place);
    let numbers = [
        state.texts.bytes(),
        state.index.named().seed,
        Rent::CODES.iter().position(|rent| *rent == state.rent).unwrap_or_default() as u64,
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
    ];
    numbers.iter().try_for_each(|number| blocks.put(&number.to_le_bytes()))
}

fn page_bytes(state: &State, page: u32, due_s: u32) -> [u8; PAGE_BYTES] {
    let marks = state.pages.marks(page);
    let (status, due_s) = match marks.status() {
        Status::Ready | Status::InFlight => (Status::Ready, 0),
        Status::Due | Status::Refreshing => (Status::Fetched, 1),
        other => (other, due_s),
    };
    let mut bytes = [0; PAGE_BYTES];
    PageRecord::CREDIT.put(&mut bytes, state.ledger.credit(page));
    PageRecord::HISTORY.put(&mut bytes, state.ledger.history(page));
    PageRecord::HOST.put(&mut bytes, state.pages.host(page));
    PageRecord::DUE_S.put(&mut bytes, due_s);
    PageRecord::MARKS.put(&mut bytes, marks.with_status(status).0);
    PageRecord::STANDING.put(&mut bytes, state.pages.standing_mark(page));
    PageRecord::SHAPE.put(&mut bytes, state.pages.shape(page));
    bytes
}

/// Contents of a snapshot.
pub(crate) struct Snapshot {
    pub(crate) id: [u8; 16],
    pub(crate) journal: u64,
    pub(crate) state: State,
    pub(crate) bytes: u64,
}

/// Reads the snapshot and opens the files of URLs and links and the runs that it names; pages that
/// are in no run take `index_bytes` of memory at most.
///
/// # Errors
/// `Missing`, `Corrupt`, `NewerFormat`, `Io`.
pub(crate) fn read(dir: &Arc<dyn Dir>, index_bytes: u64) -> Result<Snapshot> {
    let file = dir.open(NAME, Access::Read).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Missing { file: NAME.into() },
        _ => Error::io("open", NAME)(error),
    })?;
    let mut blocks = BlockReader::new(&*file, NAME, SNAPSHOT)?;
    let is_old = format::version(&*file, NAME)? < SNAPSHOT.version;
    let (id, journal, bytes) = (blocks.id(), blocks.number(), blocks.len());
    let (pages, hosts) = (u32::from_le_bytes(blocks.take()?), u32::from_le_bytes(blocks.take()?));
    if u64::from(pages) * PAGE_BYTES as u64 + u64::from(hosts) * 26 > bytes || pages == u32::MAX {
        return Err(blocks.bad("more pages or hosts than the file has room for"));
    }
    let (texts_bytes, seed) = (blocks.take_u64()?, blocks.take_u64()?);
    let rent = Rent::CODES.get(blocks.take_u64()? as usize).copied();
    let rent = rent.ok_or_else(|| blocks.bad("no rent has this code"))?;
    let totals = read_totals(&mut blocks)?;
    let told = Told { fetches: blocks.take_u64()?, refreshes: blocks.take_u64()?, failures: blocks.take_u64()? };
    if told.fetches.max(told.refreshes).max(told.failures).max(journal) > COUNT_MAX {
        return Err(blocks.bad("impossible count of fetches"));
    }
    let (virtual_visits, place) = read_place(&mut blocks)?;
    let mut hosts = read_hosts(&mut blocks, hosts)?;
    let (mut table, mut ledger) = (Pages::new(pages as usize), Ledger::new(totals));
    let (mut due_s, mut fingerprints) = (Vec::with_capacity(pages as usize), Vec::new());
    for _ in 0..pages {
        if is_old {
            fingerprints.push(blocks.take_u64()?);
        }
        due_s.push(read_page(&mut blocks, &mut table, &mut hosts, &mut ledger)?);
    }
    table.count_shares();
    if ledger.sum() != u128::from(TOTAL) {
        return Err(blocks.bad("credit does not add up"));
    }
    let groups = read_groups(&mut blocks, pages.div_ceil(GROUP), texts_bytes)?;
    let named = if is_old { Named { seed, ..Named::default() } } else { read_runs(&mut blocks, seed, pages)? };
    let mut index = Index::open(dir, id, &named, index_bytes)?;
    for page in named.base..pages {
        let fingerprint = if is_old { fingerprints[page as usize] } else { blocks.take_u64()? };
        if index.find_in_memory(fingerprint).is_some() {
            return Err(blocks.bad("duplicate fingerprint"));
        }
        index.add(fingerprint);
    }
    blocks.finish()?;
    let texts = Texts::open(&**dir, id, pages, groups, texts_bytes)?;
    let mut state = State::new(rent, index, table, hosts, ledger, texts);
    (state.told, state.due_s, state.virtual_visits) = (told, due_s, virtual_visits);
    if virtual_visits > 0 {
        state.links = Some(Links::open(&**dir, id, place)?);
    }
    Ok(Snapshot { id, journal, state, bytes })
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
    Ok(Totals { virtual_credit, tax, growth, weight, weighted_turns, turns, visits_since_sweep })
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

fn read_hosts(blocks: &mut BlockReader<'_>, count: u32) -> Result<Hosts> {
    let mut hosts = Hosts::default();
    for number in 0..count {
        let mut name = vec![0; usize::from(u16::from_le_bytes(blocks.take()?))];
        blocks.take_into(&mut name)?;
        let name = String::from_utf8(name).map_err(|_| blocks.bad("host name is not UTF-8"))?;
        if hosts.enter(&name) != number {
            return Err(blocks.bad("duplicate host"));
        }
        let host = hosts.get_mut(number);
        host.delay_ms = blocks.take_u64()?.checked_sub(1);
        host.hold_until_ms = time_of(blocks.take_u64()?);
        host.began_ms = blocks.take_u64()?.checked_sub(1).map(time_of);
    }
    Ok(hosts)
}

/// What the index has on disk.
fn read_runs(blocks: &mut BlockReader<'_>, seed: u64, pages: u32) -> Result<Named> {
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
    Ok(Named { seed, base, runs })
}

/// Reads a page; returns the second in which it is due.
fn read_page(blocks: &mut BlockReader<'_>, pages: &mut Pages, hosts: &mut Hosts, ledger: &mut Ledger) -> Result<u32> {
    let bytes: [u8; PAGE_BYTES] = blocks.take()?;
    let (credit, history) = (PageRecord::CREDIT.get(&bytes), PageRecord::HISTORY.get(&bytes));
    let (host, due_s) = (PageRecord::HOST.get(&bytes), PageRecord::DUE_S.get(&bytes));
    let marks = Marks::checked(PageRecord::MARKS.get(&bytes));
    let marks = marks
        .filter(|marks| matches!(marks.status(), Status::Ready | Status::Waiting | Status::Fetched | Status::Gone));
    let marks = marks.ok_or_else(|| blocks.bad("impossible marks of a page"))?;
    if host >= hosts.len() || credit > TOTAL || !(0.0..HISTORY_MAX as f32).contains(&history) {
        return Err(blocks.bad("impossible host, credit or history of a page"));
    }
    hosts.get_mut(host).pages += 1;
    ledger.add(credit, history);
    pages.shares.enter(host, site(&hosts.get(host).name));
    let page = pages.add(host, PageRecord::SHAPE.get(&bytes), marks);
    match pages.set_standing_mark(page, PageRecord::STANDING.get(&bytes)) {
        true => Ok(due_s),
        false => Err(blocks.bad("impossible standing of a page")),
    }
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
