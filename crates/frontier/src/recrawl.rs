//! Recrawl intervals, adapted to how often a page changes.
//!
//! A page keeps a step from 0 to 15: each step doubles the interval, within the bounds of
//! [`Recrawl`].

use crate::options::Recrawl;
use crate::state::FIRST_AGE;

/// One step down, unless the interval is at its minimum.
pub(crate) fn shorter(recrawl: Option<Recrawl>, age: u8) -> u8 {
    let is_least = recrawl.is_none_or(|recrawl| interval_ms(&recrawl, age) <= recrawl.min_ms);
    if is_least { age } else { age.saturating_sub(1) }
}

/// One step up, unless the interval is at its maximum.
pub(crate) fn longer(recrawl: Option<Recrawl>, age: u8) -> u8 {
    let is_greatest = recrawl.is_none_or(|recrawl| interval_ms(&recrawl, age) >= recrawl.max_ms);
    if is_greatest { age } else { (age + 1).min(15) }
}

/// The recrawl interval of a step.
pub(crate) fn interval_ms(recrawl: &Recrawl, age: u8) -> u64 {
    let steps = i32::from(age) - i32::from(FIRST_AGE);
    let first_ms = u128::from(recrawl.first_ms.max(1));
    let interval_ms = if steps < 0 { first_ms >> -steps } else { first_ms << steps };
    u64::try_from(interval_ms).unwrap_or(u64::MAX).clamp(recrawl.min_ms, recrawl.max_ms)
}

/// The step whose interval is nearest to `every_ms`, by ratio.
pub(crate) fn step_of(recrawl: &Recrawl, every_ms: u64) -> u8 {
    let distance = |age: &u8| {
        let interval = interval_ms(recrawl, *age).max(1) as f64;
        ((every_ms.max(1) as f64).log2() - interval.log2()).abs()
    };
    // Among equal intervals, which the bounds cause, the step nearest to the first one.
    let order = |age: &u8| age.abs_diff(FIRST_AGE);
    (0..16).min_by(|a, b| distance(a).total_cmp(&distance(b)).then(order(a).cmp(&order(b)))).unwrap_or(FIRST_AGE)
}

/// The second at which a wait ends, never 0.
pub(crate) fn due_s(now_ms: i64, wait_ms: u64) -> u32 {
    u32::try_from((now_ms.max(0) as u64).saturating_add(wait_ms).div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}
