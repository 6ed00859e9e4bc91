//! Arithmetic of Bloom filters: bits, probes and rate.
//!
//! A filter of m bits and k probes with n keys has a rate of (1 - e^(-kn/m))^k (Bloom 1970). In
//! the blocked layout all probes of a key fall into one line of 512 bits, and lines hold different
//! numbers of keys: the rate is the mean over a Poisson distribution (Putze, Sanders, Singler
//! 2007), and a filter needs some more bits.

use crate::error::{Error, Result};

/// Bits of a cache line.
pub(super) const LINE_BITS: u64 = 512;
/// Maximum probes: 32 give a rate of 2^-32.
pub(super) const PROBES_MAX: u32 = 32;
/// Maximum bits of a filter: 512 GiB.
const BITS_MAX: u64 = 1 << 42;

filemap_io::named_enum! {
    /// Placement of a key's probes.
    ///
    /// ```
    /// use urlindex::BloomOptions;
    ///
    /// // All bits of a URL in one cache line.
    /// let options = BloomOptions::new(1_000_000, 1e-4).blocked();
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Layout {
        /// Anywhere: the fewest bits, a cache miss for each probe.
        #[default]
        Standard => "standard",
        /// In one cache line: one cache miss a test, for some more bits.
        Blocked => "blocked",
    }
}

/// The size of a filter. `bits` is a multiple of 512.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) layout: Layout,
    pub(super) bits: u64,
    pub(super) probes: u32,
}

impl Shape {
    /// The smallest filter of this layout with at most `rate` at `keys` keys.
    pub(super) fn for_rate(layout: Layout, keys: u64, rate: f64) -> Result<Shape> {
        if keys == 0 {
            return Err(Error::option("capacity", "0 is not a capacity; give the expected number of URLs"));
        }
        if !(1e-9..=0.5).contains(&rate) {
            return Err(Error::option("rate", format!("{rate} is not 1e-9 to 0.5")));
        }
        let candidate = |probes: u32| {
            let bits = match layout {
                Layout::Standard => standard_bits(keys, rate, probes),
                Layout::Blocked => blocked_bits(keys, rate, probes),
            };
            (bits, probes)
        };
        let smallest = (1..=PROBES_MAX).map(candidate).min_by(|a, b| a.0.total_cmp(&b.0));
        let (bits, probes) = smallest.unwrap_or((f64::INFINITY, 1));
        // A float above all integers saturates, and `new` rejects it.
        Shape::new(layout, bits.ceil() as u64, probes)
    }

    /// A filter of `bits` bits, rounded up to whole lines.
    pub(super) fn new(layout: Layout, bits: u64, probes: u32) -> Result<Shape> {
        if bits == 0 || bits > BITS_MAX {
            return Err(Error::option("bits", format!("{bits} is not 1 to 2^42")));
        }
        if probes == 0 || probes > PROBES_MAX {
            return Err(Error::option("probes", format!("{probes} is not 1 to {PROBES_MAX}")));
        }
        Ok(Shape { layout, bits: bits.next_multiple_of(LINE_BITS), probes })
    }

    /// Theoretical rate at `keys` keys.
    pub(super) fn rate(&self, keys: f64) -> f64 {
        match self.layout {
            Layout::Standard => fill(keys * f64::from(self.probes) / self.bits as f64).powi(self.probes as i32),
            Layout::Blocked => blocked_rate(keys * LINE_BITS as f64 / self.bits as f64, self.probes),
        }
    }

    /// Expected false positives while `keys` keys were inserted: the integral of the rate
    /// (Simpson's rule).
    pub(super) fn loss(&self, keys: f64) -> f64 {
        const STEPS: u32 = 64;
        let weight = |i: u32| match i {
            0 | STEPS => 1.0,
            i if i % 2 == 1 => 4.0,
            _ => 2.0,
        };
        let sum: f64 = (0..=STEPS).map(|i| weight(i) * self.rate(keys * f64::from(i) / f64::from(STEPS))).sum();
        sum * keys / f64::from(3 * STEPS)
    }
}

/// Expected false positives while `keys` keys were inserted into a standard filter.
pub(crate) fn standard_loss(bits: u64, probes: u32, keys: f64) -> f64 {
    Shape { layout: Layout::Standard, bits, probes }.loss(keys)
}

/// Share of bits set when each is set `load` times on average.
fn fill(load: f64) -> f64 {
    -(-load).exp_m1()
}

fn standard_bits(keys: u64, rate: f64, probes: u32) -> f64 {
    let k = f64::from(probes);
    -k * keys as f64 / (-rate.powf(1.0 / k)).ln_1p()
}

