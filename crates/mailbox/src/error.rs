//! The error of mailboxes: the storage error, and what only they know.

use std::fmt::Display;
use std::io;

use filemap_io::StorageError;

/// The result of operations on mailboxes and outboxes.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a mailbox or an outbox.
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
    /// The files. Damage cannot be repaired: restore them from a copy.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The folder has mailboxes of another number of shards, or an outbox for one.
    #[error("{file} is for {found} shards, not {wanted}: the number of shards of a fleet never changes")]
    OtherShards {
        /// The folder or file.
        file: String,
        /// The number that it is for.
        found: u32,
        /// The number asked for.
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
    /// The mailbox holds as much as it may: its owner has to take something first. Nothing was
    /// entered.
    #[error("the mailbox of shard {shard} is full: {bytes} bytes wait for its owner, and {max} may")]
    Full {
        /// The shard.
        shard: u32,
        /// Bytes that wait.
        bytes: u64,
        /// The limit ([`crate::MailboxOptions::max_bytes`]).
        max: u64,
    },
    /// Links between those that the mailbox has and those that were sent are missing. Nothing was
    /// entered.
    #[error(
        "shard {shard} has the first {next} links of this crawl, and was sent those from {first} on: mailbox or outbox is \
         an older copy, or was removed"
    )]
    Gap {
        /// The shard.
        shard: u32,
        /// The number of links that the mailbox had from this crawl.
        next: u64,
        /// The number of the first one sent.
        first: u64,
    },
    /// A mailbox knows so many crawls, and takes links of no further one.
    #[error("the mailbox of shard {shard} has links of {max} crawls, and takes none of another")]
    TooManySenders {
        /// The shard.
        shard: u32,
        /// The limit.
        max: usize,
    },
    /// No such place in the mailbox.
    #[error("{cursor} is no place in the mailbox of shard {shard}: give the cursor of an answer")]
    Cursor {
        /// The shard.
        shard: u32,
        /// The cursor.
        cursor: u64,
    },
    /// The shard is another crawl's.
    #[error("shard {shard} is owned by the crawl {owner:032x}: if that is gone for good, free the shard")]
    Owned {
        /// The shard.
        shard: u32,
        /// Its owner.
        owner: u128,
    },
    /// The shard has another owner since, or its owner began anew.
    #[error("shard {shard} is in epoch {epoch}, not {given}: it is owned by a later run, or by another crawl")]
    Fenced {
        /// The shard.
        shard: u32,
        /// The epoch now.
        epoch: u64,
        /// The epoch given.
        given: u64,
    },
    /// The owner was heard of within its lease.
    #[error("shard {shard} is owned by a crawl that was heard of {seconds} s ago: stop that crawl, and wait {lease} s")]
    Alive {
        /// The shard.
        shard: u32,
        /// When its owner was heard of, in seconds before now.
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

    /// Whether the disk has no room.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Error::Storage(StorageError::Io { source, .. }) if source.kind() == io::ErrorKind::StorageFull)
    }
}
