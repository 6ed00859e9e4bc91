//! The change feed under access rules: blocked and excluded captures are left out.
//!
//! A cursor identifies its rules: a client that continued under other rules would keep what is now
//! excluded, and lack what is now allowed. A removal has no capture time: it is left out if the
//! URL is always excluded. Removal or damage of one version is treated like that version.

use filemap::acl::Access;
use filemap::store::{ChangesPlace, PageChange, PageChanges, StoredVersion};
use filemap::{Error, Page, PageHead, Result, Version};

use super::super::refusal::Refusal;
use super::store::Shown;

/// The changes of a store that are shown.
pub(crate) struct ShownChanges {
    changes: PageChanges,
    shown: Shown,
}

impl Shown {
    /// The cursor at the end of the history.
    fn end_of_changes(&self) -> Result<ChangesPlace> {
        let rules = self.rules.as_ref().map(|rules| rules.fingerprint());
        Ok(self.store.changes_end()?.under_rules(rules))
    }

    /// Changes since a cursor or `now`, or, with `None`, from the start of a full listing.
    ///
    /// # Errors
    ///
    /// 410 if the cursor belongs to other rules; those of [`filemap::PageStore::changes`].
    pub(crate) fn changes(&self, since: Option<&str>) -> std::result::Result<ShownChanges, Refusal> {
        let end = self.end_of_changes()?;
        let place = match since {
            None => end.beginning(),
            Some("now") => end.clone(),
            Some(place) => place.parse().map_err(Refusal::from)?,
        };
        if place.rules() != end.rules() {
            return Err(Refusal::outrun("the access rules have changed since this cursor, or apply to another token"));
        }
        Ok(ShownChanges { changes: self.store.changes(Some(&place))?, shown: self.clone() })
    }

    /// Returns whether a change is shown.
    fn tells(&self, change: &PageChange) -> Result<bool> {
        let (url, variant) = match change {
            PageChange::Put { head, .. } => (&head.page.url, head.page.variant.as_ref()),
            PageChange::Removed { of, .. }
            | PageChange::RemovedVersion { of, .. }
            | PageChange::Damaged { of: Some(of), .. } => (&of.url, of.variant.as_ref()),
            _ => return Ok(true),
        };
        let Some(judge) = self.judge(url, variant)? else { return Ok(true) };
        let ruling = match change {
            PageChange::Put { head, .. } => Some(judge.of_page(&head.page, head.version.time_ms)),
            PageChange::RemovedVersion { version_time_ms, .. } => Some(judge.at(*version_time_ms)),
            PageChange::Damaged { error: Error::Unreadable { version, .. }, .. } => Some(judge.at(version.time_ms)),
            _ => judge.whenever().filter(|ruling| ruling.access == Access::Exclude),
        };
        let Some(ruling) = ruling.filter(|ruling| ruling.access != Access::Allow) else { return Ok(true) };
        self.kept_back.add(&ruling);
        Ok(false)
    }
}

impl ShownChanges {
    /// The next change; `Some(Ok(None))` for one that is left out.
    pub(crate) fn next(&mut self) -> Option<Result<Option<PageChange>>> {
        let change = self.changes.next()?;
        Some(change.and_then(|mut change| {
            if !self.shown.tells(&change)? {
                return Ok(None);
            }
            if let PageChange::Put { head, .. } = &mut change
                && self.shown.may_exclude
            {
                // The version with the same body is not looked up for every change.
                head.unchanged_since = None;
            }
            Ok(Some(change))
        }))
    }

    /// See [`PageChanges::place`].
    pub(crate) fn place(&self) -> &ChangesPlace {
        self.changes.place()
    }

    /// See [`PageChanges::stored`]. Only for a version that was shown.
    pub(crate) fn stored(&self, key: &[u8], version: Version) -> Result<Option<StoredVersion>> {
        self.changes.stored(key, version)
    }

    /// See [`PageChanges::measured`]. Only for a version that was shown.
    pub(crate) fn measured(&self, key: &[u8], head: &PageHead) -> Result<(Page, u64, [u8; 16])> {
        self.changes.measured(key, head)
    }

    /// See [`PageChanges::settle`].
    pub(crate) fn settle(&self) -> Result<()> {
        self.changes.settle()
    }

    /// See [`PageChanges::is_listing`].
    pub(crate) fn is_listing(&self) -> bool {
        self.changes.is_listing()
    }

    /// See [`PageChanges::renew`].
    pub(crate) fn renew(&mut self) -> Result<bool> {
        self.changes.renew()
    }
}
