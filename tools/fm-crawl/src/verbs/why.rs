//! `why`: what became of a URL, and why.
//!
//! Asks all who know something of it, and nobody over the network: the canonicaliser, the scope, the stored robots.txt, the seen set, the
//! frontier, the store. The store and the seen set can be asked while a crawl runs, the frontier cannot.

use std::path::PathBuf;
use std::time::Duration;

use filemap::{PageStore, RecordKind};
use frontier::{Frontier, PageStatus};
use serde_json::{Value, json};
use urlindex::{SeenSet, StoredSet};

use super::opening;
use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::record;
use crate::robots::{self, cache};
use crate::scope::Scope;
use crate::settings::Settings;
use terminal::plain;

/// Say what became of a URL, and why
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-crawl why pages.fm https://example.com/missing")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The URL, in any form
    url: String,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let (folder, settings) = opening::settings(&args.store)?;
    let store = opening::store_to_read(&args.store)?;
    let canonicalizer = store.canonicalizer();
    let key = canonicalizer.canonicalize(args.url.as_bytes());
    let key = key.map_err(|error| Failure::Usage(format!("{}: {error}", args.url)))?;
    let url = String::from_utf8_lossy(&key).into_owned();
    let seen = match StoredSet::open_read_only(&folder.join("seen")) {
        Ok(set) => json!(!set.contains(&key)?.is_new()),
        Err(_) => Value::Null,
    };
    let (state, is_running) = match opening::frontier_to_ask(&folder, &settings) {
        Ok(frontier) => (state(&frontier, &url)?, false),
        Err(Failure::Locked(_)) => (Value::Null, true),
        Err(failure) => return Err(failure),
    };
    let scope = Scope::new(settings.scope, settings.seeds.iter().map(String::as_str));
    let is_known = state != Value::Null || seen == json!(true);
    let value = json!({
        "url": args.url,
        "canonical": url,
        "in_scope": scope.contains(&url),
        "robots": robots(&store, &settings, &url),
        "seen": seen,
        "is_running": is_running,
        "frontier": state,
        "stored": stored(&store, &url)?,
        "last_error": last_error(&store, &url)?,
    });
    if shared.json {
        println!("{value}");
    } else {
        print(&value);
    }
    Ok(if is_known { Outcome::Done } else { Outcome::NotFound })
}

/// What the stored robots.txt of the site says.
fn robots(store: &PageStore, settings: &Settings, url: &str) -> &'static str {
    if !settings.obeys_robots {
        return "not obeyed";
    }
    let cache = cache::Cache::new(robots::token(&settings.user_agent), Duration::ZERO);
    let (origin, path) = cache::split(url);
    match cache.recall(origin, store) {
        Some(robots) if robots.allows(path) => "allowed",
        Some(_) => "forbidden",
        None => "not known",
    }
}

fn state(frontier: &Frontier, url: &str) -> Result<Value, Failure> {
    let Some(state) = frontier.page(url)? else { return Ok(Value::Null) };
    let status = match state.status {
        PageStatus::Queued => "queued",
        PageStatus::Retrying => "waits for another attempt",
        PageStatus::InFlight => "in flight",
        PageStatus::Fetched => "fetched",
        PageStatus::Due => "due again",
        PageStatus::Gone => "given up",
        _ => "unknown",
    };
    Ok(json!({
        "status": status,
        "is_seed": state.is_seed,
        "is_vouched_for": state.is_vouched_for,
        "depth": state.depth,
        "credit": state.credit,
        "importance": state.importance,
        "failed_attempts": state.failed_attempts,
        "last_failure": state.last_failure.map(frontier::FailureKind::name),
        "due": state.due_ms.and_then(|ms| i64::try_from(ms).ok()).map(filemap::date::format),
    }))
}

fn stored(store: &PageStore, url: &str) -> Result<Value, Failure> {
    let versions = store.history(url)?;
    let Some(newest) = versions.first() else { return Ok(Value::Null) };
    let refers_to = newest.page.revisit.as_ref().and_then(|revisit| revisit.refers_to_url.as_deref());
    Ok(json!({
        "versions": versions.len(),
        "fetched": filemap::date::format(newest.page.fetched_at_ms),
        "status": newest.page.status,
        "body_bytes": newest.body_bytes,
        "truncated": newest.page.truncated,
        "body_of": refers_to.map(String::from_utf8_lossy),
    }))
}

fn last_error(store: &PageStore, url: &str) -> Result<Value, Failure> {
    let Some(note) = store.get_beside(url, RecordKind::Metadata)? else { return Ok(Value::Null) };
    let at = filemap::date::format(note.fetched_at_ms);
    Ok(record::failure_in(&note).map_or(Value::Null, |error| json!({ "error": error, "time": at })))
}

fn print(value: &Value) {
    let text = |value: &Value| match value {
        Value::String(text) => plain(text.as_bytes()),
        Value::Null => "-".to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        other => other.to_string(),
    };
    let row = |name: &str, words: String| println!("{name:11}  {words}");
    row("canonical", text(&value["canonical"]));
    row("in scope", text(&value["in_scope"]));
    row("robots.txt", text(&value["robots"]));
    row("seen", text(&value["seen"]));
    let state = &value["frontier"];
    match state.is_null() {
        true if value["is_running"] == json!(true) => {
            row("frontier", "a crawl is running: ask again when it has ended".to_owned())
        }
        true => row("frontier", "never discovered".to_owned()),
        false => {
            let seed = if state["is_seed"] == json!(true) { "a seed, " } else { "" };
            let is_last = state["status"] == json!("queued") && state["is_vouched_for"] == json!(false);
            let behind = if is_last { " behind all others, as no page of good standing leads to it" } else { "" };
            row("frontier", format!("{seed}{}{behind}, depth {}", text(&state["status"]), state["depth"]));
            let part = |value: &Value| format!("{:.3e}", value.as_f64().unwrap_or(0.0));
            row("credit", format!("{}, importance {}", part(&state["credit"]), part(&state["importance"])));
            if !state["last_failure"].is_null() {
                row(
                    "failed",
                    format!(
                        "attempts in a row: {}, the last: {}",
                        state["failed_attempts"],
                        text(&state["last_failure"])
                    ),
                );
            }
            if !state["due"].is_null() {
                row("due", text(&state["due"]));
            }
        }
    }
    let stored = &value["stored"];
    if !stored.is_null() {
        let also =
            if stored["body_of"].is_null() { String::new() } else { format!(", body of {}", text(&stored["body_of"])) };
        let words = format!(
            "status {}, {} bytes, {} (versions: {}){also}",
            text(&stored["status"]),
            stored["body_bytes"],
            text(&stored["fetched"]),
            stored["versions"]
        );
        row("stored", words);
    }
    let error = &value["last_error"];
    if !error.is_null() {
        row("last error", format!("{} ({})", text(&error["error"]), text(&error["time"])));
    }
}
