//! Every byte, sector and length of the golden store damaged in turn. Each key must read as its
//! right value, as what it was before a damaged record of the log's tail, or as `Corrupt` with
//! file and offset. Damage costs only the keys whose bytes it hit, and is reported unless it hit
//! unused bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use filemap_core::Store;
use filemap_tests::hostile::forge::PAGE;
use filemap_tests::hostile::golden;
use filemap_tests::hostile::image::{Image, Scratch};
use filemap_tests::hostile::judge::{Expect, Told};
use filemap_tests::hostile::layout::{Cost, Layout};

const SECTOR: usize = 512;
/// The payload of the golden store's filler.
const FILLER: (usize, usize) = (3456 + 56, 3456 + 192);

struct Bench {
    image: Image,
    layout: Layout,
    scratch: Scratch,
    /// Cache of expectations by damage: they are expensive to calculate.
    known: BTreeMap<String, Expect>,
}

impl Bench {
    fn new(image: Image) -> Bench {
        let (layout, scratch) = (Layout::of(&image), Scratch::default());
        Bench { image, layout, scratch, known: BTreeMap::new() }
    }

    fn expect(&mut self, cost: &Cost) -> Expect {
        self.known.entry(format!("{cost:?}")).or_insert_with(|| Expect::new(cost)).clone()
    }

    /// Judges a damaged image both ways.
    fn both(&mut self, damaged: &Image, cost: &Cost, what: &str) -> Told {
        let expect = self.expect(cost);
        expect.both(damaged, &mut self.scratch).unwrap_or_else(|broken| panic!("{what}: {broken}"))
    }
}

fn sectors(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let len = bytes.len();
    (0..len).step_by(SECTOR).map(move |at| at..(at + SECTOR).min(len))
}

