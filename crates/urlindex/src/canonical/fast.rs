//! Proves by bytes alone that a URL is canonical: the parser would return the same text.
//!
//! Most links of a crawl pass. The check covers `http` and `https` URLs with a plain host and
//! plain characters, and leaves others undecided; a property test compares it with the parser.
//!
//! Proof, by the URL standard: the scheme is lower case, followed by `//`; the host has only
//! lower-case letters, digits, hyphens and dots, no empty label, no label that begins with `xn--`
//! (punycode would be checked) and a last label that begins with a letter (so it is no IPv4
//! address), hence is its own ASCII form; a `/` follows, so there is no port, and no `@` came
//! before it (hosts reversed by rule `surt` pass too); no path segment begins with `.` or `%2e`
//! (nothing to resolve); path and query have only characters that are not percent-encoded there,
//! apart from escapes, which stay. What follows a `#` is cut off, and cannot change what comes
//! before.

use super::parts::marked;

/// The part of `url` that is its canonical form without the fragment, if the bytes prove that;
/// `None` proves nothing.
#[inline]
pub(super) fn canonical_part(url: &[u8]) -> Option<&[u8]> {
    let start = match url {
        [b'h', b't', b't', b'p', b':', b'/', b'/', ..] => 7,
        [b'h', b't', b't', b'p', b's', b':', b'/', b'/', ..] => 8,
        _ => return None,
    };
    let path = start + plain_host(&url[start..])?;
    let mut previous = 0;
    let mut in_query = 0;
    for (i, &byte) in url[path..].iter().enumerate() {
        let class = CLASS[byte as usize];
        if class & (PATH << in_query) == 0 {
            match byte {
                b'?' => in_query = 1,
                // Any ASCII text may follow.
                b'#' => return url[path + i..].is_ascii().then(|| &url[..path + i]),
                _ => return None,
            }
        }
        if previous == b'/' && class & DOT != 0 && in_query == 0 && begins_dots(&url[path + i..]) {
            return None;
        }
        previous = byte;
    }
    Some(url)
}

/// Allowed in a path; in a query; may begin a dot segment; allowed in a host.
const PATH: u8 = 1;
const QUERY: u8 = 2;
const DOT: u8 = 4;
const HOST: u8 = 8;

const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let is_alphanumeric = (byte as u8).is_ascii_alphanumeric();
        if is_alphanumeric {
            class[byte] |= PATH | QUERY;
        }
        if is_alphanumeric && !(byte as u8).is_ascii_uppercase() {
            class[byte] |= HOST;
        }
        byte += 1;
    }
    let class = marked(class, b"-._~!$&()*+,;=:@/%", PATH | QUERY);
    marked(marked(marked(class, b"?", QUERY), b".%", DOT), b".-", HOST)
};

fn begins_dots(segment: &[u8]) -> bool {
    segment[0] == b'.' || matches!(segment, [b'%', b'2', b'e' | b'E', ..])
}

/// Length of the plain host at the start of `rest`, if a `/` follows.
#[inline]
fn plain_host(rest: &[u8]) -> Option<usize> {
    if rest.first() == Some(&b'(') {
        return turned_host(rest);
    }
    let mut label = 0;
    for (i, &byte) in rest.iter().enumerate() {
        if CLASS[byte as usize] & HOST == 0 {
            let is_name = i > label && rest[label].is_ascii_lowercase() && !rest[label..i].starts_with(b"xn--");
            return (byte == b'/' && is_name).then_some(i);
        }
        if byte == b'.' {
            if i == label || rest[label..i].starts_with(b"xn--") {
                return None;
            }
            label = i + 1;
        }
    }
    None
}

/// A reversed host, `(com,example,)` or `(1.2.3.4)`: to the parser a name like others, without a
/// label that is a number or punycode.
fn turned_host(rest: &[u8]) -> Option<usize> {
    let end = rest.iter().position(|&byte| byte == b'/')?;
    let inner = rest[1..end].strip_suffix(b")")?;
    let is_plain = inner.iter().all(|&byte| CLASS[byte as usize] & HOST != 0 || byte == b',');
    let has_punycode = inner.windows(5).any(|five| five == b".xn--");
    (is_plain && !has_punycode && !inner.is_empty()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(url: &[u8]) -> Option<String> {
        let mut url = url::Url::parse(std::str::from_utf8(url).ok()?).ok()?;
        url.set_fragment(None);
        Some(url.into())
    }

    #[track_caller]
    fn holds(url: &[u8]) -> bool {
        let Some(part) = canonical_part(url) else { return false };
        assert_eq!(parsed(url).as_deref().map(str::as_bytes), Some(part), "{:?}", String::from_utf8_lossy(url));
        true
    }

    #[test]
    fn plain_urls_are_told_and_odd_ones_are_left_to_the_parser() {
        let plain = [
            "http://a/",
            "https://www.example.com/x/y.html?q=%C3%A9&r=/../#\t'",
            "http://e-1.x/a..b/~c/%zz",
            "http://(com,a,)/",
            "http://(1.2.3.4)/x",
        ];
        assert!(plain.iter().all(|url| holds(url.as_bytes())));
        let odd = [
            "http://a",
            "http://A/",
            "http://1.2.3.4/",
            "http://a.0x/",
            "http://a./",
            "http://a..b/",
            "http://xn--a/",
            "http://a:80/",
            "http://u@a/",
            "http://a/./",
            "http://a/%2e%2e/b",
            "http://a/x/..",
            "http://a/'?'",
            "ftp://a/",
            "http://a/ ",
            "http://a/\u{e9}",
            "http://a/#\u{e9}",
            "http:///",
            "http://",
            "",
            "http://a.xn--b/",
            "http://a\\b/",
        ];
        assert_eq!(odd.iter().find(|url| canonical_part(url.as_bytes()).is_some()), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_told_is_what_the_parser_gives(url in "https?://[a-zA-Z0-9.:@_xn-]{0,12}[/?#][ -~\t\n\u{e9}]{0,20}") {
            holds(url.as_bytes());
        }

        #[test]
        fn of_urls_made_of_tricky_pieces_too(pieces in proptest::collection::vec(proptest::sample::select(vec![
            "http://", "https://", "a", "b.c", "1", "0x2", "xn--", "-", ".", "..", "/", "%2e", "%2E", "%", "?", "#", "'", "=",
            ";", ":", "@", ",", "com", "xn--a", "4", "\\", "|", "^", "[", "]", "{", "~", "!", "$", "*", "(", ",", "&", "+", " ", "\"", "<", "`", "_", "\u{7f}",
        ]), 0..12)) {
            holds(format!("http://{}", pieces.concat()).as_bytes());
            holds(format!("http://({})/", pieces.concat()).as_bytes());
            holds(format!("https://example.com/{}", pieces.concat()).as_bytes());
        }
    }
}
