//! A static table of symbols: pieces of text of up to 16 bytes that stand often in the edges of a trie, each with a code of its own.
//!
//! This is FSST (Boncz, Neumann, Leis, VLDB 2020), with codes of two lengths: the 192 commonest symbols have a code of one byte, up
//! to 16,384 others one of two. So the words of URLs have codes too, not their syllables only. Every byte is a symbol, so that any text can be
//! written and there is no escape. A text is written greedily, by the longest symbol that fits.
//!
//! Invariants: every single byte is a symbol; no symbol is there twice; a symbol's code is its number.

use super::code::Comparison;

/// Codes of one byte.
pub(super) const SHORT_CODES: usize = 192;
/// All codes.
pub(super) const CODES_MAX: usize = SHORT_CODES + (256 - SHORT_CODES) * 256;
/// The longest symbol.
pub(super) const SYMBOL_BYTES_MAX: usize = 16;

/// A text of 1 to 16 bytes.
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
    texts: Vec<u128>,
    lens: Vec<u8>,
    finder: Finder,
}

impl Symbols {
    /// A table of these symbols, the commonest first; `None` if a byte has none, one is there twice, or there are too many.
    pub(super) fn new(symbols: &[Symbol]) -> Option<Symbols> {
        let finder = Finder::new(symbols)?;
        let (texts, lens) = symbols.iter().map(|symbol| (symbol.text, symbol.len)).unzip();
        Some(Symbols { texts, lens, finder })
    }

    /// The symbols, in the order of their codes.
    pub(super) fn iter(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.texts.iter().zip(&self.lens).map(|(&text, &len)| Symbol { text, len })
    }

