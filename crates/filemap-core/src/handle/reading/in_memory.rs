//! The keys of the memtables in order. They are sorted when a list asks for them, and only those
//! added since the last list: in batches, merged as they grow, so that a put pays nothing and a list
//! amid puts little.

use std::sync::{Arc, Weak};

use filemap_runs::ordered::sort;

use crate::index::memtable::Memtable;
use crate::options::KeyOrder;

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

    /// Sorts the forms of keys that came to a table between two marks.
    fn of(table: &Memtable, (from, to): (u32, u32), order: KeyOrder) -> Batch {
        let mut batch = Batch::default();
        for first in table.changes(from, to).filter(|change| change.was_live.is_none()) {
            let at = batch.bytes.len();
            (order.ordered)(&table.key(first.address), &mut batch.bytes);
            batch.forms.push((at, (batch.bytes.len() - at) as u32));
        }
        let Batch { bytes, forms } = &mut batch;
        sort(forms, &|(offset, len)| &bytes[offset..][..len as usize], &|| {});
        batch
    }

    /// Both as one; no form is in both.
    fn merged(&self, other: &Batch) -> Batch {
        let bytes = Vec::with_capacity(self.bytes.len() + other.bytes.len());
        let mut all = Batch { bytes, forms: Vec::with_capacity(self.forms.len() + other.forms.len()) };
        let (mut a, mut b) = (0, 0);
        while a < self.forms.len() || b < other.forms.len() {
            let is_a = b == other.forms.len() || (a < self.forms.len() && self.form(a) < other.form(b));
            let form = if is_a { self.form(a) } else { other.form(b) };
            all.forms.push((all.bytes.len(), form.len() as u32));
            all.bytes.extend_from_slice(form);
            (a, b) = (a + usize::from(is_a), b + usize::from(!is_a));
        }
        all
    }

    /// How many forms are below this one.
    pub(super) fn below(&self, form: &[u8]) -> usize {
        self.forms.partition_point(|&(offset, len)| &self.bytes[offset..][..len as usize] < form)
    }

    /// How many forms there are.
    pub(super) fn len(&self) -> usize {
        self.forms.len()
    }
}

/// Sorted keys of one memtable. Each batch has less than half the keys of the one before.
#[derive(Debug)]
struct SortedTable {
    table: Weak<Memtable>,
    /// Entries before it are in the batches.
    mark: u32,
    batches: Vec<Arc<Batch>>,
}

/// Sorted keys of the memtables, as of the last list.
#[derive(Debug, Default)]
pub(super) struct InMemory(Vec<SortedTable>);

impl InMemory {
    /// The batches of a table, up to now.
    pub(super) fn batches(&mut self, table: &Arc<Memtable>, order: KeyOrder) -> Vec<Arc<Batch>> {
        self.0.retain(|sorted| sorted.table.strong_count() > 0);
        let at = match self.0.iter().position(|sorted| std::ptr::eq(sorted.table.as_ptr(), Arc::as_ptr(table))) {
            Some(at) => at,
            None => {
                self.0.push(SortedTable { table: Arc::downgrade(table), mark: 0, batches: Vec::new() });
                self.0.len() - 1
            }
        };
        let (sorted, mark) = (&mut self.0[at], table.mark());
        if mark > sorted.mark {
            let mut newest = Batch::of(table, (sorted.mark, mark), order);
            sorted.mark = mark;
            while let Some(last) = sorted.batches.pop_if(|last| last.forms.len() < 2 * newest.forms.len()) {
                newest = last.merged(&newest);
            }
            if !newest.forms.is_empty() {
                sorted.batches.push(Arc::new(newest));
            }
        }
        sorted.batches.clone()
    }
}
