//! The model behind docs/SCALE.md: files, memory, writes and time of a store of any size, from its
//! layout and a few measured constants (docs/BENCHMARKS.md). `fm-bench scale` prints the
//! document's tables, so they cannot drift from the formulas.
//!
//! Keys hash uniformly, so a checkpoint of n entries over L leaves touches L (1 - exp(-n / L)) of
//! them. Where those would be too many, changes wait in runs, and the leaves that it rewrites are
//! those that its records pay for. Everything else is a quotient.

/// Slots of a full leaf, as the format has it.
const LEAF_SLOTS: f64 = 254.0;
/// Mean fill of a leaf that splits when full: ln 2.
const LEAF_FILL: f64 = std::f64::consts::LN_2;
/// A leaf overflows while the mean is still this much below: the directory is as deep as its
/// fullest leaf asks.
const FULLEST_LEAF_MEAN: f64 = 178.0;
const PAGE_BYTES: f64 = 4096.0;
const NODE_ENTRIES: f64 = 508.0;
/// Bytes of the index's filter for an entry of the directory, the first that fit in the default of
/// `filter_memory_bytes`.
const FILTER_BYTES_AN_ENTRY: [f64; 3] = [192.0, 128.0, 64.0];
const FILTER_BYTES_MAX: f64 = 268_435_456.0;
/// Pages that wait for a superblock before they may be reused, as a part of all.
const SPARE: f64 = 1.0 / 24.0;
/// Bits of the hash that a lookup can tell keys apart by: those of the slot and those before it.
const HASH_BITS: i32 = 47;
const SEGMENT_BYTES: f64 = 1_073_741_824.0;
/// Share of a checkpoint's records up to which leaves are changed in place, and what it pays for
/// leaves to settle.
const DIRECT: f64 = 0.30;
const SETTLE: f64 = 0.25;
/// Runs that are joined, and parts of the hash space.
const JOINED: f64 = 8.0;
const PARTS: f64 = 128.0;
/// Bytes of a run a change: a slot, its share of the page's head and of the summary; and 8 more
/// for one that replaces a slot.
const CHANGE_BYTES: f64 = 16.0 * 4096.0 / (254.0 * 16.0) * 8.0 / 7.0;
const REPLACED_BYTES: f64 = 8.0 * 8.0 / 7.0;
/// Memory of its summary a change.
const SUMMARY_BYTES: f64 = 4096.0 / (7.0 * 254.0);

/// The kind of pages in a store.
#[derive(Debug, Clone, Copy)]
pub struct Pages {
    /// Their name, for a heading.
    pub name: &'static str,
    /// A body's bytes, on average.
    pub body_bytes: f64,
    /// Bytes of its record in the value log.
    pub record_bytes: f64,
    /// Bytes of its record in the key log.
    pub key_record_bytes: f64,
    /// Bytes of its entry in the memtable.
    pub memtable_entry_bytes: f64,
    /// Of one thread that puts, in us a page.
    pub put_us: f64,
}

/// The store's options that matter here, and the machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Value log between checkpoints.
    pub checkpoint_bytes: f64,
    /// Bound of the memtable.
    pub memtable_bytes: f64,
    /// Threads that put.
    pub threads: f64,
    /// Sequential reading and writing, bytes a second.
    pub sequential_read: f64,
    /// See `sequential_read`.
    pub sequential_write: f64,
    /// A random 4 KiB read among many that are under way, in s: a checkpoint reads its leaves
    /// ahead, opening asks for all nodes of a list at once.
    pub queued_read_s: f64,
    /// Memory for the page cache, in bytes.
    pub cache_bytes: f64,
    /// A checkpoint's time per leaf that it rewrites, in s, writing aside.
    pub leaf_s: f64,
    /// A checkpoint's time per entry that it merges, in s.
    pub entry_s: f64,
    /// A recovery's replay, bytes of value log a second.
    pub replay: f64,
}

