//! The list of pages of a WACZ file (`pages.jsonl`), which a player shows first.
//!
//! One line for each capture of an HTML page with status 200, fetched over HTTP by a plain `GET`,
//! in the order of the dump. `url` is that of the WARC record, `ts` its date, `id` is made from
//! both.

use serde::Serialize;

use super::target::{OutputFile, Target};
use crate::date;
use crate::error::Result;
use crate::page::digest::sha1_of;
use crate::page::{Page, meta};
use crate::spool::{PayloadWriter, Spool};
use crate::warc::write::target_uri;

/// The first line.
const HEAD: &[u8] = b"{\"format\":\"json-pages-1.0\",\"id\":\"pages\",\"title\":\"All Pages\"}\n";

/// Collects the lines of a list of pages.
pub(super) struct PageList {
    name: String,
    lines: PayloadWriter,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    url: &'a str,
    ts: String,
}

impl PageList {
    /// A list for the file of this name.
    pub(super) fn new(name: String, spool: &Spool) -> PageList {
        PageList { name, lines: spool.writer(u64::MAX) }
    }

    /// Adds a version, if it belongs in the list.
    pub(super) fn add(&mut self, page: &Page, canonical_url: &[u8]) -> Result<()> {
        let mime = page.headers.mime();
        let is_html = matches!(mime.as_deref(), Some("text/html" | "application/xhtml+xml"));
        let url = target_uri(&page.url, canonical_url);
        let is_web = url.starts_with("http:") || url.starts_with("https:");
        if !page.kind.is_page() || page.variant.is_some() || page.status != Some(200) || !is_html || !is_web {
            return Ok(());
        }
        let ts = date::format(date::nearest_with_four_digit_year(page.fetched_at_ms));
        let id = meta::sha1_text(&sha1_of(&[url.as_bytes(), b" ", ts.as_bytes()]));
        let id = id.split(':').next_back().unwrap_or_default();
        let mut line = Vec::with_capacity(256);
        serde_json::to_writer(&mut line, &Line { id, url: &url, ts }).map_err(|e| crate::Error::Write(e.into()))?;
        line.push(b'\n');
        self.lines.push(&line)
    }

    /// Writes the list. Returns the file's name, and the file to close.
    pub(super) fn write(self, target: &mut dyn Target) -> Result<(String, Box<dyn OutputFile>)> {
        let failed = crate::Error::Write;
        let mut out = target.create(&self.name).map_err(failed)?;
        out.write_all(HEAD).map_err(failed)?;
        self.lines.finish().chunks(|bytes| out.write_all(bytes).map_err(failed))?;
        Ok((self.name, out))
    }
}
