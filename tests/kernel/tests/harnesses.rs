//! Runs each harness with a small count, and plants faults that it must find. What this machine
//! cannot run is skipped with the reason; with CI=true it fails.
//!
//! The gate and the soak pass larger counts to the program; FILEMAP_KILL_CYCLES sets that of the
//! killed writers here too.

use std::io::Write;
use std::process::{Command, Output};

/// The exit code of what cannot be done here.
const SKIPPED: i32 = 77;

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_filemap-kernel")).args(arguments).output().unwrap();
    let mut words = String::from_utf8_lossy(&output.stdout).into_owned();
    words.push_str(&String::from_utf8_lossy(&output.stderr));
    println!("{words}");
    if output.status.code() == Some(SKIPPED) {
        // Past the test runner, which shows the words of a test only when it fails.
        let _ = writeln!(std::io::stderr(), "{arguments:?}: {}", words.trim());
    }
    (output.status.code(), words)
}

/// The words of a run that must find nothing; `None` when it was skipped.
#[track_caller]
fn finds_nothing(arguments: &[&str]) -> Option<String> {
    let (code, words) = run(arguments);
    match code {
        Some(0) => Some(words),
        Some(SKIPPED) => None,
        _ => panic!("{arguments:?} ended with {code:?}:\n{words}"),
    }
}

#[test]
fn killed_at_any_moment_a_writer_loses_nothing_that_it_reported() {
    let cycles = std::env::var("FILEMAP_KILL_CYCLES").unwrap_or_else(|_| "60".into());
    let words = finds_nothing(&["kill", "--cycles", &cycles]).expect("it needs nothing that could be missing");
    assert!(words.contains("no violation"));
}

#[test]
fn whatever_other_processes_read_beside_a_writer_is_the_state_of_one_moment() {
    let words = finds_nothing(&["differ", "--operations", "8000"]).expect("it needs nothing that could be missing");
    assert!(words.contains("no difference"));
}

#[test]
fn a_removal_that_is_forgotten_is_found_by_those_who_read_beside_it() {
    let (code, words) = run(&["differ", "--operations", "8000", "--forget"]);
    assert_eq!(code, Some(1), "the fault was not found:\n{words}");
    assert!(
        words.contains("has versions") || words.contains("newest version") || words.contains("is listed"),
        "{words}"
    );
}

#[test]
fn after_a_power_loss_ext4_has_all_that_was_synced() {
    finds_nothing(&["replay", "--fs", "ext4", "--states", "30"]);
}

#[test]
fn after_a_power_loss_xfs_has_all_that_was_synced() {
    finds_nothing(&["replay", "--fs", "xfs", "--states", "10"]);
}

#[track_caller]
fn finds_the_planted(fault: &str) {
    // Seed 2 is of a store that syncs only on command.
    let (code, words) = run(&["replay", "--states", "20", "--seed", "2", "--fault", fault]);
    if code == Some(SKIPPED) {
        return;
    }
    assert_eq!(code, Some(1), "the fault was not found:\n{words}");
    // A lost put, a lost removal, or a lost store.
    let told = ["is lost", "is back after the removal", "is not a FileMap store"];
    assert!(told.iter().any(|told| words.contains(told)), "{words}");
}

#[test]
fn a_writer_that_does_not_sync_is_found() {
    finds_the_planted("no-sync");
}

#[test]
fn a_disk_that_loses_what_it_flushed_is_found() {
    finds_the_planted("lost-flushes");
}

#[test]
fn a_failing_device_is_reported_once_and_for_all_and_costs_nothing_that_was_synced() {
    finds_nothing(&["device"]);
}

#[test]
fn a_full_disk_is_an_error_for_each_file_and_costs_nothing() {
    finds_nothing(&["full"]);
}
