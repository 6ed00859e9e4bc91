//! A seen set outside the server, such as on Redis: each request is passed on to it.

use std::fmt::Debug;
use std::sync::Arc;

use urlindex::idempotent::RequestId;
use urlindex::{Canonicalizer, Result, SeenSet, SeenStats, Verdict};

/// A seen set outside the server, which remembers requests itself: any number of servers can serve
/// it at once. Pass it to [`crate::server::SeenSets::share`].
///
/// A failed connection is [`urlindex::StorageError::Io`]: clients are asked to retry.
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
    /// The kind of the set, as a word.
    fn kind(&self) -> &str;

    /// The canonicaliser of its URLs.
    fn canonicalizer(&self) -> Arc<dyn Canonicalizer>;

    /// The set, for look-ups.
    fn set(&self) -> &dyn SeenSet;

    /// Figures of the set: the current ones if it can be reached, otherwise the last known ones.
    fn stats(&self) -> SeenStats;

    /// Adds canonical URLs, and returns which were new. A request answered before gets the same
    /// answer.
    ///
    /// # Errors
    /// [`urlindex::Error::Request`] if the answer is no longer kept, or the id had other URLs; an
    /// invalid option for too many URLs.
    fn add(&self, id: RequestId, urls: &[&[u8]]) -> Result<Vec<Verdict>>;
}
