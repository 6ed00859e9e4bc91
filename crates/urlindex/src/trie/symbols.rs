//! A static table of symbols: pieces of text of up to 15 bytes that stand often in the edges of a trie, each with a code of its own.
//!
//! This is FSST (Boncz, Neumann, Leis, VLDB 2020), with codes of two lengths: the 192 commonest symbols have a code of one byte, up
//! to 16,384 others one of two. So the words of URLs have codes too, not their syllables only. Every byte is a symbol, so that any text can be
//! written and there is no escape. A text is written greedily, by the longest symbol that fits.
//!
//! Invariants: every single byte is a symbol; no symbol is there twice; a symbol's code is its number.

use std::hint::select_unpredictable;

use super::code::Comparison;
use super::key::Key;

/// Codes of one byte.
pub(super) const SHORT_CODES: usize = 192;
/// All codes.
pub(super) const CODES_MAX: usize = SHORT_CODES + (256 - SHORT_CODES) * 256;
/// The longest symbol.
pub(super) const SYMBOL_BYTES_MAX: usize = 15;
/// Where a symbol's length stands above its text, in bits.
const LEN_SHIFT: u32 = 120;

/// A text of 1 to 15 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    /// Its bytes, the first one lowest; 0 above them.
    pub(super) text: u128,
    pub(super) len: u8,
}

impl Symbol {
    pub(super) fn byte(byte: u8) -> Symbol {
        Symbol { text: u128::from(byte), len: 1 }
    }

    /// Both, one after the other; `None` if that is too long.
    pub(super) fn joined(self, other: Symbol) -> Option<Symbol> {
        let len = self.len + other.len;
        let is_short = usize::from(len) <= SYMBOL_BYTES_MAX;
        is_short.then(|| Symbol { text: self.text | other.text << (8 * self.len), len })
    }

