//! `GET /v1/changes`: the change feed since a cursor, as JSON lines or server-sent events. Each
//! entry has the cursor after it. A response ends when there are no more changes; on request it
//! first waits for more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderMap, HeaderName};
use axum::response::IntoResponse;
use bytes::Bytes;
use filemap::dump::jsonl;
use filemap::page::RecordKind;
use filemap::store::{Beside, PageChange};
use filemap::{Error, PageHead, Result, Variant};
use filemap_core::erase::Rule;
use futures_util::stream::try_unfold;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::backend::Backend;
use super::guard::Allowed;
use super::refusal::Answer;
use super::shown::{Shown, ShownChanges};
use crate::query::Query;
use crate::wire::{self, Entry, LINES_TYPE};

/// Media type of server-sent events.
const EVENTS_TYPE: &str = "text/event-stream";
/// Header with the cursor from which a broken event stream continues.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Maximum number of seconds that a response of lines may be asked to wait.
const MAX_WAIT: u64 = 300;
/// Maximum number of bytes of lines from one call of the store, and of a body within a line.
const PART: usize = 1 << 20;
const MAX_BODY: u64 = 16 << 20;
/// Maximum size of a record beside a page, which is available only here.
const MAX_RECORD: u64 = 128 << 20;
/// Time limit of one call of the store that searches for changes: others need the thread too.
const TURN: Duration = Duration::from_millis(100);
/// Interval between searches for more changes.
const LOOK: Duration = Duration::from_millis(200);
/// Silence after which an empty line is sent, so that no proxy closes the connection.
const ALIVE: Duration = Duration::from_secs(15);

/// Format of a response.
#[derive(Clone, Copy)]
struct Form {
    /// As server-sent events.
    is_events: bool,
    /// With pages as stored, bodies included, instead of their heads.
    with_pages: bool,
}

/// A response in progress.
struct Telling {
    changes: ShownChanges,
    form: Form,
    /// Changes that may still be sent.
    left: u64,
    /// End of the wait for changes; `None`: the end of the server.
    until: Option<Instant>,
    said: Instant,
    has_told: bool,
    /// All durable changes are sent.
    is_caught_up: bool,
    is_over: bool,
}

/// The route's handler.
pub(super) async fn changes(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    RawQuery(raw): RawQuery,
    head: HeaderMap,
) -> Answer {
    let query = Query::parse(raw.as_deref(), &["since", "wait", "limit", "pages"])?;
    let is_events = head.get(ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|a| a.contains(EVENTS_TYPE));
    let form = Form { is_events, with_pages: query.switch("pages")?.unwrap_or(false) };
    let since = match head.get(LAST_EVENT).filter(|_| is_events) {
        Some(last) => Some(last.to_str().unwrap_or_default().to_owned()),
        None => query.text("since")?.map(str::to_owned),
    };
    let wait = query.read("wait", &format!("a number of seconds up to {MAX_WAIT}"), |text| {
        text.parse::<u64>().ok().filter(|seconds| *seconds <= MAX_WAIT)
    })?;
    let left = query.read("limit", "a number from 1 on", |text| text.parse().ok().filter(|n: &u64| *n > 0))?;
    // A replica is equal to the store, and has its own access rules.
    let sees_all = allowed.has_admin_token(&backend);
    let begin = move |shown: &Shown| match sees_all {
        true => shown.without_rules().changes(since.as_deref()),
        false => shown.changes(since.as_deref()),
    };
    let changes = backend.call(begin).await?;
    let now = Instant::now();
    let until = match (wait, is_events) {
        (Some(seconds), _) => Some(now + Duration::from_secs(seconds)),
        (None, true) => None,
        (None, false) => Some(now),
    };
    let telling = Telling {
        changes,
        form,
        left: left.unwrap_or(u64::MAX),
        until,
        said: now,
        has_told: false,
        is_caught_up: false,
        is_over: false,
    };
    let telling = Answering::Between(Box::new(telling));
    let kind = HeaderValue::from_static(if is_events { EVENTS_TYPE } else { LINES_TYPE });
    let body = Body::from_stream(try_unfold(telling, move |answering| more(Arc::clone(&backend), answering)));
    Ok(([(CONTENT_TYPE, kind), (CACHE_CONTROL, HeaderValue::from_static("no-store"))], body).into_response())
}

/// A running call of the store.
type Call = Pin<Box<dyn Future<Output = Result<(Vec<u8>, Telling)>> + Send>>;

/// State of a response between two of its parts.
enum Answering {
    Between(Box<Telling>),
    Under(Call),
}

