//! Pages in place: the store describes them, and their records stay in the files of an archive.
//!
//! A description names the file of its record and the place in it ([`InPlace`]). Name and location
//! of the file are stored once, under their own key, before the first description that needs
//! them: so a crash cannot leave a description without them. Each read of a page reads its record:
//! status, headers and body come from the record, time and URL from the description.
//!
//! A missing record, or a different one in its place, is an error that counts as damage. The
//! description stays, and reads of many pages continue.

#[cfg(feature = "import")]
mod held;
#[cfg(feature = "warc")]
mod read;

#[cfg(feature = "import")]
pub(crate) use held::Held;
#[cfg(feature = "import")]
pub(crate) use read::kept_digest;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use filemap_core::erase::Erasure;
use filemap_core::list::{Direction, KeyRange, Listed};
use filemap_core::{Record, Version};

use super::PageStore;
use super::list::taken;
use super::put::BodySource;
use crate::archives::{Archives, is_remote};
use crate::error::{Error, Result};
use crate::page::version::{BodyForm, PageHead};
use crate::page::{ArchiveId, InPlace, Page, key, meta, order};

/// Time of an archive's entry in the store: the end of the year 9999, after any page that a rule
/// prunes.
const ARCHIVE_TIME_MS: i64 = 253_402_300_799_000;

/// A file with records of pages in place.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let id = store.put_archive("/archive/crawl.warc.gz")?;
/// store.move_archive(id, "/mnt/old/crawl.warc.gz")?;
/// let archive = store.archive(id)?.expect("just put");
/// assert_eq!((&*archive.name, &*archive.location), ("/archive/crawl.warc.gz", "/mnt/old/crawl.warc.gz"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Archive {
    /// Its number, derived from the name.
    pub id: ArchiveId,
    /// Its location when it was first imported.
    pub name: String,
    /// Its current location: a path, or an `http(s)` address.
    pub location: String,
}

impl PageStore {
    /// A handle of the same store that reads pages in place through `archives`, for example from
    /// other machines. Other handles read files of this machine.
    pub fn with_archives(&self, archives: Arc<dyn Archives>) -> PageStore {
        PageStore { archives, ..self.clone() }
    }

