//! `get`: random gets from a store that `load` made: nothing cached, address.idx cached, warm.
//!
//! Every body is compared. Device reads are the device's own count, so anything else that reads
//! from the disk counts against the store.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use filemap_benches::device::{Device, drop_caches, read_into_cache};
use filemap_benches::drive::{Outcome, histogram};
use filemap_benches::generate::Page;
use filemap_benches::process::device_read_bytes;
use filemap_benches::random::Random;
use filemap_benches::report::{Bar, Report};
use filemap_benches::source::Source;
use filemap_core::{Record, Store};
use hdrhistogram::Histogram;

use crate::puts::PutArgs;
use crate::store::{self, Log, StoreArgs};

/// Numbers from here on are never stored: their URLs are absent.
const ABSENT: u64 = 1 << 40;

/// Arguments of `fm-bench get`.
#[derive(Args)]
pub struct GetArgs {
    /// The store; it holds pages 0 to --pages
    dir: PathBuf,
    /// Random gets in each state
    #[arg(long, default_value_t = 10_000)]
    gets: u64,
    /// Also put this many random pages again into the cold store, and sync
    #[arg(long, default_value_t = 0)]
    puts: u64,
    /// Also get by get_many with this many keys a call
    #[arg(long)]
    batch: Option<usize>,
    /// States to measure
    #[arg(long, value_delimiter = ',', default_value = "cold,index,warm")]
    states: Vec<State>,
    /// Seed of the choice of pages
    #[arg(long, default_value_t = 99)]
    choice: u64,
    #[command(flatten)]
    put: PutArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Content of the page cache when the gets begin.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    /// Nothing
    Cold,
    /// address.idx
    Index,
    /// Whatever the same gets left there just before
    Warm,
}

impl State {
    fn words(self) -> &'static str {
        match self {
            State::Cold => "nothing cached",
            State::Index => "address.idx cached",
            State::Warm => "all cached",
        }
    }

    /// Target of device reads a get: hit, absent.
    fn bars(self) -> (f64, f64) {
        match self {
            State::Cold => (2.0, 1.0),
            State::Index => (1.05, 0.0),
            State::Warm => (0.0, 0.0),
        }
    }
}

struct Measured {
    seconds: f64,
    reads: u64,
    read_bytes: u64,
    own_read_bytes: u64,
    latency: Histogram<u64>,
    wrong: u64,
}

struct Bench<'a> {
    args: &'a GetArgs,
    source: Source,
    device: Device,
    pages: u64,
}

pub fn run(args: &GetArgs) -> Outcome<Report> {
    let source = args.put.source()?;
    let pages = args.put.plan(&source, 0).pages.end;
    let bench = Bench { args, source, device: Device::of(&args.dir)?, pages };
    let mut report = Report::default();
    for state in &args.states {
        bench.state(*state, &mut report)?;
    }
    if args.puts > 0 {
        bench.puts(&mut report)?;
    }
    Ok(report)
}

