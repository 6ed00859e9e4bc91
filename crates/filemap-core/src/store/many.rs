//! Batched gets: the reads of several keys are started before the first is awaited, so that the
//! device sees them together. Large batches are decompressed on several processors.

use std::collections::VecDeque;

use crate::error::Result;
use crate::record::Value;
use crate::store::Store;
use crate::upkeep::worker::{processors, side_by_side};

/// Reads started ahead.
const AHEAD: usize = 64;
/// Keys per thread: starting a thread takes about as long as getting three pages.
const KEYS_A_THREAD: usize = 16;

impl Store {
    /// The newest versions of many keys, in the order of the keys. Index pages and value records
    /// of up to 64 keys are requested from the device together. From 32 keys on several threads
    /// work: one for each 16 keys, at most one per processor. If the keys and their pages do not
    /// fit in memory, use [`Store::get_ahead`].
    ///
    /// # Errors
    /// The error of the first key that fails.
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let threads = processors().min(keys.len() / KEYS_A_THREAD).max(1);
        let get = |keys: &[&[u8]]| self.get_ahead(keys, AHEAD.min(keys.len())).map(|(_, value)| value).collect();
        if threads == 1 {
            return get(keys);
        }
        let parts: Vec<&[&[u8]]> = keys.chunks(keys.len().div_ceil(threads)).collect();
        let mut values = Vec::with_capacity(keys.len());
        for part in side_by_side(&parts, &|part| get(part)) {
            values.append(&mut part?);
        }
        Ok(values)
    }

    /// The newest versions of keys from an iterator, each with its key, in order. While one is
    /// decompressed, the value records of the next `depth` keys are being read, and the index
    /// pages of as many keys after those. A `depth` of 1 or 0 reads nothing ahead. Up to twice
    /// `depth` keys are taken from the iterator before their values are returned. Each value is
    /// the newest when it is returned.
    ///
    /// # Errors
    /// Each key has its own; later keys are not affected.
    ///
    /// ```
    /// # use filemap_core::{Options, Record, Store};
    /// # let temp = tempfile::tempdir()?;
    /// # let store = Store::create(temp.path().join("pages"), Options::new())?;
    /// store.put(&Record::new(b"http://a.example/", b"A page."))?;
    /// for (key, value) in store.get_ahead(["http://a.example/", "http://b.example/"], 32) {
    ///     println!("{key}: {:?} bytes", value?.map(|value| value.body.len()));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_ahead<I>(&self, keys: I, depth: usize) -> GetAhead<'_, I::IntoIter>
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        GetAhead { store: self, keys: keys.into_iter(), depth, sought: VecDeque::new(), read: VecDeque::new() }
    }

    /// Requests a value record from the device. If its index page is unreadable, the get reports
    /// that.
    fn will_need_value(&self, key: &[u8], hash: u64) {
        let values = &self.reading.values();
        match self.reading.in_memtables(key, hash) {
            (Some(entry), _) => values.will_need(entry.extent.location, entry.extent.size()),
            (None, floor) if floor > 0 => {}
            (None, _) => {
                let candidates = self.reading.candidates(hash);
                candidates.iter().flat_map(|c| c.iter()).for_each(|slot| values.will_need(slot.location, slot.size));
            }
        }
    }
}

/// Iterates over values, reading ahead; see [`Store::get_ahead`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let at = temp.path().join("a");
/// # let store = filemap_core::Store::create(at, filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page."))?;
/// let mut ahead = store.get_ahead(["http://a.example/", "http://b.example/"], 32);
/// let (key, value) = ahead.next().expect("the first of two");
/// assert!(key == "http://a.example/" && value?.is_some());
/// assert_eq!(ahead.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GetAhead<'a, I: Iterator> {
    store: &'a Store,
    keys: I,
    depth: usize,
    /// Keys whose index pages are being read, with their hashes.
    sought: VecDeque<(I::Item, u64)>,
    /// Keys whose values are being read.
    read: VecDeque<I::Item>,
}

impl<I: Iterator<Item: AsRef<[u8]>>> GetAhead<'_, I> {
    fn begin_reads(&mut self) {
        loop {
            while self.sought.len() < self.depth
                && let Some(key) = self.keys.next()
            {
                let hash = self.store.reading.hash(key.as_ref());
                self.store.reading.index().will_look(std::iter::once(hash));
                self.sought.push_back((key, hash));
            }
            if self.read.len() >= self.depth {
                return;
            }
            let Some((key, hash)) = self.sought.pop_front() else { return };
            self.store.will_need_value(key.as_ref(), hash);
            self.read.push_back(key);
        }
    }
}

