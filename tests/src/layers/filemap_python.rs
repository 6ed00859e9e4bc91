//! The layers of `filemap-python`: conversions at the bottom, then pages, iterators, the store and
//! its upkeep.

/// Its modules, lowest layer first.
pub const LAYERS: &[&[&str]] = &[
    &["coding", "errors", "headers", "report", "signals", "times"],
    &["argument", "fork", "options"],
    &["page", "seen"],
    &["iterate"],
    &["store"],
    &["tables", "upkeep", "warc"],
];
