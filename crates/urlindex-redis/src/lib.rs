//! A seen set on Redis or Redis Cluster, shared by any number of crawlers without a server of
//! their own.
//!
//! [`RedisUrlSet`] is a [`urlindex::SeenSet`]. It needs Redis 7 or Valkey: a *function* on the
//! server adds the URLs and stores its answer with them. A request whose reply is lost is sent
//! again with its id and gets the same answer, so no URL is reported as seen unless some caller
//! was given it. To keep request ids over your own restarts, use [`RedisUrlSet::add`].
//!
//! | lost | effect |
//! |---|---|
//! | a reply, a connection | the request is sent again, with the same answer |
//! | a client | URLs that it was given, and those of a call under way, are seen for all others: note the id of a request before it is sent, and send it again |
//! | a master, its replica takes over | what it had not replicated, some 1 s at most, is new once more; none with [`RedisOptions::replicas`] |
//! | a master without a replica | what its `appendfsync` had not written is new once more |
//!
//! Servers must not drop keys: `maxmemory-policy noeviction`, which opening a set checks.

mod batch;
mod error;
mod kind;
mod lanes;
mod layout;
mod link;
mod location;
mod options;
mod set;

pub use error::{Error, Result};
pub use kind::NewRedisSet;
pub use location::{check_location, is_location};
pub use options::RedisOptions;
pub use set::RedisUrlSet;