/// Cost of a store of some size.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Segment files of the value log.
    pub segments: f64,
    /// Bytes of the value log.
    pub value_bytes: f64,
    /// Bytes of the key log.
    pub key_bytes: f64,
    /// Bytes of address.idx, directory and spare pages included.
    pub index_bytes: f64,
    /// Leaves of the index.
    pub leaves: f64,
    /// Memory that the directory takes.
    pub directory_bytes: f64,
    /// Memory that the filter takes; 0 where it would be more than it may take.
    pub filter_bytes: f64,
    /// Memory that two memtables take at most.
    pub memtable_bytes: f64,
    /// Entries of one checkpoint.
    pub batch: f64,
    /// Changes that wait in runs, on average.
    pub waiting: f64,
    /// Runs of a part, on average.
    pub runs: f64,
    /// Memory of their summaries.
    pub summary_bytes: f64,
    /// Bytes that one checkpoint writes to address.idx at this size.
    pub checkpoint_index_bytes: f64,
    /// Written to the device per byte of value and key log, at this size.
    pub amplification: f64,
    /// The same, where each put is of a known key.
    pub amplification_of_recrawl: f64,
    /// Pages a second that puts of known keys reach, by those of new ones.
    pub recrawl_by_load: f64,
    /// The same, over the whole load from nothing to this size.
    pub amplification_of_load: f64,
    /// A checkpoint's time at this size, in s, where each leaf is in the page cache with the
    /// chance that the cache allows.
    pub checkpoint_s: f64,
    /// Pages a second that puts can reach by their own work.
    pub put_rate: f64,
    /// Pages a second that checkpoints can keep up with at this size.
    pub checkpoint_rate: f64,
    /// Hours to load it from nothing, each moment at the lower of both rates.
    pub load_h: f64,
    /// Reading the nodes above the directory's, and the list of runs, at open, in s.
    pub open_s: f64,
    /// Replaying the most that can follow the last checkpoint, in s.
    pub replay_s: f64,
    /// Reading everything once, in h.
    pub verify_h: f64,
    /// Chance that a get reads a record that is not its key's.
    pub false_matches: f64,
}

/// Memory of the filter for this number of directory entries.
fn filter_bytes(entries: f64) -> f64 {
    let fits = |bytes: &f64| *bytes <= FILTER_BYTES_MAX;
    FILTER_BYTES_AN_ENTRY.iter().map(|bytes| bytes * entries).find(fits).unwrap_or(0.0)
}

/// Works out a store of `keys` pages.
#[must_use]
pub fn scale(keys: f64, pages: &Pages, machine: &Machine) -> Scale {
    let value_bytes = keys * pages.record_bytes;
    let depth = directory_depth(keys);
    let directory_bytes = 8.0 * 2f64.powi(depth);
    let leaves = leaves(keys);
    let batch = batch(pages, machine);
    let now = Checkpoint::at(keys, pages, machine);
    let load = Load::to(keys, pages, machine);
    let upper_nodes = (2f64.powi(depth) / NODE_ENTRIES / NODE_ENTRIES).ceil();
    let again = Checkpoint::of_known(keys, pages, machine);
    let rate = |checkpoint: &Checkpoint| put_rate(pages, machine).min(batch / checkpoint.seconds);
    Scale {
        segments: (value_bytes / SEGMENT_BYTES).ceil(),
        value_bytes,
        key_bytes: keys * pages.key_record_bytes,
        index_bytes: index_bytes(keys) + now.waiting * CHANGE_BYTES * (1.0 + SPARE),
        leaves,
        directory_bytes,
        filter_bytes: filter_bytes(2f64.powi(depth)),
        memtable_bytes: 2.0 * (batch * pages.memtable_entry_bytes).min(machine.memtable_bytes),
        batch,
        waiting: now.waiting,
        runs: now.runs,
        summary_bytes: now.waiting * SUMMARY_BYTES,
        checkpoint_index_bytes: now.index_bytes,
        amplification: now.amplification,
        amplification_of_recrawl: again.amplification,
        recrawl_by_load: rate(&again) / rate(&now),
        amplification_of_load: load.written / (keys * log_bytes(pages)),
        checkpoint_s: now.seconds,
        put_rate: put_rate(pages, machine),
        checkpoint_rate: batch / now.seconds,
        load_h: load.seconds / 3600.0,
        open_s: (upper_nodes + now.list_bytes / PAGE_BYTES).ceil() * machine.queued_read_s,
        // A crash at the end of a checkpoint finds its own batch and the one that filled
        // meanwhile.
        replay_s: 2.0 * batch * pages.record_bytes / machine.replay,
        verify_h: (value_bytes + keys * pages.key_record_bytes + index_bytes(keys)) / machine.sequential_read / 3600.0,
        false_matches: keys / leaves / 2f64.powi(HASH_BITS - (leaves.log2().round() as i32)),
    }
}

