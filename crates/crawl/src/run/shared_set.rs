//! A seen set shared by crawls: behind a server, or on Redis.

use std::time::Duration;

use filemap_http::{Ack, Added, ClientOptions, SeenClient};
use urlindex::idempotent::{RequestId, RequestRefusal};
use urlindex_redis::{RedisOptions, RedisUrlSet};

use crate::error::Error;

/// The timeout of a request to Redis, before it is reported and repeated.
const PATIENCE: Duration = Duration::from_secs(5);

/// A shared seen set.
pub enum SharedSet {
    Served(Box<SeenClient>),
    /// With the crawl's id there.
    Redis(Box<RedisUrlSet>, u128),
}

impl SharedSet {
    /// Opens the set. One request, or a few.
    ///
    /// # Errors
    /// The set does not exist, is unreachable, or takes no URLs.
    pub fn open(
        location: &str,
        options: &ClientOptions,
        password: Option<&str>,
        owner: u64,
    ) -> Result<SharedSet, Error> {
        if urlindex_redis::is_location(location) {
            let options = RedisOptions::new().patience(PATIENCE);
            let options = password.into_iter().fold(options, RedisOptions::password);
            let set = RedisUrlSet::open(location, &options).map_err(|error| match error {
                urlindex_redis::Error::Unreachable { .. } => Error::Broken(error.to_string()),
                _ => Error::Usage(error.to_string()),
            })?;
            return Ok(SharedSet::Redis(Box::new(set), owner.into()));
        }
        let set = SeenClient::open(location, options)?;
        if !set.writes() {
            return Err(Error::Usage(format!("{location}: its server only reads; start it with --write")));
        }
        Ok(SharedSet::Served(Box::new(set)))
    }

    /// Name and version of the set's canonicaliser.
    pub fn rules(&self) -> (&str, u32) {
        match self {
            SharedSet::Served(set) => set.rules(),
            SharedSet::Redis(set, _) => set.rules(),
        }
    }

    /// Adds URLs durably, as [`SeenClient::add`]; without an id as a new request.
    ///
    /// # Errors
    /// A temporary error, as a message.
    pub fn add(&self, id: Option<RequestId>, urls: &[&str]) -> Result<Added, String> {
        let (set, owner) = match self {
            SharedSet::Served(set) => return set.add(id, urls, Ack::Durable).map_err(|error| error.to_string()),
            SharedSet::Redis(set, owner) => (set, *owner),
        };
        let refusal = match set.add(owner, id.unwrap_or_else(RequestId::now), urls) {
            Ok(verdicts) => return Ok(Added::Verdicts(verdicts.into_iter().map(Some).collect())),
            Err(urlindex_redis::Error::Request { refusal, .. }) => refusal,
            Err(error) => return Err(error.to_string()),
        };
        Ok(match refusal {
            RequestRefusal::Forgotten => Added::Forgotten,
            RequestRefusal::Ahead => Added::Ahead(refusal.to_string()),
            _ => Added::Refused(refusal.to_string()),
        })
    }
}
