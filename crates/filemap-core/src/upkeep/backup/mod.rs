//! Backups: brings the files that one superblock names into another directory, while puts, checkpoints and compaction go on.
//!
//! A handle that writes holds on to its last superblock meanwhile: nothing that it names is removed or written over. A handle
//! that only reads cannot ask for that of another process. It looks afterwards whether a newer superblock has come, and if so
//! brings what has changed and looks again; it takes along the log beyond the checkpoint too, as a process that is killed leaves
//! it, so that opening the backup replays it.
//!
//! Invariants: nothing of the source is changed. What is still appended to is copied, never linked: both stores can be written
//! afterwards, and neither ever changes a byte that the other has. The superblock is the last file to get its name.

mod files;
mod hold;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::time::Duration;

use filemap_io::{Access, Advice, Dir, File};

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted, step};
use crate::format::rolls::Rolls;
use crate::format::superblock::Superblock;
use crate::format::{PAGE_BYTES, header, names};
use crate::handle::reading::Reading;
use crate::handle::recover;
use crate::handle::rules;
use crate::index::address::{Owner, load};
use crate::index::segment_table::SegmentTable;
use crate::index::superblock::SuperblockFile;
use crate::sync::primitive::sleep;
use crate::upkeep::Upkeep;
use files::{copy_range, is_same, length, missing, open, read};

/// How often a reader tries to be faster than the writer's checkpoints.
const TRIES: u32 = 40;

/// How far a backup is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Bytes that are in the backup, linked or copied.
    pub done_bytes: u64,
    /// Bytes of all files.
    pub total_bytes: u64,
    /// The file that comes next.
    pub file: String,
}

/// What a backup consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackedUp {
    /// Its files.
    pub files: u64,
    /// Their length in bytes.
    pub bytes: u64,
    /// Of these: bytes that the store and the backup share.
    pub linked_bytes: u64,
    /// Bytes that an earlier backup and this one share.
    pub reused_bytes: u64,
    /// Bytes that were copied.
    pub copied_bytes: u64,
}

/// How a backup is made.
pub(crate) struct Order<'a> {
    pub(crate) to: &'a dyn Dir,
    /// An earlier backup.
    pub(crate) base: Option<&'a dyn Dir>,
    /// Whether files may be reading.
    pub(crate) links: bool,
    pub(crate) watch: &'a mut dyn FnMut(&BackupProgress) -> ControlFlow<()>,
}

/// The files of a superblock.
struct Inventory {
    superblock: Superblock,
    /// The segments of the log after its tail.
    rolls: Rolls,
    /// Nothing is ever written to them again.
    sealed: Vec<String>,
    /// Something is, or may be; so many bytes of them count. In the order of the log.
    growing: Vec<(String, u64)>,
    /// The dictionaries that it names, and whether each counts as lost.
    dictionaries: BTreeMap<u32, bool>,
}

/// Brings everything that makes up the store into an empty directory, and makes it durable there, its name too.
///
/// # Errors
/// `Stopped`; those of a checkpoint, and of reading and writing. The source is as it was.
pub(crate) fn back_up(reading: &Reading, upkeep: Option<&Upkeep>, order: &mut Order<'_>) -> Result<BackedUp> {
    reading.follow_writer()?;
    recover::refuse(&reading.absent(), false)?;
    let base = order.base.map(|dir| superblock_of(reading, dir)).transpose()?;
    let mut run = Run {
        reading,
        order,
        base,
        sum: BackedUp::default(),
        brought: BTreeMap::new(),
        dictionaries: BTreeSet::new(),
        total_bytes: 0,
    };
    match upkeep {
        Some(upkeep) => run.as_writer(upkeep),
        None => run.as_reader(),
    }
}

/// The superblock of an earlier backup.
fn superblock_of(reading: &Reading, dir: &dyn Dir) -> Result<Superblock> {
    let found = SuperblockFile::open(dir, Access::Read)?.newest_whole(dir)?;
    if found.store_id == reading.birth().store_id {
        return Ok(found);
    }
    let why = format!("{} is no backup of this store", dir.path().display());
    Err(Error::InvalidOption { name: "base", why })
}

