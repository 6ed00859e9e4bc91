//! The files of a repair. Segments are copied while they are read, or mended in place; derived
//! files are removed and rebuilt; the superblock gets its name once everything else is durable.

use std::io::ErrorKind;
use std::sync::Arc;

use filemap_io::{Access, Advice, Dir, File, Map, files};

use crate::error::{Error, Result};
use crate::format::header::FileHeader;
use crate::format::names;
use crate::format::rolls::Rolls;
use crate::format::superblock::Superblock;
use crate::handle::recover::{create_index, fill};
use crate::index::key_runs::KeyRunFiles;
use crate::index::superblock::SuperblockFile;
use crate::logs::keys::KeyLog;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::sync::{Ranked, lock, rank};
use crate::upkeep::repair::survey::Survey;

/// Unit of reads after a larger one has failed.
const SECTOR_BYTES: usize = 4096;

/// A source whose bytes are copied as they are read, front to back. Unreadable bytes are zeros in
/// both.
#[derive(Debug)]
pub(crate) struct Copying {
    source: Arc<dyn File>,
    copy: Arc<dyn File>,
    /// Offset and length of each unreadable part.
    unreadable: Ranked<{ rank::UNREADABLE }, Vec<(u64, u64)>>,
}

impl Copying {
    pub(crate) fn new(source: Arc<dyn File>, copy: Arc<dyn File>) -> Copying {
        Copying { source, copy, unreadable: Ranked::default() }
    }

    /// Returns offset and length of each unreadable part.
    pub(crate) fn unreadable(self) -> Vec<(u64, u64)> {
        self.unreadable.into_inner()
    }

    fn read_sector(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        match self.source.read_at(buf, offset) {
            Err(_) => {
                let n = (self.source.len()?.saturating_sub(offset) as usize).min(buf.len());
                buf[..n].fill(0);
                let mut list = lock(&self.unreadable);
                match list.last_mut() {
                    Some(last) if last.0 + last.1 == offset => last.1 += n as u64,
                    _ => list.push((offset, n as u64)),
                }
                Ok(n)
            }
            read => read,
        }
    }
}

impl File for Copying {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let n = match self.source.read_once_at(buf, offset) {
            Err(_) => {
                let mut done = 0;
                for sector in buf.chunks_mut(SECTOR_BYTES) {
                    done += self.read_sector(sector, offset + done as u64)?;
                }
                done
            }
            Ok(n) => n,
        };
        self.copy.write_at(&buf[..n], offset)?;
        // It is not read again, and reused memory is the fastest.
        self.source.advise(Advice::DropCache, offset, n as u64);
        Ok(n)
    }

    fn len(&self) -> std::io::Result<u64> {
        self.source.len()
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.source.advise(advice, offset, len);
    }

    fn write_at(&self, _: &[u8], _: u64) -> std::io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn allocated_bytes(&self) -> std::io::Result<u64> {
        Err(ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _: u64) -> std::io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> std::io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn map(&self, _: u64, _: usize) -> std::io::Result<Arc<dyn Map>> {
        Err(ErrorKind::Unsupported.into())
    }
}

/// Opens a file for writing. If it has other hard links, a private copy replaces it first.
///
/// # Errors
/// `Io`, for example when it belongs to another user.
pub(crate) fn own(dir: &dyn Dir, name: &str) -> Result<Arc<dyn File>> {
    match dir.open(name, Access::Write) {
        Err(e) if e.kind() == ErrorKind::InvalidInput => {}
        opened => return opened.map_err(Error::io("open", name)),
    }
    let copy = names::copy_of(name);
    files::remove(dir, &copy)?;
    copy_file(dir, name, dir, &copy)?;
    dir.rename(&copy, name).map_err(Error::io("rename", &copy))?;
    files::sync_folder(dir)?;
    dir.open(name, Access::Write).map_err(Error::io("open", name))
}

/// Copies a file byte for byte to another name or directory, and syncs the copy.
pub(crate) fn copy_file(from: &dyn Dir, name: &str, to: &dyn Dir, as_name: &str) -> Result<()> {
    Ok(files::copy(from, name, to, as_name)?)
}

