//! The format of a run: how entries compare, and how a block encodes them.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::atomic::Ordering::Relaxed;

use filemap_io::Word;
use filemap_io::header::Kind;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes behind a block in memory that a format may read; their values are arbitrary.
pub const PADDING_BYTES: usize = 16;
/// Number of blocks whose filters are stored together behind them, fixed by the format. A full
/// pass reads or writes this many at once.
pub const CHUNK_BLOCKS: usize = 128;
/// Blocks to read ahead in a full pass.
pub(crate) const READ_AHEAD_BLOCKS: u64 = 512;

/// Result of a search in a block.
///
/// ```
/// use filemap_runs::fixed::Fixed;
/// use filemap_runs::{BLOCK_BYTES, Format, Found, PADDING_BYTES};
///
/// let (fixed, mut block) = (Fixed::new(80), [0; BLOCK_BYTES + PADDING_BYTES]);
/// fixed.encode(&[1 << 64, 3 << 64], &mut block[..BLOCK_BYTES]);
/// assert_eq!(fixed.find(&block, 3 << 64), Some(Found::Entry(3 << 64)));
/// assert_eq!(fixed.find(&block, 2 << 64), Some(Found::Absent));
/// assert_eq!(fixed.find(&block, 0), Some(Found::Before));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<E> {
    /// The key's entry.
    Entry(E),
    /// The block begins at or before the key, but does not hold it.
    Absent,
    /// The key is before the block's first entry.
    Before,
}

/// A format of entries.
///
/// The run writes and checks the first four bytes of a block, its checksum. The other bytes are
/// the format's, which may also read [`crate::PADDING_BYTES`] behind them. It must not panic on
/// any bytes.
///
/// ```
/// use filemap_runs::Format;
/// use filemap_runs::fixed::Fixed;
///
/// let fixed = Fixed::new(80);
/// let tombstone = 7 << 64 | fixed.mark();
/// assert!(fixed.is_tombstone(&tombstone) && fixed.compare(&tombstone, 7 << 64).is_eq());
/// ```
pub trait Format: Clone + Debug + Send + Sync + 'static {
    /// An entry: a key, a tombstone mark, and a value if the format has values.
    type Entry: Clone + Debug + Send + Sync;
    /// The key by which entries are ordered.
    type Key<'a>: Copy + Ord;

    /// Kind of the files, of version 2 or later: files of version 1 have no filters.
    const KIND: Kind;
    /// Maximum number of entries in a block.
    const ENTRIES_MAX: usize;

    /// Parameter in a run's header; a run with another value is not opened.
    fn parameter(&self) -> u32;

    /// The key of an entry.
    fn key<'a>(&self, entry: &'a Self::Entry) -> Self::Key<'a>;

    /// Compares an entry's key with another key.
    fn compare(&self, entry: &Self::Entry, key: Self::Key<'_>) -> Ordering;

    /// Returns whether an entry is a tombstone.
    fn is_tombstone(&self, entry: &Self::Entry) -> bool;

    /// The first 64 bits of a key, for the index; they sort as the keys do.
    fn head(&self, key: Self::Key<'_>) -> u64;

    /// A hash of a key, all bits well mixed, for the filters. It must never change.
    fn hash(&self, key: Self::Key<'_>) -> u64;

    /// Encodes as many entries as fit a block and returns their number, 0 if the first does not
    /// fit. Entries are in order, without duplicate keys, at most [`Format::ENTRIES_MAX`].
    fn encode(&self, entries: &[Self::Entry], block: &mut [u8]) -> usize;

    /// Appends a block's entries. Returns false if the bytes are not a block of entries.
    fn decode(&self, block: &[u8], entries: &mut Vec<Self::Entry>) -> bool;

    /// Searches a block for a key; `None` if the bytes are not a block of entries.
    fn find(&self, block: &[u8], key: Self::Key<'_>) -> Option<Found<Self::Entry>>;

    /// [`Format::find`] in the words of a mapped block, which was valid when it was read. This
    /// copies the block; a format that needs few of the words overrides it. It must not panic on
    /// any words.
    fn find_mapped(&self, block: &[Word], key: Self::Key<'_>) -> Option<Found<Self::Entry>> {
        let mut bytes = [0; BLOCK_BYTES + PADDING_BYTES];
        let pairs = bytes.as_chunks_mut::<8>().0.iter_mut().zip(block);
        pairs.for_each(|(bytes, word)| *bytes = word.load(Relaxed).to_le_bytes());
        self.find(&bytes, key)
    }
}
