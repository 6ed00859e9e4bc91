//! The memtable: puts and tombstones since the last checkpoint, by key, in memory.
//!
//! Entries lie in an arena of atomic words. They are only ever added, by one thread at a time (the
//! holder of the append lock); any number of readers walk the table without locks. A checkpoint
//! that has merged the table drops it whole.
//!
//! An entry, in words: {next in bucket, link}, {key length, best}, hash, sequence, time, extent,
//! floor, {flags, sequence referred to}, then the key. `best` is the entry of the key's newest
//! version in this table, `floor` the sequence of its last tombstone. So a get reads one entry,
//! however often the key was put. `link` leads to the previous entry of the same key; in the key's
//! first entry, which the key length marks, to an entry before it in the chain of its group.
//!
//! A Bloom filter that fits the processor's caches precedes the buckets: most lookups are of keys
//! that are in the index, or absent.

mod chain;
mod chunk;
mod newest;

use crate::format::bloom;
use crate::format::location::Extent;
use crate::record::Version;
use crate::sync::primitive::{AtomicU32, AtomicU64, AtomicUsize, OnceLock, Ordering};
use chain::Chains;
use chunk::Chunk;

pub(crate) use chain::Grouping;

#[cfg(not(any(filemap_loom, filemap_shuttle)))]
const CHUNK_BITS: u32 = 16;
#[cfg(not(any(filemap_loom, filemap_shuttle)))]
const MIN_BUCKETS: usize = 1024;
#[cfg(not(any(filemap_loom, filemap_shuttle)))]
const SPARE_CHUNKS: usize = 64;
// The model checker explores every word: hence few words, and buckets with more than one key.
#[cfg(any(filemap_loom, filemap_shuttle))]
const CHUNK_BITS: u32 = if cfg!(filemap_loom) { 6 } else { 9 };
#[cfg(any(filemap_loom, filemap_shuttle))]
const MIN_BUCKETS: usize = 1;
#[cfg(any(filemap_loom, filemap_shuttle))]
const SPARE_CHUNKS: usize = 4;

const CHUNK_WORDS: usize = 1 << CHUNK_BITS;
const HEAD_WORDS: usize = 8;
/// Buckets for each chain: some ten entries a chain in a full table.
const CHAIN_BUCKETS: usize = 16;
/// Flags beside the sequence referred to.
const TOMBSTONE: u64 = 1 << 63;
const CHUNKED: u64 = 1 << 62;
/// Flag beside the key length: the entry is its key's first.
const FIRST: u32 = 1 << 31;
const TYPICAL_ENTRY_BYTES: usize = 128;
/// 12 filter bits per typical entry.
const ENTRIES_PER_FILTER_WORD: usize = 5;

/// A version or tombstone in the memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) version: Version,
    pub(crate) extent: Extent,
    /// Sequence of the version that holds the body; 0 for this one.
    pub(crate) refers_to: u64,
    /// True if the record lists the chunks of a large body.
    pub(crate) chunked: bool,
    pub(crate) tombstone: bool,
}

/// One table's information about a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    address: u32,
    /// The newest version above the floor.
    pub(crate) best: Option<Entry>,
    /// Sequence of the last tombstone, 0 for none: no version below it exists, here or anywhere.
    pub(crate) floor: u64,
}

/// The effect of one entry: see [`Memtable::changes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Address of the entry, for [`Memtable::key`].
    pub(crate) address: u32,
    pub(crate) hash: u64,
    /// True if the key has a version after the entry.
    pub(crate) is_live: bool,
    /// True if the key had a version before the entry, as far as this table knows; `None` for the
    /// key's first entry.
    pub(crate) was_live: Option<bool>,
}

/// The memtable.
#[derive(Debug)]
pub(crate) struct Memtable {
    filter: Box<[AtomicU64]>,
    buckets: Box<[AtomicU32]>,
    chains: Option<Chains>,
    chunks: Box<[OnceLock<Chunk>]>,
    /// Words of the first chunk, which is shorter in a small table.
    first_words: usize,
    used_words: AtomicUsize,
    /// Words of entries that readers can reach.
    published_words: AtomicUsize,
    entries: AtomicU64,
    least_sequence: AtomicU64,
    max_time_ms: AtomicU64,
}

