//! Options of a store: every setting, its default and its bounds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::limits::Limits;
use crate::record::now_ms;

/// Longest group name, in bytes: the field's size in a dictionary file.
const MAX_GROUP_BYTES: usize = 255;

/// The moment at which a put is durable.
///
/// ```
/// use filemap_core::{Durability, Options};
/// let options = Options::new().durability(Durability::Sync);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A put hands its bytes to the operating system: they survive a process crash, not a power
    /// loss. Only `sync`, a checkpoint or `close` makes them durable.
    Buffered,
    /// As `Buffered`, but a background thread syncs at least this often: a power loss costs about
    /// this much at most.
    Interval(Duration),
    /// A put returns when its bytes are on the device. Concurrent puts share one sync.
    Sync,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Buffered => write!(f, "buffered"),
            Durability::Interval(d) => write!(f, "interval {} ms", d.as_millis()),
            Durability::Sync => write!(f, "sync"),
        }
    }
}

/// The canonicaliser of a store's keys: a name and version, kept in the superblock.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// assert_eq!(store.canonicalizer().name, "bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonicalizer {
    /// Up to 31 bytes, e.g. `whatwg`.
    pub name: String,
    /// Raised whenever the canonicaliser gives a different key for some URL.
    pub version: u32,
}

impl fmt::Display for Canonicalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {}", self.name, self.version)
    }
}

/// Use of dictionaries, trained on the store's own pages, for new pages. Reads use dictionaries
/// regardless.
///
/// ```
/// use filemap_core::Options;
/// use filemap_core::dictionaries::Dictionaries;
/// let options = Options::new().dictionaries(Dictionaries::Off);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dictionaries {
    /// Never: each page is compressed alone.
    Off,
    /// Trained in the background on the first pages, and again once pages have changed so far
    /// that the dictionary no longer helps.
    Automatic,
}

/// Extracts a key's group, e.g. the host of a URL.
pub(crate) type GroupOf = fn(&[u8]) -> &[u8];

/// Returns whether a key is counted.
pub(crate) type CountedOf = fn(&[u8]) -> bool;

/// An order of keys, in which a store can list them: see [`Options::key_order`].
///
/// ```
/// use filemap_core::list::KeyOrder;
/// fn as_they_are(bytes: &[u8], out: &mut Vec<u8>) {
///     out.extend_from_slice(bytes);
/// }
/// fn always(bytes: &[u8], out: &mut Vec<u8>) -> bool {
///     out.extend_from_slice(bytes);
///     true
/// }
/// const BYTES: KeyOrder =
///     KeyOrder { name: "bytes", ordered: as_they_are, key: always, groups: None };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeyOrder {
    /// Name of the order, with its version. The store records it.
    pub name: &'static str,
    /// Appends the ordered form of a key: forms sort as bytes. No two keys share a form. A form
    /// has 1 to 70,000 bytes, or puts fail.
    pub ordered: fn(&[u8], &mut Vec<u8>),
    /// Appends the key of an ordered form, the inverse of `ordered`. Returns false and appends
    /// nothing if the bytes are not an ordered form.
    pub key: fn(&[u8], &mut Vec<u8>) -> bool,
    /// Groups of neighbouring keys that are listed alone. May differ at each opening.
    pub groups: Option<KeyGroups>,
}

/// Groups of keys in an order, such as the URLs of a host. The memtable links the keys of each, so
/// that the first list within a group need not sort all keys in memory. It costs a put the call of
/// `of_key` and a hash.
///
/// ```
/// use filemap_core::list::KeyGroups;
/// /// The first byte, in an order of the keys as they are.
/// fn first(key: &[u8]) -> &[u8] {
///     &key[..1]
/// }
/// fn of_range(from: &[u8], until: &[u8]) -> Option<Vec<u8>> {
///     let first = *from.first()?;
///     (until <= &[first.checked_add(1)?][..]).then(|| vec![first])
/// }
/// const BY_FIRST_BYTE: KeyGroups = KeyGroups { of_key: first, of_range };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeyGroups {
    /// Name of the group of a key: part of the key, or a constant.
    pub of_key: fn(&[u8]) -> &[u8],
    /// Name of the group of all keys in a range of forms, from the first one up to and without the
    /// second. `None` if they may be of several groups: such a list sorts all keys.
    pub of_range: GroupOfRange,
}

