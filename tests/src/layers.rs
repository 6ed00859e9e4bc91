//! Permitted imports: one table of crates, and one table of modules for each crate that has one.
//!
//! Invariant: an import goes downward only. A new crate, or a new module of a crate in
//! [`TABLES`], fails the test until it is placed here. The engine's table is [`ENGINE_LAYERS`];
//! other crates have a file each below `layers/`.

mod benches;
mod crawl;
mod filemap;
mod filemap_cloud;
mod filemap_http;
mod filemap_python;
mod fm_cli;
mod fm_tool;
mod harnesses;
mod libraries;

use std::path::Path;

/// A crate of the workspace and the crates of the workspace that it may depend on. Tests, benches
/// and their dev-dependencies may look at everything.
pub const CRATES: &[(&str, &[&str])] = &[
    ("filemap-io", &[]),
    ("filemap-runs", &["filemap-io"]),
    ("filemap-core", &["filemap-io", "filemap-runs"]),
    ("urlindex", &["filemap-io", "filemap-runs"]),
    ("frontier", &["filemap-io", "filemap-runs", "urlindex"]),
    ("urlindex-redis", &["urlindex"]),
    ("mailbox", &["filemap-io"]),
    ("filemap", &["filemap-core", "filemap-io", "urlindex"]),
    ("filemap-http", &["filemap", "filemap-core", "mailbox", "urlindex"]),
    ("filemap-cloud", &["filemap", "filemap-core", "filemap-http", "filemap-io", "urlindex"]),
    (
        "crawl",
        &["filemap", "filemap-core", "filemap-http", "filemap-io", "frontier", "mailbox", "urlindex", "urlindex-redis"],
    ),
    ("filemap-python", &["crawl", "filemap", "filemap-core", "filemap-http", "urlindex", "urlindex-redis"]),
    ("fm-cli", &["filemap", "filemap-core", "frontier", "urlindex"]),
    ("fm-tool", &["filemap", "filemap-cloud", "filemap-core", "filemap-http", "fm-cli", "urlindex", "urlindex-redis"]),
    (
        "fm-crawl",
        &[
            "crawl",
            "filemap",
            "filemap-cloud",
            "filemap-http",
            "fm-cli",
            "frontier",
            "mailbox",
            "urlindex",
            "urlindex-redis",
        ],
    ),
    ("fm-serve", &["filemap", "filemap-core", "filemap-http", "fm-cli", "mailbox", "urlindex", "urlindex-redis"]),
    ("filemap-tests", &["filemap", "filemap-core", "filemap-io", "urlindex"]),
    ("filemap-oracle", &["filemap-core"]),
    ("filemap-crash", &["filemap-core", "filemap-io", "filemap-oracle"]),
    (
        "filemap-fuzz",
        &["filemap", "filemap-core", "filemap-io", "filemap-oracle", "filemap-tests", "frontier", "urlindex"],
    ),
    ("filemap-kernel", &["filemap-core", "filemap-oracle"]),
    ("filemap-benches", &["filemap", "filemap-core", "filemap-io", "frontier", "urlindex"]),
    ("filemap-compare", &["filemap-benches", "filemap-core"]),
];

