//! The content-seen test: finds a stored page with the same body.
//!
//! [`ContentSeen`] recognises most new bodies from memory. For a known digest a small engine store
//! maps it to a URL. Neither is trusted: a holder counts only if the page store has that body
//! under that URL now. So after any crash a reference leads to the right body; at worst a body is
//! stored twice.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use filemap::Page;
use filemap_core::backup::BackupOptions;
use filemap_core::dictionaries::Dictionaries;
use filemap_core::{Options, Record, Store};
use urlindex::{ContentSeen, DiskOptions, SeenSet, Verdict};

use crate::error::Error;
use crate::files;
use crate::pages::Pages;

/// Memory of the digest set.
const SEEN_BYTES: u64 = 16 << 20;
/// Memory of the memtable of the holders' store, and its log between two checkpoints.
const RECENT_BYTES: usize = 8 << 20;
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// Lock shards by digest: of equal bodies exactly one is the first.
const SHARDS: usize = 64;

/// The content-seen test: bodies and their holders.
///
/// ```
/// use crawl::files::bodies::Bodies;
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("pages.fm");
/// # let store = filemap::PageStore::create(path, filemap::Options::new())?;
/// let pages = crawl::pages::Pages::Local(store);
/// pages.put_page(&filemap::Page::new("http://example.com/", 7, 200, "body"))?;
/// let (bodies, digest) = (Bodies::open(place.path())?, urlindex::ContentSeen::digest(b"body"));
/// assert_eq!(bodies.holder(&digest, 4, &pages)?, None);
/// bodies.note(&digest, b"http://example.com/", 7)?;
/// assert_eq!(bodies.holder(&digest, 4, &pages)?.expect("noted").key, b"http://example.com/");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Bodies {
    seen: ContentSeen,
    holders: Store,
    shards: Vec<Mutex<()>>,
}

/// The holder of a body: a page that has it.
///
/// ```
/// use crawl::files::bodies::Holder;
/// let holder = Holder { key: b"http://example.com/".to_vec(), fetched_at_ms: 7 };
/// let mut page = filemap::Page::new("http://example.com/copy", 9, 200, "body");
/// // What is stored of a page whose body another one has.
/// let reference = crawl::record::duplicate(&mut page, &holder.key, holder.fetched_at_ms);
/// assert!(reference.body.is_empty() && page.body == b"body");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The page's key.
    pub key: Vec<u8>,
    /// The time of the holding version.
    pub fetched_at_ms: i64,
}

impl Bodies {
    /// Opens or creates the test's files in this folder.
    ///
    /// # Errors
    /// Errors of the set and the store.
    pub fn open(folder: &Path) -> Result<Bodies, Error> {
        let remedy =
            "Remove bodies, bodies.* and holders.fm there: they are rebuilt, and at worst a body is stored twice";
        Bodies::open_in(folder).map_err(|failure| failure.at(folder, remedy))
    }

    fn open_in(folder: &Path) -> Result<Bodies, Error> {
        let options = Options::new()
            .dictionaries(Dictionaries::Off)
            .compression_level(0)
            .memtable_bytes(RECENT_BYTES)
            .checkpoint_bytes(CHECKPOINT_BYTES);
        let path = folder.join(files::HOLDERS);
        let holders = match Store::open(&path, options.clone()) {
            Err(filemap_core::Error::NotAStore { .. }) => Store::create(&path, options)?,
            opened => opened?,
        };
        let disk = DiskOptions::new().memory_bytes(SEEN_BYTES);
        let seen = match ContentSeen::open(folder.join(files::BODIES), disk.clone()) {
            Err(urlindex::Error::Storage(error)) if error.is_absent() => {
                ContentSeen::create(folder.join(files::BODIES), disk)?
            }
            opened => opened?,
        };
        Ok(Bodies { seen, holders, shards: (0..SHARDS).map(|_| Mutex::new(())).collect() })
    }

    /// Locks decisions about bodies of this digest.
    pub fn lock(&self, digest: &[u8; 16]) -> MutexGuard<'_, ()> {
        self.shards[usize::from(digest[0]) % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page that currently has this body, if any.
    ///
    /// # Errors
    /// Errors of the set and the stores.
    pub fn holder(&self, digest: &[u8; 16], body_bytes: u64, pages: &Pages) -> Result<Option<Holder>, Error> {
        if self.seen.contains_digest(digest)? == Verdict::New {
            return Ok(None);
        }
        let Some(value) = self.holders.get(digest)? else { return Ok(None) };
        let Some(body) = pages.body(&value.body)? else { return Ok(None) };
        let is_it = body.digest == *digest && body.bytes == body_bytes;
        Ok(is_it.then_some(Holder { key: value.body, fetched_at_ms: body.time_ms }))
    }

    /// Another page with the same body.
    ///
    /// # Errors
    /// Errors of the set and the stores.
    pub fn other_holder(&self, page: &Page, pages: &Pages) -> Result<Option<Holder>, Error> {
        if page.body.is_empty() {
            return Ok(None);
        }
        let holder = self.holder(&ContentSeen::digest(&page.body), page.body.len() as u64, pages)?;
        let key = pages.key(&page.url)?;
        Ok(holder.filter(|holder| holder.key != key))
    }

    /// Records that a page has a body.
    ///
    /// # Errors
    /// Errors of the set and the store.
    pub fn note(&self, digest: &[u8; 16], key: &[u8], at_ms: i64) -> Result<(), Error> {
        self.holders.put(&Record { key: digest, meta: &[], body: key, time_ms: at_ms })?;
        self.seen.check_and_insert_digest(digest)?;
        Ok(())
    }

    /// Makes records durable. Nothing depends on it: a forgotten body counts as new.
    ///
    /// # Errors
    /// Errors of the set and the store.
    pub fn sync(&self) -> Result<(), Error> {
        self.holders.sync()?;
        Ok(self.seen.sync()?)
    }

    /// Copies set and store to another folder, with at least all records made before the call.
    ///
    /// # Errors
    /// Errors of the set and the store, also if either exists there.
    pub fn copy_to(&self, folder: &Path) -> Result<(), Error> {
        self.seen.snapshot(folder)?;
        let to = folder.join(files::HOLDERS);
        self.holders.backup(to, &BackupOptions::new(), &mut |_| ControlFlow::Continue(()))?;
        Ok(())
    }

    /// Closes set and store.
    ///
    /// # Errors
    /// Errors of the set and the store.
    pub fn close(self) -> Result<(), Error> {
        self.seen.sync()?;
        Ok(self.holders.close()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_counts_only_while_it_holds_the_body() {
        let folder = tempfile::tempdir().unwrap();
        let store = filemap::PageStore::create(folder.path().join("pages.fm"), Options::new()).unwrap();
        let pages = Pages::Local(store);
        let bodies = Bodies::open(folder.path()).unwrap();
        let digest = ContentSeen::digest(b"body");
        assert_eq!(bodies.holder(&digest, 4, &pages).unwrap(), None);
        pages.put_page(&Page::new("http://a/", 7, 200, "body")).unwrap();
        bodies.note(&digest, b"http://a/", 7).unwrap();
        bodies.close().unwrap();

        let bodies = Bodies::open(folder.path()).unwrap();
        let holder = Holder { key: b"http://a/".to_vec(), fetched_at_ms: 7 };
        assert_eq!(bodies.holder(&digest, 4, &pages).unwrap(), Some(holder));
        pages.put_page(&Page::new("http://a/", 8, 200, "another")).unwrap();
        assert_eq!(bodies.holder(&digest, 4, &pages).unwrap(), None);
    }
}
