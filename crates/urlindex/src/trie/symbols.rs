//! A static symbol table: texts of up to 15 bytes that are frequent in the edges of a trie, each
//! with a code.
//!
//! FSST (Boncz, Neumann, Leis, VLDB 2020) with codes of two lengths: one byte for the 192 most
//! frequent symbols, two for up to 16,384 others, so that words of URLs have codes too. Every byte
//! is a symbol, so any text can be encoded without escapes. Encoding is greedy, by the longest
//! symbol.
//!
//! Invariants: every byte is a symbol; symbols are distinct; a symbol's code is its number.

use std::cmp::Reverse;
use std::hint::select_unpredictable;
use std::sync::Arc;

use filemap_io::layout;

use super::key::{Comparison, Key};

/// Codes of one byte.
pub(super) const SHORT_CODES: usize = 192;
/// All codes.
pub(super) const CODES_MAX: usize = SHORT_CODES + (256 - SHORT_CODES) * 256;
/// Length of the longest symbol.
pub(super) const SYMBOL_BYTES_MAX: usize = 15;
/// Bit position of a symbol's length above its text.
const LEN_SHIFT: u32 = 120;

/// A text of 1 to 15 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    /// Its bytes, the first one lowest, zeros above.
    pub(super) text: u128,
    pub(super) len: u8,
}

impl Symbol {
    pub(super) fn byte(byte: u8) -> Symbol {
        Symbol { text: u128::from(byte), len: 1 }
    }

    /// The concatenation; `None` if too long.
    pub(super) fn joined(self, other: Symbol) -> Option<Symbol> {
        let len = self.len + other.len;
        let is_short = usize::from(len) <= SYMBOL_BYTES_MAX;
        is_short.then(|| Symbol { text: self.text | other.text << (8 * self.len), len })
    }

    /// The symbol of these bytes; `None` if empty or too long.
    pub(super) fn of(bytes: &[u8]) -> Option<Symbol> {
        let is_one = (1..=SYMBOL_BYTES_MAX).contains(&bytes.len());
        is_one.then(|| Symbol { text: head(bytes), len: bytes.len() as u8 })
    }

    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> + use<> {
        self.text.to_le_bytes().into_iter().take(usize::from(self.len))
    }
}

/// Symbols by code, and the search for encoding.
#[derive(Debug)]
pub(super) struct Symbols {
    /// Length in the highest byte, text below with its first byte lowest: one memory access.
    texts: Vec<u128>,
    finder: Finder,
}

impl Symbols {
    /// A table of these symbols, the most frequent first; `None` if a byte is missing, a symbol is
    /// repeated, or there are too many.
    pub(super) fn new(symbols: &[Symbol]) -> Option<Symbols> {
        let finder = Finder::new(symbols)?;
        let texts = symbols.iter().map(packed).collect();
        Some(Symbols { texts, finder })
    }

    /// The symbols in the order of their codes.
    pub(super) fn iter(&self) -> impl Iterator<Item = Symbol> + '_ {
        let text_mask = (1 << LEN_SHIFT) - 1;
        self.texts.iter().map(move |text| Symbol { text: text & text_mask, len: (text >> LEN_SHIFT) as u8 })
    }

    /// Takes the first code off an edge: symbol, length and rest.
    #[inline]
    fn first<'a>(&self, edge: &'a [u8]) -> Option<(u128, usize, &'a [u8])> {
        let (number, rest) = first_code(edge)?;
        let symbol = self.texts[number];
        Some((symbol, (symbol >> LEN_SHIFT) as usize, rest))
    }

    #[inline]
    pub(super) fn compare(&self, mut edge: &[u8], key: &Key<'_>, at: usize) -> Comparison {
        let (padded, mut common) = (&key.padded()[at..], 0);
        let len_left = key.len() - at;
        while let Some((symbol, len, rest)) = self.first(edge) {
            let differing = symbol ^ head(&padded[common..]);
            // The length byte differs from the key's, or the symbol ends before it.
            let alike = (differing.trailing_zeros() as usize / 8).min(len_left - common);
            if alike < len {
                return Comparison { common: common + alike, next: Some((symbol >> (8 * alike)) as u8) };
            }
            common += len;
            edge = rest;
        }
        Comparison { common, next: None }
    }

    pub(super) fn decode(&self, mut edge: &[u8], text: &mut Vec<u8>) {
        while let Some((symbol, len, rest)) = self.first(edge) {
            text.extend_from_slice(&symbol.to_le_bytes()[..len]);
            edge = rest;
        }
    }

    /// [`Symbols::decode`] of untrusted bytes: `None` if they are not an edge.
    pub(super) fn try_decode(&self, mut edge: &[u8], text: &mut Vec<u8>) -> Option<()> {
        while !edge.is_empty() {
            let (number, rest) = first_code(edge)?;
            let symbol = self.texts.get(number)?.to_le_bytes();
            text.extend_from_slice(&symbol[..usize::from(symbol[SYMBOL_BYTES_MAX])]);
            edge = rest;
        }
        Some(())
    }

    pub(super) fn encode(&self, text: &[u8], edge: &mut Vec<u8>) {
        self.parse(text, |number| push_code(edge, number));
    }

    /// Calls `each` with the symbol numbers that encode a text.
    #[inline]
    pub(super) fn parse(&self, text: &[u8], mut each: impl FnMut(u16)) {
        let (key, mut at) = (Key::new(text), 0);
        while at < text.len() {
            let (number, len) = self.finder.longest(head(&key.padded()[at..]), text.len() - at);
            each(number);
            at += len;
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.texts.capacity() * 16 + self.finder.memory_bytes() + size_of::<Symbols>()) as u64
    }
}

