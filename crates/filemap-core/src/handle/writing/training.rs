//! Input for dictionary training: counts and samples of puts; `upkeep` makes the dictionaries.

use crate::error::Result;
use crate::format::location::{Location, SizeClass};
use crate::format::value::{Header, Kind};
use crate::handle::writing::Writing;
use crate::logs::values::append::Draft;
use crate::logs::values::dictionaries::tally::{Firsts, Noted, Tally, Trained};
use crate::stats::Counters;
use crate::sync::{Bell, Held, Ranked, lock, rank};

/// Greatest length of a body used as a sample.
pub(crate) const LONGEST_SAMPLE: u64 = 256 << 10;

/// Training state of a writer.
#[derive(Debug, Default)]
pub(crate) struct Training {
    /// Rung when a dictionary is due.
    pub(crate) bell: Bell,
    /// Counts and samples of puts.
    pub(crate) tally: Tally,
    /// Held while a dictionary is made.
    turn: Ranked<{ rank::TRAIN }, ()>,
}

impl Training {
    pub(crate) fn turn(&self) -> Held<'_, ()> {
        lock(&self.turn)
    }
}

impl Writing {
    /// Counts an appended record's compression.
    pub(crate) fn count_packed(&self, header: &Header) {
        if matches!(header.kind, Kind::Page | Kind::Chunk) {
            Counters::add(&self.reading.counters().body_bytes, header.raw_bytes);
            Counters::add(&self.reading.counters().payload_bytes, u64::from(header.payload_bytes));
        }
        if header.dictionary != 0 {
            Counters::add(&self.reading.counters().dictionary_records, 1);
        }
    }

    /// Counts an appended record, and notes its location as a sample.
    pub(crate) fn note_put(&self, key: &[u8], header: &Header, location: Location, size: SizeClass) {
        self.count_packed(header);
        if self.reading.options().makes_dictionaries() && self.note(&self.training.tally, key, header, location, size) {
            self.training.bell.ring();
        }
    }

    /// Recompresses a record drafted before its dictionary was retired. Runs under the append
    /// lock, rarely.
    ///
    /// # Errors
    /// `Corrupt` if it cannot be expanded.
    pub(crate) fn without_retired(&self, draft: &mut Draft) -> Result<()> {
        if !self.reading.values().dictionaries.is_retired(draft.header.dictionary) {
            return Ok(());
        }
        let header = draft.header;
        let key = draft.bytes[header.key_at()..header.meta_at()].to_vec();
        let meta = &draft.bytes[header.meta_at()..header.payload_at()];
        let payload = &draft.bytes[header.payload_at()..][..header.payload_bytes as usize];
        let level = self.reading.options().compression_level;
        if let Some(new) = self.reading.repack(Location::new(0, 0), &key, &header, (meta, payload), level)? {
            *draft = Draft { bytes: new.record(&key), header: new.header };
        }
        Ok(())
    }

    /// Page counts at which groups are due.
    pub(crate) fn firsts(&self) -> Firsts {
        Firsts::of(&self.reading.options().limits)
    }

    /// Notes a record in a tally. Returns true if that makes a dictionary due.
    pub(crate) fn note(&self, tally: &Tally, key: &[u8], header: &Header, location: Location, size: SizeClass) -> bool {
        if header.kind != Kind::Page || header.raw_bytes == 0 || header.raw_bytes > LONGEST_SAMPLE {
            return false;
        }
        let name = self.reading.options().group(key);
        let stored_bytes = u64::from(header.payload_bytes);
        let page = Noted { location, size, raw_bytes: header.raw_bytes, stored_bytes };
        let trained = |name: &[u8]| self.reading.values().dictionaries.own(name).map(|facts| Trained::from(&facts));
        tally.note((name, self.reading.hash(name)), &page, self.firsts(), trained)
    }
}