/// The files of a superblock. Bytes after its tail count only if `beyond`.
fn inventory(
    reading: &Reading,
    superblock: Superblock,
    segment_table: &SegmentTable,
    beyond: bool,
) -> Result<Inventory> {
    let (mut sealed, mut growing) = (Vec::new(), Vec::new());
    let tail = superblock.tail;
    let mut rolls = Rolls::none(superblock.store_id);
    for segment in reading.values().segments.all().iter() {
        let row = segment_table.values.get(&segment.id).filter(|a| a.ordinal == segment.ordinal);
        if segment.is_output || segment.ordinal < tail.ordinal {
            // Those in which nothing lives, too: the segment table has them. Those that leave may go before they are brought.
            if row.is_some_and(|a| !a.is_leaving) {
                sealed.push(segment.name());
            }
        } else if segment.ordinal == tail.ordinal || beyond {
            rolls.add(segment.ordinal);
            growing.push((segment.name(), if beyond { u64::MAX } else { tail.offset }));
        }
    }
    let end = superblock.key_tail;
    let live = segment_table.keys.iter().filter(|(_, a)| a.live_units > 0 && a.ordinal < end.ordinal);
    sealed.extend(live.map(|(id, _)| names::keys(*id)));
    growing.push((names::keys(end.ordinal as u16), end.offset));
    Ok(Inventory { superblock, rolls, sealed, growing, dictionaries: segment_table.dictionaries.clone() })
}

struct Run<'a, 'o> {
    reading: &'a Reading,
    order: &'a mut Order<'o>,
    base: Option<Superblock>,
    sum: BackedUp,
    /// How each sealed file was brought.
    brought: BTreeMap<String, How>,
    /// Names of the dictionaries that the last try has brought.
    dictionaries: BTreeSet<String>,
    total_bytes: u64,
}

/// How a file comes into a backup.
#[derive(Clone, Copy, Debug)]
enum How {
    Linked,
    Reused,
    Copied,
}

impl Run<'_, '_> {
    fn as_writer(&mut self, upkeep: &Upkeep) -> Result<BackedUp> {
        let reading = self.reading;
        upkeep.checkpoint()?;
        let (hold, superblock, segment_table) = upkeep.hold()?;
        let inventory = inventory(reading, superblock, &segment_table, false)?;
        self.measure(&inventory)?;
        self.files(&inventory)?;
        self.index(&inventory.superblock)?;
        // A handle that was closed meanwhile has held nothing since: another writer may have changed what was copied.
        reading.check_open()?;
        drop(hold);
        self.finish(&inventory)
    }

    /// Again and again, until no newer superblock has come while the last files were copied.
    fn as_reader(&mut self) -> Result<BackedUp> {
        let reading = self.reading;
        let mut dropped_epoch = None;
        for attempt in 1..=TRIES {
            let superblock = reading.superblock().newest_whole(reading.dir())?;
            if dropped_epoch.replace(superblock.dropped_epoch).is_some_and(|r| r != superblock.dropped_epoch) {
                // What was copied of the log may not be there any more.
                self.remove_where(|name| !self.is_sealed_here(name))?;
            }
            let epoch = superblock.epoch;
            match self.try_as_reader(superblock) {
                Err(e) if e.is_corrupt() => {
                    // Of the files that the last superblock names none goes: if there is no newer one, it is damage.
                    if reading.superblock().newest_whole(reading.dir())?.epoch == epoch {
                        return Err(e);
                    }
                }
                Ok(None) => {}
                Ok(Some(inventory)) => return self.finish(&inventory),
                Err(e) => return Err(e),
            }
            sleep(Duration::from_millis(u64::from(10 * attempt)));
        }
        let what = "checkpoints come faster than it can be copied; let the process that writes make the backup";
        Err(Error::io("backup", names::INDEX, std::io::Error::other(what)))
    }

    fn try_as_reader(&mut self, superblock: Superblock) -> Result<Option<Inventory>> {
        let reading = self.reading;
        let epoch = superblock.epoch;
        let is_newest = || Ok(reading.superblock().newest_whole(reading.dir())?.epoch == epoch);
        let file = recover::open_index(reading.dir(), Access::Read, &superblock)?;
        let seed = recover::index_seed(&superblock);
        let loaded = load(file, seed, Owner::Other, superblock.index, epoch, &reading.options().limits)?;
        let segment_table = recover::segment_table(&loaded, superblock.index)?;
        drop(loaded);
        // What this handle once saw may be gone.
        let Some(absent) = reading.absent_values(&superblock, &segment_table)? else { return Ok(None) };
        recover::refuse(&absent, false)?;
        let inventory = inventory(reading, superblock, &segment_table, true)?;
        self.measure(&inventory)?;
        self.files(&inventory)?;
        if !is_newest()? {
            return Ok(None);
        }
        self.index(&inventory.superblock)?;
        Ok(is_newest()?.then_some(inventory))
    }

    /// Whether the backup has a file to which nothing is appended any more.
    fn is_sealed_here(&self, name: &str) -> bool {
        name == names::LOCK || name == names::PARTIAL || names::parse_dictionary(name).is_some()
    }