/// The first 16 bytes of a text, the first one lowest.
#[inline]
fn head(text: &[u8]) -> u128 {
    match text.first_chunk::<16>() {
        Some(bytes) => u128::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; 16];
            bytes[..text.len()].copy_from_slice(text);
            u128::from_le_bytes(bytes)
        }
    }
}

/// Takes the first code off: symbol number and rest.
#[inline]
fn first_code(edge: &[u8]) -> Option<(usize, &[u8])> {
    let code = usize::from(*edge.first()?);
    let low = edge.get(1).map_or(0, |low| usize::from(*low));
    let is_long = code >= SHORT_CODES;
    // The branch is unpredictable: compute both and select.
    let long = (code << 8 | low).wrapping_sub(255 * SHORT_CODES);
    let number = select_unpredictable(is_long, long, code);
    Some((number, edge.get(1 + usize::from(is_long)..)?))
}

fn push_code(edge: &mut Vec<u8>, number: u16) {
    match usize::from(number) {
        short @ ..SHORT_CODES => edge.push(short as u8),
        long => edge.extend([(SHORT_CODES + ((long - SHORT_CODES) >> 8)) as u8, (long - SHORT_CODES) as u8]),
    }
}

/// Finds the longest symbol at the start of a text.
///
/// Symbols of three bytes and more are in buckets by a hash of their first three, the longest
/// first, so the first match wins. Shorter ones are in a table of all pairs of bytes.
#[derive(Debug)]
struct Finder {
    /// All buckets; length in the highest byte, text below with its first byte lowest.
    long: Vec<u128>,
    numbers: Vec<u16>,
    /// Start of each bucket, and the end of the last.
    starts: Box<[u16]>,
    /// The symbol of each pair of bytes, or of its first byte.
    pairs: Box<[u16]>,
    bytes: [u16; 256],
}

/// Flag in [`Finder::pairs`]: the symbol has both bytes.
const BOTH: u16 = 1 << 15;
const _: () = assert!(CODES_MAX <= BOTH as usize);
const LONG_BYTES: u8 = 3;
const BUCKETS_BITS: u32 = 14;
const BUCKETS: usize = 1 << BUCKETS_BITS;

impl Finder {
    /// `None` if a byte is not a symbol, a symbol is repeated or there are too many.
    fn new(symbols: &[Symbol]) -> Option<Finder> {
        let mut sorted = symbols.to_vec();
        sorted.sort_unstable();
        let is_twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
        if symbols.len() > CODES_MAX || is_twice {
            return None;
        }
        let numbered = || (0..).zip(symbols);
        let (mut bytes, mut pairs) = ([NONE; 256], vec![NONE; 1 << 16]);
        for (number, symbol) in numbered().filter(|(_, symbol)| symbol.len == 1) {
            bytes[symbol.text as usize] = number;
        }
        if bytes.contains(&NONE) {
            return None;
        }
        (0..pairs.len()).for_each(|pair| pairs[pair] = bytes[pair & 0xff]);
        for (number, symbol) in numbered().filter(|(_, symbol)| symbol.len == 2) {
            pairs[symbol.text as usize] = number | BOTH;
        }
        let mut long: Vec<(u16, Symbol)> =
            numbered().map(|(n, s)| (n, *s)).filter(|(_, s)| s.len >= LONG_BYTES).collect();
        long.sort_unstable_by_key(|(number, symbol)| (bucket_of(symbol.text), Reverse(symbol.len), *number));
        let start = |bucket| long.partition_point(|(_, symbol)| bucket_of(symbol.text) < bucket) as u16;
        let starts = (0..=BUCKETS).map(start).collect();
        let numbers = long.iter().map(|(number, _)| *number).collect();
        let long = long.iter().map(|(_, symbol)| packed(symbol)).collect();
        Some(Finder { long, numbers, starts, pairs: pairs.into(), bytes })
    }

