//! Counts the consecutive redirects that led to a URL.
//!
//! Stored by hash for a bounded number of URLs: a dropped one restarts at 0, and the depth limit
//! ends every chain.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

/// The maximum number of URLs remembered.
const URLS_MAX: usize = 1 << 20;

/// Redirects in a row that led to URLs not fetched yet.
#[derive(Debug, Default)]
pub struct Hops(Mutex<HashMap<u64, u8>>);

impl Hops {
    /// Removes and returns the number for this URL, which is being fetched.
    pub fn taken(&self, url: &str) -> u8 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&xxh3_64(url.as_bytes())).unwrap_or(0)
    }

    /// Sets the number for this URL.
    pub fn note(&self, url: &str, hops: u8) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < URLS_MAX {
            known.insert(xxh3_64(url.as_bytes()), hops);
        }
    }
}
