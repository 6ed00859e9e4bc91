//! `seen --kind table`: the table of the generalised list's paper, measured again: 16,000 URLs
//! deduplicated each way.
//!
//! First pass: each URL once, in random order, and everything durable. Second pass: all of them
//! again, in another order. Ways take turns; figures are medians of the rounds.
//!
//! Memory is counted, since the process's size says nothing at a few megabytes: allocations as the
//! GNU allocator rounds them (8 bytes more, a multiple of 16, at least 32), tables by their
//! capacity.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use filemap_benches::drive::Outcome;
use filemap_benches::generalised_list::GeneralisedList;
use filemap_benches::random::Random;
use filemap_benches::report::{Report, median};
use filemap_benches::urls::UrlList;
use md5::{Digest, Md5};
use urlindex::{BloomFilter, BloomOptions, DiskOptions, DiskUrlSet, GrowingFilter, Md5Bitmap, SeenSet, UrlTrie};

use crate::seen::way::Way;

/// URLs in the paper's table.
pub const URLS: u64 = 16_000;
/// An empty file's inode, as ext4 makes them by default.
const INODE_BYTES: u64 = 256;

type Maker = fn(&Path) -> Outcome<Box<dyn Way>>;

/// Figures of one way: both passes, and the end.
#[derive(Default)]
struct Figures {
    ms: [Vec<f64>; 2],
    wrong: [u64; 2],
    bytes: (u64, u64),
}

/// All of them, those of the paper first.
const WAYS: &[(&str, Maker)] = &[
    #[cfg(feature = "sqlite")]
    ("database: SQLite, a key of text, one transaction", crate::seen::sqlite::Database::make),
    ("list in memory", |_| Ok(Box::new(List(Vec::new())))),
    ("a file for each MD5 on disk", |dir| Ok(Box::new(Files { dir: dir.join("files"), made: 0 }))),
    ("a path of 32 folders for each MD5 on disk", |dir| Ok(Box::new(Folders { dir: dir.join("folders"), folders: 0 }))),
    ("hash set of the texts", |_| Ok(Box::new(Texts(HashSet::new())))),
    ("Bloom filter of 16 bits and 8 functions", |_| ours(BloomFilter::in_memory(BloomOptions::classic(URLS))?)),
    ("generalised list, a node a letter", |_| Ok(Box::new(Letters(GeneralisedList::default())))),
    ("**`UrlTrie`**", |_| ours(UrlTrie::new())),
    ("**`Md5Bitmap`**, 2^28 slots", |dir| ours(Md5Bitmap::create(dir.join("bits"), Md5Bitmap::DEFAULT_BITS)?)),
    ("**`BloomFilter`**, blocked, 1e-4", |dir| {
        ours(BloomFilter::create(dir.join("bloom"), BloomOptions::new(URLS, 1e-4).blocked())?)
    }),
    ("**`GrowingFilter`**, 1e-4", |dir| ours(GrowingFilter::create(dir.join("growing"), 1e-4, 1)?)),
    ("**`DiskUrlSet`**, one at a time", |dir| ours(DiskUrlSet::create(dir.join("disk"), options())?)),
    ("**`DiskUrlSet`**, in one batch", |dir| Ok(Box::new(Together(DiskUrlSet::create(dir.join("disk"), options())?)))),
];

fn options() -> DiskOptions {
    DiskOptions::new().memory_bytes(1 << 20)
}

