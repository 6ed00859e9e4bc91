//! Decides which index of a store counts, and whether a repair is building another.
//!
//! | marker in `shard-00/index/` | meaning |
//! |---|---|
//! | `N` | generation N is complete; the first has no marker |
//! | `N.repair` | a repair has taken the number N for its new index |
//! | `N.failed` | that repair has failed, and its index never counts |
//!
//! 1. A marker is created once, and never changed or deleted. So no number is reused, and a late
//!    request undoes nothing.
//! 2. A repair takes a number larger than every marker's. Its markers contain a random token, by
//!    which it recognises them if an answer was lost.
//! 3. A number is open if it is taken and not failed, and no larger generation is complete. While
//!    one is open, no writer can begin, and a live writer gets an error at its next commit: its
//!    writes would be lost when the new index takes over.
//! 4. A repair completes its number if no larger one is open or complete. The newest complete
//!    generation counts.
//!
//! A number stays open if its repair was killed, or does not know whether its last marker was
//! created. The next repair resolves that.

use bytes::Bytes;

use super::FOLDER;
use crate::bucket::Bucket;
use crate::error::{Error, Result};

/// The folder of the markers, and the prefix of their names.
const MARKERS: &str = "shard/index";
/// The suffix of the name of a number that a repair has taken.
const TAKEN: &str = ".repair";
/// The suffix of the name of a number whose repair has failed.
const FAILED: &str = ".failed";

/// A generation of a store's index: 1 for the first, a larger number after each repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(u32);

/// The generations found by one listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generations {
    /// The generation that counts.
    pub(crate) newest: Generation,
    /// The largest number that is taken and not failed; 0 if none is.
    open: u32,
    /// The largest number of any marker.
    largest: u32,
}

impl Generations {
    /// Lists the markers: one request.
    pub(crate) async fn read(bucket: &Bucket) -> Result<Generations> {
        let objects = bucket.list(MARKERS).await?;
        let names: Vec<&str> = objects.iter().filter_map(|object| object.location.filename()).collect();
        Ok(Generations::of_names(&names))
    }

    fn of_names(names: &[&str]) -> Generations {
        // Epochs contain the number in their high bits: 0 and the largest are invalid.
        let number = |digits: &str| digits.parse().ok().filter(|number| (1..u32::MAX).contains(number));
        let with = |end: &'static str| names.iter().filter_map(move |name| number(name.strip_suffix(end)?));
        let failed: Vec<u32> = with(FAILED).collect();
        let open = with(TAKEN).filter(|taken| !failed.contains(taken)).max().unwrap_or_default();
        let newest = names.iter().filter_map(|name| number(name)).max().unwrap_or(1);
        let largest = with(TAKEN).chain(with(FAILED)).max().unwrap_or_default().max(newest);
        Generations { newest: Generation(newest), open, largest }
    }

    /// Fails while a repair is running or was interrupted: no writer may begin.
    pub(crate) fn check_no_repair(self, bucket: &Bucket) -> Result<()> {
        self.check_none_after(self.newest, bucket)
    }

    /// Fails if a generation above this one is open or complete.
    fn check_none_after(self, own: Generation, bucket: &Bucket) -> Result<()> {
        let is_last = self.open <= own.0 && self.newest <= own;
        if is_last { Ok(()) } else { Err(Error::Repairing { location: bucket.location().to_owned() }) }
    }
}

impl Generation {
    /// Fails if a repair has begun since a writer opened this generation. Runs between the upload
    /// of a segment and its acknowledgement: so either the repair sees the segment or the writer
    /// gets an error, even if the old index could not be opened to fence it. One `LIST`.
    pub(super) async fn check_not_repaired(self, bucket: &Bucket) -> Result<()> {
        Generations::read(bucket).await?.check_none_after(self, bucket)
    }

    /// The folder of its index, below the store's prefix.
    pub(crate) fn folder(self) -> String {
        format!("{FOLDER}/{}", self.0)
    }

