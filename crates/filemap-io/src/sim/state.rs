//! The state of a simulated disk, and the calls that change it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::{Failure, Fault, Observer, SECTOR_BYTES};

/// Bytes of a cache page, the unit of `DropCache`.
const PAGE_BYTES: usize = 4096;
/// Filler past the end of the file, where reading would raise SIGBUS.
const PAST_END: u64 = 0x0bad_0bad_0bad_0bad;

pub(super) type Sector = [u8; SECTOR_BYTES];

/// A file, independent of its names.
#[derive(Clone, Default)]
pub(super) struct Inode {
    /// The bytes that programs see.
    pub(super) live: Vec<u8>,
    /// The bytes on the device, except for sectors in `dirty`, which may have any of their
    /// contents.
    pub(super) durable: Vec<u8>,
    /// Contents since the last sync, oldest first, by sector number.
    pub(super) dirty: BTreeMap<usize, Vec<Sector>>,
    /// Lengths since the last sync, oldest first.
    pub(super) lengths: Vec<usize>,
    /// Numbers of pages punched and not written since: they take no space.
    pub(super) holes: BTreeSet<usize>,
    pub(super) maps: Vec<Weak<SimWords>>,
}

/// The words of one map.
pub(super) struct SimWords {
    pub(super) offset: usize,
    pub(super) words: Box<[AtomicU64]>,
}

/// A directory change not yet followed by a sync of the directory.
#[derive(Clone, Debug)]
pub(super) struct NameChange {
    pub(super) removed: Option<String>,
    pub(super) added: Option<(String, usize)>,
    /// True once a later file sync made it durable, where name changes are ordered.
    pub(super) journaled: bool,
}

pub(super) struct State {
    pub(super) files: Vec<Inode>,
    /// Writable maps, with the numbers of their files.
    pub(super) stored: Vec<(usize, Arc<SimWords>)>,
    pub(super) live: BTreeMap<String, usize>,
    pub(super) durable: BTreeMap<String, usize>,
    pub(super) changes: Vec<NameChange>,
    pub(super) locks: HashSet<String>,
    pub(super) rng: fastrand::Rng,
    /// All calls so far that could have failed.
    pub(super) calls: Vec<Call>,
    pub(super) failure: Option<Failure>,
    pub(super) failed: u64,
    pub(super) observer: Option<Observer>,
}

debug_fields!(State: live, failed);

/// A disk between two calls. Crash images are drawn from it.
///
/// ```
/// use filemap_io::sim::{Level, Loss, SimDisk};
/// let disk = SimDisk::new(1);
/// disk.observe(Some(Box::new(|snapshot| {
///     let crashed = snapshot.crash(Level::Ordered, Loss::Everything, 7);
///     println!("{} calls, {:?}", snapshot.calls(), crashed.names());
/// })));
/// disk.dir().open("f", filemap_io::Access::Create)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Snapshot<'a> {
    pub(super) state: &'a State,
}

impl<'a> Snapshot<'a> {
    pub(super) fn of(state: &'a State) -> Snapshot<'a> {
        Snapshot { state }
    }
}

/// Kind of a call, which decides how it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Read,
    /// Needs space.
    Write,
    /// Changes something, but needs no space.
    Change,
    Sync,
}

/// Behaviour of a refused call.
#[derive(Debug)]
pub(super) enum Refusal {
    Error(io::Error),
    /// Writes half, then fails.
    Short(io::Error),
}

impl Fault {
    /// Returns the failure of `call` under this fault, if it can fail.
    pub(super) fn refusal(self, call: Call) -> Option<Refusal> {
        match (self, call) {
            (Fault::Eio, _) => Some(Refusal::Error(io::Error::from_raw_os_error(5))),
            (Fault::Eintr, _) => Some(Refusal::Error(io::Error::from(io::ErrorKind::Interrupted))),
            // With delayed allocation the sync finds the device full.
            (Fault::Enospc, Call::Write | Call::Sync) => Some(Refusal::Error(io::Error::from_raw_os_error(28))),
            (Fault::ShortWrite, Call::Write) => Some(Refusal::Short(io::Error::from_raw_os_error(28))),
            _ => None,
        }
    }
}

impl State {
    pub(super) fn new(seed: u64) -> State {
        State {
            files: Vec::new(),
            stored: Vec::new(),
            live: BTreeMap::new(),
            durable: BTreeMap::new(),
            changes: Vec::new(),
            locks: HashSet::new(),
            rng: fastrand::Rng::with_seed(seed),
            calls: Vec::new(),
            failure: None,
            failed: 0,
            observer: None,
        }
    }

