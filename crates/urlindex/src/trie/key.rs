//! A search key: its text padded with zeros, so that sixteen bytes can be read at any position.

/// Longest text that needs no allocation.
const SHORT_BYTES: usize = 240;
const PADDING_BYTES: usize = 16;

/// Bytes of a text compared as one number.
pub(super) const HEAD_BYTES: usize = 8;

/// The first eight bytes of a text, padded with zeros, as a number that sorts as texts do.
#[inline]
pub(super) fn head(text: &[u8]) -> u64 {
    let mut head = [0; HEAD_BYTES];
    let len = text.len().min(HEAD_BYTES);
    head[..len].copy_from_slice(&text[..len]);
    u64::from_be_bytes(head)
}

/// A text followed by zeros.
#[derive(Debug)]
pub(super) struct Key<'a> {
    pub(super) text: &'a [u8],
    short: [u8; SHORT_BYTES + PADDING_BYTES],
    long: Vec<u8>,
}

impl<'a> Key<'a> {
    #[inline]
    pub(super) fn new(text: &'a [u8]) -> Key<'a> {
        let (mut short, mut long) = ([0; SHORT_BYTES + PADDING_BYTES], Vec::new());
        match short.get_mut(..text.len()).filter(|_| text.len() <= SHORT_BYTES) {
            Some(start) => start.copy_from_slice(text),
            None => long = [text, &[0; PADDING_BYTES]].concat(),
        }
        Key { text, short, long }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The byte at a position, if any.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    /// The text and the zeros that follow it.
    #[inline]
    pub(super) fn padded(&self) -> &[u8] {
        if self.text.len() <= SHORT_BYTES { &self.short } else { &self.long }
    }

    /// [`head`] of the text from a position on.
    #[inline]
    pub(super) fn head(&self, at: usize) -> u64 {
        self.padded()[at..].first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
    }
}

/// Result of comparing an edge with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Length of the common prefix.
    pub(super) common: usize,
    /// The edge's next byte, if any.
    pub(super) next: Option<u8>,
}

/// Length of the common prefix of two texts.
#[inline]
pub(super) fn common(a: &[u8], b: &[u8]) -> usize {
    // Eight bytes at a time: common prefixes of URLs are long.
    let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for (i, (a, b)) in a_words.iter().zip(b_words).enumerate() {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return i * 8 + differing.trailing_zeros() as usize / 8;
        }
    }
    let done = a_words.len().min(b_words.len()) * 8;
    done + a[done..].iter().zip(&b[done..]).take_while(|(a, b)| a == b).count()
}
