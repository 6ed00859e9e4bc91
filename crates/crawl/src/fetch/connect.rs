//! Connections to checked addresses, with TLS for https.
//!
//! Invariant: a connection goes to an address that [`Resolver`] allowed; nothing is resolved again
//! in between. With a proxy it goes to the proxy, which resolves names itself.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use super::address::{Resolver, check_literal};
use super::hosts::Hosts;
use super::proxy::Proxy;
use crate::failure::{Failure, Reason};

/// The address of the responding server, as an extension of the response.
#[derive(Clone, Copy, Debug)]
pub struct Remote(pub SocketAddr);

/// Outgoing route of connections: proxy, local address, settings of hosts.
///
/// ```
/// use crawl::fetch::{Way, proxy::Proxy};
/// let way = Way { proxy: Some(Proxy::parse("socks5://proxy.example")?), ..Way::default() };
/// let proxy = way.proxy_to("example.com").expect("it is that of all hosts");
/// assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.example", 1080));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// The proxy, if any.
    pub proxy: Option<Proxy>,
    /// The local address; without one, the system's choice.
    pub bind: Option<IpAddr>,
    /// Settings of single hosts.
    pub hosts: Arc<Hosts>,
}

impl Way {
    /// The proxy for a host.
    pub fn proxy_to(&self, host: &str) -> Option<Proxy> {
        let own = self.hosts.of(host).and_then(|host| host.proxy.clone());
        own.unwrap_or_else(|| self.proxy.clone())
    }
}

/// Makes connections.
#[derive(Clone)]
pub struct Connector {
    /// The proxy for all connections, if any.
    proxy: Option<Proxy>,
    bind: Option<IpAddr>,
    resolver: Arc<Resolver>,
    tls: TlsConnector,
    timeout: Duration,
}

impl Connector {
    /// A connector without a proxy, with this local address, TLS configuration and timeout.
    pub fn new(
        resolver: Resolver,
        bind: Option<IpAddr>,
        tls: Arc<rustls::ClientConfig>,
        timeout: Duration,
    ) -> Connector {
        Connector { proxy: None, bind, resolver: Arc::new(resolver), tls: TlsConnector::from(tls), timeout }
    }

    /// The same connector through a proxy.
    #[must_use]
    pub fn by(self, proxy: Option<Proxy>) -> Connector {
        Connector { proxy, ..self }
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Stream>, Failure> {
        let late = || Failure::new(Reason::ConnectTimeout, format!("none within {} s", self.timeout.as_secs_f32()));
        match tokio::time::timeout(self.timeout, self.open(&uri)).await {
            Ok(stream) => stream.map(TokioIo::new),
            Err(_) => Err(late()),
        }
    }

    async fn open(&self, uri: &Uri) -> Result<Stream, Failure> {
        let is_tls = uri.scheme_str() == Some("https");
        let host = uri.host().ok_or_else(|| Failure::new(Reason::BadUrl, "it has no host"))?;
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let is_proxied = !is_tls && self.proxy.as_ref().is_some_and(Proxy::takes_whole_urls);
        let (tcp, address) = match &self.proxy {
            Some(proxy) => (self.by_proxy(proxy, host, port, is_proxied).await?, None),
            None => {
                let addresses = self.resolver.addresses(host, port).await?;
                self.tcp(&addresses).await.map(|(tcp, address)| (tcp, Some(address)))?
            }
        };
        // Send small requests at once, without waiting for the last acknowledgement.
        let _ = tcp.set_nodelay(true);
        if !is_tls {
            return Ok(Stream { io: Box::new(tcp), is_h2: false, is_proxied, address });
        }
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
        let name = name.map_err(|error| Failure::new(Reason::BadUrl, format!("{host}: {error}")))?;
        let tls = self.tls.connect(name, tcp).await;
        let tls = tls.map_err(|error| Failure::new(Reason::Tls, format!("{host}: {error}")))?;
        let is_h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Stream { io: Box::new(tls), is_h2, is_proxied, address })
    }

    /// Connects through a proxy to a host, unless the request itself names the host.
    async fn by_proxy(&self, proxy: &Proxy, host: &str, port: u16, is_named: bool) -> Result<TcpStream, Failure> {
        if !self.resolver.allow_private {
            check_literal(host)?;
        }
        // A configured proxy may have any address.
        let resolver = Resolver { overrides: self.resolver.overrides.clone(), allow_private: true };
        let of_proxy = |failure: Failure| proxy.failure(&failure.detail);
        let addresses = resolver.addresses(&proxy.host, proxy.port).await.map_err(of_proxy)?;
        let (tcp, _) = self.tcp(&addresses).await.map_err(of_proxy)?;
        if is_named { Ok(tcp) } else { proxy.lead(tcp, host, port).await }
    }

    /// Tries the addresses in turn; all but the last share half of the timeout.
    async fn tcp(&self, addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), Failure> {
        let share = self.timeout / 2 / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = Failure::from(Reason::Connect);
        for (at, &address) in addresses.iter().enumerate() {
            let patience = if at + 1 == addresses.len() { self.timeout } else { share };
            match tokio::time::timeout(patience, from(self.bind, address)).await {
                Ok(Ok(stream)) => return Ok((stream, address)),
                Ok(Err(error)) => last = Failure::new(Reason::Connect, format!("{address}: {error}")),
                Err(_) => last = Failure::new(Reason::ConnectTimeout, address.to_string()),
            }
        }
        Err(last)
    }
}

/// Connects to an address, optionally from a local one.
async fn from(bind: Option<IpAddr>, to: SocketAddr) -> io::Result<TcpStream> {
    let Some(bind) = bind else { return TcpStream::connect(to).await };
    if bind.is_ipv4() != to.is_ipv4() {
        return Err(io::Error::other(format!("it cannot be reached from {bind}, of another kind")));
    }
    socket(bind)?.connect(to).await
}

/// Parses an address of this machine.
///
/// # Errors
/// An error message for the user.
pub fn local_address(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| format!("`{text}` is not an IP address"))?;
    let bound = std::net::UdpSocket::bind(SocketAddr::new(address, 0));
    bound.map(|_| address).map_err(|error| format!("nothing can be sent from {address}: {error}"))
}

/// A socket bound to a local address.
fn socket(bind: IpAddr) -> io::Result<TcpSocket> {
    let socket = if bind.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(SocketAddr::new(bind, 0))?;
    Ok(socket)
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Stream>, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// A connection, with TLS or without.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection with its remote address.
pub struct Stream {
    io: Box<dyn Io>,
    is_h2: bool,
    /// True if it ends at a proxy that expects absolute URLs.
    is_proxied: bool,
    /// The address of the server, unless a proxy is between.
    address: Option<SocketAddr>,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().proxy(self.is_proxied);
        let connected = match self.address {
            Some(address) => connected.extra(Remote(address)),
            None => connected,
        };
        if self.is_h2 { connected.negotiated_h2() } else { connected }
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, out)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
