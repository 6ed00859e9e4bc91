//! Query strings whose values are bytes, since a URL may hold any byte.
//!
//! `%41` is a byte and `+` a space, as in HTML forms. A name that the route does not know, or that
//! occurs twice, is an error: most often the `&` of a `url=` value was not escaped.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

/// Every byte but the unreserved characters.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes bytes as a query value.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, ESCAPED).to_string()
}

/// A parsed query string.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Parses a query string; the error is a sentence for the user.
    pub(crate) fn parse(raw: Option<&str>, known: &[&str]) -> Result<Query, String> {
        Query::parse_repeating(raw, known, "")
    }

    /// As [`Query::parse`]; the parameter `repeats` may occur several times.
    pub(crate) fn parse_repeating(raw: Option<&str>, known: &[&str], repeats: &str) -> Result<Query, String> {
        let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
        for part in raw.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = String::from_utf8_lossy(&decoded(name)).into_owned();
            if !known.contains(&name.as_str()) {
                return Err(format!(
                    "unknown parameter `{name}` (known are: {}); write %26 for `&` in a URL within a query",
                    known.join(", ")
                ));
            }
            if name != repeats && fields.iter().any(|(other, _)| *other == name) {
                return Err(format!("the parameter `{name}` occurs twice"));
            }
            fields.push((name, decoded(value).into_owned()));
        }
        Ok(Query(fields))
    }

    /// The bytes of a parameter.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_slice())
    }

    /// The bytes of a required parameter.
    pub(crate) fn needed(&self, name: &str) -> Result<&[u8], String> {
        let value = self.bytes(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("the parameter `{name}` is missing"))
    }

    /// A parameter that is text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let text = self.bytes(name).map(std::str::from_utf8).transpose();
        text.map_err(|_| format!("the parameter `{name}` is not UTF-8"))
    }

    /// All values of a parameter that may occur several times, in their order.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<&str>, String> {
        let values = self.0.iter().filter(|(own, _)| own == name).map(|(_, value)| std::str::from_utf8(value));
        let texts: Result<Vec<&str>, _> = values.collect();
        texts.map_err(|_| format!("the parameter `{name}` is not UTF-8"))
    }

    /// A parameter parsed by `read`; `wanted` describes valid values.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| format!("the parameter `{name}` is {wanted}, not `{text}`"))
    }

    /// A switch: `1` or `0`.
    pub(crate) fn switch(&self, name: &str) -> Result<Option<bool>, String> {
        self.read(name, "1 or 0", |text| match text {
            "1" => Some(true),
            "0" => Some(false),
            _ => None,
        })
    }
}

fn decoded(text: &str) -> Cow<'_, [u8]> {
    if text.contains('+') {
        return Cow::Owned(percent_decode(text.replace('+', " ").as_bytes()).collect());
    }
    percent_decode(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        for plain in ["http://a/b", "", "a b", "\u{e9}"] {
            let raw = format!("url={plain}");
            assert_eq!(Query::parse(Some(&raw), &["url"]).unwrap().bytes("url"), Some(plain.as_bytes()));
        }
        let raw = format!("url={}&at=1", encoded(&all));
        let query = Query::parse(Some(&raw), &["url", "at"]).unwrap();
        assert_eq!((query.bytes("url"), query.text("at")), (Some(&all[..]), Ok(Some("1"))));
        assert_eq!(Query::parse(Some("url=a+b%2Bc"), &["url"]).unwrap().bytes("url"), Some(&b"a b+c"[..]));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let unescaped = Query::parse(Some("url=http://a/?x=1&y=2"), &["url"]).unwrap_err();
        assert!(unescaped.contains("`y`") && unescaped.contains("%26"), "{unescaped}");
        assert!(Query::parse(Some("url=a&url=b"), &["url"]).unwrap_err().contains("twice"));
        let twice = Some("url=a&filter=b&filter=c");
        let query = Query::parse_repeating(twice, &["url", "filter"], "filter").unwrap();
        assert_eq!((query.texts("filter"), query.texts("url")), (Ok(vec!["b", "c"]), Ok(vec!["a"])));
        assert!(Query::parse_repeating(twice, &["url", "filter"], "url").unwrap_err().contains("`filter`"));
        let query = Query::parse(Some("durable=yes&url=&n=%ff"), &["durable", "url", "n"]).unwrap();
        assert!(query.switch("durable").unwrap_err().contains("1 or 0"));
        assert!(query.needed("url").unwrap_err().contains("missing"));
        assert!(query.text("n").unwrap_err().contains("UTF-8"));
        assert!(query.switch("absent").unwrap().is_none());
    }
}
