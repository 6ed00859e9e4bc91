//! One capture as views show it: the start of its body, as text, and in a frame.

use std::io::Read;

use filemap::page::encoding;
use filemap::{Page, Version};
use maud::{Markup, html};

use super::super::lookup::Asked;
use super::super::refusal::Refusal;
use super::super::shown::Shown;
use super::layout::text;
use crate::wire;

/// Maximum number of bytes of a body that are shown.
pub(super) const SHOWN: u64 = 256 << 10;

/// A capture with the start of its body.
pub(super) struct Capture {
    pub(super) page: Page,
    pub(super) version: Version,
    /// Length of the whole body.
    pub(super) bytes: u64,
    pub(super) digest: [u8; 16],
}

impl Capture {
    /// The capture of a page with this version, or the newest.
    ///
    /// # Errors
    ///
    /// 451 if it is blocked; those of the store.
    pub(super) fn read(shown: &Shown, asked: &Asked, version: Option<Version>) -> Result<Option<Capture>, Refusal> {
        let found = shown.open(asked.lookup(), version)?.or_refused()?;
        let Some((mut page, mut reader)) = found else { return Ok(None) };
        let (version, bytes, digest) = (reader.version(), reader.remaining(), reader.digest());
        let read = (&mut reader).take(SHOWN).read_to_end(&mut page.body);
        read.map_err(|source| filemap::Error::Read { what: text(&page.url), offset: 0, source })?;
        Ok(Some(Capture { page, version, bytes, digest }))
    }

    pub(super) fn mime(&self) -> String {
        self.page.headers.mime().unwrap_or_default()
    }

    /// The start of the body, decoded from its character set, if it is text.
    pub(super) fn text(&self) -> Option<String> {
        let is_text = !self.page.body.iter().take(4096).any(|byte| *byte == 0);
        let decoded = || encoding::decode(&self.page.body, self.page.headers.get("content-type")).0.into_owned();
        is_text.then(decoded)
    }

    /// Number of bytes of the body that are not shown.
    pub(super) fn left_out(&self) -> u64 {
        self.bytes.saturating_sub(SHOWN)
    }

    /// The query for the capture; `of_page` is the query for its page.
    pub(super) fn query(&self, of_page: &str) -> String {
        format!("{of_page}&version={}", wire::version(self.version))
    }

    /// The page in a frame that runs and fetches nothing, if a browser would render it.
    pub(super) fn frame(&self, of_page: &str, title: &str) -> Option<Markup> {
        let mime = self.mime();
        let is_shown = matches!(mime.as_str(), "text/html" | "application/xhtml+xml" | "text/plain")
            || (mime.starts_with("image/") && mime != "image/svg+xml");
        is_shown.then(|| {
            html! { iframe sandbox="" referrerpolicy="no-referrer" title=(title) src={ "/rendered?" (self.query(of_page)) } {} }
        })
    }
}
