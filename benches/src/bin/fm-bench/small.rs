//! `small`: many keys with small records: what a page costs as a store grows. Loads, overwrites in
//! random order, removes, compacts, gets; bytes written beside bytes of log.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use filemap_benches::device::{Device, directory_bytes, drop_caches};
use filemap_benches::drive::Outcome;
use filemap_benches::process::{MemoryWatch, device_written_bytes};
use filemap_benches::report::{Bar, Report};
use filemap_core::list::KeyOrder;
use filemap_core::{Options, Record, Stats, Store};
use hdrhistogram::Histogram;

/// Bytes of a page of address.idx.
const INDEX_PAGE_BYTES: u64 = 4096;

/// Arguments of `fm-bench small`.
#[derive(Args)]
pub struct SmallArgs {
    /// The store to create
    dir: PathBuf,
    /// Keys
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// Bytes of a body
    #[arg(long, default_value_t = 16)]
    body: usize,
    /// Threads that put
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Cold gets, of each kind
    #[arg(long, default_value_t = 20_000)]
    gets: u64,
    /// The last part before the gets
    #[arg(long, value_enum, default_value_t = Until::Compaction)]
    until: Until,
    /// Keep the keys in the order of their bytes, too
    #[arg(long)]
    in_order: bool,
    /// Compact to this space amplification at the end
    #[arg(long, default_value_t = 1.05)]
    bound: f64,
}

/// Parts of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Until {
    Load,
    Overwriting,
    Compaction,
}

struct Small<'a> {
    args: &'a SmallArgs,
    store: Store,
    peak_bytes: u64,
}

/// Result of one part of the run.
struct Part {
    elapsed: Duration,
    cost: Cost,
    waiting: u64,
    device_bytes: u64,
    latency: Histogram<u64>,
}

fn options(in_order: bool) -> Options {
    let options = Options::new().keep_versions(Some(1)).compression_level(0);
    let same = |bytes: &[u8], out: &mut Vec<u8>| out.extend_from_slice(bytes);
    let back = |bytes: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(bytes);
        true
    };
    let order = KeyOrder { name: "bytes", ordered: same, key: back, groups: None };
    if in_order { options.key_order(order) } else { options }
}

fn key(number: u64) -> Vec<u8> {
    format!("http://s{:06}.example/p/{number:09}", number.wrapping_mul(0x9e37_79b9) % 1_000_000).into_bytes()
}

/// The nth of 2^k numbers below `below`, in an order that looks random; each once.
fn shuffled(nth: u64, below: u64) -> u64 {
    let bits = below.next_power_of_two().ilog2().max(2);
    let mask = (1 << bits) - 1;
    let mut at = nth;
    loop {
        // Steps that can be undone, so no two numbers meet.
        at = at.wrapping_mul(0x9e37_79b9_7f4a_7c15 | 1) & mask;
        at ^= at >> (bits / 2);
        at = at.wrapping_mul(0xbf58_476d_1ce4_e5b9 | 1) & mask;
        at ^= at >> (bits / 2);
        if at < below {
            return at;
        }
    }
}

pub fn run(args: &SmallArgs) -> Outcome<Report> {
    let memory = MemoryWatch::start()?;
    let mut report = Report::default();
    let mut small = Small { args, store: Store::create(&args.dir, options(args.in_order))?, peak_bytes: 0 };
    let rate = small.load(&mut report)?;
    if args.until >= Until::Overwriting {
        small.overwrite(&mut report, rate)?;
    }
    if args.until >= Until::Compaction {
        small.remove(&mut report)?;
        small.compact(&mut report)?;
        small.peak()?;
        report.section("files");
        report.against("greatest disk space", small.peak_bytes as f64 / 1e9, "GB", Bar::AtMost(55.0));
    }
    small.store.close()?;
    gets(args, &mut report)?;
    report.section("memory");
    report.against("greatest anonymous", memory.peak_bytes() as f64 / (1 << 20) as f64, "MiB", Bar::AtMost(512.0));
    Ok(report)
}

