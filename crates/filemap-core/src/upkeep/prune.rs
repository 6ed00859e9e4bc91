//! Pruning: finds versions in the key log that a rule does not keep, and has checkpoints drop them
//! from their chains.
//!
//! One sequential pass over the key log finds the keys that may lose a version, a bounded number
//! of hashes at a time. The checkpoint, which reads the whole chain, decides which versions each
//! key loses. Versions put since the pass began are not examined, unless they belong to such a
//! key. Pruning frees no space: compaction does, once the segment table shows the dead bytes.

use std::ops::ControlFlow;

use filemap_io::Progress;

use crate::error::{Result, unless_cancelled};
use crate::failpoint::step;
use crate::format::key::KeyRecord;
use crate::format::superblock::Tail;
use crate::handle::retention::Dropped;
use crate::handle::retention::Retention;
use crate::handle::retention::Spared;
use crate::logs::keys::KeyFile;
use crate::logs::scan::Item;
use crate::logs::segments::FIRST_RECORD;
use crate::sync::primitive::Ordering;
use crate::upkeep::Upkeep;
use crate::upkeep::checkpoint::Task;

/// Bytes of key log between two cancellation checks.
const LOOK_UP_BYTES: u64 = 1 << 20;

/// Hashes per checkpoint, as a multiple of the moves that compaction would gather: a hash takes
/// less memory.
const HASHES_PER_OP: usize = 4;

/// Progress of a prune.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// use std::ops::ControlFlow;
/// use filemap_core::prune::{PruneProgress, PruneRule};
/// let rule = PruneRule { keep_versions: Some(3), ..Default::default() };
/// store.prune(rule, &mut |now: PruneProgress| {
///     println!("{} of {}", now.done, now.total);
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneProgress {
    /// Work done in the current pass, in its own unit.
    pub done: u64,
    /// Total of the current pass.
    pub total: u64,
}

impl Upkeep {
    /// Drops versions that neither the rule nor the store's options keep, and that no other
    /// version needs. Versions dropped before an error or cancellation stay dropped.
    ///
    /// # Errors
    /// `Cancelled`; those of a checkpoint.
    pub(crate) fn prune(
        &self,
        rule: Retention,
        spared: &Spared,
        progress: &mut Progress<'_, PruneProgress>,
        dropped: &mut Dropped,
    ) -> Result<()> {
        // Moves puts that are only in memory into the key log.
        self.checkpoint()?;
        let mut hashes = Vec::new();
        // The files stay readable if compaction of the key log removes them. Records that it
        // rewrites were read before.
        let (files, end) = self.reading.key_files()?;
        let mut gaps = self.reading.missing_keys(&files, end);
        let total = self.reading.keys().bytes().0;
        let (mut done, mut told) = (0, 0);
        for KeyFile { segment, file, end } in &files {
            let Some(file) = file else { continue };
            let mut scan = self.reading.keys().scan(segment, &**file, FIRST_RECORD..*end)?;
            while let Some(item) = scan.next()? {
                match item {
                    Item::Record { offset, bytes } => {
                        let (record, key) = self.reading.keys().decode(segment, bytes, offset)?;
                        let hash = self.may_lose((rule, spared), &record, key, dropped)?;
                        // A key that was put often has many records in a row.
                        if hash != hashes.last().copied() {
                            hashes.extend(hash);
                        }
                    }
                    Item::Gap { offset, bytes, .. } => {
                        let at = |offset| Tail { ordinal: segment.ordinal, offset };
                        gaps.push(at(offset)..at(offset + bytes));
                    }
                    Item::Filler { .. } => {}
                }
                if hashes.len() >= HASHES_PER_OP * self.reading.options().limits.compact_ops {
                    dropped.add(self.drop_from(std::mem::take(&mut hashes), rule, spared)?);
                }
                if done + scan.offset() >= told + LOOK_UP_BYTES {
                    told = done + scan.offset();
                    self.reading.check_open()?;
                    unless_cancelled(progress(PruneProgress { done: told, total: total.max(told) }))?;
                }
            }
            done += scan.offset();
        }
        dropped.hidden += self.reading.slots_in(gaps)?.len() as u64;
        if !hashes.is_empty() {
            dropped.add(self.drop_from(hashes, rule, spared)?);
        }
        Ok(())
    }

    fn drop_from(&self, chains: Vec<u64>, retention: Retention, spared: &Spared) -> Result<Dropped> {
        step();
        self.checkpoint_with(Task { chains, retention, spared: spared.clone(), ..Task::default() })
    }

    /// Returns the hash of a key that may lose a version, judged by one of its records. Dead
    /// records may point to keys that lose nothing; that only costs a walk of their chains.
    fn may_lose(
        &self,
        (rule, spared): (Retention, &Spared),
        record: &KeyRecord,
        key: &[u8],
        dropped: &mut Dropped,
    ) -> Result<Option<u64>> {
        let is_old = rule.is_old(record.version);
        // A chain's length is in its head, the newest version, which may well be young.
        let is_longer = |n| record.chain > n || record.chain >= self.reading.options().limits.chain_count;
        let is_long = rule.since_ms.is_some() || rule.versions.is_none_or(is_longer);
        if !(is_old && is_long && spared.covers(key)) {
            return Ok(None);
        }
        let hash = self.reading.hash(key);
        match self.reading.candidates(hash) {
            Ok(slots) => Ok(slots.iter().next().map(|_| hash)),
            // Keys of a damaged index page are left unchanged.
            Err(e) if e.is_corrupt() => {
                dropped.hidden += 1;
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Drops versions that the store's options count as too old. Returns true if there were any.
    ///
    /// # Errors
    /// As [`Upkeep::prune`].
    pub(crate) fn prune_expired(&self) -> Result<bool> {
        let mut dropped = Dropped::default();
        let mut progress = |_| match self.reading.closed().load(Ordering::Acquire) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        self.prune(Retention::of(self.reading.options()), &Spared::default(), &mut progress, &mut dropped)?;
        Ok(dropped.versions > 0)
    }
}
