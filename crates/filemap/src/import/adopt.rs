//! Adoption: copies the bodies of pages in place into the store.
//!
//! Each record is read from its file and put with its body, at its time. When a batch is durable,
//! the descriptions in place are dropped. So a crash leaves both at worst, and the same adoption
//! resumes from there.

use std::collections::HashSet;
use std::ops::ControlFlow;

use filemap_core::Version;

use super::warc::put_page;
use crate::error::{Error, Result};
use crate::page::version::{BodyForm, PageHead};
use crate::page::{Page, key};
use crate::store::{Known, PageStore};
use crate::warc::capture::Capture;

/// Number of versions, and of bytes of their bodies, after which descriptions are dropped.
const BATCH_VERSIONS: usize = 2048;
const BATCH_BYTES: u64 = 256 << 20;

/// Result of [`adopt`].
///
/// ```
/// let adopted = filemap::import::Adopted::default();
/// assert_eq!(adopted.pages + adopted.lost, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopted {
    /// Versions that were copied into the store.
    pub pages: u64,
    /// Bytes of their bodies, before compression.
    pub body_bytes: u64,
    /// Versions that cannot be copied: their record is missing or differs, or a limit or rule
    /// refuses it. They stay as they are.
    pub lost: u64,
    /// The callback cancelled the adoption: what was adopted stays, and repeating it does the
    /// rest.
    pub is_cancelled: bool,
}

/// Outcome for one version.
///
/// ```
/// fn shown(step: &filemap::import::AdoptStep<'_>) -> String {
///     match step {
///         filemap::import::AdoptStep::Page(url) => String::from_utf8_lossy(url).into_owned(),
///         filemap::import::AdoptStep::Lost(error) => error.to_string(),
///     }
/// }
/// ```
#[derive(Debug)]
pub enum AdoptStep<'a> {
    /// A page of this canonical URL was copied, or already was in the store.
    Page(&'a [u8]),
    /// A page cannot be read or stored.
    Lost(&'a Error),
}

/// Copies the bodies of all pages in place into the store. `each` is called for every version, and
/// cancels the work with `Break`. Costs a pass over the value log and a read of each record.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use filemap::import::{ImportOptions, ImportProgress, adopt, import};
/// # use filemap::{Options, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let path = dir.path().join("a.warc");
/// let file = b"WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://example.com/a.txt\r\n\
///     WARC-Date: 2023-11-14T22:13:20Z\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n";
/// std::fs::write(&path, file)?;
/// let options = ImportOptions::new().in_place(path.to_string_lossy());
/// let report = import(&store, "a.warc", &file[..], &options, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(report.in_place, 1);
/// let adopted = adopt(&store, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!((adopted.pages, adopted.lost), (1, 0));
/// std::fs::remove_file(&path)?;
/// assert_eq!(store.get("http://example.com/a.txt")?.map(|page| page.body), Some(b"hello".to_vec()));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `InvalidOption` in a store with retention (`keep_versions`, `keep_age`); those of the store;
/// [`Error::Read`] if another machine does not answer: what was copied stays.
pub fn adopt(store: &PageStore, each: &mut dyn FnMut(AdoptStep<'_>) -> ControlFlow<()>) -> Result<Adopted> {
    if store.engine().has_retention() {
        let why = "retention could drop what is copied: open the store without keep_versions and keep_age".to_owned();
        return Err(filemap_core::Error::from(filemap_core::StorageError::option("adopt", why)).into());
    }
    let (adopted, known) = (Adopted::default(), Known::default());
    let mut adoption = Adoption { store, adopted, known, lost: HashSet::new(), old: Old::default() };
    for found in store.heads_in_place() {
        let told = match found {
            Ok((_, head)) if adoption.is_done(head.version) => continue,
            Ok((key, head)) => adoption.take(&key, head, each)?,
            Err(error) if error.is_damage() => adoption.tell_lost(&error, each),
            Err(error) => return Err(error),
        };
        adoption.adopted.is_cancelled = told.is_break();
        if adoption.adopted.is_cancelled || adoption.old.is_full() {
            adoption.old.settle(store)?;
        }
        if adoption.adopted.is_cancelled {
            return Ok(adoption.adopted);
        }
    }
    adoption.old.settle(store)?;
    Ok(adoption.adopted)
}

struct Adoption<'a> {
    store: &'a PageStore,
    adopted: Adopted,
    known: Known,
    /// Sequences of versions that cannot be copied.
    lost: HashSet<u64>,
    old: Old,
}

type Each<'a> = dyn FnMut(AdoptStep<'_>) -> ControlFlow<()> + 'a;

