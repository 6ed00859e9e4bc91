//! Verifies the index of a handle: directory, runs and leaves, read from the file rather than the
//! map, while it may change.

use super::directory::Directory;
use super::run_cursor::Scan;
use super::trouble::Trouble;
use super::{Index, Owner, run_pages, runs};
use crate::error::{Error, Result};
use crate::format::leaf::{self, Slot, kept_bits};
use crate::format::node::Entry;
use crate::format::{Flaw, PAGE_BYTES, names};
use crate::sync::primitive::{Ordering, fence};

/// Callbacks of a check.
struct Listener<'a> {
    follow: &'a mut dyn FnMut() -> Result<()>,
    slots: &'a mut dyn FnMut(&[Slot]) -> Result<()>,
    problem: &'a mut dyn FnMut(u32, &str),
}

/// Progress of a check.
#[derive(Default)]
struct Position {
    /// The first hash not checked yet.
    hash: u64,
    scan: Scan,
    /// The part whose runs were checked last.
    part: Option<usize>,
    /// The last reported node; it leads to several parts.
    bad_node: Option<u32>,
    pages: u64,
}

impl Index {
    /// Verifies every leaf in hash order and, before the leaves of a part of the hash space, the
    /// part's runs. `slots` gets the slots of each good leaf, `problem` the number and flaw of
    /// each bad page; `follow` is called before a page of a foreign index is reported, which its
    /// writer may have reused. The index may change meanwhile. Returns the number of pages.
    ///
    /// # Errors
    /// The first error of `slots` or `follow`; `Io`.
    pub(crate) fn check(
        &self,
        follow: &mut dyn FnMut() -> Result<()>,
        slots: &mut dyn FnMut(&[Slot]) -> Result<()>,
        problem: &mut dyn FnMut(u32, &str),
    ) -> Result<u64> {
        let to = &mut Listener { follow, slots, problem };
        let mut at = Position::default();
        loop {
            let before = self.reuse.load(Ordering::Acquire);
            let directory = self.directory.load_full();
            let Some(last) = self.check_next(&directory, before, &mut at, to)? else { continue };
            match last.checked_add(1) {
                Some(next) => at.hash = next,
                None => {
                    if at.bad_node.is_none() {
                        self.check_directory(&directory, before, to)?;
                    }
                    return Ok(at.pages);
                }
            }
        }
    }

    /// Checks the next leaf. Returns the last hash of the leaf, or `None` if it must be checked
    /// again.
    fn check_next(
        &self,
        directory: &Directory,
        before: u64,
        at: &mut Position,
        to: &mut Listener<'_>,
    ) -> Result<Option<u64>> {
        let (hash, runs) = (at.hash, directory.runs().clone());
        let runs = runs.of(hash);
        if at.part != Some(runs::part_of(hash)) {
            let flaws = self.check_runs(runs)?;
            if self.has_changed(before) || !flaws.is_empty() && self.has_moved_on(directory, to)? {
                return Ok(None);
            }
            flaws.iter().for_each(|(page, what)| (to.problem)(*page, what));
            at.pages += runs.iter().map(|run| run.all_pages_count()).sum::<u64>();
            at.part = Some(runs::part_of(hash));
        }
        let entry = match directory.find(hash) {
            Ok((_, entry)) => entry,
            Err(Trouble::Error(e)) => return Err(e),
            Err(Trouble::Damage(damage)) => {
                if self.has_moved_on(directory, to)? {
                    return Ok(None);
                }
                if at.bad_node.replace(damage.page) != Some(damage.page) {
                    (to.problem)(damage.page, damage.what);
                }
                return Ok(Some(directory.last_of_node(hash).min(runs::last_of_part(hash))));
            }
        };
        let last = hash | u64::MAX >> entry.depth;
        if entry.page == 0 && runs.is_empty() {
            return Ok(Some(last));
        }
        let changes = at.scan.changes(self, runs, kept_bits(hash)..=kept_bits(last));
        let judged = self.read_leaf(directory, entry, hash >> (64 - entry.depth))?;
        let changes = match changes {
            Err(Trouble::Error(e)) => return Err(e),
            // It was reported with its run.
            Err(Trouble::Damage(_)) => None,
            Ok(changes) => Some(changes),
        };
        if self.has_changed(before) {
            return Ok(None);
        }
        match (judged, changes) {
            (Ok(mut found), Some(changes)) => {
                run_pages::apply(&mut found, &changes);
                (to.slots)(&found)?;
            }
            (Ok(_), None) => {}
            (Err(_), _) if self.has_moved_on(directory, to)? => return Ok(None),
            (Err(what), _) => (to.problem)(entry.page, what),
        }
        at.pages += u64::from(entry.page != 0);
        Ok(Some(last))
    }

    /// Reports flaws of the directory as a whole, unless it is known to be right or changes: nodes
    /// that no leaf's first hash leads to, runs that do not fit together.
    fn check_directory(&self, directory: &Directory, before: u64, to: &mut Listener<'_>) -> Result<()> {
        match directory.read_all(None) {
            Err(e) if !e.is_corrupt() => Err(e),
            Err(e) if !self.has_changed(before) && !self.has_moved_on(directory, to)? => {
                (to.problem)(0, &e.to_string());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether pages may have been reused since `reuse` was read.
    fn has_changed(&self, before: u64) -> bool {
        fence(Ordering::Acquire);
        self.reuse.load(Ordering::Relaxed) != before
    }

    /// Follows, and returns whether there is a newer superblock: pages of the last one are never
    /// overwritten, so a page of the older one that looks bad may not be damaged.
    fn has_moved_on(&self, directory: &Directory, to: &mut Listener<'_>) -> Result<bool> {
        (to.follow)()?;
        Ok(self.owner == Owner::Other && self.epoch() != directory.epoch())
    }

    /// Reads a leaf from the file. The inner error is its flaw.
    fn read_leaf(
        &self,
        directory: &Directory,
        entry: Entry,
        prefix: u64,
    ) -> Result<std::result::Result<Vec<Slot>, Flaw>> {
        if entry.page == 0 {
            return Ok(Ok(Vec::new()));
        }
        let mut page = vec![0; PAGE_BYTES];
        let offset = u64::from(entry.page) * PAGE_BYTES as u64;
        let read = self.file.read_at(&mut page, offset).map_err(Error::io("read", names::INDEX))?;
        let epoch = if self.owner == Owner::Other { directory.epoch() } else { u64::MAX };
        Ok(match leaf::decode(self.seed, entry.page, &page[..read]) {
            // A reused page may hold the same leaf of a later superblock.
            Ok(l) if l.epoch > epoch => Err("leaf page is newer than the directory"),
            Ok(l) if l.depth == entry.depth && l.prefix == prefix => Ok(l.slots),
            Ok(_) => Err("leaf page is not the one that the directory names"),
            Err(what) => Err(what),
        })
    }
}
