//! The cache of requests-cache: one file of SQLite, or a folder with a file for each response.

use std::path::Path;

use filemap::import::cache::requests_entries;
use fm_cli::Failure;

use super::{Taking, head, is_sqlite, name, sorted, whole};

/// Imports every response of a cache, with the redirects that led to it.
pub fn import(taking: &mut Taking<'_, '_>, path: &Path) -> Result<(), Failure> {
    if !path.is_dir() {
        let head = head(path).map_err(|error| Failure::io("read", path, &error))?;
        if !is_sqlite(&head) {
            return Err(Failure::Usage(format!(
                "{} is not a file of SQLite; name the one that requests-cache wrote (.sqlite), or the folder of its file \
                 system backend",
                path.display()
            )));
        }
        #[cfg(feature = "sqlite")]
        return super::tables::requests(taking, path);
        #[cfg(not(feature = "sqlite"))]
        return Err(Failure::Usage(format!("{}: {}", path.display(), super::NO_SQLITE)));
    }
    for file in sorted(path)? {
        let named = taking.name_of(&file);
        // These files have only the keys of redirects; the responses have them too.
        if name(&file).starts_with("redirects.sqlite") {
            taking.is_cache = true;
            continue;
        }
        if file.is_dir() {
            taking.foreign(&named, "the folder is not part of the cache: left out");
            continue;
        }
        let bytes = match whole(&file) {
            Ok(value) => {
                take(taking, &named, &value)?;
                value.len() as u64
            }
            Err(error) => {
                taking.damaged(&named, error);
                0
            }
        };
        if !taking.goes_on(bytes) {
            break;
        }
    }
    Ok(())
}

/// Takes one response, and the redirects before it.
pub fn take(taking: &mut Taking<'_, '_>, named: &str, value: &[u8]) -> Result<(), Failure> {
    match requests_entries(value) {
        // The redirects came first.
        Ok(pages) => pages.into_iter().rev().try_for_each(|page| taking.put(named, page)),
        Err(error) => {
            taking.damaged(named, error);
            Ok(())
        }
    }
}