/// The next part of a response; waits for it. Sends a keep-alive during a long call.
async fn more(backend: Arc<Backend>, answering: Answering) -> std::io::Result<Option<(Bytes, Answering)>> {
    let mut answering = answering;
    loop {
        let mut call = match answering {
            Answering::Between(telling) if telling.is_over => return Ok(None),
            Answering::Between(telling) => {
                let backend = Arc::clone(&backend);
                Box::pin(async move { backend.go_on(move || Ok(telling.part())).await }) as Call
            }
            Answering::Under(call) => call,
        };
        let Ok(done) = tokio::time::timeout(ALIVE, &mut call).await else {
            // Both formats ignore an empty line.
            return Ok(Some((Bytes::from_static(b"\n"), Answering::Under(call))));
        };
        let (lines, mut telling) = done.map_err(std::io::Error::other)?;
        if !lines.is_empty() {
            (telling.said, telling.has_told) = (Instant::now(), true);
            return Ok(Some((lines.into(), Answering::Between(telling.into()))));
        }
        // Lines wait only for the first change: once some are sent, the end follows immediately.
        let is_late =
            telling.until.is_some_and(|until| Instant::now() >= until) || (telling.has_told && !telling.form.is_events);
        if !telling.is_over && telling.is_caught_up && (is_late || backend.is_draining()) {
            telling.is_over = true;
            return Ok(Some((telling.end().into(), Answering::Between(telling.into()))));
        }
        if telling.said.elapsed() >= ALIVE {
            telling.said = Instant::now();
            return Ok(Some((Bytes::from_static(b"\n"), Answering::Between(telling.into()))));
        }
        if telling.is_caught_up {
            tokio::time::sleep(LOOK).await;
        }
        answering = Answering::Between(telling.into());
    }
}

impl Telling {
    /// The changes to send now, up to a part's length or a time limit. A failure is the last line,
    /// since the status is already sent.
    fn part(mut self) -> (Vec<u8>, Telling) {
        let mut out = Vec::new();
        if let Err(error) = self.tell(&mut out) {
            self.fail(&error, &mut out);
        } else if self.left == 0 {
            self.is_over = true;
            out.extend(self.end());
        }
        (out, self)
    }

    fn tell(&mut self, out: &mut Vec<u8>) -> Result<()> {
        // Lines end with the changes present when they began: otherwise they might never end.
        if self.form.is_events || !self.has_told {
            self.changes.renew()?;
        }
        let mut is_hidden = self.changes.is_listing();
        let told = self.tell_some(&mut is_hidden, out);
        // Before the client gets a cursor after the changes that were left out.
        if is_hidden && let Err(error) = self.changes.settle() {
            out.clear();
            return Err(error);
        }
        told
    }

    fn tell_some(&mut self, is_hidden: &mut bool, out: &mut Vec<u8>) -> Result<()> {
        let begun = Instant::now();
        self.is_caught_up = false;
        while out.len() < PART && self.left > 0 && begun.elapsed() < TURN {
            let Some(change) = self.changes.next() else {
                self.is_caught_up = true;
                break;
            };
            if let Some(change) = change? {
                *is_hidden |= self.line(change, out)?;
                self.left -= 1;
            }
        }
        Ok(())
    }

    /// Writes a change. Returns true if it was removed since, and so left out.
    fn line(&self, change: PageChange, out: &mut Vec<u8>) -> Result<bool> {
        match change {
            PageChange::Put { head, .. } if !self.form.with_pages => {
                self.say("put", json!({ "page": jsonl::head(&head)? }), out);
            }
            PageChange::Put { key, head, digest } => return self.page(&key, &head, &digest, out),
            PageChange::Removed { of, time_ms } => {
                let mut said = beside(&of);
                said["time_ms"] = json!(time_ms);
                self.say("removed", said, out);
            }
            PageChange::RemovedVersion { of, time_ms, version_time_ms, print } => {
                let mut said = beside(&of);
                said["time_ms"] = json!(time_ms);
                said["version_time_ms"] = json!(version_time_ms);
                said["digest"] = json!(print.map(|(digest, _)| wire::digest(&digest)));
                said["description_hash"] = json!(print.map(|(_, hash)| format!("{hash:016x}")));
                self.say("removed-version", said, out);
            }
            PageChange::Listed { is_whole } => self.say("listed", json!({ "is_whole": is_whole }), out),
            PageChange::Damaged { of, error } => {
                let mut said = of.as_ref().map_or_else(|| json!({}), beside);
                said["error"] = json!(error.to_string());
                self.say("damage", said, out);
            }
            PageChange::Rules(rules) => {
                self.say("rules", json!({ "rules": rules.iter().map(rule).collect::<Vec<_>>() }), out);
            }
            _ => return Err(Error::Unsupported { what: "support for this kind of change" }),
        }
        Ok(false)
    }

