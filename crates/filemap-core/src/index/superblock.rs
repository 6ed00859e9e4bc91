//! The file SUPERBLOCK: reads both copies, writes them in turn, and reads the list of begun
//! segments.

use std::sync::Arc;

use filemap_io::{Access, Dir, File, files};

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::files::check_versions;
use crate::format::rolls::{self, Rolls};
use crate::format::superblock::{BYTES, COPIES, CUT_OFF, Superblock, UNKNOWN_MAGIC};
use crate::format::{Flaw, header, names};

/// Both copies, decoded.
type Copies = [std::result::Result<Superblock, Flaw>; 2];

/// The open file.
#[derive(Debug)]
pub(crate) struct SuperblockFile {
    file: Arc<dyn File>,
}

impl SuperblockFile {
    /// Creates the file under its temporary name and syncs it, but not its name. It holds `first`,
    /// a copy of it with the previous epoch, and the list of begun segments.
    pub(crate) fn create(dir: &dyn Dir, first: &Superblock, rolls: &Rolls) -> Result<()> {
        let name = names::NEW_SUPERBLOCK;
        let file = dir.open(name, Access::Create).map_err(Error::io("create", name))?;
        let write = |bytes: &[u8], offset| file.write_at(bytes, offset).map_err(Error::io("write", name));
        for epoch in [first.epoch.saturating_sub(1), first.epoch] {
            write(&Superblock { epoch, ..first.clone() }.encode(), place(epoch))?;
        }
        write(&rolls.encode(), rolls::AT)?;
        file.sync().map_err(Error::io("sync", name))
    }

    /// Opens for writing the file that [`SuperblockFile::create`] made. The handle outlives a
    /// rename.
    pub(crate) fn open_new(dir: &dyn Dir) -> Result<SuperblockFile> {
        let name = names::NEW_SUPERBLOCK;
        let file = dir.open(name, Access::Write).map_err(Error::io("open", name))?;
        Ok(SuperblockFile { file })
    }

    /// Opens the file.
    ///
    /// # Errors
    /// `NotAStore` if there is no file and never was; `Corrupt` if it is lost; `Io`.
    pub(crate) fn open(dir: &dyn Dir, access: Access) -> Result<SuperblockFile> {
        match dir.open(names::SUPERBLOCK, access) {
            Ok(file) => Ok(SuperblockFile { file }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => match missing(dir)? {
                // A creation or repair has ended meanwhile.
                None => SuperblockFile::open(dir, access),
                Some(error) => Err(error),
            },
            Err(e) => Err(Error::io("open", names::SUPERBLOCK)(e)),
        }
    }

    /// Checks without the lock whether this is a superblock, and returns the newest whole copy.
    /// The other copy may be being written.
    ///
    /// # Errors
    /// If neither copy has the magic, `NotAStore`, or `Corrupt` beside a segment with records;
    /// `NewerFormat` if `access` is not allowed; `Io`.
    pub(crate) fn look(&self, dir: &dyn Dir, access: Access) -> Result<Option<Superblock>> {
        judge(&self.copies()?, dir, access)
    }

    /// Returns the newest copy.
    ///
    /// # Errors
    /// Those of `look`; `Corrupt` if a copy does not verify. Each is one sector, so a crash cannot
    /// have torn it; falling back to the other is unsafe, since pages that it names may have been
    /// reused.
    pub(crate) fn read(&self, dir: &dyn Dir, access: Access) -> Result<Superblock> {
        let copies = self.copies()?;
        let newest = judge(&copies, dir, access)?;
        for (copy, offset) in copies.iter().zip(COPIES) {
            copy.as_ref().map_err(|what| Error::corrupt(names::SUPERBLOCK, offset, *what))?;
        }
        newest.ok_or_else(|| Error::corrupt(names::SUPERBLOCK, 0, "no copy"))
    }

    /// Returns the newest copy that verifies. For followers, which know that the store is whole:
    /// the other copy may be being written.
    ///
    /// # Errors
    /// Those of [`SuperblockFile::read`], if no copy verifies.
    pub(crate) fn newest_whole(&self, dir: &dyn Dir) -> Result<Superblock> {
        self.look(dir, Access::Read)?.map_or_else(|| self.read(dir, Access::Read), Ok)
    }

    /// Reads both copies as they are.
    pub(crate) fn copies(&self) -> Result<Copies> {
        let mut copies = [const { Err(UNKNOWN_MAGIC) }; 2];
        for (copy, offset) in copies.iter_mut().zip(COPIES) {
            let bytes = files::read(&*self.file, names::SUPERBLOCK, offset, BYTES)?;
            *copy = Superblock::decode(&bytes).and_then(|found| match place(found.epoch) == offset {
                true => Ok(found),
                false => Err("it belongs at the other copy's offset"),
            });
        }
        Ok(copies)
    }

    /// Reads the list of begun segments.
    ///
    /// # Errors
    /// `Corrupt` if the sector does not verify: it is damaged, since a crash cannot tear it, or a
    /// writer is writing it; `Io`.
    pub(crate) fn rolls(&self, store_id: &[u8; 16]) -> Result<Rolls> {
        let bytes = files::read(&*self.file, names::SUPERBLOCK, rolls::AT, rolls::BYTES)?;
        let found = Rolls::decode(&bytes).map_err(|what| Error::corrupt(names::SUPERBLOCK, rolls::AT, what))?;
        if found.store_id() != *store_id {
            return Err(Error::corrupt(names::SUPERBLOCK, rolls::AT, "it belongs to another store"));
        }
        Ok(found)
    }

    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Writes the next superblock over the older copy and syncs it. On return the checkpoint is
    /// durable.
    pub(crate) fn write(&self, next: &Superblock) -> Result<()> {
        self.file.write_at(&next.encode(), place(next.epoch)).map_err(Error::io("write", names::SUPERBLOCK))?;
        if planted(Fault::SuperblockNotSynced) { Ok(()) } else { self.sync() }
    }

    /// Makes the bytes read durable: they may be in the cache only.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync().map_err(Error::io("sync", names::SUPERBLOCK))
    }