impl Bench<'_> {
    fn state(&self, state: State, report: &mut Report) -> Outcome<()> {
        report.section(format!("{} gets of {} pages, {}", self.args.gets, self.pages, state.words()));
        let (hit_bar, miss_bar) = state.bars();
        for (name, absent, bar) in [("hit", 0, hit_bar), ("miss", ABSENT, miss_bar)] {
            let store = self.open(state, absent, report, name)?;
            let measured = self.gets(&store, absent)?;
            let gets = self.args.gets as f64;
            report.number(format!("{name}: time"), measured.seconds, "s");
            report.against(format!("{name}: device reads per get"), measured.reads as f64 / gets, "", Bar::AtMost(bar));
            report.number(format!("{name}: device bytes per get"), measured.read_bytes as f64 / gets, "B");
            report.number(format!("{name}: of this process"), measured.own_read_bytes as f64 / gets, "B");
            report.latencies(name, &measured.latency);
            report.against(format!("{name}: wrong answers"), measured.wrong as f64, "", Bar::AtMost(0.0));
            if let (Some(batch), "hit") = (self.args.batch, name) {
                drop(store);
                self.batches(batch, state, report)?;
            }
        }
        Ok(())
    }

    /// Opens the store with the page cache in that state.
    fn open(&self, state: State, absent: u64, report: &mut Report, name: &str) -> Outcome<Store> {
        if state != State::Warm {
            drop_caches()?;
        }
        let begun = Instant::now();
        let store = Store::open(&self.args.dir, store::options(&self.args.put, &self.args.store, &Log::new()))?;
        report.number(format!("{name}: open"), begun.elapsed().as_secs_f64() * 1e3, "ms");
        match state {
            State::Cold => {}
            State::Index => {
                read_into_cache(&self.args.dir.join("address.idx"))?;
            }
            State::Warm => {
                self.gets(&store, absent)?;
            }
        }
        self.device.settle()?;
        Ok(store)
    }

    fn gets(&self, store: &Store, absent: u64) -> Outcome<Measured> {
        let mut random = Random::of(self.args.choice, 0);
        let mut latency = histogram();
        let mut page = Page::default();
        let mut wrong = 0;
        let (traffic, own) = (self.device.traffic()?, device_read_bytes()?);
        let begun = Instant::now();
        for _ in 0..self.args.gets {
            let number = random.below(self.pages);
            self.source.page(number | absent, &mut page);
            let asked = Instant::now();
            let found = store.get(&page.url)?;
            latency.record(asked.elapsed().as_nanos() as u64)?;
            let right = match found {
                Some(value) => absent == 0 && value.body == page.body,
                None => absent != 0,
            };
            wrong += u64::from(!right);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let after = self.device.traffic()?.since(traffic);
        let own_read_bytes = device_read_bytes()? - own;
        Ok(Measured { seconds, reads: after.reads, read_bytes: after.read_bytes, own_read_bytes, latency, wrong })
    }

    fn batches(&self, batch: usize, state: State, report: &mut Report) -> Outcome<()> {
        let store = self.open(state, 0, &mut Report::default(), "batch")?;
        let mut random = Random::of(self.args.choice, 0);
        let mut pages = vec![Page::default(); batch];
        let traffic = self.device.traffic()?;
        let (mut wrong, mut gets, mut seconds) = (0u64, 0u64, 0.0);
        while gets < self.args.gets {
            for page in &mut pages {
                self.source.page(random.below(self.pages), page);
            }
            let keys: Vec<&[u8]> = pages.iter().map(|page| page.url.as_slice()).collect();
            let asked = Instant::now();
            let found = store.get_many(&keys)?;
            seconds += asked.elapsed().as_secs_f64();
            for (page, value) in pages.iter().zip(found) {
                wrong += u64::from(value.is_none_or(|value| value.body != page.body));
            }
            gets += batch as u64;
        }
        let reads = self.device.traffic()?.since(traffic).reads;
        report.number(format!("get_many of {batch}: gets per second"), gets as f64 / seconds, "");
        report.number(format!("get_many of {batch}: device reads per get"), reads as f64 / gets as f64, "");
        report.against(format!("get_many of {batch}: wrong answers"), wrong as f64, "", Bar::AtMost(0.0));
        Ok(())
    }

    /// Puts random pages again, as new versions.
    fn puts(&self, report: &mut Report) -> Outcome<()> {
        report.section(format!("{} puts of random pages, nothing cached", self.args.puts));
        let store = self.open(State::Cold, 0, report, "put")?;
        let mut random = Random::of(self.args.choice, 1);
        let mut page = Page::default();
        let mut latency = histogram();
        let traffic = self.device.traffic()?;
        let begun = Instant::now();
        for _ in 0..self.args.puts {
            self.source.page(random.below(self.pages), &mut page);
            let asked = Instant::now();
            store.put(&Record::new(&page.url, &page.body).time(page.time_ms))?;
            latency.record(asked.elapsed().as_nanos() as u64)?;
        }
        store.sync()?;
        report.number("put: time until durable", begun.elapsed().as_secs_f64(), "s");
        report.latencies("put", &latency);
        store.close()?;
        report.number("put: time until closed", begun.elapsed().as_secs_f64(), "s");
        let after = self.device.traffic()?.since(traffic);
        report.number("put: device reads per put, close included", after.reads as f64 / self.args.puts as f64, "");
        report.number("put: device bytes written per put", after.written_bytes as f64 / self.args.puts as f64, "B");
        Ok(())
    }
}
