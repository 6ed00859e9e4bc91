//! Erase rules: their stored form, and matching.
//!
//! A rule is JSON: `{"kind":"url"|"host"|"prefix"|"regex"|"digest", "text":...}`. Instead of the
//! text it may have `"salt"` and `"sha256"` (in hexadecimal: SHA-256 of the salt and the text),
//! with `"bytes"`, the length of a prefix. `"from_ms"` and `"to_ms"` limit the times of the
//! captures, both inclusive. A URL is only kept as a digest: a list of erased pages must not be a
//! list of their URLs.

use filemap_core::StorageError;
use regex::bytes::Regex;
use serde_json::{Map, Value, json};
use sha1::Digest as _;

use crate::error::{Error, Result};
use crate::page::digest::{Digest, hex, hexadecimal};
use crate::page::key;

/// The captures to erase.
///
/// ```
/// use filemap::erase::{EraseOrder, EraseTarget};
///
/// let mut order = EraseOrder::new(EraseTarget::Prefix(b"http://example.com/~ann/".to_vec()), "asked for");
/// order.to_ms = Some(1_700_000_000_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EraseTarget {
    /// A URL, with all variants and the records beside it. It is made canonical.
    Url(Vec<u8>),
    /// All of a host's URLs, of any scheme and port; not those of its subdomains.
    Host(String),
    /// All URLs whose canonical form begins with these bytes.
    Prefix(Vec<u8>),
    /// All URLs whose canonical form this regular expression matches somewhere.
    Regex(String),
    /// All captures with a body of this digest: `sha1:` or `sha256:`, in hexadecimal, base 32 or
    /// base 64.
    Digest(String),
}

/// An order to erase captures: their URLs, their times, and the reason.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
///
/// use filemap::erase::{EraseOrder, EraseTarget};
/// use filemap::{Options, Page, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let page = Page::new("http://example.com/private", 1_700_000_000_000, 200, "hello");
/// store.put_page(&page)?;
/// let order = EraseOrder::new(EraseTarget::Host("example.com".to_owned()), "asked for");
/// assert!(store.erase(&order, &mut |_| ControlFlow::Continue(()))?.is_complete());
/// assert!(!store.contains("http://example.com/private")?);
/// assert!(store.put_page(&page).unwrap_err().refused_by().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EraseOrder {
    /// The captures to erase.
    pub target: EraseTarget,
    /// Only captures of this time and later. Default: `None`, of all times.
    pub from_ms: Option<i64>,
    /// Only captures of this time and earlier. Default: `None`, of all times.
    pub to_ms: Option<i64>,
    /// The reason; kept in the rule.
    pub reason: String,
    /// The rule keeps a host or a prefix as a digest, as it always keeps a URL. Default: false.
    pub hashed: bool,
}

/// The part of a URL that is digested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Url,
    Host,
    /// The first bytes, this many.
    Prefix(usize),
}

impl Part {
    fn of(self, url: &[u8]) -> Option<&[u8]> {
        match self {
            Part::Url => Some(url),
            Part::Host => urlindex::host(url),
            Part::Prefix(bytes) => url.get(..bytes),
        }
    }
}

/// The pattern of a rule.
#[derive(Clone, Debug)]
enum Pattern {
    Hashed { part: Part, salt: Vec<u8>, sha256: [u8; 32] },
    Host(Vec<u8>),
    Prefix(Vec<u8>),
    Regex(Box<Regex>),
    Digest(Digest),
}

/// A parsed rule.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    pattern: Pattern,
    from_ms: i64,
    to_ms: i64,
}

impl Matcher {
    /// Returns whether it matches this URL, at any time.
    pub(crate) fn is_about(&self, url: &[u8]) -> bool {
        match &self.pattern {
            Pattern::Hashed { part, salt, sha256 } => part.of(url).is_some_and(|text| salted(salt, text) == *sha256),
            Pattern::Host(host) => urlindex::host(url) == Some(host.as_slice()),
            Pattern::Prefix(prefix) => url.starts_with(prefix),
            Pattern::Regex(regex) => regex.is_match(url),
            Pattern::Digest(_) => false,
        }
    }

    pub(crate) fn includes(&self, time_ms: i64) -> bool {
        (self.from_ms..=self.to_ms).contains(&time_ms)
    }

