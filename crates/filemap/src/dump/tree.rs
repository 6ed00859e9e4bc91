//! File names for pages: a tree of folders by host and path, safe on every file system.
//!
//! Names are for people; the list beside the tree has the URLs. So names may differ from the URL:
//! characters with a meaning for a file system or shell are percent-encoded, long parts are cut,
//! and if two pages would share a name (a file that is also a folder, names that differ only in
//! case), the second one gets a unique name.
//!
//! Invariants: a path is relative; none of its parts is empty, `.` or `..`, begins with a dot, or
//! is longer than [`MAX_PART_BYTES`]; no path of a URL leads into [`APART`].

use crate::date;
use crate::page::Page;

/// The longest part of a path, in bytes; file systems allow 255.
const MAX_PART_BYTES: usize = 200;
/// The longest path, in bytes; some programs allow 1024.
const MAX_PATH_BYTES: usize = 800;
/// The folder for pages whose usual name is taken. No part of a URL begins with it: `~` is encoded
/// in those.
const APART: &str = "~";

/// The names of one page; the second is used if the first is taken.
pub(super) struct Names {
    /// Like the URL.
    pub(super) usual: String,
    /// Unique.
    pub(super) apart: String,
}

/// The names of the page of this canonical URL; `digest` identifies the version. With `with_time`,
/// the name has the time, to separate versions.
pub(super) fn names(canonical_url: &[u8], page: &Page, digest: u128, with_time: bool) -> Names {
    let Parts { host, path, query } = split(canonical_url);
    let mut parts: Vec<String> = vec![part(host)];
    let (folders, last) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&b""[..], path),
    };
    parts.extend(folders.split(|&byte| byte == b'/').filter(|folder| !folder.is_empty()).map(part));
    let mut name = if last.is_empty() { b"index".to_vec() } else { last.to_vec() };
    if let Some(query) = query {
        name.push(b'@');
        name.extend_from_slice(query);
    }
    let extension = extension(last, query.is_some(), page);
    let mut end = String::new();
    if with_time {
        end.push_str(&format!("~{}", date::stamp(page.fetched_at_ms)));
    }
    end.push_str(extension);
    let apart = format!("{}/{APART}/{digest:032x}{extension}", parts[0]);
    parts.push(cut(encoded(&name), MAX_PART_BYTES - end.len(), digest) + &end);
    let usual = parts.join("/");
    let usual = if usual.len() > MAX_PATH_BYTES { apart.clone() } else { usual };
    Names { usual, apart }
}

/// The parts of a URL from which a name is made.
struct Parts<'a> {
    /// Host and port; the scheme, if there is no host.
    host: &'a [u8],
    path: &'a [u8],
    query: Option<&'a [u8]>,
}

fn split(url: &[u8]) -> Parts<'_> {
    let (before, query) = match memchr::memchr(b'?', url) {
        Some(at) => (&url[..at], Some(&url[at + 1..])),
        None => (url, None),
    };
    let (scheme, rest) = match memchr::memchr(b':', before) {
        Some(at) => (&before[..at], &before[at + 1..]),
        None => (&b""[..], before),
    };
    let Some(rest) = rest.strip_prefix(b"//") else { return Parts { host: scheme, path: rest, query } };
    let (authority, path) = rest.split_at(memchr::memchr(b'/', rest).unwrap_or(rest.len()));
    let after_user = authority.iter().rposition(|&byte| byte == b'@').map_or(0, |at| at + 1);
    let host = Some(&authority[after_user..]).filter(|host| !host.is_empty());
    Parts { host: host.unwrap_or(scheme), path, query }
}

/// A part of a path; an empty one becomes `_`.
fn part(text: &[u8]) -> String {
    let name = cut(encoded(text), MAX_PART_BYTES, u128::from(crc32fast::hash(text)));
    if name.is_empty() { "_".to_owned() } else { name }
}

/// Percent-encodes all characters of `text` that may have a special meaning.
fn encoded(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, &byte) in text.iter().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'+' | b'=' | b'@' | b',' | b'&' | b'!' | b'(' | b')')
            // Escapes of the URL are kept.
            || byte == b'%' && text[at..].len() > 2 && text[at + 1..at + 3].iter().all(u8::is_ascii_hexdigit)
            || byte == b'.' && at > 0 && at + 1 < text.len();
        if is_plain && !(at == 0 && is_device(text)) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Returns whether the name, without its extension, is a device on Windows.
