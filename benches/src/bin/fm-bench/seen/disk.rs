//! `seen --kind disk`: the exact set on disk, decade by decade, in batches of distinct URLs or one
//! at a time in a crawl's order.
//!
//! URLs are texts of about 60 bytes made from their numbers, on 4 M hosts whose sizes span three
//! decades. Making them is not part of a test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use filemap_benches::device::{drop_caches, read_into_cache};
use filemap_benches::drive::Outcome;
use filemap_benches::process::{device_read_bytes, device_written_bytes, peak_resident_bytes};
use filemap_benches::random::Random;
use filemap_benches::report::{Bar, Report, median};
use urlindex::disk::{DiskStats, FingerprintBits};
use urlindex::{DiskOptions, DiskUrlSet, SeenSet};

/// Arguments of `fm-bench seen --kind disk`.
#[derive(Args)]
pub struct DiskArgs {
    /// Directory for the sets, which stay; a temporary one if not given
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// URLs of a batch (16 bytes of memory each)
    #[arg(long, default_value_t = 10_000_000)]
    batch: u64,
    /// Bytes of memory for the set itself
    #[arg(long, default_value_t = 128 << 20)]
    memory: u64,
    /// Fingerprints of 64 bits
    #[arg(long)]
    short: bool,
    /// One at a time, not in batches: 45% known URLs by Zipf's law (s = 1, oldest most popular),
    /// the others new
    #[arg(long)]
    crawl: bool,
}

/// The first decade of which figures are printed ends here.
const FIRST_MARK: u64 = 1_000_000;
/// URLs made at once, outside of what is timed.
const TEXTS: u64 = 10_000;
/// Look-ups in a set just opened: with little cached, and with all of it.
const COLD: u64 = 100_000;
const WARM: u64 = 200_000;
/// Share of a crawl's links that lead to known URLs.
const DUPLICATES: f64 = 0.45;

/// Texts of the same length, one after the other.
struct Texts {
    bytes: Vec<u8>,
    seed: u64,
}

const URL_BYTES: usize = b"https://www.host-00000000.example/articles/0000000000000000/view.html".len();

impl Texts {
    fn new(seed: u64) -> Texts {
        Texts { bytes: Vec::new(), seed }
    }

    fn make(&mut self, numbers: impl Iterator<Item = u64>) {
        self.bytes.clear();
        for number in numbers {
            let random = Random::of(self.seed, number).next();
            // Spread over 2^10 to 2^22 hosts.
            let host = random >> 8 & ((1 << (10 + random % 13)) - 1);
            self.bytes.extend_from_slice(b"https://www.host-");
            self.hex(host, 8);
            self.bytes.extend_from_slice(b".example/articles/");
            // One to one: so all are distinct.
            self.hex(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), 16);
            self.bytes.extend_from_slice(b"/view.html");
        }
    }

    fn hex(&mut self, number: u64, digits: u32) {
        let digit = |i: u32| b"0123456789abcdef"[(number >> (4 * i) & 15) as usize];
        self.bytes.extend((0..digits).rev().map(digit));
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(URL_BYTES)
    }
}

/// State at a mark; figures of a decade are differences of two marks.
#[derive(Clone, Copy, Default)]
struct Mark {
    tests: u64,
    /// In the set, and in all.
    time: Duration,
    whole: Duration,
    /// Tests a second since the mark before.
    rate: f64,
    device_bytes: u64,
    stats: DiskStats,
}

