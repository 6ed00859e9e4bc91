//! Archive files on a server: records are read by range requests.

use std::io::{self, Read};
use std::time::Duration;

use filemap::archives::{Archives, LocalArchives, is_remote};
use ureq::Agent;
use ureq::http::{StatusCode, header};

/// Timeouts: for connecting; for the head of a response and for each further read.
const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(60);

/// Opens archive files by location: local paths directly, `http(s)` URLs by range requests.
/// Connections stay open for the next record.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use filemap::{Options, PageStore};
/// use filemap_http::AnyArchives;
///
/// let store = PageStore::open_read_only("pages.fm", Options::new())?.with_archives(Arc::new(AnyArchives::new()));
/// # Ok::<(), filemap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AnyArchives {
    agent: Agent,
}

impl Default for AnyArchives {
    fn default() -> AnyArchives {
        AnyArchives::new()
    }
}

impl AnyArchives {
    /// Opens no connection yet.
    pub fn new() -> AnyArchives {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .timeout_per_read(Some(ANSWER))
            .user_agent(concat!("filemap/", env!("CARGO_PKG_VERSION")));
        AnyArchives { agent: config.build().into() }
    }
}

impl Archives for AnyArchives {
    /// The server must support range requests, unless the read starts at offset 0.
    fn open(&self, location: &str, offset: u64, length: Option<u64>) -> io::Result<Box<dyn Read + Send>> {
        if !is_remote(location) {
            return LocalArchives.open(location, offset, length);
        }
        let range = match length.and_then(|length| offset.checked_add(length)?.checked_sub(1)) {
            Some(last) => format!("bytes={offset}-{last}"),
            None => format!("bytes={offset}-"),
        };
        let request = self.agent.get(location).header(header::RANGE, range);
        // Ask for the file's own bytes, without a content coding added in transit.
        let answer = request.header(header::ACCEPT_ENCODING, "identity").call().map_err(ureq::Error::into_io)?;
        let body = match answer.status() {
            StatusCode::PARTIAL_CONTENT => answer.into_body().into_reader(),
            StatusCode::OK if offset == 0 => answer.into_body().into_reader(),
            StatusCode::OK => {
                let words = "the server sends the whole file instead of a range of it";
                return Err(io::Error::new(io::ErrorKind::Unsupported, words));
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => return Err(io::ErrorKind::NotFound.into()),
            StatusCode::RANGE_NOT_SATISFIABLE => return Ok(Box::new(io::empty())),
            other if other.is_server_error() || other == StatusCode::TOO_MANY_REQUESTS => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("the server answers {other}")));
            }
            other => return Err(io::Error::other(format!("the server answers {other}"))),
        };
        Ok(Box::new(body.take(length.unwrap_or(u64::MAX))))
    }
}
