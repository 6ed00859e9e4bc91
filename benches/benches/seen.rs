//! The URL-seen sets, one call at a time, on URLs made of the list in tests/data: `fm-bench seen` has the bars.
//!
//!     cargo bench -p filemap-benches --bench seen
//!
//! `FM_BENCH_KEYS` says how many URLs each set holds (a million by default).

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use fastbloom::AtomicBloomFilter;
use filemap_benches::random::Random;
use filemap_benches::urls::UrlList;
use urlindex::{
    BloomFilter, BloomOptions, Canonicalizer, CrawlRules, GrowingFilter, SeenSet, UrlTrie, Whatwg, md5_slot,
};

/// URLs that are asked for in turn: more than the processor's caches hold.
const ASKED: u64 = 1_000_000;

fn keys() -> u64 {
    std::env::var("FM_BENCH_KEYS").ok().and_then(|keys| keys.parse().ok()).unwrap_or(1_000_000)
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

criterion_group!(benches, canonical, sets);
criterion_main!(benches);