/// Runs it.
pub fn run(args: &DiskArgs, urls: u64, seed: u64) -> Outcome<Report> {
    let temporary = tempfile::tempdir()?;
    let path = args.dir.as_deref().unwrap_or(temporary.path());
    let bits = if args.short { FingerprintBits::Bits64 } else { FingerprintBits::Bits80 };
    let options = DiskOptions::new().memory_bytes(args.memory).fingerprint_bits(bits);
    let set = DiskUrlSet::create(path.join("urls"), options.clone())?;
    let watch = FolderWatch::start(path);
    let mut report = Report::default();
    report.count("URLs", urls);
    report.count("memory of the set, bytes", args.memory);
    report.note("bits of a fingerprint", bits.bits());
    let (whole, wrong) = if args.crawl {
        one_at_a_time(&set, urls, seed, &mut report)?
    } else {
        report.count("URLs of a batch", args.batch);
        batches(&set, args.batch.max(1), urls, seed, &mut report)?
    };
    report.section("over the whole run");
    let rate = whole.tests as f64 / whole.time.as_secs_f64() / 1e6;
    report.against("tests", rate, "M/s", Bar::AtLeast(if args.crawl { 0.0 } else { 1.0 }));
    report.number("time in the set", whole.time.as_secs_f64(), "s");
    report.number("time in all, making of texts included", whole.whole.as_secs_f64(), "s");
    let io = (whole.stats.read_bytes + whole.stats.written_bytes) as f64 / whole.tests as f64;
    report.against("bytes of I/O a test", io, "", Bar::AtMost(400.0));
    report.number("bytes of the device's I/O a test", whole.device_bytes as f64 / whole.tests as f64, "");
    report.against("bytes of disk a URL", set.disk_bytes() as f64 / set.len() as f64, "", Bar::AtMost(8.0));
    let most = watch.most_bytes() as f64 / set.len() as f64;
    report.number("bytes of files a URL, at most, while a merge has old and new runs", most, "");
    report.against("memory, the most resident", mebibytes(peak_resident_bytes()?), "MiB", Bar::AtMost(1024.0));
    report.section("at the end");
    report.count("URLs in the set", set.len());
    report.against("wrong answers", wrong as f64, "", Bar::AtMost(0.0));
    report.number("expected loss", set.expected_loss(), "URLs");
    report.number("false positives, by the set", set.false_positive_rate(), "");
    drop(set);
    let set = opened_again(path, options, urls, seed, &mut report)?;
    let wrong = check(&set, urls, seed)?;
    report.count("not found of a million known and found of a million unknown", wrong);
    Ok(report)
}

/// Single look-ups in a set just opened: with nothing cached, with what the look-ups before have
/// brought in, and with all of it cached.
fn opened_again(path: &Path, options: DiskOptions, urls: u64, seed: u64, report: &mut Report) -> Outcome<DiskUrlSet> {
    report.section("opened again, one at a time, half of them known");
    let (mut texts, mut random) = (Texts::new(seed), Random::of(seed, 4));
    let mut look_up = |set: &DiskUrlSet, count: u64, are_known: &[bool]| -> Outcome<(f64, f64)> {
        let (mut seconds, read_before) = (0.0, device_read_bytes()?);
        for first in (0..count).step_by(TEXTS as usize) {
            let is_known = are_known.iter().cycle();
            let one = |(_, is_known): (u64, &bool)| random.below(urls) + if *is_known { 0 } else { urls };
            texts.make((first..count.min(first + TEXTS)).zip(is_known).map(one));
            let start = Instant::now();
            texts.iter().try_for_each(|url| set.contains(url).map(drop))?;
            seconds += start.elapsed().as_secs_f64();
        }
        Ok((seconds, (device_read_bytes()? - read_before) as f64))
    };
    // Without root they stay, and figures of an empty cache mean nothing.
    report.note("page cache", drop_caches().map_or_else(|error| error.to_string(), |()| "dropped".to_owned()));
    let (start, read_before) = (Instant::now(), device_read_bytes()?);
    let set = DiskUrlSet::open(path.join("urls"), options)?;
    report.number("opened in, nothing cached", start.elapsed().as_secs_f64(), "s");
    report.number("read for it", mebibytes(device_read_bytes()? - read_before), "MiB");
    report.count("runs", set.disk_stats().runs);
    let (seconds, read) = look_up(&set, 1_000, &[true, false])?;
    report.against("the first thousand, nothing cached", seconds, "s", Bar::AtMost(0.5));
    report.against("read for them", read / f64::from(1 << 20), "MiB", Bar::AtMost(16.0));
    let (seconds, read) = look_up(&set, COLD, &[true, false])?;
    report.number("a look-up of the next 100,000", seconds / COLD as f64 * 1e6, "us");
    report.number("device bytes a look-up of these", read / COLD as f64, "");
    let (_, read) = look_up(&set, COLD, &[true, false])?;
    report.against(
        "pages of 4 KiB read a look-up of the 100,000 then",
        read / COLD as f64 / 4096.0,
        "",
        Bar::AtMost(1.0),
    );
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            read_into_cache(&entry.path())?;
        }
    }
    look_up(&set, WARM, &[true, false])?;
    for (name, is_known) in [("known", true), ("new", false)] {
        let rates = (0..5).map(|_| look_up(&set, WARM, &[is_known])).collect::<Outcome<Vec<_>>>()?;
        let us = median(&rates.iter().map(|(seconds, _)| seconds / WARM as f64 * 1e6).collect::<Vec<_>>());
        let what = format!("a look-up of a {name} URL with all cached, median of five times 200,000");
        report.against(what, us, "us", Bar::AtMost(2.0));
    }
    Ok(set)
}

