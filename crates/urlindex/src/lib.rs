//! Canonical URLs as keys, and seen sets, which tell whether a URL was seen before.
//!
//! **One canonical form per page.** A [`Canonicalizer`] turns a URL from a link or a WARC record
//! into the key under which a store keeps the page. Stores record its name and version, which
//! stand for the same bytes for ever; a rule that changes gets a new version.
//!
//! * [`Whatwg`] (`whatwg`): the serialisation of the WHATWG URL standard without the fragment; two
//!   URLs that a browser requests alike become one key.
//! * [`CrawlRules`] (`crawl`, `surt`, `rules`): that, and named rules that can be switched
//!   ([`canonical::Rule`], [`canonical::RuleSet`]).
//! * [`Exact`] (`exact`): the bytes as they are.
//!
//! [`canonical::named`] finds a canonicaliser by name and version, and [`host`] reads the host out
//! of a key, for listings by host.
//!
//! ```
//! use urlindex::{Canonicalizer, Whatwg, host};
//!
//! let key = Whatwg.canonicalize(b"HTTP://Example.COM:80/a/../b?q=1#top").unwrap();
//! assert_eq!(key, b"http://example.com/b?q=1");
//! assert_eq!(host(&key), Some(&b"example.com"[..]));
//! ```
//!
//! **Seen sets.** A [`SeenSet`] tells whether a URL is [new](Verdict) or seen, and how sure that
//! is. docs/SEEN.md says which set to choose.
//!
//! | set | false positives | bytes per URL | kept |
//! |---|---|---|---|
//! | [`Md5Bitmap`] | more as slots fill | 2^n / 8 in all | in a mapped file of bare words |
//! | [`HashBitmap`] | more as slots fill, with k classic hash functions | chosen | in a mapped file of bare bits |
//! | [`BloomFilter`] | chosen rate, for a known number of URLs | 1.2 to 5 | in memory, or a file written by `sync` |
//! | [`GrowingFilter`] | chosen rate, for any number | 1.5 to 6 | in memory, or a file written by `sync` |
//! | [`DiskUrlSet`] | collisions of 80-bit hashes | 0 to 16 in memory, 8.4 to 10 on disk | on disk |
//! | [`UrlTrie`] | none | what differs from its neighbours | in memory; saved and loaded |
//!
//! [`ContentSeen`] does the same for page bodies, whatever their URL.
//!
//! A [`stored::StoredSet`] is a set of any kind, given by its path; it records the canonicaliser
//! of its URLs. An [`idempotent::IdempotentSet`] answers a request that is sent again as it did
//! before.
//!
//! Invariants: no canonical URL is empty or holds a NUL byte (stores use NUL for other records of
//! a page), and canonicalising a canonical URL changes nothing; no set calls an inserted URL new,
//! and what was synced survives any crash.

mod bitmap;
mod bloom;
pub mod canonical;
mod content;
pub mod disk;
mod error;
mod files;
mod format;
pub mod idempotent;
mod journal;
mod request_id;
mod seen;
pub mod stored;
mod trie;

/// Hash functions of filters, their slots and layouts.
pub mod hash {
    pub use crate::bitmap::{SlotHash, md5_slot};
    pub use crate::bloom::hash::{HashFamily, ap, bkdr, djb, djb0};
    pub use crate::bloom::shape::Layout;
}

pub use bitmap::{HashBitmap, Md5Bitmap};
pub use bloom::growing::GrowingFilter;
pub use bloom::{BloomFilter, BloomOptions};
pub use canonical::canonicalizer::{Canonicalizer, UrlError};
pub use canonical::crawl::CrawlRules;
pub use canonical::exact::Exact;
pub use canonical::host::{host, shard};
pub use canonical::whatwg::Whatwg;
pub use content::ContentSeen;
pub use disk::options::DiskOptions;
pub use disk::set::DiskUrlSet;
pub use error::{Error, Result};
pub use filemap_io::StorageError;
pub use seen::{SeenSet, SeenStats, Verdict};
pub use trie::{UrlTrie, UrlTrieIter};