    /// Writes a version as stored. Returns true if it was removed since.
    fn page(&self, key: &[u8], head: &PageHead, digest: &[u8; 16], out: &mut Vec<u8>) -> Result<bool> {
        let version = wire::version(head.version);
        let damage = |words: String, out: &mut Vec<u8>| {
            let mut said = of_page(&head.page.url, head.page.variant.as_ref(), head.page.kind);
            said["error"] = json!(words);
            self.say("damage", said, out);
        };
        let mut head = head.clone();
        let mut digest = *digest;
        if head.page.in_place.is_some() {
            match self.changes.measured(key, &head) {
                Ok(measured) => (head.page, head.body_bytes, digest) = measured,
                Err(error) if error.is_damage() => {
                    damage(error.to_string(), out);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        let body_bytes = head.body_bytes;
        if body_bytes > MAX_BODY && head.page.kind.is_page() {
            // Without its body: the client fetches that by the version.
            let (digest, head) = (wire::digest(&digest), jsonl::head(&head)?);
            self.say("put", json!({ "version": version, "digest": digest, "head": head }), out);
            return Ok(false);
        }
        if body_bytes > MAX_RECORD {
            damage(format!("a record of {body_bytes} bytes is too long to send"), out);
            return Ok(false);
        }
        match self.changes.stored(key, head.version) {
            Ok(None) => return Ok(true),
            Ok(Some(stored)) => {
                let mut page = Vec::new();
                jsonl::write_stored(&stored.page, stored.body_form(), &mut page)?;
                self.say_page(&version, &String::from_utf8_lossy(&page), out);
            }
            Err(error) if error.is_damage() => damage(error.to_string(), out),
            Err(error) => return Err(error),
        }
        Ok(false)
    }

    /// The last line: the cursor to continue from.
    fn end(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.say("end", json!({}), &mut out);
        out
    }

    /// Writes the reason why the response breaks off, without a cursor: the failed change was not
    /// sent.
    fn fail(&mut self, error: &Error, out: &mut Vec<u8>) {
        self.is_over = true;
        let is_outrun = matches!(error, Error::Engine(filemap_core::Error::Outrun { .. }));
        let said = json!({ "change": "failed", "error": error.to_string(), "is_outrun": is_outrun });
        let line = if self.form.is_events { format!("event: failed\ndata: {said}\n\n") } else { format!("{said}\n") };
        out.extend_from_slice(line.as_bytes());
    }

    fn say(&self, what: &str, mut said: Value, out: &mut Vec<u8>) {
        said["change"] = json!(what);
        said["cursor"] = json!(self.changes.place().to_string());
        self.write(what, &said.to_string(), out);
    }

    /// Writes a version that is already a line of JSON, without parsing it.
    fn say_page(&self, version: &str, page: &str, out: &mut Vec<u8>) {
        let (place, page) = (self.changes.place(), page.trim_end());
        let line = format!(r#"{{"change":"put","version":"{version}","cursor":"{place}","page":{page}}}"#);
        self.write("put", &line, out);
    }

    fn write(&self, what: &str, line: &str, out: &mut Vec<u8>) {
        if self.form.is_events {
            let place = self.changes.place();
            out.extend_from_slice(format!("id: {place}\nevent: {what}\ndata: {line}\n\n").as_bytes());
        } else {
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
    }
}

fn beside(of: &Beside) -> Value {
    of_page(&of.url, of.variant.as_ref(), of.kind)
}

/// The fields that name a page, a variant, or records beside them.
fn of_page(url: &[u8], variant: Option<&Variant>, kind: RecordKind) -> Value {
    let mut said = serde_json::to_value(Entry::of(url, variant)).unwrap_or_default();
    said["kind"] = json!(if kind.is_page() { RecordKind::Response } else { kind }.name());
    said
}

/// An erasure rule. Its target is a digest of a URL, or a text of the operator.
fn rule(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "state": wire::rule_state(rule.state),
        "made_ms": rule.made_ms,
        "changed_ms": rule.changed_ms,
        "reason": rule.reason,
        "what": String::from_utf8_lossy(&rule.what),
    })
}
