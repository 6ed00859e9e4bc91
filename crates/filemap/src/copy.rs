//! Copies pages between stores of any kind: every version of every page, of its variants and of
//! the records beside them, with its time, headers and all other stored data.
//!
//! A version that the other store has adds nothing, so a second copy continues an interrupted one.
//! Versions of one key are put in the order in which they come; those of different keys in
//! parallel, for a store whose puts wait for a network.
//!
//! A copy adds and never removes: versions that the source has lost since an earlier copy stay.

use std::ops::ControlFlow;
use std::panic::resume_unwind;

use filemap_core::Put;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::access::{Loading, PageWrite, PutRule, keys};
use crate::error::{Error, Result};
use crate::page::Page;
use crate::page::version::{BodyForm, StoredVersion};

/// Maximum number of versions held in memory.
const BATCH: usize = 256;
/// Once the bodies in memory reach this many bytes, no further version is added.
const BATCH_BYTES: usize = 16 << 20;
/// Bytes of bodies between two syncs.
const SYNC_BYTES: u64 = 256 << 20;

/// Counts of a copy, finished or in progress.
///
/// ```
/// let report = filemap::copy::CopyReport::default();
/// assert!(report.is_complete());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// Number of versions stored, including `unchanged`.
    pub versions: u64,
    /// Number of versions stored as a reference to an earlier one there, which has the same body.
    pub unchanged: u64,
    /// Number of versions that the other store already had.
    pub already_there: u64,
    /// Number of bytes of bodies stored.
    pub body_bytes: u64,
    /// Number of versions, and places of the source, that cannot be read and are left out.
    pub damaged: u64,
    /// Number of versions that the other store refused, by one of its rules or a limit.
    pub refused: u64,
    /// Of `already_there`, the number of versions equal to an earlier one of the same key and
    /// time, with a different one between: A, B, A. The copy has only the first, so their order
    /// may differ.
    pub repeated: u64,
    /// True if the callback cancelled the copy: copied versions stay, and a repeated copy does the
    /// rest.
    pub is_cancelled: bool,
}

impl CopyReport {
    /// Returns whether the other store has everything that the source returned, in its order.
    pub fn is_complete(&self) -> bool {
        self.damaged == 0 && self.refused == 0 && self.repeated == 0 && !self.is_cancelled
    }

    /// Number of versions processed.
    pub fn seen(&self) -> u64 {
        self.versions + self.already_there + self.damaged + self.refused
    }
}

/// An event of a copy.
///
/// ```
/// use filemap::copy::{CopyEvent, CopyReport};
///
/// fn is_loss(event: CopyEvent<'_>) -> bool {
///     matches!(event, CopyEvent::Damage(_) | CopyEvent::Refused(..))
/// }
/// assert!(!is_loss(CopyEvent::Progress(&CopyReport::default())));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum CopyEvent<'a> {
    /// Some versions were processed; the totals so far.
    Progress(&'a CopyReport),
    /// Something in the source cannot be read, and is left out.
    Damage(&'a Error),
    /// The other store refuses this version, with the error.
    Refused(&'a Page, &'a Error),
    /// A version that the copy has only as an equal earlier one: see [`CopyReport::repeated`].
    Repeated(&'a Page),
}

/// Callback for events; `Break` cancels the copy.
pub type Watch<'a> = dyn FnMut(CopyEvent<'_>) -> ControlFlow<()> + 'a;

/// Puts versions into a store that may have some of them. Puts `at_once` versions of different
/// keys in parallel: use 1 for a local store. Syncs periodically and at the end, even after an
/// error. Holds 16 MiB of bodies and one page in memory.
///
/// The rules of erasures are not pages: they are not copied.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
/// use filemap::copy::copy;
/// use filemap::{Options, Page, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let from = PageStore::create(dir.path().join("a.fm"), Options::new())?;
/// let to = PageStore::create(dir.path().join("b.fm"), Options::new())?;
/// for time_ms in [1_700_000_000_000, 1_700_000_900_000] {
///     from.put_page(&Page::new("http://example.com/", time_ms, 200, "hello"))?;
/// }
/// let copied = copy(&mut from.stored_by_key(), &to, 1, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!((copied.versions, copied.already_there), (2, 0));
/// let again = copy(&mut from.stored_by_key(), &to, 1, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!((again.versions, again.already_there), (0, 2));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Errors from `versions`, except those of one version or of a damaged place after which the
/// iteration continues; those of puts and of the sync. Earlier puts stay, and no later version of
/// a key is put after one that failed.
pub fn copy(
    versions: &mut dyn Iterator<Item = Result<StoredVersion>>,
    to: &dyn PageWrite,
    at_once: usize,
    watch: &mut Watch<'_>,
) -> Result<CopyReport> {
    let mut copy =
        Copy { to, load: to.load(), at_once, report: CopyReport::default(), unsynced: 0, ties: Ties::default() };
    let copied = copy.all(versions, watch);
    let synced = to.sync();
    copied?;
    synced?;
    Ok(copy.report)
}

/// A copy in progress.
struct Copy<'a> {
    to: &'a dyn PageWrite,
    load: Loading<'a>,
    at_once: usize,
    report: CopyReport,
    /// Bytes of bodies put since the last sync.
    unsynced: u64,
    ties: Ties,
}

