//! The error of mailboxes: the storage error, and the cases that only mailboxes have.

use std::fmt::Display;
use std::io;

use filemap_io::StorageError;

/// The result of operations on mailboxes and outboxes.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a mailbox or an outbox.
///
/// ```
/// use mailbox::{Error, MailboxOptions, Mailboxes};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let boxes = Mailboxes::create(folder.path(), 2, MailboxOptions::new()).unwrap();
/// assert!(matches!(boxes.read(7, None, 1), Err(Error::NoSuchShard { shard: 7, shards: 2 })));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Storage error. Damage cannot be repaired: restore the files from a copy.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The folder holds mailboxes, or an outbox, for another number of shards.
    #[error("{file} is for {found} shards, not {wanted}: the number of shards of a fleet never changes")]
    OtherShards {
        /// The folder or file.
        file: String,
        /// The number of shards that it was made for.
        found: u32,
        /// The number of shards asked for.
        wanted: u32,
    },
    /// There is no shard of this number.
    #[error("no shard {shard}: numbers are below {shards}")]
    NoSuchShard {
        /// The number.
        shard: u32,
        /// The number of shards.
        shards: u32,
    },
    /// The mailbox has reached its size limit: its owner must take links first. Nothing was
    /// entered.
    #[error("the mailbox of shard {shard} is full: {bytes} bytes wait for its owner, the maximum is {max}")]
    Full {
        /// The shard.
        shard: u32,
        /// Bytes of the waiting links.
        bytes: u64,
        /// The limit ([`crate::MailboxOptions::max_bytes`]).
        max: u64,
    },
    /// A gap: links between the last one in the mailbox and the first one sent are missing.
    /// Nothing was entered.
    #[error(
        "shard {shard} has the first {next} links of this crawl, and was sent those from {first} on: the mailbox or the \
         outbox is an older copy, or was removed"
    )]
    Gap {
        /// The shard.
        shard: u32,
        /// The number of links that the mailbox had from this crawl.
        next: u64,
        /// The number of the first one sent.
        first: u64,
    },
    /// The mailbox has reached its limit of senders, and takes no links from a new crawl.
    #[error("the mailbox of shard {shard} has links of {max} crawls, its maximum: it takes none of another")]
    TooManySenders {
        /// The shard.
        shard: u32,
        /// The limit.
        max: usize,
    },
    /// The cursor is not a place in the mailbox.
    #[error("{cursor} is not a place in the mailbox of shard {shard}: give the cursor of an answer")]
    Cursor {
        /// The shard.
        shard: u32,
        /// The cursor.
        cursor: u64,
    },
    /// Another crawl owns the shard.
    #[error("shard {shard} is owned by the crawl {owner:032x}: if that crawl has ended, free the shard")]
    Owned {
        /// The shard.
        shard: u32,
        /// Its owner.
        owner: u128,
    },
    /// The epoch given is not the shard's: it has another owner, or its owner claimed it again.
    #[error("shard {shard} is in epoch {epoch}, not {given}: it is owned by a later run, or by another crawl")]
    Fenced {
        /// The shard.
        shard: u32,
        /// The current epoch.
        epoch: u64,
        /// The epoch given.
        given: u64,
    },
    /// The owner was last heard from within its lease.
    #[error(
        "shard {shard} is owned by a crawl that was heard from {seconds} s ago: stop that crawl, and wait {lease} s"
    )]
    Alive {
        /// The shard.
        shard: u32,
        /// Seconds since the owner was last heard from.
        seconds: u64,
        /// The lease in seconds.
        lease: u64,
    },
}

impl Error {
    /// For `map_err`: the operation `op` of `file` failed.
    pub(crate) fn io<'a>(op: &'static str, file: &'a str) -> impl FnOnce(io::Error) -> Error + use<'a> {
        move |source| StorageError::io(op, file)(source).into()
    }

    /// Damage to `file`.
    pub(crate) fn corrupt(file: &str, offset: u64, what: impl Display) -> Error {
        StorageError::corrupt(file, offset, what).into()
    }

    /// Returns whether the disk has no room.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Error::Storage(StorageError::Io { source, .. }) if source.kind() == io::ErrorKind::StorageFull)
    }
}
