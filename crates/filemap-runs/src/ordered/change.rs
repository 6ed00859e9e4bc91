//! Changes of keys, +1 and -1, and their sums, in any order.

/// Statement of a run's entry about its key. Over all runs of a store the changes of a key sum to
/// 1 if the key is present, else to 0.
///
/// ```
/// use filemap_runs::ordered::Change;
/// assert_eq!(Change::Added.sum() + Change::Removed.sum(), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key was added: +1.
    Added,
    /// The key was removed: -1.
    Removed,
}

/// A key and its change.
pub type Entry<'a> = (&'a [u8], Change);

impl Change {
    /// +1 or -1.
    pub fn sum(self) -> i64 {
        match self {
            Change::Added => 1,
            Change::Removed => -1,
        }
    }

    #[inline]
    pub(super) fn of(is_removed: bool) -> Change {
        if is_removed { Change::Removed } else { Change::Added }
    }
}

/// Counts of a leaf, a subtree or a run. The sum is derived, so it is never out of range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) entries: u64,
    /// Entries that remove their key.
    pub(super) removed: u64,
}

impl Tally {
    #[inline]
    pub(super) fn count(&mut self, change: Change) {
        self.entries += 1;
        self.removed += u64::from(change == Change::Removed);
    }

    /// Adds two tallies; `None` on overflow: no file is that large.
    pub(super) fn plus(self, other: Tally) -> Option<Tally> {
        let entries = self.entries.checked_add(other.entries)?;
        Some(Tally { entries, removed: self.removed.checked_add(other.removed)? })
    }

    /// Sum of the changes.
    pub(super) fn sum(self) -> i64 {
        self.entries.wrapping_sub(self.removed).wrapping_sub(self.removed) as i64
    }
}
