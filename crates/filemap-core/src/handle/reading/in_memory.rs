//! The keys of the memtables in order, in sorted batches. The first list sorts all keys. From then
//! on a thread of the writer sorts new keys and merges batches, so that a list sorts only the
//! newest keys.
//!
//! A list within one group of keys sorts only those: a memtable links them.

use std::sync::{Arc, Weak};

use filemap_runs::ordered::sort;

use crate::handle::reading::{KeyRange, Reading};
use crate::index::memtable::Memtable;
use crate::options::KeyOrder;
use crate::sync::{lock, make_way};

/// If a thread merges the others, the batches that a list merges have fewer keys together than
/// this: a millisecond's work.
const FEW: usize = 1 << 13;
/// Keys merged in about a tenth of a millisecond.
const SOME_KEYS: usize = 1024;
/// Most links of a group's chain that a list follows: some milliseconds' work.
const MOST_LINKS: usize = 1 << 15;
/// Words of an entry that is sorted in the time in which one or two links are followed.
const WORDS_A_LINK: usize = 16;

/// What a list needs of the memtables.
pub(super) struct Wanted<'r> {
    order: KeyOrder,
    range: &'r KeyRange,
    /// The group of all keys of the range, if they have one.
    group: Option<Vec<u8>>,
}

impl<'r> Wanted<'r> {
    pub(super) fn of(order: KeyOrder, range: &'r KeyRange) -> Wanted<'r> {
        let within = order.groups.zip(range.until.as_ref());
        let group = within.and_then(|(groups, until)| (groups.of_range)(&range.from, until));
        Wanted { order, range, group }
    }
}

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
            batch.add(&table.key(first.address), order, |_| true);
        }
        batch.sort(make_way);
        batch
    }

    /// Sorts the forms in a range of one group, of keys added to a table between two marks.
    /// Returns them with the number of links followed. `None` if the group's chain is too long, or
    /// the table has none.
    fn of_group(table: &Memtable, marks: (u32, u32), wanted: &Wanted<'_>, group: &[u8]) -> Option<(Batch, usize)> {
        let mut batch = Batch::default();
        let add = |key: &[u8]| batch.add(key, wanted.order, |form| wanted.range.contains(form));
        let links = table.each_in_group(group, marks, MOST_LINKS, add)?;
        batch.sort(&|| {});
        Some((batch, links))
    }

    /// Adds the form of a key, if it is wanted, behind the others.
    fn add(&mut self, key: &[u8], order: KeyOrder, is_wanted: impl FnOnce(&[u8]) -> bool) {
        let at = self.bytes.len();
        (order.ordered)(key, &mut self.bytes);
        if is_wanted(&self.bytes[at..]) {
            self.forms.push((at, (self.bytes.len() - at) as u32));
        } else {
            self.bytes.truncate(at);
        }
    }

    fn sort(&mut self, make_way: &dyn Fn()) {
        let Batch { bytes, forms } = self;
        sort(forms, &|(offset, len)| &bytes[offset..][..len as usize], make_way);
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
    /// Links that lists have followed since the mark.
    followed: usize,
}

impl SortedTable {
    /// Adds a batch of the entries from `mark` to `until`, unless another thread has sorted them.
    fn add(&mut self, batch: Batch, mark: u32, until: u32) {
        if self.mark == mark {
            (self.mark, self.followed) = (until, 0);
            self.batches.extend((batch.len() > 0).then(|| Arc::new(batch)));
        }
    }

