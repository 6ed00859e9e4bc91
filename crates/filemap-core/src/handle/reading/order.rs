//! Keys in order: the runs of a superblock, and the keys of the memtables, as one list.
//!
//! A memtable's word counts for its keys, whatever the runs say: a checkpoint may be entering them.
//! Its keys are sorted when a list asks for them, and only those added since the last list; so a put
//! pays nothing.

use std::ops::Bound;
use std::sync::{Arc, Weak};

use filemap_runs::ordered::{Change, Direction, Merge, Run, Source, sort};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::key_runs::{Behind, KeyRuns};
use crate::format::names;
use crate::handle::reading::{Reading, Tables};
use crate::handle::recover::Absent;
use crate::index::memtable::Memtable;
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
    /// The first form that may be in it.
    pub from: Vec<u8>,
    /// The first form above it; `None` if there is no bound.
    pub until: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    pub fn all() -> KeyRange {
        KeyRange::default()
    }

    /// The part above this form: where a list forwards goes on that has given it.
    pub fn after(mut self, form: &[u8]) -> KeyRange {
        self.from = self.from.max([form, &[0]].concat());
        self
    }

    /// The part below this form: where a list backwards goes on that has given it.
    pub fn before(mut self, form: &[u8]) -> KeyRange {
        let until = self.until.filter(|until| &until[..] <= form);
        self.until = Some(until.unwrap_or_else(|| form.to_vec()));
        self
    }

    fn is_empty(&self) -> bool {
        self.until.as_ref().is_some_and(|until| *until <= self.from)
    }

    /// Where a walk begins.
    fn begin(&self, direction: Direction) -> Bound<&[u8]> {
        match (direction, &self.until) {
            (Direction::Forward, _) => Bound::Included(&self.from),
            (Direction::Back, Some(until)) => Bound::Excluded(until),
            (Direction::Back, None) => Bound::Unbounded,
        }
    }

    /// Whether a walk that has met this form has come to its end.
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

/// Ordered forms of a memtable's keys, sorted.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Offset and length of each form.
    forms: Vec<(usize, u32)>,
}