impl Memtable {
    /// An empty table for about `bytes` bytes, with room for at least `room` bytes of entries.
    /// With `grouping` it links the keys of each group.
    pub(crate) fn new(bytes: usize, room: usize, grouping: Option<Grouping>) -> Memtable {
        let entries = bytes / TYPICAL_ENTRY_BYTES;
        let buckets = entries.next_power_of_two().max(MIN_BUCKETS);
        let filter_words = (entries / ENTRIES_PER_FILTER_WORD).max(1);
        // Word addresses have 32 bits: 32 GiB.
        let chunks = (room.max(4 * bytes) / (8 * CHUNK_WORDS) * 2 + SPARE_CHUNKS).min(1 << (32 - CHUNK_BITS));
        Memtable {
            filter: (0..filter_words).map(|_| AtomicU64::new(0)).collect(),
            buckets: (0..buckets).map(|_| AtomicU32::new(0)).collect(),
            chains: grouping.map(|grouping| Chains::new(grouping, buckets)),
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            first_words: (bytes / 2).clamp(CHUNK_WORDS.min(1024), CHUNK_WORDS),
            used_words: AtomicUsize::new(1),
            published_words: AtomicUsize::new(1),
            entries: AtomicU64::new(0),
            least_sequence: AtomicU64::new(u64::MAX),
            max_time_ms: AtomicU64::new(i64::MIN.cast_unsigned()),
        }
    }

