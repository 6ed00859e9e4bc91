//! A set's location: `redis://[USER@]HOST[:PORT][,HOST[:PORT]...]/NAME[?replicas=N]`, or
//! `rediss://` with TLS.

use std::fmt;

use crate::error::{Error, Result};

const PORT: u16 = 6379;
const MAX_NAME: usize = 64;

/// The location of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub is_secure: bool,
    pub user: Option<String>,
    /// Servers to connect to first; a cluster names the others.
    pub servers: Vec<(String, u16)>,
    pub name: String,
    /// Overrides [`crate::RedisOptions::replicas`].
    pub replicas: Option<u32>,
}

/// Returns whether a text has the form of a location of a set on Redis.
///
/// ```
/// assert!(urlindex_redis::is_location("redis://localhost/pages") && !urlindex_redis::is_location("pages.set"));
/// ```
pub fn is_location(text: &str) -> bool {
    text.starts_with("redis://") || text.starts_with("rediss://")
}

/// Checks that a text is the location of a set, without asking any server.
///
/// ```
/// assert!(urlindex_redis::check_location("redis://localhost/pages").is_ok());
/// assert!(urlindex_redis::check_location("redis://me:secret@localhost/pages").is_err());
/// ```
///
/// # Errors
/// [`Error::Location`].
pub fn check_location(text: &str) -> Result<()> {
    Location::parse(text).map(drop)
}

impl Location {
    pub fn parse(text: &str) -> Result<Location> {
        // The text before an `@` may be a password.
        let shown = || match text.rsplit_once('@') {
            Some((_, rest)) => format!("redis://...@{rest}"),
            None => text.to_owned(),
        };
        let refuse = |why: &str| Error::Location { location: shown(), why: why.to_owned() };
        let (is_secure, rest) = match (text.strip_prefix("redis://"), text.strip_prefix("rediss://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(refuse("it begins with neither redis:// nor rediss://")),
        };
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => {
                return Err(refuse("a location must not hold a password; give it as an option, or in REDISCLI_AUTH"));
            }
            Some((user, rest)) if !user.is_empty() => (Some(user.to_owned()), rest),
            Some(_) => return Err(refuse("the user before the @ is missing")),
            None => (None, rest),
        };
        let (hosts, name) = rest.split_once('/').ok_or_else(|| refuse("the set's name is missing"))?;
        let (name, replicas) = match name.split_once('?') {
            None => (name, None),
            Some((name, query)) => {
                let number = query.strip_prefix("replicas=").and_then(|number| number.parse().ok());
                let number: u32 = number.ok_or_else(|| refuse("only replicas=N may follow the ?"))?;
                (name, Some(number))
            }
        };
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_name) {
            return Err(refuse("the set's name must be 1 to 64 of a-z, 0-9, _ and -"));
        }
        let servers: Option<Vec<(String, u16)>> = hosts.split(',').map(server).collect();
        let servers = servers.ok_or_else(|| refuse("a server is HOST, HOST:PORT or [IPv6]:PORT"))?;
        Ok(Location { is_secure, user, servers, name: name.to_owned(), replicas })
    }
}

fn server(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':').or(rest.is_empty().then_some("6379"))?)
        }
        None => text.split_once(':').unwrap_or((text, "6379")),
    };
    let port = if port.is_empty() { PORT } else { port.parse().ok()? };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_secure { "rediss://" } else { "redis://" })?;
        for (nth, (host, port)) in self.servers.iter().enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            match host.contains(':') {
                true => write!(f, "{comma}[{host}]:{port}")?,
                false => write!(f, "{comma}{host}:{port}")?,
            }
        }
        write!(f, "/{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read_and_shown() {
        let location = Location::parse("rediss://crawler@a:7000,[::1]:7001,b/pages_2?replicas=1").expect("valid");
        let servers = vec![("a".to_owned(), 7000), ("::1".to_owned(), 7001), ("b".to_owned(), 6379)];
        let (user, name) = (Some("crawler".to_owned()), "pages_2".to_owned());
        assert_eq!(location, Location { is_secure: true, user, servers, name, replicas: Some(1) });
        assert_eq!(location.to_string(), "rediss://a:7000,[::1]:7001,b:6379/pages_2");
    }

    #[test]
    fn what_is_none_is_refused_and_a_password_not_repeated() {
        for text in [
            "redis://a",
            "redis://a/",
            "redis://a/B",
            "redis:///x",
            "redis://a:b/x",
            "a/x",
            "redis://@a/x",
            "redis://a/x?y=1",
        ] {
            assert!(matches!(Location::parse(text), Err(Error::Location { .. })), "{text}");
        }
        let error = Location::parse("redis://me:secret@a/x").expect_err("it has a password").to_string();
        assert!(error.contains("REDISCLI_AUTH") && !error.contains("secret"), "{error}");
        let error = Location::parse("redis://secret@a/X").expect_err("no name").to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
