//! Progress of a crawl: a redrawn line on a terminal, otherwise a line from time to time. A line
//! that cannot be written is skipped.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crawl::run::Tally;
use fm_cli::{Flags, sizes, words};
use frontier::Frontier;

/// Intervals of the line on a terminal, and of lines elsewhere.
const DRAW: Duration = Duration::from_millis(250);
const LINE: Duration = Duration::from_secs(10);
/// The progress of a run.
pub struct Progress {
    bar: fm_cli::Progress,
    says: bool,
    drawn: Instant,
    said: Instant,
    last: (Instant, u64, u64),
    /// The numbers of each crawl, by its shard; of the only one under `None`.
    crawls: BTreeMap<Option<u32>, Numbers>,
}

/// The numbers of a crawl.
#[derive(Clone, Debug, Default)]
struct Numbers {
    fetched: u64,
    body_bytes: u64,
    queued: u64,
    in_flight: u64,
    hosts: u64,
    /// Free bytes of a disk with too few.
    low_space: Option<u64>,
    /// Failures and limits, in words.
    reasons: String,
}

impl Numbers {
    fn of(tally: &Tally, frontier: &Frontier, in_flight: usize) -> Numbers {
        let stats = frontier.stats();
        Numbers {
            fetched: tally.fetched,
            body_bytes: tally.body_bytes,
            queued: u64::from(stats.queued) + u64::from(stats.due),
            in_flight: in_flight as u64,
            hosts: u64::from(stats.hosts),
            low_space: tally.low_space,
            reasons: tally.reasons_in_words(),
        }
    }

    /// The sum of two crawls', without reasons.
    fn plus(self, other: &Numbers) -> Numbers {
        Numbers {
            fetched: self.fetched + other.fetched,
            body_bytes: self.body_bytes + other.body_bytes,
            queued: self.queued + other.queued,
            in_flight: self.in_flight + other.in_flight,
            hosts: self.hosts + other.hosts,
            low_space: self.low_space.or(other.low_space),
            reasons: String::new(),
        }
    }
}

impl Progress {
    /// Progress of a run that begins now.
    pub fn new(flags: &Flags) -> Progress {
        let bar = fm_cli::Progress::line(flags);
        let now = Instant::now();
        let says = flags.says() && bar.is_hidden();
        Progress { bar, says, drawn: now, said: now, last: (now, 0, 0), crawls: BTreeMap::new() }
    }

    /// Updates the numbers of a crawl, of a shard if it is one of several; prints all of them at
    /// most a few times a second.
    pub fn look(&mut self, shard: Option<u32>, tally: &Tally, frontier: &Frontier, in_flight: usize) {
        let now = Instant::now();
        let draws = !self.bar.is_hidden() && now - self.drawn >= DRAW;
        let says = self.says && now - self.said >= LINE;
        if shard.is_some() || draws || says {
            self.crawls.insert(shard, Numbers::of(tally, frontier, in_flight));
        }
        if draws || says {
            let line = self.line(now);
            self.drawn = now;
            if says {
                self.said = now;
                words::say(line);
            } else {
                self.bar.show(fm_cli::plain(line.as_bytes()));
            }
        }
    }

    fn line(&mut self, now: Instant) -> String {
        let numbers = match self.crawls.values().collect::<Vec<_>>()[..] {
            [only] => only.clone(),
            ref all => all.iter().fold(Numbers::default(), |sum, one| sum.plus(one)),
        };
        let seconds = (now - self.last.0).as_secs_f64().max(1e-3);
        let pages = numbers.fetched.saturating_sub(self.last.1) as f64 / seconds;
        let bytes = numbers.body_bytes.saturating_sub(self.last.2) as f64 / seconds;
        self.last = (now, numbers.fetched, numbers.body_bytes);
        let paused = numbers.low_space.map(|free| format!("paused, {} free; ", sizes::print(free))).unwrap_or_default();
        let shards = if self.crawls.len() > 1 { format!("{} shards, ", self.crawls.len()) } else { String::new() };
        format!(
            "{paused}{shards}{} fetched, {pages:.0} pages/s, {}/s; {} queued, {} in flight, {}{}{}",
            numbers.fetched,
            sizes::print(bytes as u64),
            numbers.queued,
            numbers.in_flight,
            words::count(numbers.hosts, "host"),
            if numbers.reasons.is_empty() { "" } else { "; " },
            numbers.reasons,
        )
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.clear();
    }
}
