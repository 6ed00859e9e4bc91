//! A fingerprint of a text by which near-duplicates are found: SimHash (Charikar 2002), as
//! crawlers use it (Manku, Jain and Das Sarma 2007).
//!
//! Features are runs of four words in a row, each counted as often as it stands there. A word is a
//! run of letters and digits in lower case; of scripts that do not part words, each letter is one.
//! A feature's hash is XXH3-64 of its words with a blank between them; of each bit the sign of the
//! sum over all features counts.

use xxhash_rust::xxh3::xxh3_64;

/// Words of a feature.
const WORDS: usize = 4;

/// The fingerprint of a text; `None` if it has no word. Texts that differ little differ in few of
/// its 64 bits; others in about 32.
///
/// ```
/// let distance = |a, b| (crawl::simhash64(a).unwrap() ^ crawl::simhash64(b).unwrap()).count_ones();
/// assert_eq!(distance("One two three four five.", "one TWO three, four five"), 0);
/// ```
pub fn simhash64(text: &str) -> Option<u64> {
    let words = words(text);
    let mut sums = [0i64; 64];
    let mut add = |feature: &[String]| {
        let hash = xxh3_64(feature.join(" ").as_bytes());
        for (bit, sum) in sums.iter_mut().enumerate() {
            *sum += if hash >> bit & 1 == 1 { 1 } else { -1 };
        }
    };
    match words.len() {
        0 => return None,
        1..=WORDS => add(&words),
        _ => words.windows(WORDS).for_each(add),
    }
    Some(sums.iter().enumerate().filter(|(_, sum)| **sum > 0).fold(0, |bits, (bit, _)| bits | 1 << bit))
}

fn words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    for letter in text.chars() {
        let is_whole = is_word_by_itself(letter);
        if !letter.is_alphanumeric() || is_whole {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        if is_whole {
            words.push(letter.to_string());
        } else if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
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

    /// A text of so many words that another seed does not share.
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

    #[test]
    fn case_and_marks_do_not_count_and_letters_without_blanks_are_words() {
        assert_eq!(distance("The Quick, brown fox -- jumps.", "the quick brown FOX jumps"), 0);
        assert_eq!(words("漢字 kana ภา 1x"), ["漢", "字", "kana", "ภ", "า", "1x"]);
        assert_eq!((simhash64(""), simhash64(" ,.!")), (None, None));
        assert!(simhash64("one").is_some() && distance("one", "two") > 0);
    }
}
