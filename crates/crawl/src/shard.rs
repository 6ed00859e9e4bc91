//! The interface to a shard of a remote store: its pages, and files committed together with them.
//! This crate does not depend on object storage: other crates implement [`Shard`].

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use filemap::access::kept::KeptFile;
use filemap::canonical::Canonicalizer;
use filemap::page::RecordKind;
use filemap::{Lookup, Page, PageWrite, Result};

/// The newest body of a page.
///
/// ```
/// use crawl::shard::Body;
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("pages.fm");
/// # let store = filemap::PageStore::create(path, filemap::Options::new())?;
/// let pages = crawl::pages::Pages::Local(store);
/// pages.put_page(&filemap::Page::new("http://example.com/", 7, 200, "hello"))?;
/// let digest = urlindex::ContentSeen::digest(b"hello");
/// assert_eq!(pages.body(b"http://example.com/")?, Some(Body { digest, bytes: 5, time_ms: 7 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// Its XXH3-128, highest byte first.
    pub digest: [u8; 16],
    /// Its length.
    pub bytes: u64,
    /// The time of its version.
    pub time_ms: i64,
}

/// A shard of a remote store. Calls block.
///
/// ```
/// use crawl::shard::Shard;
/// /// Bytes of what the crawl knew at its last commit.
/// fn kept_bytes(shard: &dyn Shard) -> filemap::Result<u64> {
///     Ok(shard.kept()?.iter().map(|(_, bytes)| bytes).sum())
/// }
/// ```
pub trait Shard: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> String;

    /// Its pages.
    fn pages(&self) -> &dyn PageWrite;

    /// The canonicaliser that makes its keys.
    fn canonicalizer(&self) -> &Arc<dyn Canonicalizer>;

    /// The newest body of a page, without reading it.
    ///
    /// # Errors
    /// Errors of the store.
    fn body(&self, lookup: &Lookup<'_>) -> Result<Option<Body>>;

    /// The newest record of a kind beside a page.
    ///
    /// # Errors
    /// Errors of the store.
    fn beside(&self, lookup: &Lookup<'_>, kind: RecordKind) -> Result<Option<Page>>;

    /// The last sequence of any version.
    ///
    /// # Errors
    /// Errors of the store.
    fn last_sequence(&self) -> Result<u64>;

    /// Returns whether another owner has taken it, as far as is known: this one can write no more.
    fn is_lost(&self) -> bool;

    /// Asks whether another owner has taken it: [`Shard::is_lost`] knows it from then on.
    ///
    /// # Errors
    /// An error if another owner has it; errors of the store.
    fn check(&self) -> Result<()>;

    /// The files of the last commit, and their lengths; empty if there was none.
    ///
    /// # Errors
    /// Errors of the store.
    fn kept(&self) -> Result<Vec<(String, u64)>>;

    /// Reads one of them.
    ///
    /// # Errors
    /// Errors of the store and of `each`.
    fn read(&self, name: &str, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<()>;

    /// The bytes of a file in the newest commit of any owner; `None` if it is in none.
    ///
    /// # Errors
    /// Errors of the store.
    fn newest(&self, name: &str) -> Result<Option<Vec<u8>>>;

    /// Makes all earlier puts and these files durable, in one step.
    ///
    /// # Errors
    /// Errors of the store; an error if another owner has it.
    fn commit(&self, files: &[KeptFile<'_>]) -> Result<()>;
}

impl Debug for dyn Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}
