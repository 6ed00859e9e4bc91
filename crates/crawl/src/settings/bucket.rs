//! Where the pages of a crawl are, if they are in no folder here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A shard of a store in object storage, which keeps what the crawl knows too.
///
/// ```
/// use crawl::settings::bucket::BucketSettings;
/// let bucket = BucketSettings::new("s3://bucket/pages");
/// assert_eq!((bucket.shards, bucket.shard), (1, 0));
/// assert_eq!(bucket.commit_every, BucketSettings::COMMIT_EVERY);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketSettings {
    /// The store: `s3://bucket/prefix`.
    pub location: String,
    /// How many shards it has.
    pub shards: u32,
    /// Which of them is this crawl's.
    pub shard: u32,
    /// Pages, and what the crawl knows, are committed after this time at the latest.
    pub commit_every: Duration,
}

impl BucketSettings {
    /// The time between two commits, unless another is given: what is fetched in it is fetched
    /// again after a kill.
    pub const COMMIT_EVERY: Duration = Duration::from_secs(60);

    /// The only shard of a store.
    pub fn new(location: impl Into<String>) -> BucketSettings {
        BucketSettings { location: location.into(), shards: 1, shard: 0, commit_every: Self::COMMIT_EVERY }
    }
}
