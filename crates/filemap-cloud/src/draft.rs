//! A version before it has a sequence: its key, its description and its compressed body.

use std::sync::Arc;

use filemap::access::keys;
use filemap::page::meta;
use filemap::{Error, Page, Result, Version};
use xxhash_rust::xxh3::xxh3_128;

use crate::dictionary::{self, Dictionary};
use crate::format::chunks;
use crate::format::record::{Codec, Kind, NONE, Record};
use crate::format::row;

/// A version without a sequence.
pub(crate) struct Draft {
    pub(crate) key: Vec<u8>,
    /// Its ordered form.
    pub(crate) form: Vec<u8>,
    pub(crate) time_ms: i64,
    pub(crate) digest: u128,
    pub(crate) body_bytes: u64,
    meta: Vec<u8>,
    spill_bytes: u32,
    kind: Kind,
    packed: Packed,
    original: Version,
}

/// A body as a record stores it.
pub(crate) struct Packed {
    codec: Codec,
    payload: Vec<u8>,
    /// The dictionary that it was compressed with.
    dictionary: Option<Arc<Dictionary>>,
}

impl Packed {
    const NOTHING: Packed = Packed { codec: Codec::None, payload: Vec::new(), dictionary: None };

    /// Compresses a body if that saves enough, with this dictionary if it is of use; a large body
    /// in chunks.
    pub(crate) fn of(body: &[u8], dictionary: Option<Arc<Dictionary>>) -> Packed {
        Packed::at(body, dictionary, chunks::LEVEL)
    }

    /// As [`Packed::of`], at a level; chunks have always the same one.
    pub(crate) fn at(body: &[u8], dictionary: Option<Arc<Dictionary>>, level: i32) -> Packed {
        if body.len() as u64 > chunks::WHOLE_BYTES {
            return Packed { codec: Codec::Chunks, payload: chunks::pack(body), dictionary: None };
        }
        let with = dictionary.and_then(|dictionary| Some((dictionary.compressed(body, level)?, dictionary)));
        if let Some((payload, dictionary)) = with {
            return Packed { codec: Codec::Dictionary, payload, dictionary: Some(dictionary) };
        }
        let packed = chunks::compressed(body, level).map(|payload| (Codec::Zstd, payload));
        let (codec, payload) = packed.unwrap_or_else(|| (Codec::None, body.to_vec()));
        Packed { codec, payload, dictionary: None }
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.payload.len()
    }

    /// The record with this body in place of its own.
    pub(crate) fn in_record<'a>(&'a self, record: &Record<'a>) -> Record<'a> {
        let record = Record { codec: self.codec, payload: &self.payload, ..*record };
        match &self.dictionary {
            Some(dictionary) => record.naming(dictionary.id),
            // Only a reference names something else.
            None if record.kind == Kind::Page => Record { other: NONE, ..record },
            None => record,
        }
    }
}

impl Draft {
    /// A version without a body: [`Draft::with_body`] or [`Draft::referring_to`] adds one.
    pub(crate) fn new(page: &Page, canonical_url: &[u8], body: &[u8]) -> Result<Draft> {
        let key = keys::key(canonical_url, page.kind, page.variant.as_ref());
        let form = keys::form(&key);
        if row::of_version(&form, NONE).len() > row::MAX_KEY_BYTES {
            return Err(filemap_core::Error::KeyLength { len: key.len() }.into());
        }
        if body.len() as u64 > filemap_core::Record::MAX_VALUE_BYTES {
            return Err(filemap_core::Error::ValueTooLarge { len: body.len() as u64 }.into());
        }
        let encoded = meta::encode(&keys::description(page), canonical_url)?;
        let spill_bytes = u32::try_from(encoded.spill.len())
            .map_err(|_| Error::HeadersTooLarge { bytes: encoded.spill.len() as u64 })?;
        Ok(Draft {
            key,
            form,
            time_ms: page.fetched_at_ms,
            digest: xxh3_128(body),
            body_bytes: body.len() as u64,
            meta: [encoded.meta, encoded.spill].concat(),
            spill_bytes,
            kind: Kind::Page,
            packed: Packed::NOTHING,
            original: NONE,
        })
    }

    /// Adds its body, compressed if that saves enough; a large one in chunks.
    pub(crate) fn with_body(self, body: &[u8], dictionary: Option<Arc<Dictionary>>) -> Draft {
        Draft { packed: Packed::of(body, dictionary), ..self }
    }

    /// The body without its dictionary, if that was retired since; `None` if nothing is to change.
    pub(crate) fn without_retired(&self) -> Option<std::result::Result<Packed, String>> {
        let retired = self.packed.dictionary.as_ref().filter(|dictionary| dictionary.is_retired())?;
        let body = dictionary::unpack(&self.record(0), Some(retired));
        Some(body.map(|body| Packed::of(&body, None)))
    }

    /// Adds the body of an earlier version of the key.
    pub(crate) fn referring_to(mut self, original: Version) -> Draft {
        (self.kind, self.original) = (Kind::Reference, original);
        self
    }

    /// The record of this version with its sequence.
    pub(crate) fn record(&self, sequence: u64) -> Record<'_> {
        let record = Record {
            kind: self.kind,
            codec: Codec::None,
            version: Version { time_ms: self.time_ms, sequence },
            other: self.original,
            key: &self.key,
            meta: &self.meta,
            spill_bytes: self.spill_bytes,
            payload: b"",
            body_bytes: self.body_bytes,
            digest: self.digest,
        };
        self.packed.in_record(&record)
    }
}
