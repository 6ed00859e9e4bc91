//! The store as a sink for pages, and a watch over its growth.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use filemap::PageStore;
use filemap_benches::bare::SyncEvery;
use filemap_benches::drive::{Outcome, Sink};
use filemap_benches::generate::Page;
use filemap_core::dictionaries::Dictionaries;
use filemap_core::{Durability, Event, Options, Record, Store};

use crate::puts::PutArgs;

/// Options of the store that a run may change.
#[derive(Args, Clone)]
pub struct StoreArgs {
    /// Bytes of value log between checkpoints, in MiB [default: the store's own]
    #[arg(long)]
    checkpoint_mib: Option<u64>,
    /// Bound of the memtable, in MiB [default: the store's own]
    #[arg(long)]
    memtable_mib: Option<usize>,
    /// Unwritten bytes of value log before the store syncs by itself, in MiB [default: the store's
    /// own]
    #[arg(long)]
    writeback_mib: Option<u64>,
    /// Compress without dictionaries
    #[arg(long)]
    no_dictionaries: bool,
    /// Print the store's background work to stderr
    #[arg(long)]
    events: bool,
}

/// The engine's options for a run; `log` gets the background events.
pub fn options(put: &PutArgs, store: &StoreArgs, log: &Arc<Log>) -> Options {
    let durability = match put.durability {
        SyncEvery::Never => Durability::Buffered,
        SyncEvery::Put => Durability::Sync,
        SyncEvery::Interval(interval) => Durability::Interval(interval),
    };
    let (log, print) = (Arc::clone(log), store.events);
    let mut options = Options::new().durability(durability).compression_level(put.level).dictionary_group(site);
    if store.no_dictionaries {
        options = options.dictionaries(Dictionaries::Off);
    }
    if let Some(mib) = store.checkpoint_mib {
        options = options.checkpoint_bytes(mib << 20);
    }
    if let Some(mib) = store.memtable_mib {
        options = options.memtable_bytes(mib << 20);
    }
    if let Some(mib) = store.writeback_mib {
        options = options.writeback_bytes(mib << 20);
    }
    options.on_event(move |event| log.hear(event, print))
}

/// Scheme and host of a URL, as the page store groups its keys.
pub fn site(key: &[u8]) -> &[u8] {
    let end = key.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).nth(2);
    end.map_or(b"", |end| &key[..end])
}

/// Background events of the store.
#[derive(Debug)]
pub struct Log {
    start: Instant,
    checkpointing: AtomicBool,
    events: Mutex<Vec<(Duration, String)>>,
    recovered: Mutex<Option<String>>,
}

impl Log {
    pub fn new() -> Arc<Log> {
        Arc::new(Log {
            start: Instant::now(),
            checkpointing: AtomicBool::new(false),
            events: Mutex::new(Vec::new()),
            recovered: Mutex::new(None),
        })
    }

    fn hear(&self, event: &Event, print: bool) {
        match event {
            Event::CheckpointStarted { .. } => self.checkpointing.store(true, Ordering::Relaxed),
            Event::CheckpointFinished { .. } => self.checkpointing.store(false, Ordering::Relaxed),
            Event::Recovered(_) => *self.recovered.lock().expect("no listener panicked") = Some(event.to_string()),
            _ => {}
        }
        let at = self.start.elapsed();
        if print {
            eprintln!("{:9.3} s  {event}", at.as_secs_f64());
        }
        self.events.lock().expect("no listener panicked").push((at, event.to_string()));
    }

    /// The event of a recovery, if there was one.
    pub fn recovered(&self) -> Option<String> {
        self.recovered.lock().expect("no listener panicked").clone()
    }

    /// Number of events of a kind, by the first word of their text.
    pub fn count(&self, word: &str) -> u64 {
        let events = self.events.lock().expect("no listener panicked");
        events.iter().filter(|(_, event)| event.starts_with(word)).count() as u64
    }
}

/// A store under load.
pub struct Loading<'a> {
    pub store: &'a Store,
    pub log: &'a Log,
}

