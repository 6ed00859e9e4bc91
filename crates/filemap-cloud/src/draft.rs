//! A version before it has a sequence: its key, its description and its compressed body.

use filemap::access::keys;
use filemap::page::meta;
use filemap::{Error, Page, Result, Version};
use xxhash_rust::xxh3::xxh3_128;

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
    codec: Codec,
    payload: Vec<u8>,
    original: Version,
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
            codec: Codec::None,
            payload: Vec::new(),
            original: NONE,
        })
    }

    /// Adds its body, compressed if that saves enough; a large one in chunks.
    pub(crate) fn with_body(mut self, body: &[u8]) -> Draft {
        (self.codec, self.payload) = if body.len() as u64 > chunks::WHOLE_BYTES {
            (Codec::Chunks, chunks::pack(body))
        } else {
            match chunks::compressed(body) {
                Some(packed) => (Codec::Zstd, packed),
                None => (Codec::None, body.to_vec()),
            }
        };
        self
    }

    /// Adds the body of an earlier version of the key.
    pub(crate) fn referring_to(mut self, original: Version) -> Draft {
        (self.kind, self.original) = (Kind::Reference, original);
        self
    }

    /// The record of this version with its sequence.
    pub(crate) fn record(&self, sequence: u64) -> Record<'_> {
        Record {
            kind: self.kind,
            codec: self.codec,
            version: Version { time_ms: self.time_ms, sequence },
            other: self.original,
            key: &self.key,
            meta: &self.meta,
            spill_bytes: self.spill_bytes,
            payload: &self.payload,
            body_bytes: self.body_bytes,
            digest: self.digest,
        }
    }
}