    /// The symbol of these bytes; `None` if there are too many or none.
    pub(super) fn of(bytes: &[u8]) -> Option<Symbol> {
        let is_one = (1..=SYMBOL_BYTES_MAX).contains(&bytes.len());
        is_one.then(|| Symbol { text: head(bytes), len: bytes.len() as u8 })
    }

    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> + use<> {
        self.text.to_le_bytes().into_iter().take(usize::from(self.len))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Symbols {
    /// The length of each in the highest byte, so that there is one place to look, its text below, the first byte lowest.
    texts: Vec<u128>,
    finder: Finder,
}

impl Symbols {
    /// A table of these symbols, the commonest first; `None` if a byte has none, one is there twice, or there are too many.
    pub(super) fn new(symbols: &[Symbol]) -> Option<Symbols> {
        let finder = Finder::new(symbols)?;
        let texts = symbols.iter().map(|symbol| symbol.text | u128::from(symbol.len) << LEN_SHIFT).collect();
        Some(Symbols { texts, finder })
    }

    /// The symbols, in the order of their codes.
    pub(super) fn iter(&self) -> impl Iterator<Item = Symbol> + '_ {
        let text_mask = (1 << LEN_SHIFT) - 1;
        self.texts.iter().map(move |text| Symbol { text: text & text_mask, len: (text >> LEN_SHIFT) as u8 })
    }

    /// Takes the first code of an edge: the symbol and what follows.
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
            // The length differs from whatever the key has there, or the symbol ends before it.
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

    /// As [`Symbols::decode`], of bytes that may be no edge: `None` then.
    pub(super) fn try_decode(&self, mut edge: &[u8], text: &mut Vec<u8>) -> Option<()> {
        while !edge.is_empty() {
            let (number, rest) = first_code(edge)?;
            let symbol = self.texts.get(number)?.to_le_bytes();
            text.extend_from_slice(&symbol[..usize::from(symbol[SYMBOL_BYTES_MAX])]);
            edge = rest;
        }
        Some(())
    }

    pub(super) fn encode(&self, mut text: &[u8], edge: &mut Vec<u8>) {
        while !text.is_empty() {
            let (number, len) = self.finder.longest(text);
            push_code(edge, number);
            text = &text[len..];
        }
    }

    /// The numbers of the symbols that a text is written with.
    pub(super) fn parse(&self, mut text: &[u8], numbers: &mut Vec<u16>) {
        while !text.is_empty() {
            let (number, len) = self.finder.longest(text);
            numbers.push(number);
            text = &text[len..];
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

/// Takes the first code off: the symbol's number and what follows.
#[inline]
fn first_code(edge: &[u8]) -> Option<(usize, &[u8])> {
    let code = usize::from(*edge.first()?);
    let low = edge.get(1).map_or(0, |low| usize::from(*low));
    let is_long = code >= SHORT_CODES;
    // Which of them it is nobody can foresee: so both, and no branch.
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

/// Finds the longest symbol that a text begins with.
///
/// Symbols of three bytes and more stand in buckets, by a hash of their first three, and there in order. The last one of a bucket that is not
/// greater than a text begins with all symbols that the text begins with, so the longest of these is that one itself, or one that it
/// begins with: each knows the longest such other. For shorter ones there is a table of all pairs of bytes.
#[derive(Debug)]
struct Finder {
    /// The first byte highest, and the length lowest.
    sorted: Vec<u128>,
    /// For each of those its number, and in the lower half where the longest symbol is that it begins with.
    links: Vec<u32>,
    /// How many symbols come before those of each bucket, and so where they end, too.
    starts: Box<[u16]>,
    /// The symbol of each two bytes, of the first one if there is none of both.
    pairs: Box<[u16]>,
    bytes: [u16; 256],
}

/// Beside the number of a symbol in [`Finder::pairs`]: it has both bytes.
const BOTH: u16 = 1 << 15;
const _: () = assert!(CODES_MAX <= BOTH as usize);
/// A symbol that begins with no other of three bytes.
const NONE: u16 = u16::MAX;
const LONG_BYTES: usize = 3;
const BUCKETS_BITS: u32 = 12;
const BUCKETS: usize = 1 << BUCKETS_BITS;

impl Finder {
    /// `None` if a byte is no symbol, one is there twice or there are too many.
    fn new(symbols: &[Symbol]) -> Option<Finder> {
        if symbols.len() > CODES_MAX {
            return None;
        }
        let ordered = |symbol: &Symbol| symbol.text.swap_bytes() | u128::from(symbol.len);
        let mut all: Vec<(usize, u128, u32)> = symbols
            .iter()
            .enumerate()
            .map(|(number, symbol)| (bucket_of(ordered(symbol)), ordered(symbol), number as u32))
            .collect();
        all.sort_unstable();
        if all.windows(2).any(|pair| pair[0].1 == pair[1].1) {
            return None;
        }
        let (mut bytes, mut pairs) = ([NONE; 256], vec![NONE; 1 << 16]);
        for (_, symbol, number) in all.iter().filter(|(_, symbol, _)| len_of(*symbol) == 1) {
            bytes[(symbol >> 120) as usize] = *number as u16;
        }
        if bytes.contains(&NONE) {
            return None;
        }
        pairs.chunks_mut(256).zip(bytes).for_each(|(pairs, byte)| pairs.fill(byte));
        for (_, symbol, number) in all.iter().filter(|(_, symbol, _)| len_of(*symbol) == 2) {
            pairs[(symbol >> 112) as usize] = *number as u16 | BOTH;
        }
        all.retain(|(_, symbol, _)| len_of(*symbol) >= LONG_BYTES);
        let sorted: Vec<u128> = all.iter().map(|(_, symbol, _)| *symbol).collect();
        let starts = (0..=BUCKETS).map(|bucket| all.partition_point(|(other, ..)| *other < bucket) as u16).collect();
        let (mut links, mut open) = (Vec::with_capacity(all.len()), Vec::<u16>::new());
        for (at, (_, symbol, number)) in all.iter().enumerate() {
            let is_prefix = |open: &u16| {
                let len = len_of(sorted[usize::from(*open)]);
                len < len_of(*symbol) && alike(sorted[usize::from(*open)], *symbol) >= len
            };
            while open.pop_if(|open| !is_prefix(open)).is_some() {}
            links.push(number << 16 | u32::from(open.last().copied().unwrap_or(NONE)));
            open.push(at as u16);
        }
        Some(Finder { sorted, links, starts, pairs: pairs.into(), bytes })
    }

    /// Its number and its length.
    #[inline]
    fn longest(&self, text: &[u8]) -> (u16, usize) {
        let sought = head(text).swap_bytes() | 0xff;
        let bucket = bucket_of(sought);
        let (start, end) = (usize::from(self.starts[bucket]), usize::from(self.starts[bucket + 1]));
        let (mut after, mut len) = (start, end - start);
        // How many of these are not greater, without a branch that nobody can foresee.
        while len > 0 {
            let half = len.div_ceil(2);
            after = select_unpredictable(self.sorted[after + half - 1] <= sought, after + half, after);
            len -= half;
        }
        if after > start {
            let mut at = after - 1;
            let most = alike(self.sorted[at], sought).min(text.len());
            while at < self.sorted.len() {
                if len_of(self.sorted[at]) <= most {
                    return ((self.links[at] >> 16) as u16, len_of(self.sorted[at]));
                }
                at = usize::from(self.links[at] as u16);
            }
        }
        if text.len() < 2 {
            return (self.bytes[(sought >> 120) as usize], 1);
        }
        let pair = self.pairs[(sought >> 112) as usize];
        (pair & !BOTH, 1 + usize::from(pair >= BOTH))
    }

    fn memory_bytes(&self) -> usize {
        let tables = size_of_val(&*self.starts) + size_of_val(&*self.pairs);
        self.sorted.capacity() * 16 + self.links.capacity() * 4 + tables
    }
}

/// Of a symbol or text with its first byte highest.
#[inline]
fn bucket_of(text: u128) -> usize {
    // The high bits of a product depend on all bits.
    (((text >> 104) as u32).wrapping_mul(0x9e37_79b1) >> (32 - BUCKETS_BITS)) as usize
}

#[inline]
fn len_of(symbol: u128) -> usize {
    symbol as usize & 0xff
}

/// How many bytes two symbols begin with alike, and the zeros after them.
#[inline]
fn alike(a: u128, b: u128) -> usize {
    ((a ^ b).leading_zeros() as usize / 8).min(SYMBOL_BYTES_MAX)
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
            let common = super::super::code::common(&text, &other);
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
