//! Options of an import: the records kept, their form, and limits.

use crate::http::body::BodyRules;
use crate::page::RecordKind;
use crate::spool::Spool;

/// Options of an import; the defaults keep pages, their bodies decoded, and the requests of
/// variants.
///
/// ```
/// use filemap::page::RecordKind;
/// use filemap::import::ImportOptions;
/// let options = ImportOptions::new().as_received().keep(RecordKind::Request);
/// ```
#[derive(Clone, Debug)]
pub struct ImportOptions {
    kept: Vec<RecordKind>,
    /// Location of the file whose records stay in place.
    pub(super) in_place: Option<String>,
    pub(super) body_rules: BodyRules,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions { kept: Vec::new(), in_place: None, body_rules: BodyRules::decoded() }
    }
}

impl ImportOptions {
    /// The defaults.
    pub fn new() -> ImportOptions {
        ImportOptions::default()
    }

    /// Keeps content codings (gzip, br, ...) as received; chunked transfer coding is undone in any
    /// case. Default: they are undone.
    pub fn as_received(mut self) -> ImportOptions {
        self.body_rules.as_received = true;
        self
    }

    /// Returns whether content codings are kept as received.
    pub fn is_as_received(&self) -> bool {
        self.body_rules.as_received
    }

    /// Keeps records of this kind beside their pages: requests, metadata, or conversions (such as
    /// the text of a page). Default: only requests other than a plain `GET`, which make variants.
    pub fn keep(mut self, kind: RecordKind) -> ImportOptions {
        self.kept.push(kind);
        self
    }

    /// A body that decodes to more bytes is kept as received. Default: 256 MiB.
    pub fn max_decoded_bytes(mut self, bytes: u64) -> ImportOptions {
        self.body_rules.max_decoded_bytes = bytes;
        self
    }

    /// Folder in which large blocks are set aside, and the size from which they are. Default: the
    /// system's temporary folder, 8 MiB.
    pub fn spool(mut self, spool: Spool) -> ImportOptions {
        self.body_rules.spool = spool;
        self
    }

    /// Keeps descriptions only, and leaves the records in the file. The file must be at `location`
    /// whenever pages are read: an absolute path, or an `http(s)` address. Records that cannot be
    /// read from their offset alone (several in one compressed member, or from the dump of a
    /// store) are stored whole. Default: all are stored whole.
    pub fn in_place(mut self, location: impl Into<String>) -> ImportOptions {
        self.in_place = Some(location.into());
        self
    }

    /// Returns whether records of this kind are kept.
    pub fn keeps(&self, kind: RecordKind) -> bool {
        kind.is_page() || self.kept.contains(&kind)
    }
}
