//! Times: aware `datetime`s and seconds in, aware `datetime`s in UTC out; milliseconds inside.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDateTime, PyDelta, PyDeltaAccess, PyTzInfo};

use crate::errors::invalid;

static EPOCH: PyOnceLock<Py<PyDateTime>> = PyOnceLock::new();

const DAY_MS: i64 = 86_400_000;

/// Range of times that a `datetime` can represent.
const DATES_MS: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

fn epoch(py: Python<'_>) -> PyResult<&Bound<'_, PyDateTime>> {
    let made = EPOCH.get_or_try_init(py, || {
        let utc = PyTzInfo::utc(py)?;
        PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, Some(&utc)).map(Bound::unbind)
    })?;
    Ok(made.bind(py))
}

/// A time of a store as an aware `datetime` in UTC.
///
/// # Errors
///
/// `InvalidValueError` outside the years 1 to 9999.
pub fn to_datetime(py: Python<'_>, ms: i64) -> PyResult<Bound<'_, PyAny>> {
    let (days, rest) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let no_date = || invalid(format!("{ms} ms since 1970 is out of range for a datetime; `time_ms` has the number"));
    let days = i32::try_from(days).ok().filter(|_| DATES_MS.contains(&ms)).ok_or_else(no_date)?;
    let delta = PyDelta::new(py, days, (rest / 1000) as i32, (rest % 1000 * 1000) as i32, false)?;
    epoch(py)?.add(delta)
}

/// A time of the caller's: an aware `datetime`, or seconds since 1970.
///
/// # Errors
///
/// `InvalidValueError` for a `datetime` without a time zone, or a number that is not a time.
pub fn from_python(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    if value.is_instance_of::<PyDateTime>() {
        if value.getattr("tzinfo")?.is_none() {
            return Err(invalid(format!(
                "{} has no time zone: use an aware datetime, such as datetime.now(timezone.utc)",
                value.repr()?
            )));
        }
        return delta_ms(&value.sub(epoch(value.py())?)?);
    }
    seconds_ms(value, "a time is an aware datetime, or seconds since 1970")
}

/// The time of a page to put: one that can be read as a `datetime`.
///
/// # Errors
///
/// As [`from_python`], and `InvalidValueError` outside the years 1 to 9999.
pub fn of_page(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let ms = from_python(value)?;
    if DATES_MS.contains(&ms) {
        return Ok(ms);
    }
    let (first, last) = (DATES_MS.start() / 1000, DATES_MS.end() / 1000);
    let what = format!("a page's time is in the years 1 to 9999, {first} to {last} seconds since 1970, not {value}");
    Err(invalid(what))
}

/// An age of the caller's: a `timedelta`, or seconds.
///
/// # Errors
///
/// `TypeError`, `InvalidValueError`.
pub fn age_ms(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let ms = if value.is_instance_of::<PyDelta>() {
        delta_ms(value)?
    } else {
        seconds_ms(value, "an age is a timedelta, or seconds")?
    };
    if ms < 0 { Err(invalid("an age cannot be negative")) } else { Ok(ms) }
}

fn delta_ms(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let delta = value.cast::<PyDelta>()?;
    let days = i64::from(delta.get_days()) * DAY_MS;
    Ok(days + i64::from(delta.get_seconds()) * 1000 + i64::from(delta.get_microseconds()).div_euclid(1000))
}

fn seconds_ms(value: &Bound<'_, PyAny>, what: &str) -> PyResult<i64> {
    if let Ok(whole) = value.extract::<i64>() {
        let ms = whole.checked_mul(1000);
        return ms.ok_or_else(|| invalid(format!("{whole} seconds are too many")));
    }
    let seconds: f64 = value.extract().map_err(|_| PyTypeError::new_err(what.to_owned()))?;
    let exact = seconds * 1000.0;
    let near = exact.round();
    // Few floats are whole milliseconds: 1.001 is slightly less. A value within half a microsecond
    // of a whole one, or the float nearest to it, is rounded; others are truncated, as datetimes
    // are.
    let is_near = (exact - near).abs() < 0.0005 || near / 1000.0 == seconds;
    let ms = if is_near { near } else { exact.floor() };
    if ms.is_finite() && ms.abs() < 9e15 {
        Ok(ms as i64)
    } else {
        Err(invalid(format!("{seconds:?} seconds is not a time")))
    }
}