    /// Number of entries: versions and tombstones.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Memory in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let tables = self.buckets.len() * 4 + self.chains.as_ref().map_or(0, Chains::bytes) + self.filter.len() * 8;
        self.used_words.load(Ordering::Relaxed) * 8 + tables
    }

    /// Returns true if an entry with the longest key might find no room.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.used_words.load(Ordering::Relaxed) / CHUNK_WORDS + 2 >= self.chunks.len()
    }

    /// The least sequence of any entry.
    pub(crate) fn least_sequence(&self) -> u64 {
        self.least_sequence.load(Ordering::Acquire)
    }

    /// The greatest time of any version; `i64::MIN` if there is none.
    pub(crate) fn max_time_ms(&self) -> i64 {
        self.max_time_ms.load(Ordering::Relaxed).cast_signed()
    }

    fn words(&self, address: u32) -> &[AtomicU64] {
        let chunk = self.chunks[(address >> CHUNK_BITS) as usize].get();
        &chunk.map_or(&[][..], |c| &c[..])[address as usize % CHUNK_WORDS..]
    }

    fn word(&self, address: u32, at: usize) -> u64 {
        self.words(address)[at].load(Ordering::Relaxed)
    }

    fn next(&self, address: u32) -> u32 {
        self.words(address)[0].load(Ordering::Acquire) as u32
    }

    fn entry(&self, address: u32) -> Entry {
        let refers = self.word(address, 7);
        Entry {
            version: Version { sequence: self.word(address, 3), time_ms: self.word(address, 4).cast_signed() },
            extent: Extent::unpack(self.word(address, 5)),
            refers_to: refers & !(TOMBSTONE | CHUNKED),
            chunked: refers & CHUNKED != 0,
            tombstone: refers & TOMBSTONE != 0,
        }
    }

    fn is_key(&self, address: u32, hash: u64, key: &[u8]) -> bool {
        let words = self.words(address);
        words[2].load(Ordering::Relaxed) == hash
            && length_of(words[1].load(Ordering::Relaxed)) == key.len()
            && key.chunks(8).zip(&words[HEAD_WORDS..]).all(|(c, w)| w.load(Ordering::Relaxed) == word_of(c))
    }

    fn key_bytes(&self, address: u32) -> usize {
        length_of(self.word(address, 1))
    }

    /// The key of the entry at an address.
    pub(crate) fn key(&self, address: u32) -> Vec<u8> {
        let mut key = Vec::new();
        self.read_key(address, &mut key);
        key
    }

    /// Replaces the bytes of `key` by the key of the entry at an address.
    fn read_key(&self, address: u32, key: &mut Vec<u8>) {
        let len = self.key_bytes(address);
        let words = &self.words(address)[HEAD_WORDS..][..len.div_ceil(8)];
        key.clear();
        key.reserve(8 * words.len());
        words.iter().for_each(|w| key.extend_from_slice(&w.load(Ordering::Relaxed).to_le_bytes()));
        key.truncate(len);
    }

    /// The bucket's entry of a key, and the entry before it in the bucket (0 for none).
    fn walk(&self, head: u32, hash: u64, key: &[u8]) -> (u32, u32) {
        let mut before = 0;
        let mut at = head;
        while at != 0 && !self.is_key(at, hash, key) {
            before = at;
            at = self.next(at);
        }
        (at, before)
    }

    fn bucket(&self, hash: u64) -> &AtomicU32 {
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    /// Information about a key, from the address of its newest entry.
    pub(crate) fn found(&self, address: u32) -> Found {
        let best = (self.word(address, 1) >> 32) as u32;
        Found { address, best: (best != 0).then(|| self.entry(best)), floor: self.word(address, 6) }
    }

    /// Looks up a key. Takes no lock.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<Found> {
        // Filter bits are only ever set, and before their entry: a reader that knows of a put sees
        // them.
        let (word, mask) = bloom::place(hash, self.filter.len());
        if self.filter[word].load(Ordering::Relaxed) & mask != mask {
            return None;
        }
        // A replaced entry leaves its bucket while readers walk it. So a miss counts only if the
        // bucket's head, which every change replaces first, is still the one that the walk began
        // with.
        loop {
            let head = self.bucket(hash).load(Ordering::Acquire);
            let (at, _) = self.walk(head, hash, key);
            if at != 0 {
                return Some(self.found(at));
            }
            if self.bucket(hash).load(Ordering::Acquire) == head {
                return None;
            }
        }
    }

    /// Returns all versions of a key above its floor, latest put first.
    pub(crate) fn versions(&self, found: &Found) -> Vec<Entry> {
        let mut versions = Vec::new();
        self.each_version(found, |entry| versions.push(entry));
        versions
    }

    /// Calls `f` with each version, in the order of `versions`.
    pub(crate) fn each_version(&self, found: &Found, mut f: impl FnMut(Entry)) {
        let mut at = found.address;
        while at != 0 {
            let entry = self.entry(at);
            if !entry.tombstone && entry.version.sequence > found.floor {
                f(entry);
            }
            at = self.entry_before(at);
        }
    }

    /// A mark between entries: later entries have addresses at or above it.
    pub(crate) fn mark(&self) -> u32 {
        self.published_words.load(Ordering::Acquire) as u32
    }

    /// Iterates over the entries between two marks (0 for the beginning), in insertion order.
    pub(crate) fn changes(&self, from: u32, to: u32) -> impl Iterator<Item = Change> {
        let (mut at, to) = (from.max(1) as usize, to as usize);
        std::iter::from_fn(move || {
            // If the next entry did not fit, a chunk ends in zeros; no key is empty.
            let is_end = |at| self.chunk_words(at) < at % CHUNK_WORDS + HEAD_WORDS || self.key_bytes(at as u32) == 0;
            if at < to && is_end(at) {
                at = (at / CHUNK_WORDS + 1) * CHUNK_WORDS;
            }
            let address = (at < to).then_some(at as u32)?;
            at += HEAD_WORDS + self.key_bytes(address).div_ceil(8);
            let is_live = |address| self.word(address, 1) >> 32 != 0;
            let before = self.entry_before(address);
            let was_live = (before != 0).then(|| is_live(before));
            Some(Change { address, hash: self.word(address, 2), is_live: is_live(address), was_live })
        })
    }

    /// Number of words in the chunk of an address.
    fn chunk_words(&self, at: usize) -> usize {
        if at < CHUNK_WORDS { self.first_words } else { CHUNK_WORDS }
    }

    /// Returns the version of a key with this sequence, unless it was removed.
    pub(crate) fn version(&self, found: &Found, sequence: u64) -> Option<Entry> {
        let mut at = found.address;
        // Later puts come first and have greater sequences.
        while at != 0 && self.word(at, 3) > sequence {
            at = self.entry_before(at);
        }
        let entry = (at != 0).then(|| self.entry(at))?;
        (entry.version.sequence == sequence && sequence > found.floor && !entry.tombstone).then_some(entry)
    }

    /// Returns true if the table has the version of a key with this sequence. Needs no walk if the
    /// newest version, or the latest put, is that one or refers to it.
    pub(crate) fn has_version(&self, found: &Found, sequence: u64) -> bool {
        let is_or_names = |e: &Entry| !e.tombstone && (e.version.sequence == sequence || e.refers_to == sequence);
        let is_named = found.best.as_ref().is_some_and(is_or_names) || is_or_names(&self.entry(found.address));
        sequence > found.floor && (is_named || self.version(found, sequence).is_some())
    }

    /// Returns true if the table had the key when the mark was taken.
    pub(crate) fn knew(&self, found: &Found, mark: u32) -> bool {
        let mut at = found.address;
        while at >= mark {
            at = self.entry_before(at);
        }
        at != 0
    }

    /// Adds an entry, one thread at a time. Readers ignore an entry older than the key's last
    /// tombstone; one whose version equals the best's replaces the best. Panics if the table is
    /// exhausted.
    pub(crate) fn insert(&self, hash: u64, key: &[u8], entry: &Entry) {
        let (old, before) = self.walk(self.bucket(hash).load(Ordering::Relaxed), hash, key);
        // First, since it calls the options' function: if that panics, nothing is reserved. A gap
        // would end its chunk for `changes`.
        let chain = self.chains.as_ref().filter(|_| old == 0).map(|chains| chains.of_key(key));
        let new = self.allocate(HEAD_WORDS + key.len().div_ceil(8));
        let (mut best, mut floor) = match old {
            0 => (None, 0),
            _ => {
                let f = self.found(old);
                (f.best.map(|b| (b, (self.word(old, 1) >> 32) as u32)), f.floor)
            }
        };
        if entry.tombstone {
            floor = floor.max(entry.version.sequence);
            best = best.filter(|(b, _)| b.version.sequence > floor);
        } else if entry.version.sequence > floor && best.is_none_or(|(b, _)| b.version <= entry.version) {
            best = Some((*entry, new));
        }
        let bucket = self.bucket(hash);
        let head = bucket.load(Ordering::Relaxed);
        let next = if head == old && old != 0 { self.next(old) } else { head };
        let first = if old == 0 { FIRST } else { 0 };
        let link = chain.map_or(old, |chain| chain.load(Ordering::Relaxed));
        let words = self.words(new);
        let tombstone = if entry.tombstone { TOMBSTONE } else { 0 };
        let chunked = if entry.chunked { CHUNKED } else { 0 };
        let values = [
            u64::from(next) | u64::from(link) << 32,
            key.len() as u64 | u64::from(first) | u64::from(best.map_or(0, |b| b.1)) << 32,
            hash,
            entry.version.sequence,
            entry.version.time_ms.cast_unsigned(),
            entry.extent.pack(),
            floor,
            entry.refers_to | chunked | tombstone,
        ];
        values.iter().zip(words).for_each(|(v, w)| w.store(*v, Ordering::Relaxed));
        key.chunks(8).zip(&words[HEAD_WORDS..]).for_each(|(c, w)| w.store(word_of(c), Ordering::Relaxed));
        let (word, mask) = bloom::place(hash, self.filter.len());
        let filter = &self.filter[word];
        filter.store(filter.load(Ordering::Relaxed) | mask, Ordering::Relaxed);
        if entry.version.sequence < self.least_sequence.load(Ordering::Relaxed) {
            self.least_sequence.store(entry.version.sequence, Ordering::Release);
        }
        bucket.store(new, Ordering::Release);
        if let Some(chain) = chain {
            chain.store(new, Ordering::Release);
        }
        if before != 0 {
            // The key's former entry leaves the bucket, but stays reachable through the new one. A
            // reader on it continues to the same successor.
            let word = self.word(before, 0);
            let next = self.next(old);
            self.words(before)[0].store(word >> 32 << 32 | u64::from(next), Ordering::Release);
        }
        self.published_words.store(self.used_words.load(Ordering::Relaxed), Ordering::Release);
        self.entries.fetch_add(1, Ordering::Release);
        if !entry.tombstone && entry.version.time_ms > self.max_time_ms() {
            self.max_time_ms.store(entry.version.time_ms.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// Reserves words in one chunk.
    fn allocate(&self, words: usize) -> u32 {
        let mut at = self.used_words.load(Ordering::Relaxed);
        if at % CHUNK_WORDS + words > self.chunk_words(at) {
            at = at.next_multiple_of(CHUNK_WORDS);
        }
        assert!(at + words <= self.chunks.len() * CHUNK_WORDS, "the caller checks that there is room");
        self.chunks[at / CHUNK_WORDS].get_or_init(|| Chunk::zeroed(self.chunk_words(at)));
        self.used_words.store(at + words, Ordering::Relaxed);
        at as u32
    }

    /// The previous entry of the same key before the one at an address, 0 for none.
    fn entry_before(&self, address: u32) -> u32 {
        if self.word(address, 1) as u32 & FIRST == 0 { self.linked(address) } else { 0 }
    }

    fn linked(&self, address: u32) -> u32 {
        (self.word(address, 0) >> 32) as u32
    }

    /// Iterates over all keys, once each, with hash and entry, in bucket order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (u64, Found)> {
        // Most buckets of a small table are empty.
        let heads = self.buckets.iter().map(|bucket| (bucket, bucket.load(Ordering::Acquire)));
        heads.filter(|(_, head)| *head != 0).flat_map(move |(bucket, head)| self.bucket_keys(bucket, head))
    }

    /// The keys of a bucket whose first entry was `head` a moment ago.
    fn bucket_keys(&self, bucket: &AtomicU32, mut head: u32) -> Vec<(u64, Found)> {
        loop {
            // The key's entry before the head's may still be in the bucket, about to leave it.
            let leaving = self.entry_before(head);
            let mut keys = Vec::new();
            let mut at = head;
            while at != 0 {
                if at != leaving {
                    keys.push((self.word(at, 2), self.found(at)));
                }
                at = self.next(at);
            }
            match bucket.load(Ordering::Acquire) {
                still if still == head => return keys,
                other => head = other,
            }
        }
    }

    pub(crate) fn key_of(&self, found: &Found) -> Vec<u8> {
        self.key(found.address)
    }
}

/// The key length in the second word of an entry.
fn length_of(word: u64) -> usize {
    (word as u32 & !FIRST) as usize
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut b = [0; 8];
    b[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(b)
}

#[cfg(all(test, filemap_loom))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::location::Location;
    use std::collections::HashMap;

    fn entry(sequence: u64, time_ms: i64, tombstone: bool) -> Entry {
        Entry {
            version: Version { time_ms, sequence },
            extent: Extent { location: Location::new((sequence % 9) as u16, 64 * sequence), units: 5 },
            refers_to: 0,
            chunked: false,
            tombstone,
        }
    }

    #[test]
    fn the_newest_is_the_one_with_the_greatest_time_and_removal_hides_what_was_before() {
        let t = Memtable::new(1 << 20, 0, None);
        assert_eq!(t.least_sequence(), u64::MAX);
        t.insert(7, b"a", &entry(1, 100, false));
        t.insert(7, b"a", &entry(2, 50, false));
        assert_eq!(t.least_sequence(), 1);
        t.insert(7, b"b", &entry(3, 10, false)); // same hash, other key
        let a = t.find(7, b"a").unwrap();
        assert_eq!(a.best.unwrap().version.sequence, 1);
        assert_eq!(t.versions(&a).len(), 2);
        t.insert(7, b"a", &entry(4, 0, true));
        let a = t.find(7, b"a").unwrap();
        assert_eq!((a.best, a.floor), (None, 4));
        assert!(t.versions(&a).is_empty());
        t.insert(7, b"a", &entry(5, 1, false));
        let a = t.find(7, b"a").unwrap();
        assert_eq!((a.best.unwrap().version.sequence, a.floor), (5, 4));
        assert_eq!(t.versions(&a), vec![entry(5, 1, false)]);
        assert_eq!(t.find(7, b"b").unwrap().best, Some(entry(3, 10, false)));
        assert!(t.find(8, b"a").is_none());
        assert_eq!(t.keys().count(), 2);
    }

    #[test]
    fn the_newest_entry_of_each_key_comes_in_the_order_of_hashes() {
        let t = Memtable::new(1 << 20, 0, None);
        let mut random = fastrand::Rng::with_seed(5);
        let mut bytes = 0;
        // Sequence 0: no put gets it, but a forged record may have it.
        for sequence in 0..5000 {
            let key = random.u64(..900);
            // Some keys share a hash, and most are put again.
            let entry = entry(sequence, random.i64(0..9), random.u8(..9) == 0);
            bytes += entry.extent.bytes();
            t.insert((key / 3).wrapping_mul(0x9e37_79b9_7f4a_7c15), &key.to_be_bytes(), &entry);
        }
        let mut want: Vec<(u64, u32)> = t.keys().map(|(hash, found)| (hash, found.address)).collect();
        want.sort_unstable();
        assert!(want.len() > 850 && t.newest(&|| {}) == (want, bytes));
        assert_eq!(Memtable::new(0, 0, None).newest(&|| {}), (Vec::new(), 0));
    }

    #[test]
    fn changes_tell_every_entry_in_order_and_what_its_key_was_before() {
        let t = Memtable::new(4 << 20, 0, None);
        let (mut model, mut want) = (HashMap::new(), Vec::new());
        let mut marks = vec![t.mark()];
        // Long keys, so that chunks end in gaps.
        for i in 0..3000u64 {
            let key = vec![(i % 7) as u8 + 1; [1, 8, 300, 40_000][i as usize % 4]];
            let dead = i % 5 == 0;
            t.insert(key.len() as u64, &key, &entry(i + 1, 0, dead));
            want.push((key.clone(), !dead, model.insert(key, !dead)));
            marks.push(t.mark());
        }
        let told =
            |from, to| t.changes(from, to).map(|c| (t.key(c.address), c.is_live, c.was_live)).collect::<Vec<_>>();
        assert!(told(0, t.mark()) == want && t.changes(0, t.mark()).all(|c| t.key(c.address).len() as u64 == c.hash));
        for (from, to) in [(0, 0), (0, 1), (5, 9), (17, 2000), (2999, 3000), (3000, 3000)] {
            assert!(told(marks[from], marks[to]) == want[from..to], "{from}..{to}");
        }
    }

    #[test]
    fn keys_of_every_length_come_back() {
        let t = Memtable::new(4 << 20, 0, None);
        let keys: Vec<Vec<u8>> = (1..100).chain([4095, 65_536]).map(|n| vec![n as u8 | 1; n]).collect();
        for (i, key) in keys.iter().enumerate() {
            t.insert(i as u64 % 3, key, &entry(i as u64 + 1, 0, false));
        }
        for (i, key) in keys.iter().enumerate() {
            let found = t.find(i as u64 % 3, key).unwrap();
            assert_eq!(found.best.unwrap().version.sequence, i as u64 + 1);
            assert_eq!(t.key_of(&found), *key);
        }
    }

    /// Keys with equal 64-bit hashes under seed 0: the word at byte 16 cancels XXH3's secret
    /// there, and with it the product with the next word, which counts.
    fn colliding(n: u64) -> Vec<u8> {
        let mut key = b"http://evil.test\xde\xd4\x6d\xe9\x83\x90\x97\xdb".to_vec();
        key.extend_from_slice(&n.to_le_bytes());
        key
    }

    fn longest_bucket(seed: u64, keys: impl Iterator<Item = Vec<u8>>) -> usize {
        let t = Memtable::new(16 << 20, 0, None);
        for (i, key) in keys.enumerate() {
            t.insert(xxhash_rust::xxh3::xxh3_64_with_seed(&key, seed), &key, &entry(i as u64 + 1, 0, false));
        }
        t.buckets
            .iter()
            .map(|bucket| match bucket.load(Ordering::Acquire) {
                0 => 0,
                head => t.bucket_keys(bucket, head).len(),
            })
            .max()
            .unwrap()
    }

    #[test]
    fn keys_that_collide_without_a_seed_fill_the_buckets_like_any_others() {
        assert_eq!(longest_bucket(0, (0..1000).map(colliding)), 1000, "they do collide");
        for seed in [1, 0x0123_4567_89ab_cdef, 0x8000_0000_0000_0000, u64::MAX] {
            let chosen = longest_bucket(seed, (0..100_000).map(colliding));
            let others = longest_bucket(seed, (0..100_000u64).map(|n| format!("http://good.test/{n}").into_bytes()));
            // About 8 in both cases: a Poisson distribution of mean 0.76.
            assert!(chosen <= 12 && others <= 12, "{chosen} and {others} under seed {seed:x}");
        }
    }

    #[test]
    fn readers_see_whole_entries_while_one_thread_inserts() {
        // Long buckets, with entries replaced in the middle while readers walk them.
        const KEYS: u64 = 256;
        const BUCKETS: u64 = 4;
        let t = Memtable::new(32 << 20, 0, None);
        let key = |i: u64| format!("http://host/{i}").into_bytes();
        let put = |n: u64| t.insert(n % KEYS % BUCKETS, &key(n % KEYS), &entry(n + 1, n.cast_signed(), false));
        (0..KEYS).for_each(put);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|s| {
            let reader = |reader| {
                let (t, key, done) = (&t, &key, &done);
                s.spawn(move || {
                    let mut i = reader;
                    while !done.load(Ordering::Relaxed) {
                        i = (i * 5 + 3) % KEYS;
                        let found = t.find(i % BUCKETS, &key(i)).unwrap_or_else(|| panic!("{i} is lost"));
                        assert_eq!((found.best.unwrap().version.sequence - 1) % KEYS, i);
                    }
                })
            };
            let readers: Vec<_> = (0..3).map(reader).collect();
            // An order that reaches into the buckets, not always to their ends.
            for n in 0..100_000u64 {
                put(KEYS + n / KEYS * KEYS + n.wrapping_mul(0x9e37_79b9) % KEYS);
            }
            done.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|r| r.join().unwrap());
        });
    }

    proptest::proptest! {
        #[test]
        fn it_agrees_with_a_map_of_lists(ops in proptest::collection::vec((0u64..6, -3i64..3, 0u8..5), 0..120)) {
            let t = Memtable::new(256 << 10, 0, None);
            let mut model: HashMap<u64, Vec<Entry>> = HashMap::new();
            for (i, (key, time, kind)) in ops.iter().enumerate() {
                let e = entry(i as u64 + 1, *time, *kind == 0);
                let versions = model.entry(*key).or_default();
                if e.tombstone { versions.clear() } else { versions.push(e) }
                t.insert(key % 2, &[*key as u8], &e);
            }
            for (key, versions) in model {
                let found = t.find(key % 2, &[key as u8]).unwrap();
                proptest::prop_assert_eq!(found.best, versions.iter().max_by_key(|e| e.version).copied());
                let mut got = t.versions(&found);
                got.reverse();
                proptest::prop_assert_eq!(got, versions);
            }
        }
    }
}