/// Prepares a store for repair in place: it is not a store again until [`finish`]. May be repeated
/// after an interruption. Segments get their proper names, and headers if those are damaged.
pub(crate) fn begin_in_place(shared: &Arc<dyn Dir>, survey: &Survey) -> Result<()> {
    let dir = &**shared;
    // First, so that nobody opens a half-repaired store. A repeated repair needs its content.
    match dir.rename(names::SUPERBLOCK, names::OLD_SUPERBLOCK) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::io("rename", names::SUPERBLOCK)(e)),
        _ => files::sync_folder(dir)?,
    }
    files::remove(dir, names::NEW_SUPERBLOCK)?;
    files::remove(dir, names::INDEX)?;
    // Old findings say nothing about the repaired store.
    files::remove(dir, names::VERIFIED)?;
    files::remove(dir, names::VERIFYING)?;
    KeyLog::remove(dir)?;
    KeyRunFiles::new(Arc::clone(shared), survey.store_id).remove_orphans(&[], u64::MAX)?;
    let rename = |from: &str, to: &str| dir.rename(from, to).map_err(Error::io("rename", from));
    let listed = dir.list().map_err(Error::io("list", dir.path().display()))?;
    for ignored in &survey.ignored {
        rename(&ignored.file, &names::next_set_aside(&ignored.file, &listed))?;
    }
    // In two steps, since one file may have another's proper name.
    let strayed = || survey.segments.iter().filter(|f| f.name != f.proper_name());
    for found in strayed() {
        let moved = names::moved_segment(found.header.ordinal as u16);
        if found.name != moved {
            rename(&found.name, &moved)?;
        }
    }
    files::sync_folder(dir)?;
    for found in strayed() {
        rename(&names::moved_segment(found.header.ordinal as u16), &found.proper_name())?;
    }
    for found in survey.segments.iter().filter(|f| f.is_guessed) {
        let name = found.proper_name();
        let file = own(dir, &name)?;
        file.write_at(&found.header.encode(), 0).map_err(Error::io("write", &name))?;
        file.sync().map_err(Error::io("sync", &name))?;
    }
    Ok(files::sync_folder(dir)?)
}

/// Creates a segment with its header, and syncs it.
pub(crate) fn create_segment(dir: &dyn Dir, header: &FileHeader) -> Result<()> {
    let name = names::segment(header.ordinal as u16);
    // A file without a record was never complete.
    files::remove(dir, &name)?;
    Ok(files::create(dir, &name, &header.encode())?)
}

/// Creates superblock, key log and index of a store without keys. The superblock has its temporary
/// name.
pub(crate) fn create_derived(dir: &dyn Dir, first: &Superblock) -> Result<()> {
    SuperblockFile::create(dir, first, &Rolls::none(first.store_id))?;
    files::sync_folder(dir)?;
    KeyLog::create(dir, first.store_id, first.created_ms)?;
    create_index(dir, first.store_id, first.created_ms)
}

/// Gives the superblock its name: from here on the directory is a store.
pub(crate) fn finish(dir: &dyn Dir) -> Result<()> {
    files::sync_folder(dir)?;
    dir.rename(names::NEW_SUPERBLOCK, names::SUPERBLOCK).map_err(Error::io("rename", names::SUPERBLOCK))?;
    files::sync_folder(dir)?;
    files::remove(dir, names::OLD_SUPERBLOCK)?;
    Ok(files::sync_folder(dir)?)
}

/// Covers gaps of a segment with fillers, cuts it at its end if necessary, and syncs it.
pub(crate) fn mend(file: &dyn File, segment: &Segment, gaps: &[(u64, u64)], end: u64) -> Result<()> {
    for (offset, bytes) in gaps {
        fill(file, segment, *offset, *bytes)?;
    }
    let end = end.max(FIRST_RECORD);
    if file.len().map_err(Error::io("measure", segment.name()))? != end {
        file.set_len(end).map_err(Error::io("truncate", segment.name()))?;
    }
    file.sync().map_err(Error::io("sync", segment.name()))
}
