//! `why`: tells the state of a URL, and the reason.
//!
//! Reads the canonicaliser, the scope, the stored robots.txt, the seen set, the frontier and the
//! store, never the network. A running crawl is queried for the state in its frontier.

use std::path::PathBuf;

use crawl::failure::{kind_name, why};
use crawl::files::seen;
use crawl::pages::Pages;
use crawl::robots::cache;
use crawl::run::control::{self, Request};
use crawl::run::{opening, view};
use crawl::settings::{Folder, Settings};
use crawl::visit::{barren, token};
use crawl::{files, is_web, record};
use filemap::canonical::{Canonicalizer as _, Whatwg};
use filemap::page::RecordKind;
use fm_cli::{Failure, Flags, Outcome, plain, words};
use frontier::FailureKind;
use serde_json::{Value, json};
use urlindex::SeenSet;
use urlindex::stored::StoredSet;

use super::print;
use crate::{bucket, failure};

/// Show the state of a URL, and the reason
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-crawl why pages.fm https://example.com/missing")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The URL, in any form
    url: String,
}

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let (folder, settings) = opening::settings(&args.store).map_err(failure::of)?;
    let (store, is_as_far) = opened(args, &folder, &settings)?;
    let canonicalizer = store.canonicalizer();
    let key = canonicalizer.canonicalize(args.url.as_bytes());
    let key = key.map_err(|error| Failure::Usage(format!("{}: {error}", args.url)))?;
    let url = String::from_utf8_lossy(&key).into_owned();
    let asked = Whatwg.canonicalize(args.url.as_bytes()).unwrap_or_else(|_| key.clone());
    let seen = match StoredSet::open_read_only(folder.join(files::SEEN)) {
        Ok(set) => json!(!set.contains(&key)?.is_new()),
        Err(urlindex::Error::Storage(error)) if error.is_absent() => Value::Null,
        Err(error) => return Err(failure::of(seen::failure(&folder.join(files::SEEN), error))),
    };
    let (state, is_running, is_told) = match opening::frontier_to_ask(&folder, &settings).map_err(failure::of) {
        Ok(frontier) => {
            (view::page(frontier.page(&url).map_err(|error| failure::of(error.into()))?.as_ref()), false, true)
        }
        Err(Failure::Locked(_)) => {
            let mut told = Value::Null;
            let request = Request::Page { key: url.clone() };
            let is_told = control::ask(folder.path(), &request, |answer| told = answer.clone());
            let is_told = is_told.map_err(failure::of)?;
            (told, true, is_told)
        }
        Err(failure) => return Err(failure),
    };
    let scope = settings.scope();
    let stored = stored(&store, &url)?;
    let last_error = last_error(&store, &url, state["last_failure"].as_str())?;
    let barren = barren(&store, &url)?;
    let asked = String::from_utf8_lossy(&asked).into_owned();
    let asked = state["url"].as_str().map_or(asked, str::to_owned);
    // While a crawl runs, its seen set on disk is a few seconds old.
    let is_known = state != Value::Null || seen == json!(true) || (is_running && stored != Value::Null);
    let can_be_asked_for = is_web(asked.as_bytes()) && asked.len() <= settings.limits.url_bytes;
    let value = json!({
        "url": args.url,
        "canonical": url,
        "fetched_as": asked,
        "in_scope": can_be_asked_for && scope.contains(&asked),
        "shard": settings.fleet.as_ref().map(|fleet| {
            json!({ "shard": urlindex::shard(asked.as_bytes(), fleet.shards), "shards": fleet.shards })
        }),
        "robots": robots(&store, &settings, &asked),
        "seen": seen,
        "is_running": is_running,
        "frontier": state,
        "stored": stored,
        "barren": barren,
        "last_error": last_error,
    });
    let lines = if flags.json { format!("{value}\n") } else { in_words(&value, is_told) };
    print(&lines)?;
    if let Some(bucket) = settings.bucket.as_ref().filter(|_| !is_running) {
        let (shard, location) = (bucket.shard, &bucket.location);
        words::complain(format_args!(
            "the pages are in {location}: the frontier and the seen set are those of shard {shard}, as the last run on \
             this machine left them"
        ));
    }
    is_as_far.map_err(failure::of)?;
    Ok(if is_known { Outcome::Done } else { Outcome::NotFound })
}

/// The pages for reading, and whether they are as new as the crawl.
fn opened(args: &Args, folder: &Folder, settings: &Settings) -> Result<(Pages, Result<(), crawl::Error>), Failure> {
    let Some(of_crawl) = &settings.bucket else {
        let (store, is_as_far) = opening::store_to_read(&args.store, folder).map_err(failure::of)?;
        return Ok((Pages::Local(store), is_as_far));
    };
    let asked = Whatwg.canonicalize(args.url.as_bytes());
    let shard = asked.map_or(of_crawl.shard, |url| urlindex::shard(&url, of_crawl.shards));
    Ok((Pages::Shard(bucket::reader(of_crawl, shard)?), Ok(())))
}

/// The verdict of the host's stored robots.txt.
fn robots(store: &Pages, settings: &Settings, url: &str) -> &'static str {
    if !settings.obeys_robots {
        return "not obeyed";
    }
    let cache = cache::Cache::new(token(settings), settings.limits.retry_after);
    let (origin, path) = cache::split(url);
    match cache.recall(origin, store) {
        Some(robots) if robots.allows(path) => "allowed",
        Some(_) => "forbidden",
        None => "not known",
    }
}