impl Small<'_> {
    fn load(&mut self, report: &mut Report) -> Outcome<f64> {
        let tenth = self.args.keys / 10;
        report.section(format!("load of {} keys", self.args.keys));
        let (mut rates, mut all): (Vec<f64>, Option<Part>) = (Vec::new(), None);
        for nth in 0..10 {
            let part = self.puts(nth * tenth..(nth + 1) * tenth, |n| n, nth == 9)?;
            rates.push(tenth as f64 / part.elapsed.as_secs_f64());
            let name = format!("{} %", (nth + 1) * 10);
            report.number(format!("{name}: puts"), rates[nth as usize], "1/s");
            report.number(format!("{name}: written a byte of log"), part.cost.amplification(), "");
            report.number(format!("{name}: changes that wait"), part.waiting as f64 / 1e6, "M");
            report.number(format!("{name}: greatest put"), part.latency.max() as f64 / 1e6, "ms");
            all = Some(match all {
                None => part,
                Some(mut all) => {
                    all.elapsed += part.elapsed;
                    all.device_bytes += part.device_bytes;
                    all.cost = all.cost.each(part.cost, |a, b| a + b);
                    all.latency.add(&part.latency)?;
                    all
                }
            });
        }
        let all = all.ok_or("nothing was loaded")?;
        report.against("last tenth by first", rates[9] / rates[0], "", Bar::AtLeast(0.8));
        costs(report, &all, 1.6);
        Ok(self.args.keys as f64 / all.elapsed.as_secs_f64())
    }

    fn overwrite(&mut self, report: &mut Report, load_rate: f64) -> Outcome<()> {
        report.section("a tenth of the keys put again, in random order");
        let keys = self.args.keys;
        let part = self.puts(0..keys / 10, |n| shuffled(n, keys), true)?;
        let rate = (keys / 10) as f64 / part.elapsed.as_secs_f64();
        report.number("puts", rate, "1/s");
        report.against("by the load's", rate / load_rate, "", Bar::AtLeast(0.7));
        costs(report, &part, 2.5);
        Ok(())
    }

    fn remove(&mut self, report: &mut Report) -> Outcome<()> {
        report.section("a twentieth removed");
        let (keys, begun) = (self.args.keys, Instant::now());
        for n in keys / 2..keys / 2 + keys / 20 {
            self.store.remove(&key(shuffled(n, keys)))?;
        }
        self.store.checkpoint()?;
        report.number("removes", (keys / 20) as f64 / begun.elapsed().as_secs_f64(), "1/s");
        report.count("keys", self.store.stats().indexed_keys);
        self.peak()
    }

    fn compact(&mut self, report: &mut Report) -> Outcome<()> {
        report.section("compacted");
        report.number("space amplification before", self.store.stats().space_amplification_permille as f64 / 1e3, "");
        let (begun, before) = (Instant::now(), device_written_bytes()?);
        self.store.compact()?;
        report.number("time", begun.elapsed().as_secs_f64(), "s");
        let after = self.store.stats().space_amplification_permille as f64 / 1e3;
        report.against("space amplification after", after, "", Bar::AtMost(self.args.bound));
        report.number("written", (device_written_bytes()? - before) as f64 / 1e9, "GB");
        report.number("changes that wait", self.store.stats().waiting_changes as f64 / 1e6, "M");
        Ok(())
    }

    /// Puts the keys of a range, numbered by `order`, from some threads; with a checkpoint and a
    /// sync at the end if `ends`.
    fn puts(&mut self, range: std::ops::Range<u64>, order: impl Fn(u64) -> u64 + Sync, ends: bool) -> Outcome<Part> {
        let (before, device, begun) = (Cost::of(&self.store.stats()), device_written_bytes()?, Instant::now());
        let threads = self.args.threads;
        let latencies: Vec<Histogram<u64>> = std::thread::scope(|scope| {
            let put = |thread: u64| {
                let (store, order, range, bytes) = (&self.store, &order, range.clone(), self.args.body);
                scope.spawn(move || -> Result<Histogram<u64>, String> {
                    let mut latency = Histogram::new(3).map_err(|e| e.to_string())?;
                    let mut body = vec![0; bytes];
                    for n in (range.start + thread..range.end).step_by(threads as usize) {
                        let number = order(n);
                        fill(&mut body, number ^ begun.elapsed().as_secs());
                        let (key, asked) = (key(number), Instant::now());
                        store.put(&Record::new(&key, &body)).map_err(|e| e.to_string())?;
                        latency.record(asked.elapsed().as_nanos() as u64).map_err(|e| e.to_string())?;
                    }
                    Ok(latency)
                })
            };
            let running: Vec<_> = (0..threads).map(put).collect();
            running.into_iter().map(|t| t.join().map_err(|_| "a thread panicked".to_owned())?).collect::<Result<_, _>>()
        })?;
        if ends {
            self.store.checkpoint()?;
            self.store.sync()?;
        }
        let elapsed = begun.elapsed();
        let mut latency = Histogram::new(3)?;
        for of_thread in &latencies {
            latency.add(of_thread)?;
        }
        self.peak()?;
        let stats = self.store.stats();
        let cost = Cost::of(&stats).each(before, |a, b| a - b);
        let device_bytes = device_written_bytes()? - device;
        Ok(Part { elapsed, cost, waiting: stats.waiting_changes, device_bytes, latency })
    }

    fn peak(&mut self) -> Outcome<()> {
        self.peak_bytes = self.peak_bytes.max(directory_bytes(&self.args.dir)?.1);
        Ok(())
    }
}

