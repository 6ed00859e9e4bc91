//! Backups: copies or links the files that one superblock names into another directory, while
//! puts, checkpoints and compaction continue.
//!
//! A writer holds its last superblock meanwhile: nothing that it names is removed or overwritten.
//! A follower cannot hold another process's superblock. It checks afterwards for a newer one; if
//! there is one, it copies the changes and checks again. It also copies the log beyond the
//! checkpoint, as a killed process would leave it; opening the backup replays that.
//!
//! Invariants: the source is not changed. A file that is still appended to is copied, never
//! linked: both stores can be written afterwards, and neither ever changes a byte of the other.
//! The superblock is the last file to get its final name.

mod files;
mod hold;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::time::Duration;

use filemap_io::files::sync_folder;
use filemap_io::{Access, Advice, Dir, File, Progress};

use crate::error::{Error, Result, unless_cancelled};
use crate::failpoint::{Fault, planted, step};
use crate::format::rolls::Rolls;
use crate::format::superblock::Superblock;
use crate::format::{PAGE_BYTES, header, names};
use crate::handle::reading::Reading;
use crate::handle::recover;
use crate::handle::rules;
use crate::index::address::{Owner, load};
use crate::index::segment_table::{SegmentRow, SegmentTable};
use crate::index::superblock::SuperblockFile;
use crate::sync::primitive::sleep;
use crate::upkeep::Upkeep;
use files::{copy_range, is_same, length, missing, open, read};

/// Attempts of a follower to finish between two checkpoints of the writer.
const TRIES: u32 = 40;

/// Progress of a backup.
///
/// ```
/// use filemap_core::backup::BackupProgress;
/// fn words(now: &BackupProgress) -> String {
///     format!("{} of {} bytes, next {}", now.done_bytes, now.total_bytes, now.file)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Bytes in the backup, linked or copied.
    pub done_bytes: u64,
    /// Total bytes of all files.
    pub total_bytes: u64,
    /// The next file.
    pub file: String,
}

/// Contents of a backup.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # use std::ops::ControlFlow;
/// # let path = temp.path().join("b");
/// let options = filemap_core::backup::BackupOptions::new();
/// let done = store.backup(path, &options, &mut |_| ControlFlow::Continue(()))?;
/// println!("{} bytes copied", done.copied_bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackedUp {
    /// Number of files.
    pub files: u64,
    /// Their total length in bytes.
    pub bytes: u64,
    /// Of these: bytes shared with the store by hard links.
    pub linked_bytes: u64,
    /// Bytes shared with the earlier backup by hard links.
    pub reused_bytes: u64,
    /// Copied bytes.
    pub copied_bytes: u64,
}

/// Parameters of a backup.
pub(crate) struct Order<'a> {
    pub(crate) to: &'a dyn Dir,
    /// An earlier backup to share files with.
    pub(crate) base: Option<&'a dyn Dir>,
    /// True if files may be shared by hard links.
    pub(crate) links: bool,
    pub(crate) progress: &'a mut Progress<'a, BackupProgress>,
}

/// The files of a superblock.
struct Inventory {
    superblock: Superblock,
    /// The log's segments from its tail on.
    rolls: Rolls,
    /// Files that are never written again.
    sealed: Vec<String>,
    /// Files that are or may be appended to, with the number of bytes that count. Log segments in
    /// order.
    growing: Vec<(String, u64)>,
    /// Dictionaries that the superblock names; true for one whose loss was accepted.
    dictionaries: BTreeMap<u32, bool>,
}

/// Backs up the whole store into an empty directory, durably, names included.
///
/// # Errors
/// `Cancelled`; those of a checkpoint, of reading and of writing. The source is unchanged.
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

/// Reads the superblock of an earlier backup, which must be of this store.
fn superblock_of(reading: &Reading, dir: &dyn Dir) -> Result<Superblock> {
    let found = SuperblockFile::open(dir, Access::Read)?.newest_whole(dir)?;
    if found.store_id == reading.birth().store_id {
        return Ok(found);
    }
    let why = format!("{} is not a backup of this store", dir.path().display());
    Err(Error::option("base", why))
}

