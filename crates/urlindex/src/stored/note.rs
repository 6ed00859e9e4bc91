//! The canonicaliser of a set's URLs, recorded in `NAME.canon`.
//!
//! One line of text: `FMCANON1`, the canonicaliser's name, its version, and the CRC-32 of all
//! before the last space in hexadecimal digits. The file is only ever replaced as a whole.

use std::sync::Arc;

use filemap_io::{Access, Dir};

use crate::canonical::{self, Canonicalizer};
use crate::error::{Error, Result};
use crate::files::{self, beside, replace_by};

const MAGIC: &str = "FMCANON1";
const BYTES_MAX: u64 = 256;

/// # Errors
/// `InvalidOption` if the canonicaliser cannot be found by its name.
pub(super) fn check(canonicalizer: &dyn Canonicalizer) -> Result<()> {
    let (rule, version) = (canonicalizer.name(), canonicalizer.version());
    match canonical::named(rule, version) {
        Some(_) => Ok(()),
        None => Err(Error::option("canonicalizer", format!("`{rule}` cannot be found again by its name"))),
    }
}

/// # Errors
/// As [`check`]; `Io`.
pub(super) fn write(dir: &dyn Dir, name: &str, canonicalizer: &dyn Canonicalizer) -> Result<()> {
    check(canonicalizer)?;
    let (rule, version) = (canonicalizer.name(), canonicalizer.version());
    let text = format!("{MAGIC} {rule} {version}");
    let line = format!("{text} {:08x}\n", crc32fast::hash(text.as_bytes()));
    replace_by(dir, &beside::canon(name), line.as_bytes())
}

/// # Errors
/// `UnknownCanonicalizer`; `Corrupt`; `Io`.
pub(super) fn read(dir: &dyn Dir, name: &str) -> Result<Option<Arc<dyn Canonicalizer>>> {
    let note = beside::canon(name);
    if !files::exists(dir, &note)? {
        return Ok(None);
    }
    let file = dir.open(&note, Access::Read).map_err(Error::io("open", &note))?;
    let bytes = files::read_whole(&*file, &note, BYTES_MAX)?;
    let corrupt = || Error::corrupt(&note, 0, "not a note of a canonicaliser");
    let (rule, version) = parse(&bytes).ok_or_else(corrupt)?;
    match canonical::named(&rule, version) {
        Some(canonicalizer) => Ok(Some(canonicalizer)),
        None => Err(Error::UnknownCanonicalizer { file: name.to_owned(), name: rule, version }),
    }
}

fn parse(bytes: &[u8]) -> Option<(String, u32)> {
    let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let (text, crc) = line.rsplit_once(' ')?;
    if crc != format!("{:08x}", crc32fast::hash(text.as_bytes())) {
        return None;
    }
    let (rule, version) = text.strip_prefix(MAGIC)?.strip_prefix(' ')?.rsplit_once(' ')?;
    Some((rule.to_owned(), version.parse().ok()?))
}
