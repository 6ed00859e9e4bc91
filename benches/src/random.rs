//! Pseudo-random numbers: one small generator, so that runs repeat and no figure depends on
//! another crate's release.
//!
//! SplitMix64 (Steele, Lea, Flood 2014): any seed is good, and a stream can start at any page
//! number.

/// A stream of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of `index` under `seed`; streams of neighbouring indices are independent.
    #[must_use]
    pub fn of(seed: u64, index: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ index);
        Random(random.next())
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)] // it never ends, so it is not an Iterator
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of mean 0 and variance 1, normal but for its far tails: a sum of twelve (Irwin and
    /// Hall), which needs no logarithm and so comes out the same on every machine.
    pub fn normal(&mut self) -> f64 {
        let mut sum = 0u64;
        for _ in 0..3 {
            let bits = self.next();
            sum += (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
        }
        sum as f64 / 65_536.0 - 6.0
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}
