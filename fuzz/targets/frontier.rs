//! Frontiers: any damage to their files, with and without recomputed checksums; and
//! random operations on one, against a simple model.
//!
//! The first byte says which. Below 64 it is a run of operations, two bytes each: which, and its
//! argument. Otherwise it is damage (the top bit asks for recomputed checksums): operation, file,
//! offset (2 bytes), argument, and for an overwrite that many bytes.
#![no_main]

mod crawls;

use std::cell::RefCell;
use std::collections::BTreeSet;

use crawls::{Image, image, options, seal, url};
use filemap_io::sim::{Level, Loss, SimDisk};
use frontier::{
    Error, Failure, FailureKind, Fetched, Frontier, Next, PageId, PageStatus, Remedy, Result, StorageError,
};
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The files have less than 64 KiB, and the simulated disk keeps all that was ever written.
const MEMORY_LIMIT: usize = 32 << 20;
const EXTREMES: [u64; 8] = [0, 0xff, 0xffff, 1 << 30, 0xffff_ffff, 1 << 62, u64::MAX, 64];
const ALL_CREDIT: u128 = 1 << 62;

thread_local! {
    static IMAGE: RefCell<Option<Image>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        None => {}
        Some((..64, operations)) => live(operations),
        Some((&first, edits)) => {
            let image = IMAGE.with_borrow_mut(|kept| kept.get_or_insert_with(image).clone());
            damaged(image, first & 0x80 != 0, edits);
        }
    }
});

fn damaged(mut image: Image, is_sealed: bool, mut edits: &[u8]) {
    for _ in 0..8 {
        let Some((edit, rest)) = edits.split_first_chunk::<5>() else { break };
        let name;
        (name, edits) = edited(&mut image, *edit, rest);
        if is_sealed {
            seal(&mut image, &name);
        }
    }
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let disk = SimDisk::new(1);
    image.iter().for_each(|(name, bytes)| disk.set_bytes(name, bytes));
    for _ in 0..2 {
        if let Err(error) = used(&disk) {
            assert!(is_clear(&error, &image), "{error}");
            break;
        }
    }
    let peak = MEMORY.peak_usage().saturating_sub(before);
    assert!(peak < MEMORY_LIMIT, "{peak} bytes at once");
}

fn is_clear(error: &Error, image: &Image) -> bool {
    match error {
        Error::Storage(StorageError::Corrupt { file, what, .. }) => file.starts_with("frontier.") && !what.is_empty(),
        Error::Missing { .. } => !image.contains_key("frontier.snapshot"),
        Error::Storage(
            StorageError::NewerFormat { .. } | StorageError::Full { .. } | StorageError::Poisoned { .. },
        ) => true,
        _ => false,
    }
}

/// Opens a frontier and does with it what frontiers are for.
fn used(disk: &SimDisk) -> Result<()> {
    let mut frontier = Frontier::open_in(disk.dir(), options())?;
    assert_eq!(frontier.credit_units()?, ALL_CREDIT);
    frontier.urls_from(PageId::new(0)).try_for_each(|url| url.map(drop))?;
    let _ = (frontier.stats(), frontier.hosts().count(), frontier.by_importance(9)?);
    (0..300).step_by(7).try_for_each(|i| frontier.page(url(i)).map(drop))?;
    let mut now_ms = 0;
    for i in 0..80u32 {
        match frontier.next(now_ms)? {
            Next::Fetch(assignment) if i % 5 == 4 => {
                let failure = Failure {
                    kind: FailureKind::Busy,
                    retry_after_ms: Some(1),
                    remedy: if i % 2 == 0 { Remedy::GiveUp } else { Remedy::Retry },
                };
                frontier.failed(assignment.page, &failure, now_ms)?;
            }
            Next::Fetch(assignment) => {
                let links: Vec<String> = (0..5).map(|link| url(i * 9 + link)).collect();
                let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
                frontier
                    .done(assignment.page, &Fetched { fetched_at_ms: now_ms, links: &links, ..Fetched::default() })?;
            }
            Next::Wait { until_ms } => now_ms = until_ms,
            Next::InFlight | Next::Empty => break,
        }
        if i % 20 == 0 {
            frontier.commit()?;
        }
    }
    assert_eq!(frontier.credit_units()?, ALL_CREDIT);
    frontier.close()
}

/// Does one edit; the file that it changed, and the edits behind it.
fn edited<'d>(image: &mut Image, edit: [u8; 5], rest: &'d [u8]) -> (String, &'d [u8]) {
    let [operation, file, low, high, argument] = edit;
    let names: Vec<String> = image.keys().cloned().collect();
    let Some(name) = names.get(usize::from(file) % names.len().max(1)) else { return (String::new(), rest) };
    let (at, count) = (usize::from(u16::from_le_bytes([low, high])), usize::from(argument));
    let mut left = rest;
    let Some(bytes) = image.get_mut(name) else { return (name.clone(), rest) };
    let len = bytes.len();
    match operation % 7 {
        0 => {
            let new;
            (new, left) = rest.split_at(count.min(rest.len()));
            bytes.iter_mut().skip(at).zip(new).for_each(|(byte, new)| *byte = *new);
        }
        1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= argument),
        2 => bytes.truncate(at),
        3 => bytes.resize(len + 16 * count, argument),
        4 => {
            *bytes = rest.to_vec();
            left = &[];
        }
        5 => drop(image.remove(name)),
        _ => {
            let extreme = EXTREMES[count % EXTREMES.len()].to_le_bytes();
            let width = [1, 2, 4, 8][count / EXTREMES.len() % 4];
            if let Some(place) = bytes.get_mut(at..at + width) {
                place.copy_from_slice(&extreme[..width]);
            }
        }
    }
    (name.clone(), left)
}

