//! The plan of a run as plain values: the command line without its parser.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use filemap_benches::drive::Outcome;
use filemap_benches::source::Source;

use crate::engine::{Kind, Settings};
use crate::measure::machine;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    Load,
    Reopen,
    Warm,
    Miss,
    Cold,
    Depth,
    Squeeze,
    Ycsb,
    Kill,
    Durable,
    Overwrite,
    Delete,
}

impl Workload {
    /// All of them, in the order in which a store goes through them: those that leave it as loaded
    /// come first.
    pub const ALL: [Workload; 12] = [
        Workload::Load,
        Workload::Reopen,
        Workload::Warm,
        Workload::Miss,
        Workload::Cold,
        Workload::Depth,
        Workload::Squeeze,
        Workload::Ycsb,
        Workload::Kill,
        Workload::Durable,
        Workload::Overwrite,
        Workload::Delete,
    ];

    /// Its name on the command line and in the results.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Load => "load",
            Workload::Reopen => "reopen",
            Workload::Warm => "warm",
            Workload::Miss => "miss",
            Workload::Cold => "cold",
            Workload::Depth => "depth",
            Workload::Squeeze => "squeeze",
            Workload::Ycsb => "ycsb",
            Workload::Kill => "kill",
            Workload::Durable => "durable",
            Workload::Overwrite => "overwrite",
            Workload::Delete => "delete",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Workload, String> {
        let found = Workload::ALL.into_iter().find(|workload| workload.name() == name);
        found.ok_or_else(|| format!("is one of {}", Workload::ALL.map(Workload::name).join(", ")))
    }
}

/// A run. The command line's help says what each value means.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Directory of the stores.
    pub dir: PathBuf,
    /// The corpus, or generated pages if there is none.
    pub corpus: Option<PathBuf>,
    /// Number of generated pages.
    pub pages: Option<u64>,
    /// The workloads; `load` always runs.
    pub workloads: Vec<Workload>,
    /// Numbers of the rounds.
    pub rounds: std::ops::Range<u32>,
    /// Gets of `warm` and `miss`.
    pub gets: u64,
    /// Gets of `cold`.
    pub cold_gets: u64,
    /// Gets at each depth.
    pub depth_gets: u64,
    /// Operations of each mix of `ycsb`.
    pub operations: u64,
    /// Puts of `durable` by each number of threads.
    pub durable_puts: u64,
    /// Puts before the kill, if given.
    pub kill_puts: Option<u64>,
    /// Gets of `squeeze` at each limit.
    pub squeeze_gets: u64,
    /// Threads that put and get.
    pub threads: usize,
    /// Memory for each engine's own cache.
    pub cache_bytes: u64,
    /// zstd level.
    pub level: i32,
    /// Seed of the generated pages.
    pub seed: u64,
    /// Memory cgroup for `squeeze`.
    pub cgroup: Option<String>,
    /// File that gets the results.
    pub out: PathBuf,
    /// Do not drop the page cache.
    pub keep_page_cache: bool,
    /// The run's arguments as given, for child processes.
    pub arguments: Vec<OsString>,
}

impl Plan {
    /// Puts before the kill.
    pub fn kill_puts(&self, pages: u64) -> u64 {
        self.kill_puts.unwrap_or((pages / 5).min(200_000)).max(1)
    }

    /// Most new pages that the workloads put.
    pub fn new_pages(&self, count: u64) -> u64 {
        // YCSB D inserts one in twenty; twice that is never reached by chance.
        self.operations / 10 + 1000 + 2 * self.kill_puts(count)
    }

    /// Name of the set of pages.
    pub fn set_name(&self) -> String {
        match self.pages {
            None => "corpus".into(),
            Some(pages) if pages % 1_000_000 == 0 => format!("generated-{}m", pages / 1_000_000),
            Some(pages) => format!("generated-{pages}"),
        }
    }

    /// The pages, and how many there are.
    pub fn source(&self) -> Outcome<(Source, u64)> {
        let source = Source::open(self.corpus.as_deref(), self.seed)?;
        let count = match &source {
            Source::Generated(_) => self.pages.unwrap_or(0),
            Source::Corpus(corpus) => corpus.len(),
        };
        Ok((source, count))
    }

    /// Settings of every engine.
    pub fn settings(&self) -> Settings {
        Settings {
            cache_bytes: self.cache_bytes,
            level: self.level,
            threads: self.threads,
            memory_bytes: machine::memory_bytes(),
        }
    }

    /// Directory of an engine's store during its turn.
    pub fn store_dir(&self, kind: &Kind) -> PathBuf {
        self.dir.join(format!("compare-{}", kind.name))
    }

    /// Directory of its second store, for durable puts.
    pub fn durable_dir(&self, kind: &Kind) -> PathBuf {
        self.store_dir(kind).with_extension("durable")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_workloads_are_read_back() {
        for workload in Workload::ALL {
            assert_eq!(workload.to_string().parse(), Ok(workload));
        }
        assert!("none".parse::<Workload>().unwrap_err().contains("squeeze"));
    }
}
