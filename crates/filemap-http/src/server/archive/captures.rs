//! The captures of a URL as archives name them: by URL and a stamp of 14 digits. A `POST` capture
//! is indexed by its URL with the request as the last argument (`__wb_method=POST&...`), which is
//! how archive tools ask for it.

use axum::http::HeaderMap;
use axum::http::header::HOST;
use filemap::dump::index_key;
use filemap::{Lookup, Result, Variant, Version, date};

use super::super::backend::Backend;
use super::super::refusal::Refusal;
use super::super::shown::Shown;

/// Prefix of the request in an index's URL.
const METHOD: &[u8] = b"__wb_method=";
/// Maximum number of captures of one URL in a response.
pub(super) const MOST: usize = 100_000;

/// A URL, and the variant in a URL of an index.
pub(super) struct Named {
    pub(super) url: Vec<u8>,
    pub(super) variant: Option<Variant>,
}

impl Named {
    pub(super) fn lookup(&self) -> Lookup<'_> {
        Lookup::new(&self.url).variant(self.variant.as_ref())
    }
}

/// Resolves a URL of an index; `None` if it contains a request that matches no variant.
///
/// # Errors
///
/// Those of [`filemap::PageStore::variants`].
pub(super) fn named(shown: &Shown, asked: &[u8]) -> Result<Option<Named>> {
    let at = asked.windows(METHOD.len()).rposition(|part| part == METHOD);
    let Some(at) = at.filter(|at| *at > 0 && matches!(asked[at - 1], b'?' | b'&')) else {
        return Ok(Some(Named { url: asked.to_vec(), variant: None }));
    };
    let url = &asked[..at - 1];
    if !shown.may_have_variants(url)? {
        return Ok(None);
    }
    // Tools escape the request differently, but agree on the key in the index.
    let wanted = index_key(asked);
    for variant in shown.variants(url)? {
        let variant = variant?;
        if index_key(&variant.index_url(url)) == wanted {
            return Ok(Some(Named { url: url.to_vec(), variant: Some(variant) }));
        }
    }
    Ok(None)
}

/// The URLs that share one index key: with `http` and `https`, with and without `www.`; the given
/// one first. A URL without a scheme is taken as `http`.
pub(super) fn alike(url: &[u8]) -> Vec<Vec<u8>> {
    // After the first of these, a URL may have another URL in its query.
    let begin = url.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(url.len());
    let at = url.windows(3).position(|three| three == b"://").filter(|at| *at < begin);
    let (scheme, rest) = at.map_or((&b"http"[..], url), |at| (&url[..at], &url[at + 3..]));
    let own = [scheme, b"://", rest].concat();
    if !matches!(scheme.to_ascii_lowercase().as_slice(), b"http" | b"https") {
        return vec![own];
    }
    let is_www = rest.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case(b"www."));
    let bare = if is_www { &rest[4..] } else { rest };
    let mut urls = vec![own];
    for scheme in [&b"http://"[..], b"https://"] {
        for www in [&b""[..], b"www."] {
            let url = [scheme, www, bare].concat();
            if !url.eq_ignore_ascii_case(&urls[0]) {
                urls.push(url);
            }
        }
    }
    urls
}

/// The first millisecond of a stamp: 14 digits, or the first 4, 6, 8, 10 or 12.
pub(super) fn first(stamp: &str) -> Option<i64> {
    let is_stamp = matches!(stamp.len(), 4 | 6 | 8 | 10 | 12 | 14) && stamp.bytes().all(|byte| byte.is_ascii_digit());
    let rest = "00000101000000".get(stamp.len()..).filter(|_| is_stamp)?;
    date::parse(&format!("{stamp}{rest}"))
}

