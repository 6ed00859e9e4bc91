//! Gets, lists and removes pages by URL, variant and time: with the body, without it, as a stream.
//!
//! A URL alone means the page itself and never a variant, except in [`PageStore::remove`], which
//! removes everything of a URL.
//!
//! The engine finds a key by its hash, so in a store without key order the variants of a URL are
//! found by a pass over all keys. To spare removals that pass, a variant puts a *mark*, shared by
//! some URLs of one scheme and host (see `page::key`); without a mark there is no pass. The time
//! of a mark is the midnight after the latest variant, so retention by age or number keeps it as
//! long as any variant. It is written before the variant, and stays when variants are removed: a
//! superfluous mark costs a pass.

use std::collections::BTreeSet;
use std::io::Read;

use filemap_core::body::SharedBody;
use filemap_core::list::Direction;
use filemap_core::{Record, Store, Version};

use super::list::taken;
use super::{PageReader, PageStore};
use crate::access::{Lookup, Results};
use crate::error::{Error, Result};
use crate::page::order::Class;
use crate::page::variant::Variant;
use crate::page::version::PageHead;
use crate::page::{Page, RecordKind, key};

/// Granularity of a mark's time, in ms.
const DAY_MS: i64 = 86_400_000;

/// Canonical URLs with their variants, each once, in no defined order.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore, Variant};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let variant = Variant::of_request("POST", Some(b"application/json"), br#"{"q":"a"}"#);
/// let page = Page::new("http://example.com/api", 1_700_000_000_000, 200, "hello");
/// store.put_page(&Page { variant: variant.clone(), ..page })?;
/// let (url, found) = store.variants("http://example.com/api")?.next().expect("one")?;
/// assert_eq!((url.as_slice(), Some(found)), (&b"http://example.com/api"[..], variant));
/// # Ok(())
/// # }
/// ```
pub struct Variants(Option<AnyKeys>);

type AnyKeys = Box<dyn Iterator<Item = filemap_core::Result<Vec<u8>>> + Send>;

impl Iterator for Variants {
    type Item = Result<(Vec<u8>, Variant)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.0.as_mut()?.next()? {
            Ok(key) => key::variant(&key).map(|variant| Ok((key::url(&key).to_vec(), variant))),
            Err(error) => Some(Err(error.into())),
        }
    }
}

/// Returns whether a lookup covers versions of time `time_ms`.
fn is_within(lookup: &Lookup<'_>, time_ms: i64) -> bool {
    lookup.time_ms.is_none_or(|latest_ms| time_ms <= latest_ms)
}