/// Bytes that no compression makes smaller.
fn fill(body: &mut [u8], mut seed: u64) {
    for part in body.chunks_mut(8) {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ seed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        part.copy_from_slice(&mixed.to_le_bytes()[..part.len()]);
    }
}

/// The engine's counters for one part.
#[derive(Clone, Copy, Default)]
struct Cost {
    log_bytes: u64,
    index_bytes: u64,
    checkpoints: u64,
    checkpoint_us: u64,
    slow_down_us: u64,
    syncs: u64,
}

impl Cost {
    fn of(stats: &Stats) -> Cost {
        Cost {
            log_bytes: stats.appended_bytes + stats.key_bytes_written,
            index_bytes: stats.index_pages_written * INDEX_PAGE_BYTES,
            checkpoints: stats.checkpoints,
            checkpoint_us: stats.checkpoint_us,
            slow_down_us: stats.slow_down_us,
            syncs: stats.syncs,
        }
    }

    fn each(self, other: Cost, both: impl Fn(u64, u64) -> u64) -> Cost {
        Cost {
            log_bytes: both(self.log_bytes, other.log_bytes),
            index_bytes: both(self.index_bytes, other.index_bytes),
            checkpoints: both(self.checkpoints, other.checkpoints),
            checkpoint_us: both(self.checkpoint_us, other.checkpoint_us),
            slow_down_us: both(self.slow_down_us, other.slow_down_us),
            syncs: both(self.syncs, other.syncs),
        }
    }

    /// Bytes written for a byte of value and key log.
    fn amplification(&self) -> f64 {
        1.0 + self.index_bytes as f64 / self.log_bytes as f64
    }
}

fn costs(report: &mut Report, part: &Part, bar: f64) {
    report.against("written a byte of log, by the store", part.cost.amplification(), "", Bar::AtMost(bar));
    report.number("written a byte of log, by the kernel", part.device_bytes as f64 / part.cost.log_bytes as f64, "");
    report.number("log", part.cost.log_bytes as f64 / 1e9, "GB");
    report.number("a checkpoint", part.cost.checkpoint_us as f64 / part.cost.checkpoints.max(1) as f64 / 1e3, "ms");
    report.count("checkpoints", part.cost.checkpoints);
    report.count("syncs", part.cost.syncs);
    report.number("slowed down", part.cost.slow_down_us as f64 / 1e6, "s");
    report.latencies("put", &part.latency);
}

/// Gets of keys that are there and of others, with nothing cached.
fn gets(args: &SmallArgs, report: &mut Report) -> Outcome<()> {
    let device = Device::of(&args.dir)?;
    report.section(format!("{} gets, nothing cached", args.gets));
    drop_caches()?;
    device.settle()?;
    let begun = Instant::now();
    let store = Store::open(&args.dir, options(args.in_order))?;
    report.against("open", begun.elapsed().as_secs_f64() * 1e3, "ms", Bar::AtMost(20.0));
    for (name, absent, bar) in [("hit", 0, 2.0), ("miss", args.keys, 0.02)] {
        for round in ["first", "then"] {
            device.settle()?;
            let (before, begun, mut found) = (device.traffic()?, Instant::now(), 0);
            for n in 0..args.gets {
                // Of those put again, none was removed.
                let number = shuffled(n + if round == "then" { args.gets } else { 0 }, args.keys);
                found += u64::from(store.get(&key(number + absent))?.is_some());
            }
            let seconds = begun.elapsed().as_secs_f64();
            let reads = device.traffic()?.since(before).reads;
            let name = format!("{name}, {round}");
            report.against(
                format!("{name}: device reads a get"),
                reads as f64 / args.gets as f64,
                "",
                Bar::AtMost(bar),
            );
            report.number(format!("{name}: a get"), seconds / args.gets as f64 * 1e6, "us");
            let wanted = if absent == 0 { args.gets } else { 0 };
            report.against(format!("{name}: wrong"), wanted.abs_diff(found) as f64, "", Bar::AtMost(0.0));
        }
    }
    store.close()?;
    Ok(())
}
