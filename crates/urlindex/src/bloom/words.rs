//! The bits of a filter in memory: cache lines of atomic words, with dirty parts.
//!
//! Invariant: a bit is set before its part is marked dirty, and a sync clears the mark before it
//! reads the part, all sequentially consistent: a bit that a sync missed is marked for the next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::shape::{LINE_BITS, Layout, Shape};

/// Words of a line.
pub(super) const LINE_WORDS: usize = (LINE_BITS / 64) as usize;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

/// Bits of a filter, as atomic words.
#[derive(Debug)]
pub(super) struct Words {
    lines: Vec<Line>,
    /// One for each `words_per_part` words.
    dirty: Vec<AtomicBool>,
    words_per_part: usize,
}

impl Words {
    /// All bits unset, nothing dirty.
    pub(super) fn new(bits: u64, words_per_part: usize) -> Words {
        let lines = (bits / LINE_BITS) as usize;
        let parts = (lines * LINE_WORDS).div_ceil(words_per_part);
        Words {
            lines: (0..lines).map(|_| Line::default()).collect(),
            dirty: (0..parts).map(|_| AtomicBool::new(false)).collect(),
            words_per_part,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len() * LINE_WORDS
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.len() * 8 + self.dirty.len()) as u64
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.lines[at / LINE_WORDS].0[at % LINE_WORDS]
    }

    /// Reads a word, for the file.
    pub(super) fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::SeqCst)
    }

    /// Sets a word from the file.
    pub(super) fn store(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::SeqCst);
    }

    /// Returns the numbers of the dirty parts, and marks them clean.
    pub(super) fn take_dirty(&self) -> Vec<usize> {
        let dirty = self.dirty.iter().enumerate();
        dirty.filter(|(_, note)| note.swap(false, Ordering::SeqCst)).map(|(number, _)| number).collect()
    }

    /// Sets bits of a word; returns true if any was unset.
    #[inline]
    fn set(&self, at: usize, mask: u64) -> bool {
        let word = self.word(at);
        if word.load(Ordering::Relaxed) & mask == mask {
            return false;
        }
        let is_new = word.fetch_or(mask, Ordering::SeqCst) & mask != mask;
        let note = &self.dirty[at / self.words_per_part];
        if !note.load(Ordering::SeqCst) {
            note.store(true, Ordering::SeqCst);
        }
        is_new
    }

    /// Returns whether all bits of a key are set.
    ///
    /// `LOOK_AT_ALL` reads all words before deciding, which pays before an insert: the processor
    /// fetches them together, instead of one after the other.
    #[inline]
    pub(super) fn has<const LOOK_AT_ALL: bool>(&self, probes: &Probes) -> bool {
        match probes {
            Probes::Line { line, masks } => {
                let words = &self.lines[*line].0;
                masks
                    .iter()
                    .zip(words)
                    .fold(0, |missing, (mask, word)| missing | (mask & !word.load(Ordering::Relaxed)))
                    == 0
            }
            Probes::Anywhere(bits) => {
                let is_set = |bit: u64| self.word((bit >> 6) as usize).load(Ordering::Relaxed) >> (bit & 63) & 1 == 1;
                if LOOK_AT_ALL {
                    bits.clone().fold(true, |all, bit| all & is_set(bit))
                } else {
                    bits.clone().all(is_set)
                }
            }
        }
    }

    /// Sets all bits of a key; returns true if any was unset.
    #[inline]
    pub(super) fn insert(&self, probes: &Probes) -> bool {
        match probes {
            Probes::Line { line, masks } => {
                let masks = masks.iter().enumerate().filter(|(_, mask)| **mask != 0);
                masks.fold(false, |new, (i, mask)| new | self.set(line * LINE_WORDS + i, *mask))
            }
            Probes::Anywhere(bits) => {
                bits.clone().fold(false, |new, bit| new | self.set((bit >> 6) as usize, 1 << (bit & 63)))
            }
        }
    }

    /// Sets every bit that is set in `other`, a filter of the same shape.
    pub(super) fn merge(&self, other: &Words) {
        for at in 0..self.len().min(other.len()) {
            let theirs = other.load(at);
            if theirs != 0 {
                self.set(at, theirs);
            }
        }
    }

    /// Estimated keys, from the empty bits of each line (Swamidass and Baldi 2007).
    pub(super) fn keys(&self, shape: &Shape) -> f64 {
        let (bits, k) = (LINE_BITS as f64, f64::from(shape.probes));
        // A full line counts as if half a bit were empty.
        let of_line = |empty: u32| -(f64::from(empty).max(0.5) / bits).ln() * bits / k;
        let empty = |line: &Line| line.0.iter().map(|word| word.load(Ordering::Relaxed).count_zeros()).sum::<u32>();
        self.lines.iter().map(|line| of_line(empty(line))).sum()
    }

    /// Probability that `probes` random bits are all set, from the bits themselves.
    pub(super) fn rate(&self, shape: &Shape) -> f64 {
        let ones = |line: &Line| line.0.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum::<u32>();
        let (lines, k) = (self.lines.len() as f64, shape.probes as i32);
        match shape.layout {
            Layout::Standard => {
                let set: u64 = self.lines.iter().map(|line| u64::from(ones(line))).sum();
                (set as f64 / shape.bits as f64).powi(k)
            }
            Layout::Blocked => {
                let powers: Vec<f64> = (0..=LINE_BITS).map(|set| (set as f64 / LINE_BITS as f64).powi(k)).collect();
                self.lines.iter().map(|line| powers[ones(line) as usize]).sum::<f64>() / lines
            }
        }
    }
}

