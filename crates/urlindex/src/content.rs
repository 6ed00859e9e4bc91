//! `ContentSeen`, the content-seen test: an exact set on disk of digests of page bodies, whatever
//! their URLs.
//!
//! Keys are the first 80 (or 64) bits of a 128-bit digest, the one that the page store keeps with
//! each version, so pages can be tested without reading their bodies. All bits of a digest are
//! alike, so the error follows from the number of bodies alone, not from host classes as for URLs.
//!
//! Invariant: the manifest tells sets of digests from sets of URLs, and neither opens as the
//! other.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::disk::{Answers, DiskOptions, DiskStats, DiskUrlSet, Keys, UrlBatch};
use crate::error::Result;
use crate::files::by_path;
use crate::seen::{SeenSet, SeenStats, Verdict};

/// An exact set of page bodies on disk: the content-seen test.
///
/// Tests bodies ([`SeenSet`]: the bytes are a body, not a URL) or digests. Cost per body and crash
/// safety are those of a [`DiskUrlSet`].
///
/// The expected number of new bodies called seen among n is n^2 / 2^81 with 80 bits (4e-7 for a
/// billion), 0.027 for a billion with 64. This assumes that nobody constructs collisions. XXH3 is
/// not cryptographic: an author can make two bodies of one digest, and loses only his own second
/// page. Where that matters, insert the first 16 bytes of a cryptographic digest.
///
/// ```
/// use urlindex::{ContentSeen, DiskOptions, SeenSet, Verdict};
///
/// let folder = tempfile::tempdir().unwrap();
/// let bodies = ContentSeen::create(folder.path().join("bodies"), DiskOptions::new()).unwrap();
/// assert_eq!(bodies.check_and_insert(b"<html>a mirrored page</html>").unwrap(), Verdict::New);
/// let digest = ContentSeen::digest(b"<html>a mirrored page</html>");
/// assert_eq!(bodies.contains_digest(&digest).unwrap(), Verdict::Seen);
/// bodies.sync().unwrap();
/// ```
#[derive(Debug)]
pub struct ContentSeen {
    set: DiskUrlSet,
}

impl ContentSeen {
    by_path! {
        /// Creates an empty set in a new file; its other files have names that begin with it. The
        /// seed of the options is not used.
        ///
        /// # Errors
        /// As [`DiskUrlSet::create`].
        fn create, create_in(dir, name, options: DiskOptions) -> Result<ContentSeen> {
            Ok(ContentSeen { set: DiskUrlSet::create_of(Keys::Digests, dir, name, options.seed(0))? })
        }
    }

    by_path! {
        /// Opens a set.
        ///
        /// # Errors
        /// As [`DiskUrlSet::open`]; [`crate::Error::Unsupported`] if it is a set of URLs.
        fn open, open_in(dir, name, options: DiskOptions) -> Result<ContentSeen> {
            Ok(ContentSeen { set: DiskUrlSet::open_of(Keys::Digests, dir, name, options)? })
        }
    }

    /// A body's digest: XXH3-128, highest byte first, as in the page store.
    pub fn digest(body: &[u8]) -> [u8; 16] {
        xxh3_128(body).to_be_bytes()
    }

    fn fingerprint(&self, digest: &[u8; 16]) -> u128 {
        u128::from_be_bytes(*digest) & self.set.fingerprint_bits().mask()
    }

    /// [`SeenSet::check_and_insert`] by digest.
    ///
    /// # Errors
    /// As there.
    pub fn check_and_insert_digest(&self, digest: &[u8; 16]) -> Result<Verdict> {
        self.set.check_and_insert_fingerprint(self.fingerprint(digest))
    }

    /// [`SeenSet::contains`] by digest.
    ///
    /// # Errors
    /// As there.
    pub fn contains_digest(&self, digest: &[u8; 16]) -> Result<Verdict> {
        self.set.contains_fingerprint(self.fingerprint(digest))
    }

