//! Cost of calls in requests and bytes, counted over objects in memory.

use std::sync::Arc;
use std::time::Duration;

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::{CloudOptions, Mode, open_on};

use crate::bucket::{Faults, Simulated};

/// Number of pages that are loaded, and number of reads.
const PAGES: usize = 20_000;
const READS: usize = 2_000;
/// Requests of a poll for changes: the manifest, and the end of the log.
const LOOK: u64 = 10;

/// Returns a page whose body compresses to about half: it uses 16 letters.
fn page(nth: usize) -> Page {
    let mut random = fastrand::Rng::with_seed(nth as u64);
    let body: Vec<u8> = (0..6_000).map(|_| b"abcdefghijklmnop"[random.usize(..16)]).collect();
    let mut page = Page::new(format!("https://host{}.example/page/{nth}", nth % 50), 1_700_000_000_000, 200, body);
    page.headers.push("Content-Type", "text/html");
    page
}

#[test]
fn requests_and_bytes_of_a_load_of_reads_and_of_opening_are_bounded() {
    let objects = Arc::default();
    let end = || Simulated::new(Arc::clone(&objects), 0, Faults::default());
    // Later polls must not be counted.
    let options = CloudOptions::new().poll(Duration::from_secs(3600));
    let open =
        |end: &Arc<Simulated>, mode| open_on(Arc::clone(end) as _, "a", "the test", mode, &options).expect("open");
    let writing = end();
    let writer = open(&writing, Mode::Fill);
    writing.quiet();
    (0..PAGES).for_each(|nth| assert!(writer.put(&page(nth), PutRule::Always).is_ok()));
    writer.sync().expect("synced");
    let [_, puts, _, _, written] = writing.counts.take();
    let stored = writer.contents().expect("told").bytes.expect("told");
    assert!(puts as f64 <= 0.0006 * PAGES as f64, "{puts} PUT requests for {PAGES} pages");
    assert!(written as f64 <= 1.05 * stored as f64, "{written} bytes written for {stored}");
    writer.close().expect("closed");

    let reading = end();
    // The index polls at once, concurrently with its opening: some openings are counted with that
    // poll, but not all.
    let mut openings = Vec::new();
    let reader = loop {
        reading.counts.take();
        let reader = open(&reading, Mode::Read);
        let requests = reading.counts.take()[..4].iter().sum::<u64>();
        openings.push(requests);
        // What is left of the poll must not be counted below, nor in the next opening.
        reading.quiet();
        if requests <= 16 || openings.len() == 20 {
            break reader;
        }
        reader.close().expect("closed");
    };
    assert!(openings.iter().any(|&requests| requests <= 16), "a reader opens with {openings:?} requests");
    assert!(openings.iter().all(|&requests| requests <= 16 + LOOK), "a reader opens with {openings:?} requests");
    let sample: Vec<usize> = (0..READS).map(|nth| nth * 7919 % PAGES).collect();
    for (bound, heat) in [(2.1, "cold"), (1.0, "warm")] {
        for &nth in &sample {
            assert!(reader.get(&Lookup::new(&page(nth).url)).expect("readable").is_some());
        }
        let [gets, puts, lists, ..] = reading.counts.take();
        let mean = gets as f64 / READS as f64;
        assert!(mean <= bound && puts + lists == 0, "{mean} GET requests for a {heat} get, {puts} PUT, {lists} LIST");
    }
    // Without a body.
    assert_eq!(reader.count(&Scope::new()).expect("counted"), PAGES as u64);
    let [gets, ..] = reading.counts.take();
    assert!(gets <= 20, "{gets} GET requests for a listing");
    for nth in 0..1_000 {
        assert!(!reader.contains(&Lookup::new(&format!("https://host1.example/absent/{nth}"))).expect("readable"));
    }
    let [gets, ..] = reading.counts.take();
    assert!(gets <= 20, "{gets} GET requests for 1,000 absent pages");
    reader.close().expect("closed");
}
