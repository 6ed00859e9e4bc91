//! Dictionaries on demand: training, estimating recompression, listing. Background training is
//! elsewhere.

use crate::error::{Error, Result};
use crate::handle::reading::RecompressionEstimate;
use crate::logs::values::dictionaries::DictionaryFacts;
use crate::store::Store;

impl Store {
    /// Trains dictionaries now on pages sampled over the whole log: one for all keys, and one for
    /// each group with many pages if it pays (see
    /// [`Options::dictionary_group`](crate::Options::dictionary_group)). New pages are then
    /// compressed with them; existing ones stay unchanged. Returns the new dictionaries, which may
    /// be none. Reads up to 1 GiB of the log, takes some seconds and up to about 100 MiB of
    /// memory; puts and gets continue meanwhile.
    ///
    /// # Errors
    /// `InvalidOption` if dictionaries are off; `Io`, with the dictionaries made before it kept;
    /// `ReadOnly`, `Closed`, `Poisoned`.
    pub fn train(&self) -> Result<Vec<DictionaryFacts>> {
        self.upkeep()?.train()
    }

    /// Estimates the gain of recompressing all records, at a level from 1 to 19 and with the
    /// current dictionaries, without writing anything. Tries the whole log, or up to 1 GiB sampled
    /// over it. Takes as long as compressing that much at that level.
    ///
    /// # Errors
    /// `InvalidOption` for another level; `Corrupt`, `Io`, `Closed`.
    pub fn try_recompression(&self, level: i32) -> Result<RecompressionEstimate> {
        if !(1..=19).contains(&level) {
            return Err(Error::option("level", "must be 1 to 19".to_owned()));
        }
        self.reading.try_recompression(level)
    }

    /// All dictionaries of the store, including unused and unreadable ones.
    pub fn dictionaries(&self) -> Vec<DictionaryFacts> {
        self.reading.values().dictionaries.facts()
    }
}