    /// The keys of a list's group among the entries from the mark to `until`, which stay unsorted.
    /// `None` if all are to be sorted instead. Without a thread that does so, that is once lists
    /// have followed links for as long as sorting takes.
    fn of_group(&mut self, table: &Memtable, until: u32, wanted: &Wanted<'_>, is_helped: bool) -> Option<Batch> {
        let group = wanted.group.as_ref()?;
        if !is_helped && self.followed * WORDS_A_LINK > (until - self.mark) as usize {
            return None;
        }
        let (batch, links) = Batch::of_group(table, (self.mark, until), wanted, group)?;
        self.followed += links;
        Some(batch)
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
            let table = Arc::downgrade(table);
            self.tables.push(SortedTable { table, mark: 0, batches: Vec::new(), followed: 0 });
            self.tables.len() - 1
        });
        &mut self.tables[at]
    }

    /// Batches with the wanted keys of a table, up to now, and perhaps others. `is_helped` is true
    /// if a thread sorts the rest and merges the long ones.
    pub(super) fn batches(&mut self, table: &Arc<Memtable>, wanted: &Wanted<'_>, is_helped: bool) -> Vec<Arc<Batch>> {
        self.is_asked = true;
        // Other threads wait for the lock, so it does not yield.
        let make_way = &|| {};
        let (sorted, until) = (self.of(table), table.mark());
        if until > sorted.mark {
            if let Some(batch) = sorted.of_group(table, until, wanted, is_helped) {
                return sorted.batches.iter().cloned().chain([Arc::new(batch)]).collect();
            }
            let mark = sorted.mark;
            sorted.add(Batch::of(table, (mark, until), wanted.order, make_way), mark, until);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::format::location::{Extent, Location};
    use crate::index::memtable::{Entry, Grouping};
    use crate::options::{KeyGroups, Options};
    use crate::record::Version;

    /// Reversed bytes, so that the order differs from that of the keys.
    fn reversed(bytes: &[u8], out: &mut Vec<u8>) {
        out.extend(bytes.iter().rev());
    }

    fn back(bytes: &[u8], out: &mut Vec<u8>) -> bool {
        reversed(bytes, out);
        true
    }

    fn last(key: &[u8]) -> &[u8] {
        &key[key.len() - 1..]
    }

    fn of_range(from: &[u8], until: &[u8]) -> Option<Vec<u8>> {
        let first = *from.first()?;
        (until <= &[first.checked_add(1)?][..]).then(|| vec![first])
    }

    const GROUPS: KeyGroups = KeyGroups { of_key: last, of_range };
    const ORDER: KeyOrder = KeyOrder { name: "reversed 1", ordered: reversed, key: back, groups: Some(GROUPS) };

    fn table(seed: u64) -> Arc<Memtable> {
        Arc::new(Memtable::new(1 << 16, 0, Grouping::of(&Options::new().key_order(ORDER), seed)))
    }

    fn put(table: &Memtable, key: &[u8], sequence: u64, tombstone: bool) {
        let extent = Extent { location: Location::new(1, 64 * sequence), units: 5 };
        let version = Version { time_ms: sequence.cast_signed(), sequence };
        let entry = Entry { version, extent, refers_to: 0, chunked: false, tombstone };
        table.insert(xxhash_rust::xxh3::xxh3_64(key), key, &entry);
    }

    /// The forms of a range in some batches. Asserts that each batch is in order.
    fn listed(batches: &[Arc<Batch>], range: &KeyRange) -> Vec<Vec<u8>> {
        let of = |batch: &Arc<Batch>| (0..batch.len()).map(|at| batch.form(at).to_vec()).collect::<Vec<_>>();
        assert!(batches.iter().all(|batch| of(batch).is_sorted()));
        let mut all: Vec<Vec<u8>> = batches.iter().flat_map(of).filter(|form| range.contains(form)).collect();
        all.sort();
        all
    }

    /// A range of one group, whole or in part, or any other.
    fn random_range(random: &mut fastrand::Rng) -> KeyRange {
        let group = random.u8(..6);
        let mut ends = [random.u16(..320), random.u16(..320)].map(|n| n.to_be_bytes().to_vec());
        ends.sort();
        let [from, until] = ends;
        let inside = |end: Vec<u8>| [vec![group], end].concat();
        match random.u8(..5) {
            0 => KeyRange::from(vec![group]..vec![group + 1]),
            1 => KeyRange::from(inside(from)..vec![group + 1]),
            2 => KeyRange::from(vec![group]..inside(until)),
            3 => KeyRange::from(inside(from)..inside(until)),
            _ => KeyRange::from(from..until),
        }
    }

    #[test]
    fn what_a_chain_lists_is_what_sorting_all_keys_lists() {
        let mut by_chain = 0;
        for seed in 0..12 {
            let (mut random, mut keys) = (fastrand::Rng::with_seed(seed), BTreeSet::new());
            let (table, mut chained, mut sorted) = (table(seed), InMemory::default(), InMemory::default());
            for sequence in 1..3000 {
                // Groups 0 to 5; most keys come again, as versions or tombstones.
                let mut key = random.u16(..300).to_le_bytes().to_vec();
                key.push(random.u8(..6));
                put(&table, &key, sequence, random.u8(..4) == 0);
                key.reverse();
                keys.insert(key);
                if random.u8(..20) > 0 {
                    continue;
                }
                let range = random_range(&mut random);
                let wanted = Wanted::of(ORDER, &range);
                let is_in_group = wanted.group.is_some();
                // Some lists sort all, so that later ones follow chains from a mark.
                let batches = chained.batches(&table, &wanted, random.u8(..9) > 0);
                let all = sorted.batches(&table, &Wanted { order: ORDER, range: &range, group: None }, false);
                let expected: Vec<_> = keys.iter().filter(|form| range.contains(form)).cloned().collect();
                assert_eq!(listed(&batches, &range), expected);
                assert_eq!(listed(&all, &range), expected);
                let is_unsorted = chained.tables[0].mark < table.mark();
                assert!(is_in_group || !is_unsorted);
                by_chain += usize::from(is_unsorted);
            }
        }
        assert!(by_chain > 500, "{by_chain}");
    }

    #[test]
    fn without_a_thread_that_sorts_a_list_does_once_walks_have_cost_as_much() {
        let table = table(1);
        (0..4000u16).for_each(|n| put(&table, &[n.to_be_bytes()[0], n.to_be_bytes()[1], 0], u64::from(n) + 1, false));
        let range = KeyRange::from(vec![0u8]..vec![1]);
        let wanted = Wanted::of(ORDER, &range);
        let (mut helped, mut alone) = (InMemory::default(), InMemory::default());
        for nth in 0..5 {
            assert_eq!(listed(&helped.batches(&table, &wanted, true), &range).len(), 4000);
            assert_eq!(listed(&alone.batches(&table, &wanted, false), &range).len(), 4000);
            assert_eq!(helped.tables[0].mark, 0);
            assert!(nth > 0 || alone.tables[0].mark == 0, "the first list follows the chain");
        }
        assert!(alone.tables[0].mark > 0, "five walks cost more than a sort");
    }

    #[test]
    fn a_chain_that_is_too_long_and_a_table_without_chains_are_sorted() {
        let (long, without) = (table(1), Arc::new(Memtable::new(1 << 16, 0, None)));
        let key = |n: usize| [&(n as u32).to_be_bytes()[..], &[9]].concat();
        (0..=MOST_LINKS).for_each(|n| put(&long, &key(n), n as u64 + 1, false));
        (0..50).for_each(|n| put(&without, &key(n), n as u64 + 1, false));
        let range = KeyRange::from(vec![9u8]..vec![10]);
        for (table, count) in [(long, MOST_LINKS + 1), (without, 50)] {
            let mut in_memory = InMemory::default();
            let batches = in_memory.batches(&table, &Wanted::of(ORDER, &range), true);
            assert_eq!(listed(&batches, &range).len(), count);
            assert_eq!(in_memory.tables[0].mark, table.mark());
        }
    }
}
