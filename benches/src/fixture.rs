//! Stores for micro benches: built once a run, in a directory that is removed afterwards.
//!
//! `FM_BENCH_KEYS` is the number of keys (default ten million), `FM_BENCH_DIR` the place (default
//! the system's temporary directory, which should be on a disk).

use std::path::{Path, PathBuf};

use filemap_core::{Options, Record, Store};

use crate::drive::{Outcome, Plan, Sink, drive};
use crate::generate::{Generator, Page};
use crate::random::Random;
use crate::source::Source;

/// The seed of every micro bench.
pub const SEED: u64 = 1;

/// A store and its directory.
pub struct Fixture {
    store: Option<Store>,
    dir: PathBuf,
}

/// Number of keys that the benches are asked to use.
///
/// # Panics
/// If `FM_BENCH_KEYS` is not a number.
#[must_use]
pub fn keys() -> u64 {
    std::env::var("FM_BENCH_KEYS").map_or(10_000_000, |keys| keys.replace('_', "").parse().expect("FM_BENCH_KEYS"))
}

/// Puts a page of the size that the bench wants, whatever the generator's size was.
struct Sized<'a> {
    store: &'a Store,
    body_bytes: usize,
}

impl Sink for Sized<'_> {
    type Lane = ();

    fn lane(&self) -> Outcome<()> {
        Ok(())
    }

    fn put(&self, (): &mut (), page: &Page) -> Outcome<()> {
        self.store
            .put(&Record::new(&page.url, &page.body[..self.body_bytes.min(page.body.len())]).time(page.time_ms))?;
        Ok(())
    }
}

impl Fixture {
    /// An empty store.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn empty(name: &str) -> Outcome<Fixture> {
        let parent = std::env::var_os("FM_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let dir = parent.join(format!("fm-bench-{name}-{}", std::process::id()));
        let store = Store::create(&dir, Options::new())?;
        Ok(Fixture { store: Some(store), dir })
    }

    /// A store of the first `keys` generated pages, each cut to `body_bytes`, all of them merged
    /// into the index.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub fn loaded(name: &str, keys: u64, body_bytes: usize) -> Outcome<Fixture> {
        let fixture = Fixture::empty(name)?;
        let source = Source::open(None, SEED)?;
        let plan = Plan { pages: 0..keys, threads: 2, mark_every: keys, explain: false };
        drive(&source, &Sized { store: fixture.store(), body_bytes }, &plan)?;
        fixture.store().checkpoint()?;
        Ok(fixture)
    }

    /// The store.
    ///
    /// # Panics
    /// Never: it is there until the fixture is dropped.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.store.as_ref().expect("there until dropped")
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.store.take());
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// URLs of random pages among `first..first + keys`, to be asked for in turn: making them is not
/// part of a bench.
#[must_use]
pub fn random_urls(first: u64, keys: u64, count: usize) -> Vec<Vec<u8>> {
    let generator = Generator::new(SEED);
    let mut random = Random::of(SEED, u64::MAX);
    let url = |_| {
        let mut url = Vec::new();
        generator.url(first + random.below(keys), &mut url);
        url
    };
    (0..count).map(url).collect()
}
