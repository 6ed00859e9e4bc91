//! Changes of a store of pages since a place in its history. A new client first gets a list of all
//! versions, then puts and removals in their order.

mod place;

use std::fmt;
use std::vec::IntoIter;

use filemap_core::changes::{Change, Changes};
use filemap_core::erase::Rule;
use filemap_core::list::{Direction, KeyRange, KeysInOrder};
use filemap_core::{Head, Version};

pub use self::place::ChangesPlace;
use super::PageStore;
use crate::error::{Error, Result};
use crate::page::variant::Variant;
use crate::page::version::{PageHead, StoredVersion};
use crate::page::{Page, RecordKind, key};

/// A change of a store of pages.
///
/// ```
/// # use filemap::{Options, Page, PageStore};
/// use filemap::store::PageChange;
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// store.sync()?;
/// let first = store.changes(None)?.next().expect("a page is listed")?;
/// assert!(matches!(first, PageChange::Put { head, .. } if head.body_bytes == 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum PageChange {
    /// A version was put, or is listed.
    Put {
        /// Its key.
        key: Vec<u8>,
        /// The version without its body.
        head: Box<PageHead>,
        /// XXH3-128 of the stored bytes: headers that did not fit into the description, then the
        /// body.
        digest: [u8; 16],
    },
    /// All earlier versions of a page, of a variant, or of one kind of records beside them were
    /// removed.
    Removed {
        /// The page, variant or records.
        of: Beside,
        /// Time of the removal, in ms since 1970.
        time_ms: i64,
    },
    /// One version was removed, and no other version of the same time is stored alike.
    RemovedVersion {
        /// The page, variant or records.
        of: Beside,
        /// Time of the removal, in ms since 1970.
        time_ms: i64,
        /// The time of the version, in ms since 1970.
        version_time_ms: i64,
        /// XXH3-128 of its stored bytes, as in [`PageChange::Put`], and XXH3-64 of its
        /// description; `None` if it was damaged.
        print: Option<([u8; 16], u64)>,
    },
    /// The list of all versions is complete.
    Listed {
        /// True if no file of the store is missing: then a version that was not listed does not
        /// exist.
        is_whole: bool,
    },
    /// The rules of erasures have changed. Pages that they name are erased; erase them in every
    /// copy, too.
    Rules(Vec<Rule>),
    /// Something cannot be read. A client that has a copy of it should keep the copy.
    Damaged {
        /// The page, variant or records beside it; `None` if unknown.
        of: Option<Beside>,
        /// The error, which names the file and the offset.
        error: Error,
    },
}

/// A page, a variant, or the records of one kind beside either.
///
/// ```
/// use filemap::page::RecordKind;
/// use filemap::store::{Beside, PageChange};
///
/// // True if pages or variants were removed, and not the records beside them.
/// fn took_pages(change: &PageChange) -> bool {
///     matches!(change, PageChange::Removed { of, .. } if of.kind.is_page())
/// }
/// let (url, kind) = (b"http://example.com/".to_vec(), RecordKind::Request);
/// let of = Beside { url, variant: None, kind };
/// assert!(!took_pages(&PageChange::Removed { of, time_ms: 1_700_000_000_000 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The canonical URL.
    pub url: Vec<u8>,
    /// The variant.
    pub variant: Option<Variant>,
    /// The kind of the records, or [`RecordKind::Response`] for the page itself.
    pub kind: RecordKind,
}

impl Beside {
    /// Decodes a key; `None` if it holds a kind of record that only a newer FileMap knows.
    fn of(key: &[u8]) -> Option<Beside> {
        Some(Beside { url: key::url(key).to_vec(), variant: key::variant(key), kind: key::kind(key)? })
    }
}

/// The changes of a store; see [`PageStore::changes`].
///
/// ```
/// # use filemap::{Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let mut changes = store.changes(Some(&store.changes_end()?))?;
/// assert!(changes.next().is_none());
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// store.sync()?;
/// assert!(changes.renew()? && changes.next().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PageChanges {
    store: PageStore,
    place: ChangesPlace,
    listing: Option<KeysInOrder>,
    /// Versions of the key listed last that were not returned yet, in the order of their puts.
    key: Vec<u8>,
    versions: IntoIter<Head>,
    changes: Changes,
    /// Return the rules before the list.
    tells_rules: bool,
    /// Report a missing file before the list, or before its rest.
    tells_absence: bool,
    /// No file that could hold keys of the list is known to be missing.
    is_whole: bool,
    /// Iteration has ended.
    is_ended: bool,
}

impl fmt::Debug for PageChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageChanges").field("place", &self.place.to_string()).finish_non_exhaustive()
    }
}

impl PageStore {
    /// The current end of the store's history.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::changes_end`].
    pub fn changes_end(&self) -> Result<ChangesPlace> {
        Ok(ChangesPlace { since: self.engine().changes_end()?, listed: None, rules: None })
    }

