//! The age at which a page is fetched again, by how often it changed.
//!
//! A page keeps the step of its age, 0 to 15: each is twice as long as the one before, within the
//! bounds of [`Recrawl`].

use crate::options::Recrawl;
use crate::state::FIRST_AGE;

/// The step of an age half as long, unless that is less than the least.
pub(crate) fn shorter(recrawl: Option<Recrawl>, age: u8) -> u8 {
    let is_least = recrawl.is_none_or(|recrawl| interval_ms(&recrawl, age) <= recrawl.min_ms);
    if is_least { age } else { age.saturating_sub(1) }
}

/// The step of an age twice as long, unless that is more than the greatest.
pub(crate) fn longer(recrawl: Option<Recrawl>, age: u8) -> u8 {
    let is_greatest = recrawl.is_none_or(|recrawl| interval_ms(&recrawl, age) >= recrawl.max_ms);
    if is_greatest { age } else { (age + 1).min(15) }
}

/// The age at which a page is fetched again, by its step: each is twice as long as the one before.
pub(crate) fn interval_ms(recrawl: &Recrawl, age: u8) -> u64 {
    let steps = i32::from(age) - i32::from(FIRST_AGE);
    let first_ms = u128::from(recrawl.first_ms.max(1));
    let interval_ms = if steps < 0 { first_ms >> -steps } else { first_ms << steps };
    u64::try_from(interval_ms).unwrap_or(u64::MAX).clamp(recrawl.min_ms, recrawl.max_ms)
}

/// The second after which a page is due, never 0.
pub(crate) fn due_s(now_ms: i64, wait_ms: u64) -> u32 {
    u32::try_from((now_ms.max(0) as u64).saturating_add(wait_ms).div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}
