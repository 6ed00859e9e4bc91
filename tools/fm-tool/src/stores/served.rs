//! All versions of a store behind a server, in the list that its followers get.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use filemap::access::keys;
use filemap::replica::Told;
use filemap::store::{BodyForm, StoredVersion};
use filemap::{Error, Page, Result, Version};
use filemap_http::{Client, Line, Lines, Said};
use urlindex::Canonicalizer;

/// The versions of a served store. Versions put during the listing may or may not be among them.
pub struct Served<'a> {
    client: &'a Client,
    canonicalizer: &'a dyn Canonicalizer,
    location: &'a str,
    lines: Lines,
    is_over: bool,
}

impl<'a> Served<'a> {
    /// Requests the server's list; errors name `location`.
    pub fn new(client: &'a Client, canonicalizer: &'a dyn Canonicalizer, location: &'a str) -> Result<Served<'a>> {
        let lines = client.changes(None, Duration::ZERO)?;
        Ok(Served { client, canonicalizer, location, lines, is_over: false })
    }

    fn failed(&self, detail: String) -> Error {
        Error::Remote { location: self.location.to_owned(), detail, is_damage: false, is_of_one_page: false }
    }

    /// Damage of one page; the list continues after it.
    fn damaged(&self, detail: String) -> Error {
        Error::Remote { location: self.location.to_owned(), detail, is_damage: true, is_of_one_page: true }
    }

    /// The version in a line of the list; `None` if the line has none.
    fn said(&mut self, said: Said) -> Option<Result<StoredVersion>> {
        match said {
            Said::Told(Told::Put { page, form, version, elsewhere }) => {
                self.put(*page, form, version, elsewhere.map(|(bytes, _)| bytes)).transpose()
            }
            Said::Told(Told::Listed { is_whole }) => {
                self.is_over = true;
                let words = "files of the store are missing there: what they held is not in the list";
                (!is_whole).then(|| Err(self.damaged(words.to_owned())))
            }
            // Rules are not copied; removals come after the list.
            Said::Told(_) => None,
            Said::Damage(of, why) => {
                let of = of.map(|of| format!("{}: ", String::from_utf8_lossy(&of.url))).unwrap_or_default();
                Some(Err(self.damaged(format!("{of}{why}"))))
            }
            Said::Outrun(why) => {
                self.is_over = true;
                Some(Err(self.failed(why)))
            }
            Said::End => {
                self.is_over = true;
                None
            }
            _ => Some(Err(self.failed("the server's list has a line that this program does not know".to_owned()))),
        }
    }

    /// A version. `fetched` is the length of a body that is not in the list and is requested now.
    /// `None` if the version was removed meanwhile.
    fn put(
        &self,
        mut page: Page,
        form: BodyForm,
        version: Version,
        fetched: Option<u64>,
    ) -> Result<Option<StoredVersion>> {
        if let Some(bytes) = fetched {
            let unreadable = |url: &[u8], source| {
                let (url, source) = (String::from_utf8_lossy(url).into_owned(), Arc::new(source));
                Error::Unreadable { url, version, source }
            };
            let mut body = match self.client.body_of(&page, version) {
                Ok(Some(body)) => body,
                Ok(None) => return Ok(None),
                Err(error) if error.is_damage() => return Err(unreadable(&page.url, error)),
                Err(error) => return Err(error),
            };
            // If the connection broke too, the next line ends the copy.
            page.body = whole(&mut *body, bytes).map_err(|why| unreadable(&page.url, self.damaged(why)))?;
        }
        let canonical = self.canonicalizer.canonicalize(&page.url);
        let canonical = canonical.map_err(|source| {
            let url = String::from_utf8_lossy(&page.url).into_owned();
            Error::Url { url, source }
        })?;
        let key = keys::key(&canonical, page.kind, page.variant.as_ref());
        let bytes = page.body.len() as u64;
        let stored = StoredVersion::new(key, page, version, bytes);
        // The list does not say which version it refers to.
        let since = (form == BodyForm::Reference).then_some(0);
        Ok(Some(stored.unchanged_since(since)))
    }
}

/// Reads a body of `bytes` bytes.
fn whole(body: &mut dyn Read, bytes: u64) -> std::result::Result<Vec<u8>, String> {
    let mut read = Vec::new();
    body.read_to_end(&mut read).map_err(|error| format!("its body breaks off: {error}"))?;
    match read.len() as u64 == bytes {
        true => Ok(read),
        false => Err(format!("its body has {} bytes, and {bytes} were announced", read.len())),
    }
}

impl Iterator for Served<'_> {
    type Item = Result<StoredVersion>;

    fn next(&mut self) -> Option<Result<StoredVersion>> {
        while !self.is_over {
            match self.lines.next()? {
                Ok(Line { said, .. }) => {
                    if let Some(version) = self.said(said) {
                        return Some(version);
                    }
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_body_that_breaks_off_or_is_short_is_none() {
        struct Breaks;
        impl Read for Breaks {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
        assert_eq!(whole(&mut &b"body"[..], 4), Ok(b"body".to_vec()));
        assert!(whole(&mut &b"bod"[..], 4).is_err_and(|why| why.contains("3 bytes")));
        assert!(whole(&mut (&b"bo"[..]).chain(Breaks), 4).is_err_and(|why| why.contains("breaks off")));
    }
}
