//! `seen`: URL-seen sets against their targets: canonical URLs, the MD5 bitmap, Bloom filters, the
//! trie. `disk` has the set on disk, `table` the paper's table, `chart` the chart.
//!
//! URLs come from a list that is scaled up (`filemap_benches::urls`), in batches made before the
//! clock runs. Ratios are of one run, both sides in turn; figures are medians of the rounds.

mod batch;
mod chart;
mod disk;
#[cfg(feature = "sqlite")]
mod sqlite;
mod table;
mod way;

use std::collections::HashSet;
use std::hint::black_box;
use std::path::PathBuf;

use clap::Args;
use fastbloom::AtomicBloomFilter;
use filemap_benches::drive::Outcome;
use filemap_benches::process::anonymous_bytes;
use filemap_benches::random::Random;
use filemap_benches::report::{Bar, Report};
use filemap_benches::urls::UrlList;
use md5::{Digest, Md5};
use urlindex::hash::HashFamily;
use urlindex::{
    BloomFilter, BloomOptions, Canonicalizer, CrawlRules, GrowingFilter, Md5Bitmap, SeenSet, UrlTrie, Whatwg,
};

use crate::seen::batch::{Batch, STRANGERS, core_ns};
use crate::seen::disk::DiskArgs;

/// Arguments of `fm-bench seen`.
#[derive(Args)]
pub struct SeenArgs {
    /// The list of URLs, one a line
    #[arg(long, default_value = "tests/data/urls/wiki-urls-10000.txt")]
    list: PathBuf,
    /// URLs in each set
    #[arg(long, default_value_t = 1_000_000)]
    urls: u64,
    /// Rounds of each comparison
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seed of the URLs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Parts to measure [default: all]
    #[arg(long, value_delimiter = ',', value_parser = ["canonical", "md5", "bloom", "speed", "growing", "trie"])]
    only: Vec<String>,
    /// Measure instead: the set on disk, the paper's table, or the figures of the chart
    #[arg(long, value_parser = ["disk", "table", "chart"])]
    kind: Option<String>,
    #[command(flatten)]
    disk: DiskArgs,
}

