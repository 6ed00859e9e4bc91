//! One engine's turn: its store is loaded, goes through the workloads in their order, and is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use filemap_benches::device::{self, Device, Traffic};
use filemap_benches::drive::Outcome;
use filemap_benches::source::Source;

use crate::cli::RunArgs;
use crate::engine::{self, Engine, Kind, Purpose, Settings};
use crate::lines::Lines;
use crate::machine;
use crate::pages::Pages;
use crate::usage::Memory;
use crate::workload::{self, Workload};

/// Exit code of a turn that wrote lines of failure.
pub const FAILED: i32 = 3;

/// Arguments of a turn: those of the run, and whose turn it is.
#[derive(Args)]
pub struct TurnArgs {
    #[arg(long)]
    engine: String,
    #[arg(long)]
    round: u32,
    #[command(flatten)]
    run: RunArgs,
}

/// What the workloads of a turn share.
pub struct Turn<'a> {
    /// What to run.
    pub args: &'a RunArgs,
    /// Which engine.
    pub kind: &'static Kind,
    /// How it is set up.
    pub settings: Settings,
    /// The pages and their versions.
    pub pages: Pages,
    /// Where results go.
    pub lines: Lines,
    /// The device under the store, if it has counters.
    pub device: Option<Device>,
    /// The engine's directory.
    pub dir: PathBuf,
    /// This process's memory before there was any store.
    pub baseline: Memory,
    store: Option<Box<dyn Engine>>,
}

impl Settings {
    /// As the command line says.
    pub fn of(args: &RunArgs) -> Settings {
        Settings {
            cache_bytes: args.cache_bytes,
            level: args.level,
            threads: args.threads,
            memory_bytes: machine::memory_bytes(),
        }
    }
}

/// Where an engine's store lies during its turn.
pub fn store_dir(args: &RunArgs, kind: &Kind) -> PathBuf {
    args.dir.join(format!("compare-{}", kind.name))
}

/// Where its store of durable puts lies meanwhile.
pub fn durable_dir(args: &RunArgs, kind: &Kind) -> PathBuf {
    store_dir(args, kind).with_extension("durable")
}

/// The run's own arguments, out of those of the turn: the run puts `turn`, the engine and the round before them.
pub fn run_arguments() -> impl Iterator<Item = std::ffi::OsString> {
    std::env::args_os().skip(6)
}

/// The name of the set of pages.
pub fn set_name(args: &RunArgs) -> String {
    match args.pages {
        None => "corpus".into(),
        Some(pages) if pages % 1_000_000 == 0 => format!("generated-{}m", pages / 1_000_000),
        Some(pages) => format!("generated-{pages}"),
    }
}

/// Runs the turn.
pub fn run(args: &TurnArgs) -> Outcome<ExitCode> {
    let (run, kind) = (&args.run, engine::kind(&args.engine)?);
    let source = Source::open(run.corpus.as_deref(), run.seed)?;
    let count = match &source {
        Source::Generated(_) => run.pages.unwrap_or(0),
        Source::Corpus(corpus) => corpus.len(),
    };
    let lines = Lines::new(&run.out, kind.name, set_name(run), count, args.round)?;
    if count > kind.can.pages_max {
        let why = format!("takes at most {} pages", kind.can.pages_max);
        lines.skipped("load", &why)?;
        return Ok(ExitCode::SUCCESS);
    }
    let dir = store_dir(run, kind);
    if dir.exists() {
        // Left by a turn that broke off.
        fs::remove_dir_all(&dir)?;
    }
    let room = workload::new_pages(run, count);
    let mut turn = Turn {
        args: run,
        kind,
        settings: Settings::of(run),
        pages: Pages::new(source, count, room),
        lines,
        device: Device::of(&run.dir).and_then(|device| device.traffic().map(|_| device)).ok(),
        dir,
        baseline: Memory::now()?,
        store: None,
    };
    turn.work()
}

impl Turn<'_> {
    fn work(&mut self) -> Outcome<ExitCode> {
        for workload in Workload::ALL {
            if workload != Workload::Load && !self.args.workloads.contains(&workload) {
                continue;
            }
            let begun = Instant::now();
            let ran = workload.run(self);
            eprintln!("{:>14} {workload:<10} took {:.1} s", self.kind.name, begun.elapsed().as_secs_f64());
            if let Err(error) = ran {
                self.lines.failure(workload.name(), &error.to_string())?;
                // The store may be in any state now.
                break;
            }
        }
        if let Some(store) = self.store.take()
            && let Err(error) = store.close()
        {
            self.lines.failure("close", &error.to_string())?;
        }
        Ok(if self.lines.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED as u8) })
    }

    /// The open store.
    pub fn engine(&self) -> Outcome<&dyn Engine> {
        Ok(self.store.as_deref().ok_or("the store is not open")?)
    }

    /// The open store, alone.
    pub fn engine_mut(&mut self) -> Outcome<&mut Box<dyn Engine>> {
        Ok(self.store.as_mut().ok_or("the store is not open")?)
    }

    /// Opens the store, or makes it.
    pub fn open(&mut self, purpose: Purpose) -> Outcome<()> {
        self.store = Some((self.kind.open)(&self.dir, &self.settings, purpose)?);
        Ok(())
    }

    /// Closes it.
    pub fn close(&mut self) -> Outcome<()> {
        self.store.take().map_or(Ok(()), |store| store.close())
    }

    /// Closes it and opens it again. An engine that cannot stays as it is.
    pub fn reopen(&mut self, purpose: Purpose) -> Outcome<()> {
        if !self.kind.can.reopen {
            return Ok(());
        }
        self.close()?;
        self.open(purpose)
    }

    /// Opens the store again with nothing in the page cache but the files that `warm` accepts.
    pub fn reopen_cold(&mut self, warm: Option<fn(&str) -> bool>) -> Outcome<()> {
        if self.kind.can.reopen {
            self.close()?;
        }
        self.drop_caches()?;
        if let Some(warm) = warm {
            warm_files(&self.dir, &self.dir, warm)?;
        }
        if self.kind.can.reopen {
            self.open(Purpose::Use)?;
        }
        self.settle()
    }

    /// Empties the kernel's caches, unless the run keeps them.
    pub fn drop_caches(&self) -> Outcome<()> {
        if self.args.keep_page_cache { Ok(()) } else { Ok(device::drop_caches()?) }
    }

    /// Writes out what the file system holds back.
    pub fn settle(&self) -> Outcome<()> {
        self.device.as_ref().map_or(Ok(()), |device| Ok(device.settle()?))
    }

    /// The device's counters now, with everything written out.
    pub fn traffic(&self) -> Outcome<Option<Traffic>> {
        self.settle()?;
        Ok(self.device.as_ref().map(Device::traffic).transpose()?)
    }

    /// Bytes written since a reading.
    pub fn written_since(&self, before: Option<Traffic>) -> Outcome<Option<u64>> {
        let now = self.traffic()?;
        Ok(before.zip(now).map(|(before, now)| now.since(before).written_bytes))
    }
}

fn warm_files(root: &Path, dir: &Path, accepts: fn(&str) -> bool) -> Outcome<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            warm_files(root, &path, accepts)?;
        } else if accepts(&path.strip_prefix(root)?.to_string_lossy()) {
            device::read_into_cache(&path)?;
        }
    }
    Ok(())
}
