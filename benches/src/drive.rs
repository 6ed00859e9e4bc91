//! Puts pages into a sink from several threads and records every put's latency.
//!
//! Store and bare loop share this driver, so that their ratio comes from the same code. Making a
//! page counts in the wall time of both and in the latency of neither.
//!
//! With `explain`, every put over 1 ms is attributed by measurement: the thread's running and
//! waiting times, and the sink's own counters.

use std::error::Error;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::generate::Page;
use crate::process::{ThreadTimes, Times};
use crate::source::Source;

/// A put above this is slow and is explained, in ns.
pub const SLOW_NS: u64 = 1_000_000;
/// Pages that a thread takes at a time.
const CLAIM: u64 = 16;

/// Result of a run: any error, reported to the caller.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Destination of pages.
pub trait Sink: Sync {
    /// State of one thread, such as a compression context.
    type Lane;

    /// Called once on each thread.
    ///
    /// # Errors
    /// Whatever stops the run.
    fn lane(&self) -> Outcome<Self::Lane>;

    /// Stores one page; its duration is the latency that is recorded.
    ///
    /// # Errors
    /// Whatever stops the run.
    fn put(&self, lane: &mut Self::Lane, page: &Page) -> Outcome<()>;

    /// Puts so far that background work held up, by the sink's own count.
    fn held_up(&self) -> u64 {
        0
    }

    /// Returns whether background work is running.
    fn busy(&self) -> bool {
        false
    }
}

/// The puts of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The numbers of the pages.
    pub pages: Range<u64>,
    /// Number of threads that put.
    pub threads: usize,
    /// Pages between two marks of the time.
    pub mark_every: u64,
    /// Explain slow puts; costs about 4 us a put.
    pub explain: bool,
}

/// A put over [`SLOW_NS`].
#[derive(Debug, Clone, Copy)]
pub struct SlowPut {
    /// Since the run began.
    pub at: Duration,
    /// The put's duration in ns.
    pub latency_ns: u64,
    /// Part of it in which the thread was on a core.
    pub running_ns: u64,
    /// Part of it in which it was ready but no core was free.
    pub waiting_ns: u64,
    /// The sink counted a put held up meanwhile.
    pub held_up: bool,
    /// Part of it during the sink's background work.
    pub busy: bool,
    /// The page's size.
    pub body_bytes: usize,
}

/// Largest part of a slow put's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The sink itself held it up for growth, a checkpoint or back-pressure.
    HeldUp,
    /// Most of it was compression and copying.
    Running,
    /// Most of it was waiting for a core.
    NoCore,
    /// Most of it was blocked: a lock, or the kernel throttling writes.
    Blocked,
}

impl SlowPut {
    /// The largest part.
    #[must_use]
    pub fn cause(&self) -> Cause {
        let blocked = self.latency_ns.saturating_sub(self.running_ns + self.waiting_ns);
        if self.held_up {
            Cause::HeldUp
        } else if self.running_ns >= self.waiting_ns.max(blocked) {
            Cause::Running
        } else if self.waiting_ns >= blocked {
            Cause::NoCore
        } else {
            Cause::Blocked
        }
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct Driven {
    /// From the first put to the last one's return.
    pub wall: Duration,
    /// Pages put.
    pub pages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Latencies in ns.
    pub latency: Histogram<u64>,
    /// The same less the time for which no core was free, if asked for: what a machine with
    /// nothing else to do would have shown.
    pub with_a_core: Histogram<u64>,
    /// Start of each [`Plan::mark_every`]th page, the end last.
    pub marks: Vec<Duration>,
    /// Every put over 1 ms, if asked for.
    pub slow: Vec<SlowPut>,
}

impl Driven {
    /// Body bytes per second, in MB.
    #[must_use]
    pub fn megabytes_per_s(&self) -> f64 {
        self.body_bytes as f64 / 1e6 / self.wall.as_secs_f64()
    }

    /// Pages per second within each mark.
    #[must_use]
    pub fn pages_per_s(&self, mark_every: u64) -> Vec<f64> {
        self.marks.windows(2).map(|pair| mark_every as f64 / (pair[1] - pair[0]).as_secs_f64()).collect()
    }
}

/// A latency histogram in ns: 1 ns to an hour, three digits.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("constant bounds are valid")
}

/// State shared by the threads of a run.
struct Run<'a, S> {
    source: &'a Source,
    sink: &'a S,
    plan: &'a Plan,
    start: Instant,
    next: AtomicU64,
    held_up: AtomicU64,
    marks: Mutex<Vec<Duration>>,
}

