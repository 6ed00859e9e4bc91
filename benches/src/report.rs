//! A run's figures as a table, or as one JSON object; each beside its target, if it has one.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

/// Figures in sections, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Report {
    sections: Vec<(String, Vec<Figure>)>,
}

#[derive(Debug)]
struct Figure {
    name: String,
    unit: &'static str,
    value: Value,
    bar: Option<Bar>,
}

/// Target of a figure.
#[derive(Debug, Clone, Copy)]
pub enum Bar {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Bar {
    fn met(self, value: f64) -> bool {
        match self {
            Bar::AtMost(bar) => value <= bar,
            Bar::AtLeast(bar) => value >= bar,
        }
    }
}

impl Report {
    /// Begins a section; what is added next belongs to it.
    pub fn section(&mut self, name: impl Into<String>) {
        self.sections.push((name.into(), Vec::new()));
    }

    /// A number with its unit ("" if it has none).
    pub fn number(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.add(Figure { name: name.into(), unit, value: json!(value), bar: None });
    }

    /// A number with a target.
    pub fn against(&mut self, name: impl Into<String>, value: f64, unit: &'static str, bar: Bar) {
        self.add(Figure { name: name.into(), unit, value: json!(value), bar: Some(bar) });
    }

    /// A count.
    pub fn count(&mut self, name: impl Into<String>, value: u64) {
        self.add(Figure { name: name.into(), unit: "", value: json!(value), bar: None });
    }

    /// A word or a list.
    pub fn note(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.add(Figure { name: name.into(), unit: "", value: value.into(), bar: None });
    }

    /// The percentiles of latencies in ns, as us.
    pub fn latencies(&mut self, name: &str, latency: &Histogram<u64>) {
        let percentiles = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];
        for (label, percentile) in percentiles {
            self.number(format!("{name} {label}"), latency.value_at_percentile(percentile) as f64 / 1e3, "us");
        }
        self.number(format!("{name} max"), latency.max() as f64 / 1e3, "us");
    }

    fn add(&mut self, figure: Figure) {
        if self.sections.is_empty() {
            self.section("run");
        }
        self.sections.last_mut().expect("there is one").1.push(figure);
    }

    /// One object: section, figure, value. The unit ends the figure's name; a figure with a target
    /// says `met`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut all = Map::new();
        for (name, figures) in &self.sections {
            let mut section = Map::new();
            for figure in figures {
                let key = match figure.unit {
                    "" => figure.name.clone(),
                    unit => format!("{} {unit}", figure.name),
                };
                let value = match (figure.bar, figure.value.as_f64()) {
                    (Some(bar), Some(value)) => json!({"value": value, "met": bar.met(value)}),
                    _ => figure.value.clone(),
                };
                section.insert(key, value);
            }
            all.insert(name.clone(), Value::Object(section));
        }
        Value::Object(all)
    }

    /// A table a section.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for (name, figures) in &self.sections {
            let _ = writeln!(out, "\n{name}");
            let width = figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
            for figure in figures {
                let value = match &figure.value {
                    Value::Number(number) if number.is_f64() => decimal(number.as_f64().unwrap_or(0.0)),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let _ = write!(out, "  {:width$}  {value} {}", figure.name, figure.unit);
                if let (Some(bar), Some(value)) = (figure.bar, figure.value.as_f64()) {
                    let (sign, limit) = match bar {
                        Bar::AtMost(limit) => ("<=", limit),
                        Bar::AtLeast(limit) => (">=", limit),
                    };
                    let _ = write!(out, "   [{sign} {limit}: {}]", if bar.met(value) { "met" } else { "MISSED" });
                }
                out.truncate(out.trim_end().len());
                out.push('\n');
            }
        }
        out
    }
}

/// Four significant digits are all that these measurements carry.
fn decimal(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        v if v > 0.0 && v < 0.01 => format!("{value:.3e}"),
        _ => format!("{value:.3}"),
    }
}

/// The middle value (the upper one of two).
///
/// # Panics
/// If there is none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_stands_beside_its_bar_in_both_forms() {
        let mut report = Report::default();
        report.section("get");
        report.against("device reads per get", 2.5, "", Bar::AtMost(2.0));
        report.against("ratio", 0.95, "", Bar::AtLeast(0.9));
        report.number("time", 12.345, "s");
        let text = report.to_text();
        assert!(text.contains("2.500    [<= 2: MISSED]") || text.contains("2.500   [<= 2: MISSED]"), "{text}");
        assert!(text.contains("met]"), "{text}");
        let json = report.to_json();
        assert_eq!(json["get"]["device reads per get"]["met"], false);
        assert_eq!(json["get"]["time s"], 12.345);
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }
}