/// One checkpoint of a store of some size.
struct Checkpoint {
    index_bytes: f64,
    amplification: f64,
    seconds: f64,
    waiting: f64,
    runs: f64,
    /// Bytes of the list of runs.
    list_bytes: f64,
}

impl Checkpoint {
    /// One of new keys.
    fn at(keys: f64, pages: &Pages, machine: &Machine) -> Checkpoint {
        Checkpoint::with(keys, pages, machine, CHANGE_BYTES, 0.0)
    }

    /// One of known keys: each change replaces a slot, and each old key record is read.
    fn of_known(keys: f64, pages: &Pages, machine: &Machine) -> Checkpoint {
        let (index, key_log) = (leaves(keys) * PAGE_BYTES, keys * pages.key_record_bytes);
        let uncached = (1.0 - (machine.cache_bytes - index).max(0.0) / key_log).clamp(0.0, 1.0);
        let reads_s = batch(pages, machine) * uncached * machine.queued_read_s;
        Checkpoint::with(keys, pages, machine, CHANGE_BYTES + REPLACED_BYTES, reads_s)
    }

    fn with(keys: f64, pages: &Pages, machine: &Machine, change_bytes: f64, reads_s: f64) -> Checkpoint {
        let (leaves, batch) = (leaves(keys), batch(pages, machine));
        let touched = leaves * (1.0 - (-batch / leaves).exp());
        let logged = batch * log_bytes(pages);
        let (rewritten, waiting, runs, run_bytes, list_bytes) = if touched * PAGE_BYTES <= DIRECT * logged {
            (touched, 0.0, 0.0, 0.0, 0.0)
        } else {
            let settled = (SETTLE * logged / PAGE_BYTES).min(leaves);
            // Checkpoints until all parts have settled once.
            let round = leaves / settled;
            let levels = round.max(1.0).log(JOINED);
            // A part's changes grow to a round's, then settle.
            let waiting = batch * round / 2.0;
            // Up to seven runs a level, half of them on average.
            let runs = (levels.ceil() * (JOINED - 1.0) / 2.0).min(round / 2.0).max(1.0);
            let list = 8.0 * (waiting / 1778.0 + PARTS * runs * 4.0);
            (settled, waiting, runs, batch * (1.0 + levels) * change_bytes + list, list)
        };
        let nodes = 8.0 * 2f64.powi(directory_depth(keys)) * if waiting > 0.0 { rewritten / leaves } else { 1.0 };
        let index_bytes = rewritten * PAGE_BYTES + nodes + run_bytes;
        let uncached = (1.0 - machine.cache_bytes / (leaves * PAGE_BYTES)).max(0.0);
        let written = logged + index_bytes;
        // Each touched leaf is read, to know whether the key is new.
        let seconds = batch * machine.entry_s
            + rewritten * machine.leaf_s
            + touched * uncached * machine.queued_read_s
            + reads_s
            + written / machine.sequential_write;
        Checkpoint { index_bytes, amplification: written / logged, seconds, waiting, runs, list_bytes }
    }
}

