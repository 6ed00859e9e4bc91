//! Wire formats of server and client other than pages: JSON objects, and the text forms of times,
//! versions and cursors.
//!
//! Bytes that are not UTF-8 are base64 in the field with the suffix `_base64`, as in
//! [`filemap::dump::jsonl`].

pub(crate) mod links;
pub(crate) mod upload;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use filemap::access::{Cursor, Listed, PutRule};
use filemap::{Put, Variant, Version};
use filemap_core::erase::RuleState;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Media type of a page with its description: a line of [`filemap::dump::jsonl`] without the body,
/// then the body's bytes.
pub const PAGE_TYPE: &str = "application/vnd.filemap.page";
/// Media type of a problem (RFC 9457).
pub const PROBLEM_TYPE: &str = "application/problem+json";
/// Media type of JSON lines: one object a line.
pub const LINES_TYPE: &str = "application/x-ndjson";

/// Answer of a seen set for an invalid URL; the others are names of [`urlindex::Verdict`].
pub(crate) const INVALID: &str = "invalid";

/// Error of a failed request.
///
/// ```
/// use filemap_http::wire::Problem;
/// let problem: Problem = serde_json::from_str(r#"{"status":404,"title":"Not Found","detail":"no such page"}"#)?;
/// assert_eq!(problem.status, 404);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The status of the answer.
    pub status: u16,
    /// The status in words.
    pub title: String,
    /// The failure, its place, and what to do.
    pub detail: String,
    /// The requested page is not in the store: nothing failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_absent: bool,
    /// Stored bytes are damaged: other pages can be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_damage: bool,
    /// Only this page is refused (not a URL, over a limit, by a rule): others can be put.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_one_page: bool,
    /// The erasure rule that refuses the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u32>,
}

/// The longest description of a page before its body, in bytes.
pub(crate) const MAX_DESCRIPTION: u64 = 64 << 20;

/// Bytes as text or base 64, in two fields of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Url {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    url_base64: Option<String>,
}

impl Url {
    pub(crate) fn new(bytes: &[u8]) -> Url {
        match std::str::from_utf8(bytes) {
            Ok(text) => Url { url: Some(text.to_owned()), url_base64: None },
            Err(_) => Url { url: None, url_base64: Some(STANDARD.encode(bytes)) },
        }
    }

    /// `None` unless exactly one of the fields is set, and its base64 is valid.
    pub(crate) fn bytes(self) -> Option<Vec<u8>> {
        match (self.url, self.url_base64) {
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(encoded)) => STANDARD.decode(encoded).ok(),
            _ => None,
        }
    }
}

/// A URL of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    #[serde(flatten)]
    pub(crate) url: Url,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) variant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) variant_base64: Option<String>,
    /// Cursor after this entry, if requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) cursor: Option<String>,
}

impl Entry {
    pub(crate) fn new(listed: &Listed, with_cursor: bool) -> Entry {
        let place = listed.cursor.as_ref().filter(|_| with_cursor).map(cursor);
        Entry { cursor: place, ..Entry::of(&listed.url, listed.variant.as_ref()) }
    }

    /// A URL and a variant, without a cursor.
    pub(crate) fn of(url: &[u8], variant: Option<&Variant>) -> Entry {
        let variant = variant.map(|variant| Url::new(variant.as_bytes())).unwrap_or_default();
        Entry { url: Url::new(url), variant: variant.url, variant_base64: variant.url_base64, cursor: None }
    }

    /// The entry without its cursor.
    pub(crate) fn without_cursor(self) -> Entry {
        Entry { cursor: None, ..self }
    }

    /// The listed item; `None` if a field is missing or invalid.
    pub(crate) fn listed(self) -> Option<Listed> {
        let has_variant = self.variant.is_some() || self.variant_base64.is_some();
        let variant = Url { url: self.variant, url_base64: self.variant_base64 };
        let variant = if has_variant { Some(Variant::new(variant.bytes()?).ok()?) } else { None };
        let place = self.cursor.map(|place| read_cursor(&place).ok_or(())).transpose().ok()?;
        Some(Listed::new(self.url.bytes()?, variant, place))
    }
}

/// A part of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) urls: Vec<Entry>,
    /// Cursor to continue from; `None` at the end.
    pub(crate) cursor: Option<String>,
    /// Reason why URLs may be missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) incomplete: Option<String>,
}

/// The versions of a page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct History {
    /// Each in the form of [`filemap::dump::jsonl::head`], or with its version and `error`.
    pub(crate) versions: Vec<Value>,
    /// Value of `after` for the next part; `None` at the end.
    pub(crate) after: Option<String>,
}

