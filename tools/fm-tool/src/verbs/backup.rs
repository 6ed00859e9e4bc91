//! `backup`: a copy of a store, made while another process may write it; immutable segments are
//! shared.

use std::path::{Path, PathBuf};

use filemap_core::Error;
use filemap_core::backup::{BackedUp, BackupOptions};
use fm_cli::words::count;
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, sink, sizes};

use crate::flags::Shared;
use crate::stores::{bucket, opening, remote, shards};

/// Back up a store, even while it is being written
#[derive(clap::Args)]
#[command(
    after_help = "The backup is an ordinary store. On the same file system it shares immutable segments with the store by hard links, \
    which takes no space and no time; on another one it shares them with --base, an earlier backup there. Shared \
    files do not survive a failing disk: keep one backup on another disk. The store is not changed or locked.\n\n\
    A store over several folders is backed up to as many, each of its own moment: `shards:/backup/a.fm,/backup/b.fm`.\n\n\
    Example:\n  fm-tool backup pages.fm /backup/monday.fm --base /backup/sunday.fm"
)]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The backup's folder, missing or empty
    to: PathBuf,
    /// An earlier backup of the store to share segments with
    #[arg(long, value_name = "BACKUP")]
    base: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let options = |base: Option<&PathBuf>| base.into_iter().fold(BackupOptions::new(), BackupOptions::base);
    let Some(members) = shards::checked(&args.store)? else {
        return back_up(&args.store, &args.to, &options(args.base.as_ref()), shared);
    };
    let as_many = |path: &Path, what: &str| {
        let folders = shards::members(path)?.filter(|folders| folders.len() == members.len());
        folders.ok_or_else(|| {
            let (path, members) = (path.display(), members.len());
            Failure::Usage(format!("{path}: {what} of a store over {members} folders is as many: `shards:A,B`"))
        })
    };
    let (to, bases) = (as_many(&args.to, "the backup")?, args.base.as_deref().map(|base| as_many(base, "--base")));
    let bases = bases.transpose()?;
    to.iter().try_for_each(|to| sink::check_new_folder(to))?;
    shards::each(&members, shared, |number, member| {
        let base = bases.as_ref().map(|bases| &bases[number]);
        back_up(member, &to[number], &options(base), shared)
    })
}

/// Makes a backup and shows its progress.
pub fn back_up(from: &Path, to: &Path, options: &BackupOptions, shared: &Shared) -> Result<Outcome, Failure> {
    for path in [from, to] {
        let words = "a backup shares files with its store, and a bucket has none: `fm-tool copy FROM TO` makes a second store \
                     in a bucket, or of one";
        bucket::refuse_as(path, words)?;
    }
    remote::refuse(to)?;
    sink::check_new_folder(to)?;
    let store = opening::engine_to_read(from, shared)?;
    interrupt::listen();
    let bar = Progress::bytes(&shared.flags);
    let done = store.backup(to, options, &mut |progress| {
        bar.at(progress.done_bytes, progress.total_bytes, || progress.file.clone());
        interrupt::go_on()
    });
    drop(bar);
    let done = match done {
        Err(Error::Cancelled) => return Ok(interrupt::stopped("no backup was made; start again")),
        done => done?,
    };
    let mut out = Output::stdout(shared.flags);
    tell(&done, to, &mut out)?;
    out.end(Outcome::Done)
}

fn tell(done: &BackedUp, to: &Path, out: &mut Output) -> Result<(), Failure> {
    let line = fields!(done; files, bytes, linked_bytes, reused_bytes, copied_bytes);
    let words = format_args!(
        "{} in {}: {} shared with the store, {} with the earlier backup, {} copied",
        to.display(),
        count(done.files, "file"),
        sizes::print(done.linked_bytes),
        sizes::print(done.reused_bytes),
        sizes::print(done.copied_bytes),
    );
    out.report(&line, words)
}
