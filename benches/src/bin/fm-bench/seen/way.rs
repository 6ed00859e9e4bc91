//! One way to deduplicate URLs, for the table of `seen --kind table`.

use filemap_benches::drive::Outcome;

/// A way to deduplicate.
pub trait Way {
    /// Asks for each URL and inserts it; how many were new. What is kept in files is durable then.
    fn pass(&mut self, urls: &[&[u8]]) -> Outcome<u64>;
    /// Bytes of memory, and of files.
    fn bytes(&self) -> Outcome<(u64, u64)>;
}
