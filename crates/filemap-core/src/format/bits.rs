//! Bit fields of 64-bit words: each is declared once, as a [`Bits`]. Encoding, decoding and the
//! tables of docs/FORMAT.md are derived from it.

/// A bit field of a record of words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits {
    /// Number of the word in the record.
    pub(crate) word: usize,
    /// Lowest bit, 0 to 63.
    pub(crate) low: u32,
    /// Number of bits.
    pub(crate) bits: u32,
    /// Meaning of the field, for docs/FORMAT.md.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares it with the document"))]
    pub(crate) text: &'static str,
}

impl Bits {
    /// Greatest value.
    pub(crate) const fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The value in the words of a record.
    pub(crate) const fn get(self, words: &[u64]) -> u64 {
        self.of(words[self.word])
    }

    /// The value in the word that holds it.
    pub(crate) const fn of(self, word: u64) -> u64 {
        word >> self.low & self.max()
    }

    /// The value shifted into place, to be combined with the other fields of its word.
    pub(crate) const fn at(self, value: u64) -> u64 {
        debug_assert!(value <= self.max(), "a value has more bits than its field");
        value << self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_takes_its_bits_and_no_others() {
        let field = Bits { word: 1, low: 8, bits: 40, text: "" };
        assert_eq!((field.max(), field.at(5)), ((1 << 40) - 1, 5 << 8));
        assert_eq!(field.get(&[0, field.at(field.max()) | 0xff | 1 << 48]), field.max());
        let whole = Bits { word: 0, low: 0, bits: 64, text: "" };
        assert_eq!((whole.max(), whole.of(u64::MAX), whole.at(7)), (u64::MAX, u64::MAX, 7));
    }
}