    /// Takes the first code of an edge: the symbol and what follows.
    #[inline]
    fn first<'a>(&self, edge: &'a [u8]) -> Option<(u128, usize, &'a [u8])> {
        let (number, rest) = first_code(edge)?;
        Some((self.texts[number], usize::from(self.lens[number]), rest))
    }

    #[inline]
    pub(super) fn compare(&self, mut edge: &[u8], text: &[u8]) -> Comparison {
        let mut common = 0;
        while let Some((symbol, len, rest)) = self.first(edge) {
            let left = &text[common..];
            let differing = symbol ^ head(left);
            let alike = (differing.trailing_zeros() as usize / 8).min(left.len());
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
            text.extend_from_slice(&self.texts.get(number)?.to_le_bytes()[..usize::from(*self.lens.get(number)?)]);
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

    pub(super) fn shorten(&self, mut edge: &[u8], mut bytes: usize, shorter: &mut Vec<u8>) {
        while bytes > 0 {
            let Some((symbol, len, rest)) = self.first(edge) else { return };
            edge = rest;
            if len > bytes {
                self.encode(&symbol.to_le_bytes()[bytes..len], shorter);
            }
            bytes = bytes.saturating_sub(len);
        }
        shorter.extend_from_slice(edge);
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let finder = self.finder.slots.capacity() * 8 + self.finder.symbols.capacity() * 2;
        (self.texts.capacity() * 16 + self.lens.capacity() + finder + size_of::<Symbols>()) as u64
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
    let (&code, rest) = edge.split_first()?;
    let code = usize::from(code);
    if code < SHORT_CODES {
        return Some((code, rest));
    }
    let (&low, rest) = rest.split_first()?;
    Some((SHORT_CODES + ((code - SHORT_CODES) << 8 | usize::from(low)), rest))
}

fn push_code(edge: &mut Vec<u8>, number: u16) {
    match usize::from(number) {
        short @ ..SHORT_CODES => edge.push(short as u8),
        long => edge.extend([(SHORT_CODES + ((long - SHORT_CODES) >> 8)) as u8, (long - SHORT_CODES) as u8]),
    }
}

/// No symbol, of a node.
const NONE: u16 = u16::MAX;

/// Finds the longest symbol that a text begins with: a trie of the symbols, its edges in a hash table.
#[derive(Debug)]
struct Finder {
    /// Open addressing; a slot is a node and a byte (32 bits) and the node that they lead to (32 bits, never 0), or 0.
    slots: Vec<u64>,
    /// The symbol that ends at each node. Nodes up to 255 are those of the single bytes.
    symbols: Vec<u16>,
}

impl Finder {
    fn new(symbols: &[Symbol]) -> Option<Finder> {
        if symbols.len() > CODES_MAX {
            return None;
        }
        let mut finder = Finder { slots: vec![0; 1024], symbols: vec![NONE; 256] };
        for (number, symbol) in symbols.iter().enumerate() {
            let mut bytes = symbol.bytes();
            let first = u32::from(bytes.next()?);
            let node = bytes.fold(first, |node, byte| finder.child_or_new(node, byte));
            let place = &mut finder.symbols[node as usize];
            if *place != NONE {
                return None;
            }
            *place = number as u16;
        }
        finder.symbols.shrink_to_fit();
        finder.symbols[..256].iter().all(|symbol| *symbol != NONE).then_some(finder)
    }

    #[inline]
    fn longest(&self, text: &[u8]) -> (u16, usize) {
        let mut node = u32::from(text[0]);
        let mut longest = (self.symbols[node as usize], 1);
        for (at, byte) in text.iter().enumerate().skip(1) {
            let Some(next) = self.child(node, *byte) else { break };
            node = next;
            let symbol = self.symbols[node as usize];
            if symbol != NONE {
                longest = (symbol, at + 1);
            }
        }
        longest
    }

    #[inline]
    fn slot(&self, key: u32) -> usize {
        // The high bits of a product depend on all bits of the key.
        (key.wrapping_mul(0x9e37_79b1) >> (32 - self.slots.len().ilog2())) as usize
    }

    #[inline]
    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let key = node << 8 | u32::from(byte);
        let mut at = self.slot(key);
        loop {
            let slot = self.slots[at];
            if slot >> 32 == u64::from(key) && slot != 0 {
                return Some(slot as u32);
            }
            if slot == 0 {
                return None;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn child_or_new(&mut self, node: u32, byte: u8) -> u32 {
        if let Some(child) = self.child(node, byte) {
            return child;
        }
        if (self.symbols.len() - 256) * 2 >= self.slots.len() {
            let longer = vec![0; self.slots.len() * 2];
            for slot in std::mem::replace(&mut self.slots, longer).into_iter().filter(|slot| *slot != 0) {
                self.put(slot);
            }
        }
        let child = self.symbols.len() as u32;
        self.symbols.push(NONE);
        self.put(u64::from(node << 8 | u32::from(byte)) << 32 | u64::from(child));
        child
    }

    fn put(&mut self, slot: u64) {
        let mut at = self.slot((slot >> 32) as u32);
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = slot;
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
    fn any_text_is_written_compared_and_shortened_as_itself() {
        let symbols = table(&["http://", "ab", "abab", "abababababababab", "/index.html", "\0\0", "\0\0\0"]);
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
            let (mut shorter, mut rest) = (Vec::new(), Vec::new());
            symbols.shorten(&edge, gone, &mut shorter);
            symbols.decode(&shorter, &mut rest);
            assert_eq!(rest, text[gone..]);
            let mut other = text[..gone].to_vec();
            other.extend((0..rng.usize(..4)).flat_map(|_| piece(&mut rng)));
            let common = super::super::code::common(&text, &other);
            let expected = Comparison { common, next: text.get(common).copied() };
            assert_eq!(symbols.compare(&edge, &other), expected, "{text:?} {other:?}");
        }
    }

    #[test]
    fn a_table_in_which_a_byte_is_missing_or_a_symbol_is_there_twice_is_none() {
        let all: Vec<Symbol> = (0..=255).map(Symbol::byte).collect();
        assert!(Symbols::new(&all).is_some() && Symbols::new(&all[1..]).is_none());
        let twice = [&all[..], &[Symbol::byte(7)]].concat();
        assert!(Symbols::new(&twice).is_none());
        assert!(Symbol::of(b"").is_none() && Symbol::of(&[1; 17]).is_none());
        assert!(Symbol::of(&[1; 16]).and_then(|symbol| symbol.joined(Symbol::byte(0))).is_none());
    }
}