fn is_device(name: &[u8]) -> bool {
    let stem = name.split(|&byte| byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    match stem.as_slice() {
        b"con" | b"prn" | b"aux" | b"nul" => true,
        [b'c', b'o', b'm', digit] | [b'l', b'p', b't', digit] => digit.is_ascii_digit(),
        _ => false,
    }
}

/// A name of up to `bytes` bytes; `digest` replaces what is cut.
fn cut(name: String, bytes: usize, digest: u128) -> String {
    if name.len() <= bytes {
        return name;
    }
    let mark = format!("~{:016x}", digest as u64);
    let mut kept = name;
    kept.truncate(bytes - mark.len());
    kept + &mark
}

/// The extension to add for the media type: empty if the name already has the right one.
fn extension(last: &[u8], has_query: bool, page: &Page) -> &'static str {
    let wanted = match page.headers.mime().as_deref() {
        Some("text/html" | "application/xhtml+xml") => ".html",
        Some("text/plain") => ".txt",
        Some("text/css") => ".css",
        Some("text/javascript" | "application/javascript") => ".js",
        Some("application/json") => ".json",
        Some("application/pdf") => ".pdf",
        Some("image/png") => ".png",
        Some("image/jpeg") => ".jpg",
        Some("image/gif") => ".gif",
        Some("image/svg+xml") => ".svg",
        _ => "",
    };
    let own = last.iter().rposition(|&byte| byte == b'.').map_or(&b""[..], |at| &last[at..]);
    let is_html = wanted == ".html" && !own.eq_ignore_ascii_case(b".html") && !own.eq_ignore_ascii_case(b".htm");
    if has_query || own.is_empty() || is_html { wanted } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(url: &str, mime: &str) -> String {
        let mut page = Page::new(url, 1_488_772_926_000, 200, "");
        page.headers.push("Content-Type", mime);
        names(url.as_bytes(), &page, 7, false).usual
    }

    #[test]
    fn names_read_like_their_urls() {
        let cases = [
            ("http://a.example/", "text/html", "a.example/index.html"),
            ("http://a.example/x/y.html", "text/html", "a.example/x/y.html"),
            ("http://a.example/x.php?q=1", "text/html", "a.example/x.php@q=1.html"),
            ("http://a.example/x?q=1", "", "a.example/x@q=1"),
            ("http://a.example/pic", "image/png", "a.example/pic.png"),
            ("http://a.example/pic.jpeg", "image/jpeg", "a.example/pic.jpeg"),
            ("http://u@a.example:81/x", "", "a.example%3A81/x"),
            ("dns:a.example", "text/dns", "dns/a.example"),
        ];
        for (url, mime, expected) in cases {
            assert_eq!(name(url, mime), expected, "{url}");
        }
        let page = Page::new("x", 1_488_772_926_000, 200, "");
        assert_eq!(names(b"http://a/b", &page, 7, true).usual, "a/b~20170306040206");
        assert_eq!(names(b"http://a/b", &page, 255, true).apart, "a/~/000000000000000000000000000000ff");
    }

    #[test]
    fn nothing_leads_out_of_the_folder_or_means_something_else() {
        let cases = [
            ("http://a/../../etc/passwd", "a/%2E%2E/%2E%2E/etc/passwd"),
            ("file:///etc/passwd", "file/etc/passwd"),
            ("http://a/.htaccess", "a/%2Ehtaccess"),
            ("http://a/~/x", "a/%7E/x"),
            ("http://a/con.txt", "a/%63on.txt"),
            ("http://a/b.", "a/b%2E"),
            ("http://a/b\\c:d\n", "a/b%5Cc%3Ad%0A"),
            ("http://../x", "%2E%2E/x"),
            ("/x", "_/x"),
        ];
        for (url, expected) in cases {
            assert_eq!(name(url, ""), expected, "{url}");
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let (first, second) = (
            name(&format!("http://a/{}", "x".repeat(300)), ""),
            name(&format!("http://a/b/{}/c", "y".repeat(300)), ""),
        );
        assert!(first.split('/').chain(second.split('/')).all(|part| part.len() <= MAX_PART_BYTES), "{first} {second}");
        assert!(first.ends_with("~0000000000000007"), "{first}");
        assert!(name(&format!("http://a/{}", "z/".repeat(500)), "").starts_with("a/~/"));
    }

    proptest! {
        #[test]
        fn any_url_has_a_safe_name(url: Vec<u8>, text in "[a-z:/.?~@%]{0,30}", with_time: bool) {
            for url in [url.clone(), text.into_bytes(), [b"http://", &url[..]].concat()] {
                let names = names(&url, &Page::new(&url[..], 0, 200, ""), 1, with_time);
                for path in [&names.usual, &names.apart] {
                    prop_assert!(path.is_ascii() && !path.contains('\\') && path.split('/').count() >= 2, "{}", path);
                    for part in path.split('/') {
                        let is_safe = !part.is_empty() && !part.starts_with('.') && part.len() <= MAX_PART_BYTES;
                        prop_assert!(is_safe && !part.ends_with('.'), "{}", path);
                    }
                }
            }
        }
    }
}
