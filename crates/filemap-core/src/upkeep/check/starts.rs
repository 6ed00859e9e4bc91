//! Starts of the records found in a segment, as a set of units.

/// A set of unit offsets at which intact records start: a list or a bitmap, whichever is shorter.
#[derive(Clone, Debug, Default)]
pub(super) struct Starts {
    bits: Vec<u64>,
    units: Vec<u32>,
}

impl Starts {
    /// The set of ascending units.
    pub(super) fn of(units: &[u32]) -> Starts {
        if units.last().is_some_and(|last| (*last as usize) < 32 * units.len()) {
            let mut starts = Starts::default();
            units.iter().for_each(|unit| starts.add(u64::from(*unit)));
            return starts;
        }
        Starts { units: units.to_vec(), ..Starts::default() }
    }

    pub(super) fn add(&mut self, unit: u64) {
        let word = (unit / 64) as usize;
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (unit % 64);
    }

    pub(super) fn has(&self, unit: u64) -> bool {
        let is_set = self.bits.get((unit / 64) as usize).is_some_and(|w| w >> (unit % 64) & 1 == 1);
        is_set || u32::try_from(unit).is_ok_and(|unit| self.units.binary_search(&unit).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_units_are_told_from_others() {
        for step in [1, 5, 40, 4000] {
            let units: Vec<u32> = (0..500).map(|n| 1 + n * step).collect();
            let starts = Starts::of(&units);
            for unit in 0..=500 * step + 1 {
                assert_eq!(starts.has(u64::from(unit)), units.contains(&unit), "{unit} of {step}");
            }
        }
        assert!(!Starts::of(&[]).has(0));
    }
}
