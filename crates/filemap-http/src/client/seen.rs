//! [`SeenClient`]: client for a seen set behind a server; its requests can be sent again.

use std::io::Read;
use std::time::Duration;

use filemap::Result;
use serde::Deserialize;
use ureq::http::StatusCode;
use urlindex::idempotent::RequestId;
use urlindex::{SeenStats, Verdict};

use super::call::{Answered, Connection};
use super::options::ClientOptions;
use crate::wire::INVALID;

/// Longest verdict, with its line end.
const MAX_WORD: u64 = 16;
/// Time limit of a request, its response included.
const LIMIT: Duration = Duration::from_secs(120);

/// Outcome of a request to add URLs.
///
/// ```
/// use filemap_http::Added;
/// use urlindex::Verdict;
///
/// fn count_new(added: &Added, sent: usize) -> usize {
///     match added {
///         Added::Verdicts(told) => told.iter().filter(|v| **v == Some(Verdict::New)).count(),
///         // Who takes them all as new loses none.
///         Added::Forgotten => sent,
///         Added::Ahead(_) | Added::Refused(_) => 0,
///     }
/// }
/// let added = Added::Verdicts(vec![Some(Verdict::New), Some(Verdict::Seen), None]);
/// assert_eq!((count_new(&added, 3), count_new(&Added::Forgotten, 3)), (1, 3));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// A verdict for each URL; `None` for one that is invalid by the set's canonicaliser.
    Verdicts(Vec<Option<Verdict>>),
    /// The request is so old that its answer may have been forgotten: which of its URLs were new
    /// is no longer known. Taking all of them as new loses none. Sent with a new id they are
    /// added, in case the first request never arrived.
    Forgotten,
    /// The request's id lies in the future: one of two clocks is wrong.
    Ahead(String),
    /// Permanently refused, with the reason: another request had its id, the token does not allow
    /// it, or there is no such set.
    Refused(String),
}

/// The moment at which the server answers a request to add URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// After the URLs are durable: answered URLs survive a power loss of the server.
    Durable,
    /// Immediately; they are durable about a second later.
    Accepted,
}

/// Outcome of a request to create a set.
///
/// ```
/// use filemap_http::{ClientOptions, Made, SeenClient};
///
/// // With a password: that is refused before anything is sent.
/// let location = "http://me:secret@127.0.0.1:8640/v1/seen/pages";
/// let made = SeenClient::create(location, r#"{"kind":"disk"}"#, &ClientOptions::new())?;
/// assert!(matches!(made, Made::Refused(_)));
/// # Ok::<(), filemap::Error>(())
/// ```
#[derive(Debug)]
pub enum Made {
    /// The set, created now or earlier.
    Set(SeenClient),
    /// Not created, with the reason: the token does not allow it, the server creates no sets, a
    /// set of another kind or with other rules exists, or the address or the options are invalid.
    Refused(String),
}

/// A seen set behind a server. Its calls block; it is `Send` and `Sync`.
///
/// ```no_run
/// use filemap_http::{Ack, Added, ClientOptions, SeenClient};
/// use urlindex::idempotent::RequestId;
///
/// let set = SeenClient::open("http://127.0.0.1:8640/v1/seen/pages", &ClientOptions::new())?;
/// // Noted before it is sent, so that it can be sent again with the same id.
/// let id = RequestId::now();
/// let added = set.add(Some(id), &["https://example.com/"], Ack::Durable)?;
/// assert!(matches!(added, Added::Verdicts(verdicts) if verdicts.len() == 1));
/// # Ok::<(), filemap::Error>(())
/// ```
#[derive(Debug)]
pub struct SeenClient {
    connection: Connection,
    figures: Figures,
}

/// Figures that a server reports for a set.
#[derive(Debug, Deserialize)]
struct Figures {
    rules: String,
    rules_version: u32,
    writes: bool,
    urls: u64,
    inserted: u64,
    memory_bytes: u64,
    disk_bytes: u64,
    false_positive_rate: f64,
    expected_loss: f64,
}

impl SeenClient {
    /// Opens the set at `location`, such as `http://127.0.0.1:8640/v1/seen/NAME`. One request.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`] if no seen set answers there, or the server rejects the token.
    pub fn open(location: &str, options: &ClientOptions) -> Result<SeenClient> {
        let connection = Connection::with_limit(location, options, Some(LIMIT))?;
        let figures = figures(&connection)?;
        Ok(SeenClient { connection, figures })
    }

