//! Holds the `whatwg` canonicaliser against the WHATWG conformance set in
//! `tests/data/canon/urltestdata.json`.
//!
//! The number of cases is exact, and every case that the `url` crate gets wrong is listed by name:
//! a new failure fails this test, and so does a failure that a newer `url` fixes. A fix means
//! other keys for those URLs, so the canonicaliser needs a new version.

use std::path::Path;

use serde_json::Value;
use urlindex::{Canonicalizer, Whatwg};

/// `(input, base)` of the cases whose answer differs from the standard's: 58 of 891. Most are
/// `file:` URLs and relative links; of absolute `http` URLs only hosts with invalid punycode
/// (refused here) are among them.
const KNOWN_FAILURES: [(&str, Option<&str>); 58] = [
    ("file:///w|/m", None),
    ("non-special:opaque  ?hi", None),
    ("non-special:opaque  #hi", None),
    ("non-special:opaque \t\t  \t#hi", None),
    ("non-special:opaque \t\t  #hi", None),
    ("non-special:opaque\t\t  \r #hi", None),
    ("http://a.b.c.xn--pokxncvks", None),
    ("http://10.0.0.xn--pokxncvks", None),
    ("http://a.b.c.XN--pokxncvks", None),
    ("http://a.b.c.Xn--pokxncvks", None),
    ("http://10.0.0.XN--pokxncvks", None),
    ("http://10.0.0.xN--pokxncvks", None),
    ("/", Some("file://h/C:/a/b")),
    ("file:\\\\//", None),
    ("file:\\\\\\\\", None),
    ("file:\\\\\\\\?fox", None),
    ("file:\\\\\\\\#guppy", None),
    ("file://spider///", None),
    ("file:\\\\localhost//", None),
    ("file://\\/localhost//cat", None),
    ("file://localhost//a//../..//", None),
    ("/////mouse", Some("file:///elephant")),
    ("\\/localhost//pig", Some("file://lion/")),
    ("//localhost//pig", Some("file://lion/")),
    ("/..//localhost//pig", Some("file://lion/")),
    ("C|", Some("file://host/dir/file")),
    ("C|", Some("file://host/D:/dir1/dir2/file")),
    ("C|#", Some("file://host/dir/file")),
    ("C|?", Some("file://host/dir/file")),
    ("C|/", Some("file://host/dir/file")),
    ("C|\n/", Some("file://host/dir/file")),
    ("C|\\", Some("file://host/dir/file")),
    ("/c:/foo/bar", Some("file://host/path")),
    ("..", Some("abc://x/y/z/C:/")),
    ("..", Some("file://x/C:/")),
    ("file://example.net/C:/", None),
    ("file://1.2.3.4/C:/", None),
    ("file://[1::8]/C:/", None),
    ("C|/", Some("file://host/")),
    ("/C:/", Some("file://host/")),
    ("file:C:/", Some("file://host/")),
    ("file:/C:/", Some("file://host/")),
    ("file://localhost//a//../..//foo", None),
    ("file://localhost////foo", None),
    ("file:////foo", None),
    ("file:////one/two", Some("file:///")),
    ("////one/two", Some("file:///")),
    ("file:///.//", Some("file:////")),
    ("file:.//p", None),
    ("file:/.//p", None),
    ("file://xn--/p", None),
    ("foo://host/ !\"$%&'()*+,-./:;<=>@[\\]^_`{|}~", None),
    ("wss://host/ !\"$%&'()*+,-./:;<=>@[\\]^_`{|}~", None),
    ("https://xn--/", None),
    ("/\\//\\/a/../", Some("file:///")),
    ("\\a", Some("foo://foo/a")),
    ("\\/a", Some("foo://foo/a")),
    ("\\\\a", Some("foo://foo/a")),
];

struct Case {
    input: String,
    base: Option<String>,
    /// The canonical key; `None` where the standard says failure.
    key: Option<String>,
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/canon/urltestdata.json");
    let text = std::fs::read_to_string(path).expect("the conformance set is in the repository");
    let all: Vec<Value> = serde_json::from_str(&text).expect("a JSON array");
    let text_of = |case: &Value, field: &str| case.get(field).and_then(Value::as_str).map(str::to_owned);
    let without_fragment = |href: String| href.split('#').next().unwrap_or_default().to_owned();
    let objects = all.iter().filter(|case| case.is_object());
    objects
        .map(|case| Case {
            input: text_of(case, "input").expect("every case has an input"),
            base: text_of(case, "base"),
            key: text_of(case, "href").map(without_fragment),
        })
        .collect()
}

/// Resolves against the base if there is one, as a crawler does before it asks for the key.
fn answer(case: &Case) -> Option<String> {
    let key = match &case.base {
        None => Whatwg.canonicalize(case.input.as_bytes()).ok()?,
        Some(base) => Whatwg.resolve(base.as_bytes(), case.input.as_bytes()).ok()?,
    };
    Some(String::from_utf8(key).expect("canonical URLs are text"))
}

#[test]
fn the_conformance_set_passes_but_for_the_listed_cases() {
    let cases = cases();
    assert_eq!(cases.len(), 891);
    let failed: Vec<(&str, Option<&str>)> = cases
        .iter()
        .filter(|case| answer(case) != case.key)
        .map(|case| (case.input.as_str(), case.base.as_deref()))
        .collect();
    assert_eq!(failed, KNOWN_FAILURES);
    assert_eq!(cases.len() - failed.len(), 833);
}

#[test]
fn a_canonical_url_is_its_own_canonical_form() {
    let moved: Vec<String> = cases()
        .iter()
        .filter_map(answer)
        .filter(|key| Whatwg.canonicalize(key.as_bytes()).ok().as_deref() != Some(key.as_bytes()))
        .collect();
    assert_eq!(moved, Vec::<String>::new());
}

#[test]
fn no_canonical_url_holds_a_nul() {
    assert!(cases().iter().filter_map(answer).all(|key| !key.contains('\0')));
}