/// Lists the files of a superblock. Bytes after its tail count only if `beyond`.
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
            // Includes dead segments, since the segment table names them, but not leaving ones,
            // which may be removed before they are copied.
            if row.is_some_and(|a| !a.is_leaving) {
                sealed.push(segment.name());
            }
        } else if segment.ordinal == tail.ordinal || beyond {
            rolls.add(segment.ordinal);
            growing.push((segment.name(), if beyond { u64::MAX } else { tail.offset }));
        }
    }
    let end = superblock.key_tail;
    let is_live = |row: &SegmentRow| row.live_units > 0 && row.ordinal < end.ordinal;
    sealed.extend(segment_table.keys.iter().filter(|(_, a)| is_live(a)).map(|(id, _)| names::keys(*id)));
    sealed.extend(segment_table.key_runs().iter().map(|run| names::key_run(run.number)));
    growing.push((names::keys(end.ordinal as u16), end.offset));
    Ok(Inventory { superblock, rolls, sealed, growing, dictionaries: segment_table.dictionaries.clone() })
}

struct Run<'a, 'o> {
    reading: &'a Reading,
    order: &'a mut Order<'o>,
    base: Option<Superblock>,
    sum: BackedUp,
    /// The way in which each sealed file was brought.
    brought: BTreeMap<String, How>,
    /// File names of dictionaries that the last attempt brought.
    dictionaries: BTreeSet<String>,
    total_bytes: u64,
}