    /// As [`SeenClient::open`], but creates the set if it does not exist. `set` describes it in
    /// JSON, as in `PUT /v1/seen/NAME`. One request.
    ///
    /// ```no_run
    /// use filemap_http::{ClientOptions, Made, SeenClient};
    ///
    /// let location = "http://127.0.0.1:8640/v1/seen/pages";
    /// let made = SeenClient::create(location, r#"{"kind":"disk","rules":"exact"}"#, &ClientOptions::new())?;
    /// assert!(matches!(made, Made::Set(set) if set.writes()));
    /// # Ok::<(), filemap::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`] if the server is unreachable, or is creating this set for
    /// another client: retry the same request later.
    pub fn create(location: &str, set: &str, options: &ClientOptions) -> Result<Made> {
        let connection = match Connection::with_limit(location, options, Some(LIMIT)) {
            Ok(connection) => connection,
            Err(error) => return Ok(Made::Refused(error.to_string())),
        };
        match connection.put_json("", set)? {
            Answered::Refused(_, why) => Ok(Made::Refused(why)),
            Answered::Found(found) => {
                let figures = connection.read_json(found)?;
                Ok(Made::Set(SeenClient { connection, figures }))
            }
        }
    }

    /// Returns whether the server accepts URLs to add.
    pub fn writes(&self) -> bool {
        self.figures.writes
    }

    /// Name and version of the canonicaliser of the set's URLs.
    pub fn rules(&self) -> (&str, u32) {
        (&self.figures.rules, self.figures.rules_version)
    }

    /// Current statistics of the set. One request.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`].
    pub fn stats(&self) -> Result<SeenStats> {
        let (now, mut stats) = (figures(&self.connection)?, SeenStats::default());
        (stats.urls, stats.inserted) = (now.urls, now.inserted);
        (stats.memory_bytes, stats.disk_bytes) = (now.memory_bytes, now.disk_bytes);
        (stats.false_positive_rate, stats.expected_loss) = (now.false_positive_rate, now.expected_loss);
        Ok(stats)
    }

    /// Adds URLs, and returns which were new. With an id the request can be sent again, after an
    /// error or a restart, and gets the same answer. `ack` chooses when it is answered.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`]; then it is unknown whether the URLs were added.
    pub fn add(&self, id: Option<RequestId>, urls: &[impl AsRef<[u8]>], ack: Ack) -> Result<Added> {
        let path = match ack {
            Ack::Durable => "/add",
            Ack::Accepted => "/add?durable=0",
        };
        let id = id.map(|id| id.to_string());
        match self.connection.post_lines(path, id.as_deref(), &lines(urls))? {
            Answered::Refused(StatusCode::CONFLICT, _) => Ok(Added::Forgotten),
            Answered::Refused(StatusCode::TOO_EARLY, why) => Ok(Added::Ahead(why)),
            Answered::Refused(_, why) => Ok(Added::Refused(why)),
            Answered::Found(found) => self.verdicts(found.body, urls.len()).map(Added::Verdicts),
        }
    }

    /// Checks which of these URLs were added. Adds none.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Remote`].
    pub fn check(&self, urls: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Verdict>>> {
        match self.connection.post_lines("/check", None, &lines(urls))? {
            Answered::Refused(_, why) => Err(self.connection.strange(&why)),
            Answered::Found(found) => self.verdicts(found.body, urls.len()),
        }
    }

    fn verdicts(&self, body: impl Read, count: usize) -> Result<Vec<Option<Verdict>>> {
        let mut text = String::new();
        body.take(MAX_WORD * count as u64 + 1)
            .read_to_string(&mut text)
            .map_err(|error| self.connection.broken(&error))?;
        let verdicts: Option<Vec<Option<Verdict>>> = text.lines().map(verdict).collect();
        let whole = verdicts.filter(|verdicts| verdicts.len() == count && (text.is_empty() || text.ends_with('\n')));
        whole.ok_or_else(|| self.connection.strange(&format!("{count} verdicts expected")))
    }
}

fn figures(connection: &Connection) -> Result<Figures> {
    connection.json("")?.ok_or_else(|| connection.strange("it has no figures of a seen set"))
}

/// Parses a verdict: `Some(None)` for an invalid URL, `None` for an unknown word.
fn verdict(word: &str) -> Option<Option<Verdict>> {
    match word {
        INVALID => Some(None),
        _ => Verdict::ALL.into_iter().find(|verdict| verdict.name() == word).map(Some),
    }
}

/// One URL a line. A URL that contains a line end is invalid, and is sent as an empty line.
fn lines(urls: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut lines = Vec::new();
    for url in urls {
        let url = url.as_ref();
        if !url.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            lines.extend_from_slice(url);
        }
        lines.push(b'\n');
    }
    lines
}
