//! URLs that a verb takes: as arguments, or one a line from a file or standard input.
//!
//! A list is read as it is used, so it may have any length and come from a pipe. A URL is bytes,
//! which need not be text; the store's canonicaliser decides.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use fm_cli::{Failure, Outcome, interrupt};

use crate::input::Input;

/// No store takes a longer URL, in bytes.
const LINE_BYTES: u64 = 1 << 20;

/// A URL as it was given.
#[derive(Clone, Debug)]
pub struct Address(OsString);

impl Address {
    /// A URL from elsewhere than the command line.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(OsString::from_vec(bytes))
    }

    /// Its bytes, as given.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_encoded_bytes()
    }
}

impl AsRef<[u8]> for Address {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl From<OsString> for Address {
    fn from(given: OsString) -> Self {
        Self(given)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string_lossy())
    }
}

/// Arguments that name URLs.
#[derive(clap::Args)]
pub struct UrlArgs {
    /// The pages' URLs
    #[arg(value_name = "URL", required_unless_present = "from")]
    urls: Vec<Address>,
    /// Read more URLs from this file, one a line; - is standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// URLs in the file end with zero bytes instead of line ends, as from ls -0
    #[arg(short = '0', requires = "from")]
    zero: bool,
}

impl UrlArgs {
    /// Returns whether there is exactly one URL, as an argument.
    fn is_one(&self) -> bool {
        self.urls.len() == 1 && self.from.is_none()
    }

    /// Returns whether the list is standard input.
    pub fn reads_stdin(&self) -> bool {
        self.from.as_deref() == Some(Path::new("-"))
    }

    /// Returns whether no URL was given.
    pub fn is_none(&self) -> bool {
        self.urls.is_empty() && self.from.is_none()
    }

    /// Opens the file; arguments come first.
    pub fn open(&self) -> Result<Urls, Failure> {
        let list = self.from.as_deref().map(open).transpose()?;
        let mut arguments = self.urls.clone();
        arguments.reverse();
        Ok(Urls { arguments, list, end: if self.zero { 0 } else { b'\n' }, is_one: self.is_one() })
    }
}

fn open(path: &Path) -> Result<List, Failure> {
    let fail = |error| Failure::io("open", path, &error);
    let input = if path == Path::new("-") {
        Input::stdin().map_err(fail)?
    } else if path.is_dir() {
        return Err(Failure::Usage(format!("{} is a folder; name a file of URLs", path.display())));
    } else {
        Input::file(File::open(path).map_err(fail)?)
    };
    Ok(List { input: BufReader::with_capacity(64 << 10, input), path: path.to_owned() })
}

struct List {
    input: BufReader<Input>,
    path: PathBuf,
}

/// The URLs, in order.
pub struct Urls {
    /// Last first, so that `pop` returns them in order.
    arguments: Vec<Address>,
    list: Option<List>,
    end: u8,
    is_one: bool,
}

impl Urls {
    /// Looks up every URL and passes on what was found. A failed look-up is printed if there are
    /// several URLs, and returned if there is one. A failure to pass on is returned, because the
    /// output may be cut short. `None` if interrupted.
    pub fn each<T>(
        self,
        mut find: impl FnMut(&Address) -> Result<T, Failure>,
        mut take: impl FnMut(&Address, T) -> Result<Outcome, Failure>,
    ) -> Result<Option<Outcome>, Failure> {
        let (is_one, has_list, mut outcome) = (self.is_one, self.list.is_some(), Outcome::Done);
        for url in self {
            let url = url?;
            if interrupt::asked() {
                return Ok(None);
            }
            outcome = outcome.and(match find(&url) {
                Err(failure) if !is_one => Outcome::of_one(failure)?,
                found => take(&url, found?)?,
            });
        }
        // An interrupted list ends early.
        Ok(Some(outcome).filter(|_| !(has_list && interrupt::asked())))
    }
}

impl Iterator for Urls {
    type Item = Result<Address, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(url) = self.arguments.pop() {
            return Some(Ok(url));
        }
        let list = self.list.as_mut()?;
        loop {
            let mut line = Vec::new();
            match list.input.by_ref().take(LINE_BYTES).read_until(self.end, &mut line) {
                Ok(0) => return None,
                Ok(length) if length as u64 == LINE_BYTES => {
                    let what =
                        format!("{} has a line of over {LINE_BYTES} bytes; give one URL a line", list.path.display());
                    self.list = None;
                    return Some(Err(Failure::Io(what)));
                }
                Ok(_) => {}
                Err(error) => {
                    let failure = Failure::io("read", &list.path, &error);
                    self.list = None;
                    return Some(Err(failure));
                }
            }
            line.pop_if(|byte| *byte == self.end);
            if self.end == b'\n' {
                line.pop_if(|byte| *byte == b'\r');
            }
            if !line.is_empty() {
                return Some(Ok(Address::from_bytes(line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(text: &[u8], zero: bool) -> Vec<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("urls");
        std::fs::write(&path, text).unwrap();
        let first = Address::from(std::ffi::OsString::from("first"));
        let args = UrlArgs { urls: vec![first], from: Some(path), zero };
        args.open().unwrap().map(|url| url.unwrap().bytes().to_vec()).collect()
    }

    #[test]
    fn arguments_come_first_and_then_every_line_that_is_not_empty() {
        assert_eq!(urls(b"a\r\n\n\xff b\nlast", false), [&b"first"[..], b"a", b"\xff b", b"last"]);
        assert_eq!(urls(b"a\nb\0c\r\0", true), [&b"first"[..], b"a\nb", b"c\r"]);
        assert_eq!(urls(b"", false), [b"first"]);
    }

    #[test]
    fn a_line_without_end_is_an_error_and_the_last_item() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("urls");
        std::fs::write(&path, vec![b'x'; 3 << 20]).unwrap();
        let args = UrlArgs { urls: Vec::new(), from: Some(path), zero: false };
        let mut urls = args.open().unwrap();
        assert!(urls.next().unwrap().is_err());
        assert!(urls.next().is_none());
    }
}
