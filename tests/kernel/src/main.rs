//! The command line of the harnesses. Exit code 0: nothing found; 1: a violation; 2: the harness
//! failed; 77: this machine cannot run it (an error when CI=true).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use filemap_kernel::differ::Part;
use filemap_kernel::disk::Service;
use filemap_kernel::system::{self, FileSystem};
use filemap_kernel::visitor::Visit;
use filemap_kernel::writer::Work;
use filemap_kernel::{device, differ, disk, full, kill, replay, visitor, writer};

/// The exit code of a run that this machine cannot do.
const SKIPPED: u8 = 77;

#[derive(Parser)]
#[command(name = "filemap-kernel", about = "Proves the store on the real kernel", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kills a writer again and again.
    Kill {
        /// Number of writers.
        #[arg(long, default_value_t = 300)]
        cycles: u64,
        /// Seed of the workload.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Compares what other processes read, while one works, with a model.
    Differ {
        /// Operations of each store.
        #[arg(long, default_value_t = 30_000)]
        operations: u64,
        /// Stores, one after the other.
        #[arg(long, default_value_t = 1)]
        rounds: u64,
        /// Processes that read.
        #[arg(long, default_value_t = 2)]
        readers: u64,
        /// Seed of the workload.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Skip one remove, which the check must report.
        #[arg(long)]
        forget: bool,
    },
    /// Makes disks as a power loss may have left them, and opens the stores on them. Needs root.
    Replay {
        /// The file systems.
        #[arg(long, value_delimiter = ',', default_value = "ext4")]
        fs: Vec<FileSystem>,
        /// Number of states on each.
        #[arg(long, default_value_t = 100)]
        states: u64,
        /// Seed of the workload.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Plant a fault, which should be found.
        #[arg(long)]
        fault: Option<replay::Fault>,
    },
    /// Lets the device fail under each file of a store in turn. Needs root.
    Device,
    /// Lets the disk fill under each file of a store in turn. Needs root.
    Full {
        /// The file systems.
        #[arg(long, value_delimiter = ',', default_value = "tmpfs,ext4,xfs,btrfs")]
        fs: Vec<FileSystem>,
    },
    /// The process that is killed or recorded; started by the others.
    #[command(hide = true)]
    Writer(Work),
    /// The process that works in a differential run; started by it.
    #[command(hide = true)]
    DifferWorker(Part),
    /// A process that reads in a differential run; started by it.
    #[command(hide = true)]
    DifferReader(Part),
    /// The process that is a disk; started by the others.
    #[command(hide = true)]
    Disk(Service),
    /// The process that meets a failing device or a full disk; started by the others.
    #[command(hide = true)]
    Visitor(Visit),
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    let needs = match &command {
        Command::Replay { fs, .. } | Command::Full { fs } => Some(fs.clone()),
        Command::Device => Some(vec![FileSystem::Ext4]),
        _ => None,
    };
    if let Some(systems) = needs {
        if let Some(why) = system::missing(&systems) {
            let must = std::env::var("CI").is_ok_and(|v| v == "true");
            println!("{}: {why}", if must { "failed, since CI=true" } else { "skipped" });
            return ExitCode::from(if must { 2 } else { SKIPPED });
        }
        if let Err(why) = system::enter_private_mounts() {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    }
    match run(command) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(violations) => {
            println!("{violations} violations");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> system::Result<usize> {
    match command {
        Command::Kill { cycles, seed } => run_kill(cycles, seed),
        Command::Replay { fs, states, seed, fault } => run_replay(&fs, states, seed, fault),
        Command::Differ { operations, rounds, readers, seed, forget } => {
            run_differ(differ::Run { operations, rounds, readers, seed, forget })
        }
        Command::DifferWorker(part) => differ::work(&part).map(|()| 0),
        Command::DifferReader(part) => differ::read(&part).map(|()| 0),
        Command::Device => device::run(&own_program()?),
        Command::Full { fs } => full::run(&own_program()?, &fs),
        Command::Writer(work) => writer::work(&work).map(|()| 0).map_err(|e| e.to_string()),
        Command::Disk(service) => disk::serve(&service).map(|()| 0),
        Command::Visitor(visit) => visitor::serve(&visit).map(|()| 0),
    }
}

fn own_program() -> system::Result<PathBuf> {
    std::env::current_exe().map_err(|e| e.to_string())
}

fn run_kill(cycles: u64, seed: u64) -> system::Result<usize> {
    let start = Instant::now();
    let scratch = system::scratch()?;
    match kill::run(&own_program()?, scratch.path(), cycles, seed) {
        Ok(r) => {
            let rate = r.cycles as f64 / start.elapsed().as_secs_f64();
            println!(
                "kill: {} cycles, {} of them before the store was open, {} operations, {} recoveries checked, seed {seed}, \
                 {rate:.1} cycles/s, no violation",
                r.cycles, r.before_open, r.operations, r.checks
            );
            Ok(0)
        }
        Err(what) => {
            println!("kill: {what}");
            println!("again: filemap-kernel kill --cycles {cycles} --seed {seed}");
            Ok(1)
        }
    }
}

fn run_differ(run: differ::Run) -> system::Result<usize> {
    let start = Instant::now();
    let scratch = system::scratch()?;
    let differ::Run { operations, rounds, readers, seed, .. } = run;
    match differ::run(&own_program()?, scratch.path(), run) {
        Ok(looks) => {
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "differ: {rounds} stores of {operations} operations, {readers} readers, {looks} looks of theirs, seed \
                 {seed}, {seconds:.0} s, no difference"
            );
            Ok(0)
        }
        Err(what) => {
            println!("differ: {what}");
            println!(
                "again: filemap-kernel differ --operations {operations} --rounds {rounds} --readers {readers} --seed {seed}"
            );
            Ok(1)
        }
    }
}

fn run_replay(systems: &[FileSystem], states: u64, seed: u64, fault: Option<replay::Fault>) -> system::Result<usize> {
    let program = own_program()?;
    let mut violations = 0;
    for system in systems {
        let start = Instant::now();
        let r = replay::run(&program, *system, states, seed, fault)?;
        let name = system.name();
        for violation in &r.violations {
            println!("{name}: {violation}");
        }
        println!(
            "replay: {name}, {} states, {} of them of a second power loss, from {} block writes and {} flushes, up to {} \
             segments and {} leaves, seed {seed}, {:.1} states/s, {} violations",
            r.states,
            r.second,
            r.writes,
            r.flushes,
            r.segments,
            r.leaves,
            r.states as f64 / start.elapsed().as_secs_f64(),
            r.violations.len()
        );
        if !r.violations.is_empty() {
            println!("again: filemap-kernel replay --fs {name} --states {states} --seed {seed}");
        }
        violations += r.violations.len();
    }
    Ok(violations)
}