    /// Number and length of the longest symbol, no longer than the text.
    #[inline]
    fn longest(&self, sought: u128, len_max: usize) -> (u16, usize) {
        let bucket = bucket_of(sought);
        let (start, end) = (usize::from(self.starts[bucket]), usize::from(self.starts[bucket + 1]));
        for (symbol, number) in self.long[start..end].iter().zip(&self.numbers[start..end]) {
            let len = (symbol >> LEN_SHIFT) as usize;
            if (symbol ^ sought).trailing_zeros() as usize >= 8 * len && len <= len_max {
                return (*number, len);
            }
        }
        if len_max < 2 {
            return (self.bytes[sought as usize & 0xff], 1);
        }
        let pair = self.pairs[sought as usize & 0xffff];
        (pair & !BOTH, 1 + usize::from(pair >= BOTH))
    }

    fn memory_bytes(&self) -> usize {
        let tables = size_of_val(&*self.starts) + size_of_val(&*self.pairs);
        self.long.capacity() * 16 + self.numbers.capacity() * 2 + tables
    }
}

/// No symbol yet.
const NONE: u16 = u16::MAX;

/// Bucket of a symbol or text with its first byte lowest.
#[inline]
fn bucket_of(text: u128) -> usize {
    // The high bits of a product depend on all bits.
    ((text as u32 & 0xff_ffff).wrapping_mul(0x9e37_79b1) >> (32 - BUCKETS_BITS)) as usize
}

/// A symbol with its length in the highest byte.
#[inline]
fn packed(symbol: &Symbol) -> u128 {
    symbol.text | u128::from(symbol.len) << LEN_SHIFT
}

/// Beginning of a file: the table, and the number of URLs at which the next is trained.
#[derive(Debug)]
pub(super) struct Learnt {
    /// Table of the edges; `None` if they are raw.
    pub(super) symbols: Option<Arc<Symbols>>,
    /// Number of URLs at which the next table is trained.
    pub(super) train_at: u64,
}

impl Learnt {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        layout::push(&mut bytes, self.train_at);
        for symbol in self.symbols.iter().flat_map(|symbols| symbols.iter()) {
            bytes.push(symbol.len);
            bytes.extend(symbol.bytes());
        }
        bytes
    }

    /// Decodes it; `None` if the bytes are malformed.
    pub(super) fn of(bytes: &[u8]) -> Option<Learnt> {
        let mut rest = bytes;
        let train_at = layout::take(&mut rest)?;
        let mut symbols = Vec::new();
        while let Some((&len, after)) = rest.split_first() {
            let (text, after) = after.split_at_checked(usize::from(len))?;
            symbols.push(Symbol::of(text)?);
            rest = after;
        }
        let symbols = if symbols.is_empty() { None } else { Some(Arc::new(Symbols::new(&symbols)?)) };
        Some(Learnt { symbols, train_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(words: &[&str]) -> Symbols {
        let words = words.iter().map(|word| Symbol::of(word.as_bytes()).expect("short"));
        let symbols: Vec<Symbol> = words.chain((0..=255).map(Symbol::byte)).collect();
        Symbols::new(&symbols).expect("a table")
    }

    #[test]
    fn any_text_is_written_and_compared_as_itself() {
        let symbols = table(&["http://", "ab", "abab", "ababababababaab", "/index.html", "\0\0", "\0\0\0"]);
        let mut rng = fastrand::Rng::with_seed(11);
        let piece = |rng: &mut fastrand::Rng| match rng.u8(..4) {
            0 => b"ab".to_vec(),
            1 => b"/index.html".to_vec(),
            2 => vec![0; rng.usize(..5)],
            _ => vec![rng.u8(..)],
        };
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..rng.usize(..20)).flat_map(|_| piece(&mut rng)).collect();
            let (mut edge, mut again) = (Vec::new(), Vec::new());
            symbols.encode(&text, &mut edge);
            symbols.decode(&edge, &mut again);
            assert_eq!(again, text);
            let gone = rng.usize(..=text.len());
            let mut other = text[..gone].to_vec();
            other.extend((0..rng.usize(..4)).flat_map(|_| piece(&mut rng)));
            let common = super::super::key::common(&text, &other);
            let expected = Comparison { common, next: text.get(common).copied() };
            let before = rng.usize(..300);
            let key = [&vec![b'a'; before], &other[..]].concat();
            assert_eq!(symbols.compare(&edge, &Key::new(&key), before), expected, "{text:?} {other:?}");
        }
    }

    #[test]
    fn a_table_in_which_a_byte_is_missing_or_a_symbol_is_there_twice_is_none() {
        let all: Vec<Symbol> = (0..=255).map(Symbol::byte).collect();
        assert!(Symbols::new(&all).is_some() && Symbols::new(&all[1..]).is_none());
        let twice = [&all[..], &[Symbol::byte(7)]].concat();
        assert!(Symbols::new(&twice).is_none());
        let hidden = [&all[1..], &[Symbol::of(b"\0\0").expect("short")]].concat();
        assert!(Symbols::new(&hidden).is_none());
        assert!(Symbol::of(b"").is_none() && Symbol::of(&[1; 16]).is_none());
        assert!(Symbol::of(&[1; 15]).and_then(|symbol| symbol.joined(Symbol::byte(0))).is_none());
    }
}
