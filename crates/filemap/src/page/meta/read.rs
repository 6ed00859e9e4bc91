//! Decodes a page's description; the parent module documents the layout. Total over any bytes.

use std::net::IpAddr;

use filemap_io::layout;

use super::bytes::Cursor;
use super::{
    CONTENT_TYPE, FIXED_BYTES, Fixed, MAX_BYTES, PROTOCOL_TEXT, VERSION, compact, flag, only_type, revisit_bit,
};
use crate::error::MetaError;
use crate::page::headers::{Header, Headers};
use crate::page::{ArchiveId, HttpVersion, InPlace, Page, RecordKind, Revisit, RevisitProfile};

/// Number of bytes of the description before the body: 0 for nearly every page.
///
/// # Errors
///
/// [`MetaError`] if `meta` is not a description, or is of another version.
pub fn spill_bytes(meta: &[u8]) -> Result<u32, MetaError> {
    let mut cursor = Cursor::new(meta);
    let version = cursor.byte("version")?;
    if version != VERSION {
        return Err(MetaError::Version { found: version });
    }
    cursor.take(FIXED_BYTES - 1, "fixed part")?;
    let spill = Fixed::SPILL.get(meta);
    if u64::from(spill) > MAX_BYTES {
        return Err(MetaError::Invalid { field: "spill" });
    }
    if spill > 0 {
        cursor.end()?;
    }
    Ok(spill)
}

/// Returns whether the page that `meta` describes is in place; false if `meta` is not a
/// description.
pub(crate) fn is_in_place(meta: &[u8]) -> bool {
    spill_bytes(meta).is_ok() && Fixed::FLAGS.get(meta) & flag::IN_PLACE != 0
}

/// Decodes a page without its body and variant. `spill` are the [`spill_bytes`] before the body,
/// `key_url` is the canonical URL of the page's key, `time_ms` the time of its version.
///
/// # Errors
///
/// [`MetaError`] if the bytes are not a description, or are of another version.
pub fn decode(meta: &[u8], spill: &[u8], key_url: impl AsRef<[u8]>, time_ms: i64) -> Result<Page, MetaError> {
    let spilled = spill_bytes(meta)? as usize;
    let description = if spilled == 0 { &meta[FIXED_BYTES..] } else { spill };
    if spilled != spill.len() {
        return Err(MetaError::Short { field: "spill" });
    }
    let kind = kind(Fixed::KIND.get(meta))?;
    let (flags, status, protocol) = (Fixed::FLAGS.get(meta), Fixed::STATUS.get(meta), Fixed::PROTOCOL.get(meta));
    if flags & !flag::KNOWN != 0 || !layout::is_reserved_zero(Fixed::ROWS, meta) {
        return Err(MetaError::Invalid { field: "flags" });
    }
    let cursor = &mut Cursor::new(description);
    let has = |flag: u16| flags & flag != 0;
    let forms = |bytes: u16, text: u16| (has(bytes), has(text));
    let page = Page {
        url: if has(flag::URL) { cursor.bytes("url")? } else { key_url.as_ref() }.to_vec(),
        variant: None,
        fetched_at_ms: time_ms,
        kind,
        status: Some(status).filter(|&status| status != 0),
        reason: if has(flag::REASON) { cursor.bytes("reason")?.to_vec() } else { Vec::new() },
        http_version: http_version(protocol, has(flag::PROTOCOL), cursor)?,
        method: if has(flag::METHOD) { Some(cursor.text("method")?) } else { None },
        ip: address(flags, cursor)?,
        truncated: if has(flag::TRUNCATED) { Some(cursor.text("truncated")?) } else { None },
        digest: compacted(forms(flag::DIGEST_SHA1, flag::DIGEST_TEXT), compact::sha1_text, "digest", cursor)?,
        record_id: compacted(forms(flag::ID_UUID, flag::ID_TEXT), compact::uuid_text, "record id", cursor)?,
        revisit: if has(flag::REVISIT) { Some(revisit(cursor)?) } else { None },
        in_place: if has(flag::IN_PLACE) { Some(in_place(cursor)?) } else { None },
        headers: match (has(flag::IN_PLACE), has(flag::TYPE_ALONE)) {
            (false, false) => headers(cursor)?,
            (false, true) => return Err(MetaError::Invalid { field: "flags" }),
            (true, false) => Some(headers(cursor)?)
                .filter(|headers| only_type(headers).is_none())
                .ok_or(MetaError::Invalid { field: "headers" })?,
            (true, true) => Headers(vec![Header::new(CONTENT_TYPE, cursor.bytes("content type")?)]),
        },
        body: Vec::new(),
    };
    cursor.end()?;
    Ok(page)
}

