//! Reports of a running crawl: messages, progress, the crawl log, and edges.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crawl::BoxError;
use crawl::run::{Event, Observer, Pause, Tally};
use crawl::visit::Visit;
use fm_cli::{Failure, Flags, sizes, words};
use frontier::Frontier;
use serde_json::{Value, json};

use crate::edges::Edges;
use crate::log::Log;
use crate::progress::Progress;

/// Observer that reports a crawl to people and writes its log and edges.
pub struct Face {
    flags: Flags,
    opening: Opening,
    parts: Mutex<Parts>,
}

struct Parts {
    progress: Progress,
    log: Log,
    edges: Edges,
    /// Entries of the log from before it is opened; `None` once it is.
    early: Option<Vec<(&'static str, Value)>>,
}

/// Outputs of a run, and the first entries of the log.
pub struct Opening {
    /// File of edges, if any.
    pub edges: Option<PathBuf>,
    /// File of the log, if any.
    pub path: Option<PathBuf>,
    /// Largest size of one log file, in bytes.
    pub most: Option<u64>,
    /// Entry for the beginning of the run.
    pub begin: Value,
    /// Entries for the lists of start pages.
    pub seeds: Vec<String>,
}

/// A failure of the log, in the form of an observer's error.
#[derive(Debug)]
pub struct Refused(pub Failure);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Refused {}

impl Face {
    /// A face; its log is opened when the run begins.
    pub fn new(flags: &Flags, opening: Opening) -> Face {
        let (log, edges, early) = (Log::none(), Edges::none(), Some(Vec::new()));
        let parts = Parts { progress: Progress::new(flags), log, edges, early };
        Face { flags: *flags, opening, parts: Mutex::new(parts) }
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs an event of the program's own.
    ///
    /// # Errors
    /// The system's error.
    pub fn log(&self, event: &str, what: Value) -> Result<(), Failure> {
        let log = &mut self.parts().log;
        log.event(event, what).and_then(|()| log.flush())
    }

    /// Opens the log, and the file of edges.
    ///
    /// # Errors
    /// The system's error; a file with another ending.
    pub fn begin(&self) -> Result<(), Failure> {
        let Opening { edges, path, most, begin, seeds } = &self.opening;
        let mut log = Log::open(path.as_deref(), *most)?;
        log.event("begin", begin.clone())?;
        for said in seeds {
            log.event("seeds", json!(said))?;
            if self.flags.says() {
                words::say(said);
            }
        }
        let edges = Edges::open(edges.as_deref())?;
        let mut parts = self.parts();
        for (name, what) in parts.early.take().into_iter().flatten() {
            log.event(name, what)?;
        }
        (parts.log, parts.edges) = (log, edges);
        Ok(())
    }

    /// Removes the progress line.
    pub fn clear(&self) {
        self.parts().progress.clear();
    }

    /// Ends the edges of the run.
    ///
    /// # Errors
    /// The system's error.
    pub fn close_edges(&self) -> Result<(), Failure> {
        self.parts().edges.close()
    }
}

impl Face {
    /// Reports an event of a crawl, of a shard if it is one of several.
    ///
    /// # Errors
    /// A failure of the log.
    pub fn event_of(&self, shard: Option<u32>, event: &Event) -> Result<(), BoxError> {
        if let Some(said) = said(event) {
            match shard {
                Some(shard) if shard_of(event).is_none() => words::complain(format_args!("shard {shard}: {said}")),
                _ => words::complain(said),
            }
        }
        if *event == Event::Begun {
            return self.begin().map_err(failed);
        }
        let Some((name, mut what)) = logged(event) else { return Ok(()) };
        if let Some(shard) = shard {
            what = match what {
                Value::Null => json!({ "shard": shard }),
                mut what => {
                    what["shard"] = json!(shard);
                    what
                }
            };
        }
        let mut parts = self.parts();
        if let Some(early) = &mut parts.early {
            early.push((name, what));
            return Ok(());
        }
        parts.log.event(name, what).map_err(failed)?;
        // There may be no commit for a long time.
        if waits(event) { parts.log.flush().map_err(failed) } else { Ok(()) }
    }

    /// Shows the numbers of a crawl in the progress, of a shard if it is one of several.
    ///
    /// # Errors
    /// A failure of the log.
    pub fn look_of(
        &self,
        shard: Option<u32>,
        (tally, frontier, in_flight): (&Tally, &Frontier, usize),
    ) -> Result<(), BoxError> {
        let mut parts = self.parts();
        parts.progress.look(shard, tally, frontier, in_flight);
        parts.log.look().map_err(failed)
    }
}

impl Observer for Face {
    fn event(&self, event: &Event) -> Result<(), BoxError> {
        self.event_of(None, event)
    }

    fn visited(&self, visit: &Visit, new_links: u32) -> Result<(), BoxError> {
        let mut parts = self.parts();
        parts.edges.visit(visit).and_then(|()| parts.log.visit(visit, new_links)).map_err(failed)
    }

    fn committing(&self) -> Result<(), BoxError> {
        self.parts().edges.sync().map_err(failed)
    }

    fn committed(&self) -> Result<(), BoxError> {
        self.parts().log.flush().map_err(failed)
    }