/// The whole load, in a thousand steps.
struct Load {
    written: f64,
    seconds: f64,
}

impl Load {
    fn to(keys: f64, pages: &Pages, machine: &Machine) -> Load {
        const STEPS: u32 = 1000;
        let step = keys / f64::from(STEPS);
        let mut load = Load { written: 0.0, seconds: 0.0 };
        for i in 0..STEPS {
            let checkpoint = Checkpoint::at((f64::from(i) + 0.5) * step, pages, machine);
            load.written += checkpoint.amplification * step * log_bytes(pages);
            let rate = put_rate(pages, machine).min(batch(pages, machine) / checkpoint.seconds);
            load.seconds += step / rate;
        }
        load
    }
}

/// Bytes of both logs a page.
fn log_bytes(pages: &Pages) -> f64 {
    pages.record_bytes + pages.key_record_bytes
}

fn put_rate(pages: &Pages, machine: &Machine) -> f64 {
    machine.threads * 1e6 / pages.put_us
}

/// Entries of a checkpoint: whichever bound is reached first.
fn batch(pages: &Pages, machine: &Machine) -> f64 {
    (machine.checkpoint_bytes / pages.record_bytes).min(machine.memtable_bytes / pages.memtable_entry_bytes)
}

/// Leaves at mean fill; at any one size there are between 0.7 and 1.4 times as many, because
/// leaves of equal depth fill and split at about the same time.
fn leaves(keys: f64) -> f64 {
    (keys / (LEAF_SLOTS * LEAF_FILL)).max(1.0)
}

fn directory_depth(keys: f64) -> i32 {
    (keys / FULLEST_LEAF_MEAN).log2().ceil().max(7.0) as i32
}

fn index_bytes(keys: f64) -> f64 {
    leaves(keys) * PAGE_BYTES * (1.0 + SPARE) + 2f64.powi(directory_depth(keys)) / NODE_ENTRIES * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: Pages = Pages {
        name: "test",
        body_bytes: 6000.0,
        record_bytes: 2000.0,
        key_record_bytes: 128.0,
        memtable_entry_bytes: 150.0,
        put_us: 25.0,
    };
    const MACHINE: Machine = Machine {
        checkpoint_bytes: 1e9,
        memtable_bytes: 1e8,
        threads: 2.0,
        sequential_read: 1e9,
        sequential_write: 1e9,
        queued_read_s: 1.15e-5,
        cache_bytes: 16e9,
        leaf_s: 2e-6,
        entry_s: 1e-6,
        replay: 1e9,
    };

    #[test]
    fn a_small_index_is_rewritten_whole_and_a_huge_one_costs_what_its_records_pay() {
        let small = scale(1e6, &PAGES, &MACHINE);
        assert!((small.checkpoint_index_bytes / (small.leaves * PAGE_BYTES) - 1.0).abs() < 0.02);
        assert!(small.waiting == 0.0);
        for keys in [1e8, 1e9, 1e10] {
            let huge = scale(keys, &PAGES, &MACHINE);
            assert!((1.25..1.32).contains(&huge.amplification), "{huge:?}");
            // Eight changes for each leaf that settles, so four that wait on average.
            assert!((3.0..5.0).contains(&(huge.waiting / huge.leaves)), "{huge:?}");
        }
    }

    #[test]
    fn the_whole_load_costs_less_than_its_last_checkpoint() {
        let scale = scale(1e9, &PAGES, &MACHINE);
        assert!(scale.amplification_of_load < scale.amplification + 0.01 && scale.amplification_of_load > 1.2);
    }

    #[test]
    fn the_index_takes_about_24_bytes_a_key_and_its_directory_a_tenth() {
        for keys in [1e8, 1e9, 1e10] {
            let scale = scale(keys, &PAGES, &MACHINE);
            assert!((22.0..27.0).contains(&(scale.index_bytes / keys)));
            assert!((0.04..0.1).contains(&(scale.directory_bytes / keys)));
        }
    }
}