impl PageStore {
    /// A page with its body; `None` if it is not in the store. A URL alone means the newest
    /// version; a [`Lookup`] can name a variant and a time.
    ///
    /// # Errors
    ///
    /// [`Error::Url`], [`Error::Meta`], and those of [`filemap_core::Store::get`].
    pub fn get<'l>(&self, lookup: impl Into<Lookup<'l>>) -> Result<Option<Page>> {
        self.get_beside(lookup, RecordKind::Response)
    }

    /// The record of this kind beside a page or variant (its request, its metadata); for a page's
    /// own kinds, the page.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_beside<'l>(&self, lookup: impl Into<Lookup<'l>>, kind: RecordKind) -> Result<Option<Page>> {
        let lookup = lookup.into();
        let Some(key) = self.key_beside(&lookup, kind)? else { return Ok(None) };
        let value = match lookup.time_ms {
            None => self.engine().get(&key),
            Some(time_ms) => self.engine().get_at(&key, time_ms),
        };
        let value = self.telling(&key, value, |version| is_within(&lookup, version.time_ms))?;
        value.map(|value| self.resolved(&key, value)).transpose()
    }

    /// One version of a page or variant, from [`PageStore::history`]. The lookup's time is
    /// ignored.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_version<'l>(&self, lookup: impl Into<Lookup<'l>>, version: Version) -> Result<Option<Page>> {
        let Some(key) = self.key_beside(&lookup.into(), RecordKind::Response)? else { return Ok(None) };
        let value = self.telling(&key, self.engine().get_version(&key, version), |found| *found == version)?;
        value.map(|value| self.resolved(&key, value)).transpose()
    }

    /// A page with an empty `body`, and its body as a stream. Memory is bounded, except for a
    /// revisit, whose body is read into memory.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_reader<'l>(&self, lookup: impl Into<Lookup<'l>>) -> Result<Option<(Page, PageReader)>> {
        let lookup = lookup.into();
        let Some(key) = self.key_beside(&lookup, RecordKind::Response)? else { return Ok(None) };
        let reader = match lookup.time_ms {
            None => self.engine().get_reader(&key),
            Some(time_ms) => self.engine().get_reader_at(&key, time_ms),
        };
        let reader = self.telling(&key, reader, |version| is_within(&lookup, version.time_ms))?;
        reader.map(|reader| self.page_reader(&key, reader)).transpose()
    }

    /// A page with an empty `body`, and its body in memory without a copy: that of a page in the
    /// value cache is the cache's own.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use filemap::{Options, Page, PageStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
    /// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
    /// let (page, body) = store.get_shared("http://example.com/")?.expect("just put");
    /// assert_eq!((page.status, &body[..]), (Some(200), &b"hello"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_shared<'l>(&self, lookup: impl Into<Lookup<'l>>) -> Result<Option<(Page, SharedBody)>> {
        let Some((page, reader)) = self.get_reader(lookup)? else { return Ok(None) };
        let mut reader = match reader.into_memory() {
            Ok(body) => return Ok(Some((page, body))),
            Err(reader) => reader,
        };
        let mut body = Vec::new();
        match reader.read_to_end(&mut body) {
            Ok(_) => Ok(Some((page, body.into()))),
            Err(source) => Err(match source.downcast::<filemap_core::Error>() {
                Ok(error) => error.into(),
                Err(source) => Error::Read { what: String::from_utf8_lossy(&page.url).into_owned(), offset: 0, source },
            }),
        }
    }

    /// As [`PageStore::get_reader`], for one version from [`PageStore::history`]. The lookup's
    /// time is ignored.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_version_reader<'l>(
        &self,
        lookup: impl Into<Lookup<'l>>,
        version: Version,
    ) -> Result<Option<(Page, PageReader)>> {
        let Some(key) = self.key_beside(&lookup.into(), RecordKind::Response)? else { return Ok(None) };
        let reader = self.engine().get_version_reader(&key, version);
        let reader = self.telling(&key, reader, |found| *found == version)?;
        reader.map(|reader| self.page_reader(&key, reader)).transpose()
    }

    /// As [`PageStore::get`], without reading the body.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn head<'l>(&self, lookup: impl Into<Lookup<'l>>) -> Result<Option<PageHead>> {
        let lookup = lookup.into();
        let Some(key) = self.key_beside(&lookup, RecordKind::Response)? else { return Ok(None) };
        let head = match lookup.time_ms {
            None => self.engine().head(&key),
            Some(time_ms) => self.engine().head_at(&key, time_ms),
        };
        let head = self.telling(&key, head, |version| is_within(&lookup, version.time_ms))?;
        head.map(|head| self.page_head(&key, head)).transpose()
    }

    /// Returns whether the store has a page or variant; with a time, a version up to that time.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn contains<'l>(&self, lookup: impl Into<Lookup<'l>>) -> Result<bool> {
        let lookup = lookup.into();
        if lookup.time_ms.is_some() {
            return Ok(self.head(lookup)?.is_some());
        }
        let Some(key) = self.key_beside(&lookup, RecordKind::Response)? else { return Ok(false) };
        Ok(self.engine().contains(&key)?)
    }

    /// All versions of a page or variant, newest first; with a time, those up to it. Fails if one
    /// cannot be read: [`PageStore::history_iter`] returns the others.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`]; [`Error::Unreadable`] for the first version that cannot be read.
    pub fn history<'l>(&self, lookup: impl Into<Lookup<'l>>) -> Result<Vec<PageHead>> {
        self.history_iter(lookup)?.collect()
    }

    /// As [`PageStore::history`], one version after the other in bounded memory. A damaged version
    /// is an [`Error::Unreadable`], which names it; the iteration continues.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn history_iter<'l>(&self, lookup: impl Into<Lookup<'l>>) -> Result<Results<'static, PageHead>> {
        self.history_beside(lookup, RecordKind::Response)
    }

    /// As [`PageStore::history_iter`], for the records of this kind beside a page or variant; for
    /// a page's own kinds, for its versions.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn history_beside<'l>(
        &self,
        lookup: impl Into<Lookup<'l>>,
        kind: RecordKind,
    ) -> Result<Results<'static, PageHead>> {
        let lookup = lookup.into();
        let latest_ms = lookup.time_ms.unwrap_or(i64::MAX);
        let Some(key) = self.key_beside(&lookup, kind)? else { return Ok(Box::new(std::iter::empty())) };
        Ok(Box::new(self.each_page_head(key).filter(move |head| {
            let time_ms = match head {
                Ok(head) => head.version.time_ms,
                Err(Error::Unreadable { version, .. }) => version.time_ms,
                Err(_) => i64::MIN,
            };
            time_ms <= latest_ms
        })))
    }

    /// Times and sequences of the versions of a page or variant, newest first; with a time, those
    /// up to it. Reads one key record for each, and no value: versions with a lost value are
    /// included.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn versions_of<'l>(&self, lookup: impl Into<Lookup<'l>>) -> Result<Vec<Version>> {
        let lookup = lookup.into();
        let Some(key) = self.key_beside(&lookup, RecordKind::Response)? else { return Ok(Vec::new()) };
        let mut versions = self.engine().versions_of(&key)?;
        versions.retain(|version| is_within(&lookup, version.time_ms));
        Ok(versions)
    }

    /// Returns whether a URL may have variants: false if it never had one. Also true for some URLs
    /// of a scheme and host where other URLs have or had variants. One lookup in the index.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn may_have_variants(&self, url: impl AsRef<[u8]>) -> Result<bool> {
        self.is_marked(&self.key(url)?)
    }

    /// The variants of a URL. In a store without key order it takes a pass over the key log,
    /// unless [`PageStore::may_have_variants`] returns false.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn variants(&self, url: impl AsRef<[u8]>) -> Result<Variants> {
        let wanted = self.key(url)?;
        if !self.is_marked(&wanted)? {
            return Ok(Variants(None));
        }
        if self.engine().has_key_order() {
            let range = Class::Variants.of_url(&wanted);
            return Ok(Variants(Some(Box::new(self.engine().keys_in(range.into(), Direction::Forward)?))));
        }
        Ok(self.variants_where(move |url| url == wanted))
    }

    /// The variants of all URLs that pass `filter`: a pass over the key log.
    pub fn variants_where(&self, filter: impl Fn(&[u8]) -> bool + Send + 'static) -> Variants {
        Variants(Some(Box::new(self.engine().keys_where(move |key| key::is_variant(key) && filter(key::url(key))))))
    }

    /// The newest version of every variant without its body, in the order of the log: a sequential
    /// read of the value log, which decompresses no body. A failed item does not end the
    /// iteration.
    pub fn variant_heads(&self) -> impl Iterator<Item = Result<PageHead>> + use<> {
        let store = self.clone();
        taken(self.engine().heads(), move |listed| {
            key::is_variant(&listed.key).then(|| store.page_head(&listed.key, listed.head))
        })
    }

    /// Removes a page with all its versions, all its variants, and the records beside them.
    /// Returns true if there was a page or a variant. In a store without key order it takes a pass
    /// over the key log, unless [`PageStore::may_have_variants`] returns false.
    ///
    /// # Errors
    ///
    /// [`Error::Url`], and those of [`filemap_core::Store::remove`].
    pub fn remove(&self, url: impl AsRef<[u8]>) -> Result<bool> {
        let canonical = self.key(url)?;
        let mut was_there = false;
        if self.is_marked(&canonical)? {
            for key in self.keys_of_variants(&canonical)? {
                let key = key?;
                was_there |= self.engine().remove(&key)? && key::is_variant(&key);
            }
            // Last: an interrupted removal leaves it, so that a repeated one finds the rest.
            let old = key::old_mark(&canonical);
            if old.len() <= Record::MAX_KEY_BYTES {
                self.engine().remove(&old)?;
            }
        }
        Ok(self.remove_one(&canonical, None)? || was_there)
    }

    /// Removes one variant with all its versions and the records beside it; with `None`, the page
    /// without its variants. Returns true if it existed.
    ///
    /// # Errors
    ///
    /// As [`PageStore::remove`].
    pub fn remove_variant<'v>(&self, url: impl AsRef<[u8]>, variant: impl Into<Option<&'v Variant>>) -> Result<bool> {
        self.remove_one(&self.key(url)?, variant.into())
    }

    /// The keys of the variants of a URL, and of the records beside them.
    fn keys_of_variants(&self, canonical: &[u8]) -> Result<AnyKeys> {
        if !self.engine().has_key_order() {
            let wanted = canonical.to_vec();
            let is_of = move |key: &[u8]| key::variant(key).is_some() && key::url(key) == wanted;
            return Ok(Box::new(self.engine().keys_where(is_of)));
        }
        let of_class = |class: Class| self.engine().keys_in(class.of_url(canonical).into(), Direction::Forward);
        let keys = of_class(Class::Variants)?.chain(of_class(Class::Beside)?);
        Ok(Box::new(keys.filter(|key| key.as_ref().map_or(true, |key| key::variant(key).is_some()))))
    }

    fn remove_one(&self, canonical: &[u8], variant: Option<&Variant>) -> Result<bool> {
        let mut was_there = false;
        for kind in RecordKind::ALL.into_iter().filter(|kind| !kind.is_page()).chain([RecordKind::Response]) {
            let key = key::key(canonical, kind, variant);
            if key.len() <= Record::MAX_KEY_BYTES {
                was_there = self.engine().remove(&key)?;
            } else if kind.is_page() && variant.is_none() {
                return Err(filemap_core::Error::KeyLength { len: key.len() }.into());
            }
        }
        Ok(was_there)
    }

    /// The key of a page, a variant or a record beside them; `None` if the key is too long
    /// although the URL is not.
    fn key_beside(&self, lookup: &Lookup<'_>, kind: RecordKind) -> Result<Option<Vec<u8>>> {
        let key = self.key_of(lookup.url, kind, lookup.variant)?;
        let is_url = kind.is_page() && lookup.variant.is_none();
        Ok(Some(key).filter(|key| is_url || key.len() <= Record::MAX_KEY_BYTES))
    }

    fn is_marked(&self, canonical: &[u8]) -> Result<bool> {
        let old = key::old_mark(canonical);
        let has_old = || Ok(old.len() <= Record::MAX_KEY_BYTES && self.engine().contains(&old)?);
        if self.engine().contains(&key::mark(canonical))? { Ok(true) } else { has_old() }
    }

    /// Puts the mark of a URL, for a variant of this time.
    pub(super) fn mark_variants(&self, canonical: &[u8], time_ms: i64) -> Result<()> {
        mark(self.engine(), canonical, time_ms)
    }

    /// Restores missing marks of URLs that have variants; returns their number. Call it after a
    /// repair, or after a copy of a damaged store. Takes a pass over the key log.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::keys_where`] and [`filemap_core::Store::put`].
    pub fn mark_again(engine: &Store) -> Result<u64> {
        let mut unmarked = BTreeSet::new();
        for key in engine.keys_where(key::is_variant) {
            let key = key?;
            let url = key::url(&key);
            let missing = key::mark(url);
            if unmarked.contains(&missing) || !engine.contains(&missing)? {
                let time_ms = match engine.head(&key) {
                    Err(error) if error.is_corrupt() => i64::MIN,
                    head => head?.map_or(i64::MIN, |head| head.version.time_ms),
                };
                mark(engine, url, time_ms)?;
                unmarked.insert(missing);
            }
        }
        Ok(unmarked.len() as u64)
    }
}

fn mark(engine: &Store, canonical: &[u8], time_ms: i64) -> Result<()> {
    let mark = key::mark(canonical);
    let marked = match engine.head(&mark) {
        Err(error) if error.is_corrupt() => None,
        head => head?,
    };
    if marked.is_none_or(|head| head.version.time_ms <= time_ms) {
        let time_ms = time_ms.div_euclid(DAY_MS).saturating_add(1).saturating_mul(DAY_MS);
        engine.put(&Record { key: &mark, meta: &[], body: &[], time_ms })?;
    }
    Ok(())
}