    /// Adds up what there is to do.
    fn measure(&mut self, inventory: &Inventory) -> Result<()> {
        self.sum = BackedUp::default();
        self.total_bytes = inventory.superblock.index.pages * PAGE_BYTES as u64;
        let sealed = inventory.sealed.iter().map(|name| (name, u64::MAX));
        for (id, is_vouched) in self.dictionaries(inventory)? {
            match open(self.reading.dir(), &names::dictionary(id)) {
                Err(e) if e.is_corrupt() && !is_vouched => {}
                file => self.total_bytes += length(&*file?, &names::dictionary(id))?,
            }
        }
        for (name, most) in sealed.chain(inventory.growing.iter().map(|(name, most)| (name, *most))) {
            self.total_bytes += length(&*open(self.reading.dir(), name)?, name)?.min(most);
        }
        Ok(())
    }

    fn tell(&mut self, file: &str, done_bytes: u64) -> Result<()> {
        self.reading.check_open()?;
        let done_bytes = self.sum.bytes + done_bytes;
        let progress = BackupProgress { done_bytes, total_bytes: self.total_bytes, file: file.into() };
        if (self.order.watch)(&progress).is_break() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Brings all files but the index and the superblock.
    fn files(&mut self, inventory: &Inventory) -> Result<()> {
        for name in &inventory.sealed {
            step();
            self.tell(name, 0)?;
            self.sealed(name)?;
        }
        for (name, most) in &inventory.growing {
            step();
            self.tell(name, 0)?;
            let from = open(self.reading.dir(), name)?;
            let end = length(&*from, name)?.min(*most);
            if *most != u64::MAX && end < *most {
                return Err(Error::corrupt(name, end, "the file is shorter than the superblock says"));
            }
            self.copy(&*from, name, end)?;
        }
        self.rules(inventory.superblock.rules)?;
        // A dictionary is there before the first record that names it: those of all that was copied are, now.
        self.bring_dictionaries(inventory)
    }

    /// Copies the rules of erasures, which are at least those that the superblock vouches for: they are replaced before it.
    fn rules(&mut self, vouched: u64) -> Result<()> {
        let (dir, store_id) = (self.reading.dir(), &self.reading.birth().store_id);
        let rules = rules::read(dir, store_id, vouched, Access::Read)?;
        if rules.generation > 0 {
            rules::write(self.order.to, store_id, &rules)?;
            self.add(rules.encode(store_id).len() as u64, How::Copied);
        }
        Ok(())
    }

    /// Ids of the dictionaries to bring, and whether the superblock vouches for each: all that it names, and what else is there and whole
    /// (made since, or put back after its loss was accepted).
    fn dictionaries(&self, inventory: &Inventory) -> Result<Vec<(u32, bool)>> {
        let dir = &self.reading.dir();
        let listed = dir.list().map_err(|e| Error::io("list", dir.path().display().to_string(), e))?;
        let is_vouched = |id: u32| inventory.dictionaries.get(&id) == Some(&false);
        let vouched = inventory.dictionaries.keys().copied().filter(|id| is_vouched(*id));
        let all: BTreeSet<u32> =
            listed.iter().filter_map(|name| names::parse_dictionary(name)).chain(vouched).collect();
        let mut ids = Vec::new();
        for id in all {
            match self.reading.values().dictionaries.check_head(id) {
                Err(e) if e.is_corrupt() && !is_vouched(id) => {}
                checked => checked.map(|()| ids.push((id, is_vouched(id))))?,
            }
        }
        Ok(ids)
    }

    /// Brings the dictionaries. One that nobody vouches for may have been removed meanwhile.
    fn bring_dictionaries(&mut self, inventory: &Inventory) -> Result<()> {
        self.dictionaries.clear();
        for (id, is_vouched) in self.dictionaries(inventory)? {
            step();
            let name = names::dictionary(id);
            self.tell(&name, 0)?;
            match self.sealed(&name) {
                Err(e) if e.is_corrupt() && !is_vouched => continue,
                brought => brought?,
            }
            self.dictionaries.insert(name);
        }
        Ok(())
    }

    /// Brings a file that is never written to again: shares it if that can be.
    fn sealed(&mut self, name: &str) -> Result<()> {
        let (reading, to) = (self.reading, self.order.to);
        let from = open(reading.dir(), name)?;
        let bytes = length(&*from, name)?;
        if let Ok(there) = to.open(name, Access::Read) {
            // Brought by an earlier try of this backup.
            if is_same(&*from, &*there)? {
                let how = self.brought.get(name).copied().unwrap_or(How::Copied);
                self.add(bytes, how);
                return Ok(());
            }
            to.remove(name).map_err(|e| Error::io("remove", name, e))?;
        }
        let how = if self.order.links && self.has_linked(reading.dir(), name)? {
            How::Linked
        } else if self.order.links && self.base_has(name, &*from)? {
            How::Reused
        } else {
            return self.copy(&*from, name, bytes);
        };
        self.brought.insert(name.to_owned(), how);
        self.add(bytes, how);
        Ok(())
    }

    fn add(&mut self, bytes: u64, how: How) {
        self.sum.files += 1;
        self.sum.bytes += bytes;
        *match how {
            How::Linked => &mut self.sum.linked_bytes,
            How::Reused => &mut self.sum.reused_bytes,
            How::Copied => &mut self.sum.copied_bytes,
        } += bytes;
    }

    /// Whether a file of another directory could be reading.
    fn has_linked(&self, from: &dyn Dir, name: &str) -> Result<bool> {
        match self.order.to.link_from(from, name) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(missing(name)),
            // Whatever forbids it, a copy will do.
            Err(_) => Ok(false),
        }
    }

