//! SimHash (Charikar 2002): a text fingerprint for finding near-duplicates, as in crawlers (Manku,
//! Jain and Das Sarma 2007).
//!
//! Features are runs of four consecutive words, weighted by frequency. A word is a run of letters
//! and digits in lower case; in scripts without word separators, each letter is one. A feature's
//! hash is the XXH3-64 of its words joined by blanks; each bit of the result is the sign of that
//! bit's sum over all features.

use xxhash_rust::xxh3::xxh3_64;

/// Words of a feature.
const WORDS: usize = 4;
/// Bits of a counter of features.
const PLANES: usize = 32;

/// The fingerprint of a text; `None` if it has no word. Similar texts differ in few of its 64
/// bits; unrelated ones in about 32.
///
/// ```
/// let distance = |a, b| (crawl::simhash64(a).unwrap() ^ crawl::simhash64(b).unwrap()).count_ones();
/// assert_eq!(distance("One two three four five.", "one TWO three, four five"), 0);
/// ```
pub fn simhash64(text: &str) -> Option<u64> {
    let mut fingerprint = Fingerprint::default();
    fingerprint.add(text);
    fingerprint.finish()
}

/// A streaming fingerprint of a text. Memory: a few words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fingerprint {
    /// The last words, each followed by a blank, and the unfinished word.
    text: String,
    /// Offsets of these words, the unfinished one included.
    starts: Vec<usize>,
    word_at: usize,
    /// Bit-sliced counters of set bits: the count of bit `n` is in bits `n` of the planes.
    planes: [u64; PLANES],
    features: u32,
}

impl Fingerprint {
    /// Adds text, which may begin and end within a word.
    pub(crate) fn add(&mut self, text: &str) {
        for letter in text.chars() {
            if letter.is_ascii_alphanumeric() {
                self.text.push(letter.to_ascii_lowercase());
                continue;
            }
            let is_whole = is_word_by_itself(letter);
            if is_whole || !letter.is_alphanumeric() {
                self.part();
            }
            if letter.is_alphanumeric() {
                self.text.extend(letter.to_lowercase());
            }
            if is_whole {
                self.part();
            }
        }
    }

    /// Ends the current word.
    pub(crate) fn part(&mut self) {
        if self.text.len() == self.word_at {
            return;
        }
        self.starts.push(self.word_at);
        if let Some(first) = self.starts.len().checked_sub(WORDS).map(|at| self.starts[at]) {
            self.count(first);
            // Drops all but the last words.
            if first > 4096 {
                self.text.drain(..first);
                self.starts = self.starts.split_off(self.starts.len() - WORDS);
                self.starts.iter_mut().for_each(|start| *start -= first);
            }
        }
        self.text.push(' ');
        self.word_at = self.text.len();
    }

    /// Counts the feature that begins at `first`.
    fn count(&mut self, first: usize) {
        let mut carry = xxh3_64(&self.text.as_bytes()[first..]);
        for plane in &mut self.planes {
            (*plane, carry) = (*plane ^ carry, *plane & carry);
            if carry == 0 {
                break;
            }
        }
        self.features = self.features.saturating_add(1);
    }

    /// The fingerprint; `None` without a word.
    pub(crate) fn finish(mut self) -> Option<u64> {
        self.part();
        if self.features == 0 {
            // Too few words for a feature form a single one.
            self.text.truncate(self.text.trim_end().len());
            if self.text.is_empty() {
                return None;
            }
            self.count(0);
        }
        let ones = |bit: u32| (0..PLANES).map(|plane| (self.planes[plane] >> bit & 1) << plane).sum::<u64>();
        Some((0..64).filter(|bit| 2 * ones(*bit) > u64::from(self.features)).fold(0, |bits, bit| bits | 1 << bit))
    }
}

/// Thai to Khmer, kana, and Han, which are written without blanks.
fn is_word_by_itself(letter: char) -> bool {
    let is_one = matches!(letter, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}');
    is_one && letter.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(a: &str, b: &str) -> u32 {
        (simhash64(a).unwrap() ^ simhash64(b).unwrap()).count_ones()
    }

    /// A text of `words` words that no other seed produces.
    fn text(seed: u64, words: u64) -> String {
        (0..words).map(|at| format!("w{:x} ", xxh3_64(&[seed.to_le_bytes(), at.to_le_bytes()].concat()))).collect()
    }

    #[test]
    fn near_duplicates_are_within_a_few_bits_and_others_are_not() {
        for seed in 0..20 {
            let page = text(seed, 800);
            // Another date and another advertisement.
            let near = page.replacen(page.split(' ').nth(100).unwrap(), "another", 1) + "printed today by us";
            assert!(distance(&page, &near) <= 8, "{}", distance(&page, &near));
            let far = distance(&page, &text(seed + 1000, 800));
            assert!((16..=48).contains(&far), "{far}");
        }
    }

    /// The reference: the definition, word by word.
    fn by_definition(text: &str) -> u64 {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let mut sums = [0i64; 64];
        for feature in words.windows(WORDS) {
            let hash = xxh3_64(feature.join(" ").as_bytes());
            sums.iter_mut().enumerate().for_each(|(bit, sum)| *sum += if hash >> bit & 1 == 1 { 1 } else { -1 });
        }
        sums.iter().enumerate().filter(|(_, sum)| **sum > 0).fold(0, |bits, (bit, _)| bits | 1 << bit)
    }

    #[test]
    fn a_text_in_pieces_has_the_fingerprint_of_the_whole_by_its_definition() {
        for words in [4, 5, 7, 100, 3000] {
            let text = text(words, words);
            assert_eq!(simhash64(&text), Some(by_definition(&text)));
            let mut pieces = Fingerprint::default();
            for piece in text.as_bytes().chunks(7) {
                pieces.add(std::str::from_utf8(piece).unwrap());
            }
            assert_eq!(pieces.finish(), Some(by_definition(&text)));
        }
    }

    #[test]
    fn case_and_marks_do_not_count_and_letters_without_blanks_are_words() {
        assert_eq!(distance("The Quick, brown fox -- jumps.", "the quick brown FOX jumps"), 0);
        for (text, wanted) in [("漢字 kana ภา 1x", "漢 字 kana ภ า 1x "), ("Über-Maß", "über maß ")] {
            let mut words = Fingerprint::default();
            words.add(text);
            words.part();
            assert_eq!(words.text, wanted);
        }
        assert_eq!((simhash64(""), simhash64(" ,.!")), (None, None));
        assert!(simhash64("one").is_some() && distance("one", "two") > 0);
    }
}