/// The way in which a file got into the backup.
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
        // A handle closed meanwhile has lost its hold: another writer may have changed the files
        // that were copied.
        reading.check_open()?;
        drop(hold);
        self.finish(&inventory)
    }

    /// Tries until no newer superblock appears while the last files are copied.
    fn as_reader(&mut self) -> Result<BackedUp> {
        let reading = self.reading;
        let mut dropped_epoch = None;
        for attempt in 1..=TRIES {
            let superblock = reading.superblock().newest_whole(reading.dir())?;
            if dropped_epoch.replace(superblock.dropped_epoch).is_some_and(|r| r != superblock.dropped_epoch) {
                // The copied log may contain records that were dropped since.
                self.remove_where(|name| !self.is_sealed_here(name))?;
            }
            let epoch = superblock.epoch;
            match self.try_as_reader(superblock) {
                Err(e) if e.is_corrupt() => {
                    // No file of the last superblock is removed, so without a newer one this is
                    // damage.
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
        let what = "checkpoints come faster than the index can be copied; back up from the writing process";
        Err(Error::io("backup", names::INDEX)(std::io::Error::other(what)))
    }

    fn try_as_reader(&mut self, superblock: Superblock) -> Result<Option<Inventory>> {
        let reading = self.reading;
        let epoch = superblock.epoch;
        let is_newest = || reading.superblock().newest_whole(reading.dir()).map(|newest| newest.epoch == epoch);
        let file = recover::open_index(reading.dir(), Access::Read, &superblock)?;
        let (seed, limits) = (recover::index_seed(&superblock), &reading.options().limits);
        let loaded = load(file, seed, Owner::Other, superblock.index, epoch, limits)?;
        let segment_table = recover::segment_table(&loaded, superblock.index)?;
        drop(loaded);
        // Files that this handle once knew may be missing now.
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

    /// Returns true for files in the backup that are no longer appended to.
    fn is_sealed_here(&self, name: &str) -> bool {
        name == names::LOCK || name == names::PARTIAL || names::parse_dictionary(name).is_some()
    }

    /// Adds up the bytes to bring.
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

    fn tell(&mut self, file: &str, more: u64) -> Result<()> {
        self.reading.check_open()?;
        let (done_bytes, total_bytes) = (self.sum.bytes + more, self.total_bytes);
        let now = BackupProgress { done_bytes, total_bytes, file: file.into() };
        unless_cancelled((self.order.progress)(now))
    }

    /// Brings all files except the index and the superblock.
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
        // A dictionary is older than the first record that names it, so those of all copied
        // records exist by now.
        self.bring_dictionaries(inventory)
    }

    /// Copies the erasure rules. RULES is replaced before a superblock names its generation, so it
    /// is at least `vouched`.
    fn rules(&mut self, vouched: u64) -> Result<()> {
        let (dir, store_id) = (self.reading.dir(), &self.reading.birth().store_id);
        let rules = rules::read(dir, store_id, vouched, Access::Read)?;
        if rules.generation > 0 {
            rules::write(self.order.to, store_id, &rules)?;
            self.add(rules.encode(store_id).len() as u64, How::Copied);
        }
        Ok(())
    }

    /// Returns the ids of the dictionaries to bring: those that the superblock names and does not
    /// list as lost (flag true), and every other intact one, made since or restored after its loss
    /// was accepted (flag false).
    fn dictionaries(&self, inventory: &Inventory) -> Result<Vec<(u32, bool)>> {
        let dir = &self.reading.dir();
        let listed = dir.list().map_err(Error::io("list", dir.path().display()))?;
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

    /// Brings the dictionaries. One that the superblock does not name may have been removed
    /// meanwhile.
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

    /// Brings a file that is never written again, shared if possible.
    fn sealed(&mut self, name: &str) -> Result<()> {
        let (reading, to) = (self.reading, self.order.to);
        let from = open(reading.dir(), name)?;
        let bytes = length(&*from, name)?;
        if let Ok(there) = to.open(name, Access::Read) {
            // An earlier attempt of this backup brought it.
            if is_same(name, &*from, &*there)? {
                let how = self.brought.get(name).copied().unwrap_or(How::Copied);
                self.add(bytes, how);
                return Ok(());
            }
            to.remove(name).map_err(Error::io("remove", name))?;
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

    /// Links a file of another directory. Returns false if that is not possible.
    fn has_linked(&self, from: &dyn Dir, name: &str) -> Result<bool> {
        match self.order.to.link_from(from, name) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(missing(name)),
            Err(_) => Ok(false), // A copy will do, whatever the cause.
        }
    }

    /// Links the file from the earlier backup if it is the same and sealed there. Returns true if
    /// it did.
    fn base_has(&self, name: &str, wanted: &dyn File) -> Result<bool> {
        let (Some(dir), Some(superblock)) = (self.order.base, &self.base) else { return Ok(false) };
        // The earlier backup may have been written to since, and its last segments are its own.
        let last = [names::segment(superblock.tail.ordinal as u16), names::keys(superblock.key_tail.ordinal as u16)];
        if last.iter().any(|last| last == name) {
            return Ok(false);
        }
        match dir.open(name, Access::Read) {
            Ok(file) if is_same(name, wanted, &*file)? => self.has_linked(dir, name),
            _ => Ok(false),
        }
    }

    /// Copies a file up to `end` and syncs the copy. The part of a log that an earlier attempt
    /// copied is kept, since logs are only appended to.
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
            to.sync().map_err(Error::io("sync", name))?;
        }
        // The copy will not be read soon.
        to.advise(Advice::DropCache, 0, 0);
        self.add(end, How::Copied);
        Ok(())
    }

    /// Opens the copy of a file, which an earlier attempt may have begun.
    fn open_copy(&self, from: &dyn File, name: &str) -> Result<std::sync::Arc<dyn File>> {
        let to = self.order.to;
        let create = || to.open(name, Access::Create).map_err(Error::io("create", name));
        match to.open(name, Access::Read) {
            Err(e) if e.kind() == ErrorKind::NotFound => create(),
            Err(e) => Err(Error::io("open", name)(e)),
            Ok(begun) if read(from, 0, header::BYTES)? == read(&*begun, 0, header::BYTES)? => {
                to.open(name, Access::Write).map_err(Error::io("open", name))
            }
            Ok(_) => {
                // The number was reused by another file. The earlier copy may be shared, so it is
                // not overwritten.
                to.remove(name).map_err(Error::io("remove", name))?;
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
        sync_folder(to)?;
        step();
        SuperblockFile::create(to, &recover::copied(to, &inventory.superblock)?, &inventory.rolls)?;
        to.rename(names::NEW_SUPERBLOCK, names::SUPERBLOCK).map_err(Error::io("rename", names::SUPERBLOCK))?;
        sync_folder(to)?;
        // The superblock is written, not copied.
        self.sum.files += 1;
        self.sum.bytes += 2 * PAGE_BYTES as u64;
        Ok(self.sum)
    }

    /// Removes files of earlier attempts from the backup.
    fn remove_where(&self, is_unwanted: impl Fn(&str) -> bool) -> Result<()> {
        let to = self.order.to;
        let all = to.list().map_err(Error::io("list", to.path().display()))?;
        for name in all.iter().filter(|name| names::is_ours(name) && is_unwanted(name)) {
            to.remove(name).map_err(Error::io("remove", name))?;
        }
        Ok(())
    }
}
