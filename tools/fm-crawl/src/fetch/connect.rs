//! Connections to checked addresses, with TLS for https.
//!
//! Invariant: a connection goes to an address that [`Resolver`] allowed; nothing is resolved again
//! in between.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::address::Resolver;
use crate::failure::{Failure, Reason};

/// The address that answered, as an extension of the response.
#[derive(Clone, Copy, Debug)]
pub struct Remote(pub SocketAddr);

/// Makes connections.
#[derive(Clone)]
pub struct Connector {
    resolver: Arc<Resolver>,
    tls: TlsConnector,
    timeout: Duration,
}

impl Connector {
    /// A connector with this resolver, TLS configuration and timeout.
    pub fn new(resolver: Resolver, tls: Arc<rustls::ClientConfig>, timeout: Duration) -> Connector {
        Connector { resolver: Arc::new(resolver), tls: TlsConnector::from(tls), timeout }
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
        let addresses = self.resolver.addresses(host, port).await?;
        let (tcp, address) = self.tcp(&addresses).await?;
        // Send small requests at once, without waiting for the last acknowledgement.
        let _ = tcp.set_nodelay(true);
        if !is_tls {
            return Ok(Stream { io: Box::new(tcp), is_h2: false, address });
        }
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
        let name = name.map_err(|error| Failure::new(Reason::BadUrl, format!("{host}: {error}")))?;
        let tls = self.tls.connect(name, tcp).await;
        let tls = tls.map_err(|error| Failure::new(Reason::Tls, format!("{host}: {error}")))?;
        let is_h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Stream { io: Box::new(tls), is_h2, address })
    }

    /// Tries the addresses in turn; all but the last share half of the time.
    async fn tcp(&self, addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), Failure> {
        let share = self.timeout / 2 / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = Failure::from(Reason::Connect);
        for (at, &address) in addresses.iter().enumerate() {
            let patience = if at + 1 == addresses.len() { self.timeout } else { share };
            match tokio::time::timeout(patience, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok((stream, address)),
                Ok(Err(error)) => last = Failure::new(Reason::Connect, format!("{address}: {error}")),
                Err(_) => last = Failure::new(Reason::ConnectTimeout, address.to_string()),
            }
        }
        Err(last)
    }
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
    address: SocketAddr,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(Remote(self.address));
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
