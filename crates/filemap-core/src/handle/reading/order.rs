//! Keys in order: the runs of a superblock and the keys of the memtables, as one list.
//!
//! For its keys a memtable decides, whatever the runs say: a checkpoint may be entering them.

use std::ops::Bound;
use std::sync::Arc;

use filemap_runs::ordered::{Direction, Run};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::key_runs::{Behind, KeyRuns};
use crate::format::names;
use crate::handle::reading::in_memory::{Batch, Wanted};
use crate::handle::reading::{Reading, Tables};
use crate::handle::recover::Absent;
use crate::index::key_runs::{RunKeys, unsound};
use crate::options::KeyOrder;
use crate::sync::lock;

/// A range of ordered forms of keys.
///
/// ```
/// use filemap_core::list::KeyRange;
/// let letters = KeyRange::from(b"a".to_vec()..b"{".to_vec());
/// assert_eq!(letters.until, Some(b"{".to_vec()));
/// assert_eq!(KeyRange::all(), KeyRange { from: Vec::new(), until: None });
/// assert_eq!(letters.after(b"example").from, b"example\0");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The first form that may be in the range.
    pub from: Vec<u8>,
    /// The first form above the range; `None` if unbounded.
    pub until: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    pub fn all() -> KeyRange {
        KeyRange::default()
    }

    /// The part above this form: where a forward list continues after it.
    pub fn after(mut self, form: &[u8]) -> KeyRange {
        self.from = self.from.max([form, &[0]].concat());
        self
    }

    /// The part below this form: where a backward list continues after it.
    pub fn before(mut self, form: &[u8]) -> KeyRange {
        let until = self.until.filter(|until| &until[..] <= form);
        self.until = Some(until.unwrap_or_else(|| form.to_vec()));
        self
    }

    fn is_empty(&self) -> bool {
        self.until.as_ref().is_some_and(|until| *until <= self.from)
    }

    /// Returns whether a form is in the range.
    pub(super) fn contains(&self, form: &[u8]) -> bool {
        form >= &self.from[..] && !self.is_passed(form, Direction::Forward)
    }

    /// The bound at which a walk begins.
    fn begin(&self, direction: Direction) -> Bound<&[u8]> {
        match (direction, &self.until) {
            (Direction::Forward, _) => Bound::Included(&self.from),
            (Direction::Back, Some(until)) => Bound::Excluded(until),
            (Direction::Back, None) => Bound::Unbounded,
        }
    }

    /// Returns whether a walk that has reached this form has passed the end of the range.
    fn is_passed(&self, form: &[u8], direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.until.as_ref().is_some_and(|until| form >= &until[..]),
            Direction::Back => form < &self.from[..],
        }
    }
}

impl From<std::ops::Range<Vec<u8>>> for KeyRange {
    fn from(range: std::ops::Range<Vec<u8>>) -> KeyRange {
        KeyRange { from: range.start, until: Some(range.end) }
    }
}

/// A position in a batch: the number of forms passed or, backwards, of forms to come.
#[derive(Debug)]
struct Place {
    /// 0 for the active table, 1 for the frozen one.
    table: usize,
    batch: Arc<Batch>,
    at: usize,
}

impl Place {
    fn next(&self, direction: Direction) -> Option<&[u8]> {
        let at = match direction {
            Direction::Forward => self.at,
            Direction::Back => self.at.wrapping_sub(1),
        };
        (at < self.batch.len()).then(|| self.batch.form(at))
    }
}

/// A walk over the keys of a range, as of its beginning.
#[derive(Debug)]
pub(crate) struct Walk {
    order: KeyOrder,
    tables: Arc<Tables>,
    places: Vec<Place>,
    runs: RunKeys,
    range: KeyRange,
    direction: Direction,
    /// The ordered form of the last key.
    form: Vec<u8>,
}

