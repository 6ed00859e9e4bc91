//! Progress of a crawl: a redrawn line on a terminal, otherwise a line from time to time. A line
//! that cannot be written is skipped.

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
}

impl Progress {
    /// Progress of a run that begins now.
    pub fn new(flags: &Flags) -> Progress {
        let bar = fm_cli::Progress::line(flags);
        let now = Instant::now();
        let says = flags.says() && bar.is_hidden();
        Progress { bar, says, drawn: now, said: now, last: (now, 0, 0) }
    }

    /// Updates the numbers; prints at most a few times a second.
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

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.clear();
    }
}
