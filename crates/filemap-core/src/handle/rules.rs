//! The file RULES: the rules of erasures. Read at opening; replaced whole when a rule is made,
//! finished or lifted.
//!
//! Invariant: a file that is missing, damaged or older than the superblock's generation is an
//! error, never a store without rules.

use std::io::ErrorKind;

use filemap_io::{Access, Dir, files};

use crate::error::{Error, Result};
use crate::files::check_versions;
use crate::format::names;
use crate::format::rules::{LONGEST, Rules};

/// Remedy in the errors.
const CURE: &str = "restore it from a backup, or run `repair`, which drops the rules and reports that";

/// Reads the rules of a store whose superblock names generation `vouched`; 0 for none.
///
/// # Errors
/// `Corrupt`, `NewerFormat`, `Io`.
pub(crate) fn read(dir: &dyn Dir, store_id: &[u8; 16], vouched: u64, access: Access) -> Result<Rules> {
    let name = names::RULES;
    let damaged = |what: &str| Error::corrupt(name, 0, format!("{what}; {CURE}"));
    let file = match dir.open(name, Access::Read) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let none = Rules { generation: 0, next_id: 1, list: Vec::new() };
            return if vouched == 0 { Ok(none) } else { Err(damaged("the rules of erasures are missing")) };
        }
        opened => opened.map_err(Error::io("open", name))?,
    };
    let len = file.len().map_err(Error::io("measure", name))?;
    if len > LONGEST {
        return Err(damaged("it is longer than rules may be"));
    }
    let bytes = files::read(&*file, name, 0, len as usize)?;
    let (rules, read_version, write_version) = Rules::decode(&bytes, store_id).map_err(damaged)?;
    check_versions(name, read_version, write_version, access)?;
    if rules.generation < vouched {
        return Err(damaged("it is older than the superblock says"));
    }
    Ok(rules)
}

/// Replaces the rules durably.
///
/// # Errors
/// `Full` if they are too long, with nothing changed; `Io`.
pub(crate) fn write(dir: &dyn Dir, store_id: &[u8; 16], rules: &Rules) -> Result<()> {
    let (new, name) = (names::NEW_RULES, names::RULES);
    let bytes = rules.encode(store_id);
    if bytes.len() as u64 > LONGEST {
        return Err(Error::full(name, "the rules take more than 64 MiB"));
    }
    files::remove(dir, new)?;
    files::replace(dir, name, new, |file| Ok(files::write(file, new, &bytes, 0)?))
}