    /// Its number.
    pub(super) fn number(self) -> u64 {
        u64::from(self.0)
    }

    /// Builds a writer's epoch: larger than all epochs of earlier generations.
    pub(super) fn epoch(self, of_writer: u64) -> u64 {
        u64::from(self.0.saturating_sub(1)) << 32 | of_writer
    }
}

/// A number that a repair has taken.
pub(crate) struct Taken {
    pub(crate) generation: Generation,
    /// The contents of its markers.
    token: Bytes,
}

impl Taken {
    /// Takes a new number. From here on no writer can begin.
    pub(crate) async fn take(bucket: &Bucket, token: String) -> Result<Taken> {
        let token = Bytes::from(token);
        let mut attempts = 0;
        loop {
            let number = Generations::read(bucket).await?.largest.saturating_add(1);
            if number == u32::MAX {
                return Err(bucket.damaged(MARKERS, "no number is left for a generation of the index"));
            }
            let own = Taken { generation: Generation(number), token: token.clone() };
            match bucket.claim(&own.name(TAKEN), token.clone()).await {
                Ok(true) => return Ok(own),
                // Another repair was faster.
                Ok(false) => bucket.refused(&mut attempts, &own.name(TAKEN)).await?,
                Err(error) => {
                    if own.is_own(TAKEN, bucket).await.is_ok_and(|is_own| is_own) {
                        own.fail(bucket).await;
                    }
                    return Err(error);
                }
            }
        }
    }

    fn name(&self, end: &str) -> String {
        format!("{MARKERS}/{}{end}", self.generation.0)
    }

    async fn is_own(&self, end: &str, bucket: &Bucket) -> Result<bool> {
        Ok(bucket.get(&self.name(end)).await?.is_some_and(|token| token == self.token))
    }

    /// Marks the repair as failed: writers may begin again. If the marker cannot be written, the
    /// number stays open.
    pub(crate) async fn fail(&self, bucket: &Bucket) {
        // The caller reports the error of the repair, not this one.
        let _ = bucket.claim(&self.name(FAILED), self.token.clone()).await;
    }

    /// Makes the generation count, if no later repair has begun or ended. If creating the marker
    /// fails, it is unknown whether the generation counts: the number stays open.
    pub(crate) async fn complete(&self, bucket: &Bucket) -> Result<()> {
        let own = self.generation;
        let now = Generations::read(bucket).await?;
        if let Err(later) = now.check_none_after(own, bucket) {
            self.fail(bucket).await;
            return Err(later);
        }
        if now.open != own.0 || !self.is_own(TAKEN, bucket).await? {
            return Err(bucket.damaged(&self.name(TAKEN), "the marker of this repair is missing; repeat the repair"));
        }
        if bucket.claim(&self.name(""), self.token.clone()).await? {
            return Ok(());
        }
        Err(bucket.damaged(&self.name(""), "another repair had the number of this one; repeat the repair"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_numbers_count_for_nothing() {
        let of = |newest, open, largest| Generations { newest: Generation(newest), open, largest };
        assert_eq!(Generations::of_names(&[]), of(1, 0, 1));
        let strange = ["0", "4294967295", "4294967296", "-1", "x", "0.repair", "x.failed", ".failed"];
        assert_eq!(Generations::of_names(&strange), of(1, 0, 1));
        assert_eq!(Generations::of_names(&["2", "10", "3", "11.repair", "4.repair"]), of(10, 11, 11));
    }

    #[test]
    fn a_number_that_has_failed_is_not_open_and_is_not_taken_again() {
        let of = |newest, open, largest| Generations { newest: Generation(newest), open, largest };
        assert_eq!(Generations::of_names(&["2.repair", "2.failed"]), of(1, 0, 2));
        assert_eq!(Generations::of_names(&["2.repair", "3.repair", "3.failed"]), of(1, 2, 3));
        assert_eq!(Generations::of_names(&["2.repair", "2.failed", "3.repair", "3"]), of(3, 3, 3));
    }
}
