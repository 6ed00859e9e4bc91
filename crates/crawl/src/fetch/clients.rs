//! HTTP clients: one for each proxy, and one for direct connections.
//!
//! Each has its own idle connections. A client picks an idle connection by the request's host, not
//! by its proxy: with one client for all, a request could reuse a connection from before its host
//! had a proxy, and send the proxy's password to the host.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connect::Connector;
use super::proxy::Proxy;
use crate::settings::limits::HEADER_FIELDS;

/// The lifetime of idle connections, and their number for one host.
const IDLE: Duration = Duration::from_secs(20);
const IDLE_PER_HOST: usize = 64;
/// Clients kept: the table of hosts may name new proxies every hour.
const KEPT: usize = 256;

/// A client for direct connections or for one proxy.
pub type Client = Pooled<Connector, Empty<Bytes>>;

/// The clients of a crawl.
pub struct Clients {
    direct: Connector,
    header_bytes: u32,
    by_proxy: Mutex<HashMap<Option<Proxy>, Client>>,
}

impl Clients {
    /// Clients that connect through this connector, with their own proxies. The head of an answer
    /// has at most `header_bytes` bytes.
    pub fn new(direct: Connector, header_bytes: u32) -> Clients {
        Clients { direct, header_bytes, by_proxy: Mutex::default() }
    }

    /// The client for a proxy.
    pub fn by(&self, proxy: Option<&Proxy>) -> Client {
        let mut clients = self.by_proxy.lock().unwrap_or_else(PoisonError::into_inner);
        let proxy = proxy.cloned();
        if clients.len() >= KEPT && !clients.contains_key(&proxy) {
            // Requests in flight continue.
            clients.clear();
        }
        clients.entry(proxy).or_insert_with_key(|proxy| self.make(proxy.clone())).clone()
    }

    fn make(&self, proxy: Option<Proxy>) -> Client {
        Pooled::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            // Tolerated as in browsers: folded lines, spaces before the colon, and malformed
            // lines, which are skipped.
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .http1_allow_spaces_after_header_name_in_responses(true)
            .http1_ignore_invalid_headers_in_responses(true)
            .http1_max_headers(HEADER_FIELDS)
            .http1_max_buf_size((self.header_bytes as usize).max(8192))
            .http2_max_header_list_size(self.header_bytes)
            .build(self.direct.clone().by(proxy))
    }
}