    /// Copies stores made through maps into the files.
    pub(super) fn take_stores(&mut self) {
        let files = &mut self.files;
        self.stored.retain(|(id, map)| {
            files[*id].take_stores(map);
            // One reference is ours, one may be the entry in `maps` being read: without a third,
            // the program has dropped the map.
            Arc::strong_count(map) > 1
        });
    }

    pub(super) fn named(&self, name: &str) -> Option<&Inode> {
        self.live.get(name).map(|&id| &self.files[id])
    }

    pub(super) fn set_bytes(&mut self, name: &str, bytes: &[u8]) {
        let id = match self.live.get(name) {
            Some(&id) => id,
            None => {
                self.files.push(Inode::default());
                self.files.len() - 1
            }
        };
        self.files[id].become_durable(bytes.to_vec());
        self.live.insert(name.to_owned(), id);
        self.durable.insert(name.to_owned(), id);
    }

    /// Counts a call and decides whether it is refused.
    pub(super) fn begin(&mut self, call: Call) -> Result<(), Refusal> {
        self.calls.push(call);
        let number = self.calls.len() as u64;
        let Some(failure) = self.failure else { return Ok(()) };
        let is_now = match failure.only_syncs {
            true => number >= failure.at && self.failed == 0 && call == Call::Sync,
            false => number == failure.at,
        };
        let is_later = number > failure.at && failure.forever && self.failed > 0 && call != Call::Read;
        if !is_now && !is_later {
            return Ok(());
        }
        match failure.fault.refusal(call) {
            Some(refusal) => {
                self.failed += 1;
                Err(refusal)
            }
            None => Ok(()),
        }
    }

    /// Shows the disk to the observer after a call that changed it.
    pub(super) fn changed(&mut self) {
        if let Some(mut observer) = self.observer.take() {
            observer(&Snapshot::of(self));
            self.observer = Some(observer);
        }
    }

    pub(super) fn write(&mut self, id: usize, data: &[u8], offset: usize) {
        self.files[id].write(data, offset);
    }

    /// Punches a hole: zeros that reach the device or not, as any write.
    pub(super) fn punch(&mut self, id: usize, offset: usize, len: usize) {
        let end = (offset + len).min(self.files[id].live.len());
        if offset < end {
            self.files[id].write(&vec![0; end - offset], offset);
            self.files[id].holes.extend(offset.div_ceil(PAGE_BYTES)..end / PAGE_BYTES);
        }
    }

    /// Syncs a file. If the sync fails, each dirty sector is either on the device or forgotten, at
    /// random.
    pub(super) fn sync_file(&mut self, id: usize, succeeds: bool) {
        if succeeds {
            self.files[id].sync();
            self.changes.iter_mut().for_each(|c| c.journaled = true);
        } else {
            let mut rng = self.rng.fork();
            self.files[id].fail_sync(&mut rng);
        }
    }

    pub(super) fn sync_names(&mut self) {
        self.durable = self.live.clone();
        self.changes.clear();
    }

    /// Changes the directory: a removal, an addition, or both in one step.
    pub(super) fn change_name(&mut self, removed: Option<String>, added: Option<(String, usize)>) {
        let change = NameChange { removed, added, journaled: false };
        change.apply(&mut self.live);
        self.changes.push(change);
    }
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(name) = &self.removed {
            names.remove(name);
        }
        if let Some((name, id)) = &self.added {
            names.insert(name.clone(), *id);
        }
    }
}

impl Inode {
    /// Sets the file's bytes, on the device too.
    pub(super) fn become_durable(&mut self, bytes: Vec<u8>) {
        let touched = 0..bytes.len().max(self.live.len());
        self.live.clone_from(&bytes);
        self.durable = bytes;
        self.dirty.clear();
        self.lengths.clear();
        self.holes.clear();
        self.show(touched);
    }