    /// Whether the earlier backup had this very file, sealed, and it could be reading.
    fn base_has(&self, name: &str, wanted: &dyn File) -> Result<bool> {
        let (Some(dir), Some(superblock)) = (self.order.base, &self.base) else { return Ok(false) };
        // Somebody may have gone on writing to the backup, and its last segments are its own.
        let last = [names::segment(superblock.tail.ordinal as u16), names::keys(superblock.key_tail.ordinal as u16)];
        if last.iter().any(|last| last == name) {
            return Ok(false);
        }
        match dir.open(name, Access::Read) {
            Ok(file) if is_same(wanted, &*file)? => self.has_linked(dir, name),
            _ => Ok(false),
        }
    }

    /// Copies a file up to a length, and syncs the copy. What an earlier try has copied is kept: what
    /// counts of a log is only ever appended to.
    fn copy(&mut self, from: &dyn File, name: &str, end: u64) -> Result<()> {
        let to = self.open_copy(from, name)?;
        let start = match length(&*to, name)? {
            len if name == names::INDEX || len > end => 0,
            len => len,
        };
        copy_range(from, &*to, name, start..end, &mut |at| {
            step();
            self.tell(name, at)
        })?;
        if !planted(Fault::BackupNotSynced) {
            to.sync().map_err(|e| Error::io("sync", name, e))?;
        }
        // Nobody will read it soon.
        to.advise(Advice::DropCache, 0, 0);
        self.add(end, How::Copied);
        Ok(())
    }

    /// The copy of a file, which may have been begun.
    fn open_copy(&self, from: &dyn File, name: &str) -> Result<std::sync::Arc<dyn File>> {
        let to = self.order.to;
        let create = || to.open(name, Access::Create).map_err(|e| Error::io("create", name, e));
        match to.open(name, Access::Read) {
            Err(e) if e.kind() == ErrorKind::NotFound => create(),
            Err(e) => Err(Error::io("open", name, e)),
            Ok(begun) if read(from, 0, header::BYTES)? == read(&*begun, 0, header::BYTES)? => {
                to.open(name, Access::Write).map_err(|e| Error::io("open", name, e))
            }
            Ok(_) => {
                // Its number is used again, by a file that is another's by now; what was brought may be reading.
                to.remove(name).map_err(|e| Error::io("remove", name, e))?;
                create()
            }
        }
    }

    fn index(&mut self, superblock: &Superblock) -> Result<()> {
        self.tell(names::INDEX, 0)?;
        let from = open(self.reading.dir(), names::INDEX)?;
        self.copy(&*from, names::INDEX, superblock.index.pages * PAGE_BYTES as u64)
    }

    /// Makes everything durable, the superblock last.
    fn finish(&mut self, inventory: &Inventory) -> Result<BackedUp> {
        let to = self.order.to;
        let is_wanted = |name: &str| {
            let is_growing = inventory.growing.iter().any(|(n, _)| n == name);
            let is_sealed = inventory.sealed.iter().any(|n| n == name);
            is_growing || is_sealed || name == names::INDEX || name == names::RULES || self.dictionaries.contains(name)
        };
        self.remove_where(|name| !is_wanted(name) && name != names::LOCK && name != names::PARTIAL)?;
        let path = || to.path().display().to_string();
        to.sync().map_err(|e| Error::io("sync", path(), e))?;
        step();
        SuperblockFile::create(to, &inventory.superblock, &inventory.rolls)?;
        to.rename(names::NEW_SUPERBLOCK, names::SUPERBLOCK).map_err(|e| Error::io("rename", names::SUPERBLOCK, e))?;
        to.sync().map_err(|e| Error::io("sync", path(), e))?;
        // Written, not copied.
        self.sum.files += 1;
        self.sum.bytes += 2 * PAGE_BYTES as u64;
        Ok(self.sum)
    }

    /// Removes files of earlier tries from the backup.
    fn remove_where(&self, is_unwanted: impl Fn(&str) -> bool) -> Result<()> {
        let to = self.order.to;
        let all = to.list().map_err(|e| Error::io("list", to.path().display().to_string(), e))?;
        for name in all.iter().filter(|name| names::is_ours(name) && is_unwanted(name)) {
            to.remove(name).map_err(|e| Error::io("remove", name, e))?;
        }
        Ok(())
    }
}
