//! The trait `SeenSet`, its verdicts and statistics.
//!
//! The trait is object-safe, so that a crawl chooses its set at run time. Every set reports its
//! error rate and its cost; none errs the other way: an inserted URL is never called new.
//!
//! Sets compare bytes. Two spellings of one URL are two URLs: canonicalise first
//! ([`crate::Canonicalizer`]).

use std::fmt::Debug;

use crate::error::Result;

filemap_io::named_enum! {
    /// A set's answer for a URL.
    ///
    /// ```
    /// use urlindex::Verdict;
    ///
    /// assert!(Verdict::New.is_new() && !Verdict::ProbablySeen.is_new());
    /// assert_eq!(Verdict::ProbablySeen.name(), "probably-seen");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Verdict {
        /// Never inserted. Certain.
        New => "new",
        /// Inserted. Certain, or as good as certain: see [`SeenSet::false_positive_rate`].
        Seen => "seen",
        /// Inserted, or a false positive.
        ProbablySeen => "probably-seen",
    }
}

impl Verdict {
    /// Returns whether the URL is certainly new.
    pub fn is_new(self) -> bool {
        self == Verdict::New
    }
}

/// Counts, sizes and error rates of a set.
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
    /// New URLs inserted since the set was opened.
    pub inserted: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of files.
    pub disk_bytes: u64,
    /// Probability that a URL that was never inserted is called seen, now.
    pub false_positive_rate: f64,
    /// Expected number of new URLs called seen so far.
    pub expected_loss: f64,
}

impl SeenStats {
    /// The statistics of a set, from its other methods.
    pub(crate) fn of(set: &dyn SeenSet, inserted: u64) -> SeenStats {
        SeenStats {
            urls: set.len(),
            inserted,
            memory_bytes: set.memory_bytes(),
            disk_bytes: set.disk_bytes(),
            false_positive_rate: set.false_positive_rate(),
            expected_loss: set.expected_loss(),
        }
    }
}

/// A set of seen URLs.
///
/// Any number of threads may call any method at once. Of concurrent inserts of one URL exactly one
/// returns [`Verdict::New`]; in a filter possibly none, which its error rate counts.
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
    /// Inserts `url`, and returns whether it was there before.
    ///
    /// # Errors
    /// [`crate::StorageError::Poisoned`] after a failed write; [`crate::Error::UrlLength`] and
    /// [`crate::StorageError::Full`] where the set has such a limit; [`crate::StorageError::Io`]
    /// and [`crate::StorageError::Corrupt`] if it reads its files.
    fn check_and_insert(&self, url: &[u8]) -> Result<Verdict>;

    /// Returns whether `url` was inserted. Changes nothing.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`] and [`crate::StorageError::Corrupt`] if it reads its files.
    fn contains(&self, url: &[u8]) -> Result<Verdict>;

    /// Inserts `url`. Returns true if it is certainly new, to one caller only; false if it was in
    /// the set, or in a filter may have been.
    ///
    /// # Errors
    /// As [`SeenSet::check_and_insert`].
    fn insert(&self, url: &[u8]) -> Result<bool> {
        self.check_and_insert(url).map(Verdict::is_new)
    }

    /// [`SeenSet::check_and_insert`] of each URL, in order: a URL that occurs twice is new once.
    /// The verdicts replace the contents of `verdicts`; after an error they are those of the URLs
    /// before the failed one.
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

    /// [`SeenSet::contains`] of each URL, in order. The verdicts replace the contents of
    /// `verdicts`.
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

    /// Number of URLs in the set: inserts that returned `New`. A filter does not count its false
    /// positives.
    fn len(&self) -> u64;

    /// Returns whether the set is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory, mapped files included.
    fn memory_bytes(&self) -> u64;

    /// Bytes of its files; 0 for a set in memory.
    fn disk_bytes(&self) -> u64;

    /// Probability that a URL that was never inserted is called seen, estimated for the current
    /// contents. 0 if the set keeps texts. A filter counts its bits: do not ask for every URL.
    fn false_positive_rate(&self) -> f64;

    /// Expected number of new URLs called seen since the set was created.
    fn expected_loss(&self) -> f64;

    /// Makes all finished inserts durable. Does nothing for a set in memory.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`]; the set takes no more URLs then, since the state of the device
    /// is unknown.
    fn sync(&self) -> Result<()>;

    /// All statistics at once.
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
