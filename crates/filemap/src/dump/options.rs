//! What a dump takes and in which forms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::select::Selection;
use crate::spool::Spool;
use crate::warc::Compression;

/// The forms of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// JSON Lines: see [`super::jsonl`].
    Jsonl,
    /// WARC files.
    Warc,
    /// The index of the WARC files, in CDXJ; together with those only.
    Cdxj,
    /// A tree of plain files, and a list of them.
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
///     .newest_only(true);
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
    pub(super) stop: Option<Arc<AtomicBool>>,
}

impl DumpOptions {
    /// A dump in these forms, whose files are called `STEM.jsonl`, `STEM-00000.warc.gz` and so on.
    pub fn new(stem: &str, formats: &[Format]) -> DumpOptions {
        DumpOptions {
            stem: stem.to_owned(),
            formats: formats.to_vec(),
            selection: Selection::new(),
            newest_only: false,
            limit: None,
            compression: Compression::default(),
            roll_bytes: Some(1_000_000_000),
            spool: Spool { memory_bytes: 64 << 20, ..Spool::default() },
            stop: None,
        }
    }

    /// Only these versions. Default: all.
    pub fn selection(mut self, selection: Selection) -> DumpOptions {
        self.selection = selection;
        self
    }

    /// Only the newest version of each page, if it is selected; a revisit goes out as an answer
    /// with its original's body. Default: no.
    pub fn newest_only(mut self, yes: bool) -> DumpOptions {
        self.newest_only = yes;
        self
    }

    /// At most this many versions. Default: no limit.
    pub fn limit(mut self, versions: Option<u64>) -> DumpOptions {
        self.limit = versions;
        self
    }

    /// How WARC files are compressed. Default: gzip.
    pub fn compression(mut self, compression: Compression) -> DumpOptions {
        self.compression = compression;
        self
    }

    /// A WARC file is ended when it has this many bytes; `None`: one file, without a number in its
    /// name. Default: 1 GB.
    pub fn roll_bytes(mut self, bytes: Option<u64>) -> DumpOptions {
        self.roll_bytes = bytes;
        self
    }

    /// Where the index is sorted, and in how much memory. Default: 64 MiB, the system's temporary
    /// folder.
    pub fn spool(mut self, spool: Spool) -> DumpOptions {
        self.spool = spool;
        self
    }

    /// A flag that ends the dump after the version at hand once it is set, by a signal handler for
    /// instance. Files that were full are whole; the last ones are not closed, so that nobody
    /// takes them for such, and there is no index.
    pub fn stop(mut self, flag: Arc<AtomicBool>) -> DumpOptions {
        self.stop = Some(flag);
        self
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Whether a version may be left out.
    pub(super) fn is_part(&self) -> bool {
        self.newest_only || self.limit.is_some() || self.selection != Selection::new()
    }

    pub(super) fn has(&self, format: Format) -> bool {
        self.formats.contains(&format)
    }
}