type GroupOfRange = fn(&[u8], &[u8]) -> Option<Vec<u8>>;

/// The callback for events.
#[derive(Clone)]
pub(crate) struct EventSink(pub(crate) Arc<OnEvent>);

type OnEvent = dyn Fn(&Event) + Send + Sync;

filemap_io::debug_fields!(EventSink);

filemap_io::options! {
    /// Options for creating or opening a store. `segment_bytes` and `canonicalizer` are fixed at
    /// creation; every other option may differ at each opening.
    ///
    /// ```
    /// use filemap_core::{Durability, Options}; let options =
    /// Options::new().durability(Durability::Sync).compression_level(9).keep_versions(Some(3));
    /// ```
    #[derive(Clone, Debug)]
    pub struct Options {
        /// Size at which a segment of the value log is closed and the next one begun: 1 MiB to 1
        /// GiB in multiples of 4096, default 1 GiB. Fixed at creation. A record fits in one
        /// segment, so [`large_value_bytes`](Options::large_value_bytes) must be smaller.
        pub(crate) segment_bytes: u64 = 1 << 30,

        /// Durability of puts; default [`Durability::Interval`] of 1 s.
        pub(crate) durability: Durability = Durability::Interval(Duration::from_secs(1)),

        /// zstd level of new pages, 1 to 19, default 1: pages that stay are recompressed at
        /// [`recompression_level`](Options::recompression_level). 0 stores them uncompressed.
        pub(crate) compression_level: i32 = 1,

        /// A checkpoint is due when the value log has grown by this much, default 768 MiB, which a
        /// recovery replays in well under a second. A larger value writes less: a checkpoint
        /// rewrites each index page it touches once.
        pub(crate) checkpoint_bytes: u64 = 768 << 20,

        /// A checkpoint is due when the memtable takes this much memory, default 80 MiB (about 130
        /// bytes an entry). While it runs a second memtable fills, so up to twice this is in use.
        pub(crate) memtable_bytes: usize = 80 << 20,

        /// Versions kept per key: all (`None`, the default) or the newest N. A version whose body
        /// a kept version of the same key refers to is kept too. Versions that only the caller
        /// knows to be needed are not: see [`Store::prune_with`](crate::Store::prune_with).
        pub(crate) keep_versions: Option<u32> = None,

        /// Versions younger than this are kept (`None`, the default: age does not matter).
        /// Together with [`Options::keep_versions`], a version is kept if either rule keeps it.
        /// Alone, a page whose newest version is older is dropped altogether. Upkeep scans the key
        /// log (100 to 150 bytes a version) every sixteenth of this time, at most once a minute,
        /// and drops what is too old; compaction frees the space.
        pub(crate) keep_age: Option<Duration> = None,

        /// Time that compaction keeps tombstones, default 7 days, so that
        /// [`Store::changes`](crate::Store::changes) can report removals. Until then the tombstone
        /// of a page with a short key takes 128 bytes after the page has left the value log. Zero
        /// keeps none longer than the store itself needs it.
        pub(crate) keep_removals: Duration = Duration::from_secs(7 * 86_400),

        /// Puts are refused when the file system has less than this free, default 256 MiB. Reads,
        /// removes and checkpoints continue. 0 disables the check.
        pub(crate) free_space_floor: u64 = 256 << 20,

        /// Values longer than this are stored as chunks of this size, each compressed on its own,
        /// so that they stream through bounded memory; 64 KiB to 64 MiB, default 1 MiB.
        pub(crate) large_value_bytes: u64 = 1 << 20,

        /// Unsynced bytes of the value log at which the background thread syncs it, default 32
        /// MiB, whatever the durability. This keeps the kernel from stalling a later put to write
        /// gigabytes at once.
        pub(crate) writeback_bytes: u64 = 32 << 20,

        /// Bound on space amplification: compaction keeps the value log below this multiple of its
        /// live bytes, exceeding it by a segment at most, and slows puts down if it must. 1.05 to
        /// 100, default 1.25; a tighter bound copies more. `None` disables background compaction
        /// except for segments without live bytes.
        pub(crate) space_bound: Option<f64> = Some(1.25),

        /// Most bytes that compaction reads per second, at least 1 MiB; default `None`, no limit.
        /// Puts are slowed down if compaction cannot keep up.
        pub(crate) compaction_rate: Option<u64> = None,

        /// Age of a segment at which its pages are recompressed in the background; default an
        /// hour. Pages that are replaced soon are not worth it.
        pub(crate) recompression_age: Duration = Duration::from_secs(3600),

        /// Use of dictionaries for new pages; default [`Dictionaries::Automatic`]. None are made
        /// at compression level 0.
        pub(crate) dictionaries: Dictionaries = Dictionaries::Automatic,

        /// Greatest length of a dictionary in bytes: 4 KiB to 16 MiB, default 1 MiB; a quarter of
        /// that for groups. Fewer pages make shorter ones. Longer ones compress better and cost
        /// memory: digested, about three times their length at levels up to 3, twelve times at 9.
        pub(crate) dictionary_bytes: usize = 1 << 20,

        /// Memory for digested dictionaries, at least 1 MiB, default 64 MiB. Beyond it the least
        /// recently used are dropped, and digested again when needed.
        pub(crate) dictionary_memory_bytes: usize = 64 << 20,

        /// Most memory of an automatic value cache, 0 for none. It never takes more than an eighth
        /// of memory, which is the default bound: see
        /// [`value_cache_bytes`](Options::value_cache_bytes).
        pub(crate) max_value_cache_bytes: usize = usize::MAX,

        /// Memory limit of the index's Bloom filter, which answers most negative lookups without
        /// touching the index; default 256 MiB, 0 for none. It takes 1.1 to 2.2 bytes a key, so
        /// the default holds 190 million keys. For more keys it takes two thirds, then one third
        /// of that, and more lookups touch the index; from 750 million keys on there is none. It
        /// is filled as leaves are written and read, and by a thread that reads the index, 26
        /// bytes a key, after opening and whenever the store has doubled or halved. Followers have
        /// none.
        pub(crate) filter_memory_bytes: u64 = 256 << 20,
    } by hand {
        pub(crate) max_open_files: Option<usize> = None,
        pub(crate) recompression_level: Option<u8> = Some(9),
        pub(crate) value_cache_bytes: Option<usize> = None,
        pub(crate) canonicalizer: Option<Canonicalizer> = None,
        pub(crate) dictionary_group: Option<GroupOf> = None,
        pub(crate) counted: Option<CountedOf> = None,
        pub(crate) key_order: Option<KeyOrder> = None,
        pub(crate) end_key_order: bool = false,
        pub(crate) accept_loss: bool = false,
        pub(crate) on_event: Option<EventSink> = None,
        pub(crate) limits: Limits = Limits::default(),
    }
}

