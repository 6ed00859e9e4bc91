//! `copy`: a second store that shares nothing with the first: file by file, or page by page without what is dead.

use std::path::PathBuf;

use filemap_core::{BackupOptions, CopyOptions, Store};

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::target;
use crate::verbs::{backup, merge};
use crate::{interrupt, opening, quantity};

/// Copy a store, as it is or without what is dead
#[derive(clap::Args)]
#[command(
    after_help = "Without --compact the files are copied as they are, no byte shared. With --compact a new store is written that\n\
    has every live version, with its time, headers and order, and nothing else. If that is stopped, `merge` goes on.\n\n\
    Example:\n  fm-tool copy pages.fm small.fm --compact --level 19"
)]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The copy's folder, which must be absent or empty
    to: PathBuf,
    /// Write a new store of what lives
    #[arg(long)]
    compact: bool,
    /// Compress every body anew at this level, 1 to 19
    #[arg(long, requires = "compact", value_parser = clap::value_parser!(i32).range(0..=19))]
    level: Option<i32>,
    /// The new store's segment size, 1MiB to 1GiB
    #[arg(long, value_name = "BYTES", requires = "compact", value_parser = quantity::bytes)]
    segment_size: Option<u64>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    if !args.compact {
        let options = BackupOptions { base: None, copy_all: true };
        return backup::back_up(&args.store, &args.to, &options, shared);
    }
    target::refuse_store(target::folder_of(&args.to))?;
    target::refuse_link(&args.to)?;
    let from = opening::engine_to_read(&args.store, shared)?;
    let mut options = opening::options_like(&from, shared);
    if let Some(level) = args.level {
        options = options.compression_level(level);
    }
    if let Some(bytes) = args.segment_size {
        // A large body's chunk must fit.
        options = options.segment_bytes(bytes).large_value_bytes((bytes / 4).clamp(64 << 10, 1 << 20));
    }
    let to = Store::create(&args.to, options)?;
    to.take_rules_of(&from)?;
    filemap::erase::obey(&to)?;
    interrupt::listen();
    let mut out = Output::stdout(shared.json);
    let how = CopyOptions { recompress: args.level.is_some() };
    let outcome = merge::copy(&from, &args.store, &to, &args.to, how, shared, &mut out);
    let closed = to.close();
    let outcome = outcome?;
    closed?;
    out.finish()?;
    Ok(outcome)
}
