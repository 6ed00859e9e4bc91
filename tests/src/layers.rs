//! Who may import whom: the one table, for crates and for the modules inside the engine.
//!
//! Invariant: an import goes downward only. A new crate or engine module fails the test until it is given its place
//! here; that is the moment to ask whether it has one.

/// A crate of the workspace and the crates of the workspace that it may depend on. Tests, benches and their
/// dev-dependencies may look at everything.
pub const CRATES: &[(&str, &[&str])] = &[
    ("filemap-io", &[]),
    ("filemap-core", &["filemap-io"]),
    ("urlindex", &["filemap-io"]),
    ("frontier", &["filemap-io", "urlindex"]),
    ("filemap", &["filemap-core", "urlindex"]),
    ("terminal", &[]),
    ("fm-tool", &["filemap", "filemap-core", "terminal", "urlindex"]),
    ("fm-crawl", &["filemap", "filemap-core", "filemap-io", "frontier", "terminal", "urlindex"]),
    ("filemap-tests", &["filemap", "filemap-core", "filemap-io", "urlindex"]),
    ("filemap-crash", &["filemap-core", "filemap-io"]),
    ("filemap-fuzz", &["filemap", "filemap-core", "filemap-io", "filemap-tests", "frontier", "urlindex"]),
    ("filemap-kernel", &["filemap-core"]),
    ("filemap-benches", &["filemap", "filemap-core", "filemap-io", "urlindex"]),
    ("filemap-compare", &["filemap-benches", "filemap-core"]),
];

/// The modules of `filemap-core`, lowest layer first. A module may import those of lower layers, and itself; never
/// those beside it or above it.
pub const ENGINE_LAYERS: &[&[&str]] = &[
    // What only the simulation needs.
    &["buggify", "limits"],
    // What is said to the caller: plain data that every layer may name.
    &["record"],
    &["error"],
    &["event"],
    &["options"],
    // A hash's place in a filter.
    &["bloom"],
    // Atomics and locks, as the system or a model checker has them; locks and their order; counters.
    &["primitive"],
    &["sync"],
    &["stats"],
    // What every change of a file passes.
    &["gate"],
    // Bytes: one record, then a log of records.
    &["format"],
    &["log"],
    &["files"],
    // What several files' records are compressed with.
    &["dictionaries"],
    // What was expanded of them.
    &["cache"],
    &["segments"],
    // Each owns one file or one table, and none knows another.
    &["accounts", "recent", "keys", "values", "index", "rules", "superblock"],
    // From files to what a handle needs.
    &["recover"],
    // Those together, as one handle's threads share them.
    &["state"],
    // Work over that state.
    &["checkpoint"],
    &["backup", "compact", "prune"],
    &["check", "inspect", "repair"],
    &["worker"],
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
pub const SPAWNING_MODULE: &str = "worker";

/// Files that may hold `unsafe`: the memory map; and in the comparison the opening of LMDB, whose own map is one too.
pub const UNSAFE_FILES: &[&str] = &["crates/filemap-io/src/map.rs", "benches/compare/src/engine/lmdb.rs"];

/// The layer of an engine module, counted from the lowest.
pub fn engine_layer(module: &str) -> Option<usize> {
    ENGINE_LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The workspace crates that `name` may depend on.
pub fn allowed_dependencies(name: &str) -> Option<&'static [&'static str]> {
    CRATES.iter().find(|(listed, _)| *listed == name).map(|(_, allowed)| *allowed)
}
