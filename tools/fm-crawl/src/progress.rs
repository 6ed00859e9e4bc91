//! How far a crawl is: a line on the terminal, redrawn; a line now and then where there is none; a file for `status`.
//!
//! Nothing here may end a crawl: a line or a file that cannot be written is left out.

use std::fs;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use frontier::Frontier;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::clock::now_ms;
use crate::crawl::tally::Tally;
use crate::settings::Folder;
use crate::words;

/// The file for `status`.
pub const NAME: &str = "status.json";
/// Between two looks on a terminal, two lines where there is none, two files.
const DRAW: Duration = Duration::from_millis(250);
const LINE: Duration = Duration::from_secs(10);
const PUBLISH: Duration = Duration::from_secs(2);

/// What shows a run's progress.
pub struct Progress {
    bar: ProgressBar,
    says: bool,
    folder: Folder,
    begun: Instant,
    drawn: Instant,
    said: Instant,
    published: Instant,
    last: (Instant, u64, u64),
}

impl Progress {
    /// Progress of a run that begins now, with words or without.
    pub fn new(folder: &Folder, is_quiet: bool) -> Progress {
        let on_terminal = !is_quiet && std::io::stderr().is_terminal();
        let target = if on_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        let now = Instant::now();
        let says = !is_quiet && !on_terminal;
        Progress {
            bar,
            says,
            folder: folder.clone(),
            begun: now,
            drawn: now,
            said: now,
            published: now,
            last: (now, 0, 0),
        }
    }

    /// Looks at the numbers; does something a few times a second at most.
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
                self.bar.set_message(terminal::plain(line.as_bytes()));
                self.bar.tick();
            }
        }
        if now - self.published >= PUBLISH {
            self.published = now;
            self.publish(tally, frontier, true);
        }
    }

    fn line(&mut self, tally: &Tally, frontier: &Frontier, in_flight: usize, now: Instant) -> String {
        let seconds = (now - self.last.0).as_secs_f64().max(1e-3);
        let pages = (tally.fetched - self.last.1) as f64 / seconds;
        let bytes = (tally.body_bytes - self.last.2) as f64 / seconds;
        self.last = (now, tally.fetched, tally.body_bytes);
        let stats = frontier.stats();
        let reasons = tally.reasons_in_words();
        format!(
            "{} fetched, {pages:.0} pages/s, {}/s; {} queued, {in_flight} in flight, {}{}{reasons}",
            tally.fetched,
            words::size(bytes as u64),
            stats.queued + stats.due,
            words::count(u64::from(stats.hosts), "host"),
            if reasons.is_empty() { "" } else { "; " },
        )
    }

    /// Writes the file for `status`.
    pub fn publish(&self, tally: &Tally, frontier: &Frontier, is_running: bool) {
        let value = json!({
            "time_ms": now_ms(),
            "pid": std::process::id(),
            "is_running": is_running,
            "run_ms": self.begun.elapsed().as_millis() as u64,
            "run": tally.json(),
            "frontier": numbers(frontier),
        });
        let (path, new) = (self.folder.join(NAME), self.folder.join("status.json.new"));
        let written =
            terminal::sink::create_anew(&new).and_then(|mut file| file.write_all(value.to_string().as_bytes()));
        let _ = written.and_then(|()| fs::rename(&new, &path));
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// How long the run has taken.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// The frontier's numbers.
pub fn numbers(frontier: &Frontier) -> Value {
    let stats = frontier.stats();
    json!({
        "pages": stats.pages,
        "queued": stats.queued,
        "due": stats.due,
        "fetched": stats.fetched,
        "gone": stats.gone,
        "hosts": stats.hosts,
        "fetches": stats.fetches,
        "refreshes": stats.refreshes,
        "failures": stats.failures,
        "memory_bytes": stats.memory_bytes,
        "disk_bytes": stats.disk_bytes,
    })
}
