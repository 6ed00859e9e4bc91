//! The host in a key, found without parsing.
//!
//! Listings by host examine every key, so this scans bytes: past `://` to the end of the
//! authority, without user and port. For a canonical WHATWG URL the result is the canonical host;
//! for other bytes it is whatever is found there, or `None`.

/// The host of the URL `key`; `None` without an authority (`mailto:`, `data:`) or with an empty
/// host (`file:///x`).
///
/// An IPv6 address keeps its brackets.
pub fn host<K: AsRef<[u8]> + ?Sized>(key: &K) -> Option<&[u8]> {
    let key = key.as_ref();
    let colon = key.iter().position(|&byte| byte == b':')?;
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    if colon == 0 || !key[..colon].iter().all(is_scheme) {
        return None;
    }
    let rest = key[colon + 1..].strip_prefix(b"//")?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#' | b'\\')).unwrap_or(rest.len());
    let authority = &rest[..end];
    let after_user = authority.iter().rposition(|&byte| byte == b'@').map_or(0, |at| at + 1);
    let with_port = &authority[after_user..];
    let end = match with_port.first() {
        Some(b'[') => with_port.iter().position(|&byte| byte == b']').map_or(with_port.len(), |at| at + 1),
        _ => with_port.iter().position(|&byte| byte == b':').unwrap_or(with_port.len()),
    };
    Some(&with_port[..end]).filter(|host| !host.is_empty())
}

/// Shard number, below `shards`, of a URL's host, for crawls that share their hosts: XXH3-64 of
/// the host (of an empty text if the URL has none) modulo `shards`. The function never changes, so
/// crawls of any version agree.
///
/// ```
/// use urlindex::shard;
/// assert_eq!(shard(b"http://example.com/a", 4), shard(b"https://example.com:8080/b", 4));
/// assert_eq!(shard(b"http://example.com/", 1_000), 347);
/// ```
pub fn shard<K: AsRef<[u8]> + ?Sized>(url: &K, shards: u32) -> u32 {
    let hash = xxhash_rust::xxh3::xxh3_64(host(url).unwrap_or_default());
    (hash % u64::from(shards.max(1))) as u32
}

/// The canonical form of a typed host: lower case, international names in punycode, addresses in
/// their shortest form. `None` if the text is not a host.
pub fn canonical_host(text: &str) -> Option<String> {
    url::Host::parse(text).ok().map(|host| host.to_string())
}

/// Returns whether a text may be a bare host, without scheme, port or path.
pub fn is_bare_host(text: &str) -> bool {
    // A colon inside an IPv6 address does not begin a port.
    let has_port = text.rsplit_once(':').is_some_and(|(name, _)| !name.contains(':') || name.ends_with(']'));
    let has_more = text.contains(['/', '?', '#', '@', '\\']) || text.contains(char::is_whitespace);
    !text.is_empty() && !has_port && !has_more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_stands_between_user_and_port() {
        let cases: [(&str, Option<&str>); 10] = [
            ("http://example.com/", Some("example.com")),
            ("https://user:p%40ss@example.com:8443/x@y", Some("example.com")),
            ("http://example.com?q=a://b", Some("example.com")),
            ("http://[::1]:80/", Some("[::1]")),
            ("ftp://127.0.0.1", Some("127.0.0.1")),
            ("file:///etc/hosts", None),
            ("mailto:someone@example.com", None),
            ("/relative/a://b", None),
            ("", None),
            ("://x/", None),
        ];
        for (key, expected) in cases {
            assert_eq!(host(key.as_bytes()), expected.map(str::as_bytes), "{key}");
        }
    }

    #[test]
    fn any_bytes_have_a_host_or_none() {
        for bytes in [&b"\xff://\xfe/"[..], b"a://[", b"a://@", b"a://:", b"a:///"] {
            let _ = host(bytes);
        }
        assert_eq!(host(b"a://\xfe/"), Some(&b"\xfe"[..]));
    }

    #[test]
    fn a_host_as_written_becomes_the_host_of_keys() {
        assert_eq!(canonical_host("Example.COM").as_deref(), Some("example.com"));
        assert_eq!(canonical_host("bücher.example").as_deref(), Some("xn--bcher-kva.example"));
        assert_eq!(canonical_host("127.1").as_deref(), Some("127.0.0.1"));
        assert_eq!(canonical_host("[::0001]").as_deref(), Some("[::1]"));
        assert_eq!(canonical_host("a b"), None);
    }
}
