//! Limits of one fetch: bytes, times, waits. All are on by default.
//!
//! Here 0 means 0; the command line translates a 0 that means "no limit".

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of one fetch and of its links.
///
/// ```
/// use crawl::settings::limits::Limits;
/// let limits = Limits { types: vec!["image/*".to_owned()], ..Limits::default() };
/// assert!(limits.accepts("image/png") && !limits.accepts("text/html; charset=utf-8"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The maximum length of a decoded body; a longer one is truncated.
    pub body_bytes: u64,
    /// The maximum length of an answer's head.
    pub header_bytes: u32,
    /// The maximum expansion of a compressed body over [`RATIO_FROM_BYTES`].
    pub ratio: u32,
    /// The maximum number of redirects in a row.
    pub redirects: u8,
    /// The time for connecting, TLS included.
    pub connect: Duration,
    /// The time from the start to the head of the answer.
    pub first_byte: Duration,
    /// The time from the start to the last byte.
    pub total: Duration,
    /// The minimum rate in bytes a second, measured over [`RATE_WINDOW`].
    pub rate_bytes: u64,
    /// The maximum `Retry-After` obeyed; a longer one is reduced to it.
    pub retry_after: Duration,
    /// The maximum crawl-delay obeyed.
    pub crawl_delay: Duration,
    /// Content types of pages, such as `text/html` and `image/*`; empty accepts all.
    #[serde(default)]
    pub types: Vec<String>,
    /// The maximum number of links of one page.
    pub links: usize,
    /// The maximum length of a URL.
    pub url_bytes: usize,
    /// The maximum number of consecutive repetitions of a part of a path; 0 for no limit.
    #[serde(default = "path_repeats")]
    pub path_repeats: u8,
    /// The maximum number of years that a date in a URL may be ahead; 0 for no limit.
    #[serde(default = "years_ahead")]
    pub years_ahead: u16,
    /// The maximum Hamming distance of near-duplicates' fingerprints, 0 to 3 of 64 bits; `None`
    /// disables the detection.
    #[serde(default = "near_bits")]
    pub near_bits: Option<u8>,
}

fn near_bits() -> Option<u8> {
    Some(3)
}

fn path_repeats() -> u8 {
    3
}

fn years_ahead() -> u16 {
    5
}

/// Bodies up to this length may expand without limit: small repetitive pages do so.
pub const RATIO_FROM_BYTES: u64 = 1 << 20;
/// The window over which the rate is measured.
pub const RATE_WINDOW: Duration = Duration::from_secs(10);
/// The maximum number of header fields of an answer.
pub const HEADER_FIELDS: usize = 256;
/// A longer body waits for one of a few places, so that memory is bounded for any number of
/// connections.
pub const SMALL_BODY_BYTES: usize = 1 << 20;
/// The maximum size read of a robots.txt: the minimum of RFC 9309.
pub const ROBOTS_BYTES: usize = 500 << 10;
/// Bytes received beyond these, so that a longer one is known as such: more than a byte order
/// mark.
const ROBOTS_MORE: u64 = 16;
/// The maximum length of a sitemap, by its protocol.
pub const SITEMAP_BYTES: u64 = 50 << 20;
/// The maximum number of links of a sitemap, by its protocol.
pub const SITEMAP_LINKS: usize = 50_000;
/// Memory for all bodies over [`SMALL_BODY_BYTES`], unless a single one may be longer. A sitemap
/// longer than other bodies may be is added to it, one at a time.
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
            types: Vec::new(),
            links: 10_000,
            url_bytes: 2_000,
            path_repeats: path_repeats(),
            years_ahead: years_ahead(),
            near_bits: near_bits(),
        }
    }
}

impl Limits {
    /// Returns whether a page of this content type is accepted. A missing type is.
    pub fn accepts(&self, content_type: &str) -> bool {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let is_it = |wanted: &String| match wanted.strip_suffix('*') {
            Some(start) => essence.get(..start.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(start)),
            None => essence.eq_ignore_ascii_case(wanted),
        };
        self.types.is_empty() || essence.is_empty() || self.types.iter().any(is_it)
    }

    /// The maximum length of a robots.txt as it is received: all that is obeyed of it, however
    /// short other bodies must be.
    pub fn robots_bytes(&self) -> u64 {
        self.body_bytes.max(ROBOTS_BYTES as u64 + ROBOTS_MORE)
    }

    /// The maximum length of a sitemap.
    pub fn sitemap_bytes(&self) -> u64 {
        self.body_bytes.max(SITEMAP_BYTES)
    }

    /// The number of places for bodies over [`SMALL_BODY_BYTES`].
    pub fn large_bodies(&self) -> usize {
        usize::try_from(LARGE_BODIES_BYTES / self.body_bytes.max(1)).unwrap_or(usize::MAX).clamp(1, 96)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_accepted_by_name_or_by_kind() {
        let limits = Limits { types: vec!["text/html".to_owned(), "image/*".to_owned()], ..Limits::default() };
        for accepted in ["text/html", "Text/HTML; charset=x", " text/html ;x", "image/png", "IMAGE/x", "", " ; x"] {
            assert!(limits.accepts(accepted), "{accepted}");
        }
        for refused in ["text/plain", "text/htmlx", "imagex/png", "image", "application/xhtml+xml", "é"] {
            assert!(!limits.accepts(refused), "{refused}");
        }
        assert!(Limits::default().accepts("application/pdf"));
    }
}
