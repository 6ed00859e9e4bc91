//! Many gets at once: the reads of all are begun before the first is waited for, so that the device sees them together.

use crate::error::Result;
use crate::record::Value;
use crate::store::Store;

/// So many reads are begun ahead.
const AHEAD: usize = 64;

impl Store {
    /// The newest versions of many keys, in the order of the keys. Index pages and value records of up to 64 keys are
    /// requested from the device together.
    ///
    /// # Errors
    /// The first error of any get.
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
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
