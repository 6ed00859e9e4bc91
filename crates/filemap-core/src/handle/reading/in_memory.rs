//! The keys of the memtables in order, in sorted batches. A put pays nothing: the first list sorts
//! all keys. From then on a thread of the writer sorts new keys and merges batches, so that a list
//! sorts only the newest keys.

use std::sync::{Arc, Weak};

use filemap_runs::ordered::sort;

use crate::handle::reading::Reading;
use crate::index::memtable::Memtable;
use crate::options::KeyOrder;
use crate::sync::{lock, make_way};

/// If a thread merges the others, the batches that a list merges have fewer keys together than
/// this: a millisecond's work.
const FEW: usize = 1 << 13;
/// Keys merged in about a tenth of a millisecond.
const SOME_KEYS: usize = 1024;

/// Ordered forms of a memtable's keys, sorted.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Offset and length of each form.
    forms: Vec<(usize, u32)>,
}

impl Batch {
    pub(super) fn form(&self, at: usize) -> &[u8] {
        let (offset, bytes) = self.forms[at];
        &self.bytes[offset..][..bytes as usize]
    }

    /// Sorts the forms of keys added to a table between two marks.
    fn of(table: &Memtable, (from, to): (u32, u32), order: KeyOrder, make_way: &dyn Fn()) -> Batch {
        let mut batch = Batch::default();
        let firsts = table.changes(from, to).filter(|change| change.was_live.is_none());
        for (nth, first) in firsts.enumerate() {
            if nth % SOME_KEYS == 0 {
                make_way();
            }
            let at = batch.bytes.len();
            (order.ordered)(&table.key(first.address), &mut batch.bytes);
            batch.forms.push((at, (batch.bytes.len() - at) as u32));
        }
        let Batch { bytes, forms } = &mut batch;
        sort(forms, &|(offset, len)| &bytes[offset..][..len as usize], make_way);
        batch
    }

    /// Merges two batches; no form is in both.
    fn merged(&self, other: &Batch, make_way: &dyn Fn()) -> Batch {
        let bytes = Vec::with_capacity(self.bytes.len() + other.bytes.len());
        let mut all = Batch { bytes, forms: Vec::with_capacity(self.forms.len() + other.forms.len()) };
        let (mut a, mut b) = (0, 0);
        while a < self.forms.len() || b < other.forms.len() {
            if (a + b) % SOME_KEYS == 0 {
                make_way();
            }
            let is_a = b == other.forms.len() || (a < self.forms.len() && self.form(a) < other.form(b));
            let form = if is_a { self.form(a) } else { other.form(b) };
            all.forms.push((all.bytes.len(), form.len() as u32));
            all.bytes.extend_from_slice(form);
            (a, b) = (a + usize::from(is_a), b + usize::from(!is_a));
        }
        all
    }

    /// Number of forms below `form`.
    pub(super) fn below(&self, form: &[u8]) -> usize {
        self.forms.partition_point(|&(offset, len)| &self.bytes[offset..][..len as usize] < form)
    }

    /// Number of forms.
    pub(super) fn len(&self) -> usize {
        self.forms.len()
    }
}

/// Sorted keys of one memtable.
#[derive(Debug)]
struct SortedTable {
    table: Weak<Memtable>,
    /// Entries before this mark are in the batches.
    mark: u32,
    batches: Vec<Arc<Batch>>,
}

impl SortedTable {
    /// Adds a batch of the entries from `mark` to `until`, unless another thread has sorted them.
    fn add(&mut self, batch: Batch, mark: u32, until: u32) {
        if self.mark == mark {
            self.mark = until;
            self.batches.extend((batch.len() > 0).then(|| Arc::new(batch)));
        }
    }

    /// Two adjacent batches, the first less than twice as long as the second.
    fn to_merge(&self) -> Option<[Arc<Batch>; 2]> {
        let is_due = |pair: &&[Arc<Batch>]| pair[0].len() < 2 * pair[1].len();
        let pair = self.batches.windows(2).rfind(is_due)?;
        Some([Arc::clone(&pair[0]), Arc::clone(&pair[1])])
    }

    /// Replaces two batches by one, unless another thread has done so.
    fn replace(&mut self, [a, b]: &[Arc<Batch>; 2], by: Batch) {
        let is_it = |pair: &[Arc<Batch>]| Arc::ptr_eq(&pair[0], a) && Arc::ptr_eq(&pair[1], b);
        if let Some(at) = self.batches.windows(2).position(is_it) {
            self.batches.splice(at..at + 2, [Arc::new(by)]);
        }
    }
}

/// Sorted keys of the memtables.
#[derive(Debug, Default)]
pub(super) struct InMemory {
    /// True once a list has asked for them.
    is_asked: bool,
    tables: Vec<SortedTable>,
}

impl InMemory {
    fn of(&mut self, table: &Arc<Memtable>) -> &mut SortedTable {
        self.tables.retain(|sorted| sorted.table.strong_count() > 0);
        let is_it = |sorted: &SortedTable| std::ptr::eq(sorted.table.as_ptr(), Arc::as_ptr(table));
        let at = self.tables.iter().position(is_it).unwrap_or_else(|| {
            self.tables.push(SortedTable { table: Arc::downgrade(table), mark: 0, batches: Vec::new() });
            self.tables.len() - 1
        });
        &mut self.tables[at]
    }

    /// The batches of a table, up to now. `is_helped` is true if a thread merges the long ones.
    pub(super) fn batches(&mut self, table: &Arc<Memtable>, order: KeyOrder, is_helped: bool) -> Vec<Arc<Batch>> {
        self.is_asked = true;
        // Other threads wait for the lock, so it does not yield.
        let make_way = &|| {};
        let (sorted, until) = (self.of(table), table.mark());
        if until > sorted.mark {
            let mark = sorted.mark;
            sorted.add(Batch::of(table, (mark, until), order, make_way), mark, until);
            let is_for_us = |[a, b]: &[Arc<Batch>; 2]| !is_helped || a.len() + b.len() < FEW;
            while let Some(pair) = sorted.to_merge().filter(is_for_us) {
                sorted.replace(&pair, pair[0].merged(&pair[1], make_way));
            }
        }
        sorted.batches.clone()
    }
}

impl Reading {
    /// Sorts the keys added to the memtables, and merges batches, if a list has ever asked for
    /// them: about a microsecond a key. Returns false if there was nothing to do.
    pub(crate) fn sort_ahead(&self) -> bool {
        let Some(order) = self.options.key_order.filter(|_| self.sorts_ahead()) else { return false };
        let (tables, mut has_sorted) = (self.tables.load_full(), false);
        for table in [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten() {
            let (mark, until) = (lock(&self.in_memory).of(table).mark, table.mark());
            if until > mark {
                let batch = Batch::of(table, (mark, until), order, &make_way);
                lock(&self.in_memory).of(table).add(batch, mark, until);
                has_sorted = true;
            }
            loop {
                let pair = lock(&self.in_memory).of(table).to_merge();
                let Some(pair) = pair else { break };
                let merged = pair[0].merged(&pair[1], &make_way);
                lock(&self.in_memory).of(table).replace(&pair, merged);
            }
        }
        has_sorted
    }

    /// Returns whether a list has ever asked for keys of the memtables in order.
    pub(crate) fn sorts_ahead(&self) -> bool {
        lock(&self.in_memory).is_asked
    }
}
