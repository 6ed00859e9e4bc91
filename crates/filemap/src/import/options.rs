//! Options of an import: what is kept, in which form, within which bounds.

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
    pub(super) body_rules: BodyRules,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        let body_rules = BodyRules { as_received: false, max_decoded_bytes: 256 << 20, spool: Spool::default() };
        ImportOptions { kept: Vec::new(), body_rules }
    }
}

impl ImportOptions {
    /// The defaults.
    pub fn new() -> ImportOptions {
        ImportOptions::default()
    }

    /// Keeps content codings (gzip, br, ...) as received; chunked transfer coding is undone all
    /// the same. Default: they are undone.
    pub fn as_received(mut self) -> ImportOptions {
        self.body_rules.as_received = true;
        self
    }

    /// Whether content codings are kept as received.
    pub fn is_as_received(&self) -> bool {
        self.body_rules.as_received
    }

    /// Keeps records of this kind beside their pages: requests, metadata, or conversions (the text
    /// of a page, say). Default: only requests other than a plain `GET`, which make variants.
    pub fn keep(mut self, kind: RecordKind) -> ImportOptions {
        self.kept.push(kind);
        self
    }

    /// A body that decodes to more bytes is kept as received. Default: 256 MiB.
    pub fn max_decoded_bytes(mut self, bytes: u64) -> ImportOptions {
        self.body_rules.max_decoded_bytes = bytes;
        self
    }

    /// Where large blocks are set aside, and from which size on. Default: 8 MiB, the system's
    /// temporary folder.
    pub fn spool(mut self, spool: Spool) -> ImportOptions {
        self.body_rules.spool = spool;
        self
    }

    /// Whether records of this kind are kept.
    pub fn keeps(&self, kind: RecordKind) -> bool {
        kind.is_page() || self.kept.contains(&kind)
    }
}
