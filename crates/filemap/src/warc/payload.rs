//! What a record's payload digest is worth: checked against the payload in every form that writers
//! take it of.
//!
//! The standard means the body without its transfer coding. Some writers take it as it came over
//! the wire, and some archives undo the content coding and leave the headers. A digest that is
//! that of none of the three is wrong; the page is kept all the same, and counted.

use crate::error::Result;
use crate::http::body::{self, BodyRules};
use crate::page::Page;
use crate::page::digest::Digest;
use crate::page::headers::Headers;
use crate::spool::Payload;

/// How many pages have a payload digest that is not theirs, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DigestCount {
    /// The record gives none.
    pub absent: u64,
    /// What it gives is no digest, or is cut short.
    pub unreadable: u64,
    /// It is not that of the payload.
    pub wrong: u64,
    /// It could not be checked: of an algorithm that is not computed, or of a payload that is
    /// truncated.
    pub unchecked: u64,
}

impl DigestCount {
    /// Adds another's numbers.
    pub fn add(&mut self, other: DigestCount) {
        self.absent += other.absent;
        self.unreadable += other.unreadable;
        self.wrong += other.wrong;
        self.unchecked += other.unchecked;
    }
}

/// The check of one page's digest.
pub(crate) struct Check {
    digest: Option<Digest>,
    count: DigestCount,
}

impl Check {
    /// Looks at the payload as it stands in the record.
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

    /// Looks at the body as it is kept.
    pub(crate) fn with_kept(mut self, page: &Page, body: &mut Payload) -> Result<DigestCount> {
        if let Some(digest) = &self.digest
            && body.has_digest(digest)? != Some(true)
        {
            *(if page.truncated.is_some() { &mut self.count.unchecked } else { &mut self.count.wrong }) = 1;
        }
        Ok(self.count)
    }
}

/// Whether it is the digest of a body without its chunks, but with its content coding, which is
/// not kept in that form.
fn is_unchunked(digest: &Digest, headers: &Headers, payload: &Payload, rules: &BodyRules) -> Result<bool> {
    let Payload::Memory(bytes) = payload else { return Ok(false) };
    if headers.get("Transfer-Encoding").is_none() || headers.get("Content-Encoding").is_none() {
        return Ok(false);
    }
    let rules = BodyRules { as_received: true, max_decoded_bytes: rules.max_decoded_bytes, spool: rules.spool.clone() };
    let mut undone = body::undo(&mut headers.clone(), Payload::Memory(bytes.clone()), &rules)?;
    Ok(undone.payload.has_digest(digest)? == Some(true))
}