/// The last millisecond of a stamp.
pub(super) fn last(stamp: &str) -> Option<i64> {
    let first = first(stamp)?;
    let step = match stamp.len() {
        14 => 1_000,
        12 => 60_000,
        10 => 3_600_000,
        _ => 86_400_000,
    };
    // Months and years differ in length: find the first day of the next one.
    let next = (1..=366).map(|steps| first + step * steps).find(|ms| !date::stamp(*ms).starts_with(stamp));
    // After the year 9999 stamps have no more digits.
    Some(next.map_or(i64::MAX, |next| next - 1))
}

/// The version nearest to a time; among those in the same second, the newest.
pub(super) fn nearest(versions: &[Version], time_ms: i64) -> Option<Version> {
    let second = time_ms.div_euclid(1000);
    let in_second = versions.iter().find(|version| version.time_ms.div_euclid(1000) == second);
    in_second.or_else(|| versions.iter().min_by_key(|version| version.time_ms.abs_diff(time_ms))).copied()
}

/// Scheme and host of the client's request.
///
/// # Errors
///
/// 400 without a `Host`.
pub(super) fn base(backend: &Backend, headers: &HeaderMap) -> std::result::Result<String, Refusal> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.ok_or_else(|| Refusal::bad("a request must have one `Host` header"))?;
    let scheme = if backend.is_secure() { "https" } else { "http" };
    Ok(format!("{scheme}://{host}"))
}

/// The URL after `route` in a request's target, as written.
pub(super) fn behind<'t>(target: &'t str, route: &str) -> &'t str {
    target.strip_prefix(route).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_means_all_that_begins_with_it() {
        for (stamp, begin, end) in [
            ("2023", "20230101000000", "2023-12-31T23:59:59.999Z"),
            ("2024", "20240101000000", "2024-12-31T23:59:59.999Z"),
            ("202402", "20240201000000", "2024-02-29T23:59:59.999Z"),
            ("20231114", "20231114000000", "2023-11-14T23:59:59.999Z"),
            ("2023111422", "20231114220000", "2023-11-14T22:59:59.999Z"),
            ("202311142213", "20231114221300", "2023-11-14T22:13:59.999Z"),
            ("20231114221320", "20231114221320", "2023-11-14T22:13:20.999Z"),
        ] {
            assert_eq!(first(stamp).map(date::stamp).as_deref(), Some(begin), "{stamp}");
            assert_eq!(last(stamp), date::parse(end), "{stamp}");
        }
        assert_eq!(last("9999"), Some(i64::MAX));
        for none in ["", "2", "20231", "2023x1", "202313", "20231114221399", "202311142213200", "-20231"] {
            assert_eq!((first(none), last(none)), (None, None), "{none}");
        }
    }

    #[test]
    fn an_index_has_a_site_once_with_its_scheme_and_www() {
        let alike = |url: &str| -> Vec<String> {
            alike(url.as_bytes()).into_iter().map(|url| String::from_utf8(url).expect("text")).collect()
        };
        assert_eq!(alike("https://www.a/b"), ["https://www.a/b", "http://a/b", "http://www.a/b", "https://a/b"]);
        assert_eq!(alike("a/b"), ["http://a/b", "http://www.a/b", "https://a/b", "https://www.a/b"]);
        assert_eq!(alike("HTTP://WWW.a/B")[0], "HTTP://WWW.a/B");
        assert_eq!((alike("HTTP://WWW.a/B").len(), alike("ftp://a/b").len()), (4, 1));
    }

    #[test]
    fn the_nearest_version_is_that_of_the_second_or_the_closest() {
        let versions: Vec<Version> =
            [9_500, 5_900, 5_100, 1_000].iter().map(|ms| Version { time_ms: *ms, sequence: *ms as u64 }).collect();
        for (time_ms, expected) in [(5_000, 5_900), (6_000, 5_900), (0, 1_000), (99_000, 9_500), (3_000, 1_000)] {
            assert_eq!(nearest(&versions, time_ms).map(|found| found.time_ms), Some(expected), "{time_ms}");
        }
        assert_eq!(nearest(&[], 0), None);
    }
}
