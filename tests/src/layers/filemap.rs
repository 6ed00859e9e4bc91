//! The layers of crate `filemap`: a page at the bottom, then HTTP, WARC records, the store, and
//! what fills and empties it.

use super::Table;

/// The modules of `filemap`, lowest layer first.
pub const FILEMAP: Table = Table {
    source: "crates/filemap/src",
    layers: &[
        &["archives", "date", "limits", "names", "packing"],
        &["error"],
        // A page: its parts, itself, the key that it lies under, the description that lies beside
        // its body, the order of keys.
        &["page::digest", "page::encoding", "page::headers", "page::in_place"],
        &["page::variant"],
        &["page"],
        &["page::key", "page::meta"],
        &["page::order", "page::version"],
        // The key of a URL in indexes; which captures are shown by it.
        &["dump::surt"],
        &["acl"],
        // The interface of every store.
        &["access"],
        // Bodies of any length; HTTP messages in a record.
        &["spool"],
        &["http"],
        // WARC records in: bytes, members, records, pages. Out: a version as a record. No store.
        &["warc::header", "warc::input", "warc::problem", "warc::step", "warc::wacz"],
        &["warc::arc", "warc::digest", "warc::payload", "warc::record", "warc::stored"],
        &["warc::clipped", "warc::gzip", "warc::zstd"],
        &["warc::member"],
        &["warc::reader"],
        &["warc::capture", "warc::write"],
        &["warc"],
        // The store, and the rules that it obeys.
        &["store::rules"],
        &["store"],
        // What fills and empties it. None knows another.
        &["async_store", "copy", "dump", "erase", "import", "sharded"],
        // A store made equal to another.
        &["replica::place"],
        &["replica"],
        // Rows of a selection, as a dump has it.
        &["table"],
    ],
    spawning: None,
};
