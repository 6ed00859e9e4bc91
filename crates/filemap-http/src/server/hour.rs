//! The last hour of a server, in points of ten seconds: reads and puts, latency of page requests,
//! and growth of the store.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use filemap_core::Stats;
use serde_json::{Map, Value, json};

/// Time between two points, and number of points kept.
pub(super) const EVERY: Duration = Duration::from_secs(10);
pub(super) const KEPT: usize = 360;

/// Counters of a point, by their names in the engine's figures.
pub(super) const COUNTED: [&str; 5] = ["gets", "hits", "puts", "unchanged_puts", "removes"];

/// Histogram buckets: from 32 us to 16 s, each bound a fourth root of 2 above the previous one. So
/// a quantile is at most 19% too high.
const BOUNDS: usize = 77;
const FIRST_US: f64 = 32.0;

/// Histogram of request times since the last point.
struct Times([AtomicU64; BOUNDS]);

impl Default for Times {
    fn default() -> Times {
        Times(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// The upper bound of a bucket, in microseconds.
fn bound(at: usize) -> f64 {
    FIRST_US * 2f64.powf(at as f64 / 4.0)
}

impl Times {
    fn add(&self, took: Duration) {
        let us = took.as_secs_f64() * 1e6;
        let at = if us <= FIRST_US { 0.0 } else { (4.0 * (us / FIRST_US).log2()).ceil() };
        self.0[(at as usize).min(BOUNDS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes median and 99th percentile in microseconds, and resets the histogram. `None` if it is
    /// empty.
    fn take(&self) -> Option<Spread> {
        let counts: [u64; BOUNDS] = std::array::from_fn(|at| self.0[at].swap(0, Ordering::Relaxed));
        let all: u64 = counts.iter().sum();
        let quantile = |share: f64| {
            let wanted = (share * all as f64).ceil() as u64;
            let mut sum = 0;
            let at = counts.iter().position(|count| {
                sum += count;
                sum >= wanted
            });
            bound(at.unwrap_or(BOUNDS - 1)) as u64
        };
        (all > 0).then(|| Spread { median_us: quantile(0.5), p99_us: quantile(0.99) })
    }
}

/// Latency of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) median_us: u64,
    pub(super) p99_us: u64,
}

/// Ten seconds of the hour.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// Its end, in ms since 1970.
    time_ms: u64,
    /// Rates of [`COUNTED`], per second.
    pub(super) rates: [f64; COUNTED.len()],
    /// Latency of requests for pages.
    pub(super) gets: Option<Spread>,
    pub(super) puts: Option<Spread>,
    pub(super) disk_bytes: u64,
}

/// The points of an hour, and the counters for the next one.
#[derive(Default)]
pub(super) struct Hour {
    gets: Times,
    puts: Times,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    points: VecDeque<Point>,
    /// The counters at the last point.
    last: Option<(Instant, [u64; COUNTED.len()])>,
}

impl Hour {
    /// Records a request for a page, by its method.
    pub(super) fn add(&self, method: &str, took: Duration) {
        match method {
            "GET" => self.gets.add(took),
            "PUT" => self.puts.add(took),
            _ => {}
        }
    }

    /// All points, oldest first.
    pub(super) fn points(&self) -> Vec<Point> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).points.iter().cloned().collect()
    }

    /// Adds a point: the counts since the previous one.
    pub(super) fn note(&self, stats: &Stats) {
        let now = Instant::now();
        let counted = [stats.gets, stats.hits, stats.puts, stats.unchanged_puts, stats.removes];
        let (gets, puts) = (self.gets.take(), self.puts.take());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((then, before)) = kept.last.replace((now, counted)) else { return };
        let seconds = (now - then).as_secs_f64().max(1e-3);
        let rates = std::array::from_fn(|at| counted[at].saturating_sub(before[at]) as f64 / seconds);
        let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        if kept.points.len() == KEPT {
            kept.points.pop_front();
        }
        kept.points.push_back(Point { time_ms, rates, gets, puts, disk_bytes: stats.disk_bytes });
    }
}

/// A point as a JSON object.
pub(super) fn of_point(point: &Point) -> Value {
    let mut fields = Map::new();
    fields.insert("time_ms".to_owned(), json!(point.time_ms));
    for (name, rate) in COUNTED.iter().zip(point.rates) {
        fields.insert(format!("{name}_per_second"), json!((rate * 1000.0).round() / 1000.0));
    }
    for (name, spread) in [("get", point.gets), ("put", point.puts)] {
        fields.insert(format!("{name}_p50_us"), json!(spread.map(|spread| spread.median_us)));
        fields.insert(format!("{name}_p99_us"), json!(spread.map(|spread| spread.p99_us)));
    }
    fields.insert("disk_bytes".to_owned(), json!(point.disk_bytes));
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near_and_never_too_low() {
        let times = Times::default();
        assert_eq!(times.take(), None);
        for us in 1..=1000u64 {
            times.add(Duration::from_micros(us * 10));
        }
        let spread = times.take().expect("a thousand");
        assert!((5000..=5950).contains(&spread.median_us), "{spread:?}");
        assert!((9900..=11_780).contains(&spread.p99_us), "{spread:?}");
        assert_eq!(times.take(), None, "it was reset");
        times.add(Duration::from_secs(3600));
        times.add(Duration::ZERO);
        let spread = times.take().expect("two");
        assert_eq!((spread.median_us, spread.p99_us), (32, bound(BOUNDS - 1) as u64));
    }

    #[test]
    fn an_hour_is_kept_in_rates() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = filemap_core::Store::create(dir.path().join("a"), filemap_core::Options::new()).expect("a store");
        let hour = Hour::default();
        let mut stats = store.stats();
        hour.note(&stats);
        assert!(hour.points().is_empty(), "a rate needs two looks");
        hour.add("GET", Duration::from_micros(100));
        hour.add("HEAD", Duration::from_secs(9));
        stats.gets += 7;
        for _ in 0..KEPT + 5 {
            hour.note(&stats);
        }
        let points = hour.points();
        assert_eq!(points.len(), KEPT);
        assert!(points.iter().all(|point| point.rates[0] == 0.0 && point.gets.is_none()), "the first ones went");
        stats.gets += 1;
        hour.add("PUT", Duration::from_micros(100));
        hour.note(&stats);
        let last = hour.points().pop().expect("points");
        assert!(last.rates[0] > 0.0 && last.puts.is_some() && last.gets.is_none());
        let told = of_point(&last);
        assert!(told["gets_per_second"].is_number() && told["get_p50_us"].is_null() && told["put_p99_us"].is_u64());
    }
}