    /// Changes since a place in the store's history, in their order; only those that are durable.
    /// `None`: first every version in the store, in the order of its keys, then
    /// [`PageChange::Listed`], then the changes since the list began.
    ///
    /// A change may come twice: if a list overlaps the changes after it, or if a client has lost
    /// its place. Applying changes again, in order, does no harm. Versions that retention has
    /// dropped are not reported, nor their removals.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use filemap::store::PageChange;
    /// use filemap::{Options, Page, PageStore};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
    /// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
    /// store.sync()?;
    /// let mut changes = store.changes(None)?;
    /// assert!(matches!(changes.next(), Some(Ok(PageChange::Put { .. }))));
    /// assert!(matches!(changes.next(), Some(Ok(PageChange::Listed { is_whole: true }))));
    /// assert!(changes.next().is_none());
    ///
    /// let place = changes.place().to_string();
    /// store.remove("http://example.com/")?;
    /// store.sync()?;
    /// let mut changes = store.changes(Some(&place.parse()?))?;
    /// assert!(matches!(changes.next(), Some(Ok(PageChange::Removed { .. }))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`filemap_core::Error::Outrun`] if the store no longer knows the place: begin with `None`;
    /// [`Error::Unsupported`] for a list of a store without key order; [`Error::Cursor`]; those of
    /// [`filemap_core::Store::changes`].
    pub fn changes(&self, since: Option<&ChangesPlace>) -> Result<PageChanges> {
        let place = match since {
            Some(place) => place.clone(),
            None => self.changes_end()?.beginning(),
        };
        let tells_absence = place.is_listing();
        let tells_rules = place.listed.as_ref().is_some_and(Vec::is_empty);
        if place.is_listing() {
            // A version that the list omits because it was removed must stay removed.
            self.settle()?;
        }
        let changes = self.engine().changes(place.since)?;
        self.changes_by(changes, place, (tells_rules, tells_absence))
    }

    /// As [`PageStore::changes`], for puts only ([`filemap_core::Store::puts`]).
    #[cfg(feature = "warc")]
    pub(crate) fn puts_since(&self, place: &ChangesPlace) -> Result<PageChanges> {
        let changes = self.engine().puts(place.since)?;
        let place = ChangesPlace { since: changes.cursor(), listed: None, rules: place.rules };
        self.changes_by(changes, place, (false, false))
    }

    fn changes_by(
        &self,
        changes: Changes,
        place: ChangesPlace,
        (tells_rules, tells_absence): (bool, bool),
    ) -> Result<PageChanges> {
        let listing = match &place.listed {
            Some(_) if !self.engine().has_key_order() => {
                let what = "key order, which listing all pages needs: a repair makes one";
                return Err(Error::Unsupported { what });
            }
            Some(listed) => {
                let range = if listed.is_empty() { KeyRange::all() } else { KeyRange::all().after(listed) };
                Some(self.engine().keys_in(range, Direction::Forward)?)
            }
            None => None,
        };
        let (key, versions) = (Vec::new(), Vec::new().into_iter());
        Ok(PageChanges {
            store: self.clone(),
            place,
            listing,
            key,
            versions,
            changes,
            tells_rules,
            tells_absence,
            is_whole: true,
            is_ended: false,
        })
    }

    /// Makes durable what a read may have seen. A follower syncs what it has followed.
    fn settle(&self) -> Result<()> {
        if self.engine().is_read_only() {
            self.engine().changes_end().map(|_| ())?
        } else {
            self.engine().sync()?
        }
        Ok(())
    }
}

impl PageChanges {
    /// The place after the last change returned: where to continue.
    pub fn place(&self) -> &ChangesPlace {
        &self.place
    }

