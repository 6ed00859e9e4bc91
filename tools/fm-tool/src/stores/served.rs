//! All versions of a store behind a server, as it lists them to whoever follows it.

use std::io::Read;
use std::time::Duration;

use filemap::access::keys;
use filemap::replica::Told;
use filemap::store::{BodyForm, StoredVersion};
use filemap::{Error, Page, Result, Version};
use filemap_http::{Client, Line, Lines, Said};
use urlindex::Canonicalizer;

/// See the module. What is put there meanwhile may be among them or not.
pub struct Served<'a> {
    client: &'a Client,
    canonicalizer: &'a dyn Canonicalizer,
    location: &'a str,
    lines: Lines,
    is_over: bool,
}

impl<'a> Served<'a> {
    /// Asks a server, at a location that errors name, for its list.
    pub fn new(client: &'a Client, canonicalizer: &'a dyn Canonicalizer, location: &'a str) -> Result<Served<'a>> {
        let lines = client.changes(None, Duration::ZERO)?;
        Ok(Served { client, canonicalizer, location, lines, is_over: false })
    }

    fn failed(&self, detail: String, is_damage: bool) -> Error {
        Error::Remote { location: self.location.to_owned(), detail, is_damage, is_of_one_page: false }
    }

    /// What a line says; `None` for what is no version.
    fn said(&mut self, said: Said) -> Option<Result<StoredVersion>> {
        match said {
            Said::Told(Told::Put { page, form, version, elsewhere }) => {
                self.put(*page, form, version, elsewhere.is_some()).transpose()
            }
            Said::Told(Told::Listed { is_whole }) => {
                self.is_over = true;
                let words = "files of the store are absent there: what they held is not in the list";
                (!is_whole).then(|| Err(self.failed(words.to_owned(), true)))
            }
            // Rules do not come along; removals are told of after the list.
            Said::Told(_) => None,
            Said::Damage(_, why) => Some(Err(self.failed(why, true))),
            Said::Outrun(why) => {
                self.is_over = true;
                Some(Err(self.failed(why, false)))
            }
            Said::End => {
                self.is_over = true;
                None
            }
            _ => Some(Err(self.failed("the server lists what this build does not know".to_owned(), false))),
        }
    }

    /// A version; `None` if it is gone by now.
    fn put(&self, mut page: Page, form: BodyForm, version: Version, is_long: bool) -> Result<Option<StoredVersion>> {
        if is_long {
            let Some(mut body) = self.client.body_of(&page, version)? else { return Ok(None) };
            let read = body.read_to_end(&mut page.body);
            read.map_err(|error| self.failed(format!("a body breaks off: {error}"), false))?;
        }
        let canonical = self.canonicalizer.canonicalize(&page.url);
        let canonical = canonical.map_err(|source| {
            let url = String::from_utf8_lossy(&page.url).into_owned();
            Error::Url { url, source }
        })?;
        let key = keys::key(&canonical, page.kind, page.variant.as_ref());
        let bytes = page.body.len() as u64;
        let stored = StoredVersion::new(key, page, version, bytes);
        // Which version it refers to is not told.
        let since = (form == BodyForm::Reference).then_some(0);
        Ok(Some(stored.unchanged_since(since)))
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
