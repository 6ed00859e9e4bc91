//! Merges one stored set into another, where their kinds allow it.
//!
//! Bits and fingerprints merge only with those of the same meaning; a trie has texts, which go
//! into any set.

use super::{AnySet, StoredSet};
use crate::disk::DiskUrlSet;
use crate::error::{Error, Result};
use crate::seen::SeenSet;
use crate::trie::UrlTrie;

/// Texts inserted into a set on disk in one batch.
const INSERTED_AT_ONCE: usize = 1 << 20;

/// Result of a merge.
///
/// ```
/// use urlindex::stored::{NewSet, StoredSet};
/// use urlindex::{SeenSet, Whatwg};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let to = StoredSet::create(folder.path().join("to"), NewSet::Trie, &Whatwg).unwrap();
/// let from = StoredSet::create(folder.path().join("from"), NewSet::Trie, &Whatwg).unwrap();
/// from.insert(b"http://example.com/").unwrap();
/// assert_eq!(to.merge(&from).unwrap().added, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Growth of the set's count ([`SeenSet::len`]); of a Bloom filter an estimate.
    pub added: u64,
}

impl StoredSet {
    /// Checks that [`StoredSet::merge`] accepts a set. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Unsupported`], with the reason.
    pub fn check_mergeable(&self, from: &StoredSet) -> Result<()> {
        from.check_whole("be merged")?;
        let why = match (&self.set, &from.set) {
            (_, AnySet::Trie(_)) => return Ok(()),
            (AnySet::Md5Bitmap(set), AnySet::Md5Bitmap(other)) => return set.check_alike(other),
            (AnySet::HashBitmap(set), AnySet::HashBitmap(other)) => return set.check_alike(other),
            (AnySet::Bloom(set), AnySet::Bloom(other)) => return set.check_alike(other),
            (AnySet::Growing(_), AnySet::Growing(_)) => {
                "a growing filter has only fingerprints, which are too short for later layers".to_owned()
            }
            (AnySet::Disk(set), AnySet::Disk(other)) if set.is_alike(other) => return Ok(()),
            (AnySet::Disk(set), AnySet::Disk(other)) => {
                let of =
                    |set: &DiskUrlSet| format!("{} bits with the seed {}", set.fingerprint_bits().bits(), set.seed());
                format!("{} has fingerprints of {}, this set has those of {}", from.name, of(other), of(set))
            }
            (_, AnySet::Disk(_)) => {
                let ours = self.kind().name();
                format!("{} has fingerprints, no texts, and {ours} cannot take them", from.name)
            }
            (_, AnySet::Md5Bitmap(_) | AnySet::HashBitmap(_) | AnySet::Bloom(_) | AnySet::Growing(_)) => {
                let (theirs, ours) = (from.kind().name(), self.kind().name());
                format!("{} has no texts ({theirs}), and {ours} cannot take its bits", from.name)
            }
        };
        let why = format!("{why}. Insert the URLs themselves");
        Err(Error::Unsupported { file: self.name.clone(), op: "merge that set", why })
    }

    /// Inserts all URLs of another set. A bitmap accepts a bitmap with as many slots (and the same
    /// functions), a Bloom filter one of the same shape and seed, a set on disk one with
    /// fingerprints of the same length and seed (with a maximum age, as if inserted now), and
    /// every set a trie. The caller checks that both have the same canonicaliser
    /// ([`StoredSet::canonicalizer`]). Durable after [`SeenSet::sync`].
    ///
    /// # Errors
    /// [`Error::Unsupported`], with the reason; and as [`SeenSet::check_and_insert`]. What was
    /// inserted before an error stays.
    pub fn merge(&self, from: &StoredSet) -> Result<Merged> {
        self.check_writable()?;
        self.check_mergeable(from)?;
        let before = self.len();
        match (&self.set, &from.set) {
            (AnySet::Disk(set), AnySet::Trie(trie)) => insert_texts(set, trie)?,
            (AnySet::Disk(set), AnySet::Disk(other)) => set.merge_from(other).map(drop)?,
            (_, AnySet::Trie(trie)) => trie.iter().try_for_each(|url| self.insert(&url).map(drop))?,
            (AnySet::Md5Bitmap(set), AnySet::Md5Bitmap(other)) => set.merge(other).map(|_| ())?,
            (AnySet::HashBitmap(set), AnySet::HashBitmap(other)) => set.merge(other).map(|_| ())?,
            (AnySet::Bloom(set), AnySet::Bloom(other)) => set.merge(other)?,
            // Refused by `check_mergeable`.
            _ => {}
        }
        Ok(Merged { added: self.len().saturating_sub(before) })
    }
}

fn insert_texts(set: &DiskUrlSet, trie: &UrlTrie) -> Result<()> {
    let mut batch = set.batch();
    for url in trie.iter() {
        batch.push(&url)?;
        if batch.len() == INSERTED_AT_ONCE {
            set.check_and_insert_all(&mut batch)?;
        }
    }
    set.check_and_insert_all(&mut batch).map(drop)
}
