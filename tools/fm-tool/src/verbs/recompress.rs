//! `recompress`: compresses all pages again at a higher level, with the current dictionaries.

use std::path::PathBuf;

use fm_cli::{Failure, Outcome, Output, fields, sizes};

use super::compact;
#[cfg(feature = "cloud")]
use super::in_bucket;
use crate::flags::Shared;
#[cfg(feature = "cloud")]
use crate::stores::bucket;
use crate::stores::{opening, shards};

/// Compress all pages again with the current dictionaries
#[derive(clap::Args, Clone)]
#[command(
    after_help = "Takes as long as compressing every page on one core, and needs free space of about one segment. Segments that are \
    done are skipped, so that an interrupted run continues where it was. In object storage they are read, and stay.\n\n\
    Examples:\n  fm-tool recompress pages.fm --try\n  fm-tool recompress pages.fm --level 12"
)]
pub struct Args {
    /// The store's folder, or an s3:// location
    store: PathBuf,
    /// zstd level, 1 to 19
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(i32).range(1..=19))]
    level: i32,
    /// Change nothing: print what a sample of the pages would gain
    #[arg(long = "try")]
    only_try: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.store) {
        bucket::refuse_flags(location, &[("--try", args.only_try, "a bucket takes no sample")])?;
        return in_bucket::recompress::run(location, args.level, shared);
    }
    if let Some(members) = shards::checked(&args.store)? {
        return shards::each(&members, shared, |_, store| {
            run(&Args { store: store.to_owned(), ..args.clone() }, shared)
        });
    }
    let mut out = Output::stdout(shared.flags);
    if args.only_try {
        let store = opening::engine_to_plan(&args.store, shared)?;
        let e = store.try_recompression(args.level)?;
        if out.is_json() {
            out.json(&fields!(e;
                level = args.level, records, shorter_records, body_bytes, stored_bytes,
                recompressed_bytes = e.recompressed_stored_bytes,
            ))?;
        } else {
            let share = e.recompressed_stored_bytes as f64 / e.stored_bytes.max(1) as f64;
            let (now, then) = (sizes::print(e.stored_bytes), sizes::print(e.recompressed_stored_bytes));
            out.line(format!("{} records sampled: {now} now, {then} then ({share:.2})", e.records))?;
        }
        return out.end(Outcome::Done);
    }
    let store = opening::local_to_change(&args.store, shared)?;
    let before = store.engine().stats().value_bytes;
    let done = store.engine().recompress(args.level)?;
    let after = store.engine().stats().value_bytes;
    store.close()?;
    let seconds = done.elapsed.as_secs_f64();
    let line = fields!(done;
        level = args.level, value_bytes_before = before, value_bytes = after, copied_bytes, removed_segments,
        stuck_segments, unexpanded_records, seconds = seconds,
    );
    out.report(&line, format_args!("{} before, {} now, in {seconds:.1} s", sizes::print(before), sizes::print(after)))?;
    out.end(compact::stuck(&done))
}