/// Runs it.
pub fn run(list: &Path, dir: Option<&Path>, rounds: usize, seed: u64) -> Outcome<Report> {
    let list = UrlList::read(list, seed)?;
    let urls = distinct(&list);
    let mut random = Random::of(seed, 5);
    let orders = [shuffled(&urls, &mut random), shuffled(&urls, &mut random)];
    let mut report = Report::default();
    report.count("URLs", urls.len() as u64);
    report.count("of them from the list itself", (list.len() as u64).min(URLS));
    report.count("bytes of text", urls.iter().map(|url| url.len() as u64).sum());
    let mut figures: Vec<Figures> = WAYS.iter().map(|_| Figures::default()).collect();
    for _ in 0..rounds {
        for ((_, make), figures) in WAYS.iter().zip(&mut figures) {
            let place = match dir {
                Some(dir) => tempfile::tempdir_in(dir)?,
                None => tempfile::tempdir()?,
            };
            let mut way = make(place.path())?;
            let expected = [urls.len() as u64, 0];
            for (pass, order) in orders.iter().enumerate() {
                let start = Instant::now();
                let new = way.pass(order)?;
                figures.ms[pass].push(start.elapsed().as_secs_f64() * 1e3);
                figures.wrong[pass] = new.abs_diff(expected[pass]);
            }
            figures.bytes = way.bytes()?;
        }
    }
    let mut table =
        String::from("\n\n| way | first pass, ms | again, ms | bytes of memory | bytes on disk | wrong |\n");
    table.push_str("|---|---|---|---|---|---|\n");
    for ((name, _), figures) in WAYS.iter().zip(&figures) {
        let [first, again] = [median(&figures.ms[0]), median(&figures.ms[1])];
        let ((memory, disk), wrong) = (figures.bytes, figures.wrong[0] + figures.wrong[1]);
        let _ = writeln!(table, "| {name} | {first:.2} | {again:.2} | {memory} | {disk} | {wrong} |");
    }
    report.note("table", table);
    Ok(report)
}

/// Distinct URLs: the list's own first, then URLs made from them.
fn distinct(list: &UrlList) -> Vec<Vec<u8>> {
    let (mut known, mut urls, mut url) = (HashSet::new(), Vec::new(), Vec::new());
    for number in 0.. {
        list.url(number, &mut url);
        if known.insert(url.clone()) {
            urls.push(url.clone());
        }
        if urls.len() as u64 == URLS {
            break;
        }
    }
    urls
}

fn shuffled<'a>(urls: &'a [Vec<u8>], random: &mut Random) -> Vec<&'a [u8]> {
    let mut order: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

/// Bytes of an allocation.
fn allocated(bytes: u64) -> u64 {
    (bytes + 8).next_multiple_of(16).max(32)
}

/// Bytes of a hash set of texts.
pub fn hash_set_bytes(set: &HashSet<Vec<u8>>) -> u64 {
    let texts: u64 = set.iter().map(|text| allocated(text.len() as u64)).sum();
    // The table has a power of two of slots, seven eighths of which are its capacity, and a byte a
    // slot.
    let slots = (set.capacity() as u64 * 8 / 7).next_power_of_two();
    texts + slots * (size_of::<Vec<u8>>() as u64 + 1)
}

/// The texts, one after the other.
struct List(Vec<Vec<u8>>);

impl Way for List {
    fn pass(&mut self, urls: &[&[u8]]) -> Outcome<u64> {
        let before = self.0.len();
        for url in urls {
            if !self.0.iter().any(|known| known == url) {
                self.0.push(url.to_vec());
            }
        }
        Ok((self.0.len() - before) as u64)
    }

    fn bytes(&self) -> Outcome<(u64, u64)> {
        let texts: u64 = self.0.iter().map(|text| allocated(text.len() as u64)).sum();
        Ok((texts + (self.0.capacity() * size_of::<Vec<u8>>()) as u64, 0))
    }
}

/// The texts in a hash set.
struct Texts(HashSet<Vec<u8>>);

impl Way for Texts {
    fn pass(&mut self, urls: &[&[u8]]) -> Outcome<u64> {
        let before = self.0.len();
        for url in urls {
            if !self.0.contains(*url) {
                self.0.insert(url.to_vec());
            }
        }
        Ok((self.0.len() - before) as u64)
    }

    fn bytes(&self) -> Outcome<(u64, u64)> {
        Ok((hash_set_bytes(&self.0), 0))
    }
}

/// An empty file for each URL, named by its MD5, in 256 directories.
struct Files {
    dir: PathBuf,
    made: u64,
}

