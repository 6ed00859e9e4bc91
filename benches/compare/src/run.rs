//! A whole run: engines take turns in rounds, each turn in a separate process; and one turn's
//! workloads in their order.

use std::fs;
use std::process::{Command, ExitCode};
use std::time::Instant;

use filemap_benches::drive::Outcome;
use serde_json::json;

use crate::engine::{Kind, Settings};
use crate::measure::lines::{self, Lines};
use crate::measure::machine;
use crate::turn::Turn;
use crate::turn::plan::{Plan, Workload};
use crate::workload::{cold, delete, depth, durable, kill, load, overwrite, reopen, squeeze, warm, ycsb};

/// Exit code of a turn that wrote lines of failure.
const FAILED: u8 = 3;

/// Runs every turn of every round; the exit code says whether anything failed.
pub fn run(plan: &Plan, kinds: &[&'static Kind]) -> Outcome<ExitCode> {
    fs::create_dir_all(&plan.dir).map_err(|error| format!("{}: {error}", plan.dir.display()))?;
    let out = lines::append_to(&plan.out)?;
    lines::write(&out, &machine::line(&plan.dir))?;
    let settings = plan.settings();
    for kind in kinds {
        lines::write(&out, &engine_line(kind, &settings))?;
    }
    let mut failed = false;
    for round in plan.rounds.clone() {
        for kind in kinds {
            failed |= !take_turn(plan, kind, round)?;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn engine_line(kind: &Kind, settings: &Settings) -> serde_json::Value {
    json!({
        "kind": "engine", "engine": kind.name, "version": (kind.version)(),
        "settings": (kind.settings)(settings), "compression": (kind.compression)(settings),
    })
}

/// Runs this program again for one engine's turn, and removes the store afterwards, whatever
/// happened.
fn take_turn(plan: &Plan, kind: &Kind, round: u32) -> Outcome<bool> {
    let status = Command::new(std::env::current_exe()?)
        .args(["turn", "--engine", kind.name, "--round", &round.to_string()])
        .args(&plan.arguments)
        .status()?;
    for dir in [plan.store_dir(kind), plan.durable_dir(kind)] {
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(|error| format!("{}: cannot remove: {error}", dir.display()))?;
        }
    }
    match status.code() {
        Some(0) => return Ok(true),
        // It wrote its lines of failure.
        Some(code) if code == i32::from(FAILED) => {}
        _ => {
            let lines = Lines::new(&plan.out, kind.name, plan.set_name(), plan.pages.unwrap_or(0), round)?;
            lines.failure("turn", &format!("the process of the engine's turn broke off: {status}"))?;
        }
    }
    Ok(false)
}

/// One engine's turn, in its own process: all workloads of the plan.
pub fn turn(plan: &Plan, kind: &'static Kind, round: u32) -> Outcome<ExitCode> {
    let (source, count) = plan.source()?;
    let lines = Lines::new(&plan.out, kind.name, plan.set_name(), count, round)?;
    if count > kind.can.pages_max {
        lines.skipped("load", &format!("takes at most {} pages", kind.can.pages_max))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut turn = Turn::new(plan, kind, (source, count), lines)?;
    for workload in Workload::ALL {
        if workload != Workload::Load && !plan.workloads.contains(&workload) {
            continue;
        }
        let begun = Instant::now();
        let ran = run_workload(workload, &mut turn);
        eprintln!("{:>14} {workload:<10} took {:.1} s", kind.name, begun.elapsed().as_secs_f64());
        if let Err(error) = ran {
            turn.lines.failure(workload.name(), &error.to_string())?;
            // The store may be in any state now.
            break;
        }
    }
    if let Err(error) = turn.close() {
        turn.lines.failure("close", &error.to_string())?;
    }
    Ok(if turn.lines.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn run_workload(workload: Workload, turn: &mut Turn<'_>) -> Outcome<()> {
    match workload {
        Workload::Load => load::run(turn),
        Workload::Reopen => reopen::run(turn),
        Workload::Warm => warm::run(turn),
        Workload::Miss => warm::miss(turn),
        Workload::Cold => cold::run(turn),
        Workload::Depth => depth::run(turn),
        Workload::Squeeze => squeeze::run(turn),
        Workload::Ycsb => ycsb::run(turn),
        Workload::Kill => kill::run(turn),
        Workload::Durable => durable::run(turn),
        Workload::Overwrite => overwrite::run(turn),
        Workload::Delete => delete::run(turn),
    }
}