fn stored(store: &Pages, url: &str) -> Result<Value, Failure> {
    // A lost version must not hide the others.
    let versions = store.versions(url)?;
    let Some(newest) = store.head(url)? else { return Ok(Value::Null) };
    let refers_to = newest.page.revisit.as_ref().and_then(|revisit| revisit.refers_to_url.as_deref());
    Ok(json!({
        "versions": versions,
        "fetched": filemap::date::format(newest.page.fetched_at_ms),
        "status": newest.page.status,
        "body_bytes": newest.body_bytes,
        "truncated": newest.page.truncated,
        "body_of": refers_to.map(String::from_utf8_lossy),
    }))
}

/// The last failure: from the note beside the page, or, without a time, from the frontier if that
/// is newer.
fn last_error(store: &Pages, url: &str, kind: Option<&str>) -> Result<Value, Failure> {
    let note = store.get_beside(url, RecordKind::Metadata)?;
    let noted = note.as_ref().and_then(record::failure_in);
    // robots.txt has its own line in the output.
    let kind = [FailureKind::Other, FailureKind::Elsewhere].into_iter().find(|one| kind == Some(kind_name(*one)));
    let Some(error) = why(kind, noted.clone()) else { return Ok(Value::Null) };
    let at = note.filter(|_| noted.as_ref() == Some(&error)).map(|note| filemap::date::format(note.fetched_at_ms));
    Ok(json!({ "error": error, "time": at }))
}

/// The reason why the links of a page earn no credit, if recorded.
fn barren(store: &Pages, url: &str) -> Result<Value, Failure> {
    let note = store.get_beside(url, RecordKind::Metadata)?;
    let why = note.as_ref().and_then(|note| record::fields_in(note).remove(barren::FIELD));
    Ok(match (why, note) {
        (Some(why), Some(note)) => json!({ "why": why, "time": filemap::date::format(note.fetched_at_ms) }),
        _ => Value::Null,
    })
}

fn in_words(value: &Value, is_told: bool) -> String {
    let is_running = value["is_running"] == json!(true);
    let mut rows = vec![
        ("canonical", text(&value["canonical"])),
        ("asked for", text(&value["fetched_as"])),
        ("in scope", text(&value["in_scope"])),
        ("robots.txt", text(&value["robots"])),
    ];
    if let (Some(shard), Some(all)) = (value["shard"]["shard"].as_u64(), value["shard"]["shards"].as_u64()) {
        rows.push(("shard", format!("{shard} of {all}")));
    }
    let is_late = is_running && value["seen"] != json!(true);
    rows.push((
        "seen",
        text(&value["seen"]) + if is_late { ", as of some seconds ago: a crawl is running" } else { "" },
    ));
    let state = &value["frontier"];
    match state.is_null() {
        true if !is_told => rows.push(("frontier", "a crawl is running and cannot be asked: try again".to_owned())),
        true => rows.push(("frontier", "never discovered".to_owned())),
        false => rows.extend(state_in_words(state)),
    }
    if !value["stored"].is_null() {
        rows.push(("stored", stored_in_words(&value["stored"])));
    }
    let barren = &value["barren"];
    if !barren.is_null() {
        let why = format!("{} ({}): its links earn nothing", text(&barren["why"]), text(&barren["time"]));
        rows.push(("barren", why));
    }
    let error = &value["last_error"];
    if !error.is_null() {
        let at = if error["time"].is_null() { String::new() } else { format!(" ({})", text(&error["time"])) };
        rows.push(("last error", text(&error["error"]) + &at));
    }
    rows.iter().map(|(name, words)| format!("{name:11}  {words}\n")).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text.as_bytes()),
        Value::Null => "-".to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        other => other.to_string(),
    }
}

fn state_in_words(state: &Value) -> Vec<(&'static str, String)> {
    let seed = if state["is_seed"] == json!(true) { "a seed, " } else { "" };
    let is_last = state["status"] == json!("queued") && state["is_vouched_for"] == json!(false);
    let behind = if is_last { " after all others: no trusted page links to it" } else { "" };
    let part = |value: &Value| format!("{:.3e}", value.as_f64().unwrap_or(0.0));
    let mut rows = vec![
        ("frontier", format!("{seed}{}{behind}, depth {}", text(&state["status"]), state["depth"])),
        ("credit", format!("{}, importance {}", part(&state["credit"]), part(&state["importance"]))),
    ];
    if !state["last_failure"].is_null() {
        let (attempts, last) = (&state["failed_attempts"], text(&state["last_failure"]));
        rows.push(("failed", format!("attempts in a row: {attempts}, the last: {last}")));
    }
    if !state["due"].is_null() {
        rows.push(("due", text(&state["due"])));
    }
    rows
}

fn stored_in_words(stored: &Value) -> String {
    let body = match stored["body_of"].is_null() {
        true => format!("{} bytes", stored["body_bytes"]),
        false => format!("the body of {}", text(&stored["body_of"])),
    };
    let cut =
        if stored["truncated"].is_null() { String::new() } else { format!(" (cut: {})", text(&stored["truncated"])) };
    let (status, fetched) = (text(&stored["status"]), text(&stored["fetched"]));
    format!("status {status}, {body}{cut}, {fetched} (versions: {})", stored["versions"])
}
