//! Arguments of every run that puts: which pages, and how.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use filemap_benches::bare::SyncEvery;
use filemap_benches::drive::{Outcome, Plan};
use filemap_benches::source::Source;

/// Source of the pages and mode of the puts.
#[derive(Args, Clone)]
pub struct PutArgs {
    /// Pages to put [default: a million, or the whole corpus once]
    #[arg(long)]
    pub pages: Option<u64>,
    /// Put the corpus in this directory (made by benches/corpus.sh), not generated pages
    #[arg(long)]
    pub corpus: Option<PathBuf>,
    /// Seed of the generated pages
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Threads that put
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// zstd level
    #[arg(long, default_value_t = 1)]
    pub level: i32,
    /// `buffered`, `sync`, or milliseconds between syncs
    #[arg(long, default_value = "1000", value_parser = durability)]
    pub durability: SyncEvery,
    /// Explain every put over 1 ms; costs some 4 us a put
    #[arg(long)]
    pub explain: bool,
    /// Pages between two measurements of throughput
    #[arg(long, default_value_t = 1_000_000)]
    pub mark_every: u64,
}

impl PutArgs {
    /// The pages.
    pub fn source(&self) -> Outcome<Source> {
        Ok(Source::open(self.corpus.as_deref(), self.seed)?)
    }

    /// The pages to put, and the mode of the puts.
    pub fn plan(&self, source: &Source, first: u64) -> Plan {
        let pages = self.pages.unwrap_or(match source {
            Source::Generated(_) => 1_000_000,
            Source::Corpus(corpus) => corpus.len(),
        });
        Plan { pages: first..pages, threads: self.threads, mark_every: self.mark_every, explain: self.explain }
    }
}

fn durability(text: &str) -> Result<SyncEvery, String> {
    match text {
        "buffered" => Ok(SyncEvery::Never),
        "sync" => Ok(SyncEvery::Put),
        ms => ms
            .parse()
            .map(|ms| SyncEvery::Interval(Duration::from_millis(ms)))
            .map_err(|_| "is `buffered`, `sync` or a number of milliseconds".into()),
    }
}
