//! The change feed of a store behind a server, read line by line.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use filemap::Result;
use filemap::dump::jsonl;
use filemap::page::RecordKind;
use filemap::replica::Told;
use filemap::store::{Beside, BodyForm};
use filemap_core::erase::Rule;
use serde_json::Value;
use ureq::http::StatusCode;

use super::call::{Answered, Connection};
use crate::query::encoded;
use crate::wire;

/// Longest line: a page with its headers and its body in base64 (4/3 of its length).
const MAX_LINE: u64 = 256 << 20;

/// A line of the change feed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, PageStore};
/// # use filemap_http::server::{Server, ServerOptions};
/// use std::time::Duration;
///
/// use filemap::replica::Told;
/// use filemap_http::{Client, ClientOptions, Said};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// # let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
/// # let location = format!("http://{}", listener.local_addr()?);
/// # let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// # let server = Server::new(store, ServerOptions::new());
/// # let serving = runtime.spawn(server.serve(listener, None, async { drop(stopped.await) }));
/// let store = Client::open(&location, &ClientOptions::new())?;
/// let line = store.changes(None, Duration::ZERO)?.next().expect("all is listed")?;
/// assert_eq!(line.said, Said::Told(Told::Listed { is_whole: true }));
/// // From there on, later.
/// assert!(store.changes(Some(line.place.as_str()), Duration::ZERO)?.next().is_some());
/// # drop(stop);
/// # runtime.block_on(serving)??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// Cursor after this line: where to continue in the store's history.
    pub place: String,
    /// Content of the line.
    pub said: Said,
}

/// Content of a line of changes.
///
/// ```
/// use filemap::replica::Told;
/// use filemap_http::Said;
///
/// let is_last = |said: &Said| matches!(said, Said::End | Said::Outrun(_));
/// assert!(is_last(&Said::End) && !is_last(&Said::Told(Told::Listed { is_whole: true })));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Said {
    /// A change, or an entry of a listing.
    Told(Told),
    /// Damage on the server: pages may be missing here. The page or records affected, if known,
    /// and the reason.
    Damage(Option<Beside>, String),
    /// The end: no more changes for now.
    End,
    /// The server no longer knows the changes since the cursor: start over.
    Outrun(String),
}

/// The lines of one answer.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// # use filemap_http::server::{Server, ServerOptions};
/// use std::time::Duration;
///
/// use filemap_http::{Client, ClientOptions, Said};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// # store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// # store.sync()?;
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// # let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
/// # let location = format!("http://{}", listener.local_addr()?);
/// # let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// # let server = Server::new(store, ServerOptions::new());
/// # let serving = runtime.spawn(server.serve(listener, None, async { drop(stopped.await) }));
/// let store = Client::open(&location, &ClientOptions::new())?;
/// let mut last = None;
/// for line in store.changes(None, Duration::ZERO)? {
///     last = Some(line?.said);
/// }
/// assert_eq!(last, Some(Said::End));
/// # drop(stop);
/// # runtime.block_on(serving)??;
/// # Ok(())
/// # }
/// ```
pub struct Lines {
    connection: Connection,
    /// `None` after the end of the feed.
    answer: Option<BufReader<Box<dyn Read + Send>>>,
    /// The only line, if the server answered `Gone`.
    outrun: Option<Line>,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("is_over", &self.answer.is_none()).finish_non_exhaustive()
    }
}

impl Lines {
    /// Requests the lines: see [`super::Client::changes`].
    pub(super) fn ask(connection: &Connection, since: Option<&str>, wait: Duration) -> Result<Lines> {
        let since = since.map_or(String::new(), |place| format!("&since={}", encoded(place.as_bytes())));
        let path = format!("/v1/changes?pages=1&wait={}{since}", wait.as_secs());
        match connection.get_unless_refused(&path)? {
            Answered::Found(found) => {
                let answer = Some(BufReader::with_capacity(256 << 10, found.body));
                Ok(Lines { connection: connection.clone(), answer, outrun: None })
            }
            Answered::Refused(StatusCode::GONE, why) => {
                let outrun = Some(Line { place: String::new(), said: Said::Outrun(why) });
                Ok(Lines { connection: connection.clone(), answer: None, outrun })
            }
            Answered::Refused(status, detail) => {
                let is_of_one_page = status == StatusCode::BAD_REQUEST;
                Err(connection.failed(wire::Problem { detail, is_of_one_page, ..wire::Problem::default() }))
            }
        }
    }

    /// The next line and those already buffered, at most `most` in total; empty at the end.
    #[cfg(feature = "async")]
    pub(crate) fn part(&mut self, most: usize) -> Vec<Result<Line>> {
        let mut part = Vec::from_iter(self.next());
        while !part.is_empty() && part.len() < most && self.has_next() {
            part.extend(self.next());
        }
        part
    }

