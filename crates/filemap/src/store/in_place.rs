//! Pages in place: the store describes them, and their records stay in the files of an archive.
//!
//! A description says in which file its record lies, and where ([`InPlace`]). Name and location of
//! the file lie once under a key of the store's own, put before the first description that needs
//! it: so no crash parts them. Reading a page reads its record, each time: status, headers and
//! body are the record's, time and URL the description's.
//!
//! A record that is not there any more, or is another, is an error that counts as damage: the
//! description stays, and whoever reads many pages goes on.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use filemap_core::erase::Erasure;
use filemap_core::list::{Direction, KeyRange, Listed};
use filemap_core::{Record, Version};

use super::PageStore;
use super::list::taken;
use super::put::BodySource;
use crate::archives::Archives;
use crate::error::{Error, Result};
use crate::page::version::{BodyForm, PageHead};
use crate::page::{ArchiveId, InPlace, Page, key, meta, order};

/// The time of what the store knows of an archive: the end of the year 9999, later than that of
/// any page that a rule prunes.
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
    /// Its number, made of the name.
    pub id: ArchiveId,
    /// Where it was when it was imported first.
    pub name: String,
    /// Where it is: a path, or an `http(s)` address.
    pub location: String,
}

impl PageStore {
    /// A handle of the same store that reads pages in place through `archives`: one that reads
    /// those of other machines, say. Others read files of this machine.
    pub fn with_archives(&self, archives: Arc<dyn Archives>) -> PageStore {
        PageStore { archives, ..self.clone() }
    }