/// The bits of one key.
pub(super) enum Probes {
    /// In one line: a mask for each word.
    Line { line: usize, masks: [u64; LINE_WORDS] },
    /// Anywhere.
    Anywhere(Bits),
}

impl Probes {
    /// Probes of a 64-bit hash.
    #[inline]
    pub(super) fn of_hash(shape: &Shape, hash: u64) -> Probes {
        match shape.layout {
            Layout::Blocked => {
                let line = scaled(hash, shape.bits / LINE_BITS) as usize;
                Probes::Line { line, masks: line_masks(hash, shape.probes) }
            }
            Layout::Standard => {
                let step = mixed(hash) | 1;
                Probes::Anywhere(Bits { left: shape.probes, bits: shape.bits, at: hash, step, is_narrow: false })
            }
        }
    }

    /// Probes of two 31-bit hashes, the first in the low half: first + i * step.
    #[inline]
    pub(super) fn of_pair(shape: &Shape, pair: u64) -> Probes {
        let (at, step) = (pair & 0xffff_ffff, pair >> 32);
        Probes::Anywhere(Bits { left: shape.probes, bits: shape.bits, at, step, is_narrow: true })
    }
}

/// Bit masks of a key's line. Each probe takes nine bits of the hash, which is mixed again when
/// used up.
#[inline]
fn line_masks(hash: u64, probes: u32) -> [u64; LINE_WORDS] {
    let mut masks = [0; LINE_WORDS];
    let (mut stream, mut source, mut left) = (hash, 0, 0);
    for _ in 0..probes {
        if left == 0 {
            stream = stream.wrapping_add(0x9e37_79b9_7f4a_7c15);
            (source, left) = (mixed(stream), 7);
        }
        // The high bits are mixed best.
        masks[(source >> 61) as usize] |= 1 << (source >> 55 & 63);
        source <<= 9;
        left -= 1;
    }
    masks
}

/// Scales a hash to 0..bound.
#[inline]
fn scaled(hash: u64, bound: u64) -> u64 {
    ((u128::from(hash) * u128::from(bound)) >> 64) as u64
}

/// Finaliser of SplitMix64 (Stafford's variant 13).
#[inline]
fn mixed(hash: u64) -> u64 {
    let z = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Bit numbers by double hashing (Kirsch and Mitzenmacher 2006). The wide kind rotates its hash
/// between steps, so keys that share two probes need not share all.
#[derive(Clone)]
pub(super) struct Bits {
    left: u32,
    bits: u64,
    at: u64,
    step: u64,
    is_narrow: bool,
}

impl Iterator for Bits {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        if self.is_narrow {
            let bit = self.at % self.bits;
            self.at += self.step;
            return Some(bit);
        }
        let bit = scaled(self.at, self.bits);
        self.at = self.at.rotate_left(5).wrapping_add(self.step);
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_there_and_its_part_is_dirty_once() {
        let shape = Shape::new(Layout::Standard, 1 << 16, 5).expect("a shape");
        let words = Words::new(shape.bits, 63);
        let probes = Probes::of_hash(&shape, 0x1234_5678_9abc_def0);
        assert!(!words.has::<true>(&probes) && words.insert(&probes));
        assert!(words.has::<false>(&probes) && !words.insert(&probes));
        assert!(!words.take_dirty().is_empty() && words.take_dirty().is_empty());
    }

    #[test]
    fn blocked_probes_stay_in_one_line() {
        let shape = Shape::new(Layout::Blocked, 1 << 20, 20).expect("a shape");
        for i in 0..1000u64 {
            let Probes::Line { line, masks } = Probes::of_hash(&shape, mixed(i)) else { panic!("a line") };
            let set: u32 = masks.iter().map(|mask| mask.count_ones()).sum();
            assert!(line < 2048 && (15..=20).contains(&set), "{line} {set}");
        }
    }
}
