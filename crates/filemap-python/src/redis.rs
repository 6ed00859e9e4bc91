//! Sets on Redis: opens them, and turns their failures into exceptions.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use urlindex::{Canonicalizer, SeenSet as _, Verdict};
use urlindex_redis::{Error, NewRedisSet, RedisOptions, RedisUrlSet};

use crate::argument::{of_kind, patience};
use crate::errors::{self, Failure};
use crate::made::check_same;

/// Default expected number of URLs of a new set.
const CAPACITY: u64 = 100_000_000;
/// The variable of the password, as for `redis-cli`.
const PASSWORD: &str = "REDISCLI_AUTH";

/// A set on Redis.
pub struct OnRedis {
    set: RedisUrlSet,
    writes: bool,
}

/// Options for reaching or making a set on Redis.
pub struct Asking {
    pub password: Option<String>,
    pub patience: Duration,
    /// Expected number of URLs of a new set.
    pub capacity: Option<u64>,
}

impl Asking {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    ///
    /// `InvalidValueError`; `TypeError`.
    pub fn of(given: Option<&Bound<'_, PyDict>>) -> PyResult<Asking> {
        Ok(Asking {
            password: of_kind(given, "password")?,
            patience: patience(given)?,
            capacity: of_kind(given, "capacity")?,
        })
    }
}

impl OnRedis {
    /// Opens the set at `location`. The modes `a` and `x` make a missing one: an exact set whose
    /// URLs are canonical by `rules`.
    ///
    /// # Errors
    ///
    /// `RemoteError`; `NotAStoreError`; `StoreExistsError` of the mode `x`; `InvalidValueError`,
    /// also for another capacity than that of a set that is there.
    pub fn open(location: &str, mode: &str, rules: &dyn Canonicalizer, asking: Asking) -> Result<OnRedis, Failure> {
        let options = RedisOptions::new().patience(asking.patience);
        let password = asking.password.or_else(|| std::env::var(PASSWORD).ok());
        let options = password.into_iter().fold(options, RedisOptions::password);
        let new = NewRedisSet::Exact { urls: asking.capacity.unwrap_or(CAPACITY) };
        let create = || RedisUrlSet::create(location, new, rules, &options);
        let set = match mode {
            "x" => create(),
            "a" => match create() {
                Err(Error::Exists { .. }) => RedisUrlSet::open(location, &options),
                made => made,
            },
            _ => RedisUrlSet::open(location, &options),
        };
        let set = set.map_err(failure)?;
        if let NewRedisSet::Exact { urls } | NewRedisSet::Bloom { urls } = set.kind() {
            check_same(&set.location(), "capacity", asking.capacity, urls).map_err(Failure::Python)?;
        }
        Ok(OnRedis { set, writes: mode != "r" })
    }

    /// The set.
    pub fn set(&self) -> &RedisUrlSet {
        &self.set
    }

    /// Adds URLs.
    ///
    /// # Errors
    ///
    /// `ReadOnlyError` if the set is open for reading; `RemoteError`.
    pub fn add(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<(), Failure> {
        if !self.writes {
            return Err(Failure::Python(errors::make("ReadOnlyError", "the set is open read-only".to_owned())));
        }
        self.set.check_and_insert_batch(urls, verdicts).map_err(remote)
    }

    /// Checks whether URLs were added.
    ///
    /// # Errors
    ///
    /// `RemoteError`.
    pub fn check(&self, urls: &[&[u8]], verdicts: &mut Vec<Verdict>) -> Result<(), Failure> {
        self.set.contains_batch(urls, verdicts).map_err(remote)
    }

    /// Resolves requests whose outcome is in doubt.
    ///
    /// # Errors
    ///
    /// `RemoteError`.
    pub fn sync(&self) -> Result<(), Failure> {
        if self.writes { self.set.sync().map_err(remote) } else { Ok(()) }
    }
}

fn remote(error: urlindex::Error) -> Failure {
    Failure::Python(errors::make("RemoteError", error.to_string()))
}

fn failure(error: Error) -> Failure {
    let class = match &error {
        Error::Location { .. } | Error::Option { .. } => "InvalidValueError",
        Error::NoSet { .. } => "NotAStoreError",
        Error::Exists { .. } => "StoreExistsError",
        _ => "RemoteError",
    };
    Failure::Python(errors::make(class, error.to_string()))
}
