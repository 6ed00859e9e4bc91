//! `copy`: a second store that shares no file with the first: copied file by file, page by page
//! without dead records, or to or from another machine.

mod across;

use std::path::{Path, PathBuf};

use filemap_core::Store;
use filemap_core::backup::{BackupOptions, CopyOptions};
use fm_cli::{Failure, Outcome, Output, interrupt, sink, sizes};

use super::{backup, merge};
use crate::flags::Shared;
use crate::stores::{bucket, opening, place, remote, shards};

/// Copy a store, as it is or without dead records
#[derive(clap::Args)]
#[command(
    after_help = "Without --compact the files are copied as they are. With --compact a new store is written with every live version, \
    its time, headers and order, and nothing else. If that is interrupted, `merge` continues it.\n\n\
    To or from object storage, a server or several folders every live version goes with its time, headers, variant and all else, in bounded \
    memory. What the copy has already is counted and not put again, so the same command continues one that was \
    interrupted, and brings what is new; the copy may have its own pages, and what the store has removed since stays in \
    it. What cannot be read or is refused is named and left out; exit code 3. Rules of erasures do not come along.\n\n\
    Examples:\n  fm-tool copy pages.fm small.fm --compact --level 19\n  fm-tool copy pages.fm s3://bucket/pages"
)]
pub struct Args {
    /// The store's folder, a server's address, or a location, s3:// or shards:
    store: PathBuf,
    /// The copy's folder, missing or empty; or a server's address, or a location
    to: PathBuf,
    /// Write a new store of the live versions
    #[arg(long)]
    compact: bool,
    /// Compress every body again at this level, 1 to 19
    #[arg(long, requires = "compact", value_parser = clap::value_parser!(i32).range(0..=19))]
    level: Option<i32>,
    /// Copy a bucket as it is now: a checkpoint keeps its pages until the end. Needs the rights of
    /// a writer
    #[arg(long, conflicts_with = "compact")]
    checkpoint: bool,
    /// The new store's segment size, 1MiB to 1GiB
    #[arg(long, value_name = "SIZE", requires = "compact", value_parser = sizes::parse)]
    segment_size: Option<u64>,
}

impl Args {
    /// Refuses flags that shape the files of a local copy.
    fn refuse_form(&self) -> Result<(), Failure> {
        let flags = [
            ("--compact", self.compact),
            ("--level", self.level.is_some()),
            ("--segment-size", self.segment_size.is_some()),
        ];
        match flags.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) => Err(Failure::Usage(format!(
                "{flag} is for a copy of a folder to a folder: any other has the live versions alone"
            ))),
        }
    }
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let is_folder = |path: &Path| !bucket::is_bucket(path) && !remote::is_server(path) && !shards::is_shards(path);
    if !is_folder(&args.store) || !is_folder(&args.to) {
        return args.refuse_form().and_then(|()| across::run(&args.store, &args.to, args.checkpoint, shared));
    }
    if args.checkpoint {
        return Err(place::no_checkpoint(&args.store));
    }
    if !args.compact {
        let options = BackupOptions::new().copy_all();
        return backup::back_up(&args.store, &args.to, &options, shared);
    }
    remote::refuse(&args.to)?;
    sink::check_new_folder(&args.to)?;
    let from = opening::engine_to_read(&args.store, shared)?;
    let mut options = opening::options_like(&from, shared);
    if let Some(level) = args.level {
        options = options.compression_level(level);
    }
    if let Some(bytes) = args.segment_size {
        // Chunks of a large body must fit into a segment.
        options = options.segment_bytes(bytes).large_value_bytes((bytes / 4).clamp(64 << 10, 1 << 20));
    }
    let to = Store::create(&args.to, options)?;
    to.take_rules_of(&from)?;
    filemap::erase::obey(&to)?;
    interrupt::listen();
    let mut out = Output::stdout(shared.flags);
    let how = args.level.iter().fold(CopyOptions::new(), |how, _| how.recompress());
    let copied = merge::copy((&from, &args.store), (&to, &args.to), how, shared, &mut out);
    let outcome = Outcome::closed(copied, to.close())?;
    out.end(outcome)
}