impl Way for Files {
    fn pass(&mut self, urls: &[&[u8]]) -> Outcome<u64> {
        let before = self.made;
        for url in urls {
            let name: String = Md5::digest(url).iter().map(|byte| format!("{byte:02x}")).collect();
            let dir = self.dir.join(&name[..2]);
            let path = dir.join(&name[2..]);
            if !path.exists() {
                std::fs::create_dir_all(&dir)?;
                File::create(path)?;
                self.made += 1;
            }
        }
        // All of them at once: a sync a file would take minutes.
        File::open(&self.dir)?.sync_all()?;
        Ok(self.made - before)
    }

    fn bytes(&self) -> Outcome<(u64, u64)> {
        let mut bytes = self.made * INODE_BYTES;
        for dir in std::fs::read_dir(&self.dir)? {
            bytes += dir?.metadata()?.blocks() * 512;
        }
        Ok((0, bytes))
    }
}

/// Digits of an MD5, a folder each.
const DEPTH: usize = 32;

/// A path of folders for each URL, one for each digit of its MD5: the URL was seen if the path
/// exists.
struct Folders {
    dir: PathBuf,
    folders: u64,
}

impl Way for Folders {
    fn pass(&mut self, urls: &[&[u8]]) -> Outcome<u64> {
        let mut new = 0;
        for url in urls {
            let digits: String = Md5::digest(url).iter().map(|byte| format!("{byte:02x}")).collect();
            let mut paths = vec![self.dir.clone()];
            for at in 0..DEPTH {
                paths.push(paths[at].join(&digits[at..=at]));
            }
            if paths[DEPTH].exists() {
                continue;
            }
            new += 1;
            // From the deepest that is there.
            let there = (0..DEPTH).rev().find(|depth| paths[*depth].exists());
            for path in &paths[there.map_or(0, |depth| depth + 1)..] {
                std::fs::create_dir(path)?;
                self.folders += 1;
            }
        }
        File::open(&self.dir)?.sync_all()?;
        Ok(new)
    }

    fn bytes(&self) -> Outcome<(u64, u64)> {
        // All are alike: an inode, and the blocks of a folder with an entry.
        let blocks = std::fs::metadata(&self.dir)?.blocks() * 512;
        Ok((0, self.folders * (INODE_BYTES + blocks)))
    }
}

/// The generalised list.
struct Letters(GeneralisedList);

impl Way for Letters {
    fn pass(&mut self, urls: &[&[u8]]) -> Outcome<u64> {
        Ok(urls.iter().filter(|url| self.0.insert(url)).count() as u64)
    }

    fn bytes(&self) -> Outcome<(u64, u64)> {
        Ok((self.0.nodes() * allocated(GeneralisedList::node_bytes()), 0))
    }
}

/// One of ours, asked one at a time.
struct Ours(Box<dyn SeenSet>);

fn ours(set: impl SeenSet + 'static) -> Outcome<Box<dyn Way>> {
    Ok(Box::new(Ours(Box::new(set))))
}

impl Way for Ours {
    fn pass(&mut self, urls: &[&[u8]]) -> Outcome<u64> {
        let mut new = 0;
        for url in urls {
            new += u64::from(self.0.check_and_insert(url)?.is_new());
        }
        self.0.sync()?;
        Ok(new)
    }

    fn bytes(&self) -> Outcome<(u64, u64)> {
        Ok((self.0.memory_bytes(), self.0.disk_bytes()))
    }
}

/// The set on disk, asked for all at once.
struct Together(DiskUrlSet);

impl Way for Together {
    fn pass(&mut self, urls: &[&[u8]]) -> Outcome<u64> {
        let mut batch = self.0.batch();
        urls.iter().try_for_each(|url| batch.push(url))?;
        let new = self.0.check_and_insert_all(&mut batch)?.new_count();
        self.0.sync()?;
        Ok(new)
    }

    fn bytes(&self) -> Outcome<(u64, u64)> {
        Ok((self.0.memory_bytes(), self.0.disk_bytes()))
    }
}
