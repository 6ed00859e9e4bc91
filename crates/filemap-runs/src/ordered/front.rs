//! Front coding: a text is stored as the number of bytes shared with the text before, and the
//! rest. A text is compared with a key without being assembled.

/// Position of a front-coded text in its block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Piece {
    /// Number of bytes shared with the text before.
    pub(super) shared: u32,
    /// Offset of the other bytes.
    pub(super) at: u32,
    /// Number of the other bytes, never 0.
    pub(super) len: u32,
}

impl Piece {
    /// The bytes that are not shared.
    #[inline]
    pub(super) fn suffix(self, block: &[u8]) -> &[u8] {
        &block[self.at as usize..][..self.len as usize]
    }

    /// Length of the whole text, in bytes.
    pub(super) fn text_len(self) -> usize {
        (self.shared + self.len) as usize
    }
}

/// Length of the common prefix of `a` and `b`.
#[inline]
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    let mut at = 0;
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return at + differing.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + a[at..].iter().zip(&b[at..]).take_while(|(a, b)| a == b).count()
}

/// Returns whether a text is greater than `last`: it shares `shared` bytes with it and continues
/// with `suffix`.
#[inline]
pub(super) fn rises(last: &[u8], shared: usize, suffix: &[u8]) -> bool {
    match (last.get(shared), suffix.first()) {
        (Some(before), Some(after)) => before < after,
        (None, Some(_)) => shared == last.len(),
        (_, None) => false,
    }
}

/// Number of texts of a block, which are in order, below `key`; or not above it if `or_equal`.
pub(super) fn below(block: &[u8], pieces: impl Iterator<Item = Piece>, key: &[u8], or_equal: bool) -> usize {
    // Length of the common prefix of the last text and the key; the text is below the key.
    let (mut equal, mut count) = (0, 0);
    for piece in pieces {
        let shared = piece.shared as usize;
        if shared < equal {
            // This text exceeds its predecessor at a byte where that still equals the key.
            return count;
        }
        if shared == equal {
            let (suffix, rest) = (piece.suffix(block), &key[equal..]);
            let same = common(suffix, rest);
            match (suffix.get(same), rest.get(same)) {
                (None, None) => return count + usize::from(or_equal),
                (Some(_), None) => return count,
                (Some(text), Some(key)) if text > key => return count,
                _ => equal += same,
            }
        }
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_counted_as_if_they_were_whole() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let text = |rng: &mut fastrand::Rng| -> Vec<u8> {
                (0..rng.usize(1..20)).map(|_| [0, b'a', 0xff][rng.usize(..3)]).collect()
            };
            let mut texts: Vec<Vec<u8>> = (0..rng.usize(1..40)).map(|_| text(&mut rng)).collect();
            texts.sort();
            texts.dedup();
            let (mut block, mut pieces, mut last) = (Vec::new(), Vec::new(), &[][..]);
            for text in &texts {
                let shared = common(last, text);
                assert!(rises(last, shared, &text[shared..]) && !rises(text, text.len(), &[]));
                let (at, len) = (block.len() as u32, (text.len() - shared) as u32);
                pieces.push(Piece { shared: shared as u32, at, len });
                block.extend_from_slice(&text[shared..]);
                last = text;
            }
            for key in (0..20).map(|_| text(&mut rng)).chain(texts.clone()).chain([Vec::new()]) {
                let count = |or_equal| below(&block, pieces.iter().copied(), &key, or_equal);
                assert_eq!(count(false), texts.partition_point(|text| *text < key));
                assert_eq!(count(true), texts.partition_point(|text| *text <= key));
            }
        }
    }
}
