//! Lists and counts of keys in the order of [`Options::key_order`](crate::Options::key_order).

use std::sync::Arc;
use std::vec::IntoIter;

use filemap_runs::ordered::Direction;

use crate::error::{Error, Result};
use crate::handle::reading::{KeyRange, Reading, Walk};
use crate::store::Store;

/// Keys of a range in order, as of the call: see [`Store::keys_in`].
///
/// ```
/// # use filemap_core::list::KeyOrder;
/// # use filemap_core::{Options, Record, Store};
/// # use filemap_core::list::{Direction, KeyRange};
/// # fn as_they_are(bytes: &[u8], out: &mut Vec<u8>) { out.extend_from_slice(bytes) }
/// # fn always(bytes: &[u8], out: &mut Vec<u8>) -> bool { out.extend_from_slice(bytes); true }
/// # let bytes = KeyOrder { name: "bytes", ordered: as_they_are, key: always, groups: None };
/// # let temp = tempfile::tempdir()?;
/// let store = Store::create(temp.path().join("a"), Options::new().key_order(bytes))?;
/// for key in [b"b", b"c", b"a"] {
///     store.put(&Record::new(key, b"A page."))?;
/// }
/// let mut keys = store.keys_in(KeyRange::all(), Direction::Forward)?;
/// assert_eq!(keys.next().transpose()?, Some(b"a".to_vec()));
/// // Later, and perhaps elsewhere:
/// let rest = store.keys_in(KeyRange::all().after(keys.form()), Direction::Forward)?;
/// assert_eq!(rest.collect::<filemap_core::Result<Vec<_>>>()?, [b"b", b"c"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeysInOrder {
    reading: Arc<Reading>,
    walk: Walk,
    /// Errors for missing files; set at the end.
    missed: Option<IntoIter<Error>>,
    has_all: bool,
}

filemap_io::debug_fields!(KeysInOrder: walk);

impl KeysInOrder {
    /// The ordered form of the last key returned. A later list continues from it with
    /// [`KeyRange::after`] or, backwards, [`KeyRange::before`]. Empty before the first key.
    pub fn form(&self) -> &[u8] {
        self.walk.form()
    }

    /// Returns whether all keys were returned that existing files hold. An error after that is
    /// about a missing file; one before it cuts the list short.
    pub fn has_given_all(&self) -> bool {
        self.has_all
    }
}

impl Iterator for KeysInOrder {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        if let Some(missed) = &mut self.missed {
            return missed.next().map(Err);
        }
        let next = self.reading.check_open().and_then(|()| self.walk.next(|key| self.reading.hash(key)));
        match next {
            Ok(Some(key)) => Some(Ok(key)),
            Ok(None) => {
                self.has_all = true;
                self.missed.insert(self.reading.missed().into_iter()).next().map(Err)
            }
            Err(e) => {
                self.missed = Some(Vec::new().into_iter());
                Some(Err(e))
            }
        }
    }
}

impl Store {
    /// Returns whether the store keeps its keys in the order of the options. A store created
    /// without an order keeps none until it is repaired.
    pub fn has_key_order(&self) -> bool {
        self.reading.has_order()
    }

    /// Lists the keys of a range of ordered forms, in either direction, as of the call. A key put
    /// or removed meanwhile may or may not be included. Reads one or two blocks for each run at
    /// the beginning, then a block of about 4 KiB for every hundred keys; no page, and nothing of
    /// the key log. The first list after many puts sorts their keys: about half a microsecond
    /// each. Within a group ([`KeyGroups`](crate::list::KeyGroups)) of up to 32,768 new keys it
    /// reads only those.
    ///
    /// The list ends after an error. Like every list, it ends with one for each missing file.
    ///
    /// # Errors
    /// `InvalidOption` if the store keeps no order or a different one; `Corrupt`; `Io`; `Closed`.
    pub fn keys_in(&self, range: KeyRange, direction: Direction) -> Result<KeysInOrder> {
        let walk = self.reading.walk(range, direction)?;
        Ok(KeysInOrder { reading: Arc::clone(&self.reading), walk, missed: None, has_all: false })
    }

    /// Counts the keys of a range of ordered forms without listing them: reads a few blocks for
    /// each run, and some for each key of the range that was put or removed since the last
    /// checkpoint.
    ///
    /// # Errors
    /// As [`Store::keys_in`]; `Corrupt` if a segment is missing that no checkpoint has fully
    /// indexed: its keys are unknown.
    pub fn count_in(&self, range: &KeyRange) -> Result<u64> {
        self.reading.count_in(range)
    }
}
