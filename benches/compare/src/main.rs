//! FileMap beside the stores that its users would pick instead, on the same pages in one run.
//!
//! `compare run` appends what it measures to a file of JSON lines. Each engine's turn is a process of its own, so that no
//! engine's threads, caches or freed memory show in another's figures.

mod cgroup;
mod cli;
mod codec;
mod engine;
mod lines;
mod machine;
mod measure;
mod pages;
mod run;
mod turn;
mod usage;
mod workload;
mod zipf;

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
