//! `ContentSeen`: has this body been met before, under whatever URL? The exact set on disk over
//! digests of bodies.
//!
//! Keys are the first 80 bits (or 64) of a digest of 128: the same that the page store keeps with
//! each version, so that its pages can be asked about without their bodies being read. All bits of
//! a digest are alike, so the chance of an error follows from the number of bodies alone, and not
//! from any class, as it does for URLs.
//!
//! Invariant: a set of digests is never opened as one of URLs, nor the other way round: the
//! manifest says which it is.

use std::path::Path;
use std::sync::Arc;

use filemap_io::Dir;
use xxhash_rust::xxh3::xxh3_128;

use crate::disk::{Answers, DiskOptions, DiskStats, DiskUrlSet, Keys, UrlBatch};
use crate::error::Result;
use crate::files::{in_any_dir, place};
use crate::seen::{SeenSet, SeenStats, Verdict};

/// An exact set of page bodies on disk: the content-seen test.
///
/// Asked for by body ([`SeenSet`]: the bytes are a body, not a URL) or by digest. It costs per
/// body what a [`DiskUrlSet`] costs per URL, and survives a crash as that does.
///
/// Of n bodies with 80 bits, n^2 / 2^81 are called seen although they are new, in expectation:
/// 4e-7 of a billion; with 64 bits 0.027. That holds for bodies that nobody chose. XXH3 is no
/// cryptographic hash: who writes pages can make two bodies of one digest, of which the second is
/// called seen, and loses nothing but his own page. Where that matters, insert the first 16 bytes
/// of a cryptographic digest instead.
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
    /// An empty set in a new file, beside which it keeps others whose names begin with it. The
    /// options' seed is not used: a digest is what it is.
    ///
    /// # Errors
    /// As [`DiskUrlSet::create`].
    pub fn create(path: impl AsRef<Path>, options: DiskOptions) -> Result<ContentSeen> {
        let (dir, name) = place(path.as_ref())?;
        ContentSeen::create_in(dir, &name, options)
    }

    in_any_dir! {
        /// As [`ContentSeen::create`], in any directory.
        ///
        /// # Errors
        /// As there.
        fn create_in(dir: Arc<dyn Dir>, name: &str, options: DiskOptions) -> Result<ContentSeen> {
            Ok(ContentSeen { set: DiskUrlSet::create_of(Keys::Digests, dir, name, options.seed(0))? })
        }
    }

    /// Opens a set.
    ///
    /// # Errors
    /// As [`DiskUrlSet::open`]; [`crate::Error::Unsupported`] if it is a set of URLs.
    pub fn open(path: impl AsRef<Path>, options: DiskOptions) -> Result<ContentSeen> {
        let (dir, name) = place(path.as_ref())?;
        ContentSeen::open_in(dir, &name, options)
    }

    in_any_dir! {
        /// As [`ContentSeen::open`], in any directory.
        ///
        /// # Errors
        /// As there.
        fn open_in(dir: Arc<dyn Dir>, name: &str, options: DiskOptions) -> Result<ContentSeen> {
            Ok(ContentSeen { set: DiskUrlSet::open_of(Keys::Digests, dir, name, options)? })
        }
    }

    /// A body's digest: XXH3-128, its highest byte first, as the page store keeps it.
    pub fn digest(body: &[u8]) -> [u8; 16] {
        xxh3_128(body).to_be_bytes()
    }

    fn fingerprint(&self, digest: &[u8; 16]) -> u128 {
        u128::from_be_bytes(*digest) & self.set.fingerprint_bits().mask()
    }

    /// [`SeenSet::check_and_insert`] of the body that has this digest.
    ///
    /// # Errors
    /// As there.
    pub fn check_and_insert_digest(&self, digest: &[u8; 16]) -> Result<Verdict> {
        self.set.check_and_insert_fingerprint(self.fingerprint(digest))
    }

    /// [`SeenSet::contains`] of the body that has this digest.
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

    /// Forgets a body: it is new again. Whether it was there. Durable after [`SeenSet::sync`].
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

    /// How tests were answered and what they cost.
    pub fn disk_stats(&self) -> DiskStats {
        self.set.disk_stats()
    }

    /// The chance that two digests have the same bits.
    fn chance(&self) -> f64 {
        (-f64::from(self.set.fingerprint_bits().bits())).exp2()
    }
}

fn digests(bodies: &[&[u8]]) -> Vec<[u8; 16]> {
    bodies.iter().map(|body| ContentSeen::digest(body)).collect()
}

/// The bytes are bodies.
impl SeenSet for ContentSeen {
    fn check_and_insert(&self, body: &[u8]) -> Result<Verdict> {
        self.check_and_insert_digest(&ContentSeen::digest(body))
    }

    fn contains(&self, body: &[u8]) -> Result<Verdict> {
        self.contains_digest(&ContentSeen::digest(body))
    }

    /// As [`ContentSeen::check_and_insert_digests`]: there are no verdicts after an error.
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

    /// Of the bodies that the set holds: those that came and are forgotten do not count.
    fn expected_loss(&self) -> f64 {
        let bodies = self.len() as f64;
        bodies * (bodies - 1.0).max(0.0) / 2.0 * self.chance()
    }

    fn sync(&self) -> Result<()> {
        self.set.sync()
    }

    fn stats(&self) -> SeenStats {
        let stats = self.set.stats();
        SeenStats { false_positive_rate: self.false_positive_rate(), expected_loss: self.expected_loss(), ..stats }
    }
}

#[cfg(test)]
mod tests;
