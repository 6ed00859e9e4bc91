//! Entry points for the fuzz targets: the decoders of the format and the scans of both logs. Not
//! public API.
//!
//! Each takes any bytes. What decodes must encode to the same bytes, as far as the format leaves
//! no choice. Otherwise a decoder that drops or invents something would go unnoticed until a
//! checkpoint writes it back.

use filemap_io::File;

use crate::format::dictionary;
use crate::format::header::FileHeader;
use crate::format::key::{self, KeyRecord};
use crate::format::leaf;
use crate::format::names;
use crate::format::node;
use crate::format::run::{self, Summary};
use crate::format::superblock::{self, Superblock};
use crate::format::value::{self, Kind};
use crate::format::{FORMAT_VERSION, PAGE_BYTES, header, seed};
use crate::index::address;
use crate::logs::keys::KeyFraming;
use crate::logs::scan::{Framing, Item, Scan};
use crate::logs::values::ValueFraming;
use crate::logs::values::codec;

/// Store id that all bytes are assumed to belong to.
pub const STORE_ID: [u8; 16] = [0; 16];
/// File offset at which a record is assumed to lie.
pub const OFFSET: u64 = 1 << 20;
/// Page number that a page is assumed to have.
pub const PAGE: u32 = 3;

/// Kind of structure to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file header.
    Header,
    /// A superblock copy.
    Superblock,
    /// A record of segment 0 of the value log.
    Value,
    /// A record of segment 0 of the key log.
    Key,
    /// A leaf of address.idx.
    Leaf,
    /// A node of address.idx.
    Node,
    /// A file name.
    Name,
    /// One copy in a dictionary file.
    Dictionary,
    /// A page of changes of address.idx.
    Changes,
    /// A summary of address.idx.
    Summary,
    /// The words of a list of runs.
    Runs,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 11] = [
        Form::Header,
        Form::Superblock,
        Form::Value,
        Form::Key,
        Form::Leaf,
        Form::Node,
        Form::Name,
        Form::Dictionary,
        Form::Changes,
        Form::Summary,
        Form::Runs,
    ];

    /// Returns whether the form is a page of address.idx.
    pub fn is_page(self) -> bool {
        matches!(self, Form::Leaf | Form::Node | Form::Changes | Form::Summary)
    }
}

/// Decodes bytes and re-encodes them. Returns true if they decoded.
///
/// # Panics
/// If they encode to different bytes.
pub fn decode(form: Form, bytes: &[u8]) -> bool {
    match form {
        Form::Header => file_header(bytes),
        Form::Superblock => superblock(bytes),
        Form::Value => value(bytes),
        Form::Key => key(bytes),
        Form::Leaf => leaf(bytes),
        Form::Node => node(bytes),
        Form::Name => name(bytes),
        Form::Dictionary => dictionary(bytes),
        Form::Changes => changes(bytes),
        Form::Summary => summary(bytes),
        Form::Runs => runs(bytes),
    }
}

/// Returns true if this program writes this format version: only then does it know the encoding.
fn is_ours(bytes: &[u8]) -> bool {
    header::Layout::READ_VERSION.get(bytes) == FORMAT_VERSION
        && header::Layout::WRITE_VERSION.get(bytes) == FORMAT_VERSION
}

fn file_header(bytes: &[u8]) -> bool {
    let Ok(decoded) = FileHeader::decode(bytes) else { return false };
    assert!(!is_ours(bytes) || decoded.encode() == bytes[..header::BYTES]);
    true
}

fn superblock(bytes: &[u8]) -> bool {
    let Ok(decoded) = Superblock::decode(bytes) else { return false };
    if is_ours(bytes) {
        use superblock::Layout;
        // A field at the offset of earlier programs is written at its present offset.
        let mut bytes = bytes[..superblock::BYTES].to_vec();
        Layout::RULES.put(&mut bytes, decoded.rules);
        Layout::OLD_RULES.put(&mut bytes, 0);
        let crc = crc32fast::hash(&bytes[Layout::CRC.end()..]);
        Layout::CRC.put(&mut bytes, crc);
        assert_eq!(decoded.encode()[..], bytes[..]);
    }
    true
}

fn value(bytes: &[u8]) -> bool {
    let seed = seed(&STORE_ID, 0);
    let Ok(header) = value::decode_head(bytes, seed, OFFSET) else { return false };
    let mut head = vec![0; header.payload_at()];
    head[header.key_at()..].copy_from_slice(&bytes[header.key_at()..header.payload_at()]);
    value::seal_head(&header, seed, OFFSET, &mut head);
    assert_eq!(head, bytes[..header.payload_at()]);
    if header.kind == Kind::Filler || value::check_payload(&header, bytes).is_err() {
        return true;
    }
    let payload = &bytes[header.payload_at()..][..header.payload_bytes as usize];
    let meta = &bytes[header.meta_at()..header.payload_at()];
    let mut out = Vec::new();
    let expanded = codec::expand(header.meta_codec, meta, header.meta_raw_bytes as usize, None, &mut out);
    assert!(expanded.is_err() || out.len() == header.meta_raw_bytes as usize);
    match header.kind {
        Kind::Page | Kind::Chunk if header.raw_bytes <= 1 << 20 => {
            out.clear();
            let expanded = codec::expand(header.codec, payload, header.raw_bytes as usize, None, &mut out);
            assert!(expanded.is_err() || out.len() as u64 == header.raw_bytes);
        }
        Kind::Chunked => {
            let chunks = value::decode_chunks(payload, header.raw_bytes).unwrap_or_default();
            for (chunk, entry) in chunks.iter().zip(payload.chunks_exact(value::CHUNK_ENTRY_BYTES)) {
                // The upper 24 bits of the location are unused.
                assert_eq!((&chunk.encode()[..5], &chunk.encode()[8..]), (&entry[..5], &entry[8..]));
            }
        }
        _ => {}
    }
    true
}

