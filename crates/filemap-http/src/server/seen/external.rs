//! A seen set that others keep, such as one on Redis: each request to the server goes there.

use std::fmt::Debug;
use std::sync::Arc;

use urlindex::idempotent::RequestId;
use urlindex::{Canonicalizer, Result, SeenSet, SeenStats, Verdict};

/// A seen set that others keep, and that remembers requests itself: any number of servers can
/// serve it at once. [`crate::server::SeenSets::share`] takes one.
///
/// A failed connection is [`urlindex::StorageError::Io`]: clients are told to ask again.
///
/// ```
/// use std::sync::Arc;
///
/// use filemap_http::server::SharedSet;
/// use urlindex::idempotent::RequestId;
/// use urlindex::{Canonicalizer, Exact, SeenSet, SeenStats, UrlTrie, Verdict};
///
/// /// Kept in memory; a real one remembers what it answered to an id.
/// #[derive(Debug)]
/// struct Kept(UrlTrie);
///
/// impl SharedSet for Kept {
///     fn kind(&self) -> &str {
///         "trie"
///     }
///     fn canonicalizer(&self) -> Arc<dyn Canonicalizer> {
///         Arc::new(Exact)
///     }
///     fn set(&self) -> &dyn SeenSet {
///         &self.0
///     }
///     fn stats(&self) -> SeenStats {
///         self.0.stats()
///     }
///     fn add(&self, _: RequestId, urls: &[&[u8]]) -> urlindex::Result<Vec<Verdict>> {
///         urls.iter().map(|url| self.0.check_and_insert(url)).collect()
///     }
/// }
/// let set = Kept(UrlTrie::new());
/// assert_eq!(set.add(RequestId::now(), &[b"http://example.com/"])?, [Verdict::New]);
/// assert_eq!(set.stats().urls, 1);
/// # Ok::<(), urlindex::Error>(())
/// ```
pub trait SharedSet: Debug + Send + Sync {
    /// Its kind, in a word.
    fn kind(&self) -> &str;

    /// The rules of its URLs.
    fn canonicalizer(&self) -> Arc<dyn Canonicalizer>;

    /// The set, to look URLs up in.
    fn set(&self) -> &dyn SeenSet;

    /// Its figures, as they are now if those who keep it answer, else as they were last.
    fn stats(&self) -> SeenStats;

    /// Adds canonical URLs, and returns which were new; if it has answered this request before,
    /// what it answered.
    ///
    /// # Errors
    /// [`urlindex::Error::Request`] if that answer is not kept any more, or the id had other URLs;
    /// an invalid option for too many URLs.
    fn add(&self, id: RequestId, urls: &[&[u8]]) -> Result<Vec<Verdict>>;
}
