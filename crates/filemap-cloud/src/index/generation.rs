//! Which index of a store counts, and whether a repair is making another.
//!
//! | marker in `shard-00/index/` | says |
//! |---|---|
//! | `N` | generation N is complete; the first has no marker |
//! | `N.repair` | a repair has taken the number N for the index that it makes |
//! | `N.failed` | that repair has failed, and its index never counts |
//!
//! 1. A marker is created once, and never changed or deleted. So no number is used twice, and no
//!    request that comes late takes anything back.
//! 2. A repair takes the number above those of all markers. The body of its markers is a random
//!    token: so it knows its own again if an answer was lost.
//! 3. A number is open if it is taken and not failed, and no larger generation is complete. While
//!    one is open, no writer begins, and one that is alive is told at its next commit: what it
//!    wrote would be lost when the new index counts.
//! 4. A repair completes its number if no larger one is open or complete. The newest complete
//!    generation counts.
//!
//! A number stays open if its repair was killed, or could not tell whether its last marker was
//! created. The next repair ends that.

use bytes::Bytes;

use super::FOLDER;
use crate::bucket::Bucket;
use crate::error::{Error, Result};

/// The folder of the markers, and what their names begin with.
const MARKERS: &str = "shard/index";
/// Ends the name of a number that a repair has taken.
const TAKEN: &str = ".repair";
/// Ends the name of a number whose repair has failed.
const FAILED: &str = ".failed";

/// Which index of a store counts: 1 for the first, a larger one after each repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(u32);

/// What a listing says of generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generations {
    /// The one that counts.
    pub(crate) newest: Generation,
    /// The largest number that is taken and not failed; 0 if there is none.
    open: u32,
    /// The largest number of a marker.
    largest: u32,
}

impl Generations {
    /// One request.
    pub(crate) async fn read(bucket: &Bucket) -> Result<Generations> {
        let objects = bucket.list(MARKERS).await?;
        let names: Vec<&str> = objects.iter().filter_map(|object| object.location.filename()).collect();
        Ok(Generations::of_names(&names))
    }

    fn of_names(names: &[&str]) -> Generations {
        // Epochs of a generation have a number above them: 0 and the largest are none.
        let number = |digits: &str| digits.parse().ok().filter(|number| (1..u32::MAX).contains(number));
        let with = |end: &'static str| names.iter().filter_map(move |name| number(name.strip_suffix(end)?));
        let failed: Vec<u32> = with(FAILED).collect();
        let open = with(TAKEN).filter(|taken| !failed.contains(taken)).max().unwrap_or_default();
        let newest = names.iter().filter_map(|name| number(name)).max().unwrap_or(1);
        let largest = with(TAKEN).chain(with(FAILED)).max().unwrap_or_default().max(newest);
        Generations { newest: Generation(newest), open, largest }
    }

    /// An error while a repair is under way, or was interrupted: no writer may begin.
    pub(crate) fn check_no_repair(self, bucket: &Bucket) -> Result<()> {
        self.check_none_after(self.newest, bucket)
    }

    /// An error if a generation above this one is open or complete.
    fn check_none_after(self, own: Generation, bucket: &Bucket) -> Result<()> {
        let is_last = self.open <= own.0 && self.newest <= own;
        if is_last { Ok(()) } else { Err(Error::Repairing { location: bucket.location().to_owned() }) }
    }
}

impl Generation {
    /// An error if a repair has begun since a writer opened this generation. Asked between the
    /// upload of a segment and its acknowledgement: then a repair has seen the segment, or the
    /// writer is told, though the old index could not be opened to fence it. One `LIST`.
    pub(super) async fn check_not_repaired(self, bucket: &Bucket) -> Result<()> {
        Generations::read(bucket).await?.check_none_after(self, bucket)
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

/// A number that a repair has taken.
pub(crate) struct Taken {
    pub(crate) generation: Generation,
    /// The body of its markers.
    token: Bytes,
}

impl Taken {
    /// Takes a number that no other repair has. From here on no writer begins.
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

    /// Says that the repair has failed: writers may begin again. If that cannot be said, the
    /// number stays open.
    pub(crate) async fn fail(&self, bucket: &Bucket) {
        // The error of the repair is told, not this one.
        let _ = bucket.claim(&self.name(FAILED), self.token.clone()).await;
    }

    /// Lets the generation count, if no later repair has begun or ended. After an error in the
    /// creation of the marker nobody knows whether it counts: the number stays open.
    pub(crate) async fn complete(&self, bucket: &Bucket) -> Result<()> {
        let own = self.generation;
        let now = Generations::read(bucket).await?;
        if let Err(later) = now.check_none_after(own, bucket) {
            self.fail(bucket).await;
            return Err(later);
        }
        if now.open != own.0 || !self.is_own(TAKEN, bucket).await? {
            return Err(bucket.damaged(&self.name(TAKEN), "the marker of this repair is gone; repeat the repair"));
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
