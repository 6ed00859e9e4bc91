//! Options, limits and keys chosen by a seed so that rare paths are common: leaves of one to three
//! slots, stages of one page, segments of a few records, maps of one page, keys that share a leaf
//! however often it is split.

use std::time::Duration;

use filemap_core::list::KeyOrder;
use filemap_core::sim::{self, Limits};
use filemap_core::{Durability, Options, Store};

/// The parameters of a string of operations.
#[derive(Clone, Debug)]
pub struct World {
    /// Options to create and open the store.
    pub options: Options,
    /// Number of versions kept, if not all.
    pub keep: Option<u32>,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bodies longer than this are stored as chunks.
    pub chunk_bytes: u64,
    /// True if every put is durable when it returns.
    pub is_sync: bool,
    /// First bits of the hash that all keys share.
    shared_bits: u32,
    /// Number of keys.
    keys: usize,
    /// Kinds of operations that occur, a bit each: a string of few kinds reaches states that a
    /// string of all of them seldom does. (Swarm testing: A. Groce et al., ISSTA 2012.)
    kinds: u32,
    /// The most frequent kind of failure.
    pub mood: Mood,
    /// True if each operation is reported on standard error: with the environment variable
    /// `FILEMAP_CRASH_TRACE`.
    pub is_traced: bool,
}

/// The most frequent kind of failure in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Now this, now that.
    Mixed,
    /// A call fails in each string.
    Failures,
    /// Processes are killed, and a power loss follows.
    Kills,
    /// Each power loss leaves garbage: what was on the device before.
    Garbage,
}

impl World {
    /// The world of a seed.
    pub fn random(rng: &mut fastrand::Rng) -> World {
        let segment_bytes = *choice(rng, &[4096, 8192, 16384]);
        let keep = if rng.u8(..5) == 0 { Some(rng.u32(1..3)) } else { None };
        // Numbers of the key log are used again where few of its segments are ever live.
        let (key_segment_bytes, key_segments) = match keep {
            Some(_) if rng.bool() => (128, 12),
            _ => (*choice(rng, &[256, 1024, 1 << 20]), 1 << 16),
        };
        let chunk_bytes = *choice(rng, &[256, 512, 1024]);
        let limits = Limits { key_segment_bytes, key_segments, ..limits(rng) };
        // Compaction asks for pages of a long index.
        let limits = Limits { index_ahead_bytes: if limits.map_pages == 1 { 0 } else { 1 << 30 }, ..limits };
        // None, one that becomes shorter and is then gone as the directory doubles, one that
        // stays.
        let filter_bytes = match limits.map_pages {
            1 => 0,
            4 => 20_000,
            _ => 1 << 20,
        };
        let durability = match rng.u8(..6) {
            0 => Durability::Sync,
            1 => Durability::Interval(Duration::from_secs(3600)),
            _ => Durability::Buffered,
        };
        // With many keys that share many bits the directory alone would take megabytes.
        let shared_bits = *choice(rng, &[0, 0, 0, 5, 7, 9]);
        let mut world = World {
            options: options(limits, segment_bytes, chunk_bytes)
                .durability(durability)
                .keep_versions(keep)
                .checkpoint_bytes(*choice(rng, &[1024, 4096, 1 << 20]))
                .memtable_bytes(*choice(rng, &[6 << 10, 64 << 10]))
                .compression_level(*choice(rng, &[0, 1]))
                .filter_memory_bytes(filter_bytes)
                .max_open_files(*choice(rng, &[1, 64, 512])),
            keep,
            segment_bytes,
            chunk_bytes,
            is_sync: durability == Durability::Sync,
            shared_bits,
            keys: rng.usize(if shared_bits > 7 { 2..5 } else { 1..9 }),
            kinds: rng.u32(..) | rng.u32(..),
            is_traced: is_traced(),
            mood: *choice(rng, &[Mood::Mixed, Mood::Mixed, Mood::Failures, Mood::Failures, Mood::Kills, Mood::Garbage]),
        };
        // No kind of operation is that bit's, nor the one below.
        if world.has(31) {
            world.options = world.options.value_cache_bytes(1 << 20);
        }
        let keeps_removals = if world.has(30) { Duration::from_secs(86_400) } else { Duration::ZERO };
        world.options = world.options.keep_removals(keeps_removals);
        world
    }