    fn write(&mut self, data: &[u8], offset: usize) {
        if data.is_empty() {
            return;
        }
        let (old, end) = (self.live.len(), offset + data.len());
        for page in offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            self.holes.remove(&page);
        }
        if end > old {
            self.live.resize(end, 0);
            self.lengths.push(end);
            self.show(old..offset.max(old));
        }
        self.live[offset..end].copy_from_slice(data);
        self.dirtied(offset..end);
    }

    /// Copies the sectors of a map that differ from the file into it.
    fn take_stores(&mut self, map: &SimWords) {
        // Read all words first: taking a sector shows its whole page to all maps again.
        let mut bytes = Vec::with_capacity(map.words.len() * 8);
        bytes.extend(map.words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()));
        for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            let start = map.offset + number * SECTOR_BYTES;
            let end = (start + sector.len()).min(self.live.len());
            if start < end && self.live[start..end] != sector[..end - start] {
                self.live[start..end].copy_from_slice(&sector[..end - start]);
                self.dirtied(start..end);
            }
        }
    }

    pub(super) fn set_len(&mut self, len: usize) {
        let old = self.live.len();
        if len == old {
            return;
        }
        self.live.resize(len, 0);
        self.lengths.push(len);
        // If the file grows again, this range reads as zeros.
        self.dirtied(len.min(old)..old.max(len));
    }

    /// Bytes that the file takes on the device.
    pub(super) fn allocated_bytes(&self) -> usize {
        let holes = self.holes.range(..self.live.len().div_ceil(PAGE_BYTES)).count();
        self.live.len().next_multiple_of(PAGE_BYTES) - holes * PAGE_BYTES
    }

    /// Records the new contents of the sectors in a range.
    fn dirtied(&mut self, range: std::ops::Range<usize>) {
        for number in range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES) {
            let sector = sector(&self.live, number);
            self.dirty.entry(number).or_default().push(sector);
        }
        self.show(range);
    }

    fn sync(&mut self) {
        self.durable.clone_from(&self.live_with_lost());
        self.dirty.clear();
        self.lengths.clear();
    }

    /// The bytes that a sync makes durable: the dirty sectors' last contents over those of the
    /// device. They differ from the live bytes if an earlier sync failed.
    fn live_with_lost(&self) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        bytes.resize(self.live.len(), 0);
        for (number, contents) in &self.dirty {
            if let Some(last) = contents.last() {
                put_sector(&mut bytes, *number, last);
            }
        }
        bytes
    }

    fn fail_sync(&mut self, rng: &mut fastrand::Rng) {
        // The length belongs to the inode, which the journal writes sooner or later.
        let mut durable = self.durable.clone();
        durable.resize(self.live.len(), 0);
        for (number, contents) in &self.dirty {
            if let Some(last) = contents.last()
                && rng.bool()
            {
                put_sector(&mut durable, *number, last);
            }
        }
        self.durable = durable;
        self.dirty.clear();
        self.lengths.clear();
    }

    /// Drops the clean pages of a range from the cache, unless they are mapped.
    pub(super) fn drop_cache(&mut self, offset: usize, len: usize) {
        self.maps.retain(|m| m.strong_count() > 0);
        if !self.maps.is_empty() {
            return;
        }
        let end = if len == 0 { self.live.len() } else { self.live.len().min(offset + len) };
        for page in offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            let sectors = page * PAGE_BYTES / SECTOR_BYTES..(page + 1) * PAGE_BYTES / SECTOR_BYTES;
            if self.dirty.range(sectors.clone()).next().is_some() {
                continue;
            }
            for number in sectors {
                let clean = sector(&self.durable, number);
                put_sector(&mut self.live, number, &clean);
            }
        }
    }

    /// Updates the maps with the live bytes of a range.
    fn show(&mut self, range: std::ops::Range<usize>) {
        self.maps.retain(|m| m.strong_count() > 0);
        for map in self.maps.iter().filter_map(Weak::upgrade) {
            map.show(&self.live, range.clone());
        }
    }
}

impl SimWords {
    pub(super) fn new(live: &[u8], offset: usize, len: usize) -> SimWords {
        let this = SimWords { offset, words: (0..len / 8).map(|_| AtomicU64::new(PAST_END)).collect() };
        this.show(live, offset..offset + len);
        this
    }

    fn show(&self, live: &[u8], range: std::ops::Range<usize>) {
        let end = self.offset + self.words.len() * 8;
        // The rest of a file's last page reads as zeros.
        let file_end = live.len().next_multiple_of(PAGE_BYTES);
        let start = (range.start / PAGE_BYTES * PAGE_BYTES).max(self.offset);
        for at in (start..range.end.next_multiple_of(PAGE_BYTES).min(end)).step_by(8) {
            let mut word = [0; 8];
            let held = &live[at.min(live.len())..(at + 8).min(live.len())];
            word[..held.len()].copy_from_slice(held);
            let value = if at < file_end { u64::from_le_bytes(word) } else { PAST_END };
            self.words[(at - self.offset) / 8].store(value, Ordering::Relaxed);
        }
    }
}

/// A sector of a file, zeros past its end.
pub(super) fn sector(bytes: &[u8], number: usize) -> Sector {
    let mut sector = [0; SECTOR_BYTES];
    let start = (number * SECTOR_BYTES).min(bytes.len());
    let held = &bytes[start..(start + SECTOR_BYTES).min(bytes.len())];
    sector[..held.len()].copy_from_slice(held);
    sector
}

/// Writes a sector at its offset, up to the end of the file.
pub(super) fn put_sector(bytes: &mut [u8], number: usize, sector: &Sector) {
    let start = (number * SECTOR_BYTES).min(bytes.len());
    let end = (start + SECTOR_BYTES).min(bytes.len());
    bytes[start..end].copy_from_slice(&sector[..end - start]);
}
