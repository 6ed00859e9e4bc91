//! Cookies of hosts, for one run, in bounded memory.
//!
//! Each host has its own jar: a cookie is sent only to the host that set it, whatever domain it
//! names. So no list of public suffixes is needed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cookie_store::CookieStore;
use hyper::header::{self, HeaderMap, HeaderValue};
use url::Url;

/// Hosts with cookies; beyond that the least recently used host loses its jar.
const HOSTS_MAX: usize = 10_000;
/// Cookies of a host, and bytes of a cookie.
const COOKIES_MAX: usize = 50;
const COOKIE_BYTES: usize = 4096;

/// The cookies of all hosts.
#[derive(Debug, Default)]
pub struct Cookies(Mutex<Jars>);

#[derive(Debug, Default)]
struct Jars {
    hosts: HashMap<String, Jar>,
    /// A counter of uses, for the LRU order.
    now: u64,
}

#[derive(Debug, Default)]
struct Jar {
    cookies: CookieStore,
    used: u64,
}

impl Cookies {
    /// The `Cookie` header for a request.
    pub fn to_send(&self, url: &Url) -> Option<HeaderValue> {
        let mut jars = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jars.now += 1;
        let now = jars.now;
        let jar = jars.hosts.get_mut(url.host_str()?)?;
        jar.used = now;
        let pairs: Vec<String> =
            jar.cookies.get_request_values(url).map(|(name, value)| format!("{name}={value}")).collect();
        let mut value = HeaderValue::from_str(&pairs.join("; ")).ok().filter(|value| !value.is_empty())?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Takes the cookies of an answer. Returns how many of these are dropped by a limit, plus
    /// those of a host dropped for them.
    pub fn take(&self, url: &Url, headers: &HeaderMap) -> u64 {
        let (Some(host), true) = (url.host_str(), headers.contains_key(header::SET_COOKIE)) else { return 0 };
        let mut jars = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = 0;
        if !jars.hosts.contains_key(host) {
            dropped += jars.make_room();
            let used = jars.now;
            jars.hosts.insert(host.to_owned(), Jar { used, ..Jar::default() });
        }
        let Some(jar) = jars.hosts.get_mut(host) else { return dropped };
        for cookie in headers.get_all(header::SET_COOKIE) {
            let text = String::from_utf8_lossy(cookie.as_bytes());
            let name = text.split(['=', ';']).next().unwrap_or_default().trim();
            let is_known = jar.cookies.iter_any().any(|cookie| cookie.name() == name);
            let is_full = !is_known && jar.cookies.iter_any().count() >= COOKIES_MAX;
            if is_full || text.len() > COOKIE_BYTES {
                dropped += 1;
                continue;
            }
            // An invalid cookie is ignored, as in browsers.
            let _ = jar.cookies.parse(&text, url);
        }
        dropped
    }
}

/// Joins configured cookies and the host's own into one `Cookie` header.
pub fn joined(given: Option<HeaderValue>, kept: Option<HeaderValue>) -> Option<HeaderValue> {
    let (Some(given), Some(kept)) = (&given, &kept) else { return given.or(kept) };
    let mut both = HeaderValue::from_bytes(&[given.as_bytes(), b"; ", kept.as_bytes()].concat()).ok()?;
    both.set_sensitive(true);
    Some(both)
}

impl Jars {
    /// Drops the least recently used host if there are too many.
    fn make_room(&mut self) -> u64 {
        if self.hosts.len() < HOSTS_MAX {
            return 0;
        }
        let oldest = self.hosts.iter().min_by_key(|(_, jar)| jar.used).map(|(host, _)| host.clone());
        let jar = oldest.and_then(|host| self.hosts.remove(&host));
        jar.map_or(0, |jar| jar.cookies.iter_unexpired().count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cookies: &Cookies, url: &str, all: &[&str]) -> u64 {
        let values = all.iter().map(|value| (header::SET_COOKIE, HeaderValue::from_str(value).unwrap()));
        cookies.take(&Url::parse(url).unwrap(), &values.collect())
    }

    fn sent(cookies: &Cookies, url: &str) -> Option<String> {
        cookies.to_send(&Url::parse(url).unwrap()).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_cookie_goes_to_its_host_and_path_only_and_ends() {
        let cookies = Cookies::default();
        let all = ["a=1; Path=/", "b=2; Path=/x", "c=3; Domain=example.com; Path=/", "d=4; Secure", "e=5; Max-Age=0"];
        assert_eq!(set(&cookies, "http://www.example.com/", &all), 0);
        let mut pairs: Vec<String> =
            sent(&cookies, "http://www.example.com/x").unwrap().split("; ").map(str::to_owned).collect();
        pairs.sort();
        assert_eq!(pairs, ["a=1", "b=2", "c=3"]);
        assert_eq!(sent(&cookies, "http://www.example.com/y").unwrap().split("; ").count(), 2);
        for other in ["http://example.com/", "http://b.example.com/x", "http://other.test/"] {
            assert_eq!(sent(&cookies, other), None, "{other}");
        }
        set(&cookies, "http://www.example.com/", &["a=; Max-Age=0; Path=/", "c=9; Domain=other.test"]);
        assert_eq!(sent(&cookies, "http://www.example.com/").unwrap(), "c=3");
    }

    #[test]
    fn what_is_not_kept_by_a_limit_is_counted() {
        let cookies = Cookies::default();
        let many: Vec<String> = (0..60).map(|n| format!("c{n}=x")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(set(&cookies, "http://a.test/", &many), 10);
        assert_eq!(set(&cookies, "http://a.test/", &["c1=y", "c1=z", &format!("c2={}", "x".repeat(5000))]), 1);
        let value = sent(&cookies, "http://a.test/").unwrap();
        assert!(value.contains("c1=z") && value.split("; ").count() == 50, "{value}");
        for n in 1..HOSTS_MAX {
            assert_eq!(set(&cookies, &format!("http://h{n}.test/"), &["a=1"]), 0);
        }
        sent(&cookies, "http://a.test/");
        assert_eq!(set(&cookies, "http://one.more/", &["a=1", "b=2"]), 1, "one host loses its cookie");
        assert!(sent(&cookies, "http://a.test/").is_some() && sent(&cookies, "http://one.more/").is_some());
    }
}