/// Puts every page of the plan.
///
/// # Errors
/// The first error of any thread; the others stop too.
pub fn drive<S: Sink>(source: &Source, sink: &S, plan: &Plan) -> Outcome<Driven> {
    drive_reporting(source, sink, plan, &|_| Ok(()))
}

/// As [`drive`], and calls `returned` with a page's number after its put returned, on the thread
/// that put it.
///
/// # Errors
/// The first error of any thread or of `returned`; the others stop too.
pub fn drive_reporting<S: Sink>(
    source: &Source,
    sink: &S,
    plan: &Plan,
    returned: &(dyn Fn(u64) -> Outcome<()> + Sync),
) -> Outcome<Driven> {
    let run = Run {
        source,
        sink,
        plan,
        start: Instant::now(),
        next: AtomicU64::new(plan.pages.start),
        held_up: AtomicU64::new(sink.held_up()),
        marks: Mutex::new(Vec::new()),
    };
    let parts: Vec<Outcome<Driven>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads).map(|_| scope.spawn(|| run.thread(returned))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a putting thread panicked")).collect()
    });
    let mut all = run.empty();
    for part in parts {
        let part = part?;
        all.wall = all.wall.max(part.wall);
        all.pages += part.pages;
        all.body_bytes += part.body_bytes;
        all.latency.add(&part.latency)?;
        all.with_a_core.add(&part.with_a_core)?;
        all.slow.extend(part.slow);
    }
    all.marks = run.marks.into_inner().expect("no thread panicked");
    all.marks.sort_unstable();
    if (plan.pages.end - plan.pages.start).is_multiple_of(plan.mark_every) {
        all.marks.push(all.wall);
    }
    Ok(all)
}

