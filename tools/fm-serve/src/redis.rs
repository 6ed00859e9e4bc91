//! Seen sets on Redis, as the server serves them.

use std::sync::Arc;
use std::time::Duration;

use filemap_http::server::SharedSet;
use fm_cli::{Failure, credentials};
use urlindex::canonical::named;
use urlindex::idempotent::RequestId;
use urlindex::{Canonicalizer, Result, SeenSet, SeenStats, Verdict};
use urlindex_redis::{NewRedisSet, RedisOptions, RedisUrlSet};

/// Owner of the remembered requests: all servers, so that a client may retry at another one.
const OWNER: u128 = u128::from_be_bytes(*b"fm-serve clients");
/// Time that a request waits for Redis before its client is asked to retry.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of requests that Redis remembers for one owner.
const MOST_REQUESTS: u64 = 65_536;

/// A set on Redis, and the canonicaliser of its URLs.
#[derive(Debug)]
pub struct OnRedis {
    set: RedisUrlSet,
    canonicalizer: Arc<dyn Canonicalizer>,
}

impl OnRedis {
    /// Opens a set, in a few requests.
    pub fn open(location: &str, keep_for: Duration, keep_requests: u64) -> std::result::Result<OnRedis, Failure> {
        let options = RedisOptions::new()
            .patience(PATIENCE)
            .keep_for(keep_for)
            .keep_requests(keep_requests.min(MOST_REQUESTS) as u32);
        let options = credentials::redis_password()?.into_iter().fold(options, RedisOptions::password);
        let set = RedisUrlSet::open(location, &options).map_err(|error| match error {
            urlindex_redis::Error::Location { .. } | urlindex_redis::Error::Option { .. } => {
                Failure::Usage(error.to_string())
            }
            _ => Failure::Io(error.to_string()),
        })?;
        let (name, version) = set.rules();
        let canonicalizer = named(name, version).ok_or_else(|| {
            let of = set.location();
            Failure::Usage(format!("this program does not know the rules {name} version {version} of {of}"))
        })?;
        Ok(OnRedis { set, canonicalizer })
    }
}

impl SharedSet for OnRedis {
    fn kind(&self) -> &str {
        match self.set.kind() {
            NewRedisSet::Exact { .. } => "redis-exact",
            NewRedisSet::Bitmap { .. } => "redis-bitmap",
            NewRedisSet::Bloom { .. } => "redis-bloom",
            _ => "redis",
        }
    }

    fn canonicalizer(&self) -> Arc<dyn Canonicalizer> {
        Arc::clone(&self.canonicalizer)
    }

    fn set(&self) -> &dyn SeenSet {
        &self.set
    }

    fn stats(&self) -> SeenStats {
        // If Redis does not answer, the last count of URLs stays.
        let _ = self.set.count();
        self.set.stats()
    }

    fn add(&self, id: RequestId, urls: &[&[u8]]) -> Result<Vec<Verdict>> {
        Ok(self.set.add(OWNER, id, urls)?)
    }
}
