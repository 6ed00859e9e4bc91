//! The counts of a run as files in the crawl's folder: for `status`, and as OpenMetrics text.
//!
//! No error here ends a crawl: a file that cannot be written is skipped.

use std::time::{Duration, Instant};

use frontier::{Frontier, HostState};
use serde_json::{Value, json};

use super::metrics;
use super::tally::Tally;
use crate::clock::now_ms;
use crate::files;
use crate::settings::Folder;

/// The interval of writing the files.
const PUBLISH: Duration = Duration::from_secs(2);
/// The minimum interval between passes over all hosts; the fraction of a crawl's time that passes
/// may take, for crawls with many hosts; and the number of hosts reported.
const LOOK_AT_HOSTS: Duration = Duration::from_secs(10);
const ONE_IN: u32 = 200;
const HOSTS: usize = 100;

/// Phase of a run.
///
/// ```
/// use crawl::run::{Tally, status::{Phase, Status}};
/// use crawl::settings::{Folder, Settings};
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("frontier");
/// # let frontier = frontier::Frontier::create(&path, frontier::FrontierOptions::new())?;
/// let folder = Folder::of(&place.path().join("pages.fm"));
/// folder.keep(&Settings::new(0))?;
/// Status::new(&folder).publish(&Tally::default(), &frontier, Phase::Ended);
/// let text = std::fs::read_to_string(folder.join(crawl::files::STATUS))?;
/// assert!(text.contains("\"is_running\":false"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is active.
    Running,
    /// It has ended.
    Ended,
}

/// Writes the counts of a run.
///
/// ```
/// use crawl::run::{Tally, status::{Phase, Status}};
/// use crawl::settings::{Folder, Settings};
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("frontier");
/// # let mut frontier = frontier::Frontier::create(&path, frontier::FrontierOptions::new())?;
/// # let folder = Folder::of(&place.path().join("pages.fm"));
/// # folder.keep(&Settings::new(0))?;
/// frontier.seed(&["http://example.com/"], 0)?;
/// Status::new(&folder).publish(&Tally::default(), &frontier, Phase::Running);
/// let text = std::fs::read_to_string(folder.join(crawl::files::STATUS))?;
/// assert_eq!(serde_json::from_str::<serde_json::Value>(&text)?["frontier"]["queued"], 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Status {
    folder: Folder,
    begun: Instant,
    published: Instant,
    /// The hosts with the longest queues, and the time of the next pass over hosts.
    hosts: Option<(Instant, Value)>,
}

impl Status {
    /// The status of a run that begins now.
    pub fn new(folder: &Folder) -> Status {
        let now = Instant::now();
        Status { folder: folder.clone(), begun: now, published: now, hosts: None }
    }

    /// Takes the counts; writes them every two seconds.
    pub fn look(&mut self, tally: &Tally, frontier: &Frontier) {
        if self.published.elapsed() >= PUBLISH {
            self.published = Instant::now();
            self.publish(tally, frontier, Phase::Running);
        }
    }

    /// The time since the start of the run.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Writes the files.
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
}

/// The hosts with the longest queues. A pass over all hosts.
fn queues(frontier: &Frontier) -> Value {
    let mut hosts: Vec<_> = frontier.hosts().collect();
    hosts.sort_by(|a, b| (b.ready, b.pages).cmp(&(a.ready, a.pages)).then_with(|| a.host.cmp(&b.host)));
    let row = |host: &HostState| {
        let failing = host.failing.map(
            |failing| json!({ "since_ms": failing.since_ms, "rests": failing.rests, "until_ms": failing.until_ms }),
        );
        json!({
            "host": host.host, "pages": host.pages, "ready": host.ready, "in_flight": host.in_flight,
            "next_at_ms": host.next_at_ms, "delay_ms": host.delay_ms, "failing": failing,
        })
    };
    hosts.iter().take(HOSTS).map(row).collect()
}

/// The frontier's counts.
pub fn numbers(frontier: &Frontier) -> Value {
    let stats = frontier.stats();
    json!({
        "pages": stats.pages, "queued": stats.queued, "due": stats.due, "fetched": stats.fetched, "gone": stats.gone,
        "hosts": stats.hosts, "fetches": stats.fetches, "refreshes": stats.refreshes, "failures": stats.failures,
        "memory_bytes": stats.memory_bytes, "disk_bytes": stats.disk_bytes,
    })
}
