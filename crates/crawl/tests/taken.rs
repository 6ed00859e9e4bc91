//! A crawl whose pages are in a shard of a remote store, and another owner that takes the shard:
//! the run says so, whatever it was doing when it found out.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crawl::files::depot::Depot;
use crawl::settings::bucket::BucketSettings;
use crawl::shard::{Body, Shard};
use crawl::{Crawler, Error};
use filemap::access::kept::KeptFile;
use filemap::canonical::Canonicalizer;
use filemap::page::RecordKind;
use filemap::{Lookup, Options, Page, PageStore, PageWrite, Result};
use tempfile::TempDir;

use crate::site::Site;

/// A shard that another owner takes right after a commit.
struct Fake {
    pages: PageStore,
    kept: Mutex<BTreeMap<String, Vec<u8>>>,
    commits: AtomicU32,
    /// The commit after which it is taken.
    taken_after: u32,
    /// Whether later commits fail, or reads.
    commits_fail: bool,
    is_taken: AtomicBool,
    is_known: AtomicBool,
}

impl Fake {
    fn new(folder: &TempDir, taken_after: u32, commits_fail: bool) -> Arc<Fake> {
        let pages = PageStore::create(folder.path().join("pages.fm"), Options::new()).unwrap();
        let (kept, commits) = (Mutex::default(), AtomicU32::new(0));
        let (is_taken, is_known) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Fake { pages, kept, commits, taken_after, commits_fail, is_taken, is_known })
    }

    /// The error of a request, if the shard is taken: it does not say why.
    fn request(&self) -> Result<()> {
        let (location, detail) = ("s3://bucket/pages".to_owned(), "the request failed".to_owned());
        match self.is_taken.load(Ordering::Relaxed) {
            true => Err(filemap::Error::Remote { location, detail, is_damage: false, is_of_one_page: false }),
            false => Ok(()),
        }
    }
}

impl Shard for Fake {
    fn name(&self) -> String {
        "shard 3 of s3://bucket/pages".to_owned()
    }

    fn pages(&self) -> &dyn PageWrite {
        &self.pages
    }

    fn canonicalizer(&self) -> &Arc<dyn Canonicalizer> {
        self.pages.canonicalizer()
    }

    fn body(&self, _: &Lookup<'_>) -> Result<Option<Body>> {
        Ok(None)
    }

    fn beside(&self, lookup: &Lookup<'_>, kind: RecordKind) -> Result<Option<Page>> {
        if !self.commits_fail {
            self.request()?;
        }
        self.pages.get_beside(lookup.url, kind)
    }

    fn last_sequence(&self) -> Result<u64> {
        Ok(self.pages.engine().stats().last_sequence)
    }

    fn is_lost(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<()> {
        let checked = self.request();
        self.is_known.store(checked.is_err(), Ordering::Relaxed);
        checked
    }

    fn kept(&self) -> Result<Vec<(String, u64)>> {
        Ok(self.kept.lock().unwrap().iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect())
    }

    fn read(&self, name: &str, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<()> {
        let bytes = self.kept.lock().unwrap()[name].clone();
        each(&bytes).map_err(|source| filemap::Error::Read { what: name.to_owned(), offset: 0, source })
    }

    fn newest(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.kept.lock().unwrap().get(name).cloned())
    }

    fn commit(&self, files: &[KeptFile<'_>]) -> Result<()> {
        if self.commits_fail {
            self.request()?;
        }
        let read = |file: &KeptFile<'_>| {
            let mut bytes = vec![0; file.file.len().unwrap() as usize];
            file.file.read_at(&mut bytes, 0).unwrap();
            (file.name.to_owned(), bytes)
        };
        let mut kept = self.kept.lock().unwrap();
        kept.extend(files.iter().map(read));
        if self.commits.fetch_add(1, Ordering::Relaxed) + 1 >= self.taken_after {
            kept.insert("owner".to_owned(), b"another machine".to_vec());
            self.is_taken.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Crawls from a path of a site into a shard.
fn crawled(folder: &TempDir, site: &Site, path: &str, shard: &Arc<Fake>) -> crawl::Result<crawl::run::Summary> {
    let (store, bucket) = (folder.path().join("news"), BucketSettings::new("s3://bucket/pages"));
    let shard = Arc::clone(shard) as Arc<dyn Shard>;
    let depot = Depot::open(&store, (&bucket, "this machine"), || Ok(shard)).unwrap();
    let mut builder =
        Crawler::builder(&store).unwrap().depot(Some(depot)).seed(site.url(path)).allow_private().rate(0.0);
    builder.settings().bucket = Some(bucket);
    builder.build().unwrap().run()
}

#[track_caller]
fn is_taken(ended: crawl::Result<crawl::run::Summary>) {
    let error = ended.expect_err("another owner has it");
    assert!(matches!(&error, Error::Taken { .. }), "{error}");
    let words = error.to_string();
    assert!(words.starts_with("shard 3 of s3://bucket/pages: another owner has taken it (another machine)"), "{words}");
}

#[test]
fn a_run_without_another_owner_ends_as_any() {
    let (folder, site) = (tempfile::tempdir().unwrap(), Site::of(&[("/", "<a href=/a>"), ("/a", "a")]));
    let summary = crawled(&folder, &site, "/", &Fake::new(&folder, u32::MAX, true)).unwrap();
    assert_eq!((summary.end.name(), summary.tally.fetched), ("complete", 2));
}

#[test]
fn a_commit_that_fails_after_a_takeover_ends_the_run_with_the_new_owners_name() {
    let (folder, site) = (tempfile::tempdir().unwrap(), Site::of(&[("/", "<a href=/a>"), ("/a", "a")]));
    // The commit at the beginning is the last one.
    is_taken(crawled(&folder, &site, "/", &Fake::new(&folder, 1, true)));
    assert_eq!(site.asked("/a"), 1, "it was fetched before anybody noticed");
}

#[test]
fn a_read_that_fails_between_the_last_commit_and_the_end_is_a_takeover_too() {
    let (folder, site) = (tempfile::tempdir().unwrap(), Site::of(&[]));
    // The start page is given up, and at the end its note is read.
    is_taken(crawled(&folder, &site, "/missing", &Fake::new(&folder, 2, false)));
}
