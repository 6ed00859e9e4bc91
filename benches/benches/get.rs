//! A warm get of a 16 KB page beside its parts: the lookup, one read of the compressed bytes, and
//! their decompression.
//!
//!     cargo bench -p filemap-benches --bench get

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use filemap_benches::fixture::{Fixture, SEED, keys, random_urls};
use filemap_benches::generate::{Generator, Page};
use filemap_benches::random::Random;
use filemap_core::Record;
use zstd::bulk::{Decompressor, compress};

const BODY_BYTES: usize = 16 << 10;
/// They fit in the page cache of any machine.
const PAGES_MAX: u64 = 20_000;

/// A body of exactly 16 KB: generated pages end to end.
fn body(generator: &Generator, number: u64) -> Vec<u8> {
    let (mut body, mut page) = (Vec::new(), Page::default());
    for part in 0.. {
        generator.page(number * 1000 + part, &mut page);
        body.extend_from_slice(&page.body);
        if body.len() >= BODY_BYTES {
            break;
        }
    }
    body.truncate(BODY_BYTES);
    body
}

/// The same pages as bare frames in one file: the least that a get must do.
struct Frames {
    file: File,
    at: Vec<(u64, usize)>,
}

impl Frames {
    fn write(fixture: &Fixture, generator: &Generator, pages: u64) -> std::io::Result<Frames> {
        let path = fixture.dir().with_extension("frames");
        let (mut at, mut all) = (Vec::new(), Vec::new());
        for number in 0..pages {
            let frame = compress(&body(generator, number), 3)?;
            at.push((all.len() as u64, frame.len()));
            all.extend_from_slice(&frame);
        }
        std::fs::write(&path, &all)?;
        let file = File::open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(Frames { file, at })
    }
}

fn get(criterion: &mut Criterion) {
    let pages = keys().min(PAGES_MAX);
    let fixture = Fixture::empty("get").expect("an empty store");
    let store = fixture.store();
    let generator = Generator::new(SEED);
    let mut url = Vec::new();
    for number in 0..pages {
        generator.url(number, &mut url);
        store.put(&Record::new(&url, &body(&generator, number))).expect("a put");
    }
    store.checkpoint().expect("a checkpoint");
    let urls = random_urls(0, pages, 100_000);
    let mut group = criterion.benchmark_group("16 KB page");
    group.throughput(Throughput::Bytes(BODY_BYTES as u64));
    let mut turn = urls.iter().cycle();
    group.bench_function("get", |bencher| {
        bencher.iter(|| store.get(black_box(turn.next().expect("a cycle never ends"))));
    });
    let mut turn = urls.iter().cycle();
    let mut into = Vec::new();
    group.bench_function("get into a buffer", |bencher| {
        bencher.iter(|| store.get_into(black_box(turn.next().expect("a cycle never ends")), &mut into));
    });
    let mut turn = urls.iter().cycle();
    group.bench_function("part: locate", |bencher| {
        bencher.iter(|| store.locate(black_box(turn.next().expect("a cycle never ends"))));
    });
    let frames = Frames::write(&fixture, &generator, pages).expect("a file beside the store");
    let mut random = Random::of(SEED, 0);
    let (mut buffer, mut out) = (vec![0; 2 * BODY_BYTES], Vec::with_capacity(BODY_BYTES));
    let mut read = |buffer: &mut [u8]| {
        let (offset, len) = frames.at[random.below(pages) as usize];
        frames.file.read_exact_at(&mut buffer[..len], offset).expect("a whole frame");
        len
    };
    group.bench_function("part: read", |bencher| bencher.iter(|| read(black_box(&mut buffer))));
    let mut decompressor = Decompressor::new().expect("zstd decompresses");
    group.bench_function("parts: read and decompress", |bencher| {
        bencher.iter(|| {
            let len = read(&mut buffer);
            out.clear();
            decompressor.decompress_to_buffer(black_box(&buffer[..len]), &mut out)
        });
    });
    group.finish();
}

criterion_group!(benches, get);
criterion_main!(benches);