    /// [`ContentSeen::check_and_insert_digest`] of many, in order, in one pass through the set: 16
    /// bytes of memory each.
    ///
    /// # Errors
    /// As [`DiskUrlSet::check_and_insert_all`].
    pub fn check_and_insert_digests(&self, digests: &[[u8; 16]]) -> Result<Answers> {
        self.set.check_and_insert_all(&mut self.batch(digests)?)
    }

    /// [`ContentSeen::contains_digest`] of many, in order, in one pass through the set: 16 bytes
    /// of memory each.
    ///
    /// # Errors
    /// As [`DiskUrlSet::contains_all`].
    pub fn contains_digests(&self, digests: &[[u8; 16]]) -> Result<Answers> {
        self.set.contains_all(&mut self.batch(digests)?)
    }

    fn batch(&self, digests: &[[u8; 16]]) -> Result<UrlBatch> {
        let mut batch = self.set.batch();
        batch.reserve(digests.len());
        digests.iter().try_for_each(|digest| batch.push_fingerprint(self.fingerprint(digest)))?;
        Ok(batch)
    }

    /// Forgets a body, so that it is new again. Returns whether it was there. Durable after
    /// [`SeenSet::sync`].
    ///
    /// # Errors
    /// As [`SeenSet::check_and_insert`].
    pub fn forget_digest(&self, digest: &[u8; 16]) -> Result<bool> {
        self.set.forget_fingerprint(self.fingerprint(digest))
    }

    /// As [`DiskUrlSet::snapshot`].
    ///
    /// # Errors
    /// As there.
    pub fn snapshot(&self, folder: impl AsRef<Path>) -> Result<()> {
        self.set.snapshot(folder)
    }

    /// As [`DiskUrlSet::merge_from`], of two sets of bodies.
    ///
    /// # Errors
    /// As there.
    pub fn merge_from(&self, other: &ContentSeen) -> Result<u64> {
        self.set.merge_from(&other.set)
    }

    /// Counts of tests and their cost.
    pub fn disk_stats(&self) -> DiskStats {
        self.set.disk_stats()
    }

    /// Probability that two digests have the same fingerprint.
    fn chance(&self) -> f64 {
        (-f64::from(self.set.fingerprint_bits().bits())).exp2()
    }
}

fn digests(bodies: &[&[u8]]) -> Vec<[u8; 16]> {
    bodies.iter().map(|body| ContentSeen::digest(body)).collect()
}

/// The byte strings are bodies, not URLs.
impl SeenSet for ContentSeen {
    fn check_and_insert(&self, body: &[u8]) -> Result<Verdict> {
        self.check_and_insert_digest(&ContentSeen::digest(body))
    }

    fn contains(&self, body: &[u8]) -> Result<Verdict> {
        self.contains_digest(&ContentSeen::digest(body))
    }

    /// As [`ContentSeen::check_and_insert_digests`]: no verdicts after an error.
    fn check_and_insert_batch(&self, bodies: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        verdicts.extend(self.check_and_insert_digests(&digests(bodies))?.iter());
        Ok(())
    }

    fn contains_batch(&self, bodies: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<()> {
        verdicts.clear();
        verdicts.extend(self.contains_digests(&digests(bodies))?.iter());
        Ok(())
    }

    fn len(&self) -> u64 {
        self.set.len()
    }

    fn memory_bytes(&self) -> u64 {
        self.set.memory_bytes()
    }

    fn disk_bytes(&self) -> u64 {
        self.set.disk_bytes()
    }

    /// n / 2^80, or n / 2^64.
    fn false_positive_rate(&self) -> f64 {
        self.len() as f64 * self.chance()
    }

    /// Counts the bodies in the set, not forgotten ones.
    fn expected_loss(&self) -> f64 {
        let bodies = self.len() as f64;
        bodies * (bodies - 1.0).max(0.0) / 2.0 * self.chance()
    }

    fn sync(&self) -> Result<()> {
        self.set.sync()
    }

    fn stats(&self) -> SeenStats {
        SeenStats::of(self, self.set.stats().inserted)
    }
}

#[cfg(test)]
mod tests;
