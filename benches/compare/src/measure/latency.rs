//! Latencies of operations, thread by thread; rates and percentiles of them.

use std::time::{Duration, Instant};

use filemap_benches::drive::Outcome;
use hdrhistogram::Histogram;

use crate::measure::lines::{Figures, put};

/// Latencies in ns of some operation, and the time that was spent in it.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    busy: Duration,
}

impl Latencies {
    /// Empty.
    pub fn new() -> Latencies {
        Latencies { histogram: filemap_benches::drive::histogram(), busy: Duration::ZERO }
    }

    /// Calls and records.
    pub fn time<T>(&mut self, call: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let begun = Instant::now();
        let value = call()?;
        self.record(begun.elapsed(), 1)?;
        Ok(value)
    }

    /// Records one call that served `share` operations: each has an equal part of it.
    pub fn record(&mut self, took: Duration, share: u64) -> Outcome<()> {
        self.busy += took;
        self.histogram.record_n((took.as_nanos() as u64 / share.max(1)).max(1), share)?;
        Ok(())
    }

    /// Adds another thread's.
    pub fn add(&mut self, other: &Latencies) -> Outcome<()> {
        self.busy += other.busy;
        self.histogram.add(&other.histogram)?;
        Ok(())
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Operations a second of `threads` threads. Time between operations (making pages, comparing
    /// bodies) does not count.
    pub fn per_s(&self, threads: usize) -> f64 {
        if self.busy.is_zero() { 0.0 } else { self.len() as f64 / self.busy.as_secs_f64() * threads as f64 }
    }

    /// A quantile in us.
    pub fn us(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1e3
    }

    /// Adds quantiles by their names: `p50` to `p9999`, after a prefix.
    pub fn quantiles(&self, figures: &mut Figures, prefix: &str, names: &[&str]) {
        for name in names {
            let quantile = match *name {
                "p50" => 0.5,
                "p99" => 0.99,
                "p999" => 0.999,
                _ => 0.9999,
            };
            put(figures, format!("{prefix}{name}_us"), self.us(quantile));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_rates_follow_from_the_calls() {
        let mut latencies = Latencies::new();
        for us in 1..=1000 {
            latencies.record(Duration::from_micros(us), 1).unwrap();
        }
        let mut figures = Figures::new();
        latencies.quantiles(&mut figures, "put_", &["p50", "p99", "p999", "p9999"]);
        for (name, us) in
            [("put_p50_us", 500.0), ("put_p99_us", 990.0), ("put_p999_us", 999.0), ("put_p9999_us", 1000.0)]
        {
            let value = figures[name].as_f64().unwrap();
            assert!((value - us).abs() / us < 0.002, "{name} {value}");
        }
        let expected = 2.0 * 1000.0 / 0.5005;
        assert!((latencies.per_s(2) - expected).abs() < 1.0, "{}", latencies.per_s(2));
    }

    #[test]
    fn a_batch_counts_as_its_operations() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_millis(10), 100).unwrap();
        assert_eq!(latencies.len(), 100);
        assert!((latencies.us(0.5) - 100.0).abs() < 1.0);
        assert!((latencies.per_s(1) - 10_000.0).abs() < 1.0);
    }
}
