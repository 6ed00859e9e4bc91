//! `stat` of a server: the figures of its store, counted since the server opened it.

use filemap_core::{StatValue, Stats};
use filemap_http::Client;
use fm_cli::{Failure, words};

use super::statistics::Field;

/// Texts about the store, and its figures.
type Figures = ([(&'static str, String); 2], Vec<Field>);

/// Texts about the store, and its figures. `location` is the server's address.
pub fn figures(client: &Client, location: String) -> Result<Figures, Failure> {
    let mut there = client.figures()?;
    let (mut fields, mut missing) = (Vec::new(), 0);
    for (name, kind, help) in Stats::default().fields() {
        let found = there.remove(name).unwrap_or_default();
        let value = match kind {
            StatValue::Counter(_) => found.as_u64().map(StatValue::Counter),
            StatValue::Gauge(_) => found.as_u64().map(StatValue::Gauge),
            StatValue::Text(_) => found.as_str().map(|text| StatValue::Text(text.to_owned())),
        };
        match value {
            Some(value) => fields.push((name, value, help)),
            None => missing += 1,
        }
    }
    let left_out = there.len() as u64 + missing;
    if left_out > 0 {
        let figures = words::count(left_out, "figure");
        words::complain(format_args!("{figures} left out, which only the server or only this program knows"));
    }
    let rules = client.rules().map_or("?".to_owned(), |(name, version)| format!("{name} version {version}"));
    Ok(([("path", location), ("canonicalizer", rules)], fields))
}

/// Counters as levels, for a text: those of a server are worth printing.
pub fn shown(fields: Vec<Field>) -> Vec<Field> {
    let level = |value| match value {
        StatValue::Counter(number) => StatValue::Gauge(number),
        other => other,
    };
    fields.into_iter().map(|(name, value, help)| (name, level(value), help)).collect()
}
