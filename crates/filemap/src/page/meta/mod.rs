//! A page's meta in the engine: its description, which is everything but its body, its key (URL
//! and variant) and its time.
//!
//! Layout, version 1 (fixed-width numbers are little-endian; a *varint* is LEB128 in its shortest
//! form; *bytes* are a varint length and that many bytes):
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 1 | layout version, 1 |
//! | 1 | 1 | kind: 1 response, 2 resource, 3 revisit, 4 metadata, 5 request, 6 conversion |
//! | 2 | 2 | flags: which optional fields follow, bit by bit in the order below; the rest are zero |
//! | 4 | 2 | status code; 0 for none |
//! | 6 | 1 | protocol: 0 none, 1 HTTP/1.0, 2 HTTP/1.1, 3 HTTP/2, 4 HTTP/3, 255 a text follows |
//! | 7 | 1 | zero |
//! | 8 | 4 | spill: 0, or the number of bytes of the description that stand before the body |
//! | 12 | .. | the description: the fields below, nothing after them |
//!
//! | flag | field | encoding |
//! |---|---|---|
//! | 0 | the URL as fetched, if it is not the key's URL | bytes |
//! | 1 | the words after the status code | bytes |
//! | 2 | the protocol as text (if and only if it is 255) | bytes, UTF-8 |
//! | 3 | the request's method | bytes, UTF-8 |
//! | 4 | the server's address | IPv4: 4 bytes |
//! | 5 | the server's address | IPv6: 16 bytes |
//! | 6 | why the body is truncated | bytes, UTF-8 |
//! | 7 | the digest as received | `sha1:` in base 32: 20 bytes |
//! | 8 | the digest as received | any other: bytes, UTF-8 |
//! | 9 | the record id | `<urn:uuid:>`: 16 bytes |
//! | 10 | the record id | any other: bytes, UTF-8 |
//! | 11 | the references of a revisit | see below |
//! | 12 | the place of the record | the archive (u64), offset and length (varints) |
//! | 13 | `Content-Type`, the only header; with flag 12 only | bytes |
//! | not 13 | the headers | a varint count, then name and value of each as bytes |
//!
//! A revisit is one byte (bits 0-1 the profile: 0 identical payload, 1 server not modified, 2
//! other; bit 2 a URL, bit 3 a time, bit 4 a record id follows), then the profile's URI (profile
//! 2), URL, time (i64) and id (bytes each).
//!
//! **Large headers.** The engine takes [`filemap_core::Record::MAX_META_BYTES`] of meta. A larger
//! description precedes the body instead, whole, and the meta is only the twelve fixed bytes with
//! its length. The `head` of such a page reads the start of its body, and an unchanged body with
//! changed headers counts as changed. A description over [`MAX_BYTES`] is an error.
//!
//! Invariants: one page has one encoding; `decode` is total over any bytes; an unknown version is
//! an error.

mod bytes;
mod compact;
mod read;
mod write;

pub(crate) use compact::{sha1_text, uuid_text};
pub(crate) use read::is_in_place;
pub use read::{decode, spill_bytes};
pub use write::{Encoded, encode};

pub use crate::error::MetaError;
use crate::limits;
use crate::page::headers::Headers;

/// Maximum size of a page's description: 64 MiB.
pub const MAX_BYTES: u64 = limits::DESCRIPTION_BYTES;

/// The layout version that this program writes, and the newest it reads.
pub const VERSION: u8 = limits::DESCRIPTION_VERSION;

filemap_io::layout! {
    /// The fixed part, before the description.
    struct Fixed {
        0 LAYOUT: u8 = "layout version, 1";
        1 KIND: u8 = "kind: 1 response, 2 resource, 3 revisit, 4 metadata, 5 request, 6 conversion";
        2 FLAGS: u16 = "flags: which optional fields follow, bit by bit in the order below; the rest are zero";
        4 STATUS: u16 = "status code; 0 for none";
        6 PROTOCOL: u8 = "protocol: 0 none, 1 HTTP/1.0, 2 HTTP/1.1, 3 HTTP/2, 4 HTTP/3, 255 a text follows";
        7 RESERVED: filemap_io::layout::Zeros<1> = "zero";
        8 SPILL: u32 = "spill: 0, or the number of bytes of the description that stand before the body";
        .. "12", ".." = "the description: the fields below, nothing after them";
    }
}

/// Number of bytes before the description.
pub(crate) const FIXED_BYTES: usize = Fixed::BYTES;

/// The protocol code that means: a text follows.
const PROTOCOL_TEXT: u8 = 255;

/// The only header of a page in place that is described from an index.
const CONTENT_TYPE: &[u8] = b"Content-Type";

/// The content type, if there is no other header: an index of an archive describes pages like
/// this.
fn only_type(headers: &Headers) -> Option<&[u8]> {
    match &headers.0[..] {
        [header] if header.name == CONTENT_TYPE => Some(&header.value),
        _ => None,
    }
}

/// Flags of the optional fields.
mod flag {
    pub(super) const URL: u16 = 1 << 0;
    pub(super) const REASON: u16 = 1 << 1;
    pub(super) const PROTOCOL: u16 = 1 << 2;
    pub(super) const METHOD: u16 = 1 << 3;
    pub(super) const IPV4: u16 = 1 << 4;
    pub(super) const IPV6: u16 = 1 << 5;
    pub(super) const TRUNCATED: u16 = 1 << 6;
    pub(super) const DIGEST_SHA1: u16 = 1 << 7;
    pub(super) const DIGEST_TEXT: u16 = 1 << 8;
    pub(super) const ID_UUID: u16 = 1 << 9;
    pub(super) const ID_TEXT: u16 = 1 << 10;
    pub(super) const REVISIT: u16 = 1 << 11;
    pub(super) const IN_PLACE: u16 = 1 << 12;
    pub(super) const TYPE_ALONE: u16 = 1 << 13;
    pub(super) const KNOWN: u16 = (1 << 14) - 1;
}

/// The bits of a revisit's first byte.
mod revisit_bit {
    pub(super) const PROFILE: u8 = 0b11;
    pub(super) const URL: u8 = 1 << 2;
    pub(super) const TIME: u8 = 1 << 3;
    pub(super) const ID: u8 = 1 << 4;
    pub(super) const KNOWN: u8 = (1 << 5) - 1;
}

#[cfg(test)]
mod tests;
