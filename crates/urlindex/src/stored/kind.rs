//! The kind of a stored set, found from its files.
//!
//! A bitmap's file is bare words, in which anybody's URLs can set any bits, even a magic. So its
//! sidecar is looked for first.

use filemap_io::{Access, Dir};

use crate::bitmap::{self, SlotHash};
use crate::bloom::BloomOptions;
use crate::disk::DiskOptions;
use crate::error::{Error, Result};
use crate::files::{self, beside};
use crate::format::{BLOOM, DISK, GROWING, TRIE};

filemap_io::named_enum! {
    /// Kinds of seen sets in files.
    ///
    /// ```
    /// use urlindex::stored::SetKind;
    ///
    /// assert_eq!(SetKind::Growing.name(), "growing");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum SetKind {
        /// [`crate::Md5Bitmap`].
        Md5Bitmap => "md5-bitmap",
        /// [`crate::HashBitmap`].
        HashBitmap => "hash-bitmap",
        /// [`crate::BloomFilter`].
        Bloom => "bloom",
        /// [`crate::GrowingFilter`].
        Growing => "growing",
        /// [`crate::UrlTrie`].
        Trie => "trie",
        /// [`crate::DiskUrlSet`].
        Disk => "disk",
    }
}

/// Kind and options of a new set.
///
/// ```
/// use urlindex::stored::{NewSet, SetKind, StoredSet};
/// use urlindex::{BloomOptions, Whatwg};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let set = StoredSet::create(&path, NewSet::Bloom(BloomOptions::new(1_000_000, 1e-4)), &Whatwg).unwrap();
/// assert_eq!(set.kind(), SetKind::Bloom);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NewSet {
    /// An [`crate::Md5Bitmap`] of 2^`bits` slots.
    Md5Bitmap {
        /// 16 to 36.
        bits: u32,
    },
    /// A [`crate::HashBitmap`].
    HashBitmap {
        /// The functions, each once.
        hashes: Vec<SlotHash>,
        /// 1 to 2^31.
        slots: u64,
    },
    /// A [`crate::BloomFilter`].
    Bloom(BloomOptions),
    /// A [`crate::GrowingFilter`].
    Growing {
        /// 1e-9 to 0.1.
        rate: f64,
        /// The hash's seed.
        seed: u64,
    },
    /// A [`crate::UrlTrie`].
    Trie,
    /// A [`crate::DiskUrlSet`].
    Disk(DiskOptions),
}

impl SetKind {
    /// # Errors
    /// `Io` if the file is missing; `Corrupt` if it is not a set but has a note beside it, or the
    /// sidecar of a bitmap is damaged; `NewerFormat`; `NotASet`.
    pub(super) fn of_files(dir: &dyn Dir, name: &str) -> Result<SetKind> {
        let sidecar = beside::meta(name);
        let known = SetKind::of_magic(dir, name)?;
        if files::exists(dir, &sidecar)? {
            let is_hashed = bitmap::is_hashed(dir, name)?;
            return Ok(if is_hashed { SetKind::HashBitmap } else { SetKind::Md5Bitmap });
        }
        if let Some(kind) = known {
            return Ok(kind);
        }
        let what = format!("unknown magic number, and no {sidecar}, which a bitmap would have");
        let note = beside::canon(name);
        Err(match files::exists(dir, &note)? {
            true => Error::corrupt(
                name,
                0,
                format!("{what}, but {note} says that it is a set (words of a bitmap can be adopted)"),
            ),
            false => Error::NotASet { file: name.to_owned(), what },
        })
    }

    /// The kind whose magic a file begins with. A bitmap may begin with one by chance or because
    /// of someone's URLs.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn of_magic(dir: &dyn Dir, name: &str) -> Result<Option<SetKind>> {
        let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
        let mut magic = [0; 8];
        file.read_at(&mut magic, 0).map_err(Error::io("read", name))?;
        let known =
            [(BLOOM, SetKind::Bloom), (GROWING, SetKind::Growing), (TRIE, SetKind::Trie), (DISK, SetKind::Disk)];
        Ok(known.into_iter().find(|(kind, _)| kind.magic == magic).map(|(_, kind)| kind))
    }
}
