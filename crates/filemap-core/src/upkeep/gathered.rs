//! Changes of keys in order that a checkpoint has gathered, until they are written as a run: keys
//! that came to the index and keys that went.
//!
//! A run is written at the end of a checkpoint and not with each stage, so after a crash in the
//! middle the index is ahead of the runs by keys of the checkpoint's table. All of these are in
//! the log after the tail. So the first checkpoint after recovery notes for each key of its table
//! whether the index has it, and the changes missing from the runs are found by comparison. A key
//! that a task has removed is in no log: its stage must write a run.

use filemap_runs::ordered::{Change, Entry, sort};

use crate::error::Result;
use crate::options::KeyOrder;
use crate::sync::make_way;

/// Entries processed in about a tenth of a millisecond.
const SOME_ENTRIES: usize = 1024;

/// Change noted for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Came,
    Went,
    /// True if it is in the index; the runs may not say so yet.
    Is(bool),
}

/// An ordered form, as a range of the shared bytes, and the change noted for its key.
#[derive(Clone, Copy, Debug)]
struct Noted {
    at: usize,
    bytes: u32,
    news: News,
}

/// The changes gathered over some stages.
#[derive(Debug)]
pub(crate) struct Gathered {
    order: KeyOrder,
    bytes: Vec<u8>,
    noted: Vec<Noted>,
    is_due: bool,
}

impl Gathered {
    /// Starts without changes.
    pub(crate) fn new(order: KeyOrder) -> Gathered {
        Gathered { order, bytes: Vec::new(), noted: Vec::new(), is_due: false }
    }

    /// Notes a change of a key.
    pub(crate) fn note(&mut self, key: &[u8], news: News) {
        let at = self.bytes.len();
        (self.order.ordered)(key, &mut self.bytes);
        self.noted.push(Noted { at, bytes: (self.bytes.len() - at) as u32, news });
    }

    /// Marks a run as due: the next stage must write it.
    pub(crate) fn be_due(&mut self) {
        self.is_due = true;
    }

    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.noted.is_empty()
    }

    /// Approximate memory use in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.noted.len() * size_of::<Noted>()
    }

    /// The changes, in order, each key once, without those that cancel out. `is_in_runs` is called
    /// with ascending ordered forms.
    pub(crate) fn changes(&mut self, is_in_runs: &mut dyn FnMut(&[u8]) -> Result<bool>) -> Result<Vec<Entry<'_>>> {
        let bytes = &self.bytes;
        sort(&mut self.noted, &|noted| form(&noted, bytes), &make_way);
        let mut changes = Vec::with_capacity(self.noted.len());
        let keys = self.noted.chunk_by(|a, b| form(a, &self.bytes) == form(b, &self.bytes));
        for (nth, same) in keys.enumerate() {
            if nth % SOME_ENTRIES == 0 {
                make_way();
            }
            let key = form(&same[0], &self.bytes);
            let mut sum = 0;
            for noted in same {
                sum += match noted.news {
                    News::Came => 1,
                    News::Went => -1,
                    News::Is(is_there) => i64::from(is_there) - i64::from(is_in_runs(key)?),
                };
            }
            match sum {
                0 => {}
                1.. => changes.push((key, Change::Added)),
                _ => changes.push((key, Change::Removed)),
            }
        }
        Ok(changes)
    }

    /// Forgets the changes, which are now in a run.
    pub(crate) fn clear(&mut self) {
        (self.bytes, self.noted, self.is_due) = (Vec::new(), Vec::new(), false);
    }
}

fn form<'b>(noted: &Noted, bytes: &'b [u8]) -> &'b [u8] {
    &bytes[noted.at..][..noted.bytes as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_they_are(bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
    }

    fn always(bytes: &[u8], out: &mut Vec<u8>) -> bool {
        as_they_are(bytes, out);
        true
    }

    const BYTES: KeyOrder = KeyOrder { name: "bytes", ordered: as_they_are, key: always, groups: None };

    #[test]
    fn changes_come_in_order_and_what_cancels_is_left_out() {
        let mut gathered = Gathered::new(BYTES);
        for (key, news) in [
            (&b"d"[..], News::Came),
            (b"b", News::Went),
            (b"c", News::Came),
            (b"a", News::Came),
            (b"c", News::Went),
            // In the runs, still there; not in the runs, there; in the runs, gone.
            (b"old", News::Is(true)),
            (b"new", News::Is(true)),
            (b"older", News::Is(false)),
            // Entered, then removed by a task.
            (b"short", News::Is(true)),
            (b"short", News::Went),
        ] {
            gathered.note(key, news);
        }
        let mut asked = Vec::new();
        let mut is_in_runs = |key: &[u8]| {
            asked.push(key.to_vec());
            Ok(key.starts_with(b"old"))
        };
        let changes = gathered.changes(&mut is_in_runs).unwrap();
        let (added, removed) = (Change::Added, Change::Removed);
        let expected: [Entry<'_>; 5] =
            [(b"a", added), (b"b", removed), (b"d", added), (b"new", added), (b"older", removed)];
        assert_eq!(changes, expected);
        assert!(asked.is_sorted() && asked.len() == 4);
        gathered.clear();
        assert!(gathered.is_empty() && gathered.memory_bytes() == 0);
    }

    #[test]
    fn many_are_sorted() {
        let mut gathered = Gathered::new(BYTES);
        let mut random = fastrand::Rng::with_seed(7);
        let mut keys: Vec<u32> = (0..5000).collect();
        random.shuffle(&mut keys);
        keys.iter().for_each(|key| gathered.note(&key.to_be_bytes(), News::Came));
        let changes = gathered.changes(&mut |_| Ok(false)).unwrap();
        assert!(changes.len() == 5000 && changes.is_sorted_by(|a, b| a.0 < b.0));
    }
}
