//! How a WARC file is imported: what is kept, in which form, within which bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::http::body::BodyRules;
use crate::page::RecordKind;
use crate::spool::Spool;

/// Options of an import; the defaults keep pages, their bodies decoded, and the requests of
/// variants.
///
/// ```
/// use filemap::import::ImportOptions;
/// let options = ImportOptions::new().as_received(true).keep_requests(true);
/// ```
#[derive(Clone, Debug)]
pub struct ImportOptions {
    pub(super) as_received: bool,
    pub(super) requests: bool,
    pub(super) metadata: bool,
    pub(super) conversions: bool,
    pub(super) max_decoded_bytes: u64,
    pub(super) spool: Spool,
    pub(super) stop: Option<Arc<AtomicBool>>,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            as_received: false,
            requests: false,
            metadata: false,
            conversions: false,
            max_decoded_bytes: 256 << 20,
            spool: Spool::default(),
            stop: None,
        }
    }
}

impl ImportOptions {
    /// The defaults.
    pub fn new() -> ImportOptions {
        ImportOptions::default()
    }

    /// Keep content codings (gzip, br, ...) as they came; the chunked coding goes all the same.
    /// Default: undo them.
    pub fn as_received(mut self, yes: bool) -> ImportOptions {
        self.as_received = yes;
        self
    }

    /// Keep request records beside their pages. Default: only those that are no plain `GET`: they
    /// say what a variant answers.
    pub fn keep_requests(mut self, yes: bool) -> ImportOptions {
        self.requests = yes;
        self
    }

    /// Keep metadata records beside their pages. Default: no.
    pub fn keep_metadata(mut self, yes: bool) -> ImportOptions {
        self.metadata = yes;
        self
    }

    /// Keep conversion records (the text of a page, say) beside their pages. Default: no.
    pub fn keep_conversions(mut self, yes: bool) -> ImportOptions {
        self.conversions = yes;
        self
    }

    /// A body that decodes to more than this many bytes is kept as received. Default: 256 MiB.
    pub fn max_decoded_bytes(mut self, bytes: u64) -> ImportOptions {
        self.max_decoded_bytes = bytes;
        self
    }

    /// Where large blocks are set aside, and from which size on. Default: 8 MiB, the system's
    /// temporary folder.
    pub fn spool(mut self, spool: Spool) -> ImportOptions {
        self.spool = spool;
        self
    }

    /// Once this flag is set, by another thread or by a signal, the import ends after the record
    /// that it is at: what was taken in stays, and the same import done again goes on. Default:
    /// none.
    pub fn stop(mut self, flag: Arc<AtomicBool>) -> ImportOptions {
        self.stop = Some(flag);
        self
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    pub(super) fn keeps(&self, kind: RecordKind) -> bool {
        match kind {
            RecordKind::Response | RecordKind::Resource | RecordKind::Revisit => true,
            RecordKind::Metadata => self.metadata,
            RecordKind::Request => self.requests,
            RecordKind::Conversion => self.conversions,
        }
    }

    pub(super) fn body_rules(&self) -> BodyRules {
        BodyRules {
            as_received: self.as_received,
            max_decoded_bytes: self.max_decoded_bytes,
            spool: self.spool.clone(),
        }
    }
}
