//! URLs as keys, and the question whether one was met before.
//!
//! **One canonical form per page.** A [`Canonicalizer`] turns a URL, as it stood in a link or a
//! WARC record, into the bytes under which a store keeps the page. It has a name and a version,
//! and both are stored with the data: the same name and version give the same bytes for ever, and
//! a rule that changes gets a new version.
//!
//! * [`Whatwg`] (`whatwg`): the serialisation of the WHATWG URL standard without the fragment; two
//!   URLs that a browser would request alike become one key.
//! * [`CrawlRules`] (`crawl`, `surt`, `rules`): that, and named rules that can be switched
//!   ([`canonical::Rule`], [`canonical::RuleSet`]).
//! * [`Exact`] (`exact`): the bytes as they are.
//!
//! [`canonical::named`] finds one again by what a store says it was written with, and [`host`]
//! reads the host out of a key, for listings by host.
//!
//! ```
//! use urlindex::{Canonicalizer, Whatwg, host};
//!
//! let key = Whatwg.canonicalize(b"HTTP://Example.COM:80/a/../b?q=1#top").unwrap();
//! assert_eq!(key, b"http://example.com/b?q=1");
//! assert_eq!(host(&key), Some(&b"example.com"[..]));
//! ```
//!
//! **Seen sets.** A [`SeenSet`] says of a URL whether it is [new](Verdict) or was seen, and what
//! that answer is worth. There is a family of them; docs/SEEN.md says which to choose.
//!
//! | set | errs | bytes per URL | kept |
//! |---|---|---|---|
//! | [`Md5Bitmap`] | as its slots fill | 2^n / 8 in all | in a mapped file of bare words |
//! | [`HashBitmap`] | as its slots fill, by k functions of old | chosen | in a mapped file of bare bits |
//! | [`BloomFilter`] | at the rate that is chosen, for a number of URLs that is known | 1.2 to 5 | in memory, or a file written by `sync` |
//! | [`GrowingFilter`] | at the rate that is chosen, for any number | 1.5 to 6 | in memory, or a file written by `sync` |
//! | [`DiskUrlSet`] | as two hashes of 80 bits fall together | 0 to 16 in memory, 6.7 to 8 on disk | on disk |
//! | [`UrlTrie`] | never | what differs from its neighbours | in memory; saved and loaded |
//!
//! [`ContentSeen`] asks the same of page bodies: whether one was met before, under whatever URL.
//!
//! A [`StoredSet`] is one of them by the path of its file, whatever its kind; it remembers the
//! canonicaliser of its URLs.
//!
//! Invariants: no canonical URL is empty or holds a NUL byte (stores use NUL to keep other records
//! beside a page), and canonicalising a canonical URL changes nothing; no set calls a URL new that
//! was inserted, and nothing that was synced is forgotten, whatever happens to the machine.

mod bitmap;
mod bloom;
pub mod canonical;
mod content;
pub mod disk;
mod error;
mod files;
mod format;
mod seen;
mod stored;
mod trie;

/// The hash functions of filters, and the slots and layouts that they lead to.
pub mod hash {
    pub use crate::bitmap::{SlotHash, md5_slot};
    pub use crate::bloom::hash::{HashFamily, ap, bkdr, djb, djb0};
    pub use crate::bloom::shape::Layout;
}

pub use bitmap::{HashBitmap, Md5Bitmap};
pub use bloom::growing::GrowingFilter;
pub use bloom::{BloomFilter, BloomOptions};
pub use canonical::{Canonicalizer, CrawlRules, Exact, UrlError, Whatwg, host};
pub use content::ContentSeen;
pub use disk::{DiskOptions, DiskUrlSet};
pub use error::{Error, Result};
pub use filemap_io::StorageError;
pub use seen::{SeenSet, SeenStats, Verdict};
pub use stored::{AnySet, Merged, NewSet, SetKind, StoredSet};
pub use trie::{UrlTrie, UrlTrieIter};
