//! Selects the versions of a dump: by host, prefix, time, status and type.
//!
//! The canonical URL and the description of a version decide, not its body. A version that lacks
//! the field of a condition (such as a status) does not match.

use std::str::FromStr;

use crate::access::Scope;
use crate::page::Page;

/// The versions that a dump selects; by default all.
///
/// ```
/// use filemap::dump::Selection;
/// let texts = "text/*".parse().unwrap();
/// let pages = Selection::new().host_with_subdomains("Example.com").status("2xx".parse().unwrap()).mime(texts);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    host: Option<Vec<u8>>,
    /// The host, if its subdomains are included.
    domain: Option<Vec<u8>>,
    prefix: Vec<u8>,
    from_ms: Option<i64>,
    before_ms: Option<i64>,
    statuses: Vec<StatusRange>,
    mimes: Vec<MimeRange>,
}

/// A range of status codes: one (`404`), a class (`2xx`), or first and last (`200-299`).
///
/// ```
/// use filemap::Page;
/// use filemap::dump::Selection;
/// let selection = Selection::new().status("2xx".parse().unwrap());
/// assert!(!selection.takes("http://a/", &Page::new("http://a/", 0, 404, "")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

impl StatusRange {
    /// The codes from `first` to `last`, both included.
    pub fn new(first: u16, last: u16) -> StatusRange {
        StatusRange { first, last }
    }
}

impl FromStr for StatusRange {
    type Err = String;

    fn from_str(text: &str) -> Result<StatusRange, String> {
        let number = |text: &str| text.parse::<u16>().ok();
        let range = match text.split_once('-') {
            Some((first, last)) => number(first).zip(number(last)),
            None => match text.strip_suffix("xx").or_else(|| text.strip_suffix("XX")) {
                Some(class) => number(class).filter(|class| (1..=9).contains(class)).map(|c| (c * 100, c * 100 + 99)),
                None => number(text).map(|code| (code, code)),
            },
        };
        match range {
            Some((first, last)) if first <= last => Ok(StatusRange { first, last }),
            _ => Err(format!("`{text}` is not a status; write 404, 2xx or 200-299")),
        }
    }
}

/// A media type (`text/html`), a prefix (`text/*`, `image/svg*`), or all (`*/*`, `*`): without
/// parameters, case-insensitive.
///
/// ```
/// use filemap::dump::MimeRange;
/// assert!("text/*".parse::<MimeRange>().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MimeRange {
    /// In lower case; for a prefix, the text before the `*`.
    beginning: String,
    is_range: bool,
}

impl FromStr for MimeRange {
    type Err = String;

    /// # Errors
    ///
    /// A text that no media type can match is refused: it would select nothing.
    fn from_str(text: &str) -> Result<MimeRange, String> {
        let wanted = text.trim().to_ascii_lowercase();
        if wanted == "*" || wanted == "*/*" {
            return Ok(MimeRange { beginning: String::new(), is_range: true });
        }
        let (beginning, is_range) = match wanted.strip_suffix('*') {
            Some(beginning) => (beginning, true),
            None => (wanted.as_str(), false),
        };
        let is_name = |name: &str| name.bytes().all(is_of_token);
        match beginning.split_once('/') {
            Some((group, name))
                if !group.is_empty() && is_name(group) && is_name(name) && (is_range || !name.is_empty()) =>
            {
                Ok(MimeRange { beginning: beginning.to_owned(), is_range })
            }
            _ => {
                Err(format!("`{text}` is not a media type; write text/html, without parameters, or text/* for a group"))
            }
        }
    }
}

/// The characters of media types (RFC 9110, 5.6.2) except `*`, which is a wildcard here.
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte)
}

/// A host in the spelling of canonical URLs.
fn canonical(host: &str) -> Vec<u8> {
    urlindex::canonical::canonical_host(host).unwrap_or_else(|| host.to_owned()).into_bytes()
}

impl Selection {
    /// All versions.
    pub fn new() -> Selection {
        Selection::default()
    }

    /// Only pages of this host, in any spelling; not those of its subdomains. If combined with
    /// [`Selection::host_with_subdomains`], both conditions apply.
    pub fn host(mut self, host: impl AsRef<str>) -> Selection {
        self.host = Some(canonical(host.as_ref()));
        self
    }

    /// Only pages of this host, in any spelling, and of its subdomains.
    pub fn host_with_subdomains(mut self, host: impl AsRef<str>) -> Selection {
        self.domain = Some(canonical(host.as_ref()));
        self
    }

    /// Only pages whose canonical URL begins with these bytes.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Selection {
        self.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Only versions fetched at this time or later.
    pub fn from(mut self, time_ms: i64) -> Selection {
        self.from_ms = Some(time_ms);
        self
    }

    /// Only versions fetched before this time.
    pub fn before(mut self, time_ms: i64) -> Selection {
        self.before_ms = Some(time_ms);
        self
    }

    /// Only versions with a status in this range; with several ranges, in any of them.
    pub fn status(mut self, range: StatusRange) -> Selection {
        self.statuses.push(range);
        self
    }

    /// Only versions whose `Content-Type` matches; with several ranges, any of them.
    pub fn mime(mut self, range: MimeRange) -> Selection {
        self.mimes.push(range);
        self
    }

    /// Returns whether a version is selected; `url` is its canonical URL.
    pub fn takes(&self, url: impl AsRef<[u8]>, page: &Page) -> bool {
        self.takes_key(url.as_ref(), page.fetched_at_ms) && self.takes_description(page)
    }