/// The modules of one crate, by layer.
pub struct Table {
    /// The crate's source folder, relative to the workspace's root.
    pub source: &'static str,
    /// Module paths, lowest layer first. A path stands for its file and for all files below it
    /// that no longer path names. A module may import itself and lower layers, never its own layer
    /// or a higher one; unit tests too. The crate's root (`lib.rs`, `main.rs`) stands above all
    /// and has no entry.
    pub layers: &'static [&'static [&'static str]],
    /// The only module that may start threads, where the crate has such a rule.
    pub spawning: Option<&'static str>,
}

/// Every crate whose modules are layered.
pub const TABLES: &[Table] = &[
    Table { source: ENGINE_SOURCE, layers: ENGINE_LAYERS, spawning: Some(SPAWNING_MODULE) },
    Table { source: "crates/filemap-io/src", layers: libraries::IO, spawning: None },
    Table { source: "crates/filemap-runs/src", layers: libraries::RUNS, spawning: None },
    Table { source: "crates/urlindex/src", layers: libraries::URLINDEX, spawning: None },
    Table { source: "crates/urlindex-redis/src", layers: libraries::URLINDEX_REDIS, spawning: None },
    Table { source: "crates/frontier/src", layers: libraries::FRONTIER, spawning: None },
    Table { source: "crates/mailbox/src", layers: libraries::MAILBOX, spawning: None },
    filemap::FILEMAP,
    Table { source: "crates/filemap-cloud/src", layers: filemap_cloud::LAYERS, spawning: None },
    Table { source: "crates/filemap-http/src", layers: filemap_http::LAYERS, spawning: None },
    Table { source: "crates/crawl/src", layers: crawl::LAYERS, spawning: None },
    Table { source: "crates/filemap-python/src", layers: filemap_python::LAYERS, spawning: None },
    Table { source: "benches/src", layers: benches::LIBRARY, spawning: None },
    Table { source: "benches/src/bin/fm-bench", layers: benches::FM_BENCH, spawning: None },
    Table { source: "benches/compare/src", layers: benches::COMPARE, spawning: None },
    Table { source: "tools/cli/src", layers: fm_cli::LAYERS, spawning: None },
    Table { source: "tools/fm-tool/src", layers: fm_tool::LAYERS, spawning: None },
    Table { source: "tools/fm-crawl/src", layers: crawl::FM_CRAWL, spawning: None },
    Table { source: "tools/fm-serve/src", layers: filemap_http::FM_SERVE, spawning: None },
    Table { source: "tests/src", layers: harnesses::TESTS, spawning: None },
    Table { source: "tests/oracle/src", layers: harnesses::ORACLE, spawning: None },
    Table { source: "tests/crash/src", layers: harnesses::CRASH, spawning: None },
    Table { source: "tests/kernel/src", layers: harnesses::KERNEL, spawning: None },
];

/// Crates without a table, and why.
pub const WITHOUT_TABLE: &[(&str, &str)] = &[("filemap-fuzz", "each target is a program of one or two files")];

/// The modules of `filemap-core`, lowest layer first; a path stands for all files below it that no
/// longer path names. A module may import those of lower layers, and itself; never those beside it
/// or above it. The same holds for unit tests.
pub const ENGINE_LAYERS: &[&[&str]] = &[
    // Which locks a thread holds.
    &["sync::order"],
    // Fault injection; sizes that tests change.
    &["failpoint", "limits"],
    // Plain data that every layer may name.
    &["record", "sequences"],
    &["error"],
    &["event"],
    &["options"],
    // Atomics and locks, as the system or a model checker has them; locks and their order;
    // counters; the write gate.
    &["sync::primitive"],
    &["sync"],
    &["stats"],
    &["sync::gate"],
    // Bytes: one record a file. What every file is checked for when it is opened.
    &["format"],
    &["files"],
    // Records behind each other, in segments: two logs that do not know each other.
    &["logs::scan"],
    &["logs::segments"],
    &["logs::values::cache", "logs::values::dictionaries"],
    &["logs::keys", "logs::values"],
    // What leads from keys into the logs. None knows another, nor the logs.
    &["index::address", "index::key_runs", "index::memtable", "index::segment_table", "index::superblock"],
    // All of them together, as the threads of one handle share them.
    &["handle::log", "handle::rules", "handle::spot"],
    &["handle::recover", "handle::retention"],
    &["handle::reading"],
    &["handle::writing"],
    // Work on a handle in the background.
    &["upkeep::gathered"],
    &["upkeep::state"],
    &["upkeep"],
    &["upkeep::checkpoint"],
    &[
        "upkeep::backup",
        "upkeep::compact",
        "upkeep::join",
        "upkeep::prune",
        "upkeep::remove",
        "upkeep::rules",
        "upkeep::train",
    ],
    &["upkeep::check", "upkeep::repair"],
    &["upkeep::inspect", "upkeep::worker"],
    // The public face.
    &["store"],
    &["sim", "fuzzing"],
];

/// The folder of the engine's source, relative to the workspace's root.
pub const ENGINE_SOURCE: &str = "crates/filemap-core/src";

/// The only crate under `crates/` that may touch the operating system's files.
pub const IO_CRATE: &str = "crates/filemap-io";

/// Paths that reach files past the I/O seam.
pub const IO_PATHS: &[&[&str]] = &[&["std", "fs"], &["libc"], &["rustix"], &["memmap2"]];

/// The only engine module that may start a thread.
pub const SPAWNING_MODULE: &str = "upkeep::worker";

/// Files that may hold `unsafe`: the memory map; and in the comparison the opening of LMDB, whose
/// own map is one too.
pub const UNSAFE_FILES: &[&str] =
    &["crates/filemap-io/src/map.rs", "crates/filemap-python/src/signals.rs", "benches/compare/src/engine/lmdb.rs"];

impl Table {
    /// The table of the crate that a file belongs to.
    pub fn of(path: &Path) -> Option<&'static Table> {
        TABLES.iter().filter(|table| path.starts_with(table.source)).max_by_key(|table| table.source.len())
    }

    /// The entry that a module, or a name in it, belongs to (the longest that fits), and its layer
    /// counted from the lowest.
    pub fn layer(&self, path: &[String]) -> Option<(&'static str, usize)> {
        let fits =
            |entry: &str| entry.split("::").enumerate().all(|(nth, part)| path.get(nth).is_some_and(|p| p == part));
        self.entries().filter(|(entry, _)| fits(entry)).max_by_key(|(entry, _)| entry.len())
    }

    /// Returns whether a module is a folder that only holds modules of the table.
    pub fn is_folder(&self, path: &[String]) -> bool {
        let own = format!("{}::", path.join("::"));
        self.entries().any(|(entry, _)| entry.starts_with(&own))
    }

    /// The highest module of the table in a folder, for which an import of the folder counts.
    pub fn highest_in(&self, folder: &[String]) -> Option<(&'static str, usize)> {
        let own = format!("{}::", folder.join("::"));
        self.entries().filter(|(entry, _)| entry.starts_with(&own)).max_by_key(|(_, layer)| *layer)
    }

    /// Every entry with its layer.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, usize)> + use<> {
        let layers = self.layers.iter().enumerate();
        layers.flat_map(|(layer, entries)| entries.iter().map(move |entry| (*entry, layer)))
    }
}

/// The workspace crates that `name` may depend on.
pub fn allowed_dependencies(name: &str) -> Option<&'static [&'static str]> {
    CRATES.iter().find(|(listed, _)| *listed == name).map(|(_, allowed)| *allowed)
}
