//! `stat`: prints sizes and counters of a store, for people, for programs, or for a monitor.
//!
//! Counters belong to a handle, and this program's handle is new, so the text shows levels only;
//! of a server it shows both. The formats for programs have every field, so that their schema is
//! fixed.

mod served;
mod statistics;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use filemap_core::StatValue;
use fm_cli::{Failure, Flags, Outcome, Output, plain, sizes, times};

#[cfg(feature = "cloud")]
use super::in_bucket;
use crate::flags::Shared;
#[cfg(feature = "cloud")]
use crate::stores::bucket;
use crate::stores::{opening, remote, shards};

/// Print sizes and counters
#[derive(clap::Args, Clone)]
#[command(after_help = "Example:\n  fm-tool stat pages.fm --format openmetrics")]
pub struct Args {
    /// The store's folder, a server's address, or an s3:// location
    store: PathBuf,
    /// The format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print again after each period, in seconds or with a unit [default: 1], with rates of change
    #[arg(long, value_name = "PERIOD", num_args = 0..=1, default_missing_value = "1",
        value_parser = watch::period, conflicts_with = "format")]
    watch: Option<Duration>,
    /// Stop after printing this many times
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
}

/// The formats of statistics.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One name and value a line
    Text,
    /// One JSON line
    Json,
    /// The OpenMetrics text format
    Openmetrics,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    if args.format == Format::Openmetrics && shared.flags.json {
        return Err(Failure::Usage(
            "--json and --format openmetrics contradict each other; give one of them".to_owned(),
        ));
    }
    if remote::is_server(&args.store) {
        return of_server(args, shared);
    }
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.store) {
        let why = "the index of a bucket is read once";
        bucket::refuse_flags(location, &[("--watch", args.watch.is_some(), why)])?;
        let (about, fields) = in_bucket::stat::figures(location, shared)?;
        return print(&about, fields, args.format, shared);
    }
    let why = "it is about one store: give the path of each folder";
    let flags =
        [("--watch", args.watch.is_some(), why), ("--format openmetrics", args.format == Format::Openmetrics, why)];
    shards::refuse_flags(&args.store, &flags)?;
    if let Some(members) = shards::checked(&args.store)? {
        // A line of JSON names its folder itself.
        let quiet = shared.flags.quiet || args.format == Format::Json;
        let of_heads = Shared { flags: Flags { quiet, ..shared.flags }, accept_loss: shared.accept_loss };
        return shards::each(&members, &of_heads, |_, store| {
            run(&Args { store: store.to_owned(), ..args.clone() }, shared)
        });
    }
    let store = opening::engine_to_read(&args.store, shared)?;
    if let Some(period) = args.watch {
        return watch::run(&store, period, args.times, shared);
    }
    print(&statistics::about(&store), store.stats().fields(), args.format, shared)
}

fn of_server(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let location = remote::shown(&args.store);
    if args.watch.is_some() {
        let why = "a server's view `/` in a browser, and its `/v1/hour`, have the last hour";
        return Err(Failure::Usage(format!("{location}: --watch needs a local store: {why}")));
    }
    let Some(client) = remote::open(&args.store)? else {
        return Err(Failure::Usage(format!("{location} is not a server's address")));
    };
    let (about, fields) = served::figures(&client, location)?;
    let is_text = args.format == Format::Text && !shared.flags.json;
    print(&about, if is_text { served::shown(fields) } else { fields }, args.format, shared)
}

fn print(
    about: &[(&str, String)],
    fields: Vec<statistics::Field>,
    format: Format,
    shared: &Shared,
) -> Result<Outcome, Failure> {
    let mut out = Output::stdout(shared.flags);
    match format {
        Format::Json => out.json(&statistics::json(about, fields))?,
        Format::Text if shared.flags.json => out.json(&statistics::json(about, fields))?,
        Format::Text => out.bytes(text(about, fields).as_bytes())?,
        Format::Openmetrics => out.bytes(statistics::exposition(fields, about).as_bytes())?,
    }
    out.end(Outcome::Done)
}

fn date(ms: u64) -> String {
    i64::try_from(ms).map_or_else(|_| "?".to_owned(), times::print)
}

/// Levels and texts, without counters, which are those of this program's new handle.
fn text(about: &[(&str, String)], fields: Vec<statistics::Field>) -> String {
    let mut rows: Vec<(&str, String)> = about.to_vec();
    for (name, value, _) in fields {
        match value {
            StatValue::Counter(_) => {}
            StatValue::Gauge(bytes) if name.ends_with("_bytes") && bytes >= 1000 => {
                rows.push((name, format!("{bytes} ({})", sizes::print(bytes))));
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