    /// A scope, by URL alone, that contains all selected versions.
    pub(crate) fn scope(&self) -> Scope {
        let text = |host: &Vec<u8>| String::from_utf8_lossy(host).into_owned();
        let mut scope = Scope::new().prefix(self.prefix.clone());
        (scope.host, scope.domain) = (self.host.as_ref().map(text), self.domain.as_ref().map(text));
        scope
    }

    /// Returns whether a version of this canonical URL and time may be selected.
    pub(crate) fn takes_key(&self, url: &[u8], time_ms: i64) -> bool {
        url.starts_with(&self.prefix)
            && self.from_ms.is_none_or(|from| time_ms >= from)
            && self.before_ms.is_none_or(|before| time_ms < before)
            && self.takes_host(url)
    }

    /// Returns whether a version with this status and type may be selected.
    pub(crate) fn takes_description(&self, page: &Page) -> bool {
        (self.statuses.is_empty() || self.takes_status(page.status)) && (self.mimes.is_empty() || self.takes_mime(page))
    }

    /// Returns whether it has a condition on status or type.
    #[cfg(feature = "arrow")]
    pub(crate) fn is_of_description(&self) -> bool {
        !self.statuses.is_empty() || !self.mimes.is_empty()
    }

    fn takes_host(&self, url: &[u8]) -> bool {
        if self.host.is_none() && self.domain.is_none() {
            return true;
        }
        let Some(host) = urlindex::host(url) else { return false };
        let is_below = |domain: &[u8]| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with(b"."));
        self.host.as_ref().is_none_or(|wanted| host == wanted.as_slice())
            && self.domain.as_ref().is_none_or(|domain| host == domain.as_slice() || is_below(domain))
    }

    fn takes_status(&self, status: Option<u16>) -> bool {
        status.is_some_and(|code| self.statuses.iter().any(|range| (range.first..=range.last).contains(&code)))
    }

    fn takes_mime(&self, page: &Page) -> bool {
        let Some(mime) = page.headers.mime() else { return false };
        self.mimes.iter().any(|wanted| match wanted.is_range {
            true => mime.starts_with(&wanted.beginning),
            false => mime == wanted.beginning,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let mut page = Page::new("http://a/", 1000, 404, "x");
        page.headers.push("content-type", "Text/HTML; charset=utf-8");
        page
    }

    #[test]
    fn statuses_are_codes_classes_and_ranges() {
        let range = |text: &str| text.parse::<StatusRange>().map(|range| (range.first, range.last));
        assert_eq!(range("404"), Ok((404, 404)));
        assert_eq!(range("2xx"), Ok((200, 299)));
        assert_eq!(range("200-299"), Ok((200, 299)));
        for bad in ["", "xx", "2x", "0xx", "10xx", "300-200", "ok", "-", "70000"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_condition_is_met_or_the_version_is_left_out() {
        let takes = |selection: Selection| selection.takes(b"http://www.a.example/x", &page());
        assert!(takes(Selection::new()));
        assert!(takes(Selection::new().host("WWW.a.example")));
        assert!(takes(Selection::new().host_with_subdomains("a.example")));
        assert!(!takes(Selection::new().host("a.example")));
        assert!(!takes(Selection::new().host_with_subdomains("example.a")));
        assert!(!takes(Selection::new().host_with_subdomains("w.a.example")));
        assert!(takes(Selection::new().host("www.a.example").host_with_subdomains("a.example")));
        assert!(!takes(Selection::new().host("a.example").host_with_subdomains("a.example")));
        assert!(takes(Selection::new().prefix("http://www.")));
        assert!(!takes(Selection::new().prefix("https:")));
        assert!(takes(Selection::new().from(1000).before(1001)));
        assert!(!takes(Selection::new().from(1001)) && !takes(Selection::new().before(1000)));
        assert!(takes(Selection::new().status("2xx".parse().unwrap()).status("404".parse().unwrap())));
        assert!(!takes(Selection::new().status("5xx".parse().unwrap())));
        let mime = |text: &str| Selection::new().mime(text.parse().unwrap());
        for like in ["text/*", "text/HTML", "text/ht*", "*", "*/*", " text/html"] {
            assert!(takes(mime(like)), "{like}");
        }
        assert!(!takes(mime("text/htm")) && !takes(mime("image/*")));
        assert!(!takes(mime("text/html").from(2000)));
    }

    #[test]
    fn a_text_that_no_type_is_like_is_refused() {
        let bad = [
            "",
            "html",
            "text",
            "text/",
            "/html",
            "/",
            "text/*/x",
            "*/html",
            "te*t/html",
            "text/ht*l",
            "text*",
            "text/**",
            "text/html; charset=utf-8",
            "text/html;",
            "text/html/x",
            "text /html",
            "text/h tml",
            "text/html,image/png",
            "t\u{e9}xt/html",
        ];
        for text in bad {
            let said = text.parse::<MimeRange>().expect_err(text);
            assert!(said.contains("text/html"), "{said}");
        }
    }

    #[test]
    fn what_has_no_status_or_type_meets_no_condition_on_it() {
        let page = Page::default();
        assert!(!Selection::new().status("0-999".parse().unwrap()).takes(b"x", &page));
        assert!(!Selection::new().mime("*".parse().unwrap()).takes(b"x", &page));
        assert!(!Selection::new().host_with_subdomains("x").takes(b"x", &page));
    }
}
