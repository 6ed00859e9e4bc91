//! Archives whose files lie on a server: records are read by ranges.

use std::io::{self, Read};
use std::time::Duration;

use filemap::archives::{Archives, LocalArchives, is_remote};
use ureq::Agent;
use ureq::http::{StatusCode, header};

/// How long is waited for a connection, for the head of an answer, and for its next bytes.
const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(60);

/// Files of archives by their location: of this machine, or by `http(s)` requests for a range.
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
    /// Opens nothing yet.
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
    /// A server must know ranges, unless the whole file is asked for.
    fn open(&self, location: &str, offset: u64, length: Option<u64>) -> io::Result<Box<dyn Read + Send>> {
        if !is_remote(location) {
            return LocalArchives.open(location, offset, length);
        }
        let range = match length.and_then(|length| offset.checked_add(length)?.checked_sub(1)) {
            Some(last) => format!("bytes={offset}-{last}"),
            None => format!("bytes={offset}-"),
        };
        let request = self.agent.get(location).header(header::RANGE, range);
        // Bytes of the file, not of a coding of it that the way might add.
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
