//! A whole run: engines take turns in rounds, each turn in a process of its own.

use std::fs;
use std::process::{Command, ExitCode};

use filemap_benches::drive::Outcome;
use serde_json::json;

use crate::cli::RunArgs;
use crate::engine::{self, Kind, Settings};
use crate::lines::{self, Lines};
use crate::machine;
use crate::turn;

/// Runs every turn of every round; the exit code tells whether anything failed.
pub fn run(args: &RunArgs) -> Outcome<ExitCode> {
    let kinds = chosen(args)?;
    fs::create_dir_all(&args.dir).map_err(|error| format!("{}: {error}", args.dir.display()))?;
    let out = lines::append_to(&args.out)?;
    lines::write(&out, &machine::line(&args.dir))?;
    let settings = Settings::of(args);
    for kind in &kinds {
        lines::write(&out, &engine_line(kind, &settings))?;
    }
    let mut failed = false;
    for round in args.first_round..args.first_round + args.rounds {
        for kind in &kinds {
            failed |= !take_turn(args, kind, round)?;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn chosen(args: &RunArgs) -> Outcome<Vec<&'static Kind>> {
    if args.engines.is_empty() {
        return Ok(engine::kinds());
    }
    args.engines.iter().map(|name| engine::kind(name)).collect()
}

fn engine_line(kind: &Kind, settings: &Settings) -> serde_json::Value {
    json!({
        "kind": "engine", "engine": kind.name, "version": (kind.version)(),
        "settings": (kind.settings)(settings), "compression": (kind.compression)(settings),
    })
}

/// This program again, for one engine. Its store is gone afterwards, whatever happened.
fn take_turn(args: &RunArgs, kind: &Kind, round: u32) -> Outcome<bool> {
    let status = Command::new(std::env::current_exe()?)
        // See `turn::run_arguments`.
        .args(["turn", "--engine", kind.name, "--round", &round.to_string()])
        .args(std::env::args_os().skip(2))
        .status()?;
    for dir in [turn::store_dir(args, kind), turn::durable_dir(args, kind)] {
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(|error| format!("{}: cannot remove: {error}", dir.display()))?;
        }
    }
    match status.code() {
        Some(0) => return Ok(true),
        // It wrote its lines of failure.
        Some(turn::FAILED) => {}
        _ => {
            let lines = Lines::new(&args.out, kind.name, turn::set_name(args), args.pages.unwrap_or(0), round)?;
            lines.failure("turn", &format!("the process of the engine's turn broke off: {status}"))?;
        }
    }
    Ok(false)
}
