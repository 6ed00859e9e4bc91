//! Room on the disk for a set whose file is only ever written anew as a whole (a trie, a growing
//! filter): `NAME.room`, a file of zeros.
//!
//! Such a set needs room for its next file beside the last one. It is taken when the set is made,
//! and more of it before the set grows into it: so a full disk is said while all that was inserted
//! can still be saved, and not when it is too late.
//!
//! Invariants: what is in memory fits into the room and what it takes; the room is given up only
//! to be written into, and taken again after that.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_io::{Access, Dir, StorageError, guard};

use super::{AnySet, StoredSet};
use crate::error::{Error, Result};
use crate::files::{self, beside};

/// What a URL takes in a file at most, but for its text.
const ENTRY_BYTES: u64 = 64;
/// Room is taken in such steps.
const STEP_BYTES: u64 = 1 << 20;

/// The room of a set.
#[derive(Debug)]
pub(super) struct Room {
    file: String,
    /// Bytes that are taken.
    held: Mutex<u64>,
    /// What may be inserted before it is looked at again, in bytes.
    left: AtomicU64,
}

impl Room {
    /// The room of a set of this kind, if its kind needs any; none is taken yet.
    pub(super) fn of(set: &AnySet, dir: &dyn Dir, name: &str) -> Option<Room> {
        let is_whole = matches!(set, AnySet::Trie(_) | AnySet::Growing(_));
        is_whole.then(|| {
            let file = beside::room(name);
            let held = dir.open(&file, Access::Read).and_then(|file| file.len()).unwrap_or(0);
            Room { file, held: Mutex::new(held), left: AtomicU64::new(0) }
        })
    }

    /// Takes room for a file of so many bytes.
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

    /// Gives the room up, for what is to be written now.
    fn give_up(&self, dir: &dyn Dir) {
        let mut held = guard(&self.held);
        let _ = dir.remove(&self.file);
        *held = 0;
        self.left.store(0, Ordering::Relaxed);
    }
}

impl StoredSet {
    /// Takes room for the set as it is, when it is made.
    ///
    /// # Errors
    /// `Io`, of the kind [`io::ErrorKind::StorageFull`].
    pub(super) fn take_room(&self) -> Result<()> {
        let Some(room) = &self.room else { return Ok(()) };
        room.hold(&*self.dir, self.set.seen().memory_bytes()).map(drop)
    }

    /// Takes room for these URLs, before they are inserted.
    ///
    /// # Errors
    /// `Full` if the disk has none. What was inserted before can be saved.
    #[inline]
    pub(super) fn make_room(&self, urls: &[&[u8]]) -> Result<()> {
        let Some(room) = &self.room else { return Ok(()) };
        let cost = urls.iter().map(|url| url.len() as u64 + ENTRY_BYTES).sum::<u64>();
        // Two at once may both take the last of it: each next one looks again, and ENTRY_BYTES are
        // many.
        match room.left.load(Ordering::Relaxed).checked_sub(cost) {
            Some(left) => {
                room.left.store(left, Ordering::Relaxed);
                Ok(())
            }
            None => self.make_more_room(room, cost),
        }
    }

    #[cold]
    fn make_more_room(&self, room: &Room, cost: u64) -> Result<()> {
        let memory = self.set.seen().memory_bytes();
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

    /// Writes the set's file anew by `write`, into the room that was kept for it.
    pub(super) fn write_into_room(&self, write: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(room) = &self.room else { return write() };
        room.give_up(&*self.dir);
        write()?;
        // If there is none any more, the next insert says so.
        let _ = self.take_room();
        Ok(())
    }
}
