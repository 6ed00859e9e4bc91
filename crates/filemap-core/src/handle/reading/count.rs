//! The number of counted keys: that of the index, corrected by the memtables.
//!
//! Each key in a memtable is looked up in the index. A checkpoint may enter leaves meanwhile: it
//! does so in hash order, and the index's number grows with them. So only keys whose hashes it has
//! passed since are looked up again. The sum is that of one moment: the index at the end of the
//! last look-up, and the memtables as of its beginning.

use std::sync::{Arc, Weak};

use crate::error::{Error, Result};
use crate::format::names;
use crate::handle::reading::{Reading, Tables};
use crate::index::address::{Count, LastLeaf};
use crate::index::memtable::Memtable;
use crate::options::CountedOf;
use crate::sync::lock;

/// The memtables' correction as of the last call. If tables and index are still the same, the next
/// call adds later entries only.
#[derive(Clone, Debug, Default)]
pub(super) struct LastCount {
    tables: Weak<Tables>,
    index: Option<Count>,
    /// Mark in the active table; entries before it are in the sum.
    mark: u32,
    more: i64,
}

/// A key of a table that no older table has.
struct First {
    hash: u64,
    address: u32,
    is_frozen: bool,
    /// True if the index has the key.
    is_indexed: bool,
}

impl Reading {
    /// The number of live keys that [`Options::counted`](crate::Options::counted) counts; `None`
    /// without that option, or if the number is unknown.
    ///
    /// # Errors
    /// `Corrupt` or `Io` from a look-up in the index; `Closed`.
    pub(crate) fn counted_keys(&self) -> Result<Option<u64>> {
        self.follow_if_due();
        let Some(is_counted) = self.options.counted else { return self.check_open().map(|()| None) };
        loop {
            self.check_open()?;
            let (tables, index) = (self.tables.load_full(), self.index.count());
            if index.keys.is_none() {
                return Ok(None);
            }
            let last = lock(&self.last_count).clone();
            let is_same = last.index == Some(index) && std::ptr::eq(last.tables.as_ptr(), Arc::as_ptr(&tables));
            let last = if is_same { last } else { LastCount::default() };
            let mark = tables.active.mark();
            let Some((end, more)) = self.more(&tables, (last.mark, mark), index, is_counted)? else { continue };
            let more = last.more + more;
            // A read after the handle was closed may see another writer's data.
            self.check_open()?;
            if end == index {
                *lock(&self.last_count) = LastCount { tables: Arc::downgrade(&tables), index: Some(end), mark, more };
            }
            let sum = |keys: u64| {
                let misfit = || Error::corrupt(names::SUPERBLOCK, 0, "number of counted keys is too small");
                keys.checked_add_signed(more).ok_or_else(misfit)
            };
            return end.keys.map(sum).transpose();
        }
    }

    /// The memtables' correction of the index's number, and that number: by entries of the active
    /// table between two marks and, if the first mark is 0, all of the frozen one. `None` if the
    /// tables or the index were replaced meanwhile.
    fn more(
        &self,
        tables: &Arc<Tables>,
        (from, to): (u32, u32),
        mut index: Count,
        is_counted: CountedOf,
    ) -> Result<Option<(Count, i64)>> {
        let (mut firsts, mut more) = (Vec::new(), 0);
        let frozen = tables.frozen.as_deref();
        if let Some(frozen) = frozen.filter(|_| from == 0) {
            more += live((frozen, None), (0, frozen.mark()), is_counted, &mut firsts);
            firsts.iter_mut().for_each(|first| first.is_frozen = true);
        }
        more += live((&tables.active, frozen), (from, to), is_counted, &mut firsts);
        firsts.sort_unstable_by_key(|first| first.hash);
        if firsts.len() as u64 > self.latest.load().index.leaves {
            let _ = self.index.will_need_all();
        }
        self.look_up(tables, &mut firsts)?;
        loop {
            let now = self.index.count();
            if now.run != index.run || !Arc::ptr_eq(tables, &self.tables.load()) {
                return Ok(None);
            }
            if now == index {
                let indexed = firsts.iter().filter(|first| first.is_indexed).count();
                return Ok(Some((now, more - indexed as i64)));
            }
            let start = firsts.partition_point(|first| Some(first.hash) <= index.reached);
            let end = firsts.partition_point(|first| Some(first.hash) <= now.reached);
            self.look_up(tables, &mut firsts[start..end.max(start)])?;
            index = now;
        }
    }

    /// Looks keys, sorted by hash, up in the index.
    fn look_up(&self, tables: &Tables, firsts: &mut [First]) -> Result<()> {
        let mut last = LastLeaf::default();
        for first in firsts {
            let table = if first.is_frozen { tables.frozen.as_ref() } else { None };
            let key = table.unwrap_or(&tables.active).key(first.address);
            let found = self.looking_again(|| self.indexed_near(&key, first.hash, &mut last))?;
            first.is_indexed = found.is_some();
        }
        Ok(())
    }
}

/// Increase in live counted keys by the entries of a table between two marks. Keys that neither
/// this table nor the older one had before are assumed not to be live before, and appended to
/// `firsts`.
fn live(
    (table, older): (&Memtable, Option<&Memtable>),
    (from, to): (u32, u32),
    is_counted: CountedOf,
    firsts: &mut Vec<First>,
) -> i64 {
    let mut more = 0;
    for change in table.changes(from, to) {
        let key = table.key(change.address);
        if !is_counted(&key) {
            continue;
        }
        let in_older = || older.and_then(|older| older.find(change.hash, &key)).map(|found| found.best.is_some());
        let was_live = change.was_live.or_else(in_older);
        if was_live.is_none() {
            let (hash, address) = (change.hash, change.address);
            firsts.push(First { hash, address, is_frozen: false, is_indexed: false });
        }
        more += i64::from(change.is_live) - i64::from(was_live.unwrap_or(false));
    }
    more
}
