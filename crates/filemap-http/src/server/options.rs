//! Options of a server: its permissions, tokens, and limits.

use std::sync::Arc;
use std::time::Duration;

use filemap::acl::AccessRules;
use serde_json::Value;

use super::links::boxes::LinkBoxes;
use super::seen::sets::SeenSets;
use super::tokens::Tokens;
use crate::following::Following;

/// Receives log lines for the operator.
type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Reads the latest status of a crawl into the store.
type Status = Arc<dyn Fn() -> Option<Value> + Send + Sync>;

/// Options of a [`Server`](super::Server). By default it is read-only, requires no token, and
/// accepts only the host names of this machine.
///
/// ```
/// use filemap_http::server::{ServerOptions, Tokens};
///
/// let tokens = Tokens::parse("read  2f1f8cf5d9a44c0c\nadmin 9e7b0d21c6a1405f")?;
/// let options = ServerOptions::new().writes().tokens(tokens).name("pages.example.com");
/// # let _ = options;
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    pub(super) writes: bool,
    pub(super) tokens: Option<Tokens>,
    pub(super) names: Vec<String>,
    pub(super) secure: bool,
    pub(super) max_calls: u32,
    pub(super) max_connections: usize,
    pub(super) idle: Duration,
    pub(super) log: Log,
    pub(super) seen: Arc<SeenSets>,
    pub(super) links: Option<Arc<LinkBoxes>>,
    pub(super) following: Option<Arc<Following>>,
    pub(super) access: Option<Arc<AccessRules>>,
    pub(super) crawl: Option<Status>,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            writes: false,
            tokens: None,
            names: Vec::new(),
            secure: false,
            max_calls: 64,
            max_connections: 16_384,
            idle: Duration::from_secs(30),
            log: Arc::new(|_| {}),
            seen: Arc::new(SeenSets::new()),
            links: None,
            following: None,
            access: None,
            crawl: None,
        }
    }
}

impl ServerOptions {
    /// The defaults.
    pub fn new() -> ServerOptions {
        ServerOptions::default()
    }

    /// Allows puts and removals. The store must be open for writing.
    pub fn writes(self) -> ServerOptions {
        ServerOptions { writes: true, ..self }
    }

    /// Requires one of these tokens for each request.
    pub fn tokens(self, tokens: Tokens) -> ServerOptions {
        ServerOptions { tokens: Some(tokens), ..self }
    }

    /// Accepts another host name, without a port. `localhost` and IP addresses are always
    /// accepted: a browser's page cannot point its own name at a literal address.
    pub fn name(mut self, name: impl Into<String>) -> ServerOptions {
        self.names.push(name.into().to_ascii_lowercase());
        self
    }

    /// Clients connect by HTTPS, here or at a proxy: URLs in responses begin with `https`.
    pub fn secure(self) -> ServerOptions {
        ServerOptions { secure: true, ..self }
    }

    /// Maximum number of concurrent calls of the store, each on a thread; default 64. Others wait.
    pub fn max_calls(self, max_calls: u32) -> ServerOptions {
        ServerOptions { max_calls: max_calls.max(1), ..self }
    }

    /// Maximum number of open connections, default 16,384. Others wait to be accepted.
    pub fn max_connections(self, max_connections: usize) -> ServerOptions {
        ServerOptions { max_connections: max_connections.max(1), ..self }
    }

    /// Time limit for a client to send the head of a request or the next part of its body, and to
    /// take the next part of a response; default 30 s. After it the connection is closed.
    pub fn idle(self, idle: Duration) -> ServerOptions {
        ServerOptions { idle, ..self }
    }

    /// Also serves these seen sets.
    pub fn seen(self, sets: SeenSets) -> ServerOptions {
        ServerOptions { seen: Arc::new(sets), ..self }
    }

    /// Also serves the mailboxes of crawls that share their hosts, if the server writes.
    pub fn links(self, boxes: LinkBoxes) -> ServerOptions {
        ServerOptions { links: Some(Arc::new(boxes)), ..self }
    }

    /// Declares the store a replica, which other code in this process keeps equal to another
    /// store: `following` shows its state. Until it is complete the server is not ready.
    pub fn following(self, following: Arc<Following>) -> ServerOptions {
        ServerOptions { following: Some(following), ..self }
    }

    /// State of the replica, if the store is one.
    pub fn shown_following(&self) -> Option<Arc<Following>> {
        self.following.clone()
    }

    /// Shows only what these rules allow, whatever the route and token; but an `admin` token gets
    /// all changes, for replicas.
    pub fn access(self, rules: AccessRules) -> ServerOptions {
        ServerOptions { access: Some(Arc::new(rules)), ..self }
    }

    /// Shows the status of a crawl into the store: the object in fm-crawl's `status.json`.
    /// `status` reads it each time; `None` if there is no crawl.
    pub fn crawl(self, status: impl Fn() -> Option<Value> + Send + Sync + 'static) -> ServerOptions {
        ServerOptions { crawl: Some(Arc::new(status)), ..self }
    }

    /// Logs a line for each status of 500 and above, with its cause, and for failed connections.
    pub fn log(self, log: impl Fn(&str) + Send + Sync + 'static) -> ServerOptions {
        ServerOptions { log: Arc::new(log), ..self }
    }
}
