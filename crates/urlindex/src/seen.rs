//! The trait `SeenSet`, its verdicts and statistics.
//!
//! The trait is object-safe, so that a crawl chooses its set at run time. Every set says by itself
//! how often it errs and what it costs; none errs in the other direction: a URL that was inserted
//! is never called new.
//!
//! A set takes the bytes that it is given. Two spellings of one URL are two URLs to it:
//! canonicalise first ([`crate::Canonicalizer`]).

use std::fmt::Debug;

use crate::error::Result;

/// What a set knows of a URL.
///
/// ```
/// use urlindex::Verdict;
///
/// assert!(Verdict::New.is_new() && !Verdict::ProbablySeen.is_new());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It was never inserted. This is certain.
    New,
    /// It was inserted. This is certain (or as good as: see the set's
    /// [`SeenSet::false_positive_rate`]).
    Seen,
    /// It was inserted, or others that look like it were.
    ProbablySeen,
}

impl Verdict {
    /// Whether the URL is certainly new.
    pub fn is_new(self) -> bool {
        self == Verdict::New
    }
}

/// What a set has done since it was opened, and what it holds.
///
/// ```
/// use urlindex::{SeenSet, UrlTrie};
///
/// let set = UrlTrie::new();
/// set.insert(b"http://example.com/").unwrap();
/// assert_eq!((set.stats().urls, set.stats().false_positive_rate), (1, 0.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SeenStats {
    /// URLs in the set, as [`SeenSet::len`] counts them.
    pub urls: u64,
    /// Inserts since it was opened that were answered with `New`.
    pub inserted: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of files.
    pub disk_bytes: u64,
    /// The chance that a URL that was never inserted is called seen, now.
    pub false_positive_rate: f64,
    /// How many URLs were, in expectation, called seen so far although they were new.
    pub expected_loss: f64,
}

/// A set of URLs that have been met.
///
/// Any number of threads may call any method at once. Of several inserts of one URL, however they
/// run together, exactly one is told [`Verdict::New`]; a filter may tell none so, which is its
/// error and counted in its rate.
///
/// ```
/// use urlindex::{GrowingFilter, SeenSet, UrlTrie};
///
/// let sets: [Box<dyn SeenSet>; 2] = [Box::new(UrlTrie::new()), Box::new(GrowingFilter::in_memory(1e-4, 0).unwrap())];
/// for set in sets {
///     assert!(set.insert(b"http://example.com/").unwrap());
///     assert!(!set.insert(b"http://example.com/").unwrap());
/// }
/// ```
pub trait SeenSet: Debug + Send + Sync {
    /// Inserts `url`, and says whether it was there before.
    ///
    /// # Errors
    /// [`crate::StorageError::Poisoned`] after a failed write; [`crate::Error::UrlLength`] and
    /// [`crate::StorageError::Full`] where the set has such a limit; [`crate::StorageError::Io`]
    /// and [`crate::StorageError::Corrupt`] if it has to look at its files.
    fn check_and_insert(&self, url: &[u8]) -> Result<Verdict>;

    /// Whether `url` was inserted. Nothing is changed.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`] and [`crate::StorageError::Corrupt`] if the set has to look at
    /// its files.
    fn contains(&self, url: &[u8]) -> Result<Verdict>;

    /// Inserts `url`. `true`: it is certainly new, and of all callers only this one is told so.
    /// `false`: it was there, or in a filter looks so.
    ///
    /// # Errors
    /// As [`SeenSet::check_and_insert`].
    fn insert(&self, url: &[u8]) -> Result<bool> {
        self.check_and_insert(url).map(Verdict::is_new)
    }

    /// [`SeenSet::check_and_insert`] of each URL, in order: a URL that occurs twice is new once.
    /// The verdicts replace what `verdicts` holds. After an error it holds those of the URLs
    /// before the one that failed.
    ///
    /// # Errors
    /// As [`SeenSet::check_and_insert`].
    fn check_and_insert_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        verdicts.reserve(urls.len());
        for url in urls {
            verdicts.push(self.check_and_insert(url)?);
        }
        Ok(())
    }

    /// [`SeenSet::contains`] of each URL, in order. The verdicts replace what `verdicts` holds.
    ///
    /// # Errors
    /// As [`SeenSet::contains`].
    fn contains_batch(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        verdicts.reserve(urls.len());
        for url in urls {
            verdicts.push(self.contains(url)?);
        }
        Ok(())
    }

    /// How many URLs are in the set: the inserts that were told `New`. A filter cannot know how
    /// many it swallowed.
    fn len(&self) -> u64;

    /// Whether nothing was inserted yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the set takes, mapped files included.
    fn memory_bytes(&self) -> u64;

    /// Bytes of its files; 0 for a set in memory.
    fn disk_bytes(&self) -> u64;

    /// The chance that a URL that was never inserted is called seen, estimated for what the set
    /// holds now. 0 if the set keeps texts. A filter counts its bits for the answer: not for every
    /// URL.
    fn false_positive_rate(&self) -> f64;

    /// How many URLs were, in expectation, called seen although they were new, since the set was
    /// made.
    fn expected_loss(&self) -> f64;

    /// Makes all inserts that have returned durable. Nothing, for a set in memory.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`]; the set takes no more URLs then, since nobody knows what the
    /// device has.
    fn sync(&self) -> Result<()>;

    /// All figures at once.
    fn stats(&self) -> SeenStats;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trait_is_object_safe() {
        fn takes(_: Option<&dyn SeenSet>) {}
        takes(None);
        assert!(Verdict::New.is_new() && !Verdict::ProbablySeen.is_new());
    }
}