    /// The one world of the small strings: everything tiny, two keys in one leaf that holds one.
    pub fn small() -> World {
        let limits = Limits {
            leaf_slots: 1,
            stage_pages: 1,
            flush_pages: 1,
            flush_key_bytes: 1,
            key_segment_bytes: 256,
            key_dead_bytes: 0,
            map_pages: 1,
            slack_bytes: 0,
            compact_ops: 3,
            list_bytes: 1,
            ..Limits::default()
        };
        World {
            options: options(limits, 4096, 256).durability(Durability::Buffered).checkpoint_bytes(1 << 20),
            keep: None,
            segment_bytes: 4096,
            chunk_bytes: 256,
            is_sync: false,
            shared_bits: 8,
            keys: 5,
            kinds: u32::MAX,
            is_traced: is_traced(),
            mood: Mood::Mixed,
        }
    }

    /// Returns whether operations of a kind occur.
    pub fn has(&self, kind: u32) -> bool {
        self.kinds >> kind & 1 == 1
    }

    /// The keys: those that share their first hash bits in this store.
    pub fn keys(&self, store: &Store) -> Vec<Vec<u8>> {
        let name = |i: u32| format!("http://h{}.example/{i}", i % 3).into_bytes();
        let goal = sim::hash(store, &name(0)).checked_shr(64 - self.shared_bits);
        let shares = |key: &Vec<u8>| sim::hash(store, key).checked_shr(64 - self.shared_bits) == goal;
        (0..).map(name).filter(shares).take(self.keys).collect()
    }
}

/// Sizes that make rare paths common.
fn limits(rng: &mut fastrand::Rng) -> Limits {
    Limits {
        leaf_slots: *choice(rng, &[1, 2, 3, 254]),
        stage_pages: *choice(rng, &[1, 2, 4, 128]),
        stage_changes: *choice(rng, &[1, 3, 1 << 19]),
        // Leaves changed in place, runs always, or now this and now that.
        direct_pages: *choice(rng, &[0, 0, 2048]),
        direct_percent: *choice(rng, &[0, 500, 5000]),
        settle_percent: *choice(rng, &[25, 1000, 100_000]),
        join_runs: *choice(rng, &[2, 3, 8]),
        // Keys in order: their own runs, folded into the last one, written amid a stage.
        fold_pages: *choice(rng, &[0, 0, 2, 5, 64]),
        gathered_bytes: *choice(rng, &[1, 200, 32 << 20]),
        flush_pages: *choice(rng, &[1, 2, 512]),
        flush_key_bytes: *choice(rng, &[1, 100, 1 << 20]),
        key_dead_bytes: *choice(rng, &[0, 200]),
        key_dead_percent: *choice(rng, &[0, 33]),
        key_round: *choice(rng, &[1, 3, 1 << 17]),
        map_pages: *choice(rng, &[1, 4, 16]),
        slack_bytes: *choice(rng, &[0, 0, 2048, 1 << 20]),
        compact_ops: *choice(rng, &[1, 3, 1 << 20]),
        chain_count: *choice(rng, &[1, 3, (1 << 24) - 1]),
        list_bytes: *choice(rng, &[1, 100, 1 << 20]),
        first_pages: *choice(rng, &[2, 5, 20]),
        group_pages: *choice(rng, &[1, 3, 10]),
        always_train: true,
        follower_bytes: 64 << 20,
        ..Limits::default()
    }
}

fn options(limits: Limits, segment_bytes: u64, chunk_bytes: u64) -> Options {
    let options = Options::new()
        .segment_bytes(segment_bytes)
        .large_value_bytes(chunk_bytes)
        .memtable_bytes(64 << 10)
        .writeback_bytes(2048)
        .dictionary_group(host)
        .counted(is_counted)
        .key_order(REVERSED)
        .dictionary_bytes(4096)
        .free_space_floor(0);
    sim::with_limits(options, limits)
}

/// The order of keys of every store: that of their bytes, last first.
const REVERSED: KeyOrder = KeyOrder {
    name: "reversed",
    ordered: |key, out| out.extend(key.iter().rev()),
    key: |form, out| {
        out.extend(form.iter().rev());
        true
    },
    groups: None,
};

/// Returns whether the store counts a key: about three of four.
pub fn is_counted(key: &[u8]) -> bool {
    key.last().is_some_and(|last| !last.is_multiple_of(4))
}

/// The host of a key, with the scheme.
fn host(key: &[u8]) -> &[u8] {
    &key[..key.iter().rposition(|b| *b == b'/').unwrap_or(0)]
}

fn is_traced() -> bool {
    std::env::var_os("FILEMAP_CRASH_TRACE").is_some()
}

/// One of a list.
pub fn choice<'a, T>(rng: &mut fastrand::Rng, list: &'a [T]) -> &'a T {
    &list[rng.usize(..list.len())]
}