impl Reading {
    /// The order of the store and its current runs.
    ///
    /// # Errors
    /// `InvalidOption` without an order, or with a different one.
    fn order_now(&self) -> Result<(KeyOrder, KeyRuns)> {
        let missing = |why: &str| Error::option("key_order", why);
        let order = self.options.key_order.ok_or_else(|| missing("no order of keys was given"))?;
        // Read before the table. The writer of a store without keys may not have named its order
        // yet.
        let is_empty = !self.is_writer() && self.latest.load().index.keys == 0;
        let named = match &self.segment_table.load().order {
            Some(named) => named.clone(),
            None if is_empty => KeyRuns::none(order.name, 1),
            None => return Err(missing("the store keeps no keys in order; a repair with this option adds them")),
        };
        match named.order == KeyRuns::order_of(order.name) {
            true => Ok((order, named)),
            false => Err(missing("the store keeps its keys in another order")),
        }
    }

    /// Reports that the store has lost its order.
    pub(crate) fn order_ended(&self, why: &str) {
        let event = Event::OrderEnded { why: why.to_owned() };
        self.counters.failed(&Error::corrupt(names::KEY_RUNS, 0, event.to_string()));
        self.emit(&event);
    }

    /// Returns whether the store keeps its keys in the order of the options.
    pub(crate) fn has_order(&self) -> bool {
        self.order_now().is_ok()
    }

    /// Begins a walk over the keys of a range.
    ///
    /// # Errors
    /// `InvalidOption` without an order; `Corrupt`; `Io`; `Closed`.
    pub(crate) fn walk(&self, range: KeyRange, direction: Direction) -> Result<Walk> {
        self.follow_if_due();
        loop {
            self.check_open()?;
            // Before the runs: entries that leave a table are in a run by then.
            let tables = self.tables.load_full();
            let (order, named) = self.order_now()?;
            if let Some(behind) = named.behind.filter(|_| !self.is_writer())
                && !self.has_followed(behind, &tables)?
            {
                continue;
            }
            match self.key_runs.open(&named.runs) {
                // They may have been joined and removed meanwhile.
                Err(e) if e.is_corrupt() => {
                    self.follow_writer()?;
                    if self.order_now()?.1.runs == named.runs {
                        return Err(e);
                    }
                }
                runs => return self.walk_over(order, tables, runs?, range, direction),
            }
        }
    }

    /// Returns whether a follower's table has the entries of the writer's unfinished checkpoint.
    /// If not, it follows.
    ///
    /// # Errors
    /// `Corrupt` if the log does not have them.
    fn has_followed(&self, behind: Behind, tables: &Tables) -> Result<bool> {
        let has_all = |entries| entries >= behind.entries;
        if self.log_end().1 >= behind.before && has_all(tables.active.entries()) {
            return Ok(true);
        }
        self.follow_writer()?;
        let is_same = self.segment_table.load().order.as_ref().is_some_and(|named| named.behind == Some(behind));
        if is_same && !(self.log_end().1 >= behind.before && has_all(self.tables.load().active.entries())) {
            let what = "the log of their unfinished checkpoint is damaged; open the store for writing";
            return Err(Error::corrupt(names::KEY_RUNS, 0, what));
        }
        Ok(false)
    }

