//! Decides the form in which a version is written to WARC files: with its body, or as a revisit of
//! another version in them.

use crate::date;
use crate::error::Result;
use crate::page::RecordKind;
use crate::page::digest::sha1_of;
use crate::page::version::StoredVersion;
use crate::store::PageStore;
use crate::warc::write::{Form, Reference};

/// The form of a version. `original`: that of a revisit, and whether the files have it; `has`:
/// tests, by its sequence, whether they have a version of the same page with its body.
pub(super) fn of(
    store: &PageStore,
    version: &StoredVersion,
    original: Option<(&StoredVersion, bool)>,
    has: impl Fn(u64) -> bool,
) -> Result<Form> {
    let page = &version.page;
    if page.kind == RecordKind::Revisit {
        return Ok(match original {
            None => Form::Revisit(None),
            Some((_, false)) => Form::Full,
            Some((original, true)) => {
                let payload = sha1_of(&[&original.page.body]);
                let sequence = original.version.sequence;
                Form::Revisit(Some(Reference::to(&original.key, sequence, &original.page, payload)))
            }
        });
    }
    let is_answer = page.kind == RecordKind::Response && page.status.is_some() && !page.body.is_empty();
    let before = version.unchanged_since.filter(|&sequence| is_answer && has(sequence));
    let Some(sequence) = before else { return Ok(Form::Full) };
    let found = match store.version_of_sequence(&version.key, sequence) {
        Err(error) if error.is_damage() => None,
        found => found?,
    };
    // A reference names the time of its original, which must have a valid date.
    let found = found.filter(|original| date::has_four_digit_year(original.fetched_at_ms));
    Ok(found.map_or(Form::Full, |original| {
        let payload = sha1_of(&[&page.body]);
        Form::Unchanged(Reference::to(&version.key, sequence, &original, payload))
    }))
}
