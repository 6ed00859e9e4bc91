//! Putting pages; a page that says a variant is a version of that.
//!
//! A page is one record of the engine: its description is the meta (see [`crate::meta`]), its body the value. A
//! description too large for the meta goes before the body, in the same value.

use std::io::{self, Read, Write};
use std::sync::{Arc, PoisonError};

use filemap_core::{Admission, Head, Put, Record, Version};
use xxhash_rust::xxh3::Xxh3;

use super::PageStore;
use crate::error::{Error, Result};
use crate::key;
use crate::meta;
use crate::page::{Page, RecordKind};
use crate::spool::Payload;

/// Where a body comes from.
pub(crate) enum BodySource<'a> {
    /// From memory; a body equal to the newest version's is stored as a reference if the flag says so.
    Bytes(&'a [u8], bool),
    /// From a reader, in bounded memory.
    Reader(&'a mut dyn Read),
}

impl<'a> BodySource<'a> {
    /// From memory, stored as a reference if it is the same as before; a revisit has no body of its own to compare.
    pub(crate) fn if_changed(page: &Page, body: &'a [u8]) -> BodySource<'a> {
        BodySource::Bytes(body, page.kind != RecordKind::Revisit)
    }
}

/// When a version of the same URL and time counts as the one to be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sameness {
    /// The body is the same: another record of the same visit.
    Visit,
    /// There is no body, and the description is the same but for the record's id.
    VisitWithoutBody,
    /// Body and description are the same in everything.
    Everything,
}

impl Sameness {
    fn without_body(self) -> Sameness {
        if self == Sameness::Visit { Sameness::VisitWithoutBody } else { self }
    }
}

impl PageStore {
    /// Stores `page` as a version of its URL (and of its variant, if it has one), at its time. A version older than others adds history and hides nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Url`], [`Error::HeadersTooLarge`], and those of [`filemap_core::Store::put`]. Nothing was written.
    pub fn put_page(&self, page: &Page) -> Result<Version> {
        self.put_parts(page, BodySource::Bytes(&page.body, false)).map(|put| put.version())
    }

    /// As [`PageStore::put_page`], but a body equal to that of the newest version is not stored again: the new version
    /// has its own time and headers, and refers to it.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page`].
    pub fn put_page_if_changed(&self, page: &Page) -> Result<Put> {
        self.put_parts(page, BodySource::Bytes(&page.body, true))
    }

    /// As [`PageStore::put_page_if_changed`], but does nothing if the store holds this very version: the same URL, time
    /// and body (and, where there is no body, the same description). What importers use: done again, it adds nothing.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page`], and those of [`PageStore::history`].
    pub fn put_page_if_new(&self, page: &Page) -> Result<Option<Put>> {
        if self.holds_body(page, page.body.len() as u64, Sameness::Visit, |hasher| {
            hasher.update(&page.body);
            Ok(())
        })? {
            return Ok(None);
        }
        self.put_parts(page, BodySource::if_changed(page, &page.body)).map(Some)
    }

    /// Puts a version back as a dump of a store has it, unless the store holds this very version: the same URL, time and
    /// body, and the same description in everything. `unchanged` says whether the body was stored as a reference to the
    /// version that was the newest then; if so, it is again, provided that the bodies are equal.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page_if_new`].
    pub fn put_stored_if_new(&self, page: &Page, unchanged: bool) -> Result<Option<Put>> {
        if self.holds_body(page, page.body.len() as u64, Sameness::Everything, |hasher| {
            hasher.update(&page.body);
            Ok(())
        })? {
            return Ok(None);
        }
        self.put_parts(page, BodySource::Bytes(&page.body, unchanged)).map(Some)
    }

    /// As [`PageStore::put_page`], with the body from `body` instead of `page.body`: of any length up to 4 GiB, in
    /// bounded memory.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page`], and [`Error::Read`] if `body` fails; nothing is stored then.
    pub fn put_page_reader(&self, page: &Page, body: &mut dyn Read) -> Result<Version> {
        self.put_parts(page, BodySource::Reader(body)).map(|put| put.version())
    }

    pub(crate) fn put_parts(&self, page: &Page, body: BodySource<'_>) -> Result<Put> {
        let key = self.key_of_page(page)?;
        let encoded = meta::encode(page, key::url(&key))?;
        // Of what is refused, no mark is left either.
        let is_refused =
            || self.rule_set.read().unwrap_or_else(PoisonError::into_inner).refuses(&key, page.fetched_at_ms);
        if page.variant.is_some() && key.len() <= filemap_core::MAX_KEY_BYTES && is_refused().is_none() {
            self.mark_variants(key::url(&key), page.fetched_at_ms)?;
        }
        let record = Record { key: &key, meta: &encoded.meta, body: &[], time_ms: page.fetched_at_ms };
        let mut joined = encoded.spill;
        match body {
            BodySource::Bytes(bytes, if_changed) => {
                let body = if joined.is_empty() {
                    bytes
                } else {
                    joined.extend_from_slice(bytes);
                    &joined
                };
                let record = Record { body, ..record };
                if if_changed {
                    return Ok(self.engine().put_if_changed(&record)?);
                }
                Ok(Put::Stored(self.engine().put(&record)?))
            }
            BodySource::Reader(reader) => self.put_stream(&record, &joined, reader, &page.url).map(Put::Stored),
        }
    }

    fn put_stream(&self, record: &Record<'_>, spill: &[u8], body: &mut dyn Read, url: &[u8]) -> Result<Version> {
        let rules = Arc::clone(&self.rule_set.read().unwrap_or_else(PoisonError::into_inner));
        let mut hashers = rules.hashers();
        let mut writer = self.engine().put_stream(record.key, record.meta, record.time_ms)?;
        writer.write_all(spill).map_err(engine_error)?;
        let mut piece = vec![0; 256 << 10];
        let mut offset = 0;
        loop {
            let count = match body.read(&mut piece) {
                Ok(0) => {
                    // Its chunks are garbage then.
                    return match hashers.and_then(|hashers| rules.judge(hashers, record.time_ms)) {
                        Some(rule) => Err(filemap_core::Error::Refused { rule }.into()),
                        None => Ok(writer.finish()?),
                    };
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(Error::Read { what: String::from_utf8_lossy(url).into_owned(), offset, source });
                }
            };
            writer.write_all(&piece[..count]).map_err(engine_error)?;
            hashers.iter_mut().for_each(|hashers| hashers.update(&piece[..count]));
            offset += count as u64;
        }
    }

    /// Whether the store holds this very version; `page.body` is not looked at.
    pub(crate) fn holds(&self, page: &Page, body: &mut Payload, sameness: Sameness) -> Result<bool> {
        self.holds_body(page, body.len(), sameness, |hasher| {
            body.chunks(|bytes| {
                hasher.update(bytes);
                Ok(())
            })
        })
    }

    fn holds_body(
        &self,
        page: &Page,
        body_bytes: u64,
        sameness: Sameness,
        hash_body: impl FnOnce(&mut Xxh3) -> Result<()>,
    ) -> Result<bool> {
        let key = self.key_of_page(page)?;
        let head = match self.engine().head_at(&key, page.fetched_at_ms) {
            // What is damaged is not held: putting the page again mends it.
            Err(e) if e.is_corrupt() => return Ok(false),
            head => head?,
        };
        let Some(head) = head else { return Ok(false) };
        if head.version.time_ms != page.fetched_at_ms {
            return Ok(false);
        }
        let mut hasher = Xxh3::new();
        hasher.update(&meta::encode(page, key::url(&key))?.spill);
        hash_body(&mut hasher)?;
        let digest = hasher.digest128().to_be_bytes();
        let sameness = if body_bytes == 0 { sameness.without_body() } else { sameness };
        if self.is_same(&key, &head, digest, page, sameness)? {
            return Ok(true);
        }
        for head in self.engine().history(&key)? {
            if head.version.time_ms == page.fetched_at_ms && self.is_same(&key, &head, digest, page, sameness)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_same(&self, key: &[u8], head: &Head, digest: [u8; 16], page: &Page, sameness: Sameness) -> Result<bool> {
        if head.digest != digest || sameness == Sameness::Visit {
            return Ok(head.digest == digest);
        }
        let mut stored = self.describe(key, head)?;
        if sameness == Sameness::VisitWithoutBody {
            stored.record_id.clone_from(&page.record_id);
        }
        let mut same = page.description();
        if let Some(revisit) = &mut same.revisit {
            revisit.original = None;
        }
        Ok(stored == same)
    }
}

/// The engine's error inside an I/O error of its writer.
fn engine_error(error: io::Error) -> Error {
    match error.downcast::<filemap_core::Error>() {
        Ok(error) => Error::Engine(error),
        Err(source) => Error::Read { what: "a page's body".to_owned(), offset: 0, source },
    }
}
