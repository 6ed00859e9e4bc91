//! File names of seen sets, built and parsed only here; and the replacement of files.
//!
//! Invariant: a set recognises only files whose names it would give itself.

use std::path::Path;
use std::sync::Arc;

use filemap_io::files;

pub(crate) use filemap_io::files::{check_space, exists, new_id, read_exact, remove};
use filemap_io::layout::get;
use filemap_io::{Dir, File, Lock, OsDir};

use crate::error::{Error, Result};

/// Files beside the main file of a set.
pub(crate) mod beside {
    /// The canonicaliser of its URLs.
    pub(crate) fn canon(name: &str) -> String {
        format!("{name}.canon")
    }

    /// Known false positives of a Bloom filter.
    pub(crate) fn known(name: &str) -> String {
        format!("{name}.known")
    }

    /// The writer's lock.
    pub(crate) fn lock(name: &str) -> String {
        format!("{name}.lock")
    }

    /// Log of a set on disk.
    pub(crate) fn log(name: &str, number: u64) -> String {
        format!("{name}.{number:06}.log")
    }

    /// Sidecar of a bitmap.
    pub(crate) fn meta(name: &str) -> String {
        format!("{name}.meta")
    }

    /// File of a journal of requests.
    pub(crate) fn requests(name: &str, number: u64) -> String {
        format!("{name}.{number:06}.requests")
    }

    /// Space reserved on disk for the next file.
    pub(crate) fn room(name: &str) -> String {
        format!("{name}.room")
    }

    /// Run of a set on disk.
    pub(crate) use filemap_runs::file_name as run;
}

/// A numbered file of a set on disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Numbered {
    Run,
    Log,
}

/// Kind and number of a run or log of the set `name`; `None` for any other file.
pub(crate) fn parse_numbered(name: &str, file: &str) -> Option<(Numbered, u64)> {
    let (digits, kind) = file.strip_prefix(name)?.strip_prefix('.')?.split_once('.')?;
    let number = digits.parse().ok()?;
    let (kind, exact) = match kind {
        "run" => (Numbered::Run, beside::run(name, number)),
        "log" => (Numbered::Log, beside::log(name, number)),
        _ => return None,
    };
    (exact == file).then_some((kind, number))
}

/// Number of a file of the journal of requests of the set `name`; `None` for any other file.
pub(crate) fn parse_requests(name: &str, file: &str) -> Option<u64> {
    let digits = file.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".requests")?;
    digits.parse().ok().filter(|number| beside::requests(name, *number) == file)
}

/// Directory and name of a set's file.
///
/// # Errors
/// `InvalidOption` if the path names no file; `Io`.
pub(crate) fn place(path: &Path) -> Result<(Arc<dyn Dir>, String)> {
    let name = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.is_empty());
    let Some(name) = name else {
        return Err(Error::option("path", format!("{} has no file name in UTF-8", path.display())));
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((open_folder(parent)?, name.to_owned()))
}

/// Opens an existing directory.
///
/// # Errors
/// `Io`.
pub(crate) fn open_folder(path: &Path) -> Result<Arc<dyn Dir>> {
    let dir = OsDir::open(path).map_err(Error::io("open", &path.display().to_string()))?;
    Ok(Arc::new(dir))
}