impl Options {
    /// Segment files kept open for reading, values and keys together, at least 4. Default: half of
    /// the process's limit, within 64 to 16,384. Further segments are opened for each read. Not
    /// counted are segments being appended to, and those of the key log while a list runs.
    pub fn max_open_files(mut self, files: usize) -> Options {
        self.max_open_files = Some(files);
        self
    }

    pub(crate) fn open_files(&self) -> usize {
        self.max_open_files.unwrap_or_else(|| (filemap_io::system::open_file_limit() / 2).clamp(64, 16_384) as usize)
    }

    /// Fixed memory of the value cache: recently read pages, expanded; 0 for no cache. A hit reads
    /// and decompresses nothing; compressed pages are in the kernel's page cache anyway. Bodies of
    /// more than one 64th of it, and those above
    /// [`large_value_bytes`](Options::large_value_bytes), are not cached. Lists, histories and
    /// background work bypass it.
    ///
    /// By default the size is automatic: no memory until gets repeat; then twice as much whenever
    /// the cache is full and gets of other pages repeat, up to an eighth of the memory of the
    /// machine or of the control group around the process, and up to
    /// [`max_value_cache_bytes`](Options::max_value_cache_bytes). When memory runs short, half of
    /// it is given back every two seconds. A follower looks at memory only while it is read from.
    ///
    /// ```
    /// use filemap_core::Options;
    /// let fixed = Options::new().value_cache_bytes(1 << 30);
    /// let automatic = Options::new().max_value_cache_bytes(256 << 20);
    /// ```
    pub fn value_cache_bytes(mut self, bytes: usize) -> Options {
        self.value_cache_bytes = Some(bytes);
        self
    }

