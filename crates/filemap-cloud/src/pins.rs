//! The objects of checkpoints: which of them live, and which rewritten segments they need.
//!
//! A checkpoint expires when its object is older than the lifetime that it states. Ages are
//! differences between this machine's clock and the object storage's, which must agree to a small
//! part of a lifetime. An expired object is deleted before any segment that its view names: so a
//! scan that misses a segment can tell that its checkpoint has expired.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::bucket::Bucket;
use crate::error::Result;
use crate::failpoint::Fault;
use crate::format::checkpoint::Checkpoint;

/// The folder of the objects.
const FOLDER: &str = "shard/checkpoint";
/// The longest lifetime of a checkpoint; one that does not decode is taken to have it.
pub(crate) const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// The object of a checkpoint.
pub(crate) fn object(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// A checkpoint as found.
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) checkpoint: Checkpoint,
    /// The time of the last refresh.
    pub(crate) since: SystemTime,
}

impl Found {
    /// Returns whether it has not expired yet.
    pub(crate) fn is_live(&self, now: SystemTime) -> bool {
        // A refresh in the future, by the object storage's clock, has no age.
        now.duration_since(self.since).unwrap_or_default() < self.checkpoint.lifetime
    }
}

/// Stores or refreshes a checkpoint.
pub(crate) async fn store(bucket: &Bucket, name: &str, checkpoint: Checkpoint) -> Result<()> {
    bucket.replace(&object(name), Bytes::from(checkpoint.encode())).await
}

/// All checkpoints.
pub(crate) async fn found(bucket: &Bucket) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for object in bucket.list(FOLDER).await? {
        let Some(name) = object.location.filename() else { continue };
        // It may have been released in the meantime.
        let Some(bytes) = bucket.get(&self::object(name)).await? else { continue };
        // One that a newer build has written may need every segment.
        let checkpoint = Checkpoint::decode(&bytes).unwrap_or(Checkpoint { lifetime: LONGEST, next: 0 });
        all.push(Found { name: name.to_owned(), checkpoint, since: SystemTime::from(object.last_modified) });
    }
    Ok(all)
}

/// Deletes expired checkpoints. Returns the lowest sequence of the live ones: the objects of
/// segments rewritten by a later commit must stay. The rows of these segments must have been read
/// before: a checkpoint stored since has a view opened since, which does not name them.
pub(crate) async fn lowest(bucket: &Bucket, fault: Option<Fault>) -> Result<u64> {
    if Fault::CheckpointsIgnored.is_planted(fault) {
        return Ok(u64::MAX);
    }
    let (mut lowest, now) = (u64::MAX, SystemTime::now());
    for found in found(bucket).await? {
        if found.is_live(now) {
            lowest = lowest.min(found.checkpoint.next);
        } else {
            bucket.delete(&object(&found.name)).await?;
        }
    }
    Ok(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_lives_for_its_lifetime_and_while_clocks_disagree() {
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let checkpoint = Checkpoint { lifetime: Duration::from_secs(60), next: 5 };
        let found = Found { name: "a".to_owned(), checkpoint, since };
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!([900, 1_000, 1_059, 1_060].map(|seconds| found.is_live(at(seconds))), [true, true, true, false]);
    }
}
