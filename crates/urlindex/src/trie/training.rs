//! How a table of symbols is made of a sample of edges: from the single bytes up, joining what
//! stands side by side often.
//!
//! The sample is written with the table so far; symbols and pairs of neighbours are counted; those
//! that would stand for the most bytes make the next table (FSST's algorithm). Nothing in it is
//! random, so a trie grows alike each time.

use super::symbols::{CODES_MAX, Symbol, Symbols};

/// Symbols grow to twice their length with each round at best, but the best ones are found later.
const ROUNDS: usize = 7;
/// What occurs less often in the sample is chance.
const COUNT_MIN: u64 = 4;

/// A table of up to `symbols_max` symbols (and the single bytes) for texts such as these. `None`
/// if they give none.
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

/// How often each symbol stands in the sample, and all pairs that stand side by side (none, if
/// they are not wanted).
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

/// The symbols that stand for the most bytes, and all single bytes; the commonest first, as these
/// get the short codes.
fn best(mut found: Vec<(Symbol, u64)>, symbols_max: usize) -> Vec<Symbol> {
    found.sort_unstable();
    // A symbol may have been put together in several ways.
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