/// URLs made at once.
const BATCH: u64 = 100_000;
/// Runs the measurements.
pub fn run(args: &SeenArgs) -> Outcome<Report> {
    let dir = args.disk.dir.as_deref();
    match args.kind.as_deref() {
        Some("disk") => return disk::run(&args.disk, args.urls, args.seed),
        Some("table") => return table::run(&args.list, dir, args.rounds, args.seed),
        Some(_) => return chart::run(&UrlList::read(&args.list, args.seed)?, dir, args.urls, args.seed),
        None => {}
    }
    let list = UrlList::read(&args.list, args.seed)?;
    let mut report = Report::default();
    let is_wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    report.note("list", args.list.display().to_string());
    report.count("URLs in the list", list.len() as u64);
    report.count("URLs in each set", args.urls);
    if is_wanted("canonical") {
        canonical(args, &list, &mut report);
    }
    if is_wanted("md5") {
        md5(args, &list, &mut report)?;
    }
    if is_wanted("bloom") {
        bloom(args, &list, &mut report)?;
    }
    if is_wanted("speed") {
        speed(args, &list, &mut report)?;
    }
    if is_wanted("growing") {
        growing(args, &list, &mut report)?;
    }
    if is_wanted("trie") {
        trie(args, &list, &mut report)?;
    }
    Ok(report)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn canonical(args: &SeenArgs, list: &UrlList, report: &mut Report) {
    report.section("text to key, on the list itself");
    let batch = Batch::of(list, 0..list.len() as u64);
    let (crawl, surt) = (CrawlRules::crawl(), CrawlRules::surt());
    let rules: [(&str, &dyn Canonicalizer); 3] = [("whatwg", &Whatwg), ("crawl", &crawl), ("surt", &surt)];
    for (name, rules) in rules {
        let once = || batch.time(|url| black_box(rules.canonical(url)).is_ok());
        report.number(name, median((0..args.rounds).map(|_| once()).collect()), "ns");
    }
    let parsed = || batch.time(|url| std::str::from_utf8(url).map(url::Url::parse));
    report.number("the parser alone", median((0..args.rounds).map(|_| parsed()).collect()), "ns");
    let is_borrowed = |url: &&[u8]| matches!(Whatwg.canonical(url), Ok(std::borrow::Cow::Borrowed(_)));
    report.number("without the parser", batch.iter().filter(is_borrowed).count() as f64 / list.len() as f64, "");
}

fn md5(args: &SeenArgs, list: &UrlList, report: &mut Report) -> Outcome<()> {
    report.section("MD5 bitmap, 2^28 slots");
    let (mut bare, mut set, mut together, mut verdict) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..args.rounds {
        let dir = tempfile::tempdir()?;
        let bitmap = Md5Bitmap::create(dir.path().join("bits"), Md5Bitmap::DEFAULT_BITS)?;
        let (mut alone, mut inserted, mut in_batches, mut whole, mut batches) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let other = Md5Bitmap::create(dir.path().join("other"), Md5Bitmap::DEFAULT_BITS)?;
        let mut verdicts = Vec::new();
        for first in (0..args.urls).step_by(BATCH as usize) {
            let batch = Batch::of(list, first..first + BATCH);
            alone += batch.time(|url| Md5::digest(url));
            inserted += batch.time(|url| bitmap.check_and_insert(url));
            whole += batch.time(|url| Whatwg.canonical(url).map(|key| bitmap.contains(&key)));
            let urls: Vec<&[u8]> = batch.iter().collect();
            let start = core_ns();
            other.check_and_insert_batch(&urls, &mut verdicts)?;
            in_batches += (core_ns() - start) as f64 / urls.len() as f64;
            batches += 1.0;
        }
        together.push(in_batches / batches);
        bare.push(alone / batches);
        set.push(inserted / batches);
        verdict.push(whole / batches);
        if round + 1 == args.rounds {
            let strangers = Batch::of(list, STRANGERS..STRANGERS + 1_000_000);
            let mut known: HashSet<u64> = HashSet::new();
            let mut url = Vec::new();
            for number in 0..args.urls {
                list.url(number, &mut url);
                known.insert(xxhash_rust::xxh3::xxh3_64(&url));
            }
            let is_new = |url: &&[u8]| !known.contains(&xxhash_rust::xxh3::xxh3_64(url));
            let (mut tests, mut wrong) = (0u64, 0u64);
            for url in strangers.iter().filter(is_new) {
                tests += 1;
                wrong += u64::from(!bitmap.contains(url)?.is_new());
            }
            let theory = 1.0 - (-(known.len() as f64) / (1u64 << 28) as f64).exp();
            report.number("false positives, theory", theory, "");
            report.number("false positives, measured", wrong as f64 / tests as f64, "");
            report.number("false positives, by the set", bitmap.false_positive_rate(), "");
        }
    }
    let (bare, set, together) = (median(bare), median(set), median(together));
    report.number("bare MD5", bare, "ns");
    report.number("insert, one at a time", set, "ns");
    report.number("insert, in batches", together, "ns");
    report.against("speed of bare MD5, one at a time", bare / set, "x", Bar::AtLeast(0.8));
    report.against("speed of bare MD5, in batches", bare / together, "x", Bar::AtLeast(0.8));
    report.against("text to verdict", median(verdict) / 1e3, "us", Bar::AtMost(1.0));
    Ok(())
}

fn bloom(args: &SeenArgs, list: &UrlList, report: &mut Report) -> Outcome<()> {
    // Distinct URLs only: the rate is of URLs that were never inserted.
    let mut known: HashSet<u64> = HashSet::new();
    let mut url = Vec::new();
    let mut number = 0;
    while (known.len() as u64) < args.urls {
        list.url(number, &mut url);
        known.insert(xxhash_rust::xxh3::xxh3_64(&url));
        number += 1;
    }
    let measure = |name: String, options: BloomOptions, rate: f64, report: &mut Report| -> Outcome<()> {
        let filter = BloomFilter::in_memory(options)?;
        let mut url = Vec::new();
        for i in 0..number {
            list.url(i, &mut url);
            filter.insert(&url)?;
        }
        // Stop at three hundred errors: at the lowest rate more would take too long.
        let tests = ((1000.0 / rate) as u64).clamp(1_000_000, 300_000_000);
        let (mut done, mut wrong, mut seen) = (0u64, 0u64, STRANGERS);
        while done < tests {
            list.url(seen, &mut url);
            // The generator repeats URLs; a number in front makes one new for certain.
            url.extend_from_slice(&seen.to_le_bytes());
            wrong += u64::from(!filter.contains(&url)?.is_new());
            (done, seen) = (done + 1, seen + 1);
        }
        let measured = wrong as f64 / done as f64;
        report.number(format!("{name}: bits a URL"), filter.shape().0 as f64 / args.urls as f64, "");
        report.number(format!("{name}: theory"), filter.theoretical_rate(args.urls), "");
        report.number(format!("{name}: by the set"), filter.false_positive_rate(), "");
        report.number(format!("{name}: measured"), measured, "");
        report.against(format!("{name}: off theory by"), (measured / rate - 1.0).abs(), "", Bar::AtMost(0.1));
        Ok(())
    };
    for rate in [1e-2, 1e-4, 1e-6] {
        report.section(format!("Bloom filter, {rate:e}"));
        measure("standard".into(), BloomOptions::new(args.urls, rate), rate, report)?;
        measure("blocked".into(), BloomOptions::new(args.urls, rate).blocked(), rate, report)?;
    }
    report.section("Bloom filter, 16 bits and 8 functions, by hash family");
    for family in [HashFamily::Xxh3, HashFamily::Bkdr, HashFamily::Ap, HashFamily::Djb] {
        let options = BloomOptions::classic(args.urls).family(family);
        measure(format!("{family:?}"), options, 5.745e-4, report)?;
    }
    Ok(())
}

fn speed(args: &SeenArgs, list: &UrlList, report: &mut Report) -> Outcome<()> {
    const RATE: f64 = 0.01;
    report.section("Bloom filters beside fastbloom, rate 0.01");
    let names = ["fastbloom", "standard", "blocked"];
    let mut times: [[Vec<f64>; 3]; 3] = Default::default();
    for _ in 0..args.rounds {
        let capacity = args.urls;
        let fast = AtomicBloomFilter::with_false_pos(RATE).seed(&1).expected_items(capacity as usize);
        let standard = BloomFilter::in_memory(BloomOptions::new(capacity, RATE))?;
        let blocked = BloomFilter::in_memory(BloomOptions::new(capacity, RATE).blocked())?;
        let mut sums = [[0.0; 3]; 3];
        let mut batches = 0.0;
        for first in (0..args.urls).step_by(BATCH as usize) {
            let batch = Batch::of(list, first..first + BATCH);
            sums[0][0] += batch.time(|url| fast.insert(url));
            sums[0][1] += batch.time(|url| standard.check_and_insert(url));
            sums[0][2] += batch.time(|url| blocked.check_and_insert(url));
            batches += 1.0;
        }
        let mut random = Random::of(args.seed, 7);
        for (kind, first) in [(1, 0), (2, STRANGERS)] {
            for _ in 0..batches as u64 {
                let batch = Batch::of(list, (0..BATCH).map(|_| first + random.below(args.urls)));
                sums[kind][0] += batch.time(|url| fast.contains(url));
                sums[kind][1] += batch.time(|url| standard.contains(url));
                sums[kind][2] += batch.time(|url| blocked.contains(url));
            }
        }
        for (kind, sums) in sums.iter().enumerate() {
            for (side, sum) in sums.iter().enumerate() {
                times[kind][side].push(sum / batches);
            }
        }
    }
    for (kind, name) in ["check and insert", "look-up, there", "look-up, not there"].iter().enumerate() {
        let medians: Vec<f64> = times[kind].iter().map(|times| median(times.clone())).collect();
        for (side, set) in names.iter().enumerate() {
            report.number(format!("{name}: {set}"), medians[side], "ns");
        }
        for side in 1..3 {
            let ratio = medians[0] / medians[side];
            report.against(format!("{name}: {} against fastbloom", names[side]), ratio, "x", Bar::AtLeast(1.0));
        }
    }
    Ok(())
}

fn growing(args: &SeenArgs, list: &UrlList, report: &mut Report) -> Outcome<()> {
    for rate in [1e-2, 1e-3, 1e-4, 1e-6] {
        report.section(format!("growing filter, {rate:e}"));
        let set = GrowingFilter::in_memory(rate, 1)?;
        let (mut number, mut mark, mut time, mut worst) = (0, 100_000, 0.0, 0.0f64);
        while set.len() < args.urls {
            let batch = Batch::of(list, number..number + BATCH);
            time = batch.time(|url| set.check_and_insert(url).is_ok());
            number += BATCH;
            let ideal = set.len() as f64 * -f64::log2(rate) / std::f64::consts::LN_2;
            let ratio = set.memory_bytes() as f64 * 8.0 / ideal;
            worst = worst.max(ratio);
            if set.len() >= mark {
                report.number(format!("at {:.1e} URLs, of the ideal bits", set.len() as f64), ratio, "x");
                mark *= 2;
            }
        }
        report.against("of the ideal bits, at worst", worst, "x", Bar::AtMost(1.3));
        report.number("check and insert, at the end", time, "ns");
        let batch = Batch::of(list, STRANGERS..STRANGERS + BATCH);
        report.number("look-up, not there", batch.time(|url| set.contains(url).is_ok()), "ns");
        let (tests, mut wrong, mut url) = (((300.0 / rate) as u64).clamp(1_000_000, 30_000_000), 0, Vec::new());
        for number in STRANGERS..STRANGERS + tests {
            list.url(number, &mut url);
            url.extend_from_slice(&number.to_le_bytes());
            wrong += u64::from(!set.contains(&url)?.is_new());
        }
        report.against("false positives", wrong as f64 / tests as f64, "", Bar::AtMost(rate));
        report.number("false positives, by the set", set.false_positive_rate(), "");
    }
    Ok(())
}

fn trie(args: &SeenArgs, list: &UrlList, report: &mut Report) -> Outcome<()> {
    report.section("trie");
    let before = anonymous_bytes()?;
    let trie = UrlTrie::new();
    let (mut number, mut raw_bytes, mut insert) = (0, 0u64, [Vec::new(), Vec::new()]);
    let mut verdicts = Vec::new();
    while trie.len() < args.urls {
        let batch = Batch::of(list, number..number + BATCH);
        let mut new_bytes = 0;
        // One at a time and in batches, in turn.
        let is_single = (number / BATCH).is_multiple_of(2);
        let time = if is_single {
            batch.time(|url| {
                if trie.check_and_insert(url).is_ok_and(|verdict| verdict.is_new()) {
                    new_bytes += url.len() as u64;
                }
            })
        } else {
            batch.time_together(|urls| {
                let is_done = trie.check_and_insert_batch(urls, &mut verdicts).is_ok();
                let new = urls.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_new());
                new_bytes += new.map(|(url, _)| url.len() as u64).sum::<u64>();
                is_done
            })
        };
        insert[usize::from(!is_single)].push(time);
        raw_bytes += new_bytes;
        number += BATCH;
    }
    let urls = trie.len() as f64;
    report.count("URLs", trie.len());
    report.count("made for them", number);
    report.number("bytes of text a URL", raw_bytes as f64 / urls, "");
    report.against("bytes a URL", trie.memory_bytes() as f64 / urls, "", Bar::AtMost(30.0));
    let resident = anonymous_bytes()?.saturating_sub(before);
    report.number("bytes a URL, resident", resident as f64 / urls, "");
    // A hash set of texts takes at least: text, allocation, 24 + 1 bytes of table at a load of at
    // most 7/8.
    let slots = (args.urls * 8 / 7).next_power_of_two() as f64;
    let texts = raw_bytes as f64 + urls * 16.0 + slots * 25.0;
    report.against("a hash set of the texts", texts / trie.memory_bytes() as f64, "x", Bar::AtLeast(4.0));
    for (name, times) in ["insert, the last tenth", "insert in batches, the last tenth"].into_iter().zip(&insert) {
        let last = &times[times.len() - times.len().div_ceil(10)..];
        let time = last.iter().sum::<f64>() / last.len().max(1) as f64;
        report.against(name, time / 1e3, "us", Bar::AtMost(1.0));
    }
    let mut random = Random::of(args.seed, 9);
    for (name, first) in [("look-up, there", 0), ("look-up, not there", STRANGERS)] {
        let batch = Batch::of(list, (0..10 * BATCH).map(|_| first + random.below(number)));
        let times = (0..args.rounds).map(|_| batch.time(|url| trie.contains(url)));
        report.against(name, median(times.collect()) / 1e3, "us", Bar::AtMost(1.0));
        let together = || batch.time_together(|urls| trie.contains_batch(urls, &mut verdicts).is_ok());
        let times = std::iter::repeat_with(together).take(args.rounds);
        report.against(format!("{name}, in batches"), median(times.collect()) / 1e3, "us", Bar::AtMost(1.0));
    }
    let batch = Batch::of(list, (0..10 * BATCH).map(|_| random.below(number)));
    let whole = batch.time(|url| Whatwg.canonical(url).map(|key| trie.contains(&key)));
    report.against("text to verdict", whole / 1e3, "us", Bar::AtMost(1.0));
    Ok(())
}
