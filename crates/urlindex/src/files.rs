//! How seen sets name and replace their files: the one place where names are built and parsed.
//!
//! Invariant: no name is taken for a set's that the set would not give.

use std::path::Path;
use std::sync::Arc;

use filemap_io::files;

pub(crate) use filemap_io::files::{check_space, exists, new_id, read_exact, remove};
use filemap_io::layout::get;
use filemap_io::{Dir, File, Lock, OsDir};

use crate::error::{Error, Result};

/// What may stand beside the file of a set.
pub(crate) mod beside {
    /// Rules by which its URLs were made canonical.
    pub(crate) fn canon(name: &str) -> String {
        format!("{name}.canon")
    }

    /// Known false positives of a Bloom filter.
    pub(crate) fn known(name: &str) -> String {
        format!("{name}.known")
    }

    /// Writer's lock.
    pub(crate) fn lock(name: &str) -> String {
        format!("{name}.lock")
    }

    /// A log of a set on disk.
    pub(crate) fn log(name: &str, number: u64) -> String {
        format!("{name}.{number:06}.log")
    }

    /// Sidecar of a bitmap.
    pub(crate) fn meta(name: &str) -> String {
        format!("{name}.meta")
    }

    /// Room on the disk for the next file.
    pub(crate) fn room(name: &str) -> String {
        format!("{name}.room")
    }

    /// A run of a set on disk.
    pub(crate) use filemap_runs::file_name as run;
}

/// A numbered file of a set on disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Numbered {
    Run,
    Log,
}

/// Which run or log of the set `name` a file is; `None` if the set gives no file that name.
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

/// The folder and the name of a set's file.
///
/// # Errors
/// `InvalidOption` if the path names no file; `Io`.
pub(crate) fn place(path: &Path) -> Result<(Arc<dyn Dir>, String)> {
    let name = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.is_empty());
    let Some(name) = name else {
        return Err(Error::option("path", format!("{} names no file, or one whose name is no text", path.display())));
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((open_folder(parent)?, name.to_owned()))
}

/// A folder that is there.
///
/// # Errors
/// `Io`.
pub(crate) fn open_folder(path: &Path) -> Result<Arc<dyn Dir>> {
    let dir = OsDir::open(path).map_err(Error::io("open", &path.display().to_string()))?;
    Ok(Arc::new(dir))
}

/// Functions over any directory: public for simulations only, who else has paths.
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

/// The writer's lock of the set `name`.
///
/// # Errors
/// `Locked` if another handle has it.
pub(crate) fn lock(dir: &dyn Dir, name: &str) -> Result<Box<dyn Lock>> {
    Ok(files::lock(dir, &beside::lock(name), name)?)
}

/// Replaces a whole file. Until it is durable it is `NAME.DIGITS.new`, of 32 random hexadecimal
/// digits: a name that nobody else's file has. What a crash left under such names is removed.
///
/// # Errors
/// `Io`, of the call that failed: the old file is still there then.
pub(crate) fn replace(dir: &dyn Dir, name: &str, write: impl FnOnce(&dyn File, &str) -> Result<()>) -> Result<()> {
    for file in dir.list().unwrap_or_default().iter().filter(|file| is_unfinished(name, file)) {
        // What cannot be removed is removed by the next one.
        let _ = dir.remove(file);
    }
    let new = format!("{name}.{:032x}.new", u128::from_be_bytes(new_id(dir)?));
    files::replace(dir, name, &new, |file| write(file, &new))
}

/// [`replace`] by these bytes.
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

/// A random number that is not 0.
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

    /// What `fm-tool seen add links --new-only < list > links.new` writes must not be taken for
    /// what a crash left.
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
    }
}
