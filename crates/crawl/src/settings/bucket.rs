//! The location of a crawl's pages, if they are not in a local folder.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A shard of a store in object storage, which also keeps the crawl's state.
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
    /// The number of shards of the store.
    pub shards: u32,
    /// This crawl's shard.
    pub shard: u32,
    /// The maximum time between commits of pages and state.
    pub commit_every: Duration,
}

impl BucketSettings {
    /// The default time between two commits: fetches since the last commit are repeated after a
    /// kill.
    pub const COMMIT_EVERY: Duration = Duration::from_secs(60);

    /// The only shard of a store with one.
    pub fn new(location: impl Into<String>) -> BucketSettings {
        BucketSettings { location: location.into(), shards: 1, shard: 0, commit_every: Self::COMMIT_EVERY }
    }
}
