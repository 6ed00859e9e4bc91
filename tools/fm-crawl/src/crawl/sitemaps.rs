//! The sitemaps that robots.txt files and sitemap indexes name.
//!
//! They are fetched whatever the scope, may be longer than pages, and may be plain texts. A file
//! in the crawl's folder keeps them, a line each: how far the sitemap is from a robots.txt, and
//! its URL. It is durable before the frontier knows the URL.
//!
//! In memory they are hashes, and their number is bounded. What is beyond it is a page like any.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fm_cli::Failure;
use xxhash_rust::xxh3::xxh3_64;

/// Most sitemaps that are known as such.
const SITEMAPS_MAX: usize = 1 << 18;
/// The level of those that a robots.txt names, and the last one: an index below it may name none
/// out of scope. So a chain of indexes ends.
pub const OF_ROBOTS: u8 = 1;
pub const LEVELS: u8 = 3;

/// Sitemaps that were named. A question does not wait for the file.
pub struct Sitemaps {
    levels: Mutex<HashMap<u64, u8>>,
    file: Mutex<File>,
    path: PathBuf,
}

impl Sitemaps {
    /// Opens or creates the file. Half a line at its end, which a crash left, is removed.
    ///
    /// # Errors
    /// The system's, and damage.
    pub fn open(path: &Path) -> Result<Sitemaps, Failure> {
        let failed = |error| Failure::io("open", path, &error);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(failed)?;
        }
        file.seek(SeekFrom::Start(whole as u64)).map_err(failed)?;
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
                    let words = "a line is no sitemap. Remove the file: sitemaps of robots.txt are entered again";
                    return Err(Failure::Damage(format!("{}: {words}", path.display())));
                }
            }
        }
        Ok(Sitemaps { levels: Mutex::new(levels), file: Mutex::new(file), path: path.to_owned() })
    }

    fn levels(&self) -> MutexGuard<'_, HashMap<u64, u8>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far a sitemap is from a robots.txt that names it; `None` if it was not named.
    pub fn level(&self, url: &str) -> Option<u8> {
        self.levels().get(&xxh3_64(url.as_bytes())).copied()
    }

    /// Enters sitemaps durably. Returns how many are beyond the limit.
    ///
    /// # Errors
    /// The system's.
    pub fn name<'a>(&self, urls: impl Iterator<Item = &'a str>, level: u8) -> Result<u64, Failure> {
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
            let written = file.write_all(lines.as_bytes()).and_then(|()| file.sync_data());
            written.map_err(|error| Failure::io("write", &self.path, &error))?;
            self.levels().extend(new.into_iter().map(|hash| (hash, level)));
        }
        Ok(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_is_known_after_a_restart_and_half_a_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sitemaps");
        let sitemaps = Sitemaps::open(&path).unwrap();
        assert_eq!(sitemaps.name(["http://a/1", "http://a/2"].into_iter(), 2).unwrap(), 0);
        assert_eq!(sitemaps.name(["http://a/1", "http://a/2"].into_iter(), 3).unwrap(), 0);
        assert_eq!(sitemaps.name(["http://a/2"].into_iter(), 1).unwrap(), 0);
        drop(sitemaps);
        let mut text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "2 http://a/1\n2 http://a/2\n1 http://a/2\n");
        text += "1 http://a/3";
        std::fs::write(&path, text).unwrap();
        let sitemaps = Sitemaps::open(&path).unwrap();
        let level = |url| sitemaps.level(url);
        let levels = ["http://a/1", "http://a/2", "http://a/3"].map(level);
        assert_eq!(levels, [Some(2), Some(1), None]);
        sitemaps.name(["http://a/4"].into_iter(), OF_ROBOTS).unwrap();
        assert_eq!(Sitemaps::open(&path).unwrap().level("http://a/4"), Some(1));
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(matches!(Sitemaps::open(&path), Err(Failure::Damage(_))));
    }
}
