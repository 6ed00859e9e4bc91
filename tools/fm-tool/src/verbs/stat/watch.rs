//! `stat --watch`: prints the levels of a store periodically, with their rates of change.
//!
//! A follower reads the store while another process writes it. The counters are known to the
//! writer only, so the rates are those of levels that every put changes: the sequence, the length
//! of the value log, the keys.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use filemap_core::{StatValue, Stats, Store};
use fm_cli::{Failure, Outcome, Output, interrupt, plain, sizes, times};
use serde_json::Value;

use super::statistics;
use crate::flags::Shared;

/// The longest sleep before an interruption is noticed.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Levels that have a rate, with the rate's name.
const RATES: [(&str, &str); 5] = [
    ("last_sequence", "records_per_s"),
    ("indexed_keys", "indexed_keys_per_s"),
    ("value_bytes", "value_bytes_per_s"),
    ("key_bytes", "key_bytes_per_s"),
    ("disk_bytes", "disk_bytes_per_s"),
];

/// Levels of this program's own handle, rather than of the store.
const OWN: [&str; 4] = ["memtable_entries", "memtable_bytes", "directory_bytes", "longest_put_us"];

/// Reads the period: seconds, or a length of time with its unit.
pub fn period(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().or_else(|| times::duration(text).ok().map(|period| period.as_secs_f64()));
    let seconds = seconds.filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        format!(
            "`{text}` is not a period of 0.01 s to a day; write for example 5 or 500ms. Give the store before --watch"
        )
    })
}

/// Prints the levels every `period`, `times` times or until interrupted.
pub fn run(store: &Store, period: Duration, times: Option<u64>, shared: &Shared) -> Result<Outcome, Failure> {
    interrupt::listen();
    let mut out = Output::stdout(shared.flags);
    let mut before: Option<(Instant, Stats)> = None;
    let mut lines = 0;
    let mut tick = 0_u64;
    loop {
        store.refresh()?;
        let (now, stats) = (Instant::now(), store.stats());
        let rates = before.as_ref().map_or(Vec::new(), |(then, old)| rates(old, &stats, now - *then));
        if out.is_json() {
            let Value::Object(mut line) = statistics::json(&statistics::about(store), stats.fields()) else {
                return Ok(Outcome::Done);
            };
            for (name, rate) in &rates {
                line.insert((*name).to_owned(), Value::from((rate * 10.0).round() / 10.0));
            }
            out.json(&Value::Object(line))?;
        } else {
            let text = text(store, &stats, &rates);
            if io::stdout().is_terminal() && tick > 0 {
                // Moves to the first line of the last output, and clears from there.
                out.bytes(format!("\x1b[{lines}F\x1b[J").as_bytes())?;
            } else if tick > 0 {
                out.line("")?;
            }
            lines = text.lines().count();
            out.bytes(text.as_bytes())?;
        }
        out.flush()?;
        tick += 1;
        before = Some((now, stats));
        if times.is_some_and(|times| tick >= times) {
            return out.end(Outcome::Done);
        }
        let until = now + period;
        while !interrupt::asked() && Instant::now() < until {
            std::thread::sleep(until.saturating_duration_since(Instant::now()).min(LOOK_UP));
        }
        if interrupt::asked() {
            out.finish()?;
            return Ok(interrupt::stopped("no longer watching"));
        }
    }
}

fn levels(stats: &Stats) -> impl Iterator<Item = (&'static str, u64)> {
    let level = |(name, value, _)| if let StatValue::Gauge(level) = value { Some((name, level)) } else { None };
    stats.fields().into_iter().filter_map(level)
}

/// Changes per second; they may be negative.
fn rates(old: &Stats, new: &Stats, passed: Duration) -> Vec<(&'static str, f64)> {
    let of = |stats: &Stats, name: &str| levels(stats).find(|(n, _)| *n == name).map_or(0, |(_, level)| level);
    let seconds = passed.as_secs_f64().max(1e-6);
    let rate = |(level, rate): (&str, &'static str)| (rate, (of(new, level) as f64 - of(old, level) as f64) / seconds);
    RATES.into_iter().map(rate).collect()
}

/// The levels, a line each, with their rates; lines fit a narrow terminal.
fn text(store: &Store, stats: &Stats, rates: &[(&'static str, f64)]) -> String {
    let mut text = format!("{}\n", plain(store.path().display().to_string().as_bytes()));
    for (name, level) in levels(stats).filter(|(name, _)| !OWN.contains(name)) {
        let is_bytes = name.ends_with("_bytes");
        let level = if is_bytes { sizes::print(level) } else { level.to_string() };
        let rate_name = RATES.iter().find(|(level, _)| *level == name).map(|(_, rate)| *rate);
        let rate = rates.iter().find(|(rate, _)| Some(*rate) == rate_name).map(|(_, rate)| *rate);
        let rate = rate.map_or(String::new(), |rate| {
            let sign = if rate < 0.0 { "-" } else { "+" };
            let rate = rate.abs().round() as u64;
            format!("{sign}{}/s", if is_bytes { sizes::print(rate) } else { rate.to_string() })
        });
        text.push_str(format!("{name:18} {level:>14} {rate:>14}").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_changes_a_second_and_may_be_falls() {
        let mut old = Stats::default();
        (old.last_sequence, old.value_bytes, old.disk_bytes) = (100, 1000, 5000);
        let mut new = Stats::default();
        (new.last_sequence, new.value_bytes, new.disk_bytes) = (300, 5000, 1000);
        let rates = rates(&old, &new, Duration::from_secs(2));
        assert_eq!(rates[0], ("records_per_s", 100.0));
        assert_eq!(rates[2], ("value_bytes_per_s", 2000.0));
        assert_eq!(rates[4], ("disk_bytes_per_s", -2000.0));
        for (level, _) in RATES {
            assert!(levels(&new).any(|(name, _)| name == level), "{level}");
        }
    }

    #[test]
    fn a_period_is_between_a_hundredth_of_a_second_and_a_day() {
        for text in ["0.5", "500ms", "0.5s"] {
            assert_eq!(period(text), Ok(Duration::from_millis(500)), "{text}");
        }
        for bad in ["", "0", "-1", "nan", "inf", "86401", "1ms", "2d"] {
            assert!(period(bad).is_err(), "{bad}");
        }
    }
}
