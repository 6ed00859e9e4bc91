//! The layers of the libraries below and beside the engine.

/// `filemap-io`.
pub const IO: &[&[&str]] = &[
    &["available"],
    &["debug", "error", "failpoint", "guard", "layout", "memory", "named", "options", "seam", "stamp", "varint"],
    &["header", "latch", "map", "sim"],
    &["files", "os"],
];

/// `filemap-runs`. Runs of keys in order have their own modules of everything but names, seeds of
/// checksums and counters.
pub const RUNS: &[&[&str]] = &[
    &["filter", "format", "index", "ordered::change", "ordered::front", "traffic"],
    &["home", "mapped", "ordered::sort", "places"],
    &["run"],
    &["cursor", "fixed", "merge", "ordered::format", "writer"],
    &["ordered::inner", "ordered::leaf"],
    &["ordered::run", "ordered::writer"],
    &["ordered::ahead"],
    &["ordered::cursor", "ordered::verify"],
    &["ordered::source"],
    &["ordered::merge"],
    &["ordered::tests"],
];

/// `urlindex`. A bitmap of functions has those of the Bloom filters.
pub const URLINDEX: &[&[&str]] = &[
    &["request_id"],
    &["canonical", "error", "format"],
    &["files", "seen"],
    &["bloom", "disk", "journal", "trie"],
    &["bitmap", "content"],
    &["stored"],
    &["idempotent"],
];

/// `frontier`.
pub const FRONTIER: &[&[&str]] = &[
    &["pairs"],
    &["error", "failpoint", "format", "grow", "link", "outcome", "shape", "slots"],
    &["blocks", "credit", "files", "marks", "names", "open", "options", "record", "trust", "view"],
    &["index", "journal", "links", "row", "shares", "texts"],
    &["delivery", "place", "table"],
    &["claims", "timers", "window"],
    &["host"],
    &["hosts"],
    &["queue"],
    &["state"],
    &["discover", "recrawl", "snapshot"],
    &["frontier"],
    &["asked"],
    &["tests"],
];

/// `urlindex-redis`.
pub const URLINDEX_REDIS: &[&[&str]] =
    &[&["error"], &["kind", "location", "options"], &["layout"], &["batch", "link"], &["lanes"], &["set"]];

/// `mailbox`.
pub const MAILBOX: &[&[&str]] = &[
    &["error", "failpoint", "format", "link", "names"],
    &["log", "state"],
    &["mailbox", "outbox"],
    &["fleet"],
    &["tests"],
];