    /// What the store knows of an archive; `None` if it has no such. One lookup.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::get`].
    pub fn archive(&self, id: ArchiveId) -> Result<Option<Archive>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let value = self.engine().get(&key::archive(id))?;
        Ok(value.map(|value| Archive { id, name: text(&value.head.meta), location: text(&value.body) }))
    }

    /// All archives, by name. In a store that keeps no keys in order a pass over the key log.
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

    /// Notes a file whose records stay in place, before pages of it are put: `name` is where it
    /// is, an absolute path or an `http(s)` address. A file that was moved from there counts as
    /// back.
    ///
    /// # Errors
    ///
    /// [`Error::InPlace`] if another name has the same number (one in 10^19); those of
    /// [`filemap_core::Store::put`].
    pub fn put_archive(&self, name: &str) -> Result<ArchiveId> {
        self.put_archive_at(name, name)
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

    /// Notes where a file is now. Returns false if the store knows no such file.
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
    /// page does not say where it is.
    pub fn put_in_place(&self, page: &Page) -> Result<Version> {
        let place = page.in_place.ok_or_else(|| unknown(None))?;
        if !self.engine().contains(&key::archive(place.archive))? {
            return Err(unknown(Some(place)));
        }
        self.put_description(page)
    }

    /// As [`PageStore::put_in_place`], of a file that the store knows.
    pub(crate) fn put_description(&self, page: &Page) -> Result<Version> {
        self.put_as_it_is(page, BodySource::Bytes(&[], BodyForm::Whole)).map(|put| put.version())
    }

    /// The versions in place without their bodies, with their keys, in the order of the log: a
    /// sequential read of the value log.
    pub(crate) fn heads_in_place(&self) -> impl Iterator<Item = Result<(Vec<u8>, PageHead)>> + use<> {
        let store = self.clone();
        taken(self.engine().version_heads(), move |listed| {
            let Listed { key, head, .. } = listed;
            meta::is_in_place(&head.meta).then(|| Ok((key.clone(), store.page_head(&key, head)?)))
        })
    }

    /// Reads the record of every version in place. Each that is not there, or is another, goes to
    /// `each`, as an error that names it; `Break` ends the work. Returns how many are there.
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

    /// Where the records of versions in place lie that an erasure is about, with their numbers.
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
                Err(error) if error.is_corrupt() => continue,
                listed => listed?,
            };
            if let Some(place) = self.describe(&key, &head)?.in_place {
                *counts.entry(place.archive).or_default() += 1;
            }
        }
        let counted = |archive: Archive| Some((archive.location, *counts.get(&archive.id)?));
        Ok(archives.into_iter().filter_map(counted).collect())
    }

    /// Whether the store has this visit: in the same place, or with a body of the same digest.
    pub(crate) fn holds_visit(&self, key: &[u8], page: &Page) -> Result<bool> {
        let Some(newest) = self.head_of_time(key, page.fetched_at_ms)? else { return Ok(false) };
        let is_it = |stored: &Page| {
            stored.in_place.is_some() && stored.in_place == page.in_place
                || stored.digest.is_some() && stored.digest == page.digest && stored.status == page.status
        };
        if is_it(&self.describe(key, &newest)?) {
            return Ok(true);
        }
        for (_, head) in self.each_head(key.to_vec()) {
            match head {
                Ok(head) if head.version.time_ms < page.fetched_at_ms => break,
                Ok(head) if head.version.time_ms > page.fetched_at_ms => {}
                Ok(head) if is_it(&self.describe(key, &head)?) => return Ok(true),
                Err(error) if !error.is_damage() => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// The error of a page whose file the store does not know.
fn unknown(place: Option<InPlace>) -> Error {
    let archive = place.map_or("a file".to_owned(), |place| format!("the file number {}", place.archive));
    let what = "the store does not know where that is".to_owned();
    Error::InPlace { archive, offset: place.map_or(0, |place| place.offset), what }
}

#[cfg(not(feature = "warc"))]
impl PageStore {
    /// The page of a description in place, with its body.
    pub(super) fn of_archive(&self, _: &[u8], _: Page, _: InPlace) -> Result<Page> {
        Err(Error::Unsupported { what: "reading of WARC files, which pages in place need: build it with `warc`" })
    }
}

#[cfg(feature = "warc")]
mod reading {
    use std::io::{self, Read};

    use super::super::read::unreadable;
    use super::{Archive, Error, InPlace, Page, PageHead, PageStore, Result, key, unknown};
    use crate::date;
    use crate::http::body::BodyRules;
    use crate::page::RecordKind;
    use crate::page::digest::Digest;
    use crate::spool::{Payload, Spool};
    use crate::warc::capture::{Captured, capture};
    use crate::warc::{Begins, Item, Reader, Record, dictionary_frame, zstd_begins};

    impl PageStore {
        /// The page of a description in place, with its body.
        pub(crate) fn of_archive(&self, key: &[u8], described: Page, place: InPlace) -> Result<Page> {
            let (page, body) = self.of_archive_in_parts(key, described, place)?;
            Ok(Page { body: body.into_bytes()?, ..page })
        }

        /// As [`PageStore::of_archive`], with a large body on disk.
        pub(crate) fn of_archive_in_parts(
            &self,
            key: &[u8],
            described: Page,
            place: InPlace,
        ) -> Result<(Page, Payload)> {
            let archive = self.archive(place.archive)?.ok_or_else(|| unknown(Some(place)))?;
            let failed =
                |what: String| Error::InPlace { archive: archive.location.clone(), offset: place.offset, what };
            let found = self.record(&archive, place, &failed)?;
            if let Some(what) = self.mismatch(key, &described, &found) {
                return Err(failed(what));
            }
            // The digest by which a revisit and its original were described alike.
            let digest = described.digest.or(found.page.digest);
            let kind = if described.kind.is_page() && !found.page.kind.is_page() {
                RecordKind::Resource
            } else {
                found.page.kind
            };
            let Page { url, variant, fetched_at_ms, .. } = described;
            Ok((Page { url, variant, fetched_at_ms, kind, digest, in_place: None, ..found.page }, found.body))
        }

        /// The page and body of a version in place; an error names the version.
        pub(crate) fn whole_of_archive(&self, key: &[u8], head: PageHead) -> Result<(Page, Payload)> {
            let Some(place) = head.page.in_place else { return Err(unknown(None)) };
            let whole = self.of_archive_in_parts(key, head.page, place);
            whole.map_err(|error| unreadable(key, Some(head.version), error))
        }

        /// The record in a place.
        fn record(&self, archive: &Archive, place: InPlace, failed: &dyn Fn(String) -> Error) -> Result<Found> {
            let source = self.source(archive, place).map_err(|error| failed(why(&error)))?;
            let mut reader = Reader::new(source, archive.location.clone(), Spool::default())?;
            let read = |error| match error {
                Error::Read { source, .. } => failed(why(&source)),
                error => error,
            };
            let record = match reader.next_item().map_err(read)? {
                Some(Item::Record(Record { problem: Some(problem), .. }) | Item::Problem(problem)) => {
                    return Err(failed(problem.what));
                }
                Some(Item::Record(record)) => record,
                None => return Err(failed("no record is there".to_owned())),
            };
            let Some(kind) = record.header.kind() else {
                return Err(failed(format!("a record of type {:?} is there", record.header.record_type())));
            };
            let digest = record.header.text("WARC-Payload-Digest").and_then(Digest::parse);
            let captured = match capture(record, kind, &BodyRules::decoded())? {
                Captured::Page(captured) => captured.for_any_reader(),
                Captured::Unusable(what) => return Err(failed(what.to_owned())),
            };
            if captured.digests.wrong > 0 {
                let what =
                    "the body has not the digest that its record says; an import of the file takes it all the same";
                return Err(failed(what.to_owned()));
            }
            Ok(Found { page: captured.page, body: captured.body, digest })
        }

        /// The bytes of a record; before a frame of zstd, the dictionary of the file.
        fn source(&self, archive: &Archive, place: InPlace) -> io::Result<Box<dyn Read + Send>> {
            let length = Some(place.length).filter(|&length| length > 0);
            let mut record = self.archives.open(&archive.location, place.offset, length)?;
            let mut magic = Vec::new();
            if record.by_ref().take(4).read_to_end(&mut magic)? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before it"));
            }
            let dictionary = match zstd_begins(&magic) == Begins::Frame && place.offset > 0 {
                true => dictionary_frame(&mut *self.archives.open(&archive.location, 0, None)?)?,
                false => Vec::new(),
            };
            Ok(Box::new(io::Cursor::new(dictionary).chain(io::Cursor::new(magic)).chain(record)))
        }

        /// Why the record is not the one that was described: another URL, or neither its second
        /// nor its digest. An index may describe any record as an answer.
        fn mismatch(&self, key: &[u8], described: &Page, found: &Found) -> Option<String> {
            let Found { page, .. } = found;
            let is_revisit = |page: &Page| page.kind == RecordKind::Revisit;
            if is_revisit(described) != is_revisit(page) || !described.kind.is_page() && described.kind != page.kind {
                return Some(format!("a {} is there, not a {}", page.kind.name(), described.kind.name()));
            }
            if self.key(&page.url).ok().as_deref() != Some(key::url(key)) {
                let url = String::from_utf8_lossy(&page.url).into_owned();
                return Some(format!("the record of another page is there: {url}"));
            }
            let second = |page: &Page| page.fetched_at_ms.div_euclid(1000);
            let of_page = |page: &Page| page.digest.as_deref().and_then(Digest::parse);
            let digest = of_page(described);
            let has_digest = digest.is_some() && (digest == of_page(page) || digest == found.digest);
            let is_it = second(described) == second(page) || has_digest;
            (!is_it).then(|| format!("another visit is there: of {}", date::format(page.fetched_at_ms)))
        }
    }

    /// A record of an archive.
    struct Found {
        page: Page,
        body: Payload,
        /// The payload digest in its header.
        digest: Option<Digest>,
    }

    fn why(error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::NotFound => "the file is not there".to_owned(),
            _ => error.to_string(),
        }
    }
}