fn dictionary(bytes: &[u8]) -> bool {
    let Ok((_, facts)) = dictionary::decode_facts(bytes, &STORE_ID) else { return false };
    let Ok((body, meta)) = dictionary::decode_content(&facts, bytes) else { return false };
    // zstd may refuse the content, but must not crash.
    for content in [body, meta] {
        if let Some(digest) = zstd::dict::DDict::try_create(content) {
            let mut out = Vec::new();
            let _ = codec::expand(value::Codec::Dictionary, content, 1 << 16, Some(&digest), &mut out);
        }
    }
    let making = dictionary::Making {
        created_ms: facts.created_ms,
        group: facts.group.clone(),
        pages: facts.pages,
        body_ppm: facts.body_ppm,
        meta_ppm: facts.meta_ppm,
        level: facts.level,
    };
    let encoded = dictionary::encode(STORE_ID, facts.id, &making, body, meta);
    assert!(!is_ours(bytes) || encoded[..bytes.len()] == *bytes);
    true
}

fn key(bytes: &[u8]) -> bool {
    let seed = key::seed(&STORE_ID, 0);
    let Ok((record, key)) = KeyRecord::decode(bytes, seed, OFFSET) else { return false };
    let mut encoded = Vec::new();
    record.encode(key, seed, OFFSET, &mut encoded);
    let end = record.key_at() + key.len();
    assert_eq!(encoded[..end], bytes[..end]);
    true
}

fn leaf(bytes: &[u8]) -> bool {
    let seed = seed(&STORE_ID, u64::MAX - 1);
    let Ok(l) = leaf::decode(seed, PAGE, bytes) else { return false };
    assert_eq!(leaf::encode(seed, PAGE, l.depth, l.prefix, l.epoch, &l.slots)[..], bytes[..PAGE_BYTES]);
    true
}

fn node(bytes: &[u8]) -> bool {
    let seed = seed(&STORE_ID, u64::MAX - 1);
    let Ok(n) = node::decode(seed, PAGE, bytes) else { return false };
    assert_eq!(node::encode(seed, PAGE, n.level, n.epoch, n.first, &n.entries)[..], bytes[..PAGE_BYTES]);
    true
}

fn changes(bytes: &[u8]) -> bool {
    let seed = seed(&STORE_ID, u64::MAX - 1);
    let Ok(c) = run::decode(seed, PAGE, bytes) else { return false };
    assert_eq!(run::encode(seed, PAGE, c.part, c.epoch, &c.changes)[..], bytes[..PAGE_BYTES]);
    true
}

fn summary(bytes: &[u8]) -> bool {
    let seed = seed(&STORE_ID, u64::MAX - 1);
    let Ok(s) = Summary::decode(seed, PAGE, bytes) else { return false };
    assert_eq!(s.encode(seed, PAGE)[..], bytes[..PAGE_BYTES]);
    assert!(s.firsts.iter().all(|first| s.pages_of(*first).all(|page| page < s.firsts.len())));
    true
}

fn runs(bytes: &[u8]) -> bool {
    let words: Vec<u64> = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8"))).collect();
    let Some(encoded) = address::runs_again(&words, u64::from(u32::MAX), 1 << 50) else { return false };
    assert_eq!(encoded, words);
    true
}

fn name(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    match (names::parse_segment(text), names::parse_keys(text)) {
        (Some(id), None) => assert_eq!(names::segment(id), text),
        (None, Some(id)) => assert_eq!(names::keys(id), text),
        (parsed, _) => assert_eq!(parsed, None),
    }
    names::parse_segment(text).or(names::parse_keys(text)).is_some()
}

/// Scans a file as a segment of the value log or of the key log, from byte 64 on. Returns the
/// number of whole records.
///
/// # Panics
/// If the items do not cover every byte once, in order.
pub fn scan(file: &dyn File, is_values: bool) -> u64 {
    if is_values {
        return scan_framed(file, ValueFraming { seed: seed(&STORE_ID, 0) });
    }
    scan_framed(file, KeyFraming::new(key::seed(&STORE_ID, 0)))
}

fn scan_framed<F: Framing>(file: &dyn File, framing: F) -> u64 {
    let end = file.len().unwrap_or(0);
    let start = (header::BYTES as u64).min(end);
    let Ok(mut scan) = Scan::new(file, "fuzzed".into(), framing, start, u64::MAX) else { return 0 };
    let (mut at, mut records) = (start, 0);
    loop {
        assert_eq!(scan.offset(), at);
        match scan.next() {
            Ok(Some(Item::Record { offset, bytes })) => {
                assert_eq!(offset, at);
                at += bytes.len() as u64;
                records += 1;
            }
            Ok(Some(Item::Filler { bytes } | Item::Gap { bytes, .. })) => at += bytes,
            Ok(None) | Err(_) => break,
        }
    }
    assert_eq!(at, end);
    records
}
