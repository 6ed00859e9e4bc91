//! Getting, listing and removing pages by URL and variant: the newest version, one of a time, all,
//! without the body, as a stream.
//!
//! What takes a URL alone is about the page itself and never about a variant, but for
//! [`PageStore::remove`]: who removes a URL wants nothing of it left.
//!
//! The engine finds a key by its hash, so that the variants of a URL are found by a pass over the
//! keys. That would be too much for each removal; so the first variant of a URL puts a *mark*
//! beside the page, and without one there is no pass. A mark is later than the latest variant, in
//! steps of a day: whatever drops versions by age or number keeps it for as long as a variant. It
//! is written before the variant.

use std::collections::BTreeSet;

use filemap_core::list::Keys;
use filemap_core::{Record, Store, Version};

use super::{PageReader, PageStore};
use crate::error::Result;
use crate::page::key;
use crate::page::variant::Variant;
use crate::page::version::PageHead;
use crate::page::{Page, RecordKind};

/// The step of a mark's time, in ms.
const DAY_MS: i64 = 86_400_000;

/// The variants that pass a filter, each once, in no promised order: see
/// [`PageStore::variants_where`].
pub struct Variants(Option<Keys>);

impl Iterator for Variants {
    type Item = Result<(Vec<u8>, Variant)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.0.as_mut()?.next()? {
                Ok(key) if !key::is_variant(&key) => {}
                Ok(key) => return key::variant(&key).map(|variant| Ok((key::url(&key).to_vec(), variant))),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// The newest version of every variant without its body, in the order of the log. An item that
/// fails does not end the iteration.
pub struct VariantHeads {
    store: PageStore,
    heads: filemap_core::list::Heads,
}

impl Iterator for VariantHeads {
    type Item = Result<PageHead>;

    fn next(&mut self) -> Option<Result<PageHead>> {
        loop {
            match self.heads.next()? {
                Ok(listed) if !key::is_variant(&listed.key) => {}
                Ok(listed) => return Some(self.store.page_head(&listed.key, listed.head)),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

impl PageStore {
    /// The newest version of a page; `None` if the URL is not in the store.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Url`], [`crate::Error::Meta`], and those of [`filemap_core::Store::get`].
    pub fn get(&self, url: impl AsRef<[u8]>) -> Result<Option<Page>> {
        self.get_variant(url, None)
    }

    /// The newest version of a variant; of none, of the page.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_variant<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
    ) -> Result<Option<Page>> {
        let Some(key) = self.asked(url, variant)? else { return Ok(None) };
        let value = self.telling(&key, self.engine().get(&key), |_| true)?;
        value.map(|value| self.resolved(&key, value)).transpose()
    }

    /// The version of a page that was newest at `time_ms`.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_at(&self, url: impl AsRef<[u8]>, time_ms: i64) -> Result<Option<Page>> {
        self.get_variant_at(url, None, time_ms)
    }

    /// As [`PageStore::get_at`], of a variant.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_variant_at<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
        time_ms: i64,
    ) -> Result<Option<Page>> {
        let Some(key) = self.asked(url, variant)? else { return Ok(None) };
        let value = self.telling(&key, self.engine().get_at(&key, time_ms), |version| version.time_ms <= time_ms)?;
        value.map(|value| self.resolved(&key, value)).transpose()
    }

    /// One version of a page, as [`PageStore::history`] lists them.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_version(&self, url: impl AsRef<[u8]>, version: Version) -> Result<Option<Page>> {
        self.get_variant_version(url, None, version)
    }

    /// As [`PageStore::get_version`], of a variant.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_variant_version<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
        version: Version,
    ) -> Result<Option<Page>> {
        let Some(key) = self.asked(url, variant)? else { return Ok(None) };
        let value = self.telling(&key, self.engine().get_version(&key, version), |found| *found == version)?;
        value.map(|value| self.resolved(&key, value)).transpose()
    }

    /// The newest version of a page, its body as a stream in bounded memory (but for a revisit,
    /// whose original is read into memory). The page's own `body` is empty.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_reader(&self, url: impl AsRef<[u8]>) -> Result<Option<(Page, PageReader)>> {
        self.variant_reader(url, None)
    }

