//! Proxies: HTTP with `CONNECT` for https, and SOCKS5, which resolves names itself.
//!
//! Credentials are kept out of every message: a proxy is named by its host and port.

use std::fmt;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use tokio::net::TcpStream;
use tower_service::Service;
use url::Url;

use crate::failure::{Failure, Reason};

/// The port of a SOCKS proxy.
const SOCKS_PORT: u16 = 1080;
/// The maximum length of a user or password in SOCKS5.
const CREDENTIAL_BYTES: usize = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Http,
    Socks,
}

/// A proxy.
///
/// ```
/// use crawl::fetch::proxy::Proxy;
/// let proxy = Proxy::parse("http://user:secret@proxy.example:3128")?;
/// // Its credentials are never said.
/// assert_eq!(proxy.to_string(), "http://proxy.example:3128");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Proxy {
    kind: Kind,
    /// Its host, an IPv6 address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    credentials: Option<(String, String)>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.kind == Kind::Http { "http" } else { "socks5" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl Proxy {
    /// Reads `http://[USER:PASSWORD@]HOST[:PORT]`, or the same with `socks5` or `socks5h`.
    ///
    /// # Errors
    /// An error message for the user, without the credentials.
    pub fn parse(text: &str) -> Result<Proxy, String> {
        let wrong =
            || "a proxy is http://HOST:PORT or socks5://HOST:PORT, with USER:PASSWORD@ before HOST if it requires them";
        let url = Url::parse(text).map_err(|_| wrong())?;
        let (kind, port) = match url.scheme() {
            "http" => (Kind::Http, url.port_or_known_default()),
            "socks5" | "socks5h" => (Kind::Socks, url.port().or(Some(SOCKS_PORT))),
            _ => return Err(wrong().to_owned()),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let is_bare = ["", "/"].contains(&url.path()) && url.query().is_none() && url.fragment().is_none();
        let decoded = |text| percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| wrong());
        let (user, password) = (decoded(url.username())?, decoded(url.password().unwrap_or_default())?);
        if !is_bare || user.len().max(password.len()) > CREDENTIAL_BYTES {
            return Err(wrong().to_owned());
        }
        let credentials = (!user.is_empty() || !password.is_empty()).then_some((user, password));
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Proxy { kind, host, port: port.ok_or_else(wrong)?, credentials })
    }

    /// Returns whether http requests go to the proxy itself, with absolute URLs.
    pub fn takes_whole_urls(&self) -> bool {
        self.kind == Kind::Http
    }

    /// The value of `Proxy-Authorization`.
    pub fn authorization(&self) -> Option<HeaderValue> {
        let (user, password) = self.credentials.as_ref().filter(|_| self.kind == Kind::Http)?;
        let mut value =
            HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Makes the proxy forward a connection to a host.
    ///
    /// # Errors
    /// `Proxy`, if the proxy refuses.
    pub async fn lead(&self, tcp: TcpStream, host: &str, port: u16) -> Result<TcpStream, Failure> {
        let there = Uri::builder().scheme("https").authority(format!("{host}:{port}")).path_and_query("/").build();
        let there = there.map_err(|error| Failure::new(Reason::BadUrl, error.to_string()))?;
        let made = Made(Some(tcp));
        let led = match self.kind {
            Kind::Http => {
                let tunnel = Tunnel::new(Uri::default(), made);
                let mut tunnel = match self.authorization() {
                    Some(value) => tunnel.with_auth(value),
                    None => tunnel,
                };
                tunnel.call(there).await.map_err(|error| error.to_string())
            }
            Kind::Socks => {
                let socks = SocksV5::new(Uri::default(), made);
                let mut socks = match &self.credentials {
                    Some((user, password)) => socks.with_auth(user.clone(), password.clone()),
                    None => socks,
                };
                socks.call(there).await.map_err(|error| error.to_string())
            }
        };
        led.map(TokioIo::into_inner).map_err(|why| self.failure(&format!("{host}:{port}: {why}")))
    }

    /// A failure of the proxy.
    pub fn failure(&self, why: &str) -> Failure {
        Failure::new(Reason::Proxy, format!("{self}: {why}"))
    }
}

/// An established connection, in the form that the handshakes need.
struct Made(Option<TcpStream>);

impl Service<Uri> for Made {
    type Response = TokioIo<TcpStream>;
    type Error = std::io::Error;
    type Future = Ready<Result<TokioIo<TcpStream>, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        ready(self.0.take().map(TokioIo::new).ok_or_else(|| std::io::Error::other("it is used up")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_and_never_says_its_credentials() {
        let proxy = Proxy::parse("http://us%40er:s%3Acret@Proxy.example:3128/").unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.example", 3128));
        assert_eq!(proxy.authorization().unwrap(), "Basic dXNAZXI6czpjcmV0");
        let said = format!("{proxy} {proxy:?} {:?}", proxy.failure("x"));
        assert!(!said.contains("cret") && !said.contains("us@er") && !said.contains("Basic"), "{said}");
        let socks = Proxy::parse("socks5h://[2001:db8::1]").unwrap();
        assert_eq!((socks.host.as_str(), socks.port, socks.authorization()), ("2001:db8::1", 1080, None));
        for wrong in ["proxy:80", "https://a.example", "http://", "http://a/b", "http://a/?b", "socks4://a", "ftp://a"]
        {
            assert!(Proxy::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!Proxy::parse("https://user:cret@a").unwrap_err().contains("cret"));
    }
}
