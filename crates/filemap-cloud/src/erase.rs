//! Erasure: removes pages and their stored bytes before the call returns.
//!
//! Every segment with dead records is rewritten and deleted immediately, without the grace; but
//! one that a checkpoint needs stays until that ends, and the report says so. Orphans (uploaded
//! segments that no index names) are kept for the grace: a repair may find them committed. A
//! tombstone also contains a URL, and is freed with the versions that it removes. The index's
//! copies of a URL disappear when SlateDB compacts and collects its tables.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use filemap::Error;
use filemap::access::Scope;

use crate::collect::collected;
use crate::compact::{CompactReport, pass};
use crate::core::Core;
use crate::plan::Want;
use crate::shard::Shard;
use crate::store::CloudStore;
use crate::write;

/// The first pass frees the pages, the second the tombstones that had to wait for them.
const PASSES: usize = 2;

/// Result of an erasure.
///
/// ```
/// use filemap::access::Scope;
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
    /// Objects that wait to be deleted, and orphans younger than the grace: any of them may
    /// contain bytes of the pages.
    pub waiting: u64,
    /// Number of these that wait for a checkpoint: remove it
    /// ([`CloudStore::remove_checkpoints`]), and repeat the erasure.
    pub pinned: u64,
}

impl EraseReport {
    /// Returns whether no segment contains a byte of the pages.
    pub fn is_complete(&self) -> bool {
        self.damage.is_empty() && self.waiting == 0
    }
}

impl CloudStore {
    /// Erases all pages of a scope. If [`EraseReport::is_complete`] afterwards, no segment
    /// contains their bodies, headers or URLs, nor those of pages removed before. Object versions
    /// retained by the bucket, and tables of the index, are not erased: docs/CLOUD.md.
    ///
    /// Uncommitted uploads of a fenced writer are deleted once they are older than
    /// [`CloudOptions::grace`](crate::CloudOptions::grace), by a later erasure or by
    /// [`CloudStore::collect`]; until then the erasure is not complete.
    ///
    /// Costs as much as [`CloudStore::compact`] without garbage. Repeat it after an interruption:
    /// it resumes.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for an unbounded scope, which is the whole store: nothing was
    /// erased. As [`CloudStore::compact`].
    pub fn erase(&self, scope: &Scope) -> filemap::Result<EraseReport> {
        if scope.is_all() {
            return Err(Error::Unsupported { what: "erasure of all pages: name a host, a domain or a prefix" });
        }
        let reports = self.each(|shard| {
            let pages = write::remove_all(&shard.core, scope, &mut |_| ControlFlow::Continue(()))?;
            end_erasure(shard, pages)
        })?;
        Ok(reports.into_iter().fold(EraseReport::default(), |mut all, one| {
            all.pages += one.pages;
            all.rewritten += one.rewritten;
            all.deleted += one.deleted;
            all.waiting += one.waiting;
            all.pinned += one.pinned;
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
        end_erasure(shard, u64::from(was_there))
    }
}

fn end_erasure(shard: &Shard, pages: u64) -> filemap::Result<EraseReport> {
    shard.sync()?;
    let mut report = EraseReport { pages, ..EraseReport::default() };
    // No row names orphans, but they may contain bytes of the same pages.
    let orphans = collected(&shard.core, shard.core.options.grace)?;
    report.deleted += orphans.segments;
    for _ in 0..PASSES {
        let CompactReport { rewritten, deleted, waiting, pinned, damage, .. } = freed(&shard.core)?;
        report.rewritten += rewritten;
        report.deleted += deleted;
        (report.waiting, report.damage) = (waiting.saturating_add(orphans.young), damage);
        report.pinned = pinned;
    }
    Ok(report)
}

fn freed(core: &Arc<Core>) -> crate::error::Result<CompactReport> {
    pass(core, Want::NoGarbage, Duration::ZERO)
}
