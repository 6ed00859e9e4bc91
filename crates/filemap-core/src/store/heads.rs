//! Iteration over versions without their bodies: sizes, times and metas in the order of the log.
//!
//! Only metas are decompressed, so a whole store is scanned at the speed of its files.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::Result;
use crate::handle::spot::Spot;
use crate::record::{Head, Version};
use crate::store::{Pages, Store};

/// A version in an iteration, without its body.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let listed = store.heads().next().expect("one page")?;
/// assert_eq!(listed.key, b"http://a.example/");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its key.
    pub key: Vec<u8>,
    /// The version without its body.
    pub head: Head,
    /// The version is its key's newest.
    pub is_newest: bool,
}

/// Iterates over heads; see [`Store::heads`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// assert_eq!(store.heads().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Heads(pub(super) Pages);

impl Store {
    /// [`Store::pages`] without the bodies: a sequential read of the whole value log that
    /// decompresses only metas.
    pub fn heads(&self) -> Heads {
        Heads(Pages::new(Arc::clone(&self.reading), None, true))
    }

    /// [`Store::heads`] with every live version of each key. An earlier version also costs reads
    /// of its key's records in the key log.
    pub fn version_heads(&self) -> Heads {
        Heads(Pages::new(Arc::clone(&self.reading), None, false))
    }
}

impl Heads {
    /// Only versions that `only` accepts by key, time and sequence. Of others only the record's
    /// head is read.
    pub fn only(self, only: impl Fn(&[u8], Version) -> bool + Send + 'static) -> Heads {
        Heads(self.0.only(only))
    }

    /// As [`Pages::while_going`].
    pub fn while_going(self, going: impl FnMut() -> ControlFlow<()> + Send + 'static) -> Heads {
        Heads(self.0.while_going(going))
    }
}

fn head(pages: &mut Pages, key: Vec<u8>, spot: &Spot) -> Result<Option<Listed>> {
    let reading = pages.reading();
    let met = pages.met(&key, spot, |rank, now| Ok((rank, Pages::read_head(&reading, &key, now)?)))?;
    Ok(met.map(|(rank, head)| Listed { key, head, is_newest: rank == 0 }))
}

impl Iterator for Heads {
    type Item = Result<Listed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.advance(head)
    }
}

#[cfg(test)]
mod tests {
    use crate::store::Listed;
    use crate::{Options, Record, Store};

    fn sorted(heads: impl Iterator<Item = crate::Result<Listed>>) -> Vec<(Vec<u8>, i64, u64, bool)> {
        let row = |l: Listed| (l.key, l.head.version.time_ms, l.head.body_bytes, l.is_newest);
        let mut rows: Vec<_> = heads.map(|l| row(l.unwrap())).collect();
        rows.sort();
        rows
    }

    #[test]
    fn a_break_ends_it_though_nothing_is_returned() {
        use std::ops::ControlFlow;

        let temp = tempfile::tempdir().unwrap();
        let store = Store::create(temp.path().join("a"), Options::new().free_space_floor(0)).unwrap();
        for time_ms in 0..100 {
            store.put(&Record::new(b"replaced", b"x").time(time_ms)).unwrap();
            store.put(&Record::new(b"unwanted", b"x").time(time_ms)).unwrap();
        }
        let mut left = 50;
        let going = move || {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut heads = store.heads().only(|key, _| key == b"replaced").while_going(going);
        assert!(matches!(heads.next(), Some(Err(crate::Error::Cancelled))));
        assert!(heads.next().is_none() && heads.next().is_none());
        let mut pages = store.pages().while_going(|| ControlFlow::Break(()));
        assert!(matches!(pages.next(), Some(Err(crate::Error::Cancelled))) && pages.next().is_none());
        assert_eq!(store.pages().while_going(|| ControlFlow::Continue(())).count(), 2);
    }

    #[test]
    fn heads_tell_of_every_live_version_and_which_is_the_newest() {
        let temp = tempfile::tempdir().unwrap();
        let store = Store::create(temp.path().join("a"), Options::new().free_space_floor(0)).unwrap();
        let put = |key: &[u8], time_ms, body: &[u8]| store.put(&Record::new(key, body).time(time_ms)).unwrap();
        put(b"a", 2, b"two");
        put(b"gone", 1, b"x");
        put(b"a", 1, b"first");
        store.remove(b"gone").unwrap();
        put(b"b", 5, b"");
        let row = |key: &[u8], time_ms, bytes, is_newest| (key.to_vec(), time_ms, bytes, is_newest);
        let every = [row(b"a", 1, 5, false), row(b"a", 2, 3, true), row(b"b", 5, 0, true)];
        let newest = [row(b"a", 2, 3, true), row(b"b", 5, 0, true)];
        // First from memory, then from the index, then with a newer version in memory.
        for _ in 0..2 {
            assert_eq!(sorted(store.version_heads()), every);
            assert_eq!(sorted(store.heads()), newest);
            store.checkpoint().unwrap();
        }
        put(b"b", 6, b"sixth");
        let rows = sorted(store.version_heads());
        assert_eq!(rows[2..], [row(b"b", 5, 0, false), row(b"b", 6, 5, true)]);
        let times = |key| store.versions_of(key).unwrap().iter().map(|v| v.time_ms).collect::<Vec<_>>();
        assert_eq!((times(b"a"), times(b"b"), times(b"gone")), (vec![2, 1], vec![6, 5], vec![]));
    }
}
