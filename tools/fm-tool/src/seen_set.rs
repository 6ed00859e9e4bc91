//! How the verbs of `seen` get their set, and agree with it on what a URL's canonical form is.
//!
//! Invariants: only `create` makes a set; a set is never given keys of two canonicalisers; whoever only asks takes no lock.

use std::io;
use std::path::Path;
use std::sync::Arc;

use urlindex::{Canonicalizer, DiskOptions, Error, SetKind, StoredSet};

use crate::canonical::{self, Canonical};
use crate::outcome::Failure;
use crate::quantity;

/// The option that chooses a canonicaliser for a set that is there.
#[derive(clap::Args)]
pub struct CanonicalArg {
    /// What makes URLs canonical, for a set that does not say so itself: whatwg, crawl, surt or exact, with rules switched as in
    /// crawl,+www,-tracking. A set that says another is refused
    #[arg(long, value_name = "RULES", value_parser = Canonical::parse)]
    pub canonical: Option<Canonical>,
}

/// How much memory a set on disk is to have.
#[derive(clap::Args)]
pub struct MemoryArg {
    /// Of a set on disk: memory for what was added lately, for popular URLs and for filters; some megabytes come on top [default: 256MiB]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    pub memory: Option<u64>,
}

impl MemoryArg {
    fn options(&self) -> DiskOptions {
        self.memory.into_iter().fold(DiskOptions::new(), DiskOptions::memory_bytes)
    }

    /// Refuses it for sets that have no such choice.
    fn check(&self, set: StoredSet) -> Result<StoredSet, Failure> {
        if self.memory.is_some() && set.kind() != SetKind::Disk {
            let kind = set.kind().name();
            return Err(Failure::Usage(format!("--memory says nothing of a set of the kind {kind}; leave it out")));
        }
        Ok(set)
    }
}

/// A set to change.
pub fn to_change(path: &Path) -> Result<StoredSet, Failure> {
    to_change_within(path, &MemoryArg { memory: None })
}

/// As [`to_change`], with as much memory as was asked for.
pub fn to_change_within(path: &Path, memory: &MemoryArg) -> Result<StoredSet, Failure> {
    check_path(path)?;
    memory.check(StoredSet::open_with(path, memory.options()).map_err(|error| failure(path, error))?)
}

/// A set to read, while another process may change it.
pub fn to_read(path: &Path) -> Result<StoredSet, Failure> {
    to_read_within(path, &MemoryArg { memory: None })
}

/// As [`to_read`], with as much memory as was asked for.
pub fn to_read_within(path: &Path, memory: &MemoryArg) -> Result<StoredSet, Failure> {
    check_path(path)?;
    memory.check(StoredSet::open_read_only_with(path, memory.options()).map_err(|error| failure(path, error))?)
}

fn check_path(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::Io(format!("{} is a folder; a seen set is a file", path.display())));
    }
    Ok(())
}

/// An error of the set at this path: it says more than the file's name.
pub fn failure(path: &Path, error: Error) -> Failure {
    let shown = path.display();
    match &error {
        Error::Io { op, source, .. } if op.starts_with("open") && source.kind() == io::ErrorKind::NotFound => {
            Failure::Io(format!("there is no seen set {shown}; `fm-tool seen create` makes one"))
        }
        Error::Io { op: "create", file, source } if source.kind() == io::ErrorKind::AlreadyExists => {
            let place = path.with_file_name(file);
            Failure::Io(format!("{} is there already; nothing was made", place.display()))
        }
        Error::NotASet { .. } => Failure::Io(format!(
            "{shown}: {error}; bare words of an MD5 bitmap are taken up with `fm-tool seen create --adopt`"
        )),
        _ => match Failure::from(error) {
            Failure::Usage(words) => Failure::Usage(format!("{shown}: {words}")),
            Failure::Io(words) => Failure::Io(format!("{shown}: {words}")),
            Failure::Full(words) => Failure::Full(format!("{shown}: {words}")),
            Failure::Damage(words) => Failure::Damage(format!("{shown}: {words}")),
            Failure::Locked(words) => Failure::Locked(format!("{shown}: {words}")),
            Failure::PipeClosed => Failure::PipeClosed,
        },
    }
}

/// What the set says of its URLs, or what was asked for where it says nothing.
pub fn canonicalizer(
    set: &StoredSet,
    path: &Path,
    asked: Option<&Canonical>,
) -> Result<Arc<dyn Canonicalizer>, Failure> {
    let noted = set.canonicalizer().map_err(|error| failure(path, error))?;
    let asked = asked.map(Canonical::canonicalizer);
    match (noted, asked) {
        (Some(noted), None) => Ok(noted),
        (None, Some(asked)) => Ok(asked),
        (None, None) => Err(Failure::Usage(format!(
            "{} does not say by which rules its URLs were made canonical; say it with --canonical",
            path.display()
        ))),
        (Some(noted), Some(asked)) if is_same(&*noted, &*asked) => Ok(noted),
        (Some(noted), Some(asked)) => Err(Failure::Usage(format!(
            "the URLs of {} were made canonical by `{}`; with `{}` it would call URLs new that it has. Leave --canonical out",
            path.display(),
            canonical::words(&*noted),
            canonical::words(&*asked)
        ))),
    }
}

/// As [`canonicalizer`], for whoever is going to change the set: it says so itself from then on.
pub fn noted_canonicalizer(
    set: &StoredSet,
    path: &Path,
    asked: Option<&Canonical>,
) -> Result<Arc<dyn Canonicalizer>, Failure> {
    let canonicalizer = canonicalizer(set, path, asked)?;
    if set.canonicalizer().map_err(|error| failure(path, error))?.is_none() {
        set.note_canonicalizer(&*canonicalizer).map_err(|error| failure(path, error))?;
    }
    Ok(canonicalizer)
}

/// Whether two give the same keys.
pub fn is_same(a: &dyn Canonicalizer, b: &dyn Canonicalizer) -> bool {
    (a.name(), a.version()) == (b.name(), b.version())
}