/// Inputs of a frontier so far.
#[derive(Clone, Debug, Default)]
struct Model {
    urls: Vec<String>,
    known: BTreeSet<String>,
    done: BTreeSet<String>,
    gone: BTreeSet<String>,
}

impl Model {
    fn enter(&mut self, url: String) {
        if self.known.insert(url.clone()) {
            self.urls.push(url);
        }
    }

    fn is(&self, frontier: &Frontier) -> bool {
        let urls: Result<Vec<String>> = frontier.urls_from(PageId::new(0)).map(|one| Ok(one?.1)).collect();
        let is_right = |url: &String| match frontier.page(url).expect("read").map(|page| page.status) {
            Some(PageStatus::Fetched | PageStatus::Due) => self.done.contains(url) && !self.gone.contains(url),
            Some(PageStatus::Gone) => self.gone.contains(url),
            Some(PageStatus::InFlight) => true,
            Some(_) => !self.done.contains(url) && !self.gone.contains(url),
            None => false,
        };
        urls.expect("read") == self.urls && self.urls.iter().all(is_right)
    }
}

fn timed_out(is_permanent: bool) -> Failure {
    let remedy = if is_permanent { Remedy::GiveUp } else { Remedy::Retry };
    Failure { kind: FailureKind::Timeout, retry_after_ms: None, remedy }
}

/// A life by operations: what was committed is there at every opening, and the rest as after one
/// of the calls since.
fn live(operations: &[u8]) {
    let mut disk = SimDisk::new(1);
    let mut frontier = Frontier::create_in(disk.dir(), options()).expect("made");
    let (mut since, mut flying, mut now_ms) = (vec![Model::default()], Vec::new(), 0);
    for operation in operations.chunks_exact(2).take(200) {
        let (what, with) = (operation[0] % 12, operation[1]);
        let mut model = since.last().cloned().unwrap_or_default();
        match what {
            0 => {
                let seed = url(u32::from(with));
                frontier.seed(&[&seed], now_ms).expect("seeded");
                // A page that was given up begins anew.
                model.gone.remove(&seed);
                model.enter(seed);
            }
            1..=3 => match frontier.next(now_ms).expect("answered") {
                Next::Fetch(assignment) => {
                    assert!(!model.gone.contains(&assignment.url) && model.known.contains(&assignment.url));
                    assert_eq!(assignment.is_refresh, model.done.contains(&assignment.url));
                    flying.push(assignment);
                }
                Next::Wait { until_ms } => now_ms = until_ms,
                Next::InFlight => assert!(!flying.is_empty()),
                Next::Empty => assert!(flying.is_empty()),
            },
            4..=6 if !flying.is_empty() => {
                let assignment = flying.swap_remove(usize::from(with) % flying.len());
                let links: Vec<String> = (0..u32::from(with % 7)).map(|link| url(u32::from(with) + 3 * link)).collect();
                links.iter().for_each(|link| model.enter(link.clone()));
                model.done.insert(assignment.url);
                let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
                let changed = [None, Some(true), Some(false)][usize::from(with % 3)];
                let is_barren = with.is_multiple_of(5);
                let fetched =
                    Fetched { fetched_at_ms: now_ms, links: &links, changed, is_barren, ..Fetched::default() };
                frontier.done(assignment.page, &fetched).expect("told");
            }
            7 if !flying.is_empty() => {
                let assignment = flying.swap_remove(usize::from(with) % flying.len());
                let is_permanent = with % 3 == 0;
                // A page that was there may be there again: it waits for its next recrawl.
                if !assignment.is_refresh && (is_permanent || assignment.failed_attempts == 4) {
                    model.gone.insert(assignment.url);
                }
                let failure = timed_out(is_permanent);
                frontier.failed(assignment.page, &failure, now_ms).expect("told");
            }
            8 if !flying.is_empty() => frontier.release(flying.swap_remove(0).page).expect("given back"),
            9 => {
                let host = format!("h{}.example", with % 7);
                frontier.host_delay(&host, Some(u64::from(with) * 10)).expect("told");
                frontier.host_hold(host, now_ms + i64::from(with)).expect("told");
            }
            10 => {
                frontier.commit().expect("committed");
                since.clear();
            }
            11 => {
                frontier = ended(&mut disk, frontier, with, &mut since);
                flying.clear();
                continue;
            }
            _ => now_ms += i64::from(with) * 40,
        }
        since.push(model);
    }
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
}

/// Closes a frontier, drops it, or loses the power, and opens it again: it is as after one of the
/// calls since the last commit.
fn ended(disk: &mut SimDisk, frontier: Frontier, with: u8, since: &mut Vec<Model>) -> Frontier {
    match with % 3 {
        0 => {
            frontier.close().expect("closed");
            since.drain(..since.len().saturating_sub(1));
        }
        1 => drop(frontier),
        _ => {
            drop(frontier);
            let level = if with & 64 > 0 { Level::Adversarial } else { Level::Ordered };
            *disk = disk.crash(level, Loss::ALL[usize::from(with / 3 % 4)], u64::from(with));
        }
    }
    let frontier = Frontier::open_in(disk.dir(), options()).expect("opens by itself");
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
    let found = since.iter().rposition(|model| model.is(&frontier));
    let Some(found) = found else { panic!("it is as after none of {} calls", since.len()) };
    *since = vec![since.swap_remove(found)];
    frontier
}
