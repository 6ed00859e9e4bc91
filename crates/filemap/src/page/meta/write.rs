//! Encodes a page's description; the parent module documents the layout.

use std::net::IpAddr;

use filemap_io::{layout, varint};

use super::bytes::put_bytes;
use super::{FIXED_BYTES, Fixed, MAX_BYTES, PROTOCOL_TEXT, VERSION, compact, flag, only_type, revisit_bit};
use crate::error::{Error, Result};
use crate::page::headers::Headers;
use crate::page::{HttpVersion, InPlace, Page, Revisit, RevisitProfile};

/// A page's description, ready for the engine.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::page::meta;
/// use filemap::Page;
///
/// let page = Page::new("http://example.com/#top", 1_700_000_000_000, 200, "");
/// let encoded = meta::encode(&page, "http://example.com/")?;
/// let decoded = meta::decode(&encoded.meta, &encoded.spill, "http://example.com/", page.fetched_at_ms)?;
/// assert_eq!(decoded, page);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Encoded {
    /// The engine's meta.
    pub meta: Vec<u8>,
    /// Bytes to put before the body: empty unless the description is too large for the meta.
    pub spill: Vec<u8>,
}

/// Encodes `page` without its body, time and variant. `key_url` is the canonical URL of its key;
/// the URL as fetched is written only if it differs.
///
/// # Errors
///
/// [`Error::HeadersTooLarge`] over [`MAX_BYTES`].
pub fn encode(page: &Page, key_url: impl AsRef<[u8]>) -> Result<Encoded> {
    let mut flags = 0;
    let mut description = Vec::with_capacity(256);
    let out = &mut description;
    put_optional(out, &mut flags, flag::URL, Some(page.url.as_slice()).filter(|url| *url != key_url.as_ref()));
    put_optional(out, &mut flags, flag::REASON, Some(page.reason.as_slice()).filter(|reason| !reason.is_empty()));
    let (protocol, protocol_text) = protocol(page.http_version.as_ref());
    put_optional(out, &mut flags, flag::PROTOCOL, protocol_text.map(str::as_bytes));
    put_optional(out, &mut flags, flag::METHOD, page.method.as_deref().map(str::as_bytes));
    put_address(out, &mut flags, page.ip);
    put_optional(out, &mut flags, flag::TRUNCATED, page.truncated.as_deref().map(str::as_bytes));
    put_compact(out, &mut flags, (flag::DIGEST_SHA1, flag::DIGEST_TEXT), page.digest.as_deref(), compact::sha1);
    put_compact(out, &mut flags, (flag::ID_UUID, flag::ID_TEXT), page.record_id.as_deref(), compact::uuid);
    if let Some(revisit) = &page.revisit {
        flags |= flag::REVISIT;
        put_revisit(out, revisit);
    }
    if let Some(place) = page.in_place {
        flags |= flag::IN_PLACE;
        put_place(out, place);
    }
    match page.in_place.and_then(|_| only_type(&page.headers)) {
        Some(value) => put_optional(out, &mut flags, flag::TYPE_ALONE, Some(value)),
        None => put_headers(out, &page.headers),
    }
    let mut meta = vec![0; FIXED_BYTES];
    Fixed::LAYOUT.put(&mut meta, VERSION);
    Fixed::KIND.put(&mut meta, page.kind as u8 + 1);
    Fixed::FLAGS.put(&mut meta, flags);
    Fixed::STATUS.put(&mut meta, page.status.unwrap_or(0));
    Fixed::PROTOCOL.put(&mut meta, protocol);
    finish(meta, description)
}

fn put_headers(out: &mut Vec<u8>, headers: &Headers) {
    varint::put(out, headers.len() as u64);
    for header in headers {
        put_bytes(out, &header.name);
        put_bytes(out, &header.value);
    }
}

fn put_place(out: &mut Vec<u8>, place: InPlace) {
    layout::push(out, place.archive.0);
    varint::put(out, place.offset);
    varint::put(out, place.length);
}

/// Puts the description after the fixed bytes or, if it is too large, before the body.
fn finish(mut meta: Vec<u8>, description: Vec<u8>) -> Result<Encoded> {
    if FIXED_BYTES + description.len() <= filemap_core::Record::MAX_META_BYTES {
        meta.extend_from_slice(&description);
        return Ok(Encoded { meta, spill: Vec::new() });
    }
    let bytes = description.len() as u64;
    if bytes > MAX_BYTES {
        return Err(Error::HeadersTooLarge { bytes });
    }
    Fixed::SPILL.put(&mut meta, bytes as u32);
    Ok(Encoded { meta, spill: description })
}

fn put_optional(out: &mut Vec<u8>, flags: &mut u16, flag: u16, field: Option<&[u8]>) {
    if let Some(field) = field {
        *flags |= flag;
        put_bytes(out, field);
    }
}

fn put_address(out: &mut Vec<u8>, flags: &mut u16, address: Option<IpAddr>) {
    let Some(address) = address else { return };
    *flags |= if address.is_ipv4() { flag::IPV4 } else { flag::IPV6 };
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

/// Puts a text in its short form or, if it has none, as text.
fn put_compact<const BYTES: usize>(
    out: &mut Vec<u8>,
    flags: &mut u16,
    (bytes_flag, text_flag): (u16, u16),
    text: Option<&str>,
    bytes_of: fn(&str) -> Option<[u8; BYTES]>,
) {
    match text.and_then(bytes_of) {
        Some(bytes) => {
            *flags |= bytes_flag;
            out.extend_from_slice(&bytes);
        }
        None => put_optional(out, flags, text_flag, text.map(str::as_bytes)),
    }
}

fn put_revisit(out: &mut Vec<u8>, revisit: &Revisit) {
    let at = out.len();
    out.push(match &revisit.profile {
        RevisitProfile::IdenticalPayload => 0,
        RevisitProfile::ServerNotModified => 1,
        RevisitProfile::Other(_) => 2,
    });
    if let RevisitProfile::Other(uri) = &revisit.profile {
        put_bytes(out, uri.as_bytes());
    }
    if let Some(url) = &revisit.refers_to_url {
        out[at] |= revisit_bit::URL;
        put_bytes(out, url);
    }
    if let Some(time_ms) = revisit.refers_to_ms {
        out[at] |= revisit_bit::TIME;
        layout::push(out, time_ms);
    }
    if let Some(id) = &revisit.refers_to_id {
        out[at] |= revisit_bit::ID;
        put_bytes(out, id.as_bytes());
    }
}

fn protocol(version: Option<&HttpVersion>) -> (u8, Option<&str>) {
    match version {
        None => (0, None),
        Some(HttpVersion::Other(text)) => (PROTOCOL_TEXT, Some(text)),
        Some(known) => (1 + HttpVersion::KNOWN.iter().take_while(|version| *version != known).count() as u8, None),
    }
}
