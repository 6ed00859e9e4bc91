//! The small readers: descriptions of pages, JSON Lines, dates, URLs. What reads is written and
//! read again.
//!
//! The first byte says which.
#![no_main]

use filemap::canonical::{Canonicalizer, Exact, Whatwg};
use filemap::date;
use filemap::dump::jsonl;
use filemap::page::meta;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else { return };
    match first % 5 {
        0 => description(bytes),
        1 => json_line(bytes),
        2 => a_date(&String::from_utf8_lossy(bytes)),
        3 => canonical(&Whatwg, bytes),
        _ => canonical(&Exact, bytes),
    }
});

const URL: &[u8] = b"http://a/";

fn description(bytes: &[u8]) {
    let Ok(page) = meta::decode(bytes, &[], URL, 5) else { return };
    let encoded = meta::encode(&page, URL).expect("what was read fits");
    assert_eq!(encoded.spill, b"");
    assert_eq!(meta::decode(&encoded.meta, &[], URL, 5), Ok(page));
}

fn json_line(bytes: &[u8]) {
    let Ok(page) = jsonl::read(bytes) else { return };
    let mut line = Vec::new();
    jsonl::write(&page, &mut line).expect("memory");
    assert_eq!(jsonl::read(&line).expect("what was written reads"), page);
}

fn a_date(text: &str) {
    let Some(time_ms) = date::parse(text) else { return };
    assert_eq!(date::parse(&date::format(time_ms)), Some(time_ms), "{text}");
}

fn canonical(rule: &dyn Canonicalizer, url: &[u8]) {
    let Ok(key) = rule.canonicalize(url) else { return };
    assert!(!key.is_empty() && !key.contains(&0), "{key:?}");
    assert_eq!(rule.canonicalize(&key).as_deref(), Ok(&key[..]), "its own canonical form");
    let _ = urlindex::host(&key);
}
