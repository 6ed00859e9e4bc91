//! Trains a symbol table on a sample of edges: starts from single bytes and joins frequent
//! neighbours.
//!
//! Each round encodes the sample with the current table and counts symbols and pairs of
//! neighbours; those that cover the most bytes form the next table (FSST's algorithm). Nothing is
//! random, so equal inserts give equal tries.

use super::symbols::{CODES_MAX, Symbol, Symbols};

/// Symbols at best double in length each round; the best ones are found late.
const ROUNDS: usize = 7;
/// Rarer symbols are noise.
const COUNT_MIN: u64 = 4;

/// A table of up to `symbols_max` symbols beside the single bytes, for texts like these; `None` if
/// they yield none.
pub(super) fn train(sample: &[Vec<u8>], symbols_max: usize) -> Option<Symbols> {
    let mut symbols = Symbols::new(&(0..=255).map(Symbol::byte).collect::<Vec<_>>())?;
    for round in 0..ROUNDS {
        let is_last = round + 1 == ROUNDS;
        let (counts, mut pairs) = count(&symbols, sample, is_last);
        let all: Vec<Symbol> = symbols.iter().collect();
        let mut found: Vec<(Symbol, u64)> = all.iter().copied().zip(counts).collect();
        pairs.sort_unstable();
        for run in pairs.chunk_by(|a, b| a == b) {
            let (first, second) = (all[(run[0] >> 16) as usize], all[(run[0] & 0xffff) as usize]);
            if run.len() as u64 >= COUNT_MIN
                && let Some(joined) = first.joined(second)
            {
                found.push((joined, run.len() as u64));
            }
        }
        symbols = Symbols::new(&best(found, symbols_max.min(CODES_MAX - 256)))?;
    }
    Some(symbols)
}

/// Count of each symbol in the sample, and all neighbouring pairs (none in the last round).
fn count(symbols: &Symbols, sample: &[Vec<u8>], is_last: bool) -> (Vec<u64>, Vec<u32>) {
    let (mut counts, mut pairs, mut numbers) = (vec![0; symbols.iter().count()], Vec::new(), Vec::new());
    for text in sample {
        numbers.clear();
        symbols.parse(text, |number| numbers.push(number));
        numbers.iter().for_each(|number| counts[usize::from(*number)] += 1);
        if !is_last {
            pairs.extend(numbers.windows(2).map(|pair| u32::from(pair[0]) << 16 | u32::from(pair[1])));
        }
    }
    (counts, pairs)
}

/// The symbols that cover the most bytes, and all single bytes; the most frequent first, which get
/// the short codes.
fn best(mut found: Vec<(Symbol, u64)>, symbols_max: usize) -> Vec<Symbol> {
    found.sort_unstable();
    // A symbol may be joined in several ways.
    let mut merged: Vec<(Symbol, u64)> = Vec::with_capacity(found.len());
    for (symbol, count) in found {
        match merged.last_mut().filter(|last| last.0 == symbol) {
            Some(last) => last.1 += count,
            None => merged.push((symbol, count)),
        }
    }
    let (mut bytes, mut longer): (Vec<_>, Vec<_>) = merged.into_iter().partition(|(symbol, _)| symbol.len == 1);
    longer.retain(|(_, count)| *count >= COUNT_MIN);
    longer.sort_unstable_by_key(|(symbol, count)| (std::cmp::Reverse(count * u64::from(symbol.len)), *symbol));
    longer.truncate(symbols_max);
    bytes.append(&mut longer);
    bytes.sort_unstable_by_key(|(symbol, count)| (std::cmp::Reverse(*count), *symbol));
    bytes.into_iter().map(|(symbol, _)| symbol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_like_those_of_the_sample_become_short_and_others_stay_themselves() {
        let text = |i: u32| format!("{}/product-review-{}.html", i * 7919 % 100, i % 13).into_bytes();
        let sample: Vec<Vec<u8>> = (0..2_000).map(text).collect();
        let symbols = train(&sample, 200).expect("a table");
        let (mut edge, mut again) = (Vec::new(), Vec::new());
        symbols.encode(&text(12_345), &mut edge);
        assert!(edge.len() * 3 < text(12_345).len(), "{} bytes", edge.len());
        let other: Vec<u8> = (0..=255).rev().collect();
        edge.clear();
        symbols.encode(&other, &mut edge);
        symbols.decode(&edge, &mut again);
        assert_eq!(again, other);
        assert!(train(&[], 200).is_some_and(|symbols| symbols.iter().count() == 256));
    }
}
