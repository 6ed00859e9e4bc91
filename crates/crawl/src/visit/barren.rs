//! Barren pages: near-duplicates, and error pages with status 200. They are stored and followed
//! like others, but the frontier gives their links neither credit nor a voucher.

use filemap::Page;

use super::Visit;
use super::discovery;
use super::parts::Crawl;
use super::prints::{Barren, Print};
use crate::failure::Reason;
use crate::hooks::Fields;
use crate::links::host;

/// The field beside a page that marks it as barren, with the reason.
pub const FIELD: &str = "barren";
/// Statuses of missing pages.
const ABSENT: [u16; 2] = [404, 410];

fn reason(barren: Barren) -> Reason {
    match barren {
        Barren::NearDuplicate => Reason::NearDuplicate,
        Barren::SoftError => Reason::SoftError,
    }
}

/// Judges a page by its text; counts a barren one, and adds the mark to its fields. Start pages,
/// other seeds and duplicates are exempt.
pub(super) fn judge(crawl: &Crawl, visit: &mut Visit, is_exempt: bool, fields: &mut Fields) -> bool {
    let (Some(bits), Some(near)) = (visit.fingerprint, crawl.settings.limits.near_bits) else { return false };
    let is_page = matches!(visit.status, Some(200 | 304)) && visit.requisite.is_none();
    if is_exempt || !is_page || crawl.sitemaps.level(&visit.url).is_some() {
        return false;
    }
    let found = crawl.prints.judge(Print { host: host(&visit.url), key: &visit.key, bits }, near).map(reason);
    if let Some(reason) = found {
        visit.met(reason, 1);
        fields.insert(FIELD.to_owned(), reason.name().to_owned());
    }
    found.is_some()
}

/// Remembers the fingerprint of a host's error page.
pub(super) fn note_error(crawl: &Crawl, visit: &Visit, page: &Page) {
    if crawl.settings.limits.near_bits.is_none() || !page.status.is_some_and(|status| ABSENT.contains(&status)) {
        return;
    }
    if let Some(bits) = discovery::fingerprint(page) {
        crawl.prints.note_error(Print { host: host(&visit.url), key: &visit.key, bits });
    }
}
