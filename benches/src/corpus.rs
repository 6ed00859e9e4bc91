//! The real corpus: seven documentation sites, unpacked by `corpus.sh`, in the order of a crawl.
//!
//! Invariants:
//! - every page is in memory, so that a run measures the store and not the reading of its input;
//! - sites are interleaved in proportion to their sizes and shuffled (seeded): neighbours in the
//!   log are of different hosts, as with a polite crawler;
//! - the same directory gives the same sequence every time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::generate::{self, Page};
use crate::random::Random;

/// A package, the folder in it that is the site's root, and the URL of that root.
const SITES: [(&str, &str, &str); 7] = [
    ("rust-doc", "usr/share/doc/rust-doc/html", "https://doc.rust-lang.org/stable"),
    ("libstdc++-12-doc", "usr/share/doc/gcc-12-base/libstdc++", "https://gcc.gnu.org/onlinedocs/libstdc++"),
    ("postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html", "https://www.postgresql.org/docs/15"),
    ("qtbase5-doc-html", "usr/share/qt5/doc", "https://doc.qt.io/qt-5"),
    ("libboost1.81-doc", "usr/share/doc/libboost1.81-doc/doc", "https://www.boost.org/doc/libs/1_81_0"),
    ("python3.11-doc", "usr/share/doc/python3.11/html", "https://docs.python.org/3.11"),
    ("openjdk-17-doc", "usr/share/doc/openjdk-17-jre-headless", "https://docs.oracle.com/en/java/javase/17/docs"),
];

/// Every page of the corpus, bodies end to end in one buffer.
#[derive(Debug)]
pub struct Corpus {
    pages: Vec<(String, std::ops::Range<usize>)>,
    bodies: Vec<u8>,
}

impl Corpus {
    /// Reads the packages under `dir` into memory.
    ///
    /// # Errors
    /// If a package is not there or a page cannot be read.
    pub fn load(dir: &Path) -> io::Result<Corpus> {
        let mut corpus = Corpus { pages: Vec::new(), bodies: Vec::new() };
        for (path, url) in crawl_order(dir)? {
            let start = corpus.bodies.len();
            io::copy(&mut fs::File::open(path)?, &mut corpus.bodies)?;
            corpus.pages.push((url, start..corpus.bodies.len()));
        }
        corpus.bodies.shrink_to_fit();
        Ok(corpus)
    }

    /// Number of pages.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Returns whether there is no page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Bytes of all bodies.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bodies.len() as u64
    }

    /// Page `number`'s body. Numbers beyond the last page start over: see [`Corpus::url`].
    #[must_use]
    pub fn body(&self, number: u64) -> &[u8] {
        &self.bodies[self.pages[(number % self.len()) as usize].1.clone()]
    }

    /// Page `number`'s URL, over whatever `out` held. From the second round on a query tells the
    /// rounds apart, so that a run can be longer than the corpus.
    pub fn url(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.pages[(number % self.len()) as usize].0.as_bytes());
        if number >= self.len() {
            out.extend_from_slice(format!("?round={}", number / self.len()).as_bytes());
        }
    }

    /// Writes page `number` over whatever `page` held.
    pub fn page(&self, number: u64, page: &mut Page) {
        self.url(number, &mut page.url);
        page.body.clear();
        page.body.extend_from_slice(self.body(number));
        page.time_ms = generate::time_ms(number);
    }
}

/// Every page's path and URL, sites interleaved: page i of a site of n stands at (i + 1/2) / n of
/// the whole.
fn crawl_order(dir: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut placed = Vec::new();
    for (site, (package, root, prefix)) in SITES.into_iter().enumerate() {
        let root = dir.join(package).join(root);
        let mut paths = Vec::new();
        html_files(&root, &mut paths).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error} (run benches/corpus.sh)", root.display()))
        })?;
        paths.sort();
        Random::of(17, site as u64).shuffle(&mut paths);
        let count = paths.len();
        for (i, path) in paths.into_iter().enumerate() {
            let below = path.strip_prefix(&root).expect("found under it").to_string_lossy().into_owned();
            placed.push(((2 * i + 1) as f64 / (2 * count) as f64, site, path, format!("{prefix}/{below}")));
        }
    }
    placed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    Ok(placed.into_iter().map(|(_, _, path, url)| (path, url)).collect())
}

/// Regular files only: packages link to each other's pages.
fn html_files(dir: &Path, out: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            html_files(&entry.path(), out)?;
        } else if kind.is_file() && entry.path().extension().is_some_and(|extension| extension == "html") {
            out.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small_corpus() -> PathBuf {
        let dir = std::env::temp_dir().join(format!("filemap-corpus-{}", std::process::id()));
        for (site, (package, root, _)) in SITES.into_iter().enumerate() {
            let root = dir.join(package).join(root).join("a");
            fs::create_dir_all(&root).unwrap();
            for page in 0..=site * 3 {
                fs::write(root.join(format!("{page}.html")), format!("{package} {page}")).unwrap();
            }
            fs::write(root.join("style.css"), "not a page").unwrap();
        }
        dir
    }

    #[test]
    fn sites_take_turns_and_every_page_has_its_own_url() {
        let dir = small_corpus();
        let corpus = Corpus::load(&dir).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        let mut url = Vec::new();
        let mut urls = std::collections::HashSet::new();
        for number in 0..2 * corpus.len() {
            corpus.url(number, &mut url);
            assert!(urls.insert(url.clone()), "{} twice", String::from_utf8_lossy(&url));
        }
        assert_eq!(corpus.len(), (0..7).map(|site| site * 3 + 1).sum::<u64>());
        // The largest site is 19 of 70 pages: in any ten in a row there are two or three of it.
        for start in 0..corpus.len() - 10 {
            let of_site = (start..start + 10).filter(|n| corpus.body(*n).starts_with(b"openjdk")).count();
            assert!((2..=4).contains(&of_site), "{of_site} in a row of ten at {start}");
        }
    }

    #[test]
    fn a_missing_corpus_says_how_to_get_it() {
        let error = Corpus::load(Path::new("/nonexistent")).unwrap_err();
        assert!(error.to_string().contains("corpus.sh"), "{error}");
    }
}