/// Merges offsets into (start, end) of runs.
fn runs(offsets: &[usize]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &at in offsets {
        match runs.last_mut() {
            Some(last) if last.1 == at => last.1 += 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs
}

/// Returns whether a reader waits for bytes there that do not verify, since they may be being
/// written: then every 64th byte is enough, and a writer, which does not wait, sees all.
fn is_waited_for(file: &str, cost: &Cost) -> bool {
    cost.opening && matches!(file, "SUPERBLOCK" | "address.idx")
}

/// Flips every byte of a file; see [`flip_bytes`].
fn flip_every_byte(file: &str) -> Vec<(usize, usize)> {
    flip_bytes(file, 0..golden::image().file(file).len())
}

/// Flips each of these bytes, in two patterns; the offsets at which nothing noticed.
fn flip_bytes(file: &str, range: Range<usize>) -> Vec<(usize, usize)> {
    let mut bench = Bench::new(golden::image());
    let mut silent = Vec::new();
    let mut damaged = bench.image.clone();
    for at in range {
        let cost = bench.layout.cost(file, at..at + 1);
        let expect = bench.expect(&cost);
        let mut told = false;
        for (nth, pattern) in [1u8 << (at % 8), 0xff].into_iter().enumerate() {
            // Nobody looks there: one pattern, and both now and then.
            if nth == 1 && cost.harmless && at % 8 != 0 {
                continue;
            }
            damaged.file_mut(file)[at] ^= pattern;
            let reads = nth == 0 && (!is_waited_for(file, &cost) || at % 64 == 0);
            let scratch = &mut bench.scratch;
            let result = if reads { expect.reading(&damaged, scratch) } else { expect.writing(&damaged, scratch) };
            told |= result.unwrap_or_else(|broken| panic!("{file} byte {at} ^ {pattern:#x}: {broken}")).told;
            damaged.file_mut(file)[at] ^= pattern;
        }
        assert_eq!(told, !cost.harmless, "{file} byte {at} holds something, or something told it");
        if !told {
            silent.push(at);
        }
    }
    runs(&silent)
}

#[test]
fn every_flipped_byte_of_the_superblock_is_told_but_those_between_its_copies() {
    assert_eq!(flip_every_byte("SUPERBLOCK"), [(512, 4096), (4608, 8192)]);
}

#[test]
fn every_flipped_byte_of_the_value_log_is_told_but_those_that_a_filler_covers() {
    assert_eq!(flip_every_byte("value0.dat"), [FILLER]);
}

#[test]
fn every_flipped_byte_of_the_key_log_is_told_but_the_padding() {
    let silent = flip_every_byte("key0.dat");
    assert_eq!(silent.iter().map(|(start, end)| end - start).max(), Some(15), "{silent:?}");
    assert_eq!(silent.len(), 13, "one for each record: {silent:?}");
}

// Behind the header of page 0 lie zeros; pages 1 and 3 are a leaf and the node of the first
// checkpoint.

#[test]
fn every_flipped_byte_of_the_first_half_of_the_index_is_told_but_those_of_free_pages() {
    assert_eq!(flip_bytes("address.idx", 0..3 * PAGE), [(64, 2 * PAGE)]);
}

#[test]
fn every_flipped_byte_of_the_second_half_of_the_index_is_told_but_those_of_free_pages() {
    assert_eq!(golden::image().file("address.idx").len(), 8 * PAGE);
    assert_eq!(flip_bytes("address.idx", 3 * PAGE..8 * PAGE), [(3 * PAGE, 5 * PAGE)]);
}

#[test]
fn every_cut_is_told_but_one_between_records_of_the_tail() {
    let mut bench = Bench::new(golden::image());
    for (file, bytes) in bench.image.clone().0 {
        let step = if file == "address.idx" { SECTOR } else { 1 };
        for at in (0..bytes.len()).step_by(step) {
            let mut cost = bench.layout.cost(&file, at..bytes.len());
            let is_log_tail = file == "value0.dat" && at >= bench.layout.tail;
            cost.opening = !is_log_tail;
            let mut damaged = bench.image.clone();
            damaged.file_mut(&file).truncate(at);
            let told = if is_waited_for(&file, &cost) && at % 64 != 0 {
                let expect = bench.expect(&cost);
                expect
                    .writing(&damaged, &mut bench.scratch)
                    .unwrap_or_else(|broken| panic!("{file} cut at {at}: {broken}"))
            } else {
                bench.both(&damaged, &cost, &format!("{file} cut at {at}"))
            };
            let is_whole = is_log_tail && bench.layout.values.iter().any(|e| e.range.start == at);
            assert_eq!(told.told, !is_whole, "{file} cut at {at}");
        }
    }
}

#[test]
fn every_zeroed_sector_costs_only_what_lay_there() {
    let mut bench = Bench::new(golden::image());
    for (file, bytes) in bench.image.clone().0 {
        for sector in sectors(&bytes).filter(|s| bytes[s.clone()].iter().any(|&b| b != 0)) {
            let mut cost = bench.layout.cost(&file, sector.clone());
            cost.opening |= file == "SUPERBLOCK";
            let mut damaged = bench.image.clone();
            damaged.file_mut(&file)[sector.clone()].fill(0);
            let told = bench.both(&damaged, &cost, &format!("{file} zeroed at {}", sector.start));
            assert!(told.told || cost.harmless, "{file} zeroed at {}", sector.start);
        }
    }
}

#[test]
fn misdirected_sectors_never_read_as_something_else() {
    let mut bench = Bench::new(golden::image());
    let mut places: Vec<(String, Range<usize>)> = Vec::new();
    for (file, bytes) in &bench.image.0 {
        places.extend(sectors(bytes).map(|s| (file.clone(), s)));
    }
    let mut swaps = 0;
    for (nth, a) in places.iter().enumerate() {
        for (mth, b) in places.iter().enumerate().skip(nth + 1) {
            let is_sampled = a.0 == b.0 || (nth * 31 + mth) % 7 == 0;
            let (x, y) = (bench.image.file(&a.0)[a.1.clone()].to_vec(), bench.image.file(&b.0)[b.1.clone()].to_vec());
            if !is_sampled || x == y || x.len() != y.len() {
                continue;
            }
            let mut damaged = bench.image.clone();
            damaged.file_mut(&a.0)[a.1.clone()].copy_from_slice(&y);
            damaged.file_mut(&b.0)[b.1.clone()].copy_from_slice(&x);
            let mut cost = bench.layout.cost(&a.0, a.1.clone());
            cost.add(bench.layout.cost(&b.0, b.1.clone()));
            let what = format!("{} at {} and {} at {} changed places", a.0, a.1.start, b.0, b.1.start);
            let told = bench.both(&damaged, &cost, &what);
            assert!(told.told || cost.harmless, "{what}");
            swaps += 1;
        }
    }
    assert!(swaps > 500, "{swaps} swaps");
}

#[test]
fn a_sector_of_an_earlier_generation_never_reads_as_something_else() {
    let old = golden::image();
    let temp = tempfile::tempdir().unwrap();
    old.write(temp.path()).unwrap();
    Store::open(temp.path(), golden::options()).unwrap().close().unwrap();
    let mut new = Image::read(temp.path()).unwrap();
    new.file_mut("LOCK").clear();
    let mut bench = Bench::new(new.clone());
    let mut replaced = 0;
    for (file, bytes) in new.0 {
        for sector in sectors(&bytes) {
            let mut stale =
                old.file(&file).get(sector.start..sector.end.min(old.file(&file).len())).unwrap_or(&[]).to_vec();
            stale.resize(sector.len(), 0);
            if stale == bytes[sector.clone()] {
                continue;
            }
            let mut damaged = bench.image.clone();
            damaged.file_mut(&file)[sector.clone()].copy_from_slice(&stale);
            let mut cost = bench.layout.cost(&file, sector.clone());
            cost.opening |= file == "SUPERBLOCK";
            bench.both(&damaged, &cost, &format!("{file} of before at {}", sector.start));
            replaced += 1;
        }
    }
    assert!(replaced > PAGE / SECTOR, "{replaced} sectors");
}

#[test]
fn a_missing_file_is_told() {
    let mut bench = Bench::new(golden::image());
    for file in ["SUPERBLOCK", "key0.dat", "address.idx", "value0.dat"] {
        let mut damaged = bench.image.clone();
        damaged.0.remove(file);
        let mut cost = bench.layout.cost(file, 0..usize::MAX);
        cost.opening = true;
        let expect = bench.expect(&cost);
        let broken = |broken| panic!("{file} is missing: {broken}");
        // Of a store without a segment of values all else is read.
        let reader = expect.reading(&damaged, &mut bench.scratch).unwrap_or_else(broken);
        assert_eq!(reader, Told { told: true, closed: file != "value0.dat" }, "{file}");
        let writer = expect.writing(&damaged, &mut bench.scratch).unwrap_or_else(broken);
        assert_eq!(writer, Told { told: true, closed: true }, "{file}");
    }
}
