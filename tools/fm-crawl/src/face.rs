//! What a running crawl tells, as people see it: messages, the progress, the crawl log, and edges.

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

/// Who is told of the crawl.
pub struct Face {
    flags: Flags,
    opening: Opening,
    parts: Mutex<Parts>,
}

struct Parts {
    progress: Progress,
    log: Log,
    edges: Edges,
}

/// What is written of a run, and what the log begins with.
pub struct Opening {
    /// Where edges go, if anywhere.
    pub edges: Option<PathBuf>,
    /// Where the log is, if there is to be one.
    pub path: Option<PathBuf>,
    /// Most bytes of one file.
    pub most: Option<u64>,
    /// What it says of the run.
    pub begin: Value,
    /// What it says of lists of start pages.
    pub seeds: Vec<String>,
}

/// A failure of the log, as an observer has it.
#[derive(Debug)]
pub struct Refused(pub Failure);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Refused {}

impl Face {
    /// A face, whose log is opened when the run begins.
    pub fn new(flags: &Flags, opening: Opening) -> Face {
        let parts = Parts { progress: Progress::new(flags), log: Log::none(), edges: Edges::none() };
        Face { flags: *flags, opening, parts: Mutex::new(parts) }
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs an event of the program's own.
    ///
    /// # Errors
    /// The system's.
    pub fn log(&self, event: &str, what: Value) -> Result<(), Failure> {
        let log = &mut self.parts().log;
        log.event(event, what).and_then(|()| log.flush())
    }

    /// Opens the log.
    fn begin(&self) -> Result<(), Failure> {
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
        (parts.log, parts.edges) = (log, edges);
        Ok(())
    }

    /// Removes the line of the progress.
    pub fn clear(&self) {
        self.parts().progress.clear();
    }

    /// Ends the edges of the run.
    ///
    /// # Errors
    /// The system's.
    pub fn close_edges(&self) -> Result<(), Failure> {
        self.parts().edges.close()
    }
}

impl Observer for Face {
    fn event(&self, event: &Event) -> Result<(), BoxError> {
        if let Some(said) = said(event) {
            words::complain(said);
        }
        if *event == Event::Begun {
            return self.begin().map_err(failed);
        }
        let Some((name, what)) = logged(event) else { return Ok(()) };
        let log = &mut self.parts().log;
        log.event(name, what).map_err(failed)?;
        match event {
            // Nothing may be committed for long.
            Event::LowSpace { .. } | Event::Space { .. } => log.flush().map_err(failed),
            _ => Ok(()),
        }
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
        let mut parts = self.parts();
        parts.progress.look(tally, frontier, in_flight);
        parts.log.look().map_err(failed)
    }
}

/// A failure of the log.
fn failed(failure: Failure) -> BoxError {
    Box::new(Refused(failure))
}

/// What is said of an event.
fn said(event: &Event) -> Option<String> {
    Some(match event {
        Event::LowSpace { free_bytes, min_free_bytes } => {
            let (free, floor) = (sizes::print(*free_bytes), sizes::print(*min_free_bytes));
            format!("paused: {free} are free, less than --min-free {floor}")
        }
        Event::Space { .. } => "there is room on the disk: the crawl goes on".to_owned(),
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
        Event::ShardTaken { shard } => format!("shard {shard} was free, and is this crawl's"),
        Event::ShardKept { shard } => {
            format!("shard {shard} stays this crawl's, beside those of --own: only an administrator frees it")
        }
        Event::ShardLost { shard } => {
            format!("shard {shard} is another crawl's, or another run's: what is queued of it is handed over")
        }
        Event::HeldUp { why: Some(Pause::Unheard) } => {
            "paused: the mailboxes were not reached for the time of the lease".to_owned()
        }
        Event::HeldUp { why: Some(Pause::Full) } => "paused: the outbox is full of links".to_owned(),
        Event::HeldUp { why: None } => "the crawl goes on".to_owned(),
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

/// How many a file has, or what is wrong with it.
fn counted(found: &Result<usize, String>) -> Value {
    match found {
        Ok(count) => json!(count),
        Err(wrong) => json!({ "error": wrong }),
    }
}

/// What the log says of an event.
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
        Event::HookFailed { url, why } => ("hook-failed", json!({ "url": url, "why": why })),
        Event::Redirected { from, to } => ("scope", json!({ "url": from, "redirects_to": to })),
        _ => return None,
    })
}
