//! The tests of `fm-bench` as a program: runs at a small size, whose figures of speed are ignored.

mod ahead;
mod frontier;

use std::process::{Command, Output};

use serde_json::Value;

/// Runs `fm-bench --json`.
fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fm-bench")).arg("--json").args(arguments).output().expect("fm-bench starts")
}

/// The report of a run.
#[track_caller]
fn report(ran: &Output) -> Value {
    assert!(ran.status.success(), "{}", words(ran));
    serde_json::from_slice(&ran.stdout).expect("JSON")
}

/// What a run printed to stderr.
fn words(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}
