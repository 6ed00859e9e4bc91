//! Keys as YCSB draws them: Zipfian with constant 0.99 by the method of Gray and others ("Quickly
//! generating billion-record synthetic databases", SIGMOD 1994), scrambled so that popular keys
//! are not neighbours.

use filemap_benches::random::Random;

const CONSTANT: f64 = 0.99;
/// Terms of the sum that are added; the rest is an integral (Euler and Maclaurin), exact to 9
/// digits.
const TERMS: u64 = 10_000;

/// Ranks below a bound, 0 the most popular.
#[derive(Debug, Clone)]
pub struct Zipf {
    items: u64,
    zeta: f64,
    eta: f64,
    alpha: f64,
}

impl Zipf {
    /// Over `items`, which is not 0.
    pub fn new(items: u64) -> Zipf {
        let zeta = zeta(items);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - CONSTANT)) / (1.0 - self::zeta(2) / zeta);
        Zipf { items, zeta, eta, alpha: 1.0 / (1.0 - CONSTANT) }
    }

    /// A rank.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 || self.items == 1 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(CONSTANT) {
            return 1;
        }
        let rank = self.items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }

    /// An item; popularity is independent of the number.
    pub fn scrambled(&self, random: &mut Random) -> u64 {
        fnv(self.rank(random)) % self.items
    }
}

/// FNV-1a over the eight bytes, as YCSB scrambles.
fn fnv(value: u64) -> u64 {
    value.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

fn zeta(items: u64) -> f64 {
    let term = |i: f64| i.powf(-CONSTANT);
    let head: f64 = (1..=items.min(TERMS)).map(|i| term(i as f64)).sum();
    if items <= TERMS {
        return head;
    }
    let (from, to) = (TERMS as f64, items as f64);
    let integral = (to.powf(1.0 - CONSTANT) - from.powf(1.0 - CONSTANT)) / (1.0 - CONSTANT);
    head + integral + (term(to) - term(from)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_by_integral_is_the_sum() {
        let plain: f64 = (1..=200_000).map(|i| f64::from(i).powf(-CONSTANT)).sum();
        assert!((zeta(200_000) - plain).abs() < 1e-6, "{} {plain}", zeta(200_000));
    }

    #[test]
    fn ranks_have_their_probabilities() {
        let zipf = Zipf::new(1000);
        let mut random = Random::of(1, 2);
        let mut counts = vec![0u32; 1000];
        let draws = 400_000;
        for _ in 0..draws {
            counts[zipf.rank(&mut random) as usize] += 1;
        }
        for rank in [0, 1] {
            let expected = f64::from(draws) * (rank as f64 + 1.0).powf(-CONSTANT) / zeta(1000);
            let off = (f64::from(counts[rank]) - expected).abs() / expected;
            assert!(off < 0.03, "rank {rank}: {} for {expected}", counts[rank]);
        }
        // For later ranks the method is approximate.
        let tenth: u32 = counts[..100].iter().sum();
        let expected = zeta(100) / zeta(1000);
        assert!((f64::from(tenth) / f64::from(draws) - expected).abs() < 0.03, "{tenth}");
    }

    #[test]
    fn scrambling_spreads_the_popular_and_keeps_the_bound() {
        for items in [1, 2, 3, 1000] {
            let zipf = Zipf::new(items);
            let mut random = Random::of(3, items);
            assert!((0..10_000).all(|_| zipf.scrambled(&mut random) < items));
        }
        assert!((fnv(0) % 1000).abs_diff(fnv(1) % 1000) > 1);
    }
}
