//! Decides the form in which a version is written to WARC files: with its body, or as a revisit of
//! another version in them.

use crate::date;
use crate::error::Result;
use crate::page::digest::sha1_of;
use crate::page::version::StoredVersion;
use crate::page::{Page, RecordKind};
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
    let before = version.unchanged_since.filter(|&sequence| is_answer(page) && has(sequence));
    let Some(sequence) = before else { return Ok(Form::Full) };
    let found = match store.version_of_sequence(&version.key, sequence) {
        Err(error) if error.is_damage() => None,
        found => found?,
    };
    Ok(found.map_or(Form::Full, |original| unchanged(version, sequence, &original)))
}

/// Returns whether a page can be written as a revisit of an equal one.
fn is_answer(page: &Page) -> bool {
    page.kind == RecordKind::Response && page.status.is_some() && !page.body.is_empty()
}

/// The form of a version whose body is that of `original`, which the files have.
fn unchanged(version: &StoredVersion, sequence: u64, original: &Page) -> Form {
    // A reference names the time of its original, which must have a valid date.
    if !date::has_four_digit_year(original.fetched_at_ms) {
        return Form::Full;
    }
    let payload = sha1_of(&[&version.page.body]);
    Form::Unchanged(Reference::to(&version.key, sequence, original, payload))
}

/// Versions of one key that the files have with their bodies, without these: for versions that
/// come key by key, and from no store that could be asked.
#[derive(Default)]
pub(super) struct OfKey {
    key: Vec<u8>,
    whole: Vec<(u64, Page)>,
}

impl OfKey {
    /// As [`of`], of versions that come key by key, in the order of their puts. A revisit has no
    /// original.
    pub(super) fn form(&self, version: &StoredVersion) -> Form {
        if version.page.kind == RecordKind::Revisit {
            return Form::Revisit(None);
        }
        let before = version.unchanged_since.filter(|_| is_answer(&version.page) && self.key == version.key);
        let of_sequence = |sequence| self.whole.iter().find(|(known, _)| *known == sequence);
        before.and_then(of_sequence).map_or(Form::Full, |(sequence, original)| unchanged(version, *sequence, original))
    }

    /// Notes a version that is written with its body.
    pub(super) fn note(&mut self, version: &StoredVersion) {
        if self.key != version.key {
            self.key.clone_from(&version.key);
            self.whole.clear();
        }
        self.whole.push((version.version.sequence, version.page.description()));
    }
}