    /// Returns whether it covers all times.
    pub(crate) fn is_of_all_times(&self) -> bool {
        (self.from_ms, self.to_ms) == (i64::MIN, i64::MAX)
    }

    pub(crate) fn digest(&self) -> Option<&Digest> {
        if let Pattern::Digest(digest) = &self.pattern { Some(digest) } else { None }
    }

    /// Returns whether a dictionary trained on pages of the host `site` may hold text of pages
    /// that it matches.
    pub(crate) fn may_be_of(&self, site: &[u8]) -> bool {
        let url = [site, b"/"].concat();
        match &self.pattern {
            Pattern::Host(host) => urlindex::host(&url).is_none_or(|found| found == host.as_slice()),
            Pattern::Hashed { part: Part::Host, .. } => urlindex::host(&url).is_none() || self.is_about(&url),
            Pattern::Prefix(prefix) => prefix.starts_with(site) || site.starts_with(prefix),
            _ => true,
        }
    }

    /// Parses a rule.
    pub(crate) fn read(what: &[u8]) -> std::result::Result<Matcher, String> {
        let value: Value = serde_json::from_slice(what).map_err(|e| e.to_string())?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let from_ms = value["from_ms"].as_i64().unwrap_or(i64::MIN);
        let to_ms = value["to_ms"].as_i64().unwrap_or(i64::MAX);
        let kind = text("kind").ok_or("it has no kind")?;
        let pattern = match (kind.as_str(), text("text"), text("sha256").zip(text("salt"))) {
            ("url", _, Some(hash)) => hashed(Part::Url, &hash)?,
            ("host", None, Some(hash)) => hashed(Part::Host, &hash)?,
            ("prefix", None, Some(hash)) => {
                let bytes = value["bytes"].as_u64().ok_or("it has no length")?;
                hashed(Part::Prefix(usize::try_from(bytes).unwrap_or(usize::MAX)), &hash)?
            }
            ("host", Some(host), None) => Pattern::Host(host.into_bytes()),
            ("prefix", Some(prefix), None) => Pattern::Prefix(prefix.into_bytes()),
            ("regex", Some(regex), None) => Pattern::Regex(Box::new(Regex::new(&regex).map_err(|e| e.to_string())?)),
            ("digest", Some(digest), None) => Pattern::Digest(self::digest(&digest).ok_or("its digest is invalid")?),
            _ => return Err(format!("this program does not know rules like `{kind}`")),
        };
        Ok(Matcher { pattern, from_ms, to_ms })
    }
}

fn hashed(part: Part, (sha256, salt): &(String, String)) -> std::result::Result<Pattern, String> {
    let sha256 = hexadecimal(sha256).and_then(|b| <[u8; 32]>::try_from(b).ok()).ok_or("its digest is invalid")?;
    Ok(Pattern::Hashed { part, salt: hexadecimal(salt).ok_or("its salt is invalid")?, sha256 })
}

/// Parses the digest of a rule: a SHA-1 or a SHA-256, labelled, in any notation. Without a label
/// an MD5 could be mistaken for a SHA-1.
pub(super) fn digest(text: &str) -> Option<Digest> {
    if text.trim_end_matches('=').contains([':', '=']) {
        Digest::parse(text).filter(Digest::is_for_rules)
    } else {
        None
    }
}

fn salted(salt: &[u8], text: &[u8]) -> [u8; 32] {
    let mut hasher = sha2::Sha256::new();
    hasher.update(salt);
    hasher.update(text);
    hasher.finalize().into()
}

/// The salt of a rule, if it has one.
pub(crate) fn salt_of(what: &[u8]) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(what).ok()?;
    hexadecimal(value["salt"].as_str()?)
}

impl EraseOrder {
    /// An order for captures of all times.
    pub fn new(target: EraseTarget, reason: impl Into<String>) -> EraseOrder {
        EraseOrder { target, from_ms: None, to_ms: None, reason: reason.into(), hashed: false }
    }