impl<I: Iterator<Item: AsRef<[u8]>>> Iterator for GetAhead<'_, I> {
    type Item = (I::Item, Result<Option<Value>>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = if self.depth <= 1 {
            // Nothing to overlap with the read.
            self.keys.next()?
        } else {
            self.begin_reads();
            self.read.pop_front()?
        };
        let value = self.store.get(key.as_ref());
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.keys.size_hint();
        let begun = self.sought.len() + self.read.len();
        (least.saturating_add(begun), most.and_then(|most| most.checked_add(begun)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Record};

    #[test]
    fn values_come_in_the_order_of_the_keys_however_many_threads_there_are() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a");
        // No cache: it would hide the damage.
        let options = Options::new().compression_level(0).free_space_floor(0).value_cache_bytes(0);
        let store = Store::create(&path, options).unwrap();
        let key = |i: u32| format!("http://host.example/{i}").into_bytes();
        let body = |i: u32| format!("{i} ").repeat(100 + i as usize).into_bytes();
        let is_there = |i: u32| !i.is_multiple_of(7);
        for i in (0..500).filter(|i| is_there(*i)) {
            store.put(&Record::new(&key(i), &body(i))).unwrap();
            if i == 400 {
                store.checkpoint().unwrap();
            }
        }
        for count in [0, 1, 2, 31, 32, 33, 64, 65, 500] {
            let keys: Vec<Vec<u8>> = (0..count).map(|i| key(i * 37 % 500)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let values = store.get_many(&keys).unwrap();
            assert_eq!(values.len(), keys.len());
            for (value, i) in values.iter().zip((0..).map(|i| i * 37 % 500)) {
                assert!(value.as_ref().map(|v| &v.body) == is_there(i).then(|| body(i)).as_ref(), "{i} of {count}");
            }
            for depth in [0, 1, 2, 7, 500, 1000] {
                let mut ahead = store.get_ahead(&keys, depth);
                for (n, key) in keys.iter().enumerate() {
                    assert_eq!(ahead.size_hint(), (keys.len() - n, Some(keys.len() - n)));
                    let (of, value) = ahead.next().unwrap();
                    assert_eq!((of, value.unwrap()), (key, values[n].clone()), "{n} of {count} at depth {depth}");
                }
                assert!(ahead.next().is_none());
            }
        }
        // The error is that of the first unreadable key in order, whichever thread found it.
        let place = store.head(&key(450)).unwrap().unwrap().place;
        let file = path.join("value0.dat");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[place.offset as usize + 200..].fill(7);
        std::fs::write(&file, bytes).unwrap();
        let keys: Vec<Vec<u8>> = (420..500).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let error = store.get_many(&keys).unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains(&place.offset.to_string()), "{error}");
        // The other keys are not affected.
        let is_read =
            |(key, value): (&&[u8], Result<Option<Value>>)| value.is_ok_and(|value| value == store.get(key).unwrap());
        let good: Vec<&[u8]> = keys.iter().copied().filter(|key| store.get(key).is_ok()).collect();
        assert!(good.len() > 20 && good.len() < keys.len(), "{}", good.len());
        assert_eq!(store.get_ahead(&keys, 8).filter(|(_, value)| value.is_ok()).count(), good.len());
        assert!(store.get_ahead(&good, 8).all(is_read));
    }

    #[test]
    fn a_value_is_the_newest_when_it_is_handed_out() {
        let temp = tempfile::tempdir().unwrap();
        let store = Store::create(temp.path().join("a"), Options::new().free_space_floor(0)).unwrap();
        for i in 1..=20u8 {
            store.put(&Record::new(&[i], b"old")).unwrap();
        }
        store.checkpoint().unwrap();
        let mut ahead = store.get_ahead((1..=20u8).map(|i| [i]), 8);
        assert_eq!(ahead.next().unwrap().1.unwrap().unwrap().body, b"old");
        store.put(&Record::new(&[2], b"new")).unwrap();
        assert!(store.remove(&[3]).unwrap());
        assert_eq!(ahead.next().unwrap().1.unwrap().unwrap().body, b"new");
        assert_eq!(ahead.next().unwrap().1.unwrap(), None);
        assert_eq!(ahead.count(), 17);
    }
}
