//! Lookup of a key among ten million with everything in the page cache, present and absent.
//!
//!     cargo bench -p filemap-benches --bench locate
//!
//! `locate` is the index lookup alone; `contains` also reads the key record that confirms it.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use filemap_benches::fixture::{Fixture, keys, random_urls};

/// Enough lookups that neither slots nor leaves stay in the processor's caches.
const URLS: usize = 1_000_000;

fn locate(criterion: &mut Criterion) {
    let keys = keys();
    let fixture = Fixture::loaded("locate", keys, 16).expect("a loaded store");
    let store = fixture.store();
    let mut group = criterion.benchmark_group(format!("{keys} keys"));
    for (name, first, there) in [("hit", 0, true), ("miss", 1 << 40, false)] {
        let urls = random_urls(first, keys, URLS);
        for url in &urls {
            assert_eq!(store.contains(url).expect("a look-up"), there, "{}", String::from_utf8_lossy(url));
        }
        let mut turn = urls.iter().cycle();
        group.bench_function(format!("contains {name}"), |bencher| {
            bencher.iter(|| store.contains(black_box(turn.next().expect("a cycle never ends"))));
        });
        let mut turn = urls.iter().cycle();
        group.bench_function(format!("locate {name}"), |bencher| {
            bencher.iter(|| store.locate(black_box(turn.next().expect("a cycle never ends"))));
        });
    }
    group.finish();
}

criterion_group!(benches, locate);
criterion_main!(benches);
