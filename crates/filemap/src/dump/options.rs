//! Options of a dump: its formats, its files, and the versions that it contains.

use super::select::Selection;
use crate::spool::Spool;
use crate::warc::Compression;

/// A format of a dump.
///
/// ```
/// use filemap::dump::{DumpOptions, Format};
/// // All that a WACZ file holds.
/// let options = DumpOptions::new("crawl", &[Format::Warc, Format::Cdxj, Format::Pages]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// JSON Lines: see [`super::jsonl`].
    Jsonl,
    /// WARC files.
    Warc,
    /// The index of the WARC files, in CDXJ; only together with [`Format::Warc`].
    Cdxj,
    /// A tree of plain files, with a list of them.
    Files,
    /// The list of pages of a WACZ file.
    Pages,
}

/// Options of a dump; the defaults take every version of every page, and the records beside pages.
///
/// ```
/// use filemap::dump::{DumpOptions, Format, Selection};
/// let options = DumpOptions::new("crawl", &[Format::Warc, Format::Cdxj])
///     .selection(Selection::new().host("example.com"))
///     .newest_only();
/// ```
#[derive(Clone, Debug)]
pub struct DumpOptions {
    pub(super) stem: String,
    pub(super) formats: Vec<Format>,
    pub(super) selection: Selection,
    pub(super) newest_only: bool,
    pub(super) limit: Option<u64>,
    pub(super) compression: Compression,
    pub(super) roll_bytes: Option<u64>,
    pub(super) spool: Spool,
}

impl DumpOptions {
    /// A dump in these formats; its files are called `STEM.jsonl`, `STEM-00000.warc.gz` and so on.
    pub fn new(stem: &str, formats: &[Format]) -> DumpOptions {
        DumpOptions {
            stem: stem.to_owned(),
            formats: formats.to_vec(),
            selection: Selection::new(),
            newest_only: false,
            limit: None,
            compression: Compression::default(),
            roll_bytes: Some(1_000_000_000),
            spool: Spool::default().memory_bytes(64 << 20),
        }
    }

    /// Only the newest version of each page, if it is selected; a revisit is written as an answer
    /// with its original's body. Default: all versions.
    pub fn newest_only(mut self) -> DumpOptions {
        self.newest_only = true;
        self
    }

    /// Returns whether versions may be left out.
    pub(super) fn is_part(&self) -> bool {
        self.newest_only || self.limit.is_some() || self.selection != Selection::new()
    }

    pub(super) fn has(&self, format: Format) -> bool {
        self.formats.contains(&format)
    }
}

filemap_io::setters! {
    DumpOptions;
    /// Only these versions. Default: all.
    selection: Selection,

    /// At most this many versions. Default: no limit.
    limit: Option<u64>,

    /// Compression of WARC files. Default: gzip.
    compression: Compression,

    /// The size at which a WARC file is closed and the next one begun; `None`: one file, without a
    /// number in its name. Default: 1 GB.
    roll_bytes: Option<u64>,

    /// Memory and folder for sorting the index. Default: 64 MiB, the system's temporary folder.
    spool: Spool,
}
