//! Merges Bloom filters: the union of bits is the filter of the union of URLs.
//!
//! That requires equal bits for a URL: equal size, layout, probes, hash functions and seed. A
//! known false positive of one filter may have been inserted into the other.

use std::sync::atomic::Ordering;

use super::BloomFilter;
use crate::error::{Error, Result};
use crate::seen::SeenSet;

impl BloomFilter {
    /// Sets every bit that is set in `other`, so all its URLs are seen here. [`SeenSet::len`] is
    /// then an estimate from the bits, between the larger of the two counts and their sum.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a URL has other bits in `other`; [`crate::StorageError::Full`] if
    /// there are too many known false positives; [`crate::StorageError::Poisoned`].
    pub fn merge(&self, other: &BloomFilter) -> Result<()> {
        self.poison.check()?;
        self.check_alike(other)?;
        let mine = self.known.urls().into_iter();
        let struck: Vec<_> = mine.filter(|url| other.contains(url).is_ok_and(|verdict| !verdict.is_new())).collect();
        let theirs = other.known.urls().into_iter();
        let noted: Vec<_> = theirs.filter(|url| self.contains(url).is_ok_and(|verdict| verdict.is_new())).collect();
        for url in &noted {
            self.known.note(url)?;
        }
        self.words.merge(&other.words);
        for url in &struck {
            self.known.take(url);
        }
        let (mine, theirs) = (self.len(), other.len());
        let estimate = self.words.keys(&self.design.shape).round() as u64;
        self.urls.store(estimate.clamp(mine.max(theirs), mine.saturating_add(theirs)), Ordering::Relaxed);
        Ok(())
    }

    /// Checks that a URL has the same bits in `other`.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(crate) fn check_alike(&self, other: &BloomFilter) -> Result<()> {
        let (a, b) = (&self.design, &other.design);
        if (a.shape, a.family, a.seed) == (b.shape, b.family, b.seed) {
            return Ok(());
        }
        let words = |filter: &BloomFilter| {
            let ((bits, probes), (family, seed)) = (filter.shape(), filter.hashing());
            let (layout, family) = (filter.layout().name(), family.name());
            format!("{bits} bits, {probes} probes, {layout}, {family} with seed {seed}")
        };
        let why = format!(
            "a URL has other bits there ({}) than here ({}). Insert the URLs themselves",
            words(other),
            words(self)
        );
        let file = self.store.as_ref().map_or("the filter", |store| store.file.name()).to_owned();
        Err(Error::Unsupported { file, op: "merge that filter", why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::BloomOptions;
    use crate::seen::Verdict;

    fn url(i: u64) -> Vec<u8> {
        format!("http://example.com/page/{i}").into_bytes()
    }

    fn filter(options: BloomOptions, urls: std::ops::Range<u64>) -> BloomFilter {
        let set = BloomFilter::in_memory(options).expect("made");
        urls.for_each(|i| assert!(set.insert(&url(i)).is_ok()));
        set
    }

    #[test]
    fn the_union_has_the_urls_of_both_and_counts_them_nearly() {
        for options in [BloomOptions::new(100_000, 1e-3), BloomOptions::new(100_000, 1e-3).blocked()] {
            let set = filter(options.clone(), 0..40_000);
            set.merge(&filter(options.clone(), 20_000..70_000)).expect("alike");
            assert!((0..70_000).all(|i| !set.contains(&url(i)).expect("known").is_new()));
            let (len, direct) = (set.len() as f64, filter(options, 0..70_000));
            assert!((len / 70_000.0 - 1.0).abs() < 0.02, "{len}");
            assert!((set.false_positive_rate() - direct.false_positive_rate()).abs() < 1e-12, "the same bits");
        }
    }

    #[test]
    fn filters_in_which_a_url_has_other_bits_are_refused() {
        let options = BloomOptions::new(1000, 1e-3);
        let set = filter(options.clone(), 0..10);
        for other in [options.clone().seed(1), options.blocked(), BloomOptions::new(2000, 1e-3)] {
            let refused = set.merge(&filter(other, 0..10));
            assert!(matches!(&refused, Err(Error::Unsupported { why, .. }) if why.contains("bits")), "{refused:?}");
        }
        assert_eq!(set.len(), 10);
    }

    #[test]
    fn a_known_false_positive_of_one_that_is_a_url_of_the_other_is_seen() {
        let options = BloomOptions::with_bits(10, 512, 1);
        let (set, other) = (filter(options.clone(), 0..300), filter(options, 300..600));
        let wrong = |set: &BloomFilter, mut from: std::ops::Range<u64>| {
            from.find(|&i| set.note_false_positive(url(i)).expect("noted")).expect("so small a filter errs")
        };
        let (of_other, of_none) = (wrong(&set, 300..600), wrong(&set, 1000..2000));
        // Neither filter has this URL, and both list it as a false positive.
        other.note_false_positive(url(of_none)).expect("noted");
        set.merge(&other).expect("alike");
        assert_eq!(set.contains(&url(of_other)).expect("known"), Verdict::ProbablySeen);
        assert_eq!(set.contains(&url(of_none)).expect("known"), Verdict::New);
        assert_eq!(set.known_false_positives(), 1);
    }
}
