//! `stat`: sizes and counters of a store, for people, for programs, or for a monitor.
//!
//! A store's counters belong to the handle that counts, and this program's own has only just been opened: what tells
//! something here are the levels. The forms for programs have every field all the same, so that they have one schema.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use filemap_core::{StatValue, Stats, Store};
use serde_json::{Map, Value};

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::verbs::watch;
use crate::{opening, openmetrics, time, words};
use terminal::plain;

/// Print sizes and counters
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-tool stat pages.fm --format openmetrics")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print again every so many seconds [default: 1], with what changes a second
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
        value_parser = watch::period, conflicts_with = "format")]
    watch: Option<Duration>,
    /// Stop watching after so many times
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
}

/// The forms in which statistics are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A name and a value a line
    Text,
    /// One JSON line
    Json,
    /// The OpenMetrics text format, for a monitor
    Openmetrics,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    if args.format == Format::Openmetrics && shared.json {
        return Err(Failure::Usage(
            "--json and --format openmetrics contradict each other; give one of them".to_owned(),
        ));
    }
    let store = opening::engine_to_read(&args.store, shared)?;
    if let Some(period) = args.watch {
        return watch::run(&store, period, args.times, shared);
    }
    let stats = store.stats();
    let about = about(&store);
    let mut out = Output::stdout(shared.json);
    match args.format {
        Format::Json => out.json(&json(&about, &stats))?,
        Format::Text if shared.json => out.json(&json(&about, &stats))?,
        Format::Text => out.bytes(text(&about, &stats).as_bytes())?,
        Format::Openmetrics => out.bytes(openmetrics::exposition(&stats, &about).as_bytes())?,
    }
    out.finish()?;
    Ok(Outcome::Done)
}

/// What the store is.
pub fn about(store: &Store) -> [(&'static str, String); 2] {
    [("path", store.path().display().to_string()), ("canonicalizer", store.canonicalizer().to_string())]
}

/// All fields, as one JSON object.
pub fn json(about: &[(&str, String)], stats: &Stats) -> Value {
    let mut line: Map<String, Value> =
        about.iter().map(|(name, text)| ((*name).to_owned(), Value::from(text.as_str()))).collect();
    for (name, value, _) in stats.fields() {
        let value = match value {
            StatValue::Counter(number) | StatValue::Gauge(number) => Value::from(number),
            StatValue::Text(text) => Value::from(text),
        };
        line.insert(name.to_owned(), value);
    }
    Value::Object(line)
}

fn date(ms: u64) -> String {
    i64::try_from(ms).map_or_else(|_| "?".to_owned(), time::print)
}

/// The levels and texts. Counters are left out: they are those of this program's own handle, opened a moment ago.
fn text(about: &[(&str, String)], stats: &Stats) -> String {
    let mut rows: Vec<(&str, String)> = about.to_vec();
    for (name, value, _) in stats.fields() {
        match value {
            StatValue::Counter(_) => {}
            StatValue::Gauge(bytes) if name.ends_with("_bytes") && bytes >= 1000 => {
                rows.push((name, format!("{bytes} ({})", words::size(bytes))));
            }
            StatValue::Gauge(0) if name.ends_with("_ms") => rows.push((name, "never".to_owned())),
            StatValue::Gauge(ms) if name.ends_with("_ms") => rows.push((name, format!("{ms} ({})", date(ms)))),
            StatValue::Gauge(number) => rows.push((name, number.to_string())),
            StatValue::Text(text) => rows.push((name, if text.is_empty() { "-".to_owned() } else { text })),
        }
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {}\n", plain(value.as_bytes()))).collect()
}
