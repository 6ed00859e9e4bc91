//! A put of a generated page (median 4 KB) by one thread, beside its largest part, compression.
//!
//!     cargo bench -p filemap-benches --bench put

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use filemap_benches::fixture::{Fixture, SEED};
use filemap_benches::generate::{Generator, Page};
use filemap_core::Record;
use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

/// Calls `work` with page after page and counts only its time.
fn timed(first: &mut u64, count: u64, generator: &Generator, mut work: impl FnMut(&Page)) -> Duration {
    let mut page = Page::default();
    let mut total = Duration::ZERO;
    for _ in 0..count {
        generator.page(*first, &mut page);
        *first += 1;
        let begun = Instant::now();
        work(black_box(&page));
        total += begun.elapsed();
    }
    total
}

fn put(criterion: &mut Criterion) {
    let fixture = Fixture::empty("put").expect("an empty store");
    let store = fixture.store();
    let generator = Generator::new(SEED);
    let mut group = criterion.benchmark_group("generated page");
    let mut number = 0;
    group.bench_function("put", |bencher| {
        bencher.iter_custom(|count| {
            timed(&mut number, count, &generator, |page| {
                store.put(&Record::new(&page.url, &page.body)).expect("a put");
            })
        });
    });
    let mut number = 0;
    let mut compressor = Compressor::new(3).expect("zstd compresses");
    let mut out = Vec::new();
    group.bench_function("part: compress", |bencher| {
        bencher.iter_custom(|count| {
            timed(&mut number, count, &generator, |page| {
                out.clear();
                out.reserve(compress_bound(page.body.len()));
                compressor.compress_to_buffer(&page.body, &mut out).expect("zstd compresses");
            })
        });
    });
    group.finish();
}

criterion_group!(benches, put);
criterion_main!(benches);