    /// Returns whether the next line can be read without waiting.
    #[cfg(feature = "async")]
    fn has_next(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.buffer().trim_ascii_start().contains(&b'\n'))
    }

    fn read(&mut self) -> Result<Option<Line>> {
        let connection = &self.connection;
        let Some(answer) = &mut self.answer else { return Ok(None) };
        let mut bytes = Vec::new();
        // Empty lines are keep-alives.
        while bytes.trim_ascii().is_empty() {
            bytes.clear();
            let read = answer.take(MAX_LINE).read_until(b'\n', &mut bytes);
            if read.map_err(|error| connection.broken(&error))? == 0 {
                break;
            }
        }
        if !bytes.ends_with(b"\n") {
            return Err(connection.broken(&std::io::ErrorKind::UnexpectedEof.into()));
        }
        let strange = |what: &str| connection.strange(&format!("a change {what}"));
        let mut line: Value = serde_json::from_slice(&bytes).map_err(|error| strange(&error.to_string()))?;
        let place = line["cursor"].as_str().or((line["change"] == "failed").then_some(""));
        let place = place.ok_or_else(|| strange("without a cursor"))?.to_owned();
        let error = line["error"].as_str().unwrap_or("no reason given").to_owned();
        let said = match line["change"].as_str().unwrap_or_default() {
            "put" => put(&mut line).map(Said::Told),
            "removed" => {
                let time_ms = line["time_ms"].as_i64().unwrap_or_default();
                beside(line).map(|of| Said::Told(Told::Removed { of, time_ms }))
            }
            "removed-version" => removed_version(line).map(Said::Told),
            "listed" => Some(Said::Told(Told::Listed { is_whole: line["is_whole"] == true })),
            "rules" => rules(&line).map(|rules| Said::Told(Told::Rules(rules))),
            "damage" => Some(Said::Damage(beside(line), error)),
            "end" => Some(Said::End),
            "failed" if line["is_outrun"] == true => Some(Said::Outrun(error)),
            "failed" => {
                return Err(connection.failed(wire::Problem { detail: error, ..wire::Problem::default() }));
            }
            other => return Err(strange(&format!("of the unknown kind `{other}`"))),
        };
        let said = said.ok_or_else(|| strange("that is invalid"))?;
        Ok(Some(Line { place, said }))
    }
}

impl Iterator for Lines {
    type Item = Result<Line>;

    fn next(&mut self) -> Option<Result<Line>> {
        if let Some(outrun) = self.outrun.take() {
            return Some(Ok(outrun));
        }
        let line = self.read().transpose()?;
        if !matches!(&line, Ok(Line { said: Said::Told(_) | Said::Damage(..), .. })) {
            self.answer = None;
        }
        Some(line)
    }
}

fn removed_version(line: Value) -> Option<Told> {
    let version_time_ms = line["version_time_ms"].as_i64()?;
    let print = match &line["digest"] {
        Value::Null => None,
        digest => {
            let hash = u64::from_str_radix(line["description_hash"].as_str()?, 16).ok()?;
            Some((wire::read_digest(digest.as_str()?)?, hash))
        }
    };
    let time_ms = line["time_ms"].as_i64().unwrap_or_default();
    Some(Told::RemovedVersion { of: beside(line)?, time_ms, version_time_ms, print })
}

/// A version: with its body, or only its head.
fn put(line: &mut Value) -> Option<Told> {
    let version = wire::read_version(line["version"].as_str()?)?;
    let digest = line["digest"].as_str().and_then(wire::read_digest);
    if let Some(head) = line.get_mut("head") {
        let head = jsonl::read_head(head.take())?;
        let form = if head.unchanged_since.is_some() { BodyForm::Reference } else { BodyForm::Whole };
        let elsewhere = Some((head.body_bytes, digest?));
        return Some(Told::Put { page: Box::new(head.page), form, version, elsewhere });
    }
    let (page, form) = jsonl::read_stored(line["page"].to_string().as_bytes()).ok()?;
    Some(Told::Put { page: Box::new(page), form: form.unwrap_or(BodyForm::Whole), version, elsewhere: None })
}

/// The page, variant or records that a line concerns, if it names them.
fn beside(line: Value) -> Option<Beside> {
    let kind = RecordKind::named(line["kind"].as_str()?)?;
    let entry: wire::Entry = serde_json::from_value(line).ok()?;
    let listed = entry.without_cursor().listed()?;
    Some(Beside { url: listed.url, variant: listed.variant, kind })
}

fn rules(line: &Value) -> Option<Vec<Rule>> {
    line["rules"].as_array()?.iter().map(rule).collect()
}

fn rule(rule: &Value) -> Option<Rule> {
    Some(Rule {
        id: rule["id"].as_u64()?.try_into().ok()?,
        state: wire::read_rule_state(rule["state"].as_str()?)?,
        made_ms: rule["made_ms"].as_i64()?,
        changed_ms: rule["changed_ms"].as_i64()?,
        reason: rule["reason"].as_str()?.to_owned(),
        what: rule["what"].as_str()?.as_bytes().to_vec(),
    })
}
