//! Dictionaries by hand: made now, tried, listed; what is done in the background is not here.

use crate::error::{Error, Result};
use crate::handle::reading::RecompressionEstimate;
use crate::logs::values::dictionaries::DictionaryFacts;
use crate::store::Store;

impl Store {
    /// Makes dictionaries now, of pages that are sampled over the whole log: one for all keys, and one for each group with many
    /// pages for which it pays (see [`Options::dictionary_group`](crate::Options::dictionary_group)). New pages are compressed
    /// with them when this returns; those that are there stay as they are. Returns what was made: nothing when nothing pays.
    /// Reads up to 1 GiB of the log and takes some seconds and up to about 100 MiB of memory; puts and gets go on.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) when dictionaries are off; `Io`, and then those made before it
    /// stay; `ReadOnly`, `Closed`, `Poisoned`.
    pub fn train(&self) -> Result<Vec<DictionaryFacts>> {
        self.upkeep()?.train()
    }

    /// Says what it would gain to compress all records anew, at a level from 1 to 19 and with the dictionaries that there are
    /// now, without writing anything: of the whole log, or of up to 1 GiB that is sampled over it. Takes as long as
    /// compressing that much at that level.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) for another level; `Corrupt`, `Io`, `Closed`.
    pub fn try_recompression(&self, level: i32) -> Result<RecompressionEstimate> {
        if !(1..=19).contains(&level) {
            return Err(Error::InvalidOption { name: "level", why: "must be 1 to 19".to_owned() });
        }
        self.reading.try_recompression(level)
    }

    /// All dictionaries of the store, those that no new page uses and those that cannot be read too.
    pub fn dictionaries(&self) -> Vec<DictionaryFacts> {
        self.reading.values().dictionaries.facts()
    }
}
