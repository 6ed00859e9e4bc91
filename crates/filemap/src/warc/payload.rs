//! Checks a record's payload digest against the payload in every form that writers use.
//!
//! The standard means the body without its transfer coding. Some writers digest the bytes on the
//! wire, and some archives undo the content coding but leave the headers. A digest that matches
//! none of the three is wrong: it is counted, and the page is kept.

use crate::error::Result;
use crate::http::body::{self, BodyRules};
use crate::page::Page;
use crate::page::digest::Digest;
use crate::page::headers::Headers;
use crate::spool::Payload;

/// Number of pages whose payload digest is wrong, missing or not checked.
///
/// ```
/// let report = filemap::import::ImportReport::default();
/// assert_eq!(report.digests.wrong + report.digests.unreadable, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DigestCount {
    /// The record has no digest.
    pub absent: u64,
    /// The text is not a digest, or is cut short.
    pub unreadable: u64,
    /// Digest mismatch.
    pub wrong: u64,
    /// Not checked: the algorithm is not supported, or the payload is truncated.
    pub unchecked: u64,
}

impl DigestCount {
    /// Adds the counts of another.
    pub fn add(&mut self, other: DigestCount) {
        self.absent += other.absent;
        self.unreadable += other.unreadable;
        self.wrong += other.wrong;
        self.unchecked += other.unchecked;
    }
}

/// The check of one page's digest, in progress.
pub(crate) struct Check {
    digest: Option<Digest>,
    count: DigestCount,
}

impl Check {
    /// Checks the payload as it is in the record.
    pub(crate) fn as_received(page: &Page, payload: &mut Payload, rules: &BodyRules) -> Result<Check> {
        let digest = page.digest.as_deref().map(Digest::parse);
        let mut check = Check { digest: None, count: DigestCount::default() };
        match digest {
            None => check.count.absent = 1,
            Some(None) => check.count.unreadable = 1,
            Some(Some(digest)) => match payload.has_digest(&digest)? {
                Some(true) => {}
                Some(false) if is_unchunked(&digest, &page.headers, payload, rules)? => {}
                Some(false) => check.digest = Some(digest),
                None => check.count.unchecked = 1,
            },
        }
        Ok(check)
    }

    /// Checks the body as it is kept.
    pub(crate) fn with_kept(mut self, page: &Page, body: &mut Payload) -> Result<DigestCount> {
        if let Some(digest) = &self.digest
            && body.has_digest(digest)? != Some(true)
        {
            *(if page.truncated.is_some() { &mut self.count.unchecked } else { &mut self.count.wrong }) = 1;
        }
        Ok(self.count)
    }
}

/// Returns whether the digest is that of a body without its chunked coding but with its content
/// coding.
fn is_unchunked(digest: &Digest, headers: &Headers, payload: &Payload, rules: &BodyRules) -> Result<bool> {
    let Payload::Memory(bytes) = payload else { return Ok(false) };
    if headers.get("Transfer-Encoding").is_none() || headers.get("Content-Encoding").is_none() {
        return Ok(false);
    }
    let rules = BodyRules { as_received: true, ..rules.clone() };
    let mut undone = body::undo(&mut headers.clone(), Payload::Memory(bytes.clone()), &rules)?;
    Ok(undone.payload.has_digest(digest)? == Some(true))
}
