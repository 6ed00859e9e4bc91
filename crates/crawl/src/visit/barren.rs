//! Pages that earn nothing for their links: near-duplicates and error pages with status 200. They
//! are stored and followed as any; the frontier gives their links neither credit nor a word.

use filemap::Page;

use super::Visit;
use super::discovery;
use super::parts::Crawl;
use super::prints::{Barren, Print};
use crate::failure::Reason;
use crate::hooks::Fields;
use crate::links::host;

/// The field beside a page that says that it is barren, and why.
pub const FIELD: &str = "barren";
/// Statuses of pages that are not there.
const ABSENT: [u16; 2] = [404, 410];

fn reason(barren: Barren) -> Reason {
    match barren {
        Barren::NearDuplicate => Reason::NearDuplicate,
        Barren::SoftError => Reason::SoftError,
    }
}

/// Judges a page by the text that was found in it; counts what is barren, and adds it to the
/// page's fields. Start pages and those that are followed for their own sake are not judged.
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

/// Notes what the error pages of a host look like.
pub(super) fn note_error(crawl: &Crawl, visit: &Visit, page: &Page) {
    if crawl.settings.limits.near_bits.is_none() || !page.status.is_some_and(|status| ABSENT.contains(&status)) {
        return;
    }
    if let Some(bits) = discovery::fingerprint(page) {
        crawl.prints.note_error(Print { host: host(&visit.url), key: &visit.key, bits });
    }
}
