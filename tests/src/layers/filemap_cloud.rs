//! The layers of `filemap-cloud`: bytes and objects, then the index, then what is not in it yet,
//! then an open store and what reads and writes it.

/// Lowest first.
pub const LAYERS: &[&[&str]] = &[
    &["error", "failpoint", "format::checkpoint", "format::chunks", "format::description"],
    &["format::record"],
    &["format::segment"],
    &["format::dictionary", "format::manifest", "format::row", "format::sources"],
    &["format"],
    &["cache", "dictionary"],
    &["bucket", "draft", "keeping", "options", "pending", "plan", "progress", "runtime"],
    &["dictionaries", "location", "pins", "probe"],
    // The only one that knows the engine of the index.
    &["index"],
    &["due", "hold", "rows"],
    &["commit"],
    &["writer"],
    // An open store.
    &["core"],
    &["deletion", "parts", "repack", "walk"],
    &["unused"],
    &["read", "write"],
    &["body"],
    &["shard"],
    &["store"],
    &["collect", "compact", "every", "kept", "prune", "sizes", "stats"],
    &["train"],
    &["erase", "snapshot", "upkeep", "verify"],
    &["opening"],
    &["repair"],
];