    /// As [`PageStore::get_reader`], of a variant.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn variant_reader<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
    ) -> Result<Option<(Page, PageReader)>> {
        let Some(key) = self.asked(url, variant)? else { return Ok(None) };
        self.reader_of(&key)
    }

    /// The newest version of a page without its body, which is not read.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn head(&self, url: impl AsRef<[u8]>) -> Result<Option<PageHead>> {
        self.variant_head(url, None)
    }

    /// As [`PageStore::head`], of a variant.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn variant_head<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
    ) -> Result<Option<PageHead>> {
        let Some(key) = self.asked(url, variant)? else { return Ok(None) };
        let head = self.telling(&key, self.engine().head(&key), |_| true)?;
        head.map(|head| self.page_head(&key, head)).transpose()
    }

    /// As [`PageStore::head`], of the version that was newest at `time_ms`.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn head_at(&self, url: impl AsRef<[u8]>, time_ms: i64) -> Result<Option<PageHead>> {
        self.variant_head_at(url, None, time_ms)
    }

    /// As [`PageStore::head_at`], of a variant.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn variant_head_at<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
        time_ms: i64,
    ) -> Result<Option<PageHead>> {
        let Some(key) = self.asked(url, variant)? else { return Ok(None) };
        let head = self.telling(&key, self.engine().head_at(&key, time_ms), |version| version.time_ms <= time_ms)?;
        head.map(|head| self.page_head(&key, head)).transpose()
    }

    /// All versions of a page, newest first: all or none. [`PageStore::history_iter`] gives the
    /// others when one cannot be read.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`]; [`crate::Error::Unreadable`] for the first version that cannot be
    /// read.
    pub fn history(&self, url: impl AsRef<[u8]>) -> Result<Vec<PageHead>> {
        self.variant_history(url, None)
    }

    /// As [`PageStore::history`], one version after the other in bounded memory, however many
    /// there are. A damaged version comes as [`crate::Error::Unreadable`], which names it, and the
    /// iteration goes on after it.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn history_iter(&self, url: impl AsRef<[u8]>) -> Result<Box<dyn Iterator<Item = Result<PageHead>> + '_>> {
        self.variant_history_iter(url, None)
    }

    /// As [`PageStore::history_iter`], of a variant.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn variant_history_iter<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
    ) -> Result<Box<dyn Iterator<Item = Result<PageHead>> + '_>> {
        Ok(match self.asked(url, variant)? {
            Some(key) => Box::new(self.each_page_head(key)),
            None => Box::new(std::iter::empty()),
        })
    }

    /// Times and sequences of the versions of a variant, newest first; of none, the page. Reads
    /// one record of key.dat for each, and no value: those whose values are lost are among them.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn variant_versions<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
    ) -> Result<Vec<Version>> {
        let Some(key) = self.asked(url, variant)? else { return Ok(Vec::new()) };
        Ok(self.engine().versions_of(&key)?)
    }

    /// All versions of a variant, newest first; of none, of the page.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn variant_history<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
    ) -> Result<Vec<PageHead>> {
        self.history_beside(url, variant, RecordKind::Response)
    }

    /// All records of this kind beside a page (or, for a page's own kinds, its versions), newest
    /// first.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn history_of(&self, url: impl AsRef<[u8]>, kind: RecordKind) -> Result<Vec<PageHead>> {
        self.history_beside(url, None, kind)
    }

    /// As [`PageStore::history_of`], beside a variant.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn history_beside<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
        kind: RecordKind,
    ) -> Result<Vec<PageHead>> {
        let key = self.key_of(url.as_ref(), kind, variant.into())?;
        if key.len() > filemap_core::MAX_KEY_BYTES { Ok(Vec::new()) } else { self.each_page_head(key).collect() }
    }

    /// The newest record of this kind beside a page (its request, its metadata).
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn get_beside(&self, url: impl AsRef<[u8]>, kind: RecordKind) -> Result<Option<Page>> {
        let key = self.key_of(url.as_ref(), kind, None)?;
        self.engine().get(&key)?.map(|value| self.resolved(&key, value)).transpose()
    }

    /// How many versions a variant has; of none, the page. Reads one record of key.dat for each,
    /// and no value.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn variant_version_count<'v>(
        &self,
        url: impl AsRef<[u8]>,
        variant: impl Into<Option<&'v Variant>>,
    ) -> Result<u64> {
        Ok(self.variant_versions(url, variant)?.len() as u64)
    }

    /// Whether the store holds a page of this URL.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn contains(&self, url: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_variant(url, None)
    }

    /// Whether the store holds a variant of this URL; of none, the page.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn contains_variant<'v>(&self, url: impl AsRef<[u8]>, variant: impl Into<Option<&'v Variant>>) -> Result<bool> {
        let Some(key) = self.asked(url, variant)? else { return Ok(false) };
        Ok(self.engine().contains(&key)?)
    }

    /// Whether a URL has variants, or has had some: one look at the index.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn has_variants(&self, url: impl AsRef<[u8]>) -> Result<bool> {
        self.is_marked(&self.key(url)?)
    }

    /// The variants of a URL. Without a look at any key if it never had one; else a pass over
    /// key.dat.
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`].
    pub fn variants(&self, url: impl AsRef<[u8]>) -> Result<Variants> {
        let wanted = self.key(url)?;
        if !self.is_marked(&wanted)? {
            return Ok(Variants(None));
        }
        Ok(self.variants_where(move |url| url == wanted))
    }

    /// The variants of all URLs that pass `filter`, with their canonical URL: a pass over key.dat.
    pub fn variants_where(&self, filter: impl Fn(&[u8]) -> bool + Send + 'static) -> Variants {
        Variants(Some(self.engine().keys_where(move |key| key::is_variant(key) && filter(key::url(key)))))
    }

    /// The newest version of every variant without its body: a sequential read of the value log,
    /// which decompresses no body.
    pub fn variant_heads(&self) -> VariantHeads {
        VariantHeads { store: self.clone(), heads: self.engine().heads() }
    }

    /// Removes a page with all its versions, all its variants, and the records beside them.
    /// Whether there was a page or a variant. A URL that has had variants costs a pass over
    /// key.dat.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Url`], and those of [`filemap_core::Store::remove`].
    pub fn remove(&self, url: impl AsRef<[u8]>) -> Result<bool> {
        let canonical = self.key(url)?;
        let mut was_there = false;
        if self.is_marked(&canonical)? {
            let wanted = canonical.clone();
            let of_variants = move |key: &[u8]| key::variant(key).is_some() && key::url(key) == wanted;
            for key in self.engine().keys_where(of_variants) {
                let key = key?;
                was_there |= self.engine().remove(&key)? && key::is_variant(&key);
            }
            // Last: what stops the removal before leaves the mark, by which it is done again.
            self.engine().remove(&key::mark(&canonical))?;
        }
        Ok(self.remove_one(&canonical, None)? || was_there)
    }

    /// Removes one variant with all its versions and the records beside it; of none, the page and
    /// no variant. Whether it was there.
    ///
    /// # Errors
    ///
    /// As [`PageStore::remove`].
    pub fn remove_variant<'v>(&self, url: impl AsRef<[u8]>, variant: impl Into<Option<&'v Variant>>) -> Result<bool> {
        self.remove_one(&self.key(url)?, variant.into())
    }

    fn remove_one(&self, canonical: &[u8], variant: Option<&Variant>) -> Result<bool> {
        let mut was_there = false;
        for kind in RecordKind::ALL.into_iter().filter(|kind| !kind.is_page()).chain([RecordKind::Response]) {
            let key = key::key(canonical, kind, variant);
            if key.len() <= filemap_core::MAX_KEY_BYTES {
                was_there = self.engine().remove(&key)?;
            } else if kind.is_page() && variant.is_none() {
                return Err(filemap_core::Error::KeyLength { len: key.len() }.into());
            }
        }
        Ok(was_there)
    }

    /// The key of a page or variant; `None` if no key can be so long, since a variant need not fit
    /// behind its URL.
    fn asked<'v>(&self, url: impl AsRef<[u8]>, variant: impl Into<Option<&'v Variant>>) -> Result<Option<Vec<u8>>> {
        let variant = variant.into();
        let key = self.key_of(url.as_ref(), RecordKind::Response, variant)?;
        Ok(Some(key).filter(|key| variant.is_none() || key.len() <= filemap_core::MAX_KEY_BYTES))
    }

    fn is_marked(&self, canonical: &[u8]) -> Result<bool> {
        let mark = key::mark(canonical);
        Ok(mark.len() <= filemap_core::MAX_KEY_BYTES && self.engine().contains(&mark)?)
    }

    /// Says beside the page that its URL has variants, the latest of them of this time or earlier.
    pub(super) fn mark_variants(&self, canonical: &[u8], time_ms: i64) -> Result<()> {
        mark(self.engine(), canonical, time_ms)
    }

    /// Finds the URLs of an engine's store that have variants which nothing shows, since the
    /// record is lost that says that there are any; and says it again. How many URLs. To be called
    /// after a repair, or a copy of a store that is damaged. A pass over key.dat.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::keys_where`] and [`filemap_core::Store::put`].
    pub fn mark_again(engine: &Store) -> Result<u64> {
        let mut unmarked = BTreeSet::new();
        for key in engine.keys_where(key::is_variant) {
            let key = key?;
            let url = key::url(&key);
            if unmarked.contains(url) || !engine.contains(&key::mark(url))? {
                let time_ms = match engine.head(&key) {
                    Err(error) if error.is_corrupt() => i64::MIN,
                    head => head?.map_or(i64::MIN, |head| head.version.time_ms),
                };
                mark(engine, url, time_ms)?;
                unmarked.insert(url.to_vec());
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
