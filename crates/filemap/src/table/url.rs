//! The parts of a canonical URL, extracted without decoding.

/// The parts of a URL; `None` for missing ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub(super) protocol: Option<&'a [u8]>,
    pub(super) host: Option<&'a [u8]>,
    pub(super) port: Option<i32>,
    pub(super) path: &'a [u8],
    pub(super) query: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(url: &'a [u8]) -> Parts<'a> {
        let url = &url[..memchr::memchr(b'#', url).unwrap_or(url.len())];
        let (before, query) = match memchr::memchr(b'?', url) {
            Some(at) => (&url[..at], Some(&url[at + 1..])),
            None => (url, None),
        };
        let Some(colon) = memchr::memchr(b':', before) else {
            return Parts { path: before, query, ..Parts::default() };
        };
        let (protocol, rest) = (Some(&before[..colon]), &before[colon + 1..]);
        let Some(rest) = rest.strip_prefix(b"//") else {
            return Parts { protocol, path: rest, query, ..Parts::default() };
        };
        let (authority, path) = rest.split_at(memchr::memchr(b'/', rest).unwrap_or(rest.len()));
        let digits = authority.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (name, port) = authority.split_at(authority.len() - digits);
        let port = std::str::from_utf8(port).ok().filter(|_| name.ends_with(b":")).and_then(|port| port.parse().ok());
        Parts { protocol, host: urlindex::host(url).filter(|host| !host.is_empty()), port, path, query }
    }

    /// The last label of the host; `None` for an address.
    pub(super) fn tld(&self) -> Option<&'a [u8]> {
        let host = self.host?;
        let host = host.strip_suffix(b".").unwrap_or(host);
        let label = &host[memchr::memrchr(b'.', host).map_or(0, |at| at + 1)..];
        let is_address = host.contains(&b':') || label.iter().all(u8::is_ascii_digit);
        (!is_address).then_some(label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_the_parts_that_it_shows() {
        let parts = Parts::of(b"https://user@www.a.example:8080/x/y?q=1?2#f");
        assert_eq!((parts.protocol, parts.host), (Some(&b"https"[..]), Some(&b"www.a.example"[..])));
        assert_eq!((parts.port, parts.path, parts.query), (Some(8080), &b"/x/y"[..], Some(&b"q=1?2"[..])));
        assert_eq!(parts.tld(), Some(&b"example"[..]));
        let parts = Parts::of(b"http://127.0.0.1/");
        assert_eq!((parts.port, parts.path, parts.query, parts.tld()), (None, &b"/"[..], None, None));
        assert_eq!(Parts::of(b"http://[::1]:81/").port, Some(81));
        assert_eq!((Parts::of(b"http://[::1]/").port, Parts::of(b"http://[::1]/").tld()), (None, None));
        let parts = Parts::of(b"urn:isbn:1");
        assert_eq!((parts.protocol, parts.host, parts.path), (Some(&b"urn"[..]), None, &b"isbn:1"[..]));
        assert_eq!(Parts::of(b"x").path, b"x");
    }
}
