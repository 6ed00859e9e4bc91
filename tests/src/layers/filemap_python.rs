//! The layers of `filemap-python`: conversions at the bottom, then pages, iterators, the store and
//! its upkeep.

/// Its modules, lowest layer first.
pub const LAYERS: &[&[&str]] = &[
    &["errors", "report", "signals"],
    &["argument", "fork", "headers", "times", "waiting"],
    &["coding", "made", "options"],
    &["redis"],
    &["backing", "sets"],
    &["page", "seen"],
    &["crawled", "iterate"],
    &["store"],
    &["changes", "crawling", "lists", "queue", "tables", "upkeep", "warc"],
];
