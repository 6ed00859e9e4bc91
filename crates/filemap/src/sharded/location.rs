//! The location of a store over several folders: `shards:/disk1/a.fm,/disk2/b.fm`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::ShardedStore;
use crate::error::{Error, Result};

/// Prefix of a location of a store over several folders.
const SCHEME: &str = "shards:";

/// Returns whether a location names a store over several folders. `./shards:x` names a folder.
///
/// ```
/// use filemap::sharded::is_location;
/// assert!(is_location("shards:/disk1/a.fm,/disk2/b.fm") && !is_location("/disk1/a.fm"));
/// ```
pub fn is_location(location: impl AsRef<Path>) -> bool {
    rest(location.as_ref()).is_some()
}

/// The folders that a location names, in their order; `None` for another location. A path with a
/// comma in it cannot be part of one.
///
/// # Errors
///
/// [`Error::NotMembers`] if it names fewer than two folders, more than
/// [`ShardedStore::MAX_MEMBERS`], one of them twice, or what is not a folder of this machine.
///
/// ```
/// use std::path::PathBuf;
/// use filemap::sharded::paths;
/// let folders = paths("shards:/disk1/a.fm,/disk2/b.fm").expect("such a location")?;
/// assert_eq!(folders, [PathBuf::from("/disk1/a.fm"), PathBuf::from("/disk2/b.fm")]);
/// assert!(paths("pages.fm").is_none());
/// # Ok::<(), filemap::Error>(())
/// ```
pub fn paths(location: impl AsRef<Path>) -> Option<Result<Vec<PathBuf>>> {
    let location = location.as_ref();
    rest(location).map(|rest| {
        let paths: Vec<PathBuf> = rest.split(|&byte| byte == b',').map(|part| OsStr::from_bytes(part).into()).collect();
        let is_twice = |(at, path): (usize, &PathBuf)| paths[..at].contains(path);
        let what = if paths.len() < 2 {
            Some("it names one folder: give two or more, `shards:/disk1/a.fm,/disk2/b.fm`".to_owned())
        } else if paths.iter().any(|path| path.as_os_str().is_empty()) {
            Some("a path in it is empty".to_owned())
        } else if paths.iter().any(|path| is_elsewhere(path)) {
            Some("its members are folders of this machine: give their paths alone".to_owned())
        } else if paths.iter().enumerate().any(is_twice) {
            Some("it names a folder twice".to_owned())
        } else {
            too_many(paths.len())
        };
        match what {
            Some(what) => Err(Error::NotMembers { path: shown(location), what }),
            None => Ok(paths),
        }
    })
}

/// The error if there are more members than a set may have.
pub(super) fn too_many(number: usize) -> Option<String> {
    let limit = ShardedStore::MAX_MEMBERS;
    (number > limit).then(|| format!("it has {number} folders, and {limit} are the limit"))
}

/// The part after the scheme.
fn rest(location: &Path) -> Option<&[u8]> {
    let (scheme, rest) = location.as_os_str().as_bytes().split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME.as_bytes()).then_some(rest)
}

/// Returns whether a member is not a folder of this machine.
fn is_elsewhere(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    is_location(path) || bytes.windows(3).any(|bytes| bytes == b"://")
}

/// A location for an error, without what may be the password of an address in it.
fn shown(location: &Path) -> PathBuf {
    let has_address = location.as_os_str().as_bytes().windows(3).any(|bytes| bytes == b"://");
    if has_address { "the location".into() } else { location.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_names_folders_in_their_order() {
        let named = |location: &str| paths(location).expect("such a location").expect("folders");
        assert_eq!(named("shards:a,b"), ["a", "b"].map(PathBuf::from));
        assert_eq!(named("SHARDS:/x/a b.fm,../c"), ["/x/a b.fm", "../c"].map(PathBuf::from));
        assert_eq!(named("shards:c,a,b").len(), 3);
        for folder in ["a,b", "./shards:a,b", "shards", "", "s3://a,b", "/shards:a,b"] {
            assert!(paths(folder).is_none() && !is_location(folder), "{folder}");
        }
    }

    #[test]
    fn what_names_no_set_is_refused_in_words() {
        let many = format!("shards:{}", (0..1025).map(|number| number.to_string()).collect::<Vec<_>>().join(","));
        for (location, words) in [
            ("shards:", "two or more"),
            ("shards:a", "two or more"),
            ("shards:a,", "empty"),
            ("shards:,a", "empty"),
            ("shards:a,b,a", "twice"),
            ("shards:a,s3://key:5e3c7e7@bucket", "folders of this machine"),
            ("shards:a,shards:b", "folders of this machine"),
            (many.as_str(), "1024 are the limit"),
        ] {
            let refused = paths(location).expect("such a location").expect_err("refused").to_string();
            assert!(refused.contains(words) && !refused.contains("5e3c7e7"), "{location}: {refused}");
        }
    }
}
