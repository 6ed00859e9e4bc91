//! A store over several folders, named by its location `shards:/disk1/a.fm,/disk2/b.fm`: which
//! folders those are, and upkeep, which runs on one after the other.
//!
//! Invariant: a member that fails does not keep a verb from the others, and its failure is
//! reported.

use std::path::{Path, PathBuf};

use filemap::Options;
use filemap::sharded::{self, ShardedStore};
use fm_cli::{Failure, Outcome, Output, interrupt, words};
use serde_json::json;

use crate::flags::Shared;

/// Returns whether a path is the location of such a store.
pub fn is_shards(path: &Path) -> bool {
    sharded::is_location(path)
}

/// The folders that a location names; `None` for another path.
pub fn members(path: &Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    Ok(sharded::paths(path).transpose()?)
}

/// As [`members`], of folders that are one store, whole and in order.
pub fn checked(path: &Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    let Some(members) = members(path)? else { return Ok(None) };
    ShardedStore::open_read_only(&members, Options::new())?;
    Ok(Some(members))
}

/// Returns whether anything exists at the path of a member.
pub fn is_there(path: &Path) -> bool {
    members(path).is_ok_and(|members| members.is_some_and(|members| members.iter().any(|member| member.exists())))
}

/// Refuses the location where one store is needed.
pub fn refuse(path: &Path) -> Result<(), Failure> {
    refuse_as(path, "this verb works on one store, and this is one over several folders: run it on the path of each")
}

/// Refuses the location, and says what to do instead.
pub fn refuse_as(path: &Path, words: &str) -> Result<(), Failure> {
    match sharded::paths(path) {
        None => Ok(()),
        // What it names may have a password in it: such an error does not repeat it.
        Some(members) => members.map_err(Failure::from).and_then(|_| {
            let location = path.display();
            Err(Failure::Usage(format!("{location}: {words}")))
        }),
    }
}

/// Refuses the first flag that is given and means nothing for such a store; each with the reason.
pub fn refuse_flags(path: &Path, flags: &[(&str, bool, &str)]) -> Result<(), Failure> {
    match flags.iter().find(|(_, is_given, _)| *is_given) {
        None => Ok(()),
        Some((flag, _, why)) => refuse_as(path, &format!("{flag} is for a store in one folder: {why}")),
    }
}

/// Runs a verb on each member, under its path. Returns the worst outcome, or the first failure
/// once all were tried; later ones are reported at once.
pub fn each(
    members: &[PathBuf],
    shared: &Shared,
    mut run: impl FnMut(usize, &Path) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let (mut all, mut failed) = (Outcome::Done, None);
    for (number, member) in members.iter().enumerate() {
        if interrupt::asked() {
            break;
        }
        head(member, shared)?;
        match run(number, member) {
            Ok(outcome) => all = all.and(outcome),
            Err(Failure::PipeClosed) => return Err(Failure::PipeClosed),
            Err(failure) => {
                let failure = named(failure, member);
                if failed.is_some() {
                    words::complain(failure);
                } else {
                    failed = Some(failure);
                }
            }
        }
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(all),
    }
}

/// Says which member comes next.
fn head(member: &Path, shared: &Shared) -> Result<(), Failure> {
    let mut out = Output::stdout(shared.flags);
    if out.is_json() {
        out.json(&json!({ "member": member.display().to_string() }))?;
    } else if shared.flags.says() {
        out.shown(member.as_os_str().as_encoded_bytes())?;
        out.line(":")?;
    }
    out.finish()
}

/// The failure with the path of its member.
fn named(failure: Failure, member: &Path) -> Failure {
    let path = member.display().to_string();
    failure.map(|words| if words.contains(&path) { words } else { format!("{path}: {words}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn such_a_location_is_never_taken_for_a_folder() {
        for location in ["shards:a,b", "Shards:/disk1/a.fm,/disk2/b.fm"] {
            let path = Path::new(location);
            assert!(is_shards(path) && !is_there(path));
            assert_eq!(members(path).expect("folders").map(|members| members.len()), Some(2));
            let refused = refuse(path);
            assert!(matches!(refused, Err(Failure::Usage(words)) if words.contains("the path of each")));
        }
        let secret = refuse(Path::new("shards:a,s3://key:5e3c7e7@bucket"));
        assert!(matches!(secret, Err(Failure::Usage(words)) if !words.contains("5e3c7e7")));
        assert!(!is_shards(Path::new("./shards:a,b")) && refuse(Path::new("pages.fm")).is_ok());
    }
}
