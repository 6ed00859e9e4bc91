//! Opens sets for the verbs of `seen`, and checks the canonicaliser of their URLs.
//!
//! Invariants: only `create` makes a set; a set never gets keys of two canonicalisers; reading
//! takes no lock.

use std::io;
use std::path::Path;
use std::sync::Arc;

use fm_cli::{Failure, sizes};
use urlindex::stored::{SetKind, StoredSet};
use urlindex::{Canonicalizer, DiskOptions, Error, StorageError};

use fm_cli::canonical::{self, Canonical};

use crate::stores::{bucket, shards};

/// The canonicaliser of a set that does not record its own.
#[derive(clap::Args)]
pub struct CanonicalArg {
    /// The canonicaliser, for a set that does not record it: whatwg, crawl, surt or exact, with
    /// rules switched as in crawl,+www,-tracking. A set that records another one is refused
    #[arg(long = "canonicalizer", alias = "canonical", value_name = "RULES", value_parser = Canonical::parse)]
    pub canonical: Option<Canonical>,
}

/// The memory of a set on disk.
#[derive(clap::Args)]
pub struct MemoryArg {
    /// Set on disk: memory for recent and popular URLs; a few megabytes are added
    /// [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub memory: Option<u64>,
}

impl MemoryArg {
    fn options(&self) -> DiskOptions {
        self.memory.into_iter().fold(DiskOptions::new(), DiskOptions::memory_bytes)
    }

    /// Refuses the option for other kinds of sets.
    fn check(&self, set: StoredSet) -> Result<StoredSet, Failure> {
        if self.memory.is_some() && set.kind() != SetKind::Disk {
            let kind = set.kind().name();
            return Err(Failure::Usage(format!("--memory does not apply to a set of the kind {kind}; leave it out")));
        }
        Ok(set)
    }
}

/// A set to change.
pub fn to_change(path: &Path) -> Result<StoredSet, Failure> {
    to_change_within(path, &MemoryArg { memory: None })
}

/// As [`to_change`], with this memory.
pub fn to_change_within(path: &Path, memory: &MemoryArg) -> Result<StoredSet, Failure> {
    check_path(path)?;
    memory.check(StoredSet::open_with(path, memory.options()).map_err(|error| failure(path, error))?)
}

/// A set to read, while another process may change it.
pub fn to_read(path: &Path) -> Result<StoredSet, Failure> {
    to_read_within(path, &MemoryArg { memory: None })
}

/// As [`to_read`], with this memory.
pub fn to_read_within(path: &Path, memory: &MemoryArg) -> Result<StoredSet, Failure> {
    check_path(path)?;
    memory.check(StoredSet::open_read_only_with(path, memory.options()).map_err(|error| failure(path, error))?)
}

/// Refuses locations that are not on a file system.
pub fn refuse_bucket(path: &Path) -> Result<(), Failure> {
    shards::refuse_as(path, "a store over several folders holds no seen sets: keep it in a separate file")?;
    bucket::refuse_as(path, "object storage holds no seen sets: keep it in a file, behind fm-serve or on Redis")
}

fn check_path(path: &Path) -> Result<(), Failure> {
    refuse_bucket(path)?;
    if path.to_str().is_some_and(urlindex_redis::is_location) {
        let words = "this verb works on the files of a set: sets on Redis have create, add, check and stat";
        return Err(Failure::Usage(words.to_owned()));
    }
    if path.is_dir() {
        return Err(Failure::Io(format!("{} is a folder; a seen set is a file", path.display())));
    }
    Ok(())
}

/// A failure of the set at `path`, with what to do about it.
pub fn failure(path: &Path, error: Error) -> Failure {
    let shown = path.display();
    match &error {
        Error::Storage(StorageError::Io { op, source, .. })
            if op.starts_with("open") && source.kind() == io::ErrorKind::NotFound =>
        {
            Failure::Io(format!("{shown}: the seen set is missing; `fm-tool seen create` makes one"))
        }
        Error::Storage(StorageError::Io { op: "create", file, source })
            if source.kind() == io::ErrorKind::AlreadyExists =>
        {
            let place = path.with_file_name(file);
            Failure::Io(format!("{} exists already; nothing was made", place.display()))
        }
        Error::NotASet { .. } => {
            Failure::Io(format!("{shown}: {error}; a bare MD5 bitmap is adopted with `fm-tool seen create --adopt`"))
        }
        _ => Failure::from(error).map(|words| format!("{shown}: {words}")),
    }
}

/// The canonicaliser that the set records, or else the one that was asked for.
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
            "{} does not record the canonicaliser of its URLs; name it with --canonicalizer",
            path.display()
        ))),
        (Some(noted), Some(asked)) if is_same(&*noted, &*asked) => Ok(noted),
        (Some(noted), Some(asked)) => Err(Failure::Usage(format!(
            "the URLs of {} were made canonical by `{}`; with `{}` it would report URLs that it has as new. Leave --canonicalizer out",
            path.display(),
            canonical::words(&*noted),
            canonical::words(&*asked)
        ))),
    }
}

/// As [`canonicalizer`], for a change of the set, which then records the canonicaliser.
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

/// Returns whether two canonicalisers give the same keys.
pub fn is_same(a: &dyn Canonicalizer, b: &dyn Canonicalizer) -> bool {
    (a.name(), a.version()) == (b.name(), b.version())
}

/// A rate with three significant digits.
pub fn rate(rate: f64) -> String {
    // Without trailing zeros.
    let short = |digits: &str| digits.trim_end_matches('0').trim_end_matches('.').to_owned();
    if rate <= 0.0 {
        return "0".to_owned();
    }
    if rate >= 9.995e-4 {
        return short(&format!("{rate:.*}", (2.0 - rate.log10().floor()).clamp(1.0, 5.0) as usize));
    }
    let text = format!("{rate:.2e}");
    text.split_once('e').map_or_else(String::new, |(digits, power)| format!("{}e{power}", short(digits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short_however_small() {
        for (number, text) in [
            (0.0, "0"),
            (0.0365, "0.0365"),
            (0.00372, "0.00372"),
            (1.0, "1"),
            (0.5, "0.5"),
            (0.001, "0.001"),
            (0.000_999_83, "0.001"),
            (99.96, "100"),
            (0.00012345, "1.23e-4"),
            (1e-9, "1e-9"),
        ] {
            assert_eq!(rate(number), text);
        }
    }
}
