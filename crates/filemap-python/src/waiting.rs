//! The message about a page that waits to be put, in the format that `filemap/scrapy/waiting.py`
//! keeps and reads.

use filemap::Page;
use filemap::page::RecordKind;
use serde_json::{Value, json};

/// A message: lengths, the description as JSON, the body, and a checksum of all that. `None` for a
/// page that it cannot describe completely; it can describe all pages of Scrapy.
pub fn message(page: &Page, body: &[u8]) -> Option<Vec<u8>> {
    let has_more = page.kind != RecordKind::Response
        || !page.reason.is_empty()
        || page.truncated.is_some()
        || page.digest.is_some()
        || page.record_id.is_some();
    let (url, status) = (std::str::from_utf8(&page.url).ok()?, page.status?);
    if has_more {
        return None;
    }
    let headers = page.headers.iter().map(|field| json!([characters(&field.name), characters(&field.value)]));
    let head = json!({
        "url": url,
        "variant": page.variant.as_ref().map(|variant| characters(variant.as_bytes())),
        "time": page.fetched_at_ms,
        "status": status,
        "headers": headers.collect::<Value>(),
        "http_version": page.http_version.as_ref().map(|version| version.as_str()),
        "method": page.method,
        "ip": page.ip,
    });
    let head = serde_json::to_vec(&head).ok()?;
    let mut message = Vec::with_capacity(16 + head.len() + body.len());
    message.extend_from_slice(&((4 + head.len() + body.len()) as u64).to_be_bytes());
    message.extend_from_slice(&(head.len() as u32).to_be_bytes());
    message.extend_from_slice(&head);
    message.extend_from_slice(body);
    message.extend_from_slice(&crc32fast::hash(&message).to_be_bytes());
    Some(message)
}

/// Bytes in a form that JSON can hold: one character each.
fn characters(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}
