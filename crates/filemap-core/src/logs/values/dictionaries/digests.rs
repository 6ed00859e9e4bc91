//! Digested zstd dictionaries in memory: found without a lock, bounded in bytes, evicted by least
//! recent use.
//!
//! Invariant: a digest that a thread holds stays usable after its eviction.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use zstd::dict::{CDict, DDict};

use crate::error::Result;
use crate::format::dictionary::Facts;
use crate::sync::{Ranked, lock, rank};

/// If memory is full, a new digest for compression is added only if the oldest digest was unused
/// for this many misses. Otherwise more groups than fit would digest a dictionary for every page.
const RECENT_WISHES: u64 = 64;

/// One of a file's two dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Body,
    Meta,
}

impl Part {
    /// This part of a pair.
    pub(crate) fn of<T>(self, (body, meta): (T, T)) -> T {
        match self {
            Part::Body => body,
            Part::Meta => meta,
        }
    }
}

/// While memory is full, one miss in this many looks for an old digest.
const LOOK_EVERY: u64 = 8;

/// A digested dictionary.
pub(crate) struct Digest<T> {
    pub(crate) form: T,
    /// Length of the undigested dictionary.
    pub(crate) dictionary_bytes: usize,
    part: Part,
    level: i32,
    bytes: u64,
    used: AtomicU64,
}

impl<T> fmt::Debug for Digest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest").field("part", &self.part).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<T> Digest<T> {
    /// Notes a use. Does not write if nothing changes: other threads read this memory.
    fn touch(&self, now: u64) {
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
    }
}

type List<T> = ArcSwap<Vec<Arc<Digest<T>>>>;

/// One dictionary and its digests.
#[derive(Debug)]
pub(crate) struct Dictionary {
    pub(crate) id: u32,
    /// From its file, or the error of reading it.
    pub(crate) facts: Result<Facts>,
    compressors: List<CDict<'static>>,
    expanders: List<DDict<'static>>,
}

impl Dictionary {
    pub(crate) fn new(id: u32, facts: Result<Facts>) -> Arc<Dictionary> {
        Arc::new(Dictionary {
            id,
            facts,
            compressors: ArcSwap::from_pointee(Vec::new()),
            expanders: ArcSwap::from_pointee(Vec::new()),
        })
    }
}

/// The digests of all dictionaries, and their memory bound.
#[derive(Debug)]
pub(crate) struct Digests {
    bound: AtomicU64,
    bytes: AtomicU64,
    /// Misses: digests that were wanted but not in memory.
    wishes: AtomicU64,
    changing: Ranked<{ rank::DIGESTS }, ()>,
}

impl Default for Digests {
    fn default() -> Digests {
        Digests {
            bound: AtomicU64::new(64 << 20),
            bytes: AtomicU64::new(0),
            wishes: AtomicU64::new(0),
            changing: Ranked::new(()),
        }
    }
}

impl Digests {
    pub(crate) fn set_bound(&self, bytes: usize) {
        self.bound.store(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn expander(&self, of: &Dictionary, part: Part) -> Option<Arc<Digest<DDict<'static>>>> {
        self.find(&of.expanders, part, 0)
    }

    pub(crate) fn compressor(&self, of: &Dictionary, part: Part, level: i32) -> Option<Arc<Digest<CDict<'static>>>> {
        self.find(&of.compressors, part, level)
    }

    fn find<T>(&self, list: &List<T>, part: Part, level: i32) -> Option<Arc<Digest<T>>> {
        let list = list.load();
        let found = list.iter().find(|d| d.part == part && d.level == level)?;
        found.touch(self.wishes.load(Ordering::Relaxed));
        Some(Arc::clone(found))
    }

    /// Returns true if one more digest for compression may be added: within the bound, or in place
    /// of one that was not used recently. Counts a miss.
    pub(crate) fn may_add(&self, all: &[Arc<Dictionary>]) -> bool {
        let now = self.wishes.fetch_add(1, Ordering::Relaxed);
        let has_old = || oldest(all).is_some_and(|(used, _)| used + RECENT_WISHES < now);
        self.bytes() < self.bound.load(Ordering::Relaxed) || (now.is_multiple_of(LOOK_EVERY) && has_old())
    }

