//! What a run holds: how entries compare, and how they lie in a block.

use std::cmp::Ordering;
use std::fmt::Debug;

use filemap_io::header::Kind;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes behind a block in memory that a format may load, whatever they are.
pub const PADDING_BYTES: usize = 16;
/// Blocks that are read or written at once by whoever goes through them all.
pub const CHUNK_BLOCKS: usize = 128;
/// What the system is told to read while what came before is looked at.
pub(crate) const READ_AHEAD_BYTES: u64 = 2 << 20;

/// What a block says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<E> {
    /// Its entry.
    Entry(E),
    /// It is not in the block, which begins at or before it.
    Absent,
    /// It is before the block's first entry.
    Before,
}

/// The entries of runs.
///
/// A block's first four bytes are its checksum, which the run writes and checks: a format has the
/// others, and [`crate::PADDING_BYTES`] behind them that it may load. Whatever the bytes are, it
/// must not panic.
pub trait Format: Clone + Debug + Send + Sync + 'static {
    /// A key, whether it is a tombstone, and a value if it has any.
    type Entry: Clone + Debug + Send + Sync;
    /// What entries are ordered by.
    type Key<'a>: Copy + Ord;

    /// What the files begin with.
    const KIND: Kind;
    /// Entries of a block at most.
    const ENTRIES_MAX: usize;

    /// What a run's header notes of the format: runs of another parameter are not opened.
    fn parameter(&self) -> u32;

    /// An entry's key.
    fn key<'a>(&self, entry: &'a Self::Entry) -> Self::Key<'a>;

    /// How an entry's key compares with another.
    fn compare(&self, entry: &Self::Entry, key: Self::Key<'_>) -> Ordering;

    /// Whether an entry says that its key was removed.
    fn is_tombstone(&self, entry: &Self::Entry) -> bool;

    /// The first 64 bits of a key, for the index: they order as keys do.
    fn head(&self, key: Self::Key<'_>) -> u64;

    /// Writes as many of these entries (in order, no key twice, at most [`Format::ENTRIES_MAX`])
    /// as a block takes, and says how many; 0 if the first alone does not fit.
    fn encode(&self, entries: &[Self::Entry], block: &mut [u8]) -> usize;

    /// Appends a block's entries. Whether it is a block of entries.
    fn decode(&self, block: &[u8], entries: &mut Vec<Self::Entry>) -> bool;

    /// Looks a key up; `None` if this is no block of entries.
    fn find(&self, block: &[u8], key: Self::Key<'_>) -> Option<Found<Self::Entry>>;
}
