//! Puts pages. A page with a variant is a version of that variant.
//!
//! A page is one record of the engine: its description is the meta (see [`crate::page::meta`]),
//! its body the value. A description too large for the meta precedes the body, in the same value.

use std::io::{self, Read, Write};
use std::sync::{Arc, PoisonError};

use filemap_core::erase::Admission;
use filemap_core::{Put, Record, Version};

use super::PageStore;
use crate::error::{Error, Result};
use crate::page::version::BodyForm;
use crate::page::{Page, RecordKind, key, meta};

/// The source of a body.
pub(crate) enum BodySource<'a> {
    /// From memory. With [`BodyForm::Reference`], a body equal to the newest version's is stored
    /// as a reference.
    Bytes(&'a [u8], BodyForm),
    /// From a reader, in bounded memory.
    Reader(&'a mut dyn Read),
}

impl BodyForm {
    /// The form for a page whose unchanged body becomes a reference. A revisit has no body of its
    /// own to compare.
    pub(crate) fn if_changed(page: &Page) -> BodyForm {
        if page.kind == RecordKind::Revisit { BodyForm::Whole } else { BodyForm::Reference }
    }
}

impl PageStore {
    /// Stores `page` as a version of its URL (and of its variant, if it has one), at its time. A
    /// version older than others adds history and hides nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Url`], [`Error::HeadersTooLarge`], and those of [`filemap_core::Store::put`].
    /// Nothing was written.
    pub fn put_page(&self, page: &Page) -> Result<Version> {
        self.put_parts(page, BodySource::Bytes(&page.body, BodyForm::Whole)).map(|put| put.version())
    }

    /// As [`PageStore::put_page`], but a body equal to that of the newest version is not stored
    /// again: the new version has its own time and headers and refers to that body.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page`].
    pub fn put_page_if_changed(&self, page: &Page) -> Result<Put> {
        self.put_parts(page, BodySource::Bytes(&page.body, BodyForm::Reference))
    }

    /// As [`PageStore::put_page`], with these bytes as the body instead of `page.body`: for a
    /// caller that does not own them.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page`].
    pub fn put_page_of(&self, page: &Page, body: &[u8]) -> Result<Version> {
        self.put_parts(page, BodySource::Bytes(body, BodyForm::Whole)).map(|put| put.version())
    }

    /// As [`PageStore::put_page_if_changed`], with these bytes as the body instead of `page.body`.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page`].
    pub fn put_page_of_if_changed(&self, page: &Page, body: &[u8]) -> Result<Put> {
        self.put_parts(page, BodySource::Bytes(body, BodyForm::Reference))
    }

    /// As [`PageStore::put_page`], with the body from `body` instead of `page.body`: up to 4 GiB,
    /// in bounded memory.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page`]; [`Error::Read`] if `body` fails, and then nothing is stored.
    pub fn put_page_reader(&self, page: &Page, body: &mut dyn Read) -> Result<Version> {
        self.put_parts(page, BodySource::Reader(body)).map(|put| put.version())
    }

    /// Puts a page with its body. The new version is not in place, wherever the page came from.
    pub(crate) fn put_parts(&self, page: &Page, body: BodySource<'_>) -> Result<Put> {
        match page.in_place {
            None => self.put_as_it_is(page, body),
            Some(_) => self.put_as_it_is(&Page { in_place: None, ..page.description() }, body),
        }
    }

    pub(super) fn put_as_it_is(&self, page: &Page, body: BodySource<'_>) -> Result<Put> {
        self.put_at(&self.key_of_page(page)?, page, body)
    }

    /// Puts a page whose key is known.
    pub(super) fn put_at(&self, key: &[u8], page: &Page, body: BodySource<'_>) -> Result<Put> {
        let encoded = meta::encode(page, key::url(key))?;
        // A refused page leaves no mark, either.
        let is_refused =
            || self.rule_set.read().unwrap_or_else(PoisonError::into_inner).refuses(key, page.fetched_at_ms);
        if page.variant.is_some() && key.len() <= filemap_core::Record::MAX_KEY_BYTES && is_refused().is_none() {
            self.mark_variants(key::url(key), page.fetched_at_ms)?;
        }
        let record = Record { key, meta: &encoded.meta, body: &[], time_ms: page.fetched_at_ms };
        let mut joined = encoded.spill;
        match body {
            BodySource::Bytes(bytes, form) => {
                let body = if joined.is_empty() {
                    bytes
                } else {
                    joined.extend_from_slice(bytes);
                    &joined
                };
                let record = Record { body, ..record };
                Ok(match form {
                    BodyForm::Reference if body.is_empty() && self.is_in_place(key)? => {
                        Put::Stored(self.engine().put(&record)?)
                    }
                    BodyForm::Reference => self.engine().put_if_changed(&record)?,
                    BodyForm::Whole => Put::Stored(self.engine().put(&record)?),
                })
            }
            BodySource::Reader(reader) => self.put_stream(&record, &joined, reader, page).map(Put::Stored),
        }
    }

    /// Returns whether the newest version is in place: it has no body bytes in the store, but is
    /// not an empty page that another version could refer to.
    fn is_in_place(&self, key: &[u8]) -> Result<bool> {
        match self.engine().head(key) {
            Err(error) if error.is_corrupt() => Ok(false),
            head => Ok(head?.is_some_and(|head| meta::is_in_place(&head.meta))),
        }
    }

    fn put_stream(&self, record: &Record<'_>, spill: &[u8], body: &mut dyn Read, page: &Page) -> Result<Version> {
        let rules = Arc::clone(&self.rule_set.read().unwrap_or_else(PoisonError::into_inner));
        let mut hashers = rules.hashers();
        let mut writer = self.engine().put_stream(record.key, record.meta, record.time_ms)?;
        writer.write_all(spill).map_err(engine_error)?;
        let mut piece = vec![0; 256 << 10];
        let mut offset = 0;
        loop {
            let count = match body.read(&mut piece) {
                Ok(0) => {
                    // Without `finish`, the chunks written are garbage.
                    return match rules.judge(hashers, page.digest.as_deref(), record.time_ms) {
                        Some(rule) => Err(filemap_core::Error::Refused { rule }.into()),
                        None => Ok(writer.finish()?),
                    };
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(Error::Read { what: String::from_utf8_lossy(&page.url).into_owned(), offset, source });
                }
            };
            writer.write_all(&piece[..count]).map_err(engine_error)?;
            hashers.iter_mut().for_each(|(_, hasher)| hasher.update(&piece[..count]));
            offset += count as u64;
        }
    }
}

/// The engine's error inside an I/O error of its writer.
fn engine_error(error: io::Error) -> Error {
    match error.downcast::<filemap_core::Error>() {
        Ok(error) => Error::Engine(error),
        Err(source) => Error::Read { what: "a page's body".to_owned(), offset: 0, source },
    }
}
