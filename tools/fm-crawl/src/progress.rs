//! Progress of a crawl: a redrawn line on a terminal, else a line now and then; and a file for
//! `status`.
//!
//! Nothing here ends a crawl: a line or file that cannot be written is skipped.

use std::time::{Duration, Instant};

use fm_cli::times::now_ms;
use fm_cli::{Flags, fields, sizes, words};
use frontier::{Frontier, HostState};
use serde_json::{Value, json};

use crate::crawl::Tally;
use crate::settings::Folder;
use crate::{files, metrics};

/// Intervals of the line on a terminal, of lines elsewhere, of the file.
const DRAW: Duration = Duration::from_millis(250);
const LINE: Duration = Duration::from_secs(10);
const PUBLISH: Duration = Duration::from_secs(2);
/// Interval at which all hosts are looked at, at least; part of a crawl's time that this may take,
/// for crawls of many; and how many hosts are told of.
const LOOK_AT_HOSTS: Duration = Duration::from_secs(10);
const ONE_IN: u32 = 200;
const HOSTS: usize = 100;

/// Whether a run goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Running,
    Ended,
}

/// The progress of a run.
pub struct Progress {
    bar: fm_cli::Progress,
    says: bool,
    folder: Folder,
    begun: Instant,
    drawn: Instant,
    said: Instant,
    published: Instant,
    /// The hosts with the longest queues, and when they are looked at again.
    hosts: Option<(Instant, Value)>,
    last: (Instant, u64, u64),
}

impl Progress {
    /// Progress of a run that begins now.
    pub fn new(folder: &Folder, flags: &Flags) -> Progress {
        let bar = fm_cli::Progress::line(flags);
        let now = Instant::now();
        let says = flags.says() && bar.is_hidden();
        Progress {
            bar,
            says,
            folder: folder.clone(),
            begun: now,
            drawn: now,
            said: now,
            published: now,
            hosts: None,
            last: (now, 0, 0),
        }
    }

    /// Takes the numbers; prints at most a few times a second.
    pub fn look(&mut self, tally: &Tally, frontier: &Frontier, in_flight: usize) {
        let now = Instant::now();
        let draws = !self.bar.is_hidden() && now - self.drawn >= DRAW;
        let says = self.says && now - self.said >= LINE;
        if draws || says {
            let line = self.line(tally, frontier, in_flight, now);
            self.drawn = now;
            if says {
                self.said = now;
                words::say(line);
            } else {
                self.bar.show(fm_cli::plain(line.as_bytes()));
            }
        }
        if now - self.published >= PUBLISH {
            self.published = now;
            self.publish(tally, frontier, Phase::Running);
        }
    }

    fn line(&mut self, tally: &Tally, frontier: &Frontier, in_flight: usize, now: Instant) -> String {
        let seconds = (now - self.last.0).as_secs_f64().max(1e-3);
        let pages = (tally.fetched - self.last.1) as f64 / seconds;
        let bytes = (tally.body_bytes - self.last.2) as f64 / seconds;
        self.last = (now, tally.fetched, tally.body_bytes);
        let stats = frontier.stats();
        let reasons = tally.reasons_in_words();
        let paused = tally.low_space.map(|free| format!("paused, {} free; ", sizes::print(free))).unwrap_or_default();
        format!(
            "{paused}{} fetched, {pages:.0} pages/s, {}/s; {} queued, {in_flight} in flight, {}{}{reasons}",
            tally.fetched,
            sizes::print(bytes as u64),
            stats.queued + stats.due,
            words::count(u64::from(stats.hosts), "host"),
            if reasons.is_empty() { "" } else { "; " },
        )
    }

    /// Writes the file for `status`.
    pub fn publish(&mut self, tally: &Tally, frontier: &Frontier, phase: Phase) {
        let begun = Instant::now();
        if phase == Phase::Ended || self.hosts.as_ref().is_none_or(|(next, _)| begun >= *next) {
            let hosts = queues(frontier);
            self.hosts = Some((begun + LOOK_AT_HOSTS.max(begun.elapsed() * ONE_IN), hosts));
        }
        let value = json!({
            "time_ms": now_ms(),
            "pid": std::process::id(),
            "is_running": phase == Phase::Running,
            "run_ms": self.begun.elapsed().as_millis() as u64,
            "run": tally.json(),
            "frontier": numbers(frontier),
            "hosts": self.hosts.as_ref().map(|(_, hosts)| hosts),
        });
        let _ = files::publish(self.folder.path(), files::STATUS, value.to_string().as_bytes());
        let text = metrics::text(tally, frontier, phase == Phase::Running);
        let _ = files::publish(self.folder.path(), files::METRICS, text.as_bytes());
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.clear();
    }

    /// How long the run has taken.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// The hosts with the longest queues. A pass over all hosts.
fn queues(frontier: &Frontier) -> Value {
    let mut hosts: Vec<_> = frontier.hosts().collect();
    hosts.sort_by(|a, b| (b.ready, b.pages).cmp(&(a.ready, a.pages)).then_with(|| a.host.cmp(&b.host)));
    let row = |host: &HostState| {
        let failing = host.failing.map(|failing| fields!(failing; since_ms, rests, until_ms));
        fields!(host; host, pages, ready, in_flight, next_at_ms, delay_ms, failing = failing)
    };
    hosts.iter().take(HOSTS).map(row).collect()
}

/// The frontier's numbers.
pub fn numbers(frontier: &Frontier) -> Value {
    let stats = frontier.stats();
    fields!(stats; pages, queued, due, fetched, gone, hosts, fetches, refreshes, failures, memory_bytes, disk_bytes)
}
