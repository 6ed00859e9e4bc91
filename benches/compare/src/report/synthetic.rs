//! Raw results made up for the tests: lines as `compare run` writes them, with figures of the test's choice.

use std::fmt::Write as _;

use super::data::Data;

/// A machine's line.
pub fn machine() -> String {
    [
        r#"{"kind":"machine","date":"2026-11-21T20:00:00Z","cpu":"AMD EPYC","cores":2,"memory_bytes":23000000000,"#,
        r#""kernel":"6.18.5","file_system":"ext4","commit":"abc1234","command":"compare run --set corpus"}"#,
    ]
    .concat()
}

/// An engine's line.
pub fn engine(name: &str) -> String {
    format!(
        r#"{{"kind":"engine","engine":"{name}","version":"{name} 1.0","settings":"defaults","compression":"zstd -3"}}"#
    )
}

/// A result's line, of round 1.
pub fn result(engine: &str, set: &str, workload: &str, figures: &[(&str, f64)]) -> String {
    let figures: Vec<String> = figures.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let mut line = format!(r#"{{"kind":"result","engine":"{engine}","set":"{set}","pages":1000,"raw_bytes":20000000,"#);
    let _ = write!(line, r#""workload":"{workload}","round":1,"figures":{{{}}}}}"#, figures.join(","));
    line
}

/// Lines as data.
pub fn data(lines: &[String]) -> Data {
    let mut data = Data::default();
    data.read("synthetic.jsonl", &lines.join("\n")).expect("the test's lines are good");
    data
}
