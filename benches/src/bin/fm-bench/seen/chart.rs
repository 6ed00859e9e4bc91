//! `seen --kind chart`: bytes a URL, error and speed of every set, as lines for
//! benches/data/seen.csv, from which benches/seen_chart.py draws docs/seen.svg.
//!
//! Each set gets the same URLs of the scaled list one at a time, and is asked for known and
//! unknown ones alternately. Making URLs is not timed. Times are the thread's processor time; of
//! batches, which several threads look up, wall time.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use filemap_benches::drive::Outcome;
use filemap_benches::random::Random;
use filemap_benches::report::Report;
use filemap_benches::urls::UrlList;
use urlindex::{
    BloomFilter, BloomOptions, DiskOptions, DiskUrlSet, GrowingFilter, Md5Bitmap, SeenSet, SeenStats, UrlTrie, Verdict,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::seen::batch::{Batch, STRANGERS};
use crate::seen::table::hash_set_bytes;

/// URLs made at once, and of a batch.
const BATCH: u64 = 1_000_000;

/// URLs asked for after all inserts; half of them known.
const ASKED: u64 = 2_000_000;
/// Memory of the sets on disk.
const DISK_MEMORY_BYTES: u64 = 64 << 20;
type Maker = fn(&Path, u64) -> urlindex::Result<Box<dyn SeenSet>>;

const SETS: &[(&str, Maker)] = &[
    ("Md5Bitmap 2^28", |path, _| Ok(Box::new(Md5Bitmap::create(path, Md5Bitmap::DEFAULT_BITS)?))),
    ("BloomFilter 1e-2", |_, urls| Ok(Box::new(BloomFilter::in_memory(BloomOptions::new(urls, 1e-2))?))),
    ("BloomFilter 1e-4", |_, urls| Ok(Box::new(BloomFilter::in_memory(BloomOptions::new(urls, 1e-4))?))),
    ("BloomFilter 1e-6", |_, urls| Ok(Box::new(BloomFilter::in_memory(BloomOptions::new(urls, 1e-6))?))),
    ("blocked 1e-2", |_, urls| Ok(Box::new(BloomFilter::in_memory(BloomOptions::new(urls, 1e-2).blocked())?))),
    ("blocked 1e-4", |_, urls| Ok(Box::new(BloomFilter::in_memory(BloomOptions::new(urls, 1e-4).blocked())?))),
    ("GrowingFilter 1e-2", |_, _| Ok(Box::new(GrowingFilter::in_memory(1e-2, 1)?))),
    ("GrowingFilter 1e-4", |_, _| Ok(Box::new(GrowingFilter::in_memory(1e-4, 1)?))),
    ("GrowingFilter 1e-6", |_, _| Ok(Box::new(GrowingFilter::in_memory(1e-6, 1)?))),
    ("UrlTrie", |_, _| Ok(Box::new(UrlTrie::new()))),
    ("DiskUrlSet one at a time", |path, _| Ok(Box::new(DiskUrlSet::create(path, options())?))),
    ("DiskUrlSet in batches", |path, _| Ok(Box::new(DiskUrlSet::create(path, options())?))),
    ("hash set of texts", |_, _| Ok(Box::new(Texts::default()))),
];

fn options() -> DiskOptions {
    DiskOptions::new().memory_bytes(DISK_MEMORY_BYTES)
}

/// Runs it.
pub fn run(list: &UrlList, dir: Option<&Path>, urls: u64, seed: u64) -> Outcome<Report> {
    let mut csv = String::from("\n\nset,urls,memory_bytes_per_url,disk_bytes_per_url,error,insert_ns,test_ns\n");
    let numbers = numbers_for(list, urls);
    for (name, make) in SETS {
        let place = match dir {
            Some(dir) => tempfile::tempdir_in(dir)?,
            None => tempfile::tempdir()?,
        };
        let set = make(&place.path().join("set"), urls)?;
        let in_batches = name.ends_with("in batches");
        let (mut insert_ns, mut batches) = (0.0, 0.0);
        for first in (0..numbers).step_by(BATCH as usize) {
            let batch = Batch::of(list, first..numbers.min(first + BATCH));
            insert_ns += if in_batches { together(&*set, &batch, true)? } else { alone(&*set, &batch, true) };
            batches += 1.0;
        }
        set.sync()?;
        let mut random = Random::of(seed, 9);
        let (mut test_ns, rounds) = (0.0, ASKED.min(urls).div_ceil(BATCH));
        for _ in 0..rounds {
            let asked = (0..BATCH).map(|i| i % 2 * STRANGERS + random.below(numbers));
            let batch = Batch::of(list, asked);
            test_ns += if in_batches { together(&*set, &batch, false)? } else { alone(&*set, &batch, false) };
        }
        let len = set.len() as f64;
        let (memory, disk) = (set.memory_bytes() as f64 / len, set.disk_bytes() as f64 / len);
        let (error, insert_ns, test_ns) = (set.false_positive_rate(), insert_ns / batches, test_ns / rounds as f64);
        writeln!(csv, "{name},{},{memory:.2},{disk:.2},{error:.3e},{insert_ns:.0},{test_ns:.0}", set.len())?;
        eprintln!("{name}: {memory:.2} and {disk:.2} bytes a URL, {insert_ns:.0} and {test_ns:.0} ns");
    }
    let mut report = Report::default();
    report.note("figures", csv);
    Ok(report)
}

/// Numbers of the list needed for `urls` distinct URLs: some come twice.
fn numbers_for(list: &UrlList, urls: u64) -> u64 {
    let (mut known, mut url, mut number) = (HashSet::new(), Vec::new(), 0);
    while (known.len() as u64) < urls {
        list.url(number, &mut url);
        known.insert(xxh3_64(&url));
        number += 1;
    }
    number
}

/// Processor time a URL, in ns.
fn alone(set: &dyn SeenSet, batch: &Batch, inserts: bool) -> f64 {
    batch.time(|url| if inserts { set.check_and_insert(url) } else { set.contains(url) }.is_ok_and(|v| v.is_new()))
}

/// Wall time a URL, in ns.
fn together(set: &dyn SeenSet, batch: &Batch, inserts: bool) -> Outcome<f64> {
    let urls: Vec<&[u8]> = batch.iter().collect();
    let (start, mut verdicts) = (Instant::now(), Vec::new());
    match inserts {
        true => set.check_and_insert_batch(&urls, &mut verdicts)?,
        false => set.contains_batch(&urls, &mut verdicts)?,
    }
    black_box(&verdicts);
    Ok(start.elapsed().as_nanos() as f64 / urls.len() as f64)
}

/// The baseline: a hash set of the texts.
#[derive(Debug, Default)]
struct Texts(Mutex<HashSet<Vec<u8>>>);

impl Texts {
    fn texts(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenSet for Texts {
    fn check_and_insert(&self, url: &[u8]) -> urlindex::Result<Verdict> {
        Ok(if self.texts().insert(url.to_vec()) { Verdict::New } else { Verdict::Seen })
    }

    fn contains(&self, url: &[u8]) -> urlindex::Result<Verdict> {
        Ok(if self.texts().contains(url) { Verdict::Seen } else { Verdict::New })
    }

    fn len(&self) -> u64 {
        self.texts().len() as u64
    }

    fn memory_bytes(&self) -> u64 {
        hash_set_bytes(&self.texts())
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn false_positive_rate(&self) -> f64 {
        0.0
    }

    fn expected_loss(&self) -> f64 {
        0.0
    }

    fn sync(&self) -> urlindex::Result<()> {
        Ok(())
    }

    fn stats(&self) -> SeenStats {
        SeenStats::default()
    }
}
