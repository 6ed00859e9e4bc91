//! How many redirects in a row led to a URL.
//!
//! By hash, and of a bounded number of URLs: who is forgotten begins again at 0, and the depth of links ends every chain.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

/// URLs that are remembered, at most.
const URLS_MAX: usize = 1 << 20;

/// Redirects that led to URLs that were not fetched yet.
#[derive(Debug, Default)]
pub struct Hops(Mutex<HashMap<u64, u8>>);

impl Hops {
    /// How many led to this URL, which is fetched now.
    pub fn taken(&self, url: &str) -> u8 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&xxh3_64(url.as_bytes())).unwrap_or(0)
    }

    /// So many led to this URL.
    pub fn note(&self, url: &str, hops: u8) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < URLS_MAX {
            known.insert(xxh3_64(url.as_bytes()), hops);
        }
    }
}
