//! URL-seen sets one call at a time, and those on disk in batches too, on URLs made from the list
//! in tests/data. `fm-bench seen` has the targets.
//!
//!     cargo bench -p filemap-benches --bench seen
//!
//! `FM_BENCH_KEYS` is the number of URLs in each set: by default ten million, some minutes and 3
//! GB of memory.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fastbloom::AtomicBloomFilter;
use filemap_benches::random::Random;
use filemap_benches::urls::UrlList;
use urlindex::disk::UrlBatch;
use urlindex::hash::md5_slot;
use urlindex::{
    BloomFilter, BloomOptions, Canonicalizer, CrawlRules, DiskOptions, DiskUrlSet, GrowingFilter, SeenSet, UrlTrie,
    Whatwg,
};

/// URLs that are asked for in turn: more than the processor's caches hold.
const ASKED: u64 = 1_000_000;

fn keys() -> u64 {
    std::env::var("FM_BENCH_KEYS").ok().and_then(|keys| keys.parse().ok()).unwrap_or(10_000_000)
}

fn list() -> UrlList {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/urls/wiki-urls-10000.txt");
    UrlList::read(&path, 1).expect("the list is in the repository")
}

fn urls(list: &UrlList, first: u64, below: u64) -> Vec<Vec<u8>> {
    let mut random = Random::of(first, 3);
    let url = |_| {
        let mut url = Vec::new();
        list.url(first + random.below(below), &mut url);
        url
    };
    (0..ASKED.min(below)).map(url).collect()
}

fn canonical(criterion: &mut Criterion) {
    let urls = urls(&list(), 0, 10_000);
    let crawl = CrawlRules::crawl();
    let rules: [(&str, &dyn Canonicalizer); 2] = [("whatwg", &Whatwg), ("crawl", &crawl)];
    for (name, rules) in rules {
        let mut turn = urls.iter().cycle();
        criterion.bench_function(&format!("canonical {name}"), |bencher| {
            bencher.iter(|| rules.canonical(turn.next().expect("a cycle never ends")).map(|key| key.len()));
        });
    }
    let mut turn = urls.iter().cycle();
    criterion.bench_function("md5 slot", |bencher| {
        bencher.iter(|| md5_slot(turn.next().expect("a cycle never ends"), 28));
    });
}

fn sets(criterion: &mut Criterion) {
    let (list, keys) = (list(), keys());
    let standard = BloomFilter::in_memory(BloomOptions::new(keys, 0.01)).expect("a filter");
    let blocked = BloomFilter::in_memory(BloomOptions::new(keys, 0.01).blocked()).expect("a filter");
    let growing = GrowingFilter::in_memory(0.001, 1).expect("a filter");
    let trie = UrlTrie::new();
    let sets: [(&str, &dyn SeenSet); 4] =
        [("bloom", &standard), ("bloom blocked", &blocked), ("growing", &growing), ("trie", &trie)];
    let fast = AtomicBloomFilter::with_false_pos(0.01).seed(&1).expected_items(keys as usize);
    let mut url = Vec::new();
    for number in 0..keys {
        list.url(number, &mut url);
        fast.insert(&url[..]);
        for (_, set) in sets {
            set.insert(&url).expect("inserted");
        }
    }
    for (kind, first) in [("there", 0), ("not there", 1 << 40)] {
        let urls = urls(&list, first, keys);
        for (name, set) in sets {
            let mut turn = urls.iter().cycle();
            criterion.bench_function(&format!("{name}, {kind}"), |bencher| {
                bencher.iter(|| set.contains(black_box(turn.next().expect("a cycle never ends"))));
            });
        }
        let mut turn = urls.iter().cycle();
        criterion.bench_function(&format!("fastbloom, {kind}"), |bencher| {
            bencher.iter(|| fast.contains(black_box(&turn.next().expect("a cycle never ends")[..])));
        });
    }
}

/// URLs of a batch.
const BATCH: u64 = 1_000_000;

fn batch_of(set: &DiskUrlSet, list: &UrlList, numbers: impl Iterator<Item = u64>) -> UrlBatch {
    let (mut batch, mut url) = (set.batch(), Vec::new());
    for number in numbers {
        list.url(number, &mut url);
        batch.push(&url).expect("room");
    }
    batch
}

/// The sets on disk. A batch is made, and so hashed, outside of what is timed.
fn on_disk(criterion: &mut Criterion) {
    let (list, keys) = (list(), keys());
    let folder = tempfile::tempdir().expect("a folder");
    let options = || DiskOptions::new().memory_bytes(64 << 20);
    let set = DiskUrlSet::create(folder.path().join("disk"), options()).expect("a set");
    for first in (0..keys).step_by(BATCH as usize) {
        let mut batch = batch_of(&set, &list, first..keys.min(first + BATCH));
        set.check_and_insert_all(&mut batch).expect("inserted");
    }
    for (kind, first) in [("there", 0), ("not there", 1 << 40)] {
        let urls = urls(&list, first, keys);
        let mut turn = urls.iter().cycle();
        criterion.bench_function(&format!("disk, {kind}"), |bencher| {
            bencher.iter(|| set.contains(black_box(turn.next().expect("a cycle never ends"))));
        });
    }
    let mut group = criterion.benchmark_group("in batches of a million");
    group.sample_size(10).throughput(Throughput::Elements(BATCH));
    let mut random = Random::of(1, 5);
    group.bench_function("disk, look-up, half there", |bencher| {
        bencher.iter_custom(|rounds| {
            timed(
                rounds,
                || batch_of(&set, &list, (0..BATCH).map(|i| ((i % 2) << 40) + random.below(keys))),
                |batch| set.contains_all(batch).expect("known").new_count(),
            )
        });
    });
    let mut next = 1 << 41;
    let mut new = || {
        next += BATCH;
        batch_of(&set, &list, next - BATCH..next)
    };
    group.bench_function("disk, insert, new", |bencher| {
        bencher.iter_custom(|rounds| {
            timed(rounds, &mut new, |batch| set.check_and_insert_all(batch).expect("inserted").new_count())
        });
    });
    group.finish();
}

/// The time of `work` alone.
fn timed<T>(rounds: u64, mut make: impl FnMut() -> UrlBatch, mut work: impl FnMut(&mut UrlBatch) -> T) -> Duration {
    let mut time = Duration::ZERO;
    for _ in 0..rounds {
        let mut batch = make();
        let start = Instant::now();
        black_box(work(&mut batch));
        time += start.elapsed();
    }
    time
}

criterion_group!(benches, canonical, sets, on_disk);
criterion_main!(benches);
