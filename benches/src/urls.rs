//! URLs for the seen sets: a list of real URLs, scaled up to any number.
//!
//! A list of a few ten thousand URLs says nothing about ten million, and random texts say nothing
//! about URLs. New URLs are made from two or three of one host, cut between words about as far
//! along and joined. Hosts keep their shares, URLs their lengths and letters; texts grow alike as
//! they do in the list of one crawl (docs/SEEN.md).
//!
//! URL number i follows from the seed and i; the first ones are the list itself. Some come twice
//! (docs/SEEN.md says how many).

use std::collections::BTreeMap;
use std::path::Path;

use crate::random::Random;

/// Bytes after which a URL may be cut.
const MARKS: &[u8] = b"/-_.?=&+,;:";
/// `https://` is not cut.
const SCHEME_BYTES: usize = 8;

/// A list of URLs and what it takes to make more of it.
#[derive(Debug)]
pub struct UrlList {
    urls: Vec<Vec<u8>>,
    /// For each URL, the list of those of its host.
    group_of: Vec<u32>,
    groups: Vec<Vec<u32>>,
    seed: u64,
}

impl UrlList {
    /// Reads a list, a URL a line.
    ///
    /// # Errors
    /// Whatever the system says of the file.
    pub fn read(path: &Path, seed: u64) -> std::io::Result<UrlList> {
        let text = std::fs::read(path)?;
        let lines = text.split(|&byte| byte == b'\n').map(|line| line.trim_ascii().to_vec());
        Ok(UrlList::new(lines.filter(|line| !line.is_empty()).collect(), seed))
    }

    /// A list of these URLs.
    #[must_use]
    pub fn new(urls: Vec<Vec<u8>>, seed: u64) -> UrlList {
        let mut numbers: BTreeMap<&[u8], u32> = BTreeMap::new();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut group_of = Vec::with_capacity(urls.len());
        for (i, url) in urls.iter().enumerate() {
            let number = *numbers.entry(host(url)).or_insert(groups.len() as u32);
            if number as usize == groups.len() {
                groups.push(Vec::new());
            }
            groups[number as usize].push(i as u32);
            group_of.push(number);
        }
        UrlList { urls, group_of, groups, seed }
    }

    /// Number of URLs in the list itself.
    #[must_use]
    pub fn len(&self) -> usize {
        self.urls.len()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.urls.is_empty()
    }

    /// Writes URL number `number` to `out`.
    pub fn url(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        if let Some(url) = usize::try_from(number).ok().and_then(|i| self.urls.get(i)) {
            out.extend_from_slice(url);
            return;
        }
        let mut random = Random::of(self.seed, number);
        let first = random.below(self.urls.len() as u64) as usize;
        let group = &self.groups[self.group_of[first] as usize];
        out.extend_from_slice(&self.urls[first]);
        for _ in 0..1 + random.next() % 2 {
            let other = &self.urls[group[random.below(group.len() as u64) as usize] as usize];
            let place = random.unit();
            let cut = cut_near(out, place);
            out.truncate(cut);
            out.extend_from_slice(&other[cut_near(other, place)..]);
        }
    }
}

fn host(url: &[u8]) -> &[u8] {
    urlindex::host(url).unwrap_or_default()
}

/// The first place to cut from this part of the way on, from the host's end to the URL's.
fn cut_near(url: &[u8], place: f64) -> usize {
    let start = (SCHEME_BYTES + host(url).len()).min(url.len());
    let from = start + (place * (url.len() - start) as f64) as usize;
    let mark = url[from..].iter().position(|byte| MARKS.contains(byte));
    mark.map_or(url.len(), |at| from + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn list() -> UrlList {
        let urls =
            (0..500).map(|i| format!("http://h{}.example/dir{}/page-{i}-of-many.html", i % 7, i % 31).into_bytes());
        UrlList::new(urls.collect(), 1)
    }

    #[test]
    fn urls_follow_from_their_numbers_and_most_are_distinct() {
        let (list, again) = (list(), list());
        let (mut a, mut b, mut all) = (Vec::new(), Vec::new(), HashSet::new());
        for number in 0..5_000 {
            list.url(number, &mut a);
            again.url(number, &mut b);
            assert_eq!(a, b);
            assert!(a.starts_with(b"http://h") && urlindex::host(&a).is_some_and(|host| host.ends_with(b".example")));
            all.insert(a.clone());
        }
        assert!(all.len() > 5_000 / 2, "{}", all.len());
    }
}
