//! Sizes that decide how often rare paths are taken. Constants in production; the simulator
//! shrinks them so that splits, stages, rolls and map borders happen all the time.

/// Engine sizes; `Default` has the production values.
///
/// ```
/// # #[cfg(feature = "sim")]
/// # {
/// use filemap_core::sim::Limits;
///
/// let limits = Limits { leaf_slots: 4, ..Limits::default() };
/// assert!(limits.leaf_slots < Limits::default().leaf_slots);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slots of a leaf before it is split; at most as many as a page holds.
    pub leaf_slots: usize,
    /// Index pages that a stage of a checkpoint may write; more in large indexes.
    pub stage_pages: u64,
    /// Slot changes gathered in a stage of a checkpoint that writes runs.
    pub stage_changes: usize,
    /// A checkpoint that touches fewer leaves changes them in place.
    pub direct_pages: u64,
    /// A checkpoint changes leaves in place if that writes at most this percentage of the bytes of
    /// its records.
    pub direct_percent: u64,
    /// Bytes that a checkpoint may write to let changes settle, in per cent of the bytes of its
    /// records.
    pub settle_percent: u64,
    /// Number of runs of one level that are joined.
    pub join_runs: usize,
    /// Memory for the ordered keys that a checkpoint gathers before it writes them as a run.
    pub gathered_bytes: usize,
    /// The newest ordered runs, up to this many pages in total, are rewritten with the next one.
    pub fold_pages: u64,
    /// Encoded leaves buffered before they are written to the file.
    pub flush_pages: usize,
    /// Bytes of key records buffered before they are written to the file.
    pub flush_key_bytes: usize,
    /// Bytes at which a segment of the key log is closed and the next one begun; at most what an
    /// address can express.
    pub key_segment_bytes: u64,
    /// Segment numbers of the key log before they are reused, at most 65,536. If all are taken,
    /// higher numbers follow.
    pub key_segments: u32,
    /// The key log is compacted when it has more dead bytes than this, and a greater dead share
    /// than `key_dead_percent`.
    pub key_dead_bytes: u64,
    /// Share of dead bytes in the key log, in per cent: see `key_dead_bytes`.
    pub key_dead_percent: u128,
    /// Chains of keys examined in one checkpoint of a key log compaction.
    pub key_round: usize,
    /// Bytes of the key log that a list scans at once.
    pub list_bytes: u64,
    /// Greatest chain length that key records count; longer chains have this value. At most what a
    /// record can hold.
    pub chain_count: u32,
    /// The index is shrunk when more than this many of its pages, and more than half, are free.
    pub free_pages: u64,
    /// Pages in the first map of address.idx; each further map doubles the mapped size.
    pub map_pages: u32,
    /// The longest address.idx that is read ahead as a whole.
    pub index_ahead_bytes: u64,
    /// Fewer dead bytes than this are not compacted.
    pub slack_bytes: u64,
    /// Maximum number of versions that one compaction run moves.
    pub compact_ops: usize,
    /// Maximum number of records in compaction's outputs, of 24 bytes each, that one search for
    /// changes finds.
    pub moved_found: usize,
    /// Memory for a follower's memtable. It must hold what the writer's holds, whose options the
    /// follower does not know.
    pub follower_bytes: usize,
    /// Pages put before the first dictionary is made.
    pub first_pages: u64,
    /// Pages of one group put before the group's own dictionary is tried.
    pub group_pages: u64,
    /// True if dictionaries are made and used even if they do not pay.
    pub always_train: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            leaf_slots: usize::MAX,
            stage_pages: 128,
            stage_changes: 1 << 19,
            direct_pages: 2048,
            direct_percent: 30,
            settle_percent: 25,
            join_runs: 8,
            gathered_bytes: 32 << 20,
            fold_pages: 64,
            flush_pages: 512,
            flush_key_bytes: 1 << 20,
            key_segment_bytes: 256 << 20,
            key_segments: 1 << 16,
            key_dead_bytes: 4 << 20,
            key_dead_percent: 33,
            key_round: 128 << 10,
            list_bytes: 1 << 20,
            chain_count: (1 << 24) - 1,
            free_pages: 256,
            map_pages: 1 << 10,
            index_ahead_bytes: 1 << 30,
            slack_bytes: 128 << 20,
            compact_ops: 1 << 20,
            moved_found: 1 << 20,
            follower_bytes: 8 << 30,
            first_pages: 256,
            group_pages: 256,
            always_train: false,
        }
    }
}