impl<S: Sink> Run<'_, S> {
    fn empty(&self) -> Driven {
        Driven {
            wall: Duration::ZERO,
            pages: 0,
            body_bytes: 0,
            latency: histogram(),
            with_a_core: histogram(),
            marks: Vec::new(),
            slow: Vec::new(),
        }
    }

    fn thread(&self, returned: &dyn Fn(u64) -> Outcome<()>) -> Outcome<Driven> {
        let mut own = self.empty();
        let result = self.claim_and_put(&mut own, returned);
        if result.is_err() {
            self.next.store(self.plan.pages.end, Ordering::Relaxed);
        }
        own.wall = self.start.elapsed();
        result.map(|()| own)
    }

    fn claim_and_put(&self, own: &mut Driven, returned: &dyn Fn(u64) -> Outcome<()>) -> Outcome<()> {
        let mut lane = self.sink.lane()?;
        let times = if self.plan.explain { Some(ThreadTimes::of_this_thread()?) } else { None };
        let mut page = Page::default();
        loop {
            let first = self.next.fetch_add(CLAIM, Ordering::Relaxed);
            if first >= self.plan.pages.end {
                return Ok(());
            }
            for number in first..(first + CLAIM).min(self.plan.pages.end) {
                self.source.page(number, &mut page);
                if (number - self.plan.pages.start).is_multiple_of(self.plan.mark_every) {
                    self.marks.lock().expect("no thread panicked").push(self.start.elapsed());
                }
                self.put(own, &mut lane, &page, times.as_ref())?;
                returned(number)?;
            }
        }
    }

    fn put(&self, own: &mut Driven, lane: &mut S::Lane, page: &Page, times: Option<&ThreadTimes>) -> Outcome<()> {
        let before = times.map(ThreadTimes::read).transpose()?;
        let begun = Instant::now();
        self.sink.put(lane, page)?;
        let latency_ns = begun.elapsed().as_nanos() as u64;
        own.latency.record(latency_ns)?;
        own.pages += 1;
        own.body_bytes += page.body.len() as u64;
        if let (Some(times), Some(before)) = (times, before) {
            let after = times.read()?;
            own.with_a_core.record(latency_ns.saturating_sub(after.waiting_ns - before.waiting_ns).max(1))?;
            if latency_ns > SLOW_NS {
                own.slow.push(self.explain(page, latency_ns, before, after));
            }
        }
        Ok(())
    }

    fn explain(&self, page: &Page, latency_ns: u64, before: Times, after: Times) -> SlowPut {
        let held_up = self.sink.held_up();
        SlowPut {
            at: self.start.elapsed(),
            latency_ns,
            running_ns: after.running_ns - before.running_ns,
            waiting_ns: after.waiting_ns - before.waiting_ns,
            // Another thread's put may be the one that was counted: this errs against the sink.
            held_up: self.held_up.swap(held_up, Ordering::Relaxed) != held_up,
            busy: self.sink.busy(),
            body_bytes: page.body.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[derive(Default)]
    struct Pile(Mutex<HashSet<Vec<u8>>>);

    impl Sink for Pile {
        type Lane = ();
        fn lane(&self) -> Outcome<()> {
            Ok(())
        }
        fn put(&self, (): &mut (), page: &Page) -> Outcome<()> {
            if page.url.ends_with(b"-700") {
                std::thread::sleep(Duration::from_millis(3));
            }
            assert!(self.0.lock().unwrap().insert(page.url.clone()));
            Ok(())
        }
    }

    #[test]
    fn every_page_is_put_once_and_a_slow_put_is_explained() {
        let source = Source::open(None, 1).unwrap();
        let pile = Pile::default();
        let plan = Plan { pages: 100..1100, threads: 2, mark_every: 100, explain: true };
        let reported = AtomicU64::new(0);
        let driven = drive_reporting(&source, &pile, &plan, &|number| {
            reported.fetch_add(number, Ordering::Relaxed);
            Ok(())
        });
        let driven = driven.unwrap();
        assert_eq!(pile.0.into_inner().unwrap().len(), 1000);
        assert_eq!((driven.pages, driven.latency.len()), (1000, 1000));
        assert_eq!(reported.into_inner(), (100..1100).sum::<u64>());
        assert_eq!(driven.pages_per_s(100).len(), 10);
        assert!(driven.slow.len() as u64 >= driven.latency.count_between(SLOW_NS * 2, u64::MAX / 2));
    }

    #[test]
    fn a_slow_put_is_laid_to_what_took_the_most_of_it() {
        let put = |running_ns, waiting_ns, held_up| SlowPut {
            at: Duration::ZERO,
            latency_ns: 10,
            running_ns,
            waiting_ns,
            held_up,
            busy: false,
            body_bytes: 0,
        };
        assert_eq!(put(6, 1, false).cause(), Cause::Running);
        assert_eq!(put(1, 6, false).cause(), Cause::NoCore);
        assert_eq!(put(1, 1, false).cause(), Cause::Blocked);
        assert_eq!(put(6, 1, true).cause(), Cause::HeldUp);
    }

    #[test]
    fn an_error_of_one_thread_stops_the_run() {
        struct Broken;
        impl Sink for Broken {
            type Lane = ();
            fn lane(&self) -> Outcome<()> {
                Ok(())
            }
            fn put(&self, (): &mut (), _: &Page) -> Outcome<()> {
                Err("full".into())
            }
        }
        let source = Source::open(None, 1).unwrap();
        let plan = Plan { pages: 0..u64::MAX / 2, threads: 2, mark_every: 1 << 20, explain: false };
        assert_eq!(drive(&source, &Broken, &plan).unwrap_err().to_string(), "full");
    }
}
