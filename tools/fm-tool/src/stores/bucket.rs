//! A store in object storage, named by an `s3://` location. Needs feature `cloud`.

use std::path::Path;
use std::sync::Arc;

use filemap::PageWrite;
use fm_cli::Failure;
use urlindex::Canonicalizer;

const SCHEME: &str = "s3://";

const UNBUILT: &str = "this fm-tool was built without object storage: build it with `--features cloud`";

/// The purpose of opening a store in object storage.
pub enum For {
    Reading,
    Changing,
    /// Adds pages; makes a missing store with this canonicaliser.
    #[cfg_attr(not(feature = "cloud"), expect(dead_code, reason = "such a build opens no bucket"))]
    Filling(Arc<dyn Canonicalizer>),
}

/// The path as the location of a bucket; `None` if it is not one.
pub fn location(path: &Path) -> Option<&str> {
    let is_location = |text: &&str| text.get(..SCHEME.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(SCHEME));
    path.to_str().filter(is_location)
}

/// Bucket and prefix of a location, in any spelling.
pub fn parts(location: &str) -> (&str, &str) {
    let rest = location.get(SCHEME.len()..).unwrap_or_default();
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    (bucket, prefix.trim_matches('/'))
}

/// A location for messages, without possible secrets.
pub fn shown(location: &str) -> &str {
    let rest = location.get(SCHEME.len()..).unwrap_or_default();
    let has_password = rest.contains('@') || rest.split('/').next().is_some_and(|bucket| bucket.contains(':'));
    if has_password { "the location" } else { location }
}

/// Returns whether a path names a bucket.
pub fn is_bucket(path: &Path) -> bool {
    location(path).is_some()
}

/// The store in a bucket; `None` if the path does not name a bucket.
pub fn open(path: &Path, purpose: For) -> Result<Option<Box<dyn PageWrite>>, Failure> {
    let Some(location) = location(path) else { return Ok(None) };
    in_bucket(location, purpose).map(Some)
}

#[cfg(feature = "cloud")]
fn in_bucket(location: &str, purpose: For) -> Result<Box<dyn PageWrite>, Failure> {
    Ok(Box::new(opened(location, purpose, options()?)?))
}

/// Options of a store in object storage, with the cache on disk that the environment names.
#[cfg(feature = "cloud")]
pub fn options() -> Result<filemap_cloud::CloudOptions, Failure> {
    let options = filemap_cloud::CloudOptions::new();
    Ok(match fm_cli::disk_cache::of_environment()? {
        Some((folder, bytes)) => options.disk_cache(folder, bytes),
        None => options,
    })
}

/// The store at a location in object storage.
#[cfg(feature = "cloud")]
pub fn opened(
    location: &str,
    purpose: For,
    options: filemap_cloud::CloudOptions,
) -> Result<filemap_cloud::CloudStore, Failure> {
    use filemap_cloud::{Mode, open_bucket};
    let (mode, options) = match purpose {
        For::Reading => (Mode::Read, options),
        For::Changing => (Mode::Write, options),
        For::Filling(canonicalizer) => (Mode::Fill, options.canonicalizer(canonicalizer)),
    };
    Ok(open_bucket(location, mode, &options).map_err(filemap::Error::from)?)
}

/// The store at a location, opened to read; `None` if there is no store.
#[cfg(feature = "cloud")]
pub fn opened_if_there(location: &str) -> Result<Option<filemap_cloud::CloudStore>, Failure> {
    use filemap_cloud::{Error, Mode, open_bucket};
    match open_bucket(location, Mode::Read, &options()?) {
        Ok(store) => Ok(Some(store)),
        Err(Error::NotAStore { .. }) => Ok(None),
        Err(error) => Err(filemap::Error::from(error).into()),
    }
}

#[cfg(not(feature = "cloud"))]
fn in_bucket(location: &str, _: For) -> Result<Box<dyn PageWrite>, Failure> {
    Err(Failure::Usage(format!("{}: {UNBUILT}", shown(location))))
}

/// Refuses the location of a bucket if the program was built without object storage.
pub fn refuse_unbuilt(path: &Path) -> Result<(), Failure> {
    if cfg!(feature = "cloud") { Ok(()) } else { refuse_as(path, UNBUILT) }
}

/// Refuses the location of a bucket, for verbs that need the store's files.
pub fn refuse(path: &Path) -> Result<(), Failure> {
    let words = "this verb works on the files of a local store, and this one is in object storage: `fm-tool copy` brings \
                 its pages to a folder";
    refuse_as(path, if cfg!(feature = "cloud") { words } else { UNBUILT })
}

/// Refuses the location of a bucket, with the reason and what to do instead.
pub fn refuse_as(path: &Path, words: &str) -> Result<(), Failure> {
    match location(path) {
        None => Ok(()),
        Some(location) => Err(Failure::Usage(format!("{}: {words}", shown(location)))),
    }
}

/// Refuses the first given flag that has no meaning for a bucket, with its reason.
#[cfg(feature = "cloud")]
pub fn refuse_flags(location: &str, flags: &[(&str, bool, &str)]) -> Result<(), Failure> {
    match flags.iter().find(|(_, is_given, _)| *is_given) {
        None => Ok(()),
        Some((flag, _, why)) => Err(Failure::Usage(format!("{}: {flag} needs a local store: {why}", shown(location)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_never_taken_for_a_folder() {
        for location in ["s3://bucket/pages", "S3://bucket"] {
            assert!(is_bucket(Path::new(location)));
            assert!(
                matches!(refuse(Path::new(location)), Err(Failure::Usage(words)) if words.contains("object storage"))
            );
            if cfg!(not(feature = "cloud")) {
                let refused = open(Path::new(location), For::Reading).err();
                assert!(matches!(refused, Some(Failure::Usage(words)) if words.contains("--features cloud")));
            }
        }
        for secret in ["s3://key:5e3c7e7@bucket", "s3://key:a/5e3c7e7@bucket/pages"] {
            let refused = refuse(Path::new(secret));
            assert!(matches!(refused, Err(Failure::Usage(words)) if !words.contains("5e3c7e7")));
        }
        assert!(!is_bucket(Path::new("/pages/s3://bucket")) && !is_bucket(Path::new("s3")));
    }

    #[test]
    fn one_location_is_written_in_several_ways() {
        for location in ["s3://b/p", "s3://b/p/", "S3://b/p", "s3://b//p"] {
            assert_eq!(parts(location), ("b", "p"), "{location}");
        }
        assert_eq!((parts("s3://b"), parts("s3://b/")), (("b", ""), ("b", "")));
    }
}
