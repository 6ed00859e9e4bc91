//! Erasure: removes pages and their stored bytes before the call returns.
//!
//! Every segment with dead records is rewritten and deleted immediately, without the grace; but
//! one that a checkpoint needs stays until that ends, and the report says so. Orphans (uploaded
//! segments that no index names) are kept for the grace: a repair may find them committed. A
//! tombstone also contains a URL, and is freed with the versions that it removes. The index's
//! copies of a URL disappear when SlateDB compacts and collects its tables.
//!
//! A dictionary contains text of the pages that it was trained on. Those of all pages, and of the
//! sites in question, are retired once the pages are removed: new ones are trained on what stays,
//! bodies that need the old ones are compressed again, and the old ones are deleted.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use filemap::Error;
use filemap::access::{Scope, keys};

use crate::collect::collected;
use crate::compact::{CompactReport, pass};
use crate::core::Core;
use crate::error;
use crate::plan::Want;
use crate::shard::Shard;
use crate::store::CloudStore;
use crate::unused::{self, may_be_of};
use crate::{train, write};

/// The first pass frees the pages, the second the tombstones that had to wait for them.
const PASSES: usize = 2;

/// Result of an erasure.
///
/// ```
/// use filemap::access::{Scope, keys};
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://erased", Mode::Fill, &CloudOptions::new())?;
/// assert!(store.erase(&Scope::new().host("example.com"))?.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EraseReport {
    /// Pages erased, each with its versions, variants and the records beside it.
    pub pages: u64,
    /// Number of segments rewritten.
    pub rewritten: u64,
    /// Number of objects deleted.
    pub deleted: u64,
    /// Damaged objects that may still contain bytes of the pages, with the reason.
    pub damage: Vec<String>,
    /// Objects that wait to be deleted, segments or dictionaries, and orphans younger than the
    /// grace: any of them may contain bytes of the pages.
    pub waiting: u64,
    /// Number of dictionaries deleted, as they may have contained text of the pages.
    pub dictionaries: u64,
    /// Number of `waiting` that wait for a checkpoint: remove it
    /// ([`CloudStore::remove_checkpoints`]), and repeat the erasure.
    pub pinned: u64,
}

impl EraseReport {
    /// Returns whether no segment and no dictionary contains a byte of the pages.
    pub fn is_complete(&self) -> bool {
        self.damage.is_empty() && self.waiting == 0
    }
}

impl CloudStore {
    /// Erases all pages of a scope. If [`EraseReport::is_complete`] afterwards, no segment
    /// contains their bodies, headers or URLs, nor those of pages removed before, and no
    /// dictionary their text. Object versions retained by the bucket, and tables of the index, are
    /// not erased: docs/CLOUD.md.
    ///
    /// Uncommitted uploads of a fenced writer are deleted once they are older than
    /// [`CloudOptions::grace`](crate::CloudOptions::grace), by a later erasure or by
    /// [`CloudStore::collect`]; until then the erasure is not complete.
    ///
    /// Costs as much as [`CloudStore::compact`] without garbage; with dictionaries, as much as to
    /// read and write all segments that need one of those that are replaced. Repeat it after an
    /// interruption: it resumes.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for an unbounded scope, which is the whole store: nothing was
    /// erased. [`Closed`](crate::Error::Closed) if the handle is closed meanwhile: repeat it with
    /// another. As [`CloudStore::compact`].
    pub fn erase(&self, scope: &Scope) -> filemap::Result<EraseReport> {
        if scope.is_all() {
            return Err(Error::Unsupported { what: "erasure of all pages: name a host, a domain or a prefix" });
        }
        let reports = self.each(|shard| {
            let pages = write::remove_all(&shard.core, scope, &mut |_| ControlFlow::Continue(()))?;
            end_erasure(shard, pages, &|site| may_be_of(scope, site))
        })?;
        Ok(reports.into_iter().fold(EraseReport::default(), |mut all, one| {
            all.pages += one.pages;
            all.rewritten += one.rewritten;
            all.deleted += one.deleted;
            all.waiting += one.waiting;
            all.pinned += one.pinned;
            all.dictionaries += one.dictionaries;
            all.damage.extend(one.damage);
            all
        }))
    }

    /// As [`CloudStore::erase`], for one URL with its variants and the records beside it.
    ///
    /// # Errors
    ///
    /// As [`CloudStore::erase`]; [`filemap::Error::Url`].
    pub fn erase_url(&self, url: &[u8]) -> filemap::Result<EraseReport> {
        let shard = self.shard_of(url)?;
        let was_there = write::remove(&shard.core, url, None)?;
        let canonical = shard.core.canonical(url)?;
        end_erasure(shard, u64::from(was_there), &|site| site == keys::site(&canonical))
    }
}

/// Erases what is left of removed pages; `may_hold` tells whether pages of a site are among them.
fn end_erasure(shard: &Shard, pages: u64, may_hold: &dyn Fn(&[u8]) -> bool) -> filemap::Result<EraseReport> {
    let core = &shard.core;
    shard.sync()?;
    let retired = unused::retire(core, may_hold)?;
    if !retired.is_empty() {
        train::trained(core)?;
        // Records that name retired dictionaries are known from here on: no new ones follow.
        shard.sync()?;
    }
    let mut report = EraseReport { pages, ..EraseReport::default() };
    // No row names orphans, but they may contain bytes of the same pages.
    let orphans = collected(core, core.options.grace)?;
    report.deleted += orphans.segments;
    report.dictionaries += orphans.dictionaries;
    for _ in 0..PASSES {
        let CompactReport { rewritten, deleted, waiting, pinned, damage, .. } = freed(core)?;
        report.rewritten += rewritten;
        report.deleted += deleted;
        (report.waiting, report.damage) = (waiting.saturating_add(orphans.young), damage);
        report.pinned = pinned;
    }
    if !retired.is_empty() {
        report.dictionaries += unused::deleted(core, core.options.grace)?;
        still_there(unused::left(core, retired)?, &mut report);
    }
    if core.is_closing() {
        // A pass ends early then: segments with bytes of the pages may be left.
        return Err(error::Error::Closed { location: core.bucket.location().to_owned() }.into());
    }
    Ok(report)
}

/// Reports dictionaries that could not be deleted: with the reason, as far as it is known.
fn still_there(dictionaries: Vec<String>, report: &mut EraseReport) {
    if !report.damage.is_empty() {
        let told = |name| format!("{name}: damaged segments may need it, and it may contain text of the pages");
        report.damage.extend(dictionaries.into_iter().map(told));
        return;
    }
    let left = dictionaries.len() as u64;
    report.waiting += left;
    // Rewritten segments that a checkpoint keeps need them.
    report.pinned += if report.pinned > 0 { left } else { 0 };
}

fn freed(core: &Arc<Core>) -> error::Result<CompactReport> {
    pass(core, Want::NoGarbage, Duration::ZERO)
}
