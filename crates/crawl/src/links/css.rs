//! The requisites of a style sheet: `url(...)` and `@import`. The scan skips comments and strings.
//!
//! Not a parser: it also finds URLs in rules that a browser would drop.

/// The maximum number of hexadecimal digits in an escape.
const DIGITS: usize = 6;

/// Calls `take` with each URL as written; skips `data:` URLs.
pub fn find(css: &[u8], mut take: impl FnMut(&[u8])) {
    let (mut at, mut imports) = (0, false);
    while at < css.len() {
        let rest = &css[at..];
        if rest.starts_with(b"/*") {
            at += 2 + memchr::memmem::find(&rest[2..], b"*/").map_or(rest.len(), |end| end + 2);
        } else if begins(rest, b"url(") && !css[..at].last().is_some_and(|byte| is_of_a_name(*byte)) {
            let inner = &rest[4..];
            let blanks = inner.len() - inner.trim_ascii_start().len();
            let (url, used) = match inner.get(blanks) {
                Some(quote @ (b'"' | b'\'')) => {
                    let (url, used) = quoted(&inner[blanks + 1..], *quote);
                    (url, used + 1)
                }
                _ => until(&inner[blanks..], |byte| byte == b')' || byte.is_ascii_whitespace()),
            };
            tell(url, &mut take);
            (at, imports) = (at + 4 + blanks + used, false);
        } else if let quote @ (b'"' | b'\'') = rest[0] {
            let (url, used) = quoted(&rest[1..], quote);
            if imports {
                tell(url, &mut take);
            }
            (at, imports) = (at + 1 + used, false);
        } else {
            let is_import = begins(rest, b"@import");
            imports = is_import || imports && rest[0].is_ascii_whitespace();
            at += if is_import { 7 } else { 1 };
        }
    }
}

fn begins(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || byte >= 0x80
}

fn tell(url: Vec<u8>, take: &mut impl FnMut(&[u8])) {
    if !url.is_empty() && !begins(&url, b"data:") {
        take(&url);
    }
}

/// A string up to its quote, or to the end of its line; and its length in bytes.
fn quoted(text: &[u8], quote: u8) -> (Vec<u8>, usize) {
    let (url, used) = until(text, |byte| byte == quote || byte == b'\n');
    (url, (used + 1).min(text.len()))
}

/// A text up to an end, unescaped; and its length in bytes.
fn until(text: &[u8], is_end: impl Fn(u8) -> bool) -> (Vec<u8>, usize) {
    let (mut url, mut at) = (Vec::new(), 0);
    while at < text.len() && !is_end(text[at]) {
        if text[at] != b'\\' {
            url.push(text[at]);
            at += 1;
            continue;
        }
        at += 1;
        let digits = text[at..].iter().take(DIGITS).take_while(|byte| byte.is_ascii_hexdigit()).count();
        let number = std::str::from_utf8(&text[at..at + digits]).ok();
        let number = number.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match number.and_then(char::from_u32) {
            Some(letter) => {
                url.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                at += digits + usize::from(text.get(at + digits).is_some_and(u8::is_ascii_whitespace));
            }
            // An escaped line end continues the string.
            None => {
                url.extend(text.get(at).filter(|byte| **byte != b'\n'));
                at += 1;
            }
        }
    }
    (url, at.min(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(css: &str) -> Vec<String> {
        let mut found = Vec::new();
        find(css.as_bytes(), |url| found.push(String::from_utf8_lossy(url).into_owned()));
        found
    }

    #[test]
    fn every_form_is_found() {
        let css = "@import 'a.css';@IMPORT  \"b.css\" screen; @import url(c.css);\n\
                   p{background:url( 'd e.png' ) , URL(f.png )}@font-face{src:url(\"g.woff2\")format('woff2'),url(h\\2e ttf)}";
        assert_eq!(urls(css), ["a.css", "b.css", "c.css", "d e.png", "f.png", "g.woff2", "h.ttf"]);
    }

    #[test]
    fn what_is_none_is_left() {
        let css = "/* url(a) @import 'b' */ p{content:'url(c)';x:url(data:image/png;base64,d);y:myurl(e);z:url()} 'f'";
        assert_eq!(urls(css), [""; 0]);
    }

    #[test]
    fn no_bytes_are_a_panic() {
        for css in
            ["url(", "url('", "url(\\", "@import", "@import '", "/*", "url(\\41", "'\\", "url('a\\", "\"\n url(x"]
        {
            urls(css);
        }
        let mut seed = 1_u64;
        for _ in 0..2000 {
            let mut css = Vec::new();
            for _ in 0..40 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let pieces: [&[u8]; 10] = [b"url(", b"'", b"\"", b"\\", b")", b"/*", b"*/", b"@import ", b"4", b"\xff"];
                css.extend_from_slice(pieces[(seed >> 33) as usize % 10]);
            }
            find(&css, |_| ());
        }
    }
}