    fn look(&self, tally: &Tally, frontier: &Frontier, in_flight: usize) -> Result<(), BoxError> {
        self.look_of(None, (tally, frontier, in_flight))
    }
}

/// The shard that an event is about, if its message names it.
fn shard_of(event: &Event) -> Option<u32> {
    match event {
        Event::ShardTaken { shard } | Event::ShardKept { shard } | Event::ShardLost { shard } => Some(*shard),
        _ => None,
    }
}

/// Returns whether the crawl waits, or goes on without something, after an event.
fn waits(event: &Event) -> bool {
    use Event::{AskedAgain, Deaf, HeldUp, LinksLater, LowSpace, NoShard, Poisoned, Space};
    matches!(
        event,
        LowSpace { .. }
            | Space { .. }
            | AskedAgain { .. }
            | LinksLater { .. }
            | NoShard { .. }
            | HeldUp { .. }
            | Poisoned { .. }
            | Deaf { .. }
    )
}

/// A failure of the log.
fn failed(failure: Failure) -> BoxError {
    Box::new(Refused(failure))
}

/// Message about an event.
fn said(event: &Event) -> Option<String> {
    Some(match event {
        Event::LowSpace { free_bytes, min_free_bytes } => {
            let (free, floor) = (sizes::print(*free_bytes), sizes::print(*min_free_bytes));
            format!("paused: {free} are free, less than --min-free {floor}")
        }
        Event::Space { .. } => "the disk has space: the crawl continues".to_owned(),
        Event::Patterns { file, patterns: Ok(count) } => {
            format!("{} has changed: {}", file.display(), words::count(*count as u64, "pattern"))
        }
        Event::Patterns { patterns: Err(wrong), .. } => format!("patterns stay as they were: {wrong}"),
        Event::Hosts { file, hosts: Ok(count) } => {
            format!("{} has changed: {}", file.display(), words::count(*count as u64, "host"))
        }
        Event::Hosts { hosts: Err(wrong), .. } => format!("hosts keep their settings: {wrong}"),
        Event::Redirected { from, to } => format!("{from} redirects to {to}: the crawl follows it there"),
        Event::AskedAgain { why, after } => format!("asked again in {} s: {why}", after.as_secs()),
        Event::LinksLater { why, after } => {
            format!("sending links failed: {why}; next try in {:.1} s", after.as_secs_f64())
        }
        Event::ShardTaken { shard } => format!("shard {shard} now belongs to this crawl"),
        Event::NoShard { lease } => {
            format!("no shard is free: the crawl waits until an owner is silent for {} s", lease.as_secs())
        }
        Event::ShardKept { shard } => {
            format!("shard {shard} still belongs to this crawl, besides those of --own: only an administrator frees it")
        }
        Event::ShardLost { shard } => {
            format!("shard {shard} belongs to another crawl or run: its queued pages are handed over")
        }
        Event::HeldUp { why: Some(Pause::Unheard) } => {
            "paused: the mailboxes could not be reached for the time of the lease".to_owned()
        }
        Event::HeldUp { why: Some(Pause::Full) } => "paused: the outbox is full of links".to_owned(),
        Event::HeldUp { why: None } => "the crawl continues".to_owned(),
        Event::Forgotten { request, pages } => format!(
            "the set has forgotten request {request}, or this machine's clock is far behind: {pages} pages are fetched \
             here, whoever else has them"
        ),
        Event::TakenBack { pages } => {
            format!("{} that were refused are tried again", words::count(u64::from(*pages), "page"))
        }
        Event::Poisoned { why } | Event::Deaf { why } => why.clone(),
        _ => return None,
    })
}

/// Number of entries of a file, or what is wrong with it.
fn counted(found: &Result<usize, String>) -> Value {
    match found {
        Ok(count) => json!(count),
        Err(wrong) => json!({ "error": wrong }),
    }
}

/// Log entry of an event.
fn logged(event: &Event) -> Option<(&'static str, Value)> {
    Some(match event {
        Event::Elsewhere { url } => ("elsewhere", json!({ "url": url })),
        Event::HandedOver { url } => ("handed-over", json!({ "url": url })),
        Event::Paused => ("paused", Value::Null),
        Event::Resumed => ("resumed", Value::Null),
        Event::LowSpace { free_bytes, min_free_bytes } => {
            ("paused", json!({ "free_bytes": free_bytes, "min_free_bytes": min_free_bytes }))
        }
        Event::Space { min_free_bytes } => ("resumed", json!({ "free_bytes": null, "min_free_bytes": min_free_bytes })),
        Event::Patterns { file, patterns } => {
            ("patterns", json!({ "file": file.display().to_string(), "patterns": counted(patterns) }))
        }
        Event::Hosts { file, hosts } => {
            ("hosts", json!({ "file": file.display().to_string(), "hosts": counted(hosts) }))
        }
        Event::ShardTaken { shard } => ("shard-taken", json!({ "shard": shard })),
        Event::ShardLost { shard } => ("shard-lost", json!({ "shard": shard })),
        Event::HeldUp { why: Some(Pause::Unheard) } => ("paused", json!({ "why": "no lease" })),
        Event::HeldUp { why: Some(Pause::Full) } => ("paused", json!({ "why": "outbox" })),
        Event::HeldUp { why: None } => ("resumed", Value::Null),
        Event::AskedAgain { why, after } => ("asked-again", json!({ "why": why, "after_s": after.as_secs_f64() })),
        Event::Forgotten { request, pages } => ("forgotten", json!({ "request": request, "pages": pages })),
        Event::LinksLater { why, after } => ("links-later", json!({ "why": why, "after_s": after.as_secs_f64() })),
        Event::NoShard { lease } => ("no-shard", json!({ "lease_s": lease.as_secs_f64() })),
        Event::ShardKept { shard } => ("shard-kept", json!({ "shard": shard })),
        Event::TakenBack { pages } => ("taken-back", json!({ "pages": pages })),
        Event::Poisoned { why } => ("poisoned", json!({ "why": why })),
        Event::Deaf { why } => ("deaf", json!({ "why": why })),
        Event::HookFailed { url, why } => ("hook-failed", json!({ "url": url, "why": why })),
        Event::Redirected { from, to } => ("scope", json!({ "url": from, "redirects_to": to })),
        _ => return None,
    })
}
