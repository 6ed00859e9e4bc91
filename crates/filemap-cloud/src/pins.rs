//! The objects of checkpoints: which of them live, and which rewritten segments they need.
//!
//! A checkpoint expires when its object is older than the lifetime that it states. Ages are
//! differences between this machine's clock and the object storage's, which must agree to a small
//! part of a lifetime. An expired object is deleted before any segment that its view names: so a
//! scan that misses a segment can tell that its checkpoint has expired.
//!
//! An object is replaced only if it is still the one that was read, by the process that refreshes
//! it and by the compaction that ends it: so one that was removed or has ended is not written
//! anew, and one that was refreshed meanwhile is not ended. No bucket deletes on a condition: so
//! an expired one is first replaced by [`Checkpoint::ENDED`].

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use object_store::ObjectMeta;

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::failpoint::Fault;
use crate::format::checkpoint::Checkpoint;

/// The folder of the objects.
const FOLDER: &str = "shard/checkpoint";
/// The longest lifetime of a checkpoint; one that does not decode is taken to have it.
pub(crate) const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Attempts to replace an object that a late request of this process has changed.
const ATTEMPTS: u32 = 4;

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
    /// Time and tag of the object that was read.
    meta: ObjectMeta,
}

impl Found {
    /// Returns whether it has not expired yet.
    pub(crate) fn is_live(&self, now: SystemTime) -> bool {
        // A refresh in the future, by the object storage's clock, has no age.
        now.duration_since(self.since).unwrap_or_default() < self.checkpoint.lifetime
    }
}

/// Stores a checkpoint under a name that nobody else uses.
pub(crate) async fn store(bucket: &Bucket, name: &str, checkpoint: Checkpoint) -> Result<()> {
    let is_own = bucket.claim(&object(name), Bytes::from(checkpoint.encode())).await?;
    if is_own { Ok(()) } else { Err(bucket.unavailable("a checkpoint", 0, &"its name is taken; try again")) }
}

/// Replaces the object of a checkpoint, if it is still `before`; only the number of refreshes may
/// be another.
///
/// # Errors
///
/// `Expired`: it has ended or was removed, and is not written anew.
pub(crate) async fn renew(bucket: &Bucket, name: &str, before: Checkpoint, after: Checkpoint) -> Result<()> {
    let name = object(name);
    let expired = || Error::Expired { location: bucket.location().to_owned() };
    for _ in 0..ATTEMPTS {
        let (bytes, meta) = bucket.get_tagged(&name).await?.ok_or_else(expired)?;
        // A request whose answer was lost may have made it `after` already.
        let is_own = |is: &Checkpoint| is.is_of(before) || is.is_of(after);
        let now = Checkpoint::decode(&bytes).filter(is_own).ok_or_else(expired)?;
        let after = Checkpoint { refreshes: now.refreshes.saturating_add(1), ..after };
        if bucket.replace_same(&name, &meta, Bytes::from(after.encode())).await? {
            return Ok(());
        }
    }
    Err(bucket.unavailable("refreshing a checkpoint", ATTEMPTS, &"its object changes"))
}

/// Ends an expired checkpoint, and deletes its object. Returns false if it was refreshed or
/// removed meanwhile.
async fn end(bucket: &Bucket, found: &Found) -> Result<bool> {
    let name = object(&found.name);
    if !bucket.replace_same(&name, &found.meta, Bytes::from(Checkpoint::ENDED.encode())).await? {
        return Ok(false);
    }
    bucket.delete(&name).await.map(|()| true)
}

/// All checkpoints.
pub(crate) async fn found(bucket: &Bucket) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for object in bucket.list(FOLDER).await? {
        let Some(name) = object.location.filename() else { continue };
        // It may have been released in the meantime, or refreshed: the object counts.
        let Some((bytes, meta)) = bucket.get_tagged(&self::object(name)).await? else { continue };
        // One that another build has written may need every segment.
        let unknown = Checkpoint { lifetime: LONGEST, next: 0, refreshes: 0 };
        let checkpoint = Checkpoint::decode(&bytes).unwrap_or(unknown);
        // An answer to a GET may have whole seconds only.
        let since = SystemTime::from(meta.last_modified.max(object.last_modified));
        all.push(Found { name: name.to_owned(), checkpoint, since, meta });
    }
    Ok(all)
}

/// Ends expired checkpoints. Returns the lowest sequence of the live ones: the objects of
/// segments rewritten by a later commit must stay. The rows of these segments must have been read
/// before: a checkpoint stored since has a view opened since, which does not name them.
pub(crate) async fn lowest(bucket: &Bucket, fault: Option<Fault>) -> Result<u64> {
    if Fault::CheckpointsIgnored.is_planted(fault) {
        return Ok(u64::MAX);
    }
    let (mut lowest, now) = (u64::MAX, SystemTime::now());
    for found in found(bucket).await? {
        if found.is_live(now) || !end(bucket, &found).await? {
            lowest = lowest.min(found.checkpoint.next);
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
        let checkpoint = Checkpoint { lifetime: Duration::from_secs(60), next: 5, refreshes: 0 };
        let (location, last_modified) = (object_store::path::Path::from("a"), Default::default());
        let meta = ObjectMeta { location, last_modified, size: 0, e_tag: None, version: None };
        let found = Found { name: "a".to_owned(), checkpoint, since, meta };
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!([900, 1_000, 1_059, 1_060].map(|seconds| found.is_live(at(seconds))), [true, true, true, false]);
    }
}
