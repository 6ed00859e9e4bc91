//! What a server may take of us: bytes, time, patience. All on by default.
//!
//! Zero never means "no limit" by accident: the command line turns a given 0 into the greatest number where it says so, and
//! here every field is what it is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of one fetch and of what is taken from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of a body, decoded; the beginning of a longer one is kept.
    pub body_bytes: u64,
    /// Bytes of an answer's head.
    pub header_bytes: u32,
    /// How many times as long as what came over the wire a decoded body may be, once it is over [`RATIO_FROM_BYTES`].
    pub ratio: u32,
    /// Redirects in a row.
    pub redirects: u8,
    /// Until there is a connection, TLS included.
    pub connect: Duration,
    /// Until the head of the answer is there, from the beginning.
    pub first_byte: Duration,
    /// Until the last byte is there, from the beginning.
    pub total: Duration,
    /// Bytes a second that must come, over [`RATE_WINDOW`] at a time.
    pub rate_bytes: u64,
    /// The longest `Retry-After` that is obeyed; one of more is cut to this.
    pub retry_after: Duration,
    /// The longest crawl-delay of a robots.txt that is obeyed.
    pub crawl_delay: Duration,
    /// Links of one page that are looked at.
    pub links: usize,
    /// Bytes of a URL.
    pub url_bytes: usize,
}

/// A shorter body may expand as much as it likes: a small page of repetitions does.
pub const RATIO_FROM_BYTES: u64 = 1 << 20;
/// Over how long a time the least rate is measured.
pub const RATE_WINDOW: Duration = Duration::from_secs(10);
/// Fields of an answer's head.
pub const HEADER_FIELDS: usize = 256;
/// A body up to this long is held without asking; a longer one takes one of few places, so that memory stays bounded however
/// many connections there are.
pub const SMALL_BODY_BYTES: usize = 1 << 20;
/// Bodies over [`SMALL_BODY_BYTES`] together, as far as one of them is not longer itself.
pub const LARGE_BODIES_BYTES: u64 = 96 << 20;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 16 << 20,
            header_bytes: 64 << 10,
            ratio: 100,
            redirects: 10,
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(30),
            total: Duration::from_secs(120),
            rate_bytes: 100,
            retry_after: Duration::from_secs(600),
            crawl_delay: Duration::from_secs(60),
            links: 10_000,
            url_bytes: 2_000,
        }
    }
}

impl Limits {
    /// How many bodies over [`SMALL_BODY_BYTES`] may be held at once.
    pub fn large_bodies(&self) -> usize {
        usize::try_from(LARGE_BODIES_BYTES / self.body_bytes.max(1)).unwrap_or(usize::MAX).clamp(1, 96)
    }
}
