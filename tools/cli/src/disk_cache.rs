//! The cache on disk of stores in object storage. It comes from the environment, so that all
//! programs of a machine share it.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Failure, sizes};

/// The variable with the folder: without it there is no cache.
const FOLDER: &str = "FILEMAP_CACHE_DIR";
/// The variable with its size.
const SIZE: &str = "FILEMAP_CACHE_SIZE";
/// The size if none is given.
const USUAL_BYTES: u64 = 1 << 30;

/// Folder and size of the cache that the environment names; `None` if it names none.
///
/// # Errors
///
/// [`Failure::Usage`] for a size that cannot be read, or without a folder.
pub fn of_environment() -> Result<Option<(PathBuf, u64)>, Failure> {
    of(std::env::var_os(FOLDER), std::env::var_os(SIZE))
}

fn of(folder: Option<OsString>, size: Option<OsString>) -> Result<Option<(PathBuf, u64)>, Failure> {
    let is_given = |text: &OsString| !text.is_empty();
    let size = size.filter(is_given).map(|size| {
        let wrong = |words: String| Failure::Usage(format!("{SIZE}: {words}"));
        sizes::parse_positive(&size.to_string_lossy()).map_err(wrong)
    });
    let size = size.transpose()?;
    match (folder.filter(is_given), size) {
        (Some(folder), size) => Ok(Some((PathBuf::from(folder), size.unwrap_or(USUAL_BYTES)))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Failure::Usage(format!("{SIZE} is the size of a cache in {FOLDER}, which is not set"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_makes_a_cache_and_a_size_alone_is_refused() {
        let of = |folder: &str, size: &str| of(Some(folder.into()), Some(size.into()));
        assert_eq!(of("/c", "10GiB").expect("valid"), Some(("/c".into(), 10 << 30)));
        assert_eq!(of("/c", "").expect("valid"), Some(("/c".into(), USUAL_BYTES)));
        assert_eq!(of("", "").expect("valid"), None);
        for (folder, size) in [("", "1GB"), ("/c", "much"), ("/c", "0")] {
            assert!(matches!(of(folder, size), Err(Failure::Usage(words)) if words.contains(SIZE)), "{folder} {size}");
        }
    }
}