    /// The archive with this id; `None` if the store does not know it. One lookup.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::get`].
    pub fn archive(&self, id: ArchiveId) -> Result<Option<Archive>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let value = self.engine().get(&key::archive(id))?;
        Ok(value.map(|value| Archive { id, name: text(&value.head.meta), location: text(&value.body) }))
    }

    /// All archives, by name. Takes a pass over the key log in a store without key order.
    ///
    /// # Errors
    ///
    /// As [`PageStore::archive`].
    pub fn archives(&self) -> Result<Vec<Archive>> {
        let ids = |key: filemap_core::Result<Vec<u8>>| key.map(|key| key::archive_of(&key));
        let found: Vec<Option<ArchiveId>> = if self.engine().has_key_order() {
            let range = KeyRange::from(order::of_archives());
            self.engine().keys_in(range, Direction::Forward)?.map(ids).collect::<filemap_core::Result<_>>()?
        } else {
            let keys = self.engine().keys_where(|key| key.starts_with(key::ARCHIVE));
            keys.map(ids).collect::<filemap_core::Result<_>>()?
        };
        let mut all = Vec::new();
        for id in found.into_iter().flatten() {
            all.extend(self.archive(id)?);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Registers a file whose records stay in place, before pages of it are put. `name` is its
    /// location: an absolute path or an `http(s)` address. If the file was moved and is missing at
    /// its new location, it counts as back at `name`. Locations on other machines are not checked.
    ///
    /// # Errors
    ///
    /// [`Error::InPlace`] if another name has the same number (one in 10^19); those of
    /// [`filemap_core::Store::put`].
    pub fn put_archive(&self, name: &str) -> Result<ArchiveId> {
        let known = self.archive(ArchiveId::of(name))?;
        let moved = known.map(|known| known.location).filter(|location| location != name);
        let location = moved.filter(|location| self.is_there(location)).unwrap_or_else(|| name.to_owned());
        self.put_archive_at(name, &location)
    }

    /// Returns whether a file of this machine can be opened; true for files of other machines.
    pub(crate) fn is_there(&self, location: &str) -> bool {
        is_remote(location) || self.archives.open(location, 0, Some(1)).is_ok()
    }

    fn put_archive_at(&self, name: &str, location: &str) -> Result<ArchiveId> {
        let id = ArchiveId::of(name);
        match self.archive(id)? {
            Some(known) if known.name != name => {
                let what = format!("the store has {} under the same number {id}: give it another name", known.name);
                return Err(Error::InPlace { archive: location.to_owned(), offset: 0, what });
            }
            Some(known) if known.location == location => return Ok(id),
            _ => {}
        }
        let (key, meta, body) = (key::archive(id), name.as_bytes(), location.as_bytes());
        self.engine().put(&Record { key: &key, meta, body, time_ms: ARCHIVE_TIME_MS })?;
        Ok(id)
    }

    /// Sets the current location of a file. Returns false if the store does not know the file.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_archive`].
    pub fn move_archive(&self, id: ArchiveId, location: &str) -> Result<bool> {
        let Some(archive) = self.archive(id)? else { return Ok(false) };
        self.put_archive_at(&archive.name, location)?;
        Ok(true)
    }

    /// Stores the description of a page whose record stays in [`Page::in_place`]. Its body is
    /// ignored.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page`]; [`Error::InPlace`] if the store does not know the file, or the
    /// page names none.
    pub fn put_in_place(&self, page: &Page) -> Result<Version> {
        let place = page.in_place.ok_or_else(|| unknown(None))?;
        if !self.engine().contains(&key::archive(place.archive))? {
            return Err(unknown(Some(place)));
        }
        self.put_description(&self.key_of_page(page)?, page)
    }

    /// As [`PageStore::put_in_place`], for a file that the store knows, under the page's key.
    pub(crate) fn put_description(&self, key: &[u8], page: &Page) -> Result<Version> {
        self.put_at(key, page, BodySource::Bytes(&[], BodyForm::Whole)).map(|put| put.version())
    }

    /// As [`PageStore::put_description`], for pages without a variant, in one write of the engine.
    ///
    /// # Errors
    ///
    /// As [`filemap_core::Store::put_batch`].
    #[cfg(feature = "import")]
    pub(crate) fn put_descriptions(&self, pages: &[(&[u8], &Page)]) -> Result<Vec<Version>> {
        let encoded: Vec<_> =
            pages.iter().map(|(key, page)| meta::encode(page, key::url(key))).collect::<Result<_>>()?;
        let records: Vec<Record<'_>> = (pages.iter().zip(&encoded))
            .map(|((key, page), encoded)| Record {
                key,
                meta: &encoded.meta,
                body: &encoded.spill,
                time_ms: page.fetched_at_ms,
            })
            .collect();
        Ok(self.engine().put_batch(&records)?)
    }

    /// Versions in place with their keys, without bodies, in the order of the log: a sequential
    /// read of the value log.
    pub(crate) fn heads_in_place(&self) -> impl Iterator<Item = Result<(Vec<u8>, PageHead)>> + use<> {
        let store = self.clone();
        taken(self.engine().version_heads(), move |listed| {
            let Listed { key, head, .. } = listed;
            meta::is_in_place(&head.meta).then(|| Ok((key.clone(), store.page_head(&key, head)?)))
        })
    }

    /// Reads the record of every version in place. Calls `each` with the result; an error names a
    /// version whose record is missing or different. `Break` cancels the work. Returns the number
    /// of records found.
    ///
    /// # Errors
    ///
    /// Those of reading the store.
    #[cfg(feature = "warc")]
    pub fn check_archives(&self, each: &mut dyn FnMut(Result<()>) -> ControlFlow<()>) -> Result<u64> {
        let mut there = 0;
        for found in self.heads_in_place() {
            let read = found.and_then(|(key, head)| self.whole_of_archive(&key, head).map(|_| ()));
            let told = match read {
                Err(error) if !error.is_damage() => return Err(error),
                read => {
                    there += u64::from(read.is_ok());
                    each(read)
                }
            };
            if told.is_break() {
                break;
            }
        }
        Ok(there)
    }

    /// The archives that hold records of versions in place that an erasure covers, with their
    /// numbers.
    pub(crate) fn kept_in_archives(&self, what: &Erasure) -> Result<Vec<(String, u64)>> {
        let archives = self.archives()?;
        if archives.is_empty() {
            return Ok(Vec::new());
        }
        let (keys, versions) = (Arc::clone(&what.keys), Arc::clone(&what.versions));
        let meant = self.engine().version_heads().only(move |key, version| keys(key) && versions(key, version));
        let mut counts: HashMap<ArchiveId, u64> = HashMap::new();
        for listed in meant {
            let Listed { key, head, .. } = match listed {
                // The erasure itself counts the damage, and is incomplete.
                Err(error) if error.is_corrupt() => continue,
                listed => listed?,
            };
            if !meta::is_in_place(&head.meta) {
                continue;
            }
            match self.describe(&key, &head) {
                Ok(page) => page.in_place.into_iter().for_each(|place| *counts.entry(place.archive).or_default() += 1),
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        let counted = |archive: Archive| Some((archive.location, *counts.get(&archive.id)?));
        Ok(archives.into_iter().filter_map(counted).collect())
    }
}

/// Error for a page whose file the store does not know.
pub(crate) fn unknown(place: Option<InPlace>) -> Error {
    let archive = place.map_or("an unnamed file".to_owned(), |place| format!("file number {}", place.archive));
    let what = "the store does not know this file".to_owned();
    Error::InPlace { archive, offset: place.map_or(0, |place| place.offset), what }
}

#[cfg(not(feature = "warc"))]
impl PageStore {
    /// The page of a description in place, with its body.
    pub(super) fn of_archive(&self, _: &[u8], _: Page, _: InPlace) -> Result<Page> {
        Err(Error::Unsupported { what: "support for WARC files, which pages in place need: build with feature `warc`" })
    }
}