/// Defines a function that takes the path of a set's file, and its twin over any directory, which
/// is public with feature `sim` only.
macro_rules! by_path {
    ($($(#[$meta:meta])* fn $name:ident, $in_dir:ident($dir:ident, $file:ident $(, $arg:ident: $type:ty)*)
        -> $result:ty $body:block)*) => {$(
        $(#[$meta])*
        pub fn $name(path: impl AsRef<std::path::Path> $(, $arg: $type)*) -> $result {
            let (dir, name) = crate::files::place(path.as_ref())?;
            Self::$in_dir(dir, &name $(, $arg)*)
        }

        crate::files::in_any_dir! {
            #[doc = concat!("As `", stringify!($name), "`, in any directory.\n\n# Errors\nAs there.")]
            fn $in_dir($dir: std::sync::Arc<dyn filemap_io::Dir>, $file: &str $(, $arg: $type)*) -> $result $body
        }
    )*};
}
pub(crate) use by_path;

/// Defines functions over any directory: public with feature `sim` only.
macro_rules! in_any_dir {
    ($($(#[$meta:meta])* fn $name:ident($($args:tt)*) -> $result:ty $body:block)*) => {$(
        #[cfg(feature = "sim")]
        $(#[$meta])*
        pub fn $name($($args)*) -> $result $body

        #[cfg(not(feature = "sim"))]
        pub(crate) fn $name($($args)*) -> $result $body
    )*};
}
pub(crate) use in_any_dir;

/// Takes the writer's lock of the set `name`.
///
/// # Errors
/// `Locked` if another handle has it.
pub(crate) fn lock(dir: &dyn Dir, name: &str) -> Result<Box<dyn Lock>> {
    Ok(files::lock(dir, &beside::lock(name), name)?)
}

/// Fails if the file exists.
///
/// # Errors
/// `Io`.
pub(crate) fn check_absent(dir: &dyn Dir, file: &str) -> Result<()> {
    match exists(dir, file)? {
        true => Err(Error::io("create", file)(std::io::ErrorKind::AlreadyExists.into())),
        false => Ok(()),
    }
}

/// Reads a whole file. A file longer than `most` bytes is damaged: no memory is allocated for it.
///
/// # Errors
/// `Corrupt`; `Io`.
pub(crate) fn read_whole(file: &dyn File, name: &str, most: u64) -> Result<Vec<u8>> {
    let len = file.len().map_err(Error::io("length", name))?;
    if len > most {
        return Err(Error::corrupt(name, most, format!("{len} bytes, more than the maximum of {most}")));
    }
    let mut bytes = vec![0; len as usize];
    read_exact(file, name, &mut bytes, 0)?;
    Ok(bytes)
}

/// Replaces a whole file. Until it is durable its name is `NAME.DIGITS.new`, with 32 random
/// hexadecimal digits, which no other file has. Removes leftovers of interrupted replacements.
///
/// # Errors
/// `Io`, of the call that failed. The old file still exists then, unless the last sync failed.
pub(crate) fn replace(dir: &dyn Dir, name: &str, write: impl FnOnce(&dyn File, &str) -> Result<()>) -> Result<()> {
    for file in dir.list().unwrap_or_default().iter().filter(|file| is_unfinished(name, file)) {
        // The next replacement tries again.
        let _ = dir.remove(file);
    }
    let new = format!("{name}.{:032x}.new", u128::from_be_bytes(new_id(dir)?));
    files::replace(dir, name, &new, |file| write(file, &new))
}

/// Replaces a file by these bytes.
///
/// # Errors
/// As [`replace`].
pub(crate) fn replace_by(dir: &dyn Dir, name: &str, bytes: &[u8]) -> Result<()> {
    replace(dir, name, |file, new| Ok(files::write(file, new, bytes, 0)?))
}

fn is_unfinished(name: &str, file: &str) -> bool {
    let digits = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".new"));
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// A random number other than 0.
///
/// # Errors
/// `Io`.
pub(crate) fn new_number(dir: &dyn Dir) -> Result<u64> {
    Ok(get::<u64>(&new_id(dir)?, 0).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use filemap_io::sim::SimDisk;

    /// A file such as that of `fm-tool seen add links --new-only < list > links.new` must not be
    /// taken for a leftover of a crash.
    #[test]
    fn only_what_was_left_of_replacing_that_file_is_removed() {
        let disk = SimDisk::new(1);
        let left = format!("f.{:032x}.new", 7);
        let others =
            [format!("g.{:032x}.new", 7), format!("f.{:032X}.new", 255), "f.new".to_owned(), "f.7.new".to_owned()];
        others.iter().chain([&left]).for_each(|name| disk.set_bytes(name, b"links"));
        replace_by(&*disk.dir(), "f", b"set").expect("written");
        assert!(others.iter().all(|name| disk.bytes(name).as_deref() == Some(b"links")) && disk.bytes(&left).is_none());
        assert_eq!(disk.bytes("f").as_deref(), Some(&b"set"[..]));
        let failed = replace(&*disk.dir(), "f", |_, name| Err(Error::corrupt(name, 0, "x")));
        assert!(failed.is_err() && disk.names().len() == others.len() + 1, "{:?}", disk.names());
    }

    #[test]
    fn only_names_that_would_be_given_are_parsed() {
        assert_eq!(parse_numbered("s", "s.000007.run"), Some((Numbered::Run, 7)));
        assert_eq!(parse_numbered("s", "s.1234567.log"), Some((Numbered::Log, 1_234_567)));
        let others = ["s.7.run", "s.0000007.run", "s.000007.map", "t.000007.run", "s.+00007.run", "s.run"];
        assert!(others.iter().all(|file| parse_numbered("s", file).is_none()));
        assert_eq!(parse_requests("s", "s.000007.requests"), Some(7));
        assert!(["s.7.requests", "t.000007.requests", "s.requests"].iter().all(|f| parse_requests("s", f).is_none()));
    }
}