    /// zstd level at which pages are recompressed in the background once they have stayed for
    /// [`recompression_age`](Options::recompression_age), with the dictionaries of that time; 1
    /// to 19, default 9. With `None`, or without a [`space_bound`](Options::space_bound), only
    /// [`Store::recompress`](crate::Store::recompress) does it.
    pub fn recompression_level(mut self, level: Option<i32>) -> Options {
        // `validate` reports values out of range.
        self.recompression_level = level.map(|l| u8::try_from(l).unwrap_or(u8::MAX));
        self
    }

    /// Time, in ms since 1970: segments begun earlier are recompressed.
    pub(crate) fn recompresses_before(&self) -> i64 {
        now_ms().saturating_sub(i64::try_from(self.recompression_age.as_millis()).unwrap_or(i64::MAX))
    }

    /// Time, in ms since 1970: tombstones from then on are kept.
    pub(crate) fn keeps_removals_since(&self) -> i64 {
        if self.keep_removals.is_zero() {
            // None is kept, at any clock reading.
            return i64::MAX;
        }
        now_ms().saturating_sub(i64::try_from(self.keep_removals.as_millis()).unwrap_or(i64::MAX))
    }

    /// Canonicaliser of the keys, stored at creation. Opening with another one is
    /// [`Error::Canonicalizer`]. If unset, a store is created as `bytes` version 1, and opened
    /// with any.
    pub fn canonicalizer(mut self, name: &str, version: u32) -> Options {
        self.canonicalizer = Some(Canonicalizer { name: name.to_owned(), version });
        self
    }

    /// Extracts a key's group, such as the host of a URL: groups with many pages get their own
    /// dictionary if that pays. An empty name, or one longer than 255 bytes, means no group. By
    /// default all keys are one group.
    pub fn dictionary_group(mut self, group_of: fn(&[u8]) -> &[u8]) -> Options {
        self.dictionary_group = Some(group_of);
        self
    }

    /// Chooses the keys that [`Store::counted_keys`](crate::Store::counted_keys) counts. The store
    /// keeps their number with each checkpoint, not the function: every opening must give the same
    /// one, or a verification finds the number wrong. A writer without this option that adds or
    /// removes keys makes the number permanently unknown; a repair or a copy counts again.
    pub fn counted(mut self, is_counted: fn(&[u8]) -> bool) -> Options {
        self.counted = Some(is_counted);
        self
    }

    /// Keeps the keys of a new store in this order too, so that [`Store::keys_in`] lists a range
    /// of them without reading the rest. A store created without this option keeps none until it
    /// is repaired with it. A store with an order can be opened for writing only with the same
    /// order, or with [`end_key_order`](Options::end_key_order).
    ///
    /// [`Store::keys_in`]: crate::Store::keys_in
    pub fn key_order(mut self, order: KeyOrder) -> Options {
        (self.key_order, self.end_key_order) = (Some(order), false);
        self
    }

    /// Ends the order of keys: a store that has one loses it when it is opened for writing.
    pub fn end_key_order(mut self) -> Options {
        (self.key_order, self.end_key_order) = (None, true);
        self
    }

    /// Returns whether [`end_key_order`](Options::end_key_order) was set last.
    pub fn ends_key_order(&self) -> bool {
        self.end_key_order
    }

    /// Opens a store for writing although files are missing; by default that is `Corrupt`, naming
    /// the file. The loss is recorded in the store at opening and accepted from then on: reads
    /// that need a lost file report damage, everything else works, and the numbers of lost files
    /// are not reused. A removal whose tombstone was in a lost file still holds if a checkpoint
    /// had indexed it.
    pub fn accept_loss(mut self) -> Options {
        self.accept_loss = true;
        self
    }