impl Sink for Loading<'_> {
    type Lane = ();

    fn lane(&self) -> Outcome<()> {
        Ok(())
    }

    fn put(&self, (): &mut (), page: &Page) -> Outcome<()> {
        self.store.put(&Record::new(&page.url, &page.body).time(page.time_ms))?;
        Ok(())
    }

    fn held_up(&self) -> u64 {
        let stats = self.store.stats();
        stats.puts_over_1ms_by_checkpoint + stats.slow_downs
    }

    fn busy(&self) -> bool {
        self.log.checkpointing.load(Ordering::Relaxed)
    }
}

/// A store of pages under load.
pub struct LoadingPages<'a> {
    pub pages: &'a PageStore,
    /// Its engine.
    pub plain: Loading<'a>,
}

impl Sink for LoadingPages<'_> {
    type Lane = ();

    fn lane(&self) -> Outcome<()> {
        Ok(())
    }

    fn put(&self, (): &mut (), page: &Page) -> Outcome<()> {
        let mut described = filemap::Page::new(page.url.as_slice(), page.time_ms, 200, Vec::<u8>::new());
        described.headers.push("Content-Type", "text/html");
        self.pages.put_page_of(&described, &page.body)?;
        Ok(())
    }

    fn held_up(&self) -> u64 {
        self.plain.held_up()
    }

    fn busy(&self) -> bool {
        self.plain.busy()
    }
}

/// Bytes of address.idx per key in it.
#[derive(Debug, Clone, Copy)]
pub struct IndexSample {
    pub keys: u64,
    pub index_bytes: u64,
}

/// Samples the index from a separate thread while the store grows.
pub struct GrowthWatch {
    samples: Arc<Mutex<Vec<IndexSample>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl GrowthWatch {
    pub fn start(store: &Store) -> GrowthWatch {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (store, samples_too, stop_too) = (store.clone(), Arc::clone(&samples), Arc::clone(&stop));
        let seen = AtomicU64::new(0);
        let thread = std::thread::spawn(move || {
            while !stop_too.load(Ordering::Relaxed) {
                if let Some(sample) = index_sample(&store)
                    && seen.swap(sample.keys, Ordering::Relaxed) != sample.keys
                {
                    samples_too.lock().expect("no sampler panicked").push(sample);
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        GrowthWatch { samples, stop, thread: Some(thread) }
    }

    /// The samples so far, oldest first.
    pub fn samples(&self) -> Vec<IndexSample> {
        self.samples.lock().expect("no sampler panicked").clone()
    }
}

impl Drop for GrowthWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keys that the index holds (those in the memtable are not in it yet) and how long its file is.
fn index_sample(store: &Store) -> Option<IndexSample> {
    let keys = store.stats().indexed_keys;
    let index_bytes = std::fs::metadata(store.path().join("address.idx")).ok()?.len();
    Some(IndexSample { keys, index_bytes })
}

/// The mean of bytes per key over growth from `from` to `to` keys, each key count weighing the
/// same.
pub fn mean_bytes_per_key(samples: &[IndexSample], from: u64, to: u64) -> Option<f64> {
    let (mut sum, mut keys) = (0.0, 0);
    for pair in samples.windows(2) {
        let (low, high) = (pair[0].keys.clamp(from, to), pair[1].keys.clamp(from, to));
        if high > low && pair[1].keys > 0 {
            sum += pair[1].index_bytes as f64 / pair[1].keys as f64 * (high - low) as f64;
            keys += high - low;
        }
    }
    (keys > 0).then(|| sum / keys as f64)
}

/// Bytes of the segments of a log, `value` or `key`.
pub fn log_bytes(dir: &Path, log: &str) -> Outcome<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(log) {
            total += entry.metadata()?.len();
        }
    }
    Ok(total)
}

/// A directory's size by kind of file, for the report.
pub fn file_bytes(dir: &Path, name: &str) -> u64 {
    let path: PathBuf = dir.join(name);
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
