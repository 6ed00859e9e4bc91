//! `RedisOptions`: how servers are reached, and how long answers are kept.

use std::time::Duration;

use crate::error::{Error, Result};

/// Options for reaching the servers, and for keeping answers.
///
/// ```
/// use std::time::Duration;
/// use urlindex_redis::RedisOptions;
///
/// let options = RedisOptions::new().password("secret").replicas(1).patience(Duration::from_secs(60));
/// assert!(!format!("{options:?}").contains("secret"));
/// ```
#[derive(Clone)]
pub struct RedisOptions {
    pub(crate) password: Option<String>,
    pub(crate) connections: usize,
    pub(crate) patience: Duration,
    pub(crate) replicas: u32,
    pub(crate) keep_for: Duration,
    pub(crate) keep_requests: u32,
}

impl RedisOptions {
    /// The defaults.
    pub fn new() -> RedisOptions {
        RedisOptions {
            password: None,
            connections: 8,
            patience: Duration::from_secs(30),
            replicas: 0,
            keep_for: Duration::from_secs(24 * 60 * 60),
            keep_requests: 4096,
        }
    }

    /// The servers' password. None by default; the user name is in the location.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> RedisOptions {
        self.password = Some(password.into());
        self
    }

    /// Maximum connections to each server, which bounds concurrent calls: 1 to 1,024, 8 by
    /// default. Further calls wait.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> RedisOptions {
        self.connections = connections;
        self
    }

    /// Time for which a call retries servers that do not answer: 30 s by default, longer than a
    /// failover takes.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> RedisOptions {
        self.patience = patience;
        self
    }

    /// Number of replicas of each master that must have the URLs before a call returns. 0 by
    /// default: URLs lost in a failover are then reported as new once more. `?replicas=N` after a
    /// location does the same.
    #[must_use]
    pub fn replicas(mut self, replicas: u32) -> RedisOptions {
        self.replicas = replicas;
        self
    }

    /// Time for which the answers of [`crate::RedisUrlSet::add`] are kept: 24 hours by default.
    #[must_use]
    pub fn keep_for(mut self, keep_for: Duration) -> RedisOptions {
        self.keep_for = keep_for;
        self
    }

    /// Maximum requests of one owner whose answers are kept: 1 to 65,536, by default 4,096. Each
    /// takes some 50 to 100 bytes in each of the set's groups in which it added URLs.
    #[must_use]
    pub fn keep_requests(mut self, requests: u32) -> RedisOptions {
        self.keep_requests = requests;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |name, why: &str| Err(Error::Option { name, why: why.to_owned() });
        if !(1..=1024).contains(&self.connections) {
            return refuse("connections", "must be 1 to 1,024");
        }
        if !(1..=65_536).contains(&self.keep_requests) {
            return refuse("keep_requests", "must be 1 to 65,536");
        }
        if self.keep_for < Duration::from_secs(60) {
            return refuse("keep_for", "must be at least a minute");
        }
        Ok(())
    }
}

impl Default for RedisOptions {
    fn default() -> RedisOptions {
        RedisOptions::new()
    }
}

impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisOptions")
            .field("password", &self.password.as_ref().map(|_| "..."))
            .field("connections", &self.connections)
            .field("patience", &self.patience)
            .field("replicas", &self.replicas)
            .field("keep_for", &self.keep_for)
            .field("keep_requests", &self.keep_requests)
            .finish()
    }
}
