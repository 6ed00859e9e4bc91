//! Reserved disk space (`NAME.room`, a file of zeros) for a set whose file is always rewritten as
//! a whole: a trie or a growing filter.
//!
//! Such a set needs space for its next file beside the last one. It is reserved at creation, and
//! more before the set grows into it: so a full disk is reported while all inserts so far can
//! still be saved.
//!
//! Invariants: what is in memory fits the reserved space; the space is released only to be written
//! into, and then reserved again.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_io::{Access, Dir, StorageError, guard};

use super::{AnySet, StoredSet};
use crate::error::{Error, Result};
use crate::files::{self, beside};

/// Maximum bytes of a URL in a file, beside its text.
const ENTRY_BYTES: u64 = 64;
/// Step in which space is reserved.
const STEP_BYTES: u64 = 1 << 20;

/// Maximum bytes that a URL takes in a file.
fn cost_of(url: &[u8]) -> u64 {
    url.len() as u64 + ENTRY_BYTES
}

/// The reserved space of a set.
#[derive(Debug)]
pub(super) struct Room {
    file: String,
    /// Reserved bytes.
    held: Mutex<u64>,
    /// Bytes of inserts before the next check.
    left: AtomicU64,
}

impl Room {
    /// The space of a set, if its kind needs any; nothing is reserved yet.
    pub(super) fn of(set: &AnySet, dir: &dyn Dir, name: &str) -> Option<Room> {
        let is_whole = matches!(set, AnySet::Trie(_) | AnySet::Growing(_));
        is_whole.then(|| {
            let file = beside::room(name);
            let held = dir.open(&file, Access::Read).and_then(|file| file.len()).unwrap_or(0);
            Room { file, held: Mutex::new(held), left: AtomicU64::new(0) }
        })
    }

    /// Reserves space for a file of this many bytes.
    fn hold(&self, dir: &dyn Dir, bytes: u64) -> Result<u64> {
        let mut held = guard(&self.held);
        let wanted = bytes.next_multiple_of(STEP_BYTES);
        if *held < wanted {
            self.grow(dir, *held, wanted)?;
            *held = wanted;
        }
        Ok(*held)
    }

    fn grow(&self, dir: &dyn Dir, from: u64, to: u64) -> Result<()> {
        let access = if from == 0 { Access::Create } else { Access::Write };
        if from == 0 {
            files::remove(dir, &self.file)?;
        }
        let file = dir.open(&self.file, access).map_err(Error::io("open", &self.file))?;
        let zeros = vec![0; STEP_BYTES as usize];
        let mut at = from;
        while at < to {
            let piece = &zeros[..(to - at).min(STEP_BYTES) as usize];
            file.write_at(piece, at).map_err(Error::io("write", &self.file))?;
            at += piece.len() as u64;
        }
        file.sync().map_err(Error::io("sync", &self.file))
    }

    /// Releases the space, for the file to be written now.
    fn give_up(&self, dir: &dyn Dir) {
        let mut held = guard(&self.held);
        let _ = dir.remove(&self.file);
        *held = 0;
        self.left.store(0, Ordering::Relaxed);
    }
}

impl StoredSet {
    /// Reserves space for the set's present contents.
    ///
    /// # Errors
    /// `Io`, of the kind [`io::ErrorKind::StorageFull`].
    pub(super) fn take_room(&self) -> Result<()> {
        let Some(room) = &self.room else { return Ok(()) };
        room.hold(&*self.dir, self.set.seen().memory_bytes()).map(drop)
    }

    /// Reserves space for these URLs, before they are inserted.
    ///
    /// # Errors
    /// `Full` if the disk has none. What was inserted before can be saved.
    #[inline]
    pub(super) fn make_room(&self, urls: &[&[u8]]) -> Result<()> {
        self.make_room_beside(urls, &[])
    }

    /// Reserves space for URLs, beside `others`, whose space is reserved and which are not
    /// inserted yet.
    ///
    /// # Errors
    /// As [`StoredSet::make_room`].
    pub(super) fn make_room_beside(&self, urls: &[&[u8]], others: &[Box<[u8]>]) -> Result<()> {
        let Some(room) = &self.room else { return Ok(()) };
        let cost = urls.iter().map(|url| cost_of(url)).sum::<u64>();
        // Two threads may both take the last bytes: the next insert checks again, and ENTRY_BYTES
        // is generous.
        match room.left.load(Ordering::Relaxed).checked_sub(cost) {
            Some(left) => {
                room.left.store(left, Ordering::Relaxed);
                Ok(())
            }
            None => self.make_more_room(room, cost, others.iter().map(|url| cost_of(url)).sum()),
        }
    }

    #[cold]
    fn make_more_room(&self, room: &Room, cost: u64, others: u64) -> Result<()> {
        let memory = self.set.seen().memory_bytes() + others;
        match room.hold(&*self.dir, memory + memory / 8 + cost) {
            Ok(held) => {
                room.left.store(held.saturating_sub(memory + cost), Ordering::Relaxed);
                Ok(())
            }
            Err(Error::Storage(StorageError::Io { source, .. }))
                if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                let what =
                    "the disk has no room for a larger file of it; what was inserted so far can be saved, and more \
                            when there is room"
                        .to_owned();
                Err(Error::Storage(StorageError::Full { file: self.name.clone(), what }))
            }
            Err(error) => Err(error),
        }
    }

    /// Runs `write`, which rewrites the set's file, in the reserved space.
    pub(super) fn write_into_room(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(room) = &self.room else { return write() };
        room.give_up(&*self.dir);
        write()?;
        // If the disk has none, the next insert reports it.
        let _ = self.take_room();
        Ok(())
    }
}
