//! Which records were met, a bit for each unit at which one may start.

/// A set of the unit offsets at which whole records start.
#[derive(Default)]
pub(super) struct Starts {
    bits: Vec<u64>,
}

impl Starts {
    pub(super) fn add(&mut self, unit: u64) {
        let word = (unit / 64) as usize;
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (unit % 64);
    }

    pub(super) fn has(&self, unit: u64) -> bool {
        self.bits.get((unit / 64) as usize).is_some_and(|w| w >> (unit % 64) & 1 == 1)
    }
}