    /// Drops cached bytes, so the next read shows what the disk holds.
    pub(crate) fn drop_cache(&self) {
        self.file.advise(filemap_io::Advice::DropCache, 0, 0);
    }
}

/// The error for a directory without SUPERBLOCK. A value segment with records is then the rest of
/// a lost store, unless an interrupted creation, repair or backup has left its mark there. `None`
/// if the file exists by now.
fn missing(dir: &dyn Dir) -> Result<Option<Error>> {
    let found = dir.list().map_err(Error::io("list", dir.path().display()))?;
    if found.iter().any(|name| name == names::SUPERBLOCK) {
        return Ok(None);
    }
    let is_begun = found.iter().any(|name| [names::NEW_SUPERBLOCK, names::PARTIAL].contains(&name.as_str()));
    Ok(Some(match segment_with_records(dir, &found) {
        Some(name) if !is_begun => Error::corrupt(names::SUPERBLOCK, 0, format!("the file is missing beside {name}")),
        _ => Error::NotAStore { path: dir.path().to_owned(), why: "it has no file SUPERBLOCK".into() },
    }))
}

/// A value segment of FileMap with records.
fn segment_with_records<'a>(dir: &dyn Dir, found: &'a [String]) -> Option<&'a String> {
    let is_ours = |name: &&String| {
        let mut magic = [0; 8];
        let read = |file: Arc<dyn File>| Ok(file.len()? > header::BYTES as u64 && file.read_at(&mut magic, 0)? == 8);
        dir.open(name, Access::Read).and_then(read).unwrap_or(false) && magic == *header::Kind::Values.magic()
    };
    found.iter().filter(|name| names::parse_segment(name).is_some()).find(is_ours)
}

/// Offset of the copy for an epoch.
fn place(epoch: u64) -> u64 {
    COPIES[(epoch % 2) as usize]
}

/// Returns the newest whole copy, if this program may use it.
fn judge(copies: &Copies, dir: &dyn Dir, access: Access) -> Result<Option<Superblock>> {
    if copies.iter().all(|c| matches!(c, Err(UNKNOWN_MAGIC | CUT_OFF))) {
        let found = dir.list().map_err(Error::io("list", dir.path().display()))?;
        return Err(match segment_with_records(dir, &found) {
            // The file gets its name only once it is whole.
            Some(name) => Error::corrupt(names::SUPERBLOCK, 0, format!("not a superblock, but {name} has records")),
            None => {
                let why = "its file SUPERBLOCK was not written by FileMap".into();
                Error::NotAStore { path: dir.path().to_owned(), why }
            }
        });
    }
    let newest = copies.iter().flatten().max_by_key(|c| c.epoch);
    if let Some(found) = newest {
        check_versions(names::SUPERBLOCK, found.read_version, found.write_version, access)?;
    }
    Ok(newest.cloned())
}
