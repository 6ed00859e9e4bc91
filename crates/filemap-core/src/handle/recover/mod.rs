//! Recovery: creates a store's files, and brings an existing store to the state of its log.

mod absent;
mod complete;
mod order;
mod replay;

use std::io::ErrorKind;
use std::sync::Arc;

use filemap_io::{Access, Dir, File, files};

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::files::check_header;
use crate::format::header::{self, FileHeader, Kind as FileKind};
use crate::format::location::{Extent, Location};
use crate::format::rolls::{self, Rolls};
use crate::format::superblock::{IndexRoot, Superblock, Tail};
use crate::format::value::{self, Kind};
use crate::format::{FORMAT_VERSION, PAGE_BYTES, all_zero, names, seed};
use crate::index::address::Loaded;
use crate::index::memtable::{Entry, Memtable};
use crate::index::segment_table::SegmentTable;
use crate::index::superblock::SuperblockFile;
use crate::logs::keys::KeyLog;
use crate::logs::segments::{FIRST_RECORD, Segment, Segments};
use crate::options::{Canonicalizer, Options};
use crate::record::{Version, now_ms};

pub use absent::Absent;
pub(crate) use absent::{Witness, absent_runs, accept, refuse, welcome};
pub(crate) use complete::Met;
pub(crate) use order::{first_run, order};
pub(crate) use replay::{Base, fill, replay};

/// Greatest length of a lock file left by a creation: a process id.
const LOCK_BYTES: u64 = 16;

/// Checks that a store may be created in a directory: it is empty, or holds only the leftovers of
/// an interrupted creation.
///
/// # Errors
/// `NotEmpty` if it may not.
pub(crate) fn check_vacant(dir: &dyn Dir) -> Result<()> {
    let found = dir.list().map_err(Error::io("list", dir.path().display()))?;
    // A creation begins with this file, and nothing else has its name: it is ours, whole or not.
    let begun = found.iter().any(|name| name == names::NEW_SUPERBLOCK);
    for name in &found {
        match is_unborn(dir, name, begun) {
            Ok(true) => {}
            // `InvalidInput`: `open` refuses a file that cannot be a store's.
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
                return Err(Error::io("open", name)(e));
            }
            _ => return Err(Error::NotEmpty { path: dir.path().to_owned() }),
        }
    }
    Ok(())
}

/// Returns true if a file may be left by an interrupted creation, with nothing ever put in it.
fn is_unborn(dir: &dyn Dir, name: &str, begun: bool) -> std::io::Result<bool> {
    let longest = match name {
        names::LOCK => LOCK_BYTES,
        names::NEW_SUPERBLOCK => rolls::AT + rolls::BYTES as u64,
        names::INDEX => PAGE_BYTES as u64,
        name if name == names::segment(0) || name == names::keys(0) => FIRST_RECORD,
        _ => return Ok(false),
    };
    // Opened for writing, since it will be replaced if accepted.
    let file = dir.open(name, Access::Write)?;
    if file.len()? > longest {
        return Ok(false);
    }
    // Other programs have files called key0.dat too: without the mark of a creation a file must be
    // ours by its magic, or all zero.
    let mut start = [0; 8];
    let n = file.read_at(&mut start, 0)?;
    let is_ours = || FileKind::ALL.iter().any(|k| start == *k.magic());
    Ok(begun || name == names::LOCK || all_zero(&start[..n]) || is_ours())
}

/// Removes the leftovers of an interrupted creation from a directory whose lock is held.
///
/// # Errors
/// `NotEmpty` if there are other files; `Io`.
pub(crate) fn clear_unborn(dir: &dyn Dir) -> Result<()> {
    check_vacant(dir)?;
    // The mark goes last: without it the other files might not be recognised.
    for name in [names::INDEX, &names::keys(0), &names::segment(0)] {
        files::remove(dir, name)?;
    }
    files::sync_folder(dir)?;
    Ok(files::remove(dir, names::NEW_SUPERBLOCK)?)
}