impl Copy<'_> {
    fn all(&mut self, versions: &mut dyn Iterator<Item = Result<StoredVersion>>, watch: &mut Watch<'_>) -> Result<()> {
        let mut is_end = false;
        while !is_end && !self.report.is_cancelled {
            let (mut batch, mut bytes, mut read) = (Vec::new(), 0, Ok(()));
            while batch.len() < BATCH && bytes < BATCH_BYTES {
                match versions.next() {
                    Some(Ok(version)) => {
                        bytes += version.page.body.len();
                        batch.push(version);
                    }
                    Some(Err(error)) if self.is_left_out(&error, watch) => {}
                    Some(Err(error)) => {
                        read = Err(error);
                        break;
                    }
                    None => {
                        is_end = true;
                        break;
                    }
                }
            }
            // Versions before an error are put first: if the error persists, a later copy gets no
            // further.
            self.put(&batch, watch)?;
            read?;
        }
        Ok(())
    }

    /// Counts an unreadable version; returns false for an error that ends the copy.
    fn is_left_out(&mut self, error: &Error, watch: &mut Watch<'_>) -> bool {
        let is_left_out = is_of_a_part(error);
        if is_left_out {
            self.report.damaged += 1;
            self.report.is_cancelled |= watch(CopyEvent::Damage(error)).is_break();
        }
        is_left_out
    }

    fn put(&mut self, batch: &[StoredVersion], watch: &mut Watch<'_>) -> Result<()> {
        for (at, put) in self.puts(batch) {
            let page = &batch[at].page;
            let is_repeated = self.ties.repeats(&batch[at]);
            match put {
                Ok(None) => {
                    self.report.already_there += 1;
                    if is_repeated {
                        self.report.repeated += 1;
                        self.report.is_cancelled |= watch(CopyEvent::Repeated(page)).is_break();
                    }
                }
                Ok(Some(put)) => {
                    self.report.versions += 1;
                    match put {
                        Put::Unchanged(_) => self.report.unchanged += 1,
                        _ => self.report.body_bytes += page.body.len() as u64,
                    }
                    self.unsynced += page.body.len() as u64;
                }
                Err(error) if error.concerns_one_page() => {
                    self.report.refused += 1;
                    self.report.is_cancelled |= watch(CopyEvent::Refused(page, &error)).is_break();
                }
                Err(error) => return Err(error),
            }
        }
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.to.sync()?;
        }
        self.report.is_cancelled |= watch(CopyEvent::Progress(&self.report)).is_break();
        Ok(())
    }

    /// Puts versions. Returns the result of each that was tried, with its index in the batch, in
    /// order.
    fn puts(&mut self, batch: &[StoredVersion]) -> Vec<Tried> {
        if self.at_once <= 1 {
            return put_each(batch.iter().enumerate(), &mut self.load);
        }
        let (to, lanes) = (self.to, self.at_once as u64);
        let lane_of = |version: &StoredVersion| xxh3_64(&version.key) % lanes;
        let mut done: Vec<_> = std::thread::scope(|scope| {
            let lane = |lane| {
                let own = batch.iter().enumerate().filter(move |(_, version)| lane_of(version) == lane);
                scope.spawn(move || put_each(own, |page, rule| to.put(page, rule)))
            };
            let lanes: Vec<_> = (0..lanes).map(lane).collect();
            let join =
                |lane: std::thread::ScopedJoinHandle<'_, Vec<_>>| lane.join().unwrap_or_else(|p| resume_unwind(p));
            lanes.into_iter().flat_map(join).collect()
        });
        done.sort_unstable_by_key(|(at, _)| *at);
        done
    }
}

