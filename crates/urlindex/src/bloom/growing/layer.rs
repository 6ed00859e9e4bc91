//! A layer of a growing filter: fingerprints of one width, in buckets that split one at a time
//! (linear hashing).
//!
//! A fingerprint's first bits name its bucket, the rest is its remainder. When a bucket splits,
//! the next bit selects the half and is no longer stored. So nothing is hashed again, and a bucket
//! takes just the bits of its remainders.
//!
//! Buckets are numbered by the first bits of their fingerprints, the first bit lowest; the first
//! `split` of 2^level buckets have been split.

use super::bucket;

/// Mean remainders of a bucket. More take fewer bits and longer inserts.
const LOAD: u64 = 1536;

/// Fingerprints of one width.
#[derive(Debug)]
pub(super) struct Layer {
    /// Bits of a fingerprint.
    bits: u32,
    buckets: Vec<Box<[u64]>>,
    keys: u64,
    heap_words: u64,
}

impl Layer {
    pub(super) fn new(bits: u32) -> Layer {
        Layer { bits, buckets: vec![Box::default()], keys: 0, heap_words: 0 }
    }

    /// The layer of these buckets; `None` if they are impossible.
    pub(super) fn of_buckets(bits: u32, buckets: Vec<Box<[u64]>>) -> Option<Layer> {
        let mut layer = Layer { bits, buckets, keys: 0, heap_words: 0 };
        for number in 0..layer.buckets.len() {
            let (bucket, width) = (&layer.buckets[number], layer.width_of(number)?);
            if !bucket.is_empty() {
                layer.keys += bucket::decode(bucket, width)?.len() as u64;
                layer.heap_words += heap_words(bucket);
            }
        }
        Some(layer)
    }

    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    pub(super) fn buckets(&self) -> &[Box<[u64]>] {
        &self.buckets
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.buckets.capacity() * size_of::<Box<[u64]>>()) as u64 + self.heap_words * 8
    }

    fn level(&self) -> u32 {
        self.buckets.len().ilog2()
    }

    /// Width of a bucket's remainders; `None` if there are more buckets than fingerprints.
    pub(super) fn width_of(&self, number: usize) -> Option<u32> {
        let level = self.level();
        let split = self.buckets.len() - (1 << level);
        let is_split = number < split || number >= 1 << level;
        self.bits.checked_sub(level + u32::from(is_split))
    }

    /// Bucket, remainder and remainder's width of a hash. The fingerprint is the hash's high bits.
    #[inline]
    fn place(&self, hash: u64) -> (usize, u64, u32) {
        let level = self.level();
        let reversed = hash.reverse_bits() as usize;
        let whole = 1usize << level;
        let number = reversed & (whole - 1);
        let is_split = number < self.buckets.len() - whole;
        let (number, depth) = if is_split { (reversed & (2 * whole - 1), level + 1) } else { (number, level) };
        let width = self.bits - depth;
        let remainder = if width == 0 { 0 } else { hash << depth >> (64 - width) };
        (number, remainder, width)
    }

    #[inline]
    pub(super) fn contains(&self, hash: u64) -> bool {
        let (number, remainder, width) = self.place(hash);
        bucket::contains(&self.buckets[number], width, remainder)
    }

    /// Inserts a hash; true if it was new.
    pub(super) fn insert(&mut self, hash: u64) -> bool {
        let (number, remainder, width) = self.place(hash);
        let Some(new) = bucket::with(&self.buckets[number], width, remainder) else { return false };
        self.heap_words += heap_words(&new);
        self.heap_words -= heap_words(&self.buckets[number]);
        self.buckets[number] = new;
        self.keys += 1;
        let can_split = self.level() + 1 < self.bits;
        if can_split && self.keys > LOAD * self.buckets.len() as u64 {
            self.split();
        }
        true
    }

    fn split(&mut self) {
        let number = self.buckets.len() - (1 << self.level());
        let Some(width) = self.width_of(number) else { return };
        let whole = std::mem::take(&mut self.buckets[number]);
        let remainders = bucket::decode(&whole, width).unwrap_or_default();
        let half = 1u64 << (width - 1);
        let (low, high) = remainders.split_at(remainders.partition_point(|&remainder| remainder < half));
        let high: Vec<u64> = high.iter().map(|remainder| remainder - half).collect();
        let (low, high) = (bucket::encode(low, width - 1), bucket::encode(&high, width - 1));
        self.heap_words += heap_words(&low) + heap_words(&high);
        self.heap_words -= heap_words(&whole);
        self.buckets[number] = low;
        if self.buckets.len() == self.buckets.capacity() {
            // Growing by an eighth wastes less memory than doubling.
            self.buckets.reserve_exact(self.buckets.len() / 8 + 1);
        }
        self.buckets.push(high);
    }
}

/// Heap words of a bucket: the allocator adds a word and rounds up to two.
fn heap_words(bucket: &[u64]) -> u64 {
    if bucket.is_empty() { 0 } else { (bucket.len() as u64 + 1).next_multiple_of(2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_layer_is_the_set_of_its_fingerprints_however_it_grows() {
        let mut rng = fastrand::Rng::with_seed(6);
        let (mut layer, mut expected) = (Layer::new(24), HashSet::new());
        for _ in 0..60_000 {
            let hash = rng.u64(..);
            assert_eq!(layer.insert(hash), expected.insert(hash >> 40));
            let other = rng.u64(..);
            assert_eq!(layer.contains(other), expected.contains(&(other >> 40)));
        }
        assert_eq!(layer.keys(), expected.len() as u64);
        assert!(layer.buckets().len() > 30);
        assert!(expected.iter().all(|fingerprint| layer.contains(fingerprint << 40)));
        let again = Layer::of_buckets(24, layer.buckets().to_vec()).expect("whole");
        assert_eq!((again.keys(), again.memory_bytes() <= layer.memory_bytes()), (layer.keys(), true));
        let mut torn = layer.buckets().to_vec();
        torn[3][0] ^= 1;
        assert!(Layer::of_buckets(24, torn).is_none());
    }
}
