//! Options of a Bloom filter: size, layout, hash functions.

use crate::error::{Error, Result};

use super::hash::HashFamily;
use super::shape::{Layout, Shape};

/// Maximum bits of a filter with the classic hash functions, which give 31 bits.
const NARROW_BITS_MAX: u64 = 1 << 31;

/// Options of a new filter.
///
/// ```
/// use urlindex::{BloomFilter, BloomOptions, SeenSet, Verdict};
///
/// let set = BloomFilter::in_memory(BloomOptions::new(1_000_000, 1e-4)).unwrap();
/// assert_eq!(set.check_and_insert(b"http://example.com/").unwrap(), Verdict::New);
/// assert_eq!(set.contains(b"http://example.com/").unwrap(), Verdict::ProbablySeen);
/// assert!(set.memory_bytes() < 2_500_000);
/// ```
#[derive(Clone, Debug)]
pub struct BloomOptions {
    capacity: u64,
    size: Size,
    layout: Layout,
    family: HashFamily,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
enum Size {
    Rate(f64),
    Bits { bits: u64, probes: u32 },
}

impl BloomOptions {
    /// A filter with at most this `rate` (1e-9 to 0.5) at `capacity` URLs.
    pub fn new(capacity: u64, rate: f64) -> BloomOptions {
        let size = Size::Rate(rate);
        BloomOptions { capacity, size, layout: Layout::Standard, family: HashFamily::Xxh3, seed: 0 }
    }

    /// 16 bits a URL and 8 functions: a rate of 5.7e-4 when full.
    pub fn classic(capacity: u64) -> BloomOptions {
        BloomOptions::with_bits(capacity, capacity.saturating_mul(16), 8)
    }

    /// A filter of `bits` bits (rounded up to a multiple of 512) and `probes` probes (1 to 32) for
    /// `capacity` URLs.
    pub fn with_bits(capacity: u64, bits: u64, probes: u32) -> BloomOptions {
        BloomOptions { size: Size::Bits { bits, probes }, ..BloomOptions::new(capacity, 0.5) }
    }

    /// All probes of a URL in one cache line: one cache miss a test, for some more bits.
    #[must_use]
    pub fn blocked(self) -> BloomOptions {
        BloomOptions { layout: Layout::Blocked, ..self }
    }

    /// Other hash functions than the default. The classic ones need the standard layout and at
    /// most 2^31 bits.
    #[must_use]
    pub fn family(self, family: HashFamily) -> BloomOptions {
        BloomOptions { family, ..self }
    }

    /// The hash's seed, 0 by default. If strangers choose the URLs, give a random one, or they can
    /// choose URLs that collide.
    #[must_use]
    pub fn seed(self, seed: u64) -> BloomOptions {
        BloomOptions { seed, ..self }
    }

    /// # Errors
    /// `InvalidOption`.
    pub(super) fn design(&self) -> Result<Design> {
        let shape = match self.size {
            Size::Rate(rate) => Shape::for_rate(self.layout, self.capacity, rate)?,
            Size::Bits { bits, probes } => Shape::new(self.layout, bits, probes)?,
        };
        let design = Design { shape, family: self.family, seed: self.seed, capacity: self.capacity };
        design.check()?;
        Ok(design)
    }
}

/// All that determines a URL's bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Design {
    pub(super) shape: Shape,
    pub(super) family: HashFamily,
    pub(super) seed: u64,
    /// URLs that the filter is made for.
    pub(super) capacity: u64,
}

impl Design {
    /// # Errors
    /// `InvalidOption` if the parts do not fit together.
    pub(super) fn check(&self) -> Result<()> {
        if self.family == HashFamily::Xxh3 {
            return Ok(());
        }
        if self.shape.bits > NARROW_BITS_MAX {
            return Err(Error::option(
                "family",
                format!("its hashes have 31 bits, too few for a filter of {} bits", self.shape.bits),
            ));
        }
        if self.shape.layout == Layout::Blocked {
            return Err(Error::option("family", "the blocked layout needs a hash of 64 bits"));
        }
        Ok(())
    }
}
