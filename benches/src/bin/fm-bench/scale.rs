//! `scale`: the tables of docs/SCALE.md as Markdown, with the constants that docs/BENCHMARKS.md
//! measured.

use std::fmt::Write as _;

use clap::Args;
use filemap_benches::scale::{Machine, Pages, Scale, scale};

/// Arguments of `fm-bench scale`. The defaults are what docs/BENCHMARKS.md measured.
#[derive(Args)]
pub struct ScaleArgs {
    /// Bytes of value log between checkpoints, in MiB
    #[arg(long, default_value_t = 768.0)]
    checkpoint_mib: f64,
    /// Bound of the memtable, in MiB
    #[arg(long, default_value_t = 96.0)]
    memtable_mib: f64,
    /// Threads that put
    #[arg(long, default_value_t = 2.0)]
    threads: f64,
    /// Page cache, in GB
    #[arg(long, default_value_t = 16.0)]
    cache_gb: f64,
}

/// The pages of the benchmarks, as measured.
const KINDS: [Pages; 2] = [
    Pages {
        name: "generated pages",
        body_bytes: 6130.0,
        record_bytes: 2040.0,
        key_record_bytes: 140.0,
        memtable_entry_bytes: 152.0,
        put_us: 39.0,
    },
    Pages {
        name: "pages of the corpus",
        body_bytes: 19_340.0,
        record_bytes: 3343.0,
        key_record_bytes: 144.0,
        memtable_entry_bytes: 155.0,
        put_us: 42.0,
    },
];
const SIZES: [f64; 4] = [1e7, 1e8, 1e9, 1e10];

type Row = (&'static str, fn(&Scale) -> String);

const ROWS: [Row; 24] = [
    ("value log", |s| bytes(s.value_bytes)),
    ("segment files", |s| format!("{:.0}", s.segments)),
    ("key log", |s| bytes(s.key_bytes)),
    ("address.idx", |s| bytes(s.index_bytes)),
    ("memory: directory", |s| bytes(s.directory_bytes)),
    ("memory: filter", |s| if s.filter_bytes > 0.0 { bytes(s.filter_bytes) } else { "none".to_owned() }),
    ("memory: memtables, at most", |s| bytes(s.memtable_bytes)),
    ("entries a checkpoint", |s| format!("{:.0} k", s.batch / 1e3)),
    ("changes that wait in runs, on average", |s| format!("{:.1} M", s.waiting / 1e6)),
    ("runs of a part, on average", |s| format!("{:.0}", s.runs)),
    ("memory: summaries of runs", |s| bytes(s.summary_bytes)),
    ("index written a checkpoint", |s| bytes(s.checkpoint_index_bytes)),
    ("written a byte of both logs, at this size", |s| format!("{:.2}", s.amplification)),
    ("the same, of known keys", |s| format!("{:.2}", s.amplification_of_recrawl)),
    ("written a byte of both logs, the whole load", |s| format!("{:.2}", s.amplification_of_load)),
    ("a checkpoint", |s| seconds(s.checkpoint_s)),
    ("pages/s that checkpoints keep up with", |s| format!("{:.0} k", s.checkpoint_rate / 1e3)),
    ("pages/s of the puts themselves", |s| format!("{:.0} k", s.put_rate / 1e3)),
    ("load", |s| seconds(s.load_h * 3600.0)),
    ("rate of known keys by that of new ones", |s| format!("{:.2}", s.recrawl_by_load)),
    ("clean open, nothing cached", |s| seconds(s.open_s)),
    ("replay after a crash, at most", |s| seconds(s.replay_s)),
    ("verify, the device's part", |s| seconds(s.verify_h * 3600.0)),
    ("false matches a get", |s| format!("{:.0e}", s.false_matches)),
];

/// A table for each kind of pages.
pub fn run(args: &ScaleArgs) -> String {
    let machine = Machine {
        checkpoint_bytes: args.checkpoint_mib * 1_048_576.0,
        memtable_bytes: args.memtable_mib * 1_048_576.0,
        threads: args.threads,
        sequential_read: 1.28e9,
        sequential_write: 1.5e9,
        queued_read_s: 11.5e-6,
        cache_bytes: args.cache_gb * 1e9,
        leaf_s: 5e-6,
        entry_s: 1.5e-6,
        replay: 1.45e9,
    };
    let mut out = String::new();
    for pages in KINDS {
        let _ = writeln!(out, "\n| {} | 10 M | 100 M | 1 B | 10 B |\n|---|---|---|---|---|", pages.name);
        let scales = SIZES.map(|keys| scale(keys, &pages, &machine));
        for (name, cell) in ROWS {
            let cells: Vec<String> = scales.iter().map(cell).collect();
            let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
        }
    }
    out
}

fn bytes(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e12 => (v / 1e12, "TB"),
        v if v >= 1e9 => (v / 1e9, "GB"),
        v => (v / 1e6, "MB"),
    };
    format!("{} {unit}", three_digits(value))
}

fn seconds(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 172_800.0 => (v / 86_400.0, "days"),
        v if v >= 7200.0 => (v / 3600.0, "h"),
        v if v >= 120.0 => (v / 60.0, "min"),
        v if v >= 1.0 => (v, "s"),
        v => (v * 1e3, "ms"),
    };
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
