//! Many gets at once: the reads of all are begun before the first is waited for, so that the device sees them together; and of a large
//! batch each processor expands a part.

use crate::error::Result;
use crate::record::Value;
use crate::store::Store;
use crate::worker::{processors, side_by_side};

/// So many reads are begun ahead.
const AHEAD: usize = 64;
/// For fewer keys than these a thread is not worth starting: it takes about as long as to get three pages.
const KEYS_A_THREAD: usize = 16;

impl Store {
    /// The newest versions of many keys, in the order of the keys. Index pages and value records of up to 64 keys are
    /// requested from the device together. From 32 keys on more than one thread works on them: one for each 16 keys, but no more
    /// than there are processors.
    ///
    /// # Errors
    /// The error of the first get that has one.
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let threads = processors().min(keys.len() / KEYS_A_THREAD).max(1);
        if threads == 1 {
            return self.get_ahead(keys);
        }
        let parts: Vec<&[&[u8]]> = keys.chunks(keys.len().div_ceil(threads)).collect();
        let mut values = Vec::with_capacity(keys.len());
        for part in side_by_side(&parts, &|part| self.get_ahead(part)) {
            values.append(&mut part?);
        }
        Ok(values)
    }

    fn get_ahead(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        if let [key] = keys {
            // There is nothing to do while it is read.
            return Ok(vec![self.get(key)?]);
        }
        let mut values = Vec::with_capacity(keys.len());
        let hashes: Vec<u64> = keys.iter().map(|k| self.shared.hash(k)).collect();
        for (keys, hashes) in keys.chunks(AHEAD).zip(hashes.chunks(AHEAD)) {
            for hash in hashes {
                self.shared.index.will_need(*hash);
            }
            for (key, hash) in keys.iter().zip(hashes) {
                match self.shared.recent(key, *hash) {
                    (Some(entry), _) => self.shared.segments.will_need(entry.extent.location, entry.extent.size()),
                    (None, floor) if floor > 0 => {}
                    (None, _) => {
                        for slot in self.shared.candidates(*hash)?.iter() {
                            self.shared.segments.will_need(slot.location, slot.size);
                        }
                    }
                }
            }
            for key in keys {
                values.push(self.get(key)?);
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, Record, Store};

    #[test]
    fn values_come_in_the_order_of_the_keys_however_many_threads_there_are() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a");
        let store = Store::create(&path, Options::new().compression_level(0).free_space_floor(0)).unwrap();
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
        }
        // The first key in their order that cannot be read is the one that is told of, whichever thread met it.
        let place = store.head(&key(450)).unwrap().unwrap().place;
        let file = path.join("value0.dat");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[place.offset as usize + 200..].fill(7);
        std::fs::write(&file, bytes).unwrap();
        let keys: Vec<Vec<u8>> = (420..500).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let error = store.get_many(&keys).unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains(&place.offset.to_string()), "{error}");
    }
}
