//! The file of results: one JSON object a line, appended and flushed at once.
//! benches/results/README.md says what the lines mean.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_benches::drive::Outcome;
use serde_json::{Map, Value, json};

/// Numbers by name, in the order in which they came.
pub type Figures = Map<String, Value>;

/// The file, and what every line of a turn repeats.
#[derive(Debug)]
pub struct Lines {
    file: File,
    /// The engine's name.
    pub engine: String,
    /// `corpus` or `generated-...`.
    pub set: String,
    /// Number of pages loaded.
    pub pages: u64,
    /// Bytes of their bodies.
    pub raw_bytes: u64,
    /// Number of the round, from 1.
    pub round: u32,
    failures: AtomicU64,
}

/// Opens the file for appending.
pub fn append_to(path: &Path) -> Outcome<File> {
    let told = |error| format!("{}: cannot append results: {error}", path.display());
    Ok(OpenOptions::new().create(true).append(true).open(path).map_err(told)?)
}

/// Appends one line whole.
pub fn write(mut file: &File, line: &Value) -> Outcome<()> {
    Ok(file.write_all(format!("{line}\n").as_bytes())?)
}

impl Lines {
    /// For a turn; `raw_bytes` is set by the load.
    pub fn new(path: &Path, engine: &str, set: String, pages: u64, round: u32) -> Outcome<Lines> {
        let file = append_to(path)?;
        Ok(Lines { file, engine: engine.into(), set, pages, raw_bytes: 0, round, failures: AtomicU64::new(0) })
    }

    /// A workload's figures.
    pub fn result(&self, workload: &str, figures: Figures) -> Outcome<()> {
        self.result_of(&self.engine, workload, figures)
    }

    /// Figures of something other than the turn's engine.
    pub fn result_of(&self, engine: &str, workload: &str, figures: Figures) -> Outcome<()> {
        eprintln!("{engine:>14} {workload:<10} {}", Value::Object(figures.clone()));
        let line = json!({
            "kind": "result", "engine": engine, "set": self.set, "pages": self.pages, "raw_bytes": self.raw_bytes,
            "workload": workload, "round": self.round, "figures": figures,
        });
        write(&self.file, &line)
    }

    /// Reports a workload without figures, and the reason.
    pub fn skipped(&self, workload: &str, why: &str) -> Outcome<()> {
        self.skipped_of(&self.engine, workload, why)
    }

    /// The same for something other than the turn's engine.
    pub fn skipped_of(&self, engine: &str, workload: &str, why: &str) -> Outcome<()> {
        eprintln!("{engine:>14} {workload:<10} skipped: {why}");
        let line = json!({ "kind": "skipped", "engine": engine, "set": self.set, "workload": workload, "why": why });
        write(&self.file, &line)
    }

    /// A wrong or missing answer, or a workload that broke off.
    pub fn failure(&self, workload: &str, what: &str) -> Outcome<()> {
        eprintln!("{:>14} {workload:<10} FAILED: {what}", self.engine);
        self.failures.fetch_add(1, Ordering::Relaxed);
        let line =
            json!({ "kind": "failure", "engine": self.engine, "set": self.set, "workload": workload, "what": what });
        write(&self.file, &line)
    }

    /// Number of failure lines.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// Adds a number.
pub fn put(figures: &mut Figures, name: impl Into<String>, value: impl Into<f64>) {
    let value = value.into();
    // Counts are written whole, rates and times with three decimals.
    let whole = value.fract() == 0.0 && value.abs() < 9e15;
    let json = if whole { json!(value as i64) } else { json!((value * 1e3).round() / 1e3) };
    figures.insert(name.into(), json);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_whole_and_failures_counted() {
        let path = std::env::temp_dir().join(format!("compare-lines-{}", std::process::id()));
        let lines = Lines::new(&path, "limit", "corpus".into(), 3, 2).unwrap();
        let mut figures = Figures::new();
        put(&mut figures, "seconds", 1.5);
        put(&mut figures, "disk_bytes", 4096.0);
        lines.result("load", figures).unwrap();
        lines.skipped("kill", "it cannot").unwrap();
        lines.failure("warm", "page 1 is missing").unwrap();
        assert_eq!(lines.failures(), 1);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let kinds: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(kinds.len(), 3);
        assert_eq!(kinds[0]["figures"]["disk_bytes"], 4096);
        assert_eq!(kinds[0]["round"], 2);
        assert_eq!(kinds[2]["what"], "page 1 is missing");
    }
}