/// Creates the files of an empty store in a vacant directory whose lock is held. The superblock is
/// written first under another name and renamed last: a directory without SUPERBLOCK is not a
/// store, and one with the other name is becoming one.
///
/// # Errors
/// `NotEmpty` if another process has created a store since the directory was checked.
pub(crate) fn create(dir: &dyn Dir, options: &Options) -> Result<()> {
    clear_unborn(dir)?;
    let random: [u8; 32] = files::random(dir)?;
    let mut store_id = [0; 16];
    store_id.copy_from_slice(&random[..16]);
    let created_ms = now_ms();
    let bytes = Canonicalizer { name: "bytes".into(), version: 1 };
    let first = Superblock {
        read_version: FORMAT_VERSION,
        write_version: FORMAT_VERSION,
        store_id,
        hash_seed: value_of(&random[16..24]),
        segment_bytes: options.segment_bytes as u32,
        canonicalizer: options.canonicalizer.clone().unwrap_or(bytes),
        created_ms,
        epoch: 1,
        tail: Tail { ordinal: 0, offset: FIRST_RECORD },
        next_sequence: 1,
        key_tail: Tail { ordinal: 0, offset: FIRST_RECORD },
        index: IndexRoot::empty(),
        versions: 0,
        max_time_ms: i64::MIN,
        dropped_epoch: 0,
        last_dictionary: 0,
        rules: 0,
        life: value_of(&random[24..]),
        removals_from: 0,
    };
    SuperblockFile::create(dir, &first, &Rolls::none(store_id))?;
    files::sync_folder(dir)?;
    KeyLog::create(dir, store_id, created_ms)?;
    create_index(dir, store_id, created_ms)?;
    let name = names::segment(0);
    files::create(dir, &name, &FileHeader::new(FileKind::Values, store_id, 0, created_ms).encode())?;
    if !planted(Fault::CreatedWithoutSync) {
        files::sync_folder(dir)?;
    }
    dir.rename(names::NEW_SUPERBLOCK, names::SUPERBLOCK).map_err(Error::io("rename", names::SUPERBLOCK))?;
    Ok(files::sync_folder(dir)?)
}

/// A random number that identifies the life of a store from now on, replacing `last`.
///
/// # Errors
/// `Io`.
pub(crate) fn next_life(dir: &dyn Dir, last: u64) -> Result<u64> {
    let random: [u8; 8] = files::random(dir)?;
    Ok(if planted(Fault::SameLife) { last } else { value_of(&random) })
}

/// The superblock of a backup, with a new life: both stores may be written from then on, and give
/// the same sequences to different puts.
///
/// # Errors
/// `Io`.
pub(crate) fn copied(to: &dyn Dir, superblock: &Superblock) -> Result<Superblock> {
    let life = next_life(to, superblock.life)?;
    Ok(Superblock { life, ..superblock.clone() })
}

/// Big-endian number of the bytes.
pub(crate) fn value_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b))
}

/// Creates address.idx with a header page only, and syncs it.
pub(crate) fn create_index(dir: &dyn Dir, store_id: [u8; 16], created_ms: i64) -> Result<()> {
    let mut page = [0; PAGE_BYTES];
    page[..header::BYTES].copy_from_slice(&FileHeader::new(FileKind::Index, store_id, 0, created_ms).encode());
    Ok(files::create(dir, names::INDEX, &page)?)
}

/// Opens address.idx and checks its header.
pub(crate) fn open_index(dir: &dyn Dir, access: Access, current: &Superblock) -> Result<Arc<dyn File>> {
    let file = dir.open(names::INDEX, access).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::corrupt(names::INDEX, 0, "the file is missing"),
        _ => Error::io("open", names::INDEX)(e),
    })?;
    check_header(&*file, names::INDEX, FileKind::Index, &current.store_id, access)?;
    Ok(file)
}

/// Decodes the segment table that was read with the index.
///
/// # Errors
/// `Corrupt` if it does not decode.
pub(crate) fn segment_table(loaded: &Loaded, root: IndexRoot) -> Result<SegmentTable> {
    let offset = u64::from(root.table) * PAGE_BYTES as u64;
    SegmentTable::decode(&loaded.table).map_err(|what| Error::corrupt(names::INDEX, offset, what))
}

/// Seed of the checksums of address.idx.
pub(crate) fn index_seed(current: &Superblock) -> u32 {
    seed(&current.store_id, u64::MAX - 1)
}

/// Bytes of log after a tail.
pub(crate) fn bytes_after(segments: &Segments, tail: Tail) -> Result<usize> {
    let mut bytes = 0;
    for segment in segments.log().iter().filter(|s| s.ordinal >= tail.ordinal) {
        let len = segments.file(segment)?.len().map_err(Error::io("measure", segment.name()))?;
        bytes += if segment.ordinal == tail.ordinal { len.saturating_sub(tail.offset) } else { len };
    }
    Ok(bytes as usize)
}

