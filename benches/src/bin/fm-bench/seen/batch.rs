//! Batches of URLs, made before the clock runs.

use std::hint::black_box;

use filemap_benches::urls::UrlList;
use rustix::time::{ClockId, clock_gettime};

/// URLs in one call of a set's batch methods.
const TOGETHER: usize = 1_000;
/// Numbers from here on stand for URLs that are never inserted.
pub const STRANGERS: u64 = 1 << 40;

/// URLs in one buffer.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    /// The URLs of a list that have these numbers.
    pub fn of(list: &UrlList, numbers: impl Iterator<Item = u64>) -> Batch {
        let (mut batch, mut url) = (Batch::default(), Vec::new());
        for number in numbers {
            list.url(number, &mut url);
            batch.bytes.extend_from_slice(&url);
            batch.ends.push(batch.bytes.len());
        }
        batch
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// As [`Batch::time`]; `work` gets [`TOGETHER`] URLs at a time.
    pub fn time_together<T>(&self, mut work: impl FnMut(&[&[u8]]) -> T) -> f64 {
        let urls: Vec<&[u8]> = self.iter().collect();
        let start = core_ns();
        urls.chunks(TOGETHER).for_each(|urls| {
            black_box(work(urls));
        });
        (core_ns() - start) as f64 / urls.len() as f64
    }

    /// Processor time for each URL, in ns: other work on the machine does not count.
    pub fn time<T>(&self, mut work: impl FnMut(&[u8]) -> T) -> f64 {
        let start = core_ns();
        self.iter().for_each(|url| {
            black_box(work(url));
        });
        (core_ns() - start) as f64 / self.ends.len() as f64
    }
}

/// Processor time of this thread, in ns.
pub fn core_ns() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