    /// A version as stored, with its body; `None` if it was removed.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn stored(&self, key: &[u8], version: Version) -> Result<Option<StoredVersion>> {
        let found = self.store.engine().get_version(key, version)?;
        found.map(|value| self.store.stored_version(key.to_vec(), value)).transpose()
    }

    /// Reads the record of a version in place. Returns the page without its body, and the length
    /// and digest that the body has when stored.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    #[cfg(feature = "warc")]
    pub fn measured(&self, key: &[u8], head: &PageHead) -> Result<(Page, u64, [u8; 16])> {
        self.store.measured(key, head)
    }

    /// Makes durable the removals that hide versions from the list. Call it before you save a
    /// place within the list, and before you act on [`PageChange::Listed`]. Costs a sync.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::sync`].
    pub fn settle(&self) -> Result<()> {
        self.store.settle()
    }

    /// Returns whether the list is still incomplete.
    pub fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// Checks how far the store has come; returns true if there is something to report.
    ///
    /// # Errors
    ///
    /// As [`PageStore::changes`].
    pub fn renew(&mut self) -> Result<bool> {
        Ok(self.changes.renew()? || self.listing.is_some())
    }

    /// The next version of the list; `None` at its end.
    fn listed(&mut self) -> Result<Option<PageChange>> {
        let before = self.place.since.next_sequence();
        loop {
            if let Some(head) = self.versions.next() {
                return Ok(Some(self.put(self.key.clone(), head)?));
            }
            let Some(listing) = self.listing.as_mut() else { return Ok(None) };
            if !self.key.is_empty() {
                // A client that continues from here has all versions of this key.
                self.place.listed = Some(listing.form().to_vec());
                self.key.clear();
            }
            // An error ends the list: its rest is unknown.
            let key = match listing.next() {
                None => return Ok(None),
                Some(Ok(key)) => key,
                Some(Err(error)) if listing.has_given_all() => {
                    self.is_whole = false;
                    return Ok(Some(PageChange::Damaged { of: None, error: error.into() }));
                }
                Some(Err(error)) => return Err(error.into()),
            };
            if key::is_hidden(&key) {
                continue;
            }
            let heads: filemap_core::Result<Vec<Head>> = self.store.engine().history(&key);
            match heads {
                Ok(mut heads) => {
                    // Later versions are reported as changes, once they are durable.
                    heads.retain(|head| head.version.sequence < before);
                    heads.sort_by_key(|head| head.version.sequence);
                    (self.key, self.versions) = (key, heads.into_iter());
                }
                Err(error) if error.is_corrupt() => {
                    let of = Beside::of(&key);
                    self.key = key;
                    return Ok(Some(PageChange::Damaged { of, error: error.into() }));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn put(&self, key: Vec<u8>, head: Head) -> Result<PageChange> {
        let digest = head.digest;
        match self.store.page_head(&key, head) {
            Ok(head) => Ok(PageChange::Put { key, head: Box::new(head), digest }),
            Err(error) if error.is_damage() => Ok(PageChange::Damaged { of: Beside::of(&key), error }),
            Err(error) => Err(error),
        }
    }

    fn told(&self, change: Change) -> Result<Option<PageChange>> {
        Ok(match change {
            Change::Put { key, .. } | Change::Removed { key, .. } | Change::RemovedOne { key, .. }
                if key::is_hidden(&key) =>
            {
                None
            }
            Change::Put { key, head } => Some(self.put(key, head)?),
            Change::Removed { key, version } => {
                let of = Beside::of(&key);
                let of = of.ok_or(Error::Unsupported { what: "support for a record kind of a newer FileMap" })?;
                Some(PageChange::Removed { of, time_ms: version.time_ms })
            }
            Change::RemovedOne { key, version, removed, digest, meta_hash } => {
                let of = Beside::of(&key);
                let of = of.ok_or(Error::Unsupported { what: "support for a record kind of a newer FileMap" })?;
                let print = Some((digest, meta_hash)).filter(|_| digest != [0; 16]);
                Some(PageChange::RemovedVersion {
                    of,
                    time_ms: version.time_ms,
                    version_time_ms: removed.time_ms,
                    print,
                })
            }
            Change::Rules => Some(PageChange::Rules(self.store.engine().rules()?)),
            Change::Damaged { of, error } => {
                let of = of.and_then(|(key, _)| Beside::of(&key));
                Some(PageChange::Damaged { of, error: error.into() })
            }
            _ => return Err(Error::Unsupported { what: "support for this kind of change" }),
        })
    }

    fn advance(&mut self) -> Result<Option<PageChange>> {
        if std::mem::take(&mut self.tells_rules) {
            let rules = self.store.engine().rules()?;
            if !rules.is_empty() {
                return Ok(Some(PageChange::Rules(rules)));
            }
        }
        if std::mem::take(&mut self.tells_absence)
            && let Some(absent) = self.store.engine().absent().into_iter().next()
        {
            // Reported before the first key of the list, or of its rest.
            self.is_whole = false;
            let error = filemap_core::StorageError::corrupt(&absent.file, 0, &absent.why);
            return Ok(Some(PageChange::Damaged { of: None, error: filemap_core::Error::from(error).into() }));
        }
        if self.listing.is_some() {
            if let Some(listed) = self.listed()? {
                return Ok(Some(listed));
            }
            (self.listing, self.place.listed) = (None, None);
            return Ok(Some(PageChange::Listed { is_whole: self.is_whole }));
        }
        loop {
            let Some(change) = self.changes.next() else {
                self.place.since = self.changes.cursor();
                return Ok(None);
            };
            let told = self.told(change?)?;
            self.place.since = self.changes.cursor();
            if told.is_some() {
                return Ok(told);
            }
        }
    }
}

impl Iterator for PageChanges {
    type Item = Result<PageChange>;

    /// The next change; `None` once every change that was durable at the last
    /// [`PageChanges::renew`] has been returned. Ends after an error.
    fn next(&mut self) -> Option<Result<PageChange>> {
        if self.is_ended {
            return None;
        }
        let next = self.advance().transpose();
        self.is_ended = matches!(next, Some(Err(_)));
        next
    }
}