    pub(crate) fn group<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        self.dictionary_group.map(|of| of(key)).filter(|name| name.len() <= MAX_GROUP_BYTES).unwrap_or_default()
    }

    pub(crate) fn makes_dictionaries(&self) -> bool {
        self.dictionaries == Dictionaries::Automatic && self.compression_level != 0
    }

    /// Callback for background events, called on the thread where they happen. It should return
    /// soon and must not call the store.
    pub fn on_event(mut self, sink: impl Fn(&Event) + Send + Sync + 'static) -> Options {
        self.on_event = Some(EventSink(Arc::new(sink)));
        self
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// `InvalidOption` with the option and the reason.
    pub fn validate(&self) -> Result<()> {
        let fail = |name, why: &str| Err(Error::option(name, why));
        if !(1 << 20..=1 << 30).contains(&self.segment_bytes) || !self.segment_bytes.is_multiple_of(4096) {
            return fail("segment_bytes", "must be 1 MiB to 1 GiB and a multiple of 4096");
        }
        if !(0..=19).contains(&self.compression_level) {
            return fail("compression_level", "must be 0 to 19");
        }
        if self.checkpoint_bytes < 64 << 10 {
            return fail("checkpoint_bytes", "must be at least 64 KiB");
        }
        if !(256 << 10..=16 << 30).contains(&self.memtable_bytes) {
            return fail("memtable_bytes", "must be 256 KiB to 16 GiB");
        }
        if self.keep_versions == Some(0) {
            return fail("keep_versions", "must be at least 1, or None for all");
        }
        if self.max_open_files.is_some_and(|files| files < 4) {
            return fail("max_open_files", "must be at least 4");
        }
        if !(64 << 10..=64 << 20).contains(&self.large_value_bytes) {
            return fail("large_value_bytes", "must be 64 KiB to 64 MiB");
        }
        if self.large_value_bytes + (256 << 10) > self.segment_bytes {
            return fail("large_value_bytes", "must be at least 256 KiB below segment_bytes");
        }
        if !(4 << 10..=16 << 20).contains(&self.dictionary_bytes) {
            return fail("dictionary_bytes", "must be 4 KiB to 16 MiB");
        }
        if self.dictionary_memory_bytes < 1 << 20 {
            return fail("dictionary_memory_bytes", "must be at least 1 MiB");
        }
        if self.writeback_bytes < 1 << 20 {
            return fail("writeback_bytes", "must be at least 1 MiB");
        }
        if self.space_bound.is_some_and(|bound| !(1.05..=100.0).contains(&bound)) {
            return fail("space_bound", "must be 1.05 to 100, or None for no bound");
        }
        if self.recompression_level.is_some_and(|level| !(1..=19).contains(&level)) {
            return fail("recompression_level", "must be 1 to 19, or None");
        }
        if self.compaction_rate.is_some_and(|rate| rate < 1 << 20) {
            return fail("compaction_rate", "must be at least 1 MiB a second, or None for no limit");
        }
        if let Some(c) = &self.canonicalizer
            && (c.name.is_empty() || c.name.len() > 31 || c.name.bytes().any(|b| b == 0))
        {
            return fail("canonicalizer", "its name must have 1 to 31 bytes, none of them 0");
        }
        match self.durability {
            Durability::Interval(d) if d < Duration::from_millis(1) => fail("durability", "interval under 1 ms"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StorageError;

    #[test]
    fn defaults_are_valid_and_each_bound_is_checked() {
        assert!(Options::new().validate().is_ok());
        let bad = [
            Options::new().segment_bytes(1 << 31),
            Options::new().segment_bytes((1 << 20) + 1),
            Options::new().compression_level(20),
            Options::new().checkpoint_bytes(1),
            Options::new().memtable_bytes(1),
            Options::new().keep_versions(Some(0)),
            Options::new().max_open_files(1),
            Options::new().large_value_bytes(1),
            Options::new().segment_bytes(1 << 20).large_value_bytes(1 << 20),
            Options::new().writeback_bytes(0),
            Options::new().space_bound(Some(1.0)),
            Options::new().space_bound(Some(f64::NAN)),
            Options::new().compaction_rate(Some(1)),
            Options::new().recompression_level(Some(0)),
            Options::new().recompression_level(Some(300)),
            Options::new().dictionary_bytes(1),
            Options::new().dictionary_memory_bytes(1),
            Options::new().canonicalizer("", 1),
            Options::new().canonicalizer(&"x".repeat(32), 1),
            Options::new().durability(Durability::Interval(Duration::ZERO)),
        ];
        for options in bad {
            assert!(
                matches!(options.validate(), Err(Error::Storage(StorageError::InvalidOption { .. }))),
                "{options:?}"
            );
        }
    }
}
