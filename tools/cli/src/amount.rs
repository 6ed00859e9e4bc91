//! A number with a unit, as sizes and lengths of time are written.

/// Reads `NUMBER UNIT`. The first unit in `units` that `text` ends with counts. The number may
/// have a fraction if the unit is above 1.
pub fn read(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim(), *unit)))?;
    let whole = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let fraction = || {
        let scaled = number.parse::<f64>().ok().filter(|number| unit > 1 && *number >= 0.0)? * unit as f64;
        (scaled < u64::MAX as f64).then_some(scaled as u64)
    };
    whole.or_else(fraction)
}
