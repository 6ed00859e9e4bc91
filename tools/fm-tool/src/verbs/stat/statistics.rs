//! A store's statistics for programs: a JSON object, or the OpenMetrics text format, version 1.0.
//!
//! In OpenMetrics, counters get the suffix `_total`; times are in seconds and sizes in bytes, with
//! the unit in the name; texts become the labels of one `info` metric; and the exposition ends
//! with `# EOF`, all as the format requires.

use std::fmt::Write;

use filemap_core::{StatValue, Store};
use serde_json::{Map, Value};

/// The store's path and canonicaliser.
pub fn about(store: &Store) -> [(&'static str, String); 2] {
    [("path", store.path().display().to_string()), ("canonicalizer", store.canonicalizer().to_string())]
}

/// Name, value and description.
pub type Field = (&'static str, StatValue, &'static str);

/// All fields, as one JSON object.
pub fn json(about: &[(&str, String)], fields: Vec<Field>) -> Value {
    let mut line: Map<String, Value> =
        about.iter().map(|(name, text)| ((*name).to_owned(), Value::from(text.as_str()))).collect();
    for (name, value, _) in fields {
        let value = match value {
            StatValue::Counter(number) | StatValue::Gauge(number) => Value::from(number),
            StatValue::Text(text) => Value::from(text),
        };
        line.insert(name.to_owned(), value);
    }
    Value::Object(line)
}

/// The exposition of fields; `labels` are added to the info metric.
pub fn exposition(fields: Vec<Field>, labels: &[(&str, String)]) -> String {
    let mut labels: Vec<(&str, String)> = labels.to_vec();
    let mut out = String::new();
    for (name, value, help) in fields {
        match value {
            StatValue::Counter(number) => metric(&mut out, name, "counter", "_total", number, help),
            StatValue::Gauge(number) => metric(&mut out, name, "gauge", "", number, help),
            StatValue::Text(text) => labels.push((name, text)),
        }
    }
    let label = |(name, text): &(&str, String)| format!("{name}=\"{}\"", escaped(text));
    let labels: Vec<String> = labels.iter().map(label).collect();
    let _ = writeln!(out, "# TYPE filemap_store info\n# HELP filemap_store What the store is.");
    let _ = writeln!(out, "filemap_store_info{{{}}} 1\n# EOF", labels.join(","));
    out
}

fn metric(out: &mut String, name: &str, kind: &str, suffix: &str, number: u64, help: &str) {
    let (name, unit, number) = match name.strip_suffix("_us") {
        Some(stem) => (format!("filemap_{stem}_seconds"), Some("seconds"), number as f64 / 1e6),
        None => (format!("filemap_{name}"), name.ends_with("_bytes").then_some("bytes"), number as f64),
    };
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if let Some(unit) = unit {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let help = help.replace(", in microseconds", "").replace(", in bytes", "");
    let _ = writeln!(out, "# HELP {name} {}\n{name}{suffix} {number}", escaped(&help));
}

/// Text with the format's special characters escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use filemap_core::Stats;

    use super::*;

    #[test]
    fn counters_gauges_units_and_texts_stand_as_the_format_asks() {
        let mut stats = Stats::default();
        stats.puts = 7;
        stats.value_bytes = 1 << 40;
        stats.slow_down_us = 1_500_000;
        stats.durability = "say \"sync\"".to_owned();
        let text = exposition(stats.fields(), &[("path", "a\\b".to_owned())]);
        assert!(text.contains("# TYPE filemap_puts counter\n"));
        assert!(text.contains("\nfilemap_puts_total 7\n"));
        assert!(text.contains("# UNIT filemap_value_bytes bytes\n"));
        assert!(text.contains("\nfilemap_value_bytes 1099511627776\n"));
        assert!(text.contains("# UNIT filemap_slow_down_seconds seconds\n"));
        assert!(text.contains("\nfilemap_slow_down_seconds_total 1.5\n"));
        assert!(text.contains("durability=\"say \\\"sync\\\"\""));
        assert!(text.contains("{path=\"a\\\\b\","));
        assert!(text.ends_with(" 1\n# EOF\n"));
    }
}
