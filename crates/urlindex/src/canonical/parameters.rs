//! Drops and sorts the parameters of a query.

use std::borrow::Cow;

use super::parts::Parts;

fn name_and_value(parameter: &str) -> (&str, &str) {
    parameter.split_once('=').unwrap_or((parameter, ""))
}

/// Keeps the parameters with `is_kept(name, value)`; drops a query that has none left.
pub(super) fn keep(parts: &mut Parts<'_>, is_kept: impl Fn(&str, &str) -> bool) -> bool {
    let Some(query) = &parts.query else { return false };
    let is_kept = |parameter: &&str| {
        let (name, value) = name_and_value(parameter);
        is_kept(name, value)
    };
    if query.split('&').all(|parameter| is_kept(&parameter)) {
        return false;
    }
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    parts.query = (!kept.is_empty()).then(|| Cow::Owned(kept.join("&")));
    true
}

/// Drops parameters for which `is_nothing` holds, and a final `=` of others.
pub(super) fn drop_empty(parts: &mut Parts<'_>, is_nothing: fn(&str) -> bool) -> bool {
    let Some(query) = &parts.query else { return false };
    if query.split('&').all(|parameter| !is_nothing(parameter) && value_is_fine(parameter)) {
        return false;
    }
    let some = query.split('&').filter(|parameter| !is_nothing(parameter));
    let without_mark =
        some.map(|parameter| if value_is_fine(parameter) { parameter } else { &parameter[..parameter.len() - 1] });
    let kept: Vec<&str> = without_mark.collect();
    parts.query = (!kept.is_empty()).then(|| Cow::Owned(kept.join("&")));
    true
}

/// Neither name nor value.
pub(super) fn is_nothing(parameter: &str) -> bool {
    matches!(parameter, "" | "=")
}

/// [`is_nothing`] of version 1.
pub(super) fn is_nameless(parameter: &str) -> bool {
    parameter.is_empty() || parameter.starts_with('=')
}

/// Not `name=`; a second `=` belongs to the value.
fn value_is_fine(parameter: &str) -> bool {
    parameter.find('=').is_none_or(|mark| mark + 1 < parameter.len())
}

/// The name of a parameter, given with its length.
fn name<'a>(parameter: &(&'a [u8], usize)) -> &'a [u8] {
    &parameter.0[..parameter.1]
}

pub(super) fn sort(parts: &mut Parts<'_>) -> bool {
    let Some(query) = &parts.query else { return false };
    // Parameters with the length of their names.
    let mut sorted: Vec<(&[u8], usize)> = Vec::with_capacity(8);
    for parameter in query.as_bytes().split(|byte| *byte == b'&') {
        let name = parameter.iter().position(|byte| *byte == b'=').unwrap_or(parameter.len());
        sorted.push((parameter, name));
    }
    if sorted.is_sorted_by(|a, b| name(a) <= name(b)) {
        return false;
    }
    sorted.sort_by(|a, b| name(a).cmp(name(b)));
    let mut new = Vec::with_capacity(query.len() + 1);
    for (parameter, _) in sorted {
        new.extend_from_slice(parameter);
        new.push(b'&');
    }
    new.pop();
    // ASCII, cut at ASCII.
    let Ok(new) = String::from_utf8(new) else { return false };
    parts.query = Some(Cow::Owned(new));
    true
}