/// Enters a whole record of the log in a memtable if it is a version or a tombstone of all
/// versions. Returns its sequence.
pub(crate) fn enter(table: &Memtable, segment: u16, offset: u64, bytes: &[u8], hash: impl Fn(&[u8]) -> u64) -> u64 {
    let Ok(header) = value::peek(bytes) else { return 0 };
    if !header.is_entry() {
        return header.sequence;
    }
    let key = &bytes[header.key_at()..header.meta_at()];
    let payload = &bytes[header.payload_at()..];
    let refers_to = if header.kind == Kind::Reference { value::referred_to(payload) } else { 0 };
    if header.kind == Kind::Tombstone && planted(Fault::TombstonesNotReplayed) {
        return header.sequence;
    }
    let entry = Entry {
        version: Version { time_ms: header.time_ms, sequence: header.sequence },
        extent: Extent::new(Location::new(segment, offset), header.total_bytes()),
        refers_to,
        chunked: header.kind == Kind::Chunked,
        tombstone: header.kind == Kind::Tombstone,
    };
    table.insert(hash(key), key, &entry);
    header.sequence
}

/// Drops segments from the table that were removed after the superblock that released them. Those
/// that still exist stay until compaction empties them again. No ordinal is reused: a later
/// segment would be taken for the earlier one.
pub(crate) fn forget_removed(segments: &Segments, segment_table: &mut SegmentTable) {
    segments.pass_over(segment_table.values.values().map(|a| a.ordinal + 1).max().unwrap_or(0));
    segments.avoid(segment_table.values.values().filter(|a| a.is_lost).map(|a| a.ordinal as u16));
    let is_there = |id: u16, ordinal: u64| segments.get(id).is_ok_and(|s| s.ordinal == ordinal);
    segment_table.values.retain(|id, a| !a.is_leaving || is_there(*id, a.ordinal));
    segment_table.values.values_mut().for_each(|a| a.is_leaving = false);
}

/// Removes compaction outputs that no superblock names: their run was interrupted. If a file is
/// missing, the superblock may be outdated, and they may hold the only copy of pages: then they
/// are only set aside. Returns those, reported as missing files.
pub(crate) fn remove_orphans(
    segments: &Segments,
    segment_table: &SegmentTable,
    is_intact: bool,
) -> Result<Vec<Absent>> {
    let is_orphan = |s: &&Arc<Segment>| s.is_output && !segment_table.names(s.id, s.ordinal);
    let orphans: Vec<Arc<Segment>> = segments.all().iter().filter(is_orphan).map(Arc::clone).collect();
    if orphans.is_empty() {
        return Ok(Vec::new());
    }
    if is_intact {
        return segments.remove(&orphans).map(|()| Vec::new());
    }
    segments.pass_over(orphans.iter().map(|s| s.ordinal + 1).max().unwrap_or(0));
    segments.set_aside(&orphans)?;
    let why = "the superblock does not name it and may be outdated: the file was set aside";
    let told = |s: &Arc<Segment>| Absent {
        file: s.name(),
        ordinal: None,
        why: why.into(),
        live_bytes: s.met_bytes,
        is_accepted: true,
    };
    Ok(orphans.iter().map(told).collect())
}

/// Removes segments without a record after the log's end: created ahead, never rolled to. One
/// named by the segment table stays: its records may be part of an accepted loss.
pub(crate) fn remove_spares(
    dir: &dyn Dir,
    segments: &Segments,
    after: u64,
    segment_table: &SegmentTable,
) -> Result<()> {
    let is_spare = |s: &Segment| !s.is_output && s.ordinal > after && !segment_table.names(s.id, s.ordinal);
    let spares: Vec<_> = segments.log().into_iter().filter(|s| is_spare(s)).collect();
    let ordinals: Vec<u64> = spares.iter().map(|s| s.ordinal).collect();
    if !planted(Fault::SparesRemovedEarly) {
        segments.strike(&ordinals)?;
    }
    for segment in &spares {
        dir.remove(&segment.name()).map_err(Error::io("remove", segment.name()))?;
    }
    if !spares.is_empty() {
        files::sync_folder(dir)?;
        segments.forget(is_spare);
        segments.strike(&ordinals)?;
    }
    Ok(())
}

/// # Errors
/// `Canonicalizer` if the options name another canonicaliser than the store's.
pub(crate) fn check_canonicalizer(current: &Superblock, options: &Options) -> Result<()> {
    match &options.canonicalizer {
        Some(wanted) if *wanted != current.canonicalizer => {
            Err(Error::Canonicalizer { stored: current.canonicalizer.to_string(), wanted: wanted.to_string() })
        }
        _ => Ok(()),
    }
}
