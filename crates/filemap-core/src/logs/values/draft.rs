//! Builds records on the caller's thread: everything that does not depend on their place in the
//! log.

use std::cell::RefCell;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::format::value::{self, ChunkEntry, Codec, Header, Kind, Removed};
use crate::logs::values::append::Draft;
use crate::logs::values::codec;
use crate::logs::values::dictionaries::{Digest, Part, Registry};
use crate::record::{MAX_KEY_BYTES, MAX_META_BYTES, Record};
use zstd::dict::CDict;

/// Metas of at least this length are compressed even without a dictionary, at a cheap level.
const META_BYTES: usize = 128;
const META_LEVEL: i32 = 1;
/// Largest buffer that a thread keeps for its next record, in bytes.
const KEEP_BYTES: usize = 4 << 20;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// XXH3-128 of a body, as record heads hold it.
pub(crate) fn digest(body: &[u8]) -> [u8; 16] {
    xxh3_128(body).to_be_bytes()
}

/// Checks the lengths of key and meta.
///
/// # Errors
/// `KeyLength`, `MetaTooLarge`.
pub(crate) fn check_limits(key: &[u8], meta: &[u8]) -> Result<()> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(Error::KeyLength { len: key.len() });
    }
    if meta.len() > MAX_META_BYTES {
        return Err(Error::MetaTooLarge { len: meta.len() });
    }
    Ok(())
}

/// Compression of the parts of one record.
#[derive(Debug)]
pub(crate) struct Packing {
    level: i32,
    dictionary: u32,
    body: Option<Arc<Digest<CDict<'static>>>>,
    meta: Option<Arc<Digest<CDict<'static>>>>,
}

impl Packing {
    /// Compression without a dictionary.
    pub(crate) fn plain(level: i32) -> Packing {
        Packing { level, dictionary: 0, body: None, meta: None }
    }

    /// Compression with a dictionary, for the parts whose digest is available.
    pub(crate) fn with(level: i32, dictionary: u32, registry: &Registry) -> Packing {
        let digest = |part| registry.compressor(dictionary, part, level);
        Packing { level, dictionary, body: digest(Part::Body), meta: digest(Part::Meta) }
    }

    /// Returns true if there is a digest for bodies.
    pub(crate) fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// The dictionary's id, 0 for none.
    pub(crate) fn dictionary(&self) -> u32 {
        self.dictionary
    }

    /// Appends a body or chunk to `out`, compressed if that is shorter.
    pub(crate) fn body(&self, raw: &[u8], out: &mut Vec<u8>) -> Codec {
        match &self.body {
            Some(digest) if codec::is_for(digest.dictionary_bytes, raw.len()) => {
                codec::append_with(raw, &digest.form, out)
            }
            _ => codec::append(raw, self.level, out),
        }
    }

    /// Appends a meta to `out`, compressed if that is shorter.
    pub(crate) fn meta(&self, raw: &[u8], out: &mut Vec<u8>) -> Codec {
        match &self.meta {
            Some(digest) if codec::is_for(digest.dictionary_bytes, raw.len()) => {
                codec::append_with(raw, &digest.form, out)
            }
            _ => codec::append(raw, if raw.len() >= META_BYTES { META_LEVEL } else { 0 }, out),
        }
    }
}

impl Draft {
    /// A page whose body is stored in one piece.
    pub(crate) fn page(record: &Record<'_>, digest: [u8; 16], packing: &Packing) -> Draft {
        let header = Header {
            time_ms: record.time_ms,
            raw_bytes: record.body.len() as u64,
            digest,
            ..Header::plain(Kind::Page, record.key.len())
        };
        Draft::build(header, record.key, record.meta, packing, |out| packing.body(record.body, out))
    }

    /// A version with the body of another version of the same key.
    pub(crate) fn reference(
        record: &Record<'_>,
        raw_bytes: u64,
        digest: [u8; 16],
        refers_to: u64,
        packing: &Packing,
    ) -> Draft {
        let header =
            Header { time_ms: record.time_ms, raw_bytes, digest, ..Header::plain(Kind::Reference, record.key.len()) };
        Draft::build(header, record.key, record.meta, packing, |out| raw(&value::reference(refers_to), out))
    }

    /// A copy of a record of another store, neither decompressed nor recompressed.
    pub(crate) fn again(header: Header, bytes: &[u8]) -> Draft {
        let mut copy = BUFFER.take();
        copy.clear();
        copy.extend_from_slice(&bytes[..header.total_bytes() as usize]);
        Draft { header, bytes: copy }
    }

    /// A tombstone, which removes all earlier versions of a key.
    pub(crate) fn tombstone(key: &[u8], time_ms: i64) -> Draft {
        let header = Header { time_ms, ..Header::plain(Kind::Tombstone, key.len()) };
        Draft::build(header, key, &[], &Packing::plain(0), |_| Codec::Raw)
    }

    /// A tombstone of one version.
    pub(crate) fn removed(key: &[u8], removed: &Removed, time_ms: i64) -> Draft {
        let header = Header { time_ms, ..Header::plain(Kind::Tombstone, key.len()) };
        Draft::build(header, key, &[], &Packing::plain(0), |out| raw(&removed.encode(), out))
    }

    /// One chunk of a large body.
    pub(crate) fn chunk(key: &[u8], time_ms: i64, piece: &[u8], packing: &Packing) -> Draft {
        let header = Header { time_ms, raw_bytes: piece.len() as u64, ..Header::plain(Kind::Chunk, key.len()) };
        Draft::build(header, key, &[], packing, |out| packing.body(piece, out))
    }

    /// The record that lists the chunks of a large body.
    pub(crate) fn chunked(
        key: &[u8],
        meta: &[u8],
        time_ms: i64,
        raw_bytes: u64,
        digest: [u8; 16],
        chunks: &[ChunkEntry],
        packing: &Packing,
    ) -> Draft {
        let header = Header { time_ms, raw_bytes, digest, ..Header::plain(Kind::Chunked, key.len()) };
        Draft::build(header, key, meta, packing, |out| {
            chunks.iter().for_each(|c| out.extend_from_slice(&c.encode()));
            Codec::Raw
        })
    }

    /// Lays out key, meta and payload after room for the fixed part, and pads to whole units.
    fn build(
        mut header: Header,
        key: &[u8],
        meta: &[u8],
        packing: &Packing,
        payload: impl FnOnce(&mut Vec<u8>) -> Codec,
    ) -> Draft {
        let mut bytes = BUFFER.take();
        bytes.clear();
        bytes.resize(header.key_at(), 0);
        bytes.extend_from_slice(key);
        header.meta_raw_bytes = meta.len() as u32;
        let before = bytes.len();
        header.meta_codec = packing.meta(meta, &mut bytes);
        header.meta_bytes = (bytes.len() - before) as u32;
        let before = bytes.len();
        header.codec = payload(&mut bytes);
        if header.codec == Codec::Dictionary || header.meta_codec == Codec::Dictionary {
            header.dictionary = packing.dictionary;
        }
        header.payload_bytes = (bytes.len() - before) as u32;
        header.payload_crc = crc32fast::hash(&bytes[before..]);
        bytes.resize(header.total_bytes() as usize, 0);
        Draft { header, bytes }
    }

    /// Returns the buffer to the thread.
    pub(crate) fn recycle(self) {
        if self.bytes.capacity() <= KEEP_BYTES {
            BUFFER.set(self.bytes);
        }
    }
}

fn raw(bytes: &[u8], out: &mut Vec<u8>) -> Codec {
    out.extend_from_slice(bytes);
    Codec::Raw
}
