//! Sets in files as a call describes them: how a new one is made, and whether one that exists was
//! made so.

use std::fmt::Display;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use urlindex::stored::{AnySet, NewSet, StoredSet};
use urlindex::{BloomOptions, DiskOptions};

use crate::argument::of_kind;
use crate::errors;

/// The kind of a set that is opened whatever its kind. A new one is of the first.
pub const ANY_KIND: &str = "any";

/// Memory of a set on disk, if none is said.
const DISK_MEMORY_BYTES: u64 = 64 << 20;

/// Memory and seed of a set on disk. `new_seed` is that of a new one, if none is said.
///
/// # Errors
///
/// `InvalidValueError`; `TypeError`.
pub fn disk_options(given: Option<&Bound<'_, PyDict>>) -> PyResult<DiskOptions> {
    let options = DiskOptions::new().memory_bytes(of_kind(given, "memory_bytes")?.unwrap_or(DISK_MEMORY_BYTES));
    let (seed, new_seed): (Option<u64>, Option<u64>) = (of_kind(given, "seed")?, of_kind(given, "new_seed")?);
    Ok(options.seed(seed.or(new_seed).unwrap_or(0)))
}

/// Returns the settings of a new set.
///
/// # Errors
///
/// `InvalidValueError`; `TypeError`.
pub fn new_set(kind: &str, given: Option<&Bound<'_, PyDict>>) -> PyResult<NewSet> {
    Ok(match kind {
        "disk" | ANY_KIND => NewSet::Disk(disk_options(given)?),
        "trie" => NewSet::Trie,
        "bloom" => {
            let capacity = of_kind(given, "capacity")?.unwrap_or(1_000_000);
            NewSet::Bloom(BloomOptions::new(capacity, of_kind(given, "rate")?.unwrap_or(1e-4)))
        }
        "md5-bitmap" => NewSet::Md5Bitmap { bits: of_kind(given, "bits")?.unwrap_or(28) },
        _ => return Err(errors::invalid(format!("there is no seen set of the kind {kind:?}"))),
    })
}

/// Refuses a value given for the set `of` that was made with another. What is not given is the
/// set's own.
///
/// # Errors
///
/// `InvalidValueError`; `TypeError`.
pub fn check_made(of: &str, set: &StoredSet, given: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    match set.any() {
        AnySet::Bloom(filter) => {
            check_same(of, "capacity", of_kind(given, "capacity")?, filter.capacity())?;
            let rate: Option<f64> = of_kind(given, "rate")?;
            match rate.filter(|rate| !filter.is_made_for(*rate)) {
                Some(rate) => {
                    let made = format!("about {:.2e}", filter.theoretical_rate(filter.capacity()));
                    Err(other(of, "rate", &made, &rate))
                }
                None => Ok(()),
            }
        }
        AnySet::Md5Bitmap(bitmap) => check_same(of, "bits", of_kind(given, "bits")?, u64::from(bitmap.bits())),
        AnySet::Disk(disk) => {
            let seed: Option<u64> = of_kind(given, "seed")?;
            // It may be a secret.
            match seed.is_some_and(|seed| seed != disk.seed()) {
                true => Err(other(of, "seed", &"another", &"this one")),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// As [`check_made`], of one number.
///
/// # Errors
///
/// `InvalidValueError`.
pub fn check_same(of: &str, name: &str, asked: Option<u64>, made: u64) -> PyResult<()> {
    match asked {
        Some(asked) if asked != made => Err(other(of, name, &made, &asked)),
        _ => Ok(()),
    }
}

fn other(of: &str, name: &str, made: &dyn Display, asked: &dyn Display) -> PyErr {
    errors::invalid(format!("{name}: {of} was made with {made}, not {asked}: leave it out, or make another set"))
}
