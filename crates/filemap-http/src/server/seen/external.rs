//! A seen set that others keep, such as one on Redis: each request to the server goes there.

use std::fmt::Debug;
use std::sync::Arc;

use urlindex::idempotent::RequestId;
use urlindex::{Canonicalizer, Result, SeenSet, SeenStats, Verdict};

/// A seen set that others keep, and that remembers requests itself: any number of servers can
/// serve it at once. [`crate::server::SeenSets::share`] takes one.
///
/// A failed connection is [`urlindex::StorageError::Io`]: clients are told to ask again.
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
