//! Removal of one version of a key. Versions that share its body are put again without it.

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::format::value::Removed;
use crate::handle::reading::Reading;
use crate::handle::spot::Spot;
use crate::logs::values::append::Draft;
use crate::logs::values::read::Want;
use crate::record::{Head, Record, Version};
use crate::stats::Counters;
use crate::store::Store;
use crate::sync::lock;

/// Greatest number of passes over the versions that came to share the body meanwhile.
const PASSES: u32 = 16;

impl Store {
    /// Removes one version of a key, durably, whatever the durability of puts. Returns false if it
    /// does not exist; then nothing is written. To remove all versions, use [`Store::remove`].
    ///
    /// Versions that refer to its body are put again: one with the body, the others referring to
    /// that one. They keep time and meta but get new sequences, so they become the newest versions
    /// of their time. Of two that differ in nothing else, one stays. Takes two checkpoints. For
    /// each such version the key's chain is read again, and one body is in memory. Compaction
    /// frees the space.
    ///
    /// If interrupted, the version may or may not be removed, and those put again may exist twice;
    /// repeating the call finishes the removal.
    ///
    /// # Errors
    /// As [`Store::put`] and [`Store::checkpoint`]. `Corrupt`, with nothing removed, if a version
    /// that stays refers to its body and either of the two is unreadable.
    pub fn remove_version(&self, key: &[u8], version: Version) -> Result<bool> {
        self.reading.check_open()?;
        self.writing()?.poisoned().check()?;
        let hash = self.reading.hash(key);
        let _alone = self.upkeep()?.begin_removal(hash);
        let mut is_removed = false;
        for pass in 0..PASSES {
            let parted_below = lock(self.writing()?.log()).next_sequence;
            // Includes a version hidden because enough newer ones are kept.
            let mut found = self.reading.all_spots(key, hash)?;
            found.retain(|spot| spot.version == version);
            let Some(spot) = found.first() else {
                if pass > 0 {
                    // The pass before may have kept it for another version with its body, until
                    // both were removed.
                    self.sync()?;
                }
                break;
            };
            let (digest, meta_hash) = self.print_of(key, spot)?;
            let removed = Removed { version, digest, parted_below, meta_hash };
            if self.put_apart(key, version)? {
                self.upkeep()?.remove_version(key, removed)?;
                is_removed = true;
            }
        }
        if self.reading.all_spots(key, hash)?.iter().any(|spot| spot.version == version) {
            let why = "versions that share its body keep being put; remove it when they are not";
            return Err(Error::option("version", why));
        }
        if is_removed {
            Counters::add(&self.reading.counters().removes, 1);
        }
        Ok(is_removed)
    }

    /// The digest of a version's body and the hash of its meta; zeros if its record is damaged.
    fn print_of(&self, key: &[u8], spot: &Spot) -> Result<([u8; 16], u64)> {
        match self.head_of(key, spot) {
            Ok(head) => Ok((head.digest, xxh3_64(&head.meta))),
            Err(e) if e.is_corrupt() => Ok(([0; 16], 0)),
            Err(e) => Err(e),
        }
    }

    fn head_of(&self, key: &[u8], spot: &Spot) -> Result<Head> {
        let reading = &self.reading;
        reading.looking_again(|| reading.with_spot(key, spot, Want::Head, |raw| raw.head()))
    }

    /// Puts the versions that share the body of `shared` again, without sharing it. Reuses
    /// versions that an interrupted removal has put again. Returns false if the key has changed
    /// meanwhile: then the versions must be found again.
    fn put_apart(&self, key: &[u8], shared: Version) -> Result<bool> {
        // Includes versions beyond the number kept: a repair finds them, and shows one that counts
        // again.
        let all = self.reading.all_spots(key, self.reading.hash(key))?;
        let mut holder = None;
        for spot in all.iter().filter(|s| s.refers_to == shared.sequence) {
            let head = self.head_of(key, spot)?;
            if let Some(again) = self.put_again(key, &all, (spot, &head))? {
                holder = holder.or((again.refers_to == 0).then_some(again.version));
                continue;
            }
            let Some(again) = self.put_with(key, (spot, &head), holder)? else { return Ok(false) };
            holder.get_or_insert(again);
        }
        Ok(true)
    }

    /// A later version with the same time, meta and body that does not share the body.
    fn put_again<'s>(&self, key: &[u8], all: &'s [Spot], (spot, head): (&Spot, &Head)) -> Result<Option<&'s Spot>> {
        let is_later = |s: &&'s Spot| s.version.time_ms == spot.version.time_ms && s.version > spot.version;
        for other in all.iter().filter(is_later).filter(|s| s.refers_to != spot.refers_to) {
            let found = match self.head_of(key, other) {
                Err(e) if e.is_corrupt() => continue,
                found => found?,
            };
            if found.digest == head.digest && found.meta == head.meta {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// Puts a version again, either referring to a version that holds its body, or with the body.
    /// `None` if the key has changed meanwhile.
    fn put_with(&self, key: &[u8], (spot, head): (&Spot, &Head), holder: Option<Version>) -> Result<Option<Version>> {
        let (reading, writing) = (&*self.reading, self.writing()?);
        let of = |body| Record { key, meta: &head.meta, body, time_ms: spot.version.time_ms };
        writing.check_put(key, &head.meta, head.body_bytes)?;
        let hash = reading.hash(key);
        let state = |reading: &Reading| {
            (reading.in_memtables(key, hash), Counters::get(&reading.counters().checkpoints), reading.expiring_ms())
        };
        // As in `put_reference`: the version referred to must stay, and `spot` must still exist.
        let has =
            |wanted: Version| -> Result<bool> { Ok(reading.all_spots(key, hash)?.iter().any(|s| s.version == wanted)) };
        let before = state(reading);
        if let Some(holder) = holder.filter(|holder| holder.time_ms >= before.2) {
            if !has(spot.version)? || !has(holder)? {
                return Ok(None);
            }
            let (bytes, packing) = (head.body_bytes, reading.packing(key));
            let draft = Draft::reference(&of(&[]), bytes, head.digest, holder.sequence, &packing);
            let _inside = writing.enter();
            return writing.append_if(draft, key, holder.sequence, |reading| state(reading) == before);
        }
        let body = reading.looking_again(|| reading.value_at(key, spot))?.body;
        // The stream pins its chunks until the chunk list is in the log.
        let mut stream = self.put_stream(key, &head.meta, spot.version.time_ms)?;
        stream.push(&body)?;
        let draft = stream.draft()?;
        let before = state(reading);
        if !has(spot.version)? {
            return Ok(None);
        }
        let _inside = writing.enter();
        writing.append_if(draft, key, 0, |reading| state(reading) == before)
    }
}
