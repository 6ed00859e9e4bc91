//! The number of counted keys: that of the index, and what the memtables change in it.
//!
//! Of each key in a memtable it is asked whether the index has it. A checkpoint may enter leaves
//! meanwhile: it does so in the order of hashes, and the number of the index goes up with them. So
//! only the keys of hashes that it has passed since are asked for again. The sum is that of one
//! moment: the end of the last look, and the memtables as of its beginning.

use std::sync::{Arc, Weak};

use crate::error::{Error, Result};
use crate::format::names;
use crate::handle::reading::{Reading, Tables};
use crate::index::address::{Count, LastLeaf};
use crate::index::memtable::Memtable;
use crate::options::CountedOf;
use crate::sync::lock;

/// What the memtables change, as of the last call: the next looks at later entries only, if
/// neither tables nor index are others.
#[derive(Clone, Debug, Default)]
pub(super) struct LastCount {
    tables: Weak<Tables>,
    index: Option<Count>,
    /// Mark in the active table up to which entries are in the sum.
    mark: u32,
    more: i64,
}

/// A key that a table has and no older table.
struct First {
    hash: u64,
    address: u32,
    is_frozen: bool,
    /// True if the index has it.
    is_indexed: bool,
}

impl Reading {
    /// The number of live keys that [`Options::counted`](crate::Options::counted) counts; `None`
    /// without that option, or if the store does not know.
    ///
    /// # Errors
    /// `Corrupt`, `Io`, of a look into the index; `Closed`.
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
            // What was read after the handle was closed may be another writer's.
            self.check_open()?;
            if end == index {
                *lock(&self.last_count) = LastCount { tables: Arc::downgrade(&tables), index: Some(end), mark, more };
            }
            let sum = |keys: u64| {
                let misfit = || Error::corrupt(names::SUPERBLOCK, 0, "the number of counted keys is too small");
                keys.checked_add_signed(more).ok_or_else(misfit)
            };
            return end.keys.map(sum).transpose();
        }
    }

    /// What entries of the tables change in the number of the index, and that number: those of the
    /// active table between two marks and, if the first is 0, all of the frozen one. `None` if the
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

    /// Asks the index for keys, which are sorted by hash.
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

/// How many counted keys more are live after the entries of a table between two marks than before
/// them. Keys that neither this table nor the older one had before are taken for not live then,
/// and added to `firsts`.
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
