//! Gathers the counters and sizes of a handle for `Store::stats`; keeps no state.

use filemap_io::Access;
use filemap_runs::ordered::Info;

use crate::format::names;
use crate::format::verified::{self, Verified};
use crate::handle::reading::Reading;
use crate::logs::values::cache::ValueCache;
use crate::stats::{Counters, Stats};
use crate::sync::lock;

impl Reading {
    pub(crate) fn stats(&self) -> Stats {
        let (c, tables) = (&self.counters, self.tables.load());
        let both = || [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten();
        let (value_bytes, value_disk) = self.values.segments.bytes();
        let (key_bytes, key_disk) = self.keys.bytes();
        let (index_bytes, index_disk) = self.index_bytes();
        let (current, get, verified) = (self.latest.load(), Counters::get, self.verified());
        let (dictionaries, dictionary_bytes) = self.values.dictionaries.size();
        let rest = self.space_stats();
        let cache = self.values.cache.as_ref().map(ValueCache::usage).unwrap_or_default();
        Stats {
            indexed_keys: current.index.keys,
            indexed_versions: current.versions,
            last_sequence: self.log_end().1.saturating_sub(1),
            memtable_entries: both().map(|t| t.entries()).sum(),
            memtable_bytes: both().map(|t| t.bytes() as u64).sum(),
            directory_bytes: self.index.directory_bytes(),
            filter_bytes: self.index.filter_bytes(),
            waiting_changes: self.index.waiting_changes(),
            summary_bytes: self.index.summary_bytes(),
            segments: self.values.segments.all().len() as u64,
            value_bytes,
            key_bytes,
            index_bytes,
            disk_bytes: value_disk + dictionary_bytes + index_disk + key_disk + rest.disk_bytes,
            index_leaves: current.index.leaves,
            dictionaries,
            dictionary_bytes,
            dictionary_memory_bytes: self.values.dictionaries.memory_bytes(),
            value_cache_bytes: cache.bytes,
            value_cache_bound_bytes: cache.bound_bytes,
            value_cache_hits: cache.hits,
            value_cache_misses: cache.misses,
            puts: get(&c.puts),
            unchanged_puts: get(&c.unchanged_puts),
            removes: get(&c.removes),
            gets: get(&c.gets),
            hits: get(&c.hits),
            raw_bytes: get(&c.raw_bytes),
            appended_bytes: get(&c.appended_bytes),
            dictionary_records: get(&c.dictionary_records),
            body_bytes: get(&c.body_bytes),
            payload_bytes: get(&c.payload_bytes),
            syncs: get(&c.syncs),
            checkpoints: get(&c.checkpoints),
            checkpoint_us: get(&c.checkpoint_us),
            index_pages_written: get(&c.index_pages_written),
            key_bytes_written: get(&c.key_bytes_written),
            slow_downs: get(&c.slow_downs),
            slow_down_us: get(&c.slow_down_us),
            puts_over_1ms: get(&c.puts_over_1ms),
            puts_over_1ms_by_checkpoint: get(&c.puts_over_1ms_by_checkpoint),
            puts_over_1ms_by_write: get(&c.puts_over_1ms_by_write),
            longest_put_us: get(&c.longest_put_us),
            refreshes: get(&c.refreshes),
            compactions: get(&c.compactions),
            compaction_copied_bytes: get(&c.compaction_copied_bytes),
            compaction_freed_bytes: get(&c.compaction_freed_bytes),
            held_back: get(&c.held_back),
            held_back_us: get(&c.held_back_us),
            verified_ms: verified.map_or(0, |v| v.ended_ms.max(0).cast_unsigned()),
            verified_problems: verified.map_or(0, |v| v.problems),
            durability: self.options.durability.to_string(),
            last_error: lock(&c.last_error).clone(),
            ..rest
        }
    }

    /// Space of the value log and of the ordered runs; `disk_bytes` has the latter and the files
    /// of fixed length.
    fn space_stats(&self) -> Stats {
        let (segment_table, space) = (self.segment_table.load(), self.space());
        let runs = segment_table.key_runs();
        let key_run_bytes = runs.iter().map(Info::disk_bytes).sum();
        let (key_run_bytes_read, key_run_bytes_written) = self.key_runs.traffic();
        Stats {
            live_bytes: space.live_bytes,
            tombstone_bytes: space.tombstone_bytes,
            dead_bytes: space.dead_bytes,
            unindexed_bytes: space.unindexed_bytes,
            space_amplification_permille: space.amplification_permille(),
            key_runs: runs.len() as u64,
            key_run_bytes,
            key_run_bytes_read,
            key_run_bytes_written,
            disk_bytes: key_run_bytes + self.small_disk_bytes(),
            ..Stats::default()
        }
    }

    /// Length and disk space of address.idx; 0 if unknown.
    fn index_bytes(&self) -> (u64, u64) {
        let file = self.dir.open(names::INDEX, Access::Read);
        file.map_or((0, 0), |f| (f.len().unwrap_or(0), f.allocated_bytes().unwrap_or(0)))
    }

    /// Disk space of the files of fixed length.
    fn small_disk_bytes(&self) -> u64 {
        let small = [names::SUPERBLOCK, names::LOCK, names::VERIFIED];
        let small = small.iter().filter_map(|name| self.dir.open(name, Access::Read).ok());
        small.map(|f| f.allocated_bytes().unwrap_or(0)).sum()
    }

    /// The record of the last full verification, if readable.
    fn verified(&self) -> Option<Verified> {
        let file = self.dir.open(names::VERIFIED, Access::Read).ok()?;
        let mut b = [0; verified::BYTES];
        let n = file.read_at(&mut b, 0).ok()?;
        Verified::decode(&b[..n]).ok().filter(|v| v.store_id == self.birth.store_id)
    }
}
