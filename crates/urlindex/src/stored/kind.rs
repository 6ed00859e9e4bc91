//! Which kind of set lies under a name, told by its files.
//!
//! The file of a bitmap is bare words, in which anybody can have any bits set by his URLs, a magic too: so its sidecar is looked for first.

use filemap_io::{Access, Dir};

use crate::bitmap::{self, SIDECAR_SUFFIX};
use crate::bloom::{BLOOM_MAGIC, growing::GROWING_MAGIC};
use crate::disk::DISK_MAGIC;
use crate::error::{Error, Result};
use crate::files;
use crate::stored::note;
use crate::trie::TRIE_MAGIC;

/// The kinds of seen sets that have files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SetKind {
    /// [`crate::Md5Bitmap`].
    Md5Bitmap,
    /// [`crate::HashBitmap`].
    HashBitmap,
    /// [`crate::BloomFilter`].
    Bloom,
    /// [`crate::GrowingFilter`].
    Growing,
    /// [`crate::UrlTrie`].
    Trie,
    /// [`crate::DiskUrlSet`].
    Disk,
}

impl SetKind {
    /// The name by which people choose it: `md5-bitmap`, `hash-bitmap`, `bloom`, `growing`, `trie`, `disk`.
    pub fn name(self) -> &'static str {
        match self {
            SetKind::Md5Bitmap => "md5-bitmap",
            SetKind::HashBitmap => "hash-bitmap",
            SetKind::Bloom => "bloom",
            SetKind::Growing => "growing",
            SetKind::Trie => "trie",
            SetKind::Disk => "disk",
        }
    }

    /// # Errors
    /// `Io` if there is no such file; `Corrupt` if there is nothing of a set in it but a note beside it, or a bitmap's sidecar is damaged;
    /// `NewerFormat`; `NotASet`.
    pub(super) fn of_files(dir: &dyn Dir, name: &str) -> Result<SetKind> {
        let sidecar = format!("{name}{SIDECAR_SUFFIX}");
        let known = SetKind::of_magic(dir, name)?;
        if files::exists(dir, &sidecar)? {
            let is_hashed = bitmap::is_hashed(dir, name)?;
            return Ok(if is_hashed { SetKind::HashBitmap } else { SetKind::Md5Bitmap });
        }
        if let Some(kind) = known {
            return Ok(kind);
        }
        let what = format!("it begins as none does, and there is no {sidecar} as beside a bitmap");
        let note = note::file_name(name);
        Err(match files::exists(dir, &note)? {
            true => Error::corrupt(
                name,
                0,
                format!("{what}, but {note} says that it is one (words of a bitmap can be adopted)"),
            ),
            false => Error::NotASet { file: name.to_owned(), what },
        })
    }

    /// The kind whose magic a file begins with, which a bitmap's may do by chance or by somebody's URLs.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn of_magic(dir: &dyn Dir, name: &str) -> Result<Option<SetKind>> {
        let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
        let mut magic = [0; 8];
        file.read_at(&mut magic, 0).map_err(Error::io("read", name))?;
        Ok(match magic {
            BLOOM_MAGIC => Some(SetKind::Bloom),
            GROWING_MAGIC => Some(SetKind::Growing),
            TRIE_MAGIC => Some(SetKind::Trie),
            DISK_MAGIC => Some(SetKind::Disk),
            _ => None,
        })
    }
}