    fn walk_over(
        &self,
        order: KeyOrder,
        tables: Arc<Tables>,
        runs: Vec<Arc<Run>>,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Walk> {
        let mut in_memory = lock(&self.in_memory);
        let (wanted, mut places) = (Wanted::of(order, &range), Vec::new());
        let memtables = [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten();
        for (table, memtable) in memtables.enumerate().filter(|_| !range.is_empty()) {
            for batch in in_memory.batches(memtable, &wanted, self.is_writer()) {
                let at = match (direction, &range.until) {
                    (Direction::Forward, _) => batch.below(&range.from),
                    (Direction::Back, Some(until)) => batch.below(until),
                    (Direction::Back, None) => batch.len(),
                };
                places.push(Place { table, batch, at });
            }
        }
        drop(in_memory);
        let runs = if range.is_empty() { Vec::new() } else { runs };
        let runs = RunKeys::new(runs, direction, range.begin(direction))?;
        Ok(Walk { order, tables, places, runs, range, direction, form: Vec::new() })
    }

    /// Counts the keys of a range: by sums of the runs, and a look-up in them for each key of the
    /// range in memory.
    ///
    /// # Errors
    /// Those of [`Reading::walk`].
    pub(crate) fn count_in(&self, range: &KeyRange) -> Result<u64> {
        if range.is_empty() {
            return self.order_now().map(|_| 0);
        }
        let tail = self.latest.load().tail.ordinal;
        let is_unseen = |a: &&Absent| !a.is_accepted && a.is_value() && a.ordinal.is_none_or(|ordinal| ordinal >= tail);
        if let Some(absent) = self.absent.load().iter().find(is_unseen) {
            return Err(absent.error());
        }
        let mut walk = self.walk(range.clone(), Direction::Forward)?;
        let mut sum = walk.runs.sum_in(&range.from, range.until.as_deref())?;
        while let Some(table) = walk.pass_in_memory() {
            let is_live = walk.key_in(table, |key| self.hash(key))?.is_some();
            sum += i64::from(is_live) - i64::from(walk.runs.has(&walk.form)?);
        }
        self.check_open()?;
        u64::try_from(sum).map_err(|_| unsound("remove more keys than they added", &range.from))
    }
}

impl Walk {
    /// The ordered form of the last key returned; empty before the first.
    pub(crate) fn form(&self) -> &[u8] {
        &self.form
    }

    /// Returns the next key. `hash` is the store's.
    ///
    /// # Errors
    /// `Corrupt`; `Io`. The call may be repeated.
    pub(crate) fn next(&mut self, hash: impl Fn(&[u8]) -> u64) -> Result<Option<Vec<u8>>> {
        loop {
            let (range, direction) = (&self.range, self.direction);
            let in_runs = self.runs.next()?.filter(|form| !range.is_passed(form, direction));
            let in_memory = first(&self.places, range, direction);
            let is_in_memory = match (in_memory, in_runs) {
                (None, None) => return Ok(None),
                (None, Some(_)) => false,
                (Some(_), None) => true,
                (Some(a), Some(b)) if direction == Direction::Forward => a <= b,
                (Some(a), Some(b)) => a >= b,
            };
            let is_in_runs = !is_in_memory || in_memory == in_runs;
            if !is_in_memory {
                self.form.clear();
                self.form.extend_from_slice(in_runs.unwrap_or_default());
            }
            if is_in_runs {
                self.runs.pass();
            }
            let table = if is_in_memory { self.pass_in_memory() } else { None };
            let key = match table {
                Some(table) => self.key_in(table, &hash)?,
                None => Some(key_of(self.order, &self.form)?),
            };
            if key.is_some() {
                return Ok(key);
            }
        }
    }

    /// Moves past the next form in memory, which becomes the walk's form. Returns the newest table
    /// that has it.
    fn pass_in_memory(&mut self) -> Option<usize> {
        let next = first(&self.places, &self.range, self.direction)?;
        self.form.clear();
        self.form.extend_from_slice(next);
        let mut newest = usize::MAX;
        for place in &mut self.places {
            if place.next(self.direction) == Some(&self.form) {
                newest = newest.min(place.table);
                match self.direction {
                    Direction::Forward => place.at += 1,
                    Direction::Back => place.at -= 1,
                }
            }
        }
        Some(newest)
    }

    /// The key of the walk's form if it is live, according to a table that has it.
    fn key_in(&self, table: usize, hash: impl Fn(&[u8]) -> u64) -> Result<Option<Vec<u8>>> {
        let key = key_of(self.order, &self.form)?;
        let table = if table == 0 { Some(&self.tables.active) } else { self.tables.frozen.as_ref() };
        let found = table.and_then(|table| table.find(hash(&key), &key));
        Ok(found.and_then(|found| found.best).map(|_| key))
    }
}

/// The next form of a range in memory.
fn first<'p>(places: &'p [Place], range: &KeyRange, direction: Direction) -> Option<&'p [u8]> {
    let forms = places.iter().filter_map(|place| place.next(direction));
    let first = match direction {
        Direction::Forward => forms.min(),
        Direction::Back => forms.max(),
    };
    first.filter(|form| !range.is_passed(form, direction))
}

/// The key of an ordered form.
fn key_of(order: KeyOrder, form: &[u8]) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    if (order.key)(form, &mut key) {
        return Ok(key);
    }
    Err(unsound("have a form that is not a key in this order", form))
}