/// Tests the finished set and returns the number of wrong answers.
fn check(set: &DiskUrlSet, urls: u64, seed: u64) -> Outcome<u64> {
    let (mut texts, mut random, mut wrong) = (Texts::new(seed), Random::of(seed, 3), 0);
    for is_known in [true, false] {
        let mut batch = set.batch();
        for _ in 0..1_000_000 / TEXTS {
            let first = if is_known { 0 } else { urls };
            texts.make((0..TEXTS).map(|_| first + random.below(urls)));
            texts.iter().try_for_each(|url| batch.push(url))?;
        }
        let answers = set.contains_all(&mut batch)?;
        wrong += answers.iter().filter(|verdict| verdict.is_new() == is_known).count() as u64;
    }
    Ok(wrong)
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Watches how many bytes the files in a folder have, five times a second.
struct FolderWatch {
    most: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FolderWatch {
    fn start(path: &Path) -> FolderWatch {
        let (most, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (path, most_too, stop_too) = (path.to_owned(), Arc::clone(&most), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stop_too.load(Ordering::Relaxed) {
                // Files come and go: one that cannot be read is gone.
                let files = std::fs::read_dir(&path).into_iter().flatten().flatten();
                let bytes = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
                most_too.fetch_max(bytes, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        FolderWatch { most, stop, thread: Some(thread) }
    }

    fn most_bytes(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for FolderWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The last mark, and how many answers were wrong.
fn batches(set: &DiskUrlSet, batch_urls: u64, urls: u64, seed: u64, report: &mut Report) -> Outcome<(Mark, u64)> {
    let mut texts = Texts::new(seed);
    let mut batch = set.batch();
    batch.reserve(batch_urls.min(urls) as usize);
    let (mut done, mut wrong, mut next_mark) = (0, 0, FIRST_MARK.min(urls));
    let (mut now, mut before) = (Mark::default(), Mark::default());
    let begun = Instant::now();
    while done < urls {
        let end = (done + batch_urls).min(next_mark);
        for first in (done..end).step_by(TEXTS as usize) {
            texts.make(first..end.min(first + TEXTS));
            let start = Instant::now();
            texts.iter().try_for_each(|url| batch.push(url))?;
            now.time += start.elapsed();
        }
        let start = Instant::now();
        wrong += (end - done) - set.check_and_insert_all(&mut batch)?.new_count();
        now.time += start.elapsed();
        done = end;
        now.tests = done;
        if done == next_mark {
            (now.whole, now.stats) = (begun.elapsed(), set.disk_stats());
            now.device_bytes = device_read_bytes()? + device_written_bytes()?;
            now.rate = decade(set, &before, &now, report)?;
            before = now;
            next_mark = (next_mark * 10).min(urls);
        }
    }
    Ok((before, wrong))
}

/// The last mark, and how many answers were wrong.
fn one_at_a_time(set: &DiskUrlSet, urls: u64, seed: u64, report: &mut Report) -> Outcome<(Mark, u64)> {
    let (mut texts, mut random) = (Texts::new(seed), Random::of(seed, 2));
    let (mut known, mut wrong, mut next_mark) = (0u64, 0, FIRST_MARK.min(urls));
    let (mut now, mut before) = (Mark::default(), Mark::default());
    let begun = Instant::now();
    let mut numbers = Vec::new();
    while known < urls {
        numbers.clear();
        let first = known;
        while numbers.len() < TEXTS as usize && known < next_mark {
            if known > 0 && random.unit() < DUPLICATES {
                let rank = (known as f64).powf(random.unit()) as u64;
                numbers.push((rank - 1).min(known - 1));
            } else {
                numbers.push(known);
                known += 1;
            }
        }
        texts.make(numbers.iter().copied());
        let mut expected = first;
        let start = Instant::now();
        for (url, number) in texts.iter().zip(&numbers) {
            let is_new = set.check_and_insert(url)?.is_new();
            wrong += u64::from(is_new != (*number == expected));
            expected += u64::from(*number == expected);
        }
        now.time += start.elapsed();
        now.tests += numbers.len() as u64;
        if known == next_mark {
            set.sync()?;
            (now.whole, now.stats) = (begun.elapsed(), set.disk_stats());
            now.device_bytes = device_read_bytes()? + device_written_bytes()?;
            now.rate = decade(set, &before, &now, report)?;
            before = now;
            next_mark = (next_mark * 10).min(urls);
        }
    }
    Ok((before, wrong))
}

/// The figures of the tests between two marks; how many there were in a second.
fn decade(set: &DiskUrlSet, before: &Mark, now: &Mark, report: &mut Report) -> Outcome<f64> {
    let tests = (now.tests - before.tests) as f64;
    let of = |count: fn(&DiskStats) -> u64| (count(&now.stats) - count(&before.stats)) as f64 / tests;
    let is_single = now.stats.tests > 0;
    report.section(format!("up to {:.0e} URLs", set.len() as f64));
    let rate = tests / (now.time - before.time).as_secs_f64();
    report.against("tests", rate / 1e6, "M/s", Bar::AtLeast(if is_single { 0.0 } else { 1.0 }));
    report.number("tests, making of texts included", tests / (now.whole - before.whole).as_secs_f64() / 1e6, "M/s");
    if before.tests > 0 {
        let (name, ratio) = ("of the rate of the decade before", rate / before.rate);
        if is_single { report.number(name, ratio, "x") } else { report.against(name, ratio, "x", Bar::AtLeast(0.6)) }
    }
    report.number("bytes read a test", of(|stats| stats.read_bytes), "");
    report.number("bytes written a test", of(|stats| stats.written_bytes), "");
    let io = of(|stats| stats.read_bytes + stats.written_bytes);
    report.against("bytes of I/O a test", io, "", Bar::AtMost(400.0));
    let device_bytes = (now.device_bytes - before.device_bytes) as f64 / tests;
    report.number("bytes of the device's I/O a test", device_bytes, "");
    report.against("bytes of disk a URL", set.disk_bytes() as f64 / set.len() as f64, "", Bar::AtMost(8.0));
    report.number("memory, by the set", mebibytes(set.memory_bytes()), "MiB");
    report.number("memory, the most resident", mebibytes(peak_resident_bytes()?), "MiB");
    report.count("runs", now.stats.runs);
    if is_single {
        report.against("preads a test", of(|stats| stats.block_reads), "", Bar::AtMost(0.05));
        report.number("found in the table of recent URLs", of(|stats| stats.table_hits), "");
        report.number("found in the cache of popular URLs", of(|stats| stats.cache_hits), "");
        let in_memory = of(|stats| stats.table_hits + stats.cache_hits);
        report.number("of the known URLs, found in the table", of(|stats| stats.table_hits) / DUPLICATES, "");
        report.number("of the known URLs, found in the cache", of(|stats| stats.cache_hits) / DUPLICATES, "");
        report.number("of the known URLs, found in memory", in_memory / DUPLICATES, "");
    }
    // Long runs are watched.
    eprintln!(
        "{:.1e} URLs, {:.0} s, {:.2} M/s, {io:.0} bytes a test",
        set.len() as f64,
        now.whole.as_secs_f64(),
        rate / 1e6
    );
    Ok(rate)
}