fn kind(code: u8) -> Result<RecordKind, MetaError> {
    let at = usize::from(code).checked_sub(1);
    at.and_then(|at| RecordKind::ALL.get(at).copied()).ok_or(MetaError::Invalid { field: "kind" })
}

fn http_version(code: u8, has_text: bool, cursor: &mut Cursor<'_>) -> Result<Option<HttpVersion>, MetaError> {
    if has_text != (code == PROTOCOL_TEXT) {
        return Err(MetaError::Invalid { field: "protocol" });
    }
    Ok(match code {
        0 => None,
        PROTOCOL_TEXT => Some(HttpVersion::Other(cursor.text("protocol")?)),
        code => {
            let known = HttpVersion::KNOWN.get(usize::from(code) - 1).cloned();
            Some(known.ok_or(MetaError::Invalid { field: "protocol" })?)
        }
    })
}

fn address(flags: u16, cursor: &mut Cursor<'_>) -> Result<Option<IpAddr>, MetaError> {
    match (flags & flag::IPV4 != 0, flags & flag::IPV6 != 0) {
        (false, false) => Ok(None),
        (true, false) => Ok(Some(IpAddr::from(cursor.array::<4>("address")?))),
        (false, true) => Ok(Some(IpAddr::from(cursor.array::<16>("address")?))),
        (true, true) => Err(MetaError::Invalid { field: "address" }),
    }
}

/// Reads a text that is stored in its short form or as text.
fn compacted<const BYTES: usize>(
    (has_bytes, has_text): (bool, bool),
    text_of: fn(&[u8; BYTES]) -> String,
    field: &'static str,
    cursor: &mut Cursor<'_>,
) -> Result<Option<String>, MetaError> {
    match (has_bytes, has_text) {
        (false, false) => Ok(None),
        (true, false) => Ok(Some(text_of(&cursor.array(field)?))),
        (false, true) => Ok(Some(cursor.text(field)?)),
        (true, true) => Err(MetaError::Invalid { field }),
    }
}

fn revisit(cursor: &mut Cursor<'_>) -> Result<Revisit, MetaError> {
    let bits = cursor.byte("revisit")?;
    if bits & !revisit_bit::KNOWN != 0 {
        return Err(MetaError::Invalid { field: "revisit" });
    }
    let profile = match bits & revisit_bit::PROFILE {
        0 => RevisitProfile::IdenticalPayload,
        1 => RevisitProfile::ServerNotModified,
        2 => RevisitProfile::Other(cursor.text("revisit profile")?),
        _ => return Err(MetaError::Invalid { field: "revisit profile" }),
    };
    let has = |bit: u8| bits & bit != 0;
    Ok(Revisit {
        profile,
        refers_to_url: if has(revisit_bit::URL) { Some(cursor.bytes("revisit url")?.to_vec()) } else { None },
        refers_to_ms: if has(revisit_bit::TIME) { Some(cursor.number("revisit time")?) } else { None },
        refers_to_id: if has(revisit_bit::ID) { Some(cursor.text("revisit id")?) } else { None },
        original: None,
    })
}

fn in_place(cursor: &mut Cursor<'_>) -> Result<InPlace, MetaError> {
    Ok(InPlace {
        archive: ArchiveId(cursor.number("archive")?),
        offset: cursor.varint("offset in the archive")?,
        length: cursor.varint("length in the archive")?,
    })
}

fn headers(cursor: &mut Cursor<'_>) -> Result<Headers, MetaError> {
    let count = cursor.varint("headers")?;
    // A field takes at least two bytes: a wrong count must not allocate for more fields than fit.
    if count > cursor.remaining() as u64 / 2 {
        return Err(MetaError::Short { field: "headers" });
    }
    let mut headers = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let name = cursor.bytes("header name")?;
        let value = cursor.bytes("header value")?;
        headers.push(Header::new(name, value));
    }
    Ok(Headers(headers))
}
