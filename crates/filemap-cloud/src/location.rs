//! Resolves a location: objects in a bucket, or objects in the memory of this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};

use crate::bucket::{Bounds, Bucket};
use crate::error::{Error, Result};

/// Retries inside the HTTP client, below the store's own.
const CLIENT_RETRIES: usize = 2;
/// The total time of these retries.
const CLIENT_PATIENCE: Duration = Duration::from_secs(60);

/// Buckets in memory, by name: they live as long as the process.
static IN_MEMORY: OnceLock<Mutex<HashMap<String, Arc<InMemory>>>> = OnceLock::new();

/// Returns whether a location is in object storage: `s3://` or `mem://`.
///
/// ```
/// assert!(filemap_cloud::is_location("s3://bucket/pages"));
/// assert!(!filemap_cloud::is_location("pages.fm"));
/// ```
pub fn is_location(location: &str) -> bool {
    rest(location).is_some()
}

/// Returns whether a location is in memory, and the part after the scheme.
fn rest(location: &str) -> Option<(bool, &str)> {
    let rest = |scheme: &str| {
        let begin = location.get(..scheme.len())?;
        begin.eq_ignore_ascii_case(scheme).then(|| &location[scheme.len()..])
    };
    rest("s3://").map(|rest| (false, rest)).or_else(|| rest("mem://").map(|rest| (true, rest)))
}

/// The objects of the store at a location.
pub(crate) fn bucket(location: &str, bounds: Bounds) -> Result<Bucket> {
    let (is_in_memory, rest) =
        rest(location).ok_or_else(|| wrong(location, "it does not begin with the scheme of a store"))?;
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if name.contains('@') || name.contains(':') {
        // The part before the `@` may be a secret, or a piece of one that contains a slash: it is
        // not repeated. No bucket name contains either character.
        let what = "a location has no user and no password: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
        return Err(wrong("the location", what));
    }
    if name.is_empty() {
        return Err(wrong(location, "it has no bucket: write s3://bucket/prefix"));
    }
    let root = Path::parse(prefix.trim_matches('/')).map_err(|error| wrong(location, &error.to_string()))?;
    if is_in_memory {
        return Ok(Bucket::new(in_memory(name), root, location, bounds));
    }
    // The index sets no timeouts; its client has that of a small request.
    let of_index = s3(location, name, None)?;
    let of_segments = if std::env::var_os("AWS_TIMEOUT").is_some() {
        Arc::clone(&of_index)
    } else {
        s3(location, name, Some("1 day"))?
    };
    Ok(Bucket::new(of_segments, root, location, bounds).with_index(of_index))
}

fn in_memory(name: &str) -> Arc<InMemory> {
    let buckets = IN_MEMORY.get_or_init(Mutex::default);
    let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(buckets.entry(name.to_owned()).or_default())
}

/// An S3 client with the endpoint and credentials of `AWS_*`.
fn s3(location: &str, bucket: &str, timeout: Option<&str>) -> Result<Arc<dyn ObjectStore>> {
    // The client has no TLS provider; one that the program has installed is kept.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig { max_retries: CLIENT_RETRIES, retry_timeout: CLIENT_PATIENCE, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
    if let Some(timeout) = timeout {
        builder = builder.with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), timeout);
    }
    let built = builder.build();
    Ok(Arc::new(built.map_err(|error| wrong(location, &error.to_string()))?))
}

fn wrong(location: &str, what: &str) -> Error {
    Error::Location { location: location.to_owned(), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { retries: 0, slowest: 1 };

    #[test]
    fn a_location_is_a_bucket_and_a_prefix() {
        let path = |location: &str| bucket(location, BOUNDS).expect("a location").path("STORE").to_string();
        assert_eq!(path("mem://a"), "STORE");
        assert_eq!(path("mem://a/b/c/"), "b/c/STORE");
        assert!(is_location("S3://a/b") && !is_location("/s3://a") && !is_location("s3:/a"));
        for wrong in ["s3://", "mem:///a", "mem://a/b//c", "pages.fm"] {
            assert!(matches!(bucket(wrong, BOUNDS), Err(Error::Location { .. })), "{wrong}");
        }
    }

    #[test]
    fn a_password_in_a_location_is_refused_and_not_repeated() {
        for location in [
            "s3://key:5e3c7e7@bucket/pages",
            "s3://key:a/5e3c7e7@bucket/pages",
            "s3://key:5e3c7e7/b@bucket/pages",
            "s3://key:5e3c7e7",
            "mem://key:5e3c7e7//",
        ] {
            let error = bucket(location, BOUNDS).err().expect("refused").to_string();
            assert!(error.contains("no password") && !error.contains("5e3c7e7"), "{error}");
        }
    }
}
