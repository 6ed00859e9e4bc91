//! Counts the revisits whose original is not in the store.
//!
//! An original may come after its revisits, so that they are collected and looked at together:
//! each URL's versions are then read once, however many revisits it has.
//!
//! Invariant: memory is bounded. When too many were collected, those that resolve are let go;
//! those that do not are counted as unresolved, and only as many as there is room for are looked
//! at again.

use filemap_core::Version;

use super::PageStore;
use super::revisit::{Resolver, Sought};
use crate::error::Result;
use crate::page::key;
use crate::page::version::PageHead;
use crate::page::{Page, RecordKind};

/// What collected revisits may take in memory.
const MAX_BYTES: usize = 48 << 20;
/// Versions read between two cancellation checks.
const VERSIONS_AT_ONCE: u64 = 1024;
/// Damaged versions that are passed over before the pass is given up.
const MAX_FAILURES: u32 = 1_000_000;
/// URLs that are named.
const MAX_NAMED: usize = 10;

/// Revisits that are to be resolved, and the number of those that were not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unresolved {
    sought: Vec<Sought>,
    bytes: usize,
    /// Those that were found unresolved and had no room.
    let_go: u64,
    /// Revisits collected in all.
    revisits: u64,
}

/// How many revisits there are, and how many have no body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RevisitCount {
    /// Revisits looked at.
    pub revisits: u64,
    /// Of these: the original is not in the store, so that they have no body.
    pub unresolved: u64,
    /// The canonical URLs of the first of those.
    pub urls: Vec<Vec<u8>>,
}

impl Unresolved {
    /// Adds a revisit that was put under this key; anything else, and a revisit that has a body,
    /// is passed over.
    pub(crate) fn push(&mut self, store: &PageStore, key: &[u8], page: &Page, body_bytes: u64) -> Result<()> {
        let Some(sought) = store.sought(key, page) else { return Ok(()) };
        self.revisits += 1;
        if body_bytes > 0 || page.is_of_no_bytes() {
            return Ok(());
        }
        self.bytes += sought.bytes();
        self.sought.push(sought);
        if self.bytes > MAX_BYTES {
            self.settle(store)?;
            if self.bytes > MAX_BYTES / 2 {
                self.let_go += self.sought.len() as u64;
                self.sought.clear();
                self.bytes = 0;
            }
        }
        Ok(())
    }

    /// Adds another's revisits.
    pub fn add(&mut self, other: Unresolved) {
        self.sought.extend(other.sought);
        self.bytes += other.bytes;
        self.let_go += other.let_go;
        self.revisits += other.revisits;
    }

    /// Looks for the originals, and lets go of what has one. Reads the descriptions of all
    /// versions of the URLs in question.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::history`].
    pub fn count(&mut self, store: &PageStore) -> Result<RevisitCount> {
        self.settle(store)?;
        let mut urls: Vec<Vec<u8>> = self.sought.iter().map(|sought| key::url(sought.own()).to_vec()).collect();
        urls.dedup();
        urls.truncate(MAX_NAMED);
        let unresolved = self.let_go + self.sought.len() as u64;
        Ok(RevisitCount { revisits: self.revisits, unresolved, urls })
    }

    fn settle(&mut self, store: &PageStore) -> Result<()> {
        let mut resolver = Resolver::new(store);
        self.sought.sort_unstable();
        let mut left = Vec::new();
        for sought in self.sought.drain(..) {
            match resolver.find(&sought) {
                Ok(Some(_)) => {}
                Ok(None) => left.push(sought),
                // What is damaged cannot be read: it has no body to give.
                Err(error) if error.is_damage() => left.push(sought),
                Err(error) => return Err(error),
            }
        }
        self.bytes = left.iter().map(Sought::bytes).sum();
        self.sought = left;
        Ok(())
    }
}

impl PageStore {
    /// How many versions of pages are revisits, and how many of those have no original in the
    /// store. One sequential pass over the value log without bodies; `go_on` is asked at every
    /// version. What is damaged is passed over: verification says it. `None`: it was broken off.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::history`].
    pub fn count_revisits(&self, go_on: &mut dyn FnMut() -> bool) -> Result<Option<RevisitCount>> {
        let mut unresolved = Unresolved::default();
        let whole =
            self.each_revisit(go_on, &mut |key, head| unresolved.push(self, &key, &head.page, head.body_bytes))?;
        if whole { unresolved.count(self).map(Some) } else { Ok(None) }
    }

    /// Hands every version of a page or a variant that is a revisit to `each`, with its key.
    /// `go_on` is asked at every version; whether it always said so. What is damaged is passed
    /// over.
    pub(crate) fn each_revisit(
        &self,
        go_on: &mut dyn FnMut() -> bool,
        each: &mut dyn FnMut(Vec<u8>, PageHead) -> Result<()>,
    ) -> Result<bool> {
        let mut failures = 0;
        for listed in self.engine().version_heads() {
            if !go_on() {
                return Ok(false);
            }
            let listed = match listed {
                Ok(listed) => listed,
                Err(error) if error.is_corrupt() && failures < MAX_FAILURES => {
                    failures += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if !key::is_page(&listed.key) && !key::is_variant(&listed.key) {
                continue;
            }
            let (key, head) = (listed.key, listed.head);
            match self.page_head(&key, head) {
                Ok(head) if head.page.kind != RecordKind::Revisit => {}
                Ok(head) => each(key, head)?,
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// As [`PageStore::each_revisit`], many at once, those of a key together and its oldest first.
    /// `go_on` is told now and then how many versions were looked at.
    pub(crate) fn revisits_in_batches(
        &self,
        go_on: &mut dyn FnMut(u64) -> bool,
        each: &mut dyn FnMut(Vec<FoundRevisit>) -> Result<()>,
    ) -> Result<bool> {
        let mut sorted = |mut batch: Vec<FoundRevisit>| {
            batch.sort_unstable_by(|(a, of_a), (b, of_b)| (a.own(), of_a).cmp(&(b.own(), of_b)));
            each(batch)
        };
        let (mut batch, mut bytes, mut seen) = (Vec::new(), 0, 0);
        let mut look_up = || {
            seen += 1;
            seen % VERSIONS_AT_ONCE != 1 || go_on(seen - 1)
        };
        let whole = self.each_revisit(&mut look_up, &mut |key, head| {
            let Some(sought) = self.sought(&key, &head.page) else { return Ok(()) };
            bytes += sought.bytes();
            batch.push((sought, head.version));
            if bytes > MAX_BYTES {
                bytes = 0;
                sorted(std::mem::take(&mut batch))?;
            }
            Ok(())
        })?;
        if whole {
            sorted(batch)?;
        }
        Ok(whole)
    }
}

/// A revisit: what it says of its original, with its own key, and which version it is.
pub(crate) type FoundRevisit = (Sought, Version);
