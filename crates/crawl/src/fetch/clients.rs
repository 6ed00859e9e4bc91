//! HTTP clients, one for each proxy, and one for none.
//!
//! Each has its own idle connections. A client chooses one by the host that a request is for, and
//! not by the way to it: with one client for all ways, a request would go to the site by a
//! connection from before its host had a proxy, and take the password of the proxy along.

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

/// How long, and how many to one host, idle connections are kept.
const IDLE: Duration = Duration::from_secs(20);
const IDLE_PER_HOST: usize = 64;
/// Clients that are kept: a table of hosts may name other proxies every hour.
const KEPT: usize = 256;

/// A client by one way.
pub type Client = Pooled<Connector, Empty<Bytes>>;

/// The clients of a crawl.
pub struct Clients {
    direct: Connector,
    header_bytes: u32,
    by_proxy: Mutex<HashMap<Option<Proxy>, Client>>,
}

impl Clients {
    /// Clients whose connections are made as by this connector, but for the proxy; heads of
    /// answers have at most so many bytes.
    pub fn new(direct: Connector, header_bytes: u32) -> Clients {
        Clients { direct, header_bytes, by_proxy: Mutex::default() }
    }

    /// The client for a proxy.
    pub fn by(&self, proxy: Option<&Proxy>) -> Client {
        let mut clients = self.by_proxy.lock().unwrap_or_else(PoisonError::into_inner);
        let proxy = proxy.cloned();
        if clients.len() >= KEPT && !clients.contains_key(&proxy) {
            // What is in flight goes on.
            clients.clear();
        }
        clients.entry(proxy).or_insert_with_key(|proxy| self.make(proxy.clone())).clone()
    }

    fn make(&self, proxy: Option<Proxy>) -> Client {
        Pooled::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            // What browsers take: folded lines, spaces before the colon, and lines that are no
            // fields, which are skipped.
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .http1_allow_spaces_after_header_name_in_responses(true)
            .http1_ignore_invalid_headers_in_responses(true)
            .http1_max_headers(HEADER_FIELDS)
            .http1_max_buf_size((self.header_bytes as usize).max(8192))
            .http2_max_header_list_size(self.header_bytes)
            .build(self.direct.clone().by(proxy))
    }
}