/// Result of a put, a removal or a sync.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    /// `stored`, `unchanged`, `present`, `removed` or `synced`.
    pub(crate) outcome: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) time_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) sequence: Option<u64>,
    /// For a removal of single versions: versions of the page; versions of records beside it;
    /// revisits put again with their own body; revisits that lost their body.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) versions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) beside: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) parted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) without_body: Option<u64>,
    /// True if it survives a power loss.
    pub(crate) durable: bool,
}

/// Promises and contents of a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Promises {
    pub(crate) survives: String,
    pub(crate) has_history: bool,
    pub(crate) lists_in_order: bool,
    pub(crate) lists_from_cursor: bool,
    pub(crate) writes: bool,
    /// Canonicaliser of the store's URLs.
    #[serde(default)]
    pub(crate) canonicalizer: Option<String>,
    #[serde(default)]
    pub(crate) canonicalizer_version: Option<u32>,
    pub(crate) keys: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// A digest as text.
pub(crate) fn digest(digest: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*digest))
}

pub(crate) fn read_digest(text: &str) -> Option<[u8; 16]> {
    let is_one = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes))?
}

/// Every state of a rule of erasures with its name.
const RULE_STATES: [(RuleState, &str); 3] =
    [(RuleState::Unfinished, "unfinished"), (RuleState::InForce, "in-force"), (RuleState::Lifted, "lifted")];

pub(crate) fn rule_state(state: RuleState) -> &'static str {
    RULE_STATES.iter().find(|(own, _)| *own == state).map_or("in-force", |(_, name)| name)
}

pub(crate) fn read_rule_state(text: &str) -> Option<RuleState> {
    RULE_STATES.iter().find(|(_, name)| *name == text).map(|(state, _)| *state)
}

/// Name of the outcome of a put.
pub(crate) fn outcome(put: Option<Put>) -> &'static str {
    match put {
        Some(Put::Stored(_)) => "stored",
        Some(Put::Unchanged(_)) => "unchanged",
        None => "present",
    }
}

/// A version in a query: time in ms, a dot, sequence.
pub(crate) fn version(version: Version) -> String {
    format!("{}.{}", version.time_ms, version.sequence)
}

pub(crate) fn read_version(text: &str) -> Option<Version> {
    let (time_ms, sequence) = text.split_once('.')?;
    Some(Version { time_ms: time_ms.parse().ok()?, sequence: sequence.parse().ok()? })
}

/// A cursor in a query or an answer.
pub(crate) fn cursor(cursor: &Cursor) -> String {
    URL_SAFE_NO_PAD.encode(&cursor.0)
}

pub(crate) fn read_cursor(text: &str) -> Option<Cursor> {
    URL_SAFE_NO_PAD.decode(text).ok().map(Cursor)
}

/// Every rule of a put with its name in a query.
const RULES: [(PutRule, &str); 5] = [
    (PutRule::Always, "always"),
    (PutRule::IfChanged, "if-changed"),
    (PutRule::IfNew, "if-new"),
    (PutRule::Restore, "restore"),
    (PutRule::RestoreUnchanged, "restore-unchanged"),
];

pub(crate) fn rule(rule: PutRule) -> &'static str {
    RULES.iter().find(|(own, _)| *own == rule).map_or("always", |(_, name)| name)
}

pub(crate) fn read_rule(text: &str) -> Option<PutRule> {
    RULES.iter().find(|(_, name)| *name == text).map(|(rule, _)| *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for bytes in [&b"http://a/\xc3\xbc"[..], b"\xff\x00"] {
            let variant = Variant::new(bytes).unwrap();
            for listed in [
                Listed::new(bytes.to_vec(), Some(variant), Some(Cursor(bytes.to_vec()))),
                Listed::new(bytes.to_vec(), None, None),
            ] {
                let line = serde_json::to_string(&Entry::new(&listed, true)).unwrap();
                let entry: Entry = serde_json::from_str(&line).unwrap();
                assert_eq!(entry.listed(), Some(listed), "{line}");
            }
        }
        let found = Version { time_ms: -5, sequence: u64::MAX };
        assert_eq!(read_version(&version(found)), Some(found));
        let place = Cursor(vec![0, 255, 62]);
        assert_eq!(read_cursor(&cursor(&place)), Some(place));
        assert_eq!((read_version("1"), read_version("a.b"), read_cursor("=")), (None, None, None));
    }

    #[test]
    fn every_rule_has_a_name() {
        for (found, name) in RULES {
            assert_eq!((rule(found), read_rule(name)), (name, Some(found)));
        }
        assert_eq!(read_rule("sometimes"), None);
        let bytes = [7; 16];
        assert_eq!((read_digest(&digest(&bytes)), read_digest("7")), (Some(bytes), None));
        for (state, name) in RULE_STATES {
            assert_eq!((rule_state(state), read_rule_state(name)), (name, Some(state)));
        }
    }
}