fn blocked_bits(keys: u64, rate: f64, probes: u32) -> f64 {
    // Binary search for the load of a line, in keys, at which the rate is reached; the rate rises
    // with the load.
    let (mut low, mut high) = (0.0, 2048.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if blocked_rate(middle, probes) < rate { low = middle } else { high = middle }
    }
    keys as f64 * LINE_BITS as f64 / low
}

/// Beyond this load every bit is set, within a float's precision.
const LOAD_MAX: f64 = 65_536.0;

/// Rate at a mean of `load` keys a line.
fn blocked_rate(load: f64, probes: u32) -> f64 {
    if load <= 0.0 {
        return 0.0;
    }
    if load >= LOAD_MAX {
        return 1.0;
    }
    let spread = 12.0 * load.sqrt() + 20.0;
    let (from, to) = ((load - spread).max(0.0) as u64, (load + spread) as u64);
    // Poisson weights by logarithms: e^-load may be too small for a float.
    let mut log_weight = -load + (1..=from).map(|i| (load / i as f64).ln()).sum::<f64>();
    let mut rate = 0.0;
    for keys in from..=to {
        rate += log_weight.exp() * line_rate(keys as f64, probes);
        log_weight += (load / (keys + 1) as f64).ln();
    }
    rate
}

/// Rate of a line with `keys` keys: the mean of (set / 512)^k, to the second order in the spread
/// of `set`.
fn line_rate(keys: f64, probes: u32) -> f64 {
    let (bits, k) = (LINE_BITS as f64, f64::from(probes));
    let throws = keys * k;
    let empty = (throws * (-1.0 / bits).ln_1p()).exp();
    let both_empty = (throws * (-2.0 / bits).ln_1p()).exp();
    let mean = 1.0 - empty;
    if mean <= 0.0 {
        return 0.0;
    }
    // Variance of the share of set bits (occupancy of 512 urns).
    let variance = ((empty - both_empty) / bits + both_empty - empty * empty).max(0.0);
    mean.powf(k) * (1.0 + k * (k - 1.0) / 2.0 * variance / (mean * mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use filemap_io::StorageError;

    #[test]
    fn the_standard_layout_takes_the_bits_that_theory_says() {
        for (rate, bits) in [(1e-2, 9.585), (1e-4, 19.17), (1e-6, 28.755)] {
            let shape = Shape::for_rate(Layout::Standard, 1_000_000, rate).expect("a shape");
            let per_key = shape.bits as f64 / 1e6;
            assert!((1.0..1.01).contains(&(per_key / bits)), "{rate}: {per_key}");
            assert!(shape.rate(1e6) <= rate * 1.0001 && shape.rate(1e6) > rate * 0.98);
        }
    }

    #[test]
    fn the_blocked_layout_takes_some_more() {
        for (rate, most) in [(1e-2, 10.6), (1e-4, 24.0), (1e-6, 43.0)] {
            let shape = Shape::for_rate(Layout::Blocked, 1_000_000, rate).expect("a shape");
            let per_key = shape.bits as f64 / 1e6;
            assert!(per_key < most, "{rate}: {per_key}");
            assert!((shape.rate(1e6) / rate - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn sixteen_bits_and_eight_probes_err_six_times_in_ten_thousand() {
        let shape = Shape::new(Layout::Standard, 16_000_000, 8).expect("a shape");
        assert!((shape.rate(1e6) - 5.74e-4).abs() < 1e-6);
        assert!(shape.loss(1e6) < 1e6 * 5.74e-4 / 5.0 && shape.loss(1e6) > 0.0);
    }

    /// Found by the fuzz target `seen`: the time grew with the number of URLs that a file claims.
    #[test]
    fn a_filter_that_is_fuller_than_full_calls_everything_seen() {
        let shape = Shape::new(Layout::Blocked, 512, 1).expect("a shape");
        for keys in [60_000.0, 65_536.0, 1e9, u64::MAX as f64, f64::INFINITY] {
            assert!((shape.rate(keys) - 1.0).abs() < 1e-9, "{keys}: {}", shape.rate(keys));
        }
        assert!(shape.loss(u64::MAX as f64) > 1e19);
    }

    #[test]
    fn senseless_sizes_are_refused() {
        for (keys, rate) in [(0, 0.1), (1, 0.0), (1, 0.9), (1, f64::NAN), (u64::MAX, 1e-9)] {
            let shape = Shape::for_rate(Layout::Standard, keys, rate);
            assert!(matches!(shape, Err(Error::Storage(StorageError::InvalidOption { .. }))), "{keys} {rate}");
        }
        assert!(Shape::new(Layout::Standard, 0, 1).is_err() && Shape::new(Layout::Standard, 1, 33).is_err());
    }
}