    pub(crate) fn add_expander(
        &self,
        all: &[Arc<Dictionary>],
        of: &Dictionary,
        part: Part,
        form: DDict<'static>,
        dictionary_bytes: usize,
    ) -> Arc<Digest<DDict<'static>>> {
        let bytes = form.sizeof() as u64;
        self.add(all, &of.expanders, Digest { form, dictionary_bytes, part, level: 0, bytes, used: AtomicU64::new(0) })
    }

    pub(crate) fn add_compressor(
        &self,
        all: &[Arc<Dictionary>],
        of: &Dictionary,
        part: Part,
        level: i32,
        form: CDict<'static>,
        dictionary_bytes: usize,
    ) -> Arc<Digest<CDict<'static>>> {
        let bytes = form.sizeof() as u64;
        self.add(all, &of.compressors, Digest { form, dictionary_bytes, part, level, bytes, used: AtomicU64::new(0) })
    }

    fn add<T>(&self, all: &[Arc<Dictionary>], list: &List<T>, digest: Digest<T>) -> Arc<Digest<T>> {
        let _held = lock(&self.changing);
        // Another thread may have been faster.
        if let Some(found) = self.find(list, digest.part, digest.level) {
            return found;
        }
        let now = self.wishes.fetch_add(1, Ordering::Relaxed) + 1;
        let digest = Arc::new(digest);
        digest.touch(now);
        let bytes = self.bytes.fetch_add(digest.bytes, Ordering::Relaxed) + digest.bytes;
        let mut left = bytes.saturating_sub(self.bound.load(Ordering::Relaxed));
        while left > 0 {
            // The new digest is not in a list yet.
            let Some((_, dropped)) = oldest(all) else { break };
            let freed = dropped.drop_it();
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
            left = left.saturating_sub(freed);
        }
        push(list, &digest);
        digest
    }
}

fn push<T>(list: &List<T>, digest: &Arc<Digest<T>>) {
    let mut new = Vec::clone(&list.load());
    new.push(Arc::clone(digest));
    list.store(Arc::new(new));
}

/// A digest that may be dropped.
enum Droppable<'a> {
    Compressor(&'a Dictionary, Arc<Digest<CDict<'static>>>),
    Expander(&'a Dictionary, Arc<Digest<DDict<'static>>>),
}

impl Droppable<'_> {
    /// Removes the digest from its list. Returns the bytes freed.
    fn drop_it(&self) -> u64 {
        match self {
            Droppable::Compressor(of, digest) => without(&of.compressors, digest),
            Droppable::Expander(of, digest) => without(&of.expanders, digest),
        }
    }
}

fn without<T>(list: &List<T>, digest: &Arc<Digest<T>>) -> u64 {
    let rest = list.load().iter().filter(|d| !Arc::ptr_eq(d, digest)).cloned().collect();
    list.store(Arc::new(rest));
    digest.bytes
}

/// The least recently used digest, and the time of its use.
fn oldest(all: &[Arc<Dictionary>]) -> Option<(u64, Droppable<'_>)> {
    let mut oldest: Option<(u64, Droppable<'_>)> = None;
    for of in all {
        let is_older = |used: u64, than: &Option<(u64, Droppable<'_>)>| than.as_ref().is_none_or(|(u, _)| used < *u);
        for digest in of.compressors.load().iter() {
            let used = digest.used.load(Ordering::Relaxed);
            if is_older(used, &oldest) {
                oldest = Some((used, Droppable::Compressor(of, Arc::clone(digest))));
            }
        }
        for digest in of.expanders.load().iter() {
            let used = digest.used.load(Ordering::Relaxed);
            if is_older(used, &oldest) {
                oldest = Some((used, Droppable::Expander(of, Arc::clone(digest))));
            }
        }
    }
    oldest
}