/// The versions of one key and time so far, each as its description and the digest of its body.
#[derive(Default)]
struct Ties {
    key: Vec<u8>,
    pages: Vec<(u128, Page)>,
}

impl Ties {
    /// Adds a version; returns whether it equals an earlier one that is not the last.
    fn repeats(&mut self, version: &StoredVersion) -> bool {
        let page = &version.page;
        let is_tie = self.pages.last().is_some_and(|(_, last)| last.fetched_at_ms == page.fetched_at_ms);
        if !is_tie || self.key != version.key {
            self.key.clone_from(&version.key);
            self.pages.clear();
        }
        let own = (xxh3_128(&page.body), keys::description(page));
        match self.pages.iter().position(|earlier| *earlier == own) {
            Some(at) => at + 1 < self.pages.len(),
            None => {
                self.pages.push(own);
                false
            }
        }
    }
}

/// The index of a version in its batch, and the result of its put.
type Tried = (usize, Result<Option<Put>>);

/// Puts versions one after the other. Stops after the first error that ends the copy: a later
/// version of the key, if put now, would precede this one when the copy is repeated.
fn put_each<'v>(
    versions: impl Iterator<Item = (usize, &'v StoredVersion)>,
    mut put: impl FnMut(&Page, PutRule) -> Result<Option<Put>>,
) -> Vec<Tried> {
    let mut tried = Vec::new();
    for (at, version) in versions {
        let put = put(&version.page, rule(version));
        let is_end = put.as_ref().is_err_and(|error| !error.concerns_one_page());
        tried.push((at, put));
        if is_end {
            break;
        }
    }
    tried
}

/// Returns whether an error of a source concerns one version, or a place after which the rest
/// follows. On another machine the damage may be in an index that leads to the rest: such an error
/// says so.
fn is_of_a_part(error: &Error) -> bool {
    match error {
        Error::Remote { is_of_one_page, .. } => *is_of_one_page,
        error => error.is_damage() || error.concerns_one_page(),
    }
}

fn rule(version: &StoredVersion) -> PutRule {
    match version.body_form() {
        BodyForm::Reference => PutRule::RestoreUnchanged,
        BodyForm::Whole => PutRule::Restore,
    }
}

#[cfg(test)]
mod tests {
    use filemap_core::Version;

    use super::*;

    #[test]
    fn no_later_version_is_put_after_one_that_failed() {
        let version = |sequence| {
            let page = Page::new("http://a.example/", 1_700_000_000_000, 200, format!("body {sequence}"));
            StoredVersion::new(b"http://a.example/".to_vec(), page, Version { time_ms: 1, sequence }, 1)
        };
        let versions: Vec<_> = (0..4).map(version).collect();
        let error = |is_of_one_page| Error::Remote {
            location: "there".to_owned(),
            detail: "no answer".to_owned(),
            is_damage: false,
            is_of_one_page,
        };
        for (is_of_one_page, tried) in [(false, vec![0, 1]), (true, vec![0, 1, 2, 3])] {
            let mut bodies = Vec::new();
            let all = put_each(versions.iter().enumerate(), |page, _| {
                bodies.push(page.body.clone());
                if bodies.len() == 2 { Err(error(is_of_one_page)) } else { Ok(None) }
            });
            assert_eq!(all.iter().map(|(at, _)| *at).collect::<Vec<_>>(), tried);
            assert_eq!(bodies.len(), tried.len());
        }
    }
}