    /// Rejects an invalid order: an empty target, which would match everything, or no reason.
    /// [`PageStore::erase`](crate::PageStore::erase) does so, too.
    ///
    /// ```
    /// use filemap::erase::{EraseOrder, EraseTarget};
    /// let order = |prefix: &[u8]| EraseOrder::new(EraseTarget::Prefix(prefix.to_vec()), "asked");
    /// assert!(order(b"http://example.com/~ann/").check().is_ok() && order(b"").check().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidOption`, with the name of the field.
    pub fn check(&self) -> Result<()> {
        let fail = |name, why: &str| Err(Error::Engine(StorageError::option(name, why).into()));
        let (name, is_empty) = match &self.target {
            EraseTarget::Url(url) => ("url", url.trim_ascii().is_empty()),
            EraseTarget::Host(host) => ("host", host.trim().is_empty()),
            EraseTarget::Prefix(prefix) => ("prefix", prefix.trim_ascii().is_empty()),
            EraseTarget::Regex(regex) => ("regex", regex.is_empty()),
            EraseTarget::Digest(digest) => ("digest", digest.trim().is_empty()),
        };
        if is_empty {
            return fail(name, "it is empty; name what is to be erased");
        }
        // Unless anchored at both ends, the empty text is found in every URL.
        if let EraseTarget::Regex(regex) = &self.target
            && Regex::new(regex).is_ok_and(|regex| regex.is_match(b""))
        {
            return fail(name, "it matches the empty text, which is in every URL; let it match at least one byte");
        }
        if self.reason.trim().is_empty() {
            return fail("reason", "it is empty: give a reason, for example a reference; the rule keeps it");
        }
        Ok(())
    }

    /// The rule as stored; `canonical` is the URL's key.
    ///
    /// # Errors
    ///
    /// [`Error::Rule`] if the order is invalid.
    pub(crate) fn what(&self, canonical: Option<&[u8]>, salt: &[u8]) -> Result<Vec<u8>> {
        let mut map = Map::new();
        let mut set = |name: &str, value: Value| {
            map.insert(name.to_owned(), value);
        };
        let digest = |text: &[u8]| json!(hex(&salted(salt, text)));
        let fail = |what: &str| Err(Error::Rule { id: 0, what: what.to_owned() });
        let mut is_hashed = self.hashed;
        match &self.target {
            EraseTarget::Url(url) => {
                set("kind", json!("url"));
                set("sha256", digest(canonical.map_or(url, key::url)));
                is_hashed = true;
            }
            EraseTarget::Host(host) => {
                let host = urlindex::canonical::canonical_host(host).unwrap_or_else(|| host.clone());
                set("kind", json!("host"));
                if is_hashed { set("sha256", digest(host.as_bytes())) } else { set("text", json!(host)) }
            }
            EraseTarget::Prefix(prefix) => {
                set("kind", json!("prefix"));
                let Ok(text) = str::from_utf8(prefix) else { return fail("a prefix is text") };
                if is_hashed {
                    set("sha256", digest(prefix));
                    set("bytes", json!(prefix.len()));
                } else {
                    set("text", json!(text));
                }
            }
            EraseTarget::Regex(_) if is_hashed => return fail("a regular expression cannot be kept as a digest"),
            EraseTarget::Regex(regex) => {
                if let Err(e) = Regex::new(regex) {
                    return fail(&e.to_string());
                }
                set("kind", json!("regex"));
                set("text", json!(regex));
            }
            EraseTarget::Digest(text) => {
                let Some(digest) = self::digest(text) else {
                    return fail("a digest is sha1: or sha256: and hexadecimal, base 32 or base 64 digits");
                };
                set("kind", json!("digest"));
                set("text", json!(digest.text()));
                is_hashed = false;
            }
        }
        if is_hashed {
            set("salt", json!(hex(salt)));
        }
        for (name, time_ms) in [("from_ms", self.from_ms), ("to_ms", self.to_ms)] {
            time_ms.iter().for_each(|time_ms| set(name, json!(time_ms)));
        }
        Ok(Value::Object(map).to_string().into_bytes())
    }
}

/// The target of a rule as text.
pub(crate) fn words(what: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(what) else { return String::new() };
    let kind = value["kind"].as_str().unwrap_or("rule");
    match (value["text"].as_str(), value["sha256"].as_str()) {
        (Some(text), _) => format!("{kind} {text}"),
        (None, Some(sha256)) => format!("{kind} kept as a digest, {}", sha256.get(..12).unwrap_or_default()),
        _ => kind.to_owned(),
    }
}
