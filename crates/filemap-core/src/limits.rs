//! Sizes that decide how often rare paths are taken. They are constants of the engine, except in the simulation, which makes
//! them tiny so that splits, stages, rolls and borders between maps happen all the time.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slots of a leaf before it is split, at most what a page holds.
    pub leaf_slots: usize,
    /// Index pages that a stage of a checkpoint may write, at least; more in larger indexes.
    pub stage_pages: u64,
    /// Encoded leaves that wait before they are handed to the file.
    pub flush_pages: usize,
    /// Bytes of key records that wait before they are handed to the file.
    pub flush_key_bytes: usize,
    /// Bytes at which a segment of the key log is closed and the next one begun, at most what an address can tell.
    pub key_segment_bytes: u64,
    /// Numbers of the key log's segments, which are used again and again: at most 65,536. When all are taken, others follow.
    pub key_segments: u32,
    /// The key log is compacted when more than so many bytes of it are dead,
    pub key_dead_bytes: u64,
    /// and more than so many parts in 100.
    pub key_dead_percent: u128,
    /// Chains of keys that are looked at in one checkpoint of its compaction.
    pub key_round: usize,
    /// Bytes of the key log that a list looks through at once.
    pub list_bytes: u64,
    /// Key records count the length of a chain up to this; it stands for all more. At most what a record can tell.
    pub chain_count: u32,
    /// The index is made smaller when more than so many of its pages, and more than half of them, are free.
    pub free_pages: u64,
    /// Pages of the first map of address.idx; each further one doubles what is mapped.
    pub map_pages: u32,
    /// Bytes of garbage that are not worth a compaction.
    pub slack_bytes: u64,
    /// Versions that one run of compaction moves at most.
    pub compact_ops: usize,
    /// A follower's table must hold what the writer's holds, whose options it does not know: it has room for so many bytes.
    pub follower_bytes: usize,
    /// Pages that are put before the first dictionary is made of them.
    pub first_pages: u64,
    /// Pages of one group that are put before it is tried whether a dictionary of its own pays.
    pub group_pages: u64,
    /// Dictionaries are made and used whether they pay or not.
    pub always_train: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            leaf_slots: usize::MAX,
            stage_pages: 128,
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
            slack_bytes: 128 << 20,
            compact_ops: 1 << 20,
            follower_bytes: 8 << 30,
            first_pages: 256,
            group_pages: 256,
            always_train: false,
        }
    }
}