impl Adoption<'_> {
    /// Copies a version in place. Among versions of one time the last one put is the newest: those
    /// after it are put again, so that it does not take their place. They include what an
    /// interrupted adoption has already put.
    fn take(&mut self, key: &[u8], head: PageHead, each: &mut Each<'_>) -> Result<ControlFlow<()>> {
        let versions = self.store.engine().versions_of(key)?;
        let of_time = versions.into_iter().filter(|version| version.time_ms == head.version.time_ms);
        let mut behind: Vec<Version> = of_time.filter(|version| version.sequence > head.version.sequence).collect();
        behind.sort_by_key(|version| version.sequence);
        let is_alone = behind.is_empty();
        let (mut told, adopted) = self.copy(key, head, is_alone, each)?;
        for (at, version) in behind.iter().copied().enumerate() {
            let next = self.put_behind(key, version, (&behind[at + 1..], adopted.as_ref()), each);
            told = match next {
                Ok(next) if next.is_break() => next,
                Ok(_) => told,
                Err(error) if error.is_damage() => self.lose(version, &error, each),
                Err(error) => return Err(error),
            };
        }
        Ok(told)
    }

    /// Puts again a version with the time of a copied one, unless it is that one, or a later
    /// version equals it.
    fn put_behind(
        &mut self,
        key: &[u8],
        version: Version,
        (later, adopted): (&[Version], Option<&Page>),
        each: &mut Each<'_>,
    ) -> Result<ControlFlow<()>> {
        let go_on = Ok(ControlFlow::Continue(()));
        let Some(value) = self.store.value_of(key, version)? else { return go_on };
        let head = self.store.page_head(key, value.head.clone())?;
        if head.page.in_place.is_some() {
            return match self.is_done(version) {
                true => go_on,
                false => self.copy(key, head, false, each).map(|(told, _)| told),
            };
        }
        let page = self.store.stored(key, value)?;
        if adopted == Some(&page) {
            return go_on;
        }
        if !self.is_there_later(key, &page, later)? {
            self.store.put_page(&page)?;
        }
        self.old.push(key, version, page.body.len() as u64);
        go_on
    }

    fn is_there_later(&self, key: &[u8], page: &Page, later: &[Version]) -> Result<bool> {
        for version in later {
            let Some(value) = self.store.value_of(key, *version)? else { continue };
            let is_whole = self.store.page_head(key, value.head.clone())?.page.in_place.is_none();
            if is_whole && self.store.stored(key, value)? == *page {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts a version in place with its body, and returns it. A version that cannot be copied
    /// stays. If it has others of its time, its body is not stored as a reference: the target
    /// would be dropped.
    fn copy(
        &mut self,
        key: &[u8],
        head: PageHead,
        is_alone: bool,
        each: &mut Each<'_>,
    ) -> Result<(ControlFlow<()>, Option<Page>)> {
        let version = head.version;
        let put = self.store.whole_of_archive(key, head).and_then(|(page, body)| {
            let bytes = body.len();
            // An empty body would refer to the version in place, which has no body in the store.
            let form = if bytes == 0 || !is_alone { BodyForm::Whole } else { BodyForm::if_changed(&page) };
            let mut capture = Capture { page, body, ..Capture::default() };
            put_page(self.store, &mut self.known, &mut capture, form)?;
            let Capture { page, body, .. } = capture;
            let page = if is_alone { page } else { Page { body: body.into_bytes()?, ..page } };
            Ok((bytes, page))
        });
        match put {
            Ok((bytes, page)) => {
                self.adopted.pages += 1;
                self.adopted.body_bytes += bytes;
                self.old.push(key, version, bytes);
                Ok((each(AdoptStep::Page(key::url(key))), Some(page)))
            }
            Err(error) if error.is_damage() || error.concerns_one_page() => {
                Ok((self.lose(version, &error, each), None))
            }
            Err(error) => Err(error),
        }
    }

    fn is_done(&self, version: Version) -> bool {
        self.old.has(version) || self.lost.contains(&version.sequence)
    }

    fn lose(&mut self, version: Version, error: &Error, each: &mut Each<'_>) -> ControlFlow<()> {
        self.lost.insert(version.sequence);
        self.tell_lost(error, each)
    }

    fn tell_lost(&mut self, error: &Error, each: &mut Each<'_>) -> ControlFlow<()> {
        self.adopted.lost += 1;
        each(AdoptStep::Lost(error))
    }
}

/// Versions that were put again with their bodies.
#[derive(Default)]
struct Old {
    versions: Vec<(Vec<u8>, Version)>,
    sequences: HashSet<u64>,
    bytes: u64,
}

impl Old {
    fn push(&mut self, key: &[u8], version: Version, bytes: u64) {
        self.versions.push((key.to_vec(), version));
        self.sequences.insert(version.sequence);
        self.bytes += bytes;
    }

    fn has(&self, version: Version) -> bool {
        self.sequences.contains(&version.sequence)
    }

    fn is_full(&self) -> bool {
        self.versions.len() >= BATCH_VERSIONS || self.bytes >= BATCH_BYTES
    }

    /// Drops the old versions, once the new ones are durable.
    fn settle(&mut self, store: &PageStore) -> Result<()> {
        if self.versions.is_empty() {
            return Ok(());
        }
        store.sync()?;
        store.engine().drop_versions(self.versions.iter().map(|(key, version)| (key.as_slice(), *version)))?;
        (self.versions, self.bytes) = (Vec::new(), 0);
        Ok(())
    }
}
