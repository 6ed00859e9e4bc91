//! Which kind of set lies under a name, told by its files.
//!
//! The file of a bitmap is bare words, in which anybody can have any bits set by his URLs, a magic too: so its sidecar is looked for first.

use filemap_io::{Access, Dir};

use crate::bitmap::SIDECAR_SUFFIX;
use crate::bloom::{BLOOM_MAGIC, growing::GROWING_MAGIC};
use crate::disk::DISK_MAGIC;
use crate::error::{Error, Result};
use crate::files;
use crate::trie::TRIE_MAGIC;

/// The kinds of seen sets that have files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SetKind {
    /// [`crate::Md5Bitmap`].
    Md5Bitmap,
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
    /// The name by which people choose it: `md5-bitmap`, `bloom`, `growing`, `trie`, `disk`.
    pub fn name(self) -> &'static str {
        match self {
            SetKind::Md5Bitmap => "md5-bitmap",
            SetKind::Bloom => "bloom",
            SetKind::Growing => "growing",
            SetKind::Trie => "trie",
            SetKind::Disk => "disk",
        }
    }

    /// # Errors
    /// `Io` if there is no such file; `NotASet`.
    pub(super) fn of_files(dir: &dyn Dir, name: &str) -> Result<SetKind> {
        let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
        let sidecar = format!("{name}{SIDECAR_SUFFIX}");
        if files::exists(dir, &sidecar)? {
            return Ok(SetKind::Md5Bitmap);
        }
        let mut magic = [0; 8];
        let read = file.read_at(&mut magic, 0).map_err(Error::io("read", name))?;
        match magic {
            BLOOM_MAGIC => Ok(SetKind::Bloom),
            GROWING_MAGIC => Ok(SetKind::Growing),
            TRIE_MAGIC => Ok(SetKind::Trie),
            DISK_MAGIC => Ok(SetKind::Disk),
            _ if read == 0 => Err(Error::NotASet { file: name.to_owned(), what: "it is empty".to_owned() }),
            _ => {
                let what = format!("it begins as none does, and there is no {sidecar} as beside a bitmap");
                Err(Error::NotASet { file: name.to_owned(), what })
            }
        }
    }
}