impl Batch {
    fn form(&self, at: usize) -> &[u8] {
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

    /// How many forms lie before the place where a walk begins.
    fn split(&self, direction: Direction, from: Bound<&[u8]>) -> usize {
        let below = |is_below: &dyn Fn(&[u8]) -> bool| {
            self.forms.partition_point(|&(offset, len)| is_below(&self.bytes[offset..][..len as usize]))
        };
        match (direction, from) {
            (Direction::Forward, Bound::Unbounded) => 0,
            (Direction::Back, Bound::Unbounded) => self.forms.len(),
            (_, Bound::Included(key) | Bound::Excluded(key)) => below(&|form| form < key),
        }
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
    fn batches(&mut self, table: &Arc<Memtable>, order: KeyOrder) -> Vec<Arc<Batch>> {
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

/// A place in a batch: the forms passed or, backwards, those to come.
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
        (at < self.batch.forms.len()).then(|| self.batch.form(at))
    }
}

/// The runs of a walk, and the key that it has come to.
#[derive(Debug)]
struct Runs {
    merge: Merge<'static>,
    next: Option<Vec<u8>>,
    /// Whether `next` is read.
    is_read: bool,
}

impl Runs {
    fn next(&mut self) -> Result<Option<&[u8]>> {
        if !self.is_read {
            self.next = match self.merge.next_entry()? {
                Some((form, Change::Removed)) => return Err(unsound("have removed a key that they had not", form)),
                Some((form, Change::Added)) => Some(form.to_vec()),
                None => None,
            };
            self.is_read = true;
        }
        Ok(self.next.as_deref())
    }
}

/// A walk over the keys of a range, as of its beginning.
#[derive(Debug)]
pub(crate) struct Walk {
    order: KeyOrder,
    tables: Arc<Tables>,
    places: Vec<Place>,
    runs: Runs,
    range: KeyRange,
    direction: Direction,
    /// The ordered form of the last key.
    form: Vec<u8>,
}

/// Entries read on the way to a key before it is searched instead.
const STEPS: usize = 32;

impl Reading {
    /// The order of the store, and its runs as of now.
    ///
    /// # Errors
    /// `InvalidOption` without an order, or with another.
    fn order_now(&self) -> Result<(KeyOrder, KeyRuns)> {
        let missing = |why: &str| Error::option("key_order", why);
        let order = self.options.key_order.ok_or_else(|| missing("no order of keys was given"))?;
        // Before the table. The writer of a store without keys may not have named its order yet.
        let is_empty = !self.is_writer() && self.latest.load().index.keys == 0;
        let named = match &self.segment_table.load().order {
            Some(named) => named.clone(),
            None if is_empty => KeyRuns::none(order.name, 1),
            None => return Err(missing("the store keeps no keys in order; a repair with this option makes it do so")),
        };
        match named.order == KeyRuns::order_of(order.name) {
            true => Ok((order, named)),
            false => Err(missing("the store keeps its keys in another order")),
        }
    }

    /// Tells that the store has lost its order.
    pub(crate) fn order_ended(&self, why: &str) {
        let event = Event::OrderEnded { why: why.to_owned() };
        self.counters.failed(&Error::corrupt(names::KEY_RUNS, 0, event.to_string()));
        self.emit(&event);
    }

    /// Whether the store keeps its keys in the order of the options.
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
            // Before the runs: what leaves a table is in a run by then.
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

    /// Whether a follower's table has what the writer's checkpoint, in the middle, enters in the
    /// index. If not, it follows.
    ///
    /// # Errors
    /// `Corrupt` if the log does not give it.
    fn has_followed(&self, behind: Behind, tables: &Tables) -> Result<bool> {
        let has_all = |entries| entries >= behind.entries;
        if self.log_end().1 >= behind.before && has_all(tables.active.entries()) {
            return Ok(true);
        }
        self.follow_writer()?;
        let is_same = self.segment_table.load().order.as_ref().is_some_and(|named| named.behind == Some(behind));
        if is_same && !(self.log_end().1 >= behind.before && has_all(self.tables.load().active.entries())) {
            let what = "the log that they are behind of is damaged; open the store for writing";
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
        let mut places = Vec::new();
        for (table, memtable) in [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten().enumerate() {
            for batch in in_memory.batches(memtable, order) {
                let at = batch.split(direction, range.begin(direction));
                places.push(Place { table, batch, at });
            }
        }
        drop(in_memory);
        let sources = if range.is_empty() { Vec::new() } else { runs.into_iter().map(Source::Run).collect() };
        let merge = Merge::new(sources, direction, range.begin(direction))?;
        let runs = Runs { merge, next: None, is_read: false };
        Ok(Walk { order, tables, places, runs, range, direction, form: Vec::new() })
    }

    /// Counts the keys of a range: by sums of the runs, and a look into them for each key of the
    /// range in memory.
    ///
    /// # Errors
    /// As of [`Reading::walk`].
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
        let mut sum = walk.runs.merge.sum_in(&range.from, range.until.as_deref())?;
        while let Some(newest) = walk.next_in_memory() {
            let (form, key, is_live) = walk.word_of(newest, |key| self.hash(key))?;
            drop(key);
            sum += i64::from(is_live) - i64::from(walk.is_in_runs(&form)?);
        }
        self.check_open()?;
        u64::try_from(sum).map_err(|_| unsound("have removed more keys than they had", &range.from))
    }
}

impl Walk {
    /// The ordered form of the key given last; empty before the first.
    pub(crate) fn form(&self) -> &[u8] {
        &self.form
    }

    /// The next key. `hash` is the store's.
    ///
    /// # Errors
    /// `Corrupt`; `Io`. Another call tries again.
    pub(crate) fn next(&mut self, hash: impl Fn(&[u8]) -> u64) -> Result<Option<Vec<u8>>> {
        loop {
            let in_memory = self.first_in_memory();
            let in_runs = self.runs.next()?.filter(|form| !self.range.is_passed(form, self.direction));
            let is_from_memory = match (in_memory.map(|nth| self.places[nth].next(self.direction)), in_runs) {
                (None | Some(None), None) => return Ok(None),
                (None | Some(None), Some(_)) => false,
                (Some(_), None) => true,
                (Some(Some(a)), Some(b)) => match self.direction {
                    Direction::Forward => a <= b,
                    Direction::Back => a >= b,
                },
            };
            if !is_from_memory {
                self.form.clear();
                self.form.extend_from_slice(in_runs.unwrap_or_default());
                self.runs.is_read = false;
                return self.key().map(Some);
            }
            let Some(newest) = self.next_in_memory() else { return Ok(None) };
            let (form, key, is_live) = self.word_of(newest, &hash)?;
            if self.runs.next.as_ref() == Some(&form) {
                self.runs.is_read = false;
            }
            self.form = form;
            if is_live {
                return Ok(Some(key));
            }
        }
    }

    /// The key of `form`.
    fn key(&self) -> Result<Vec<u8>> {
        key_of(self.order, &self.form)
    }

    /// The place in memory with the next form of the range.
    fn first_in_memory(&self) -> Option<usize> {
        let forms = self.places.iter().enumerate().filter_map(|(nth, place)| Some((place.next(self.direction)?, nth)));
        let first = match self.direction {
            Direction::Forward => forms.min_by_key(|(form, _)| *form),
            Direction::Back => forms.max_by_key(|(form, _)| *form),
        };
        first.filter(|(form, _)| !self.range.is_passed(form, self.direction)).map(|(_, nth)| nth)
    }

    /// Passes the next form in memory. Returns it, and the newest table that has it.
    fn next_in_memory(&mut self) -> Option<(usize, Vec<u8>)> {
        let first = self.first_in_memory()?;
        let form = self.places[first].next(self.direction)?.to_vec();
        let mut newest = usize::MAX;
        for place in &mut self.places {
            if place.next(self.direction) == Some(&form) {
                newest = newest.min(place.table);
                match self.direction {
                    Direction::Forward => place.at += 1,
                    Direction::Back => place.at -= 1,
                }
            }
        }
        Some((newest, form))
    }

    /// What a table says of a key: form, key, whether it is there.
    fn word_of(
        &self,
        (table, form): (usize, Vec<u8>),
        hash: impl Fn(&[u8]) -> u64,
    ) -> Result<(Vec<u8>, Vec<u8>, bool)> {
        let key = key_of(self.order, &form)?;
        let table = if table == 0 { Some(&self.tables.active) } else { self.tables.frozen.as_ref() };
        let found = table.and_then(|table| table.find(hash(&key), &key));
        Ok((form, key, found.is_some_and(|found| found.best.is_some())))
    }

    /// Whether the runs have a key. No later question may be of a lower one.
    fn is_in_runs(&mut self, form: &[u8]) -> Result<bool> {
        let mut steps = 0;
        while self.runs.next()?.is_some_and(|next| next < form) {
            if steps == STEPS {
                self.runs.merge.seek(Direction::Forward, Bound::Included(form))?;
            }
            steps += 1;
            self.runs.is_read = false;
        }
        Ok(self.runs.next.as_deref() == Some(form))
    }
}

/// The key of an ordered form.
fn key_of(order: KeyOrder, form: &[u8]) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    if (order.key)(form, &mut key) {
        return Ok(key);
    }
    Err(unsound("have what is no key in this order", form))
}

/// The error of runs that are whole and cannot be right.
fn unsound(what: &str, form: &[u8]) -> Error {
    let shown = String::from_utf8_lossy(&form[..form.len().min(80)]).into_owned();
    Error::corrupt(names::KEY_RUNS, 0, format!("the runs of keys in order {what}: {shown:?}; a repair makes them anew"))
}
