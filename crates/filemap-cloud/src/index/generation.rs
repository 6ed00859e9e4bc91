//! Which index of a store counts, and whether a repair is making another.
//!
//! | object | says |
//! |---|---|
//! | `shard-00/index/N` | generation N is complete; the first has none |
//! | `shard-00/index/N.repair` | a repair has taken the number N for the index that it makes |
//!
//! The newest complete generation counts. Each repair takes a number of its own, so that two never
//! write one index. While a number above the newest complete one is taken, no writer begins: what
//! it wrote would be lost when the new index counts.

use bytes::Bytes;

use super::FOLDER;
use crate::bucket::Bucket;
use crate::error::{Error, Result};

/// See the module.
const COMPLETE: &str = "shard-00/index";
/// Ends the name of a number that a repair has taken.
const TAKEN: &str = ".repair";

/// Which index of a store counts: 1 for the first, a larger one after each repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(u32);

/// What a listing says of generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generations {
    /// The one that counts.
    pub(crate) newest: Generation,
    /// The largest number that a repair has taken.
    taken: u32,
}

impl Generations {
    /// One request.
    pub(crate) async fn read(bucket: &Bucket) -> Result<Generations> {
        let objects = bucket.list(COMPLETE).await?;
        Ok(Generations::of_names(objects.iter().filter_map(|object| object.location.filename())))
    }

    fn of_names<'n>(names: impl Iterator<Item = &'n str>) -> Generations {
        let (mut newest, mut taken) = (1, 0);
        // Epochs of a generation have a number above them: 0 and the largest are none.
        let number = |digits: &str| digits.parse().ok().filter(|number| (1..u32::MAX).contains(number));
        for name in names {
            match name.strip_suffix(TAKEN) {
                Some(digits) => taken = taken.max(number(digits).unwrap_or_default()),
                None => newest = newest.max(number(name).unwrap_or_default()),
            }
        }
        Generations { newest: Generation(newest), taken }
    }

    /// An error while a repair is under way, or was interrupted: no writer may begin.
    pub(crate) fn check_no_repair(self, bucket: &Bucket) -> Result<()> {
        let is_repaired = self.taken <= self.newest.0;
        if is_repaired { Ok(()) } else { Err(Error::Repairing { location: bucket.location().to_owned() }) }
    }
}

impl Generation {
    /// Takes a number that no other repair has. From here on no writer begins.
    pub(crate) async fn take(bucket: &Bucket) -> Result<Generation> {
        loop {
            let Generations { newest, taken } = Generations::read(bucket).await?;
            let own = Generation(newest.0.max(taken).saturating_add(1));
            if own.0 == u32::MAX {
                return Err(bucket.damaged(COMPLETE, "no number is left for a generation of the index"));
            }
            // A number whose answer was lost stays taken: the next one is above it.
            if bucket.create(&own.taken(), Bytes::new()).await? {
                return Ok(own);
            }
        }
    }

    fn taken(self) -> String {
        format!("{COMPLETE}/{}{TAKEN}", self.0)
    }

    /// An error if a repair has begun since a writer opened this generation. Asked between the
    /// upload of a segment and its acknowledgement: then a repair has seen the segment, or the
    /// writer is told, though the old index could not be opened to fence it. One `GET`.
    pub(super) async fn check_not_repaired(self, bucket: &Bucket) -> Result<()> {
        let next = Generation(self.0.saturating_add(1)).taken();
        let is_repaired = bucket.get(&next).await?.is_some();
        if is_repaired { Err(Error::Repairing { location: bucket.location().to_owned() }) } else { Ok(()) }
    }

    /// Gives the number back, of a repair that failed.
    pub(crate) async fn give_back(self, bucket: &Bucket) -> Result<()> {
        bucket.delete(&self.taken()).await
    }

    /// Lets this one count, if no later repair has begun.
    pub(crate) async fn complete(self, bucket: &Bucket) -> Result<()> {
        if Generations::read(bucket).await?.taken > self.0 {
            return Err(Error::Repairing { location: bucket.location().to_owned() });
        }
        // The number is nobody else's: if the object is there, an answer was lost.
        bucket.create(&format!("{COMPLETE}/{}", self.0), Bytes::new()).await.map(|_| ())
    }

    /// The folder of its index, as the store names objects.
    pub(crate) fn folder(self) -> String {
        format!("{FOLDER}/{}", self.0)
    }

    /// Its number.
    pub(super) fn number(self) -> u64 {
        u64::from(self.0)
    }

    /// Epochs of a generation are above those of all before it.
    pub(super) fn epoch(self, of_writer: u64) -> u64 {
        u64::from(self.0.saturating_sub(1)) << 32 | of_writer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_numbers_count_for_nothing() {
        let read = |names: &[&str]| Generations::of_names(names.iter().copied());
        let of = |newest, taken| Generations { newest: Generation(newest), taken };
        assert_eq!(read(&[]), of(1, 0));
        assert_eq!(read(&["0", "4294967295", "4294967296", "-1", "x", "0.repair"]), of(1, 0));
        assert_eq!(read(&["2", "10", "3", "11.repair", "4.repair"]), of(10, 11));
    }
}
