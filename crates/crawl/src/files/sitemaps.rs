//! The set of sitemaps named by robots.txt files and sitemap indexes.
//!
//! Named sitemaps are fetched whatever the scope, may be longer than pages, and may be plain text.
//! A file in the crawl's folder has a line for each: its distance from a robots.txt, and its URL.
//! The line is durable before the frontier knows the URL.
//!
//! Memory holds a bounded number of hashes. Sitemaps beyond the bound are ordinary pages.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use filemap_io::{Access, Dir, File};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;

/// The maximum number of known sitemaps.
const SITEMAPS_MAX: usize = 1 << 18;
/// The level of sitemaps named by a robots.txt.
pub const OF_ROBOTS: u8 = 1;
/// The last level: below it an index may name only sitemaps in scope, so chains end.
pub const LEVELS: u8 = 3;

/// The named sitemaps. Lookups do not wait for the file.
///
/// ```
/// use crawl::files::sitemaps::{OF_ROBOTS, Sitemaps};
/// # let place = tempfile::tempdir()?;
/// let sitemaps = Sitemaps::open(&filemap_io::OsDir::open(place.path())?)?;
/// sitemaps.name(["http://example.com/map.xml"].into_iter(), OF_ROBOTS)?;
/// assert_eq!(sitemaps.level("http://example.com/map.xml"), Some(OF_ROBOTS));
/// assert_eq!(sitemaps.level("http://example.com/"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sitemaps {
    levels: Mutex<HashMap<u64, u8>>,
    file: Mutex<Lines>,
    path: PathBuf,
}

/// The file and its append position.
struct Lines {
    file: Arc<dyn File>,
    end: u64,
}

impl Sitemaps {
    /// Opens or creates the file. Removes a torn last line, which a crash left.
    ///
    /// # Errors
    /// I/O errors, and damage.
    pub fn open(dir: &dyn Dir) -> Result<Sitemaps, Error> {
        let path = dir.path().join(super::SITEMAPS);
        let failed = |error| Error::io("open", &path, error);
        let file = match dir.open(super::SITEMAPS, Access::Write) {
            Err(error) if error.kind() == ErrorKind::NotFound => dir.open(super::SITEMAPS, Access::Create),
            opened => opened,
        };
        let file = file.map_err(failed)?;
        let mut text = vec![0; usize::try_from(file.len().map_err(failed)?).unwrap_or(usize::MAX)];
        let read = file.read_at(&mut text, 0).map_err(failed)?;
        text.truncate(read);
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(failed)?;
        }
        let mut levels = HashMap::new();
        for line in text[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match line {
                [level @ b'1'..=b'9', b' ', url @ ..] if levels.len() < SITEMAPS_MAX => {
                    let level = level - b'0';
                    levels
                        .entry(xxh3_64(url))
                        .and_modify(|lowest: &mut u8| *lowest = level.min(*lowest))
                        .or_insert(level);
                }
                [b'1'..=b'9', b' ', ..] => {}
                _ => {
                    let words = "a line is not a sitemap. Remove the file: sitemaps of robots.txt are entered again";
                    return Err(Error::Damage(format!("{}: {words}", path.display())));
                }
            }
        }
        let lines = Lines { file, end: whole as u64 };
        Ok(Sitemaps { levels: Mutex::new(levels), file: Mutex::new(lines), path })
    }

    fn levels(&self) -> MutexGuard<'_, HashMap<u64, u8>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The distance of a sitemap from the robots.txt that names it; `None` if unnamed.
    pub fn level(&self, url: &str) -> Option<u8> {
        self.levels().get(&xxh3_64(url.as_bytes())).copied()
    }

    /// Adds sitemaps durably. Returns the number beyond the limit.
    ///
    /// # Errors
    /// I/O errors.
    pub fn name<'a>(&self, urls: impl Iterator<Item = &'a str>, level: u8) -> Result<u64, Error> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut lines, mut new, mut refused) = (String::new(), Vec::new(), 0);
        {
            let levels = self.levels();
            for url in urls {
                let hash = xxh3_64(url.as_bytes());
                match levels.get(&hash) {
                    Some(before) if *before <= level => {}
                    None if levels.len() + new.len() >= SITEMAPS_MAX => refused += 1,
                    _ => {
                        lines += &format!("{level} {url}\n");
                        new.push(hash);
                    }
                }
            }
        }
        if !new.is_empty() {
            let written = file.file.write_at(lines.as_bytes(), file.end).and_then(|()| file.file.sync());
            written.map_err(|error| Error::io("write", &self.path, error))?;
            file.end += lines.len() as u64;
            self.levels().extend(new.into_iter().map(|hash| (hash, level)));
        }
        Ok(refused)
    }
}

#[cfg(test)]
mod tests {
    use filemap_io::OsDir;

    use super::*;

    #[test]
    fn what_was_named_is_known_after_a_restart_and_half_a_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (path, dir) = (folder.path().join("sitemaps"), OsDir::open(folder.path()).unwrap());
        let sitemaps = Sitemaps::open(&dir).unwrap();
        assert_eq!(sitemaps.name(["http://a/1", "http://a/2"].into_iter(), 2).unwrap(), 0);
        assert_eq!(sitemaps.name(["http://a/1", "http://a/2"].into_iter(), 3).unwrap(), 0);
        assert_eq!(sitemaps.name(["http://a/2"].into_iter(), 1).unwrap(), 0);
        drop(sitemaps);
        let mut text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "2 http://a/1\n2 http://a/2\n1 http://a/2\n");
        text += "1 http://a/3";
        std::fs::write(&path, text).unwrap();
        let sitemaps = Sitemaps::open(&dir).unwrap();
        let level = |url| sitemaps.level(url);
        let levels = ["http://a/1", "http://a/2", "http://a/3"].map(level);
        assert_eq!(levels, [Some(2), Some(1), None]);
        sitemaps.name(["http://a/4"].into_iter(), OF_ROBOTS).unwrap();
        assert_eq!(Sitemaps::open(&dir).unwrap().level("http://a/4"), Some(1));
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(matches!(Sitemaps::open(&dir), Err(Error::Damage(_))));
    }
}
