//! FileMap beside the stores that its users would pick instead, on the same pages in one run.
//!
//! `compare run` appends its figures to a file of JSON lines; benches/report.py turns it into a
//! report. Each engine's turn is a separate process, so that no engine's threads, caches or
//! freed memory show in another's figures.
//!
//! Floors, highest first: `cli`; `run`; `workload`; `turn`; `engine`; `pages`; `measure`.

mod cli;
mod engine;
mod measure;
mod pages;
mod run;
mod turn;
mod workload;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::main() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}
