//! The beginning of a key's life: after the last removal that counts.

/// Judges a key by `fits`, which is given a number: nothing with a lower one may show, and all
/// that is sure from it on must. The removals are numbers, each with whether it is sure. The last
/// sure one counts; of those after it any may be the last.
///
/// # Errors
/// When it fits none of them: that of the last sure one.
pub(crate) fn fits_some(
    removals: impl Iterator<Item = (u64, bool)> + Clone,
    fits: impl Fn(u64) -> Result<(), String>,
) -> Result<(), String> {
    let sure = removals.clone().filter(|(_, is_sure)| *is_sure);
    let last = sure.map(|(number, _)| number + 1).max().unwrap_or(0);
    let mut later = removals.map(|(number, _)| number + 1).filter(|&floor| floor > last);
    let verdict = fits(last);
    if verdict.is_err() && later.any(|floor| fits(floor).is_ok()) { Ok(()) } else { verdict }
}
