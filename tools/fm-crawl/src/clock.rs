//! Times of pages (signed milliseconds since 1970) as times of the frontier (unsigned).

/// A page's time as the frontier counts; times before 1970 become 0.
pub fn unsigned(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}
