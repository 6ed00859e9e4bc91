//! Owners that open and leave a store over a simulated object storage that fails, loses responses
//! and is cut off. The store must hold what it held after some call: no synced call is lost, no
//! removed page returns, no call takes effect in part. The same holds after a repair from segments
//! alone. One seed decides the calls and the faults.
//!
//! The test must catch the faults that are planted in the code; otherwise it proves nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::object_store::memory::InMemory;
use filemap_cloud::{CloudOptions, CloudStore, Fault, Mode, open_on, repair_on};
use filemap_core::compact::CompactionGoal;

use crate::bucket::{Faults, Simulated};

/// Seeds in a run of the tests, and for each fault.
const SEEDS: u64 = 40;
const SEEDS_TO_CATCH: u64 = 960;
/// Threads: runs wait far more than they work.
const AT_ONCE: usize = 12;
/// Threads of a hunt, which mostly ends with one of the first seeds.
const HUNTING_AT_ONCE: usize = 6;
/// Seeds that have caught a fault, to be tried first, some more than once: the threads of a store
/// decide, too.
const CAUGHT_BEFORE: [(Fault, &[u64]); 5] = [
    (Fault::CommittedBeforeUpload, &[52, 58, 52, 58, 52, 58]),
    (Fault::OwnCollected, &[9, 11]),
    (Fault::MovedUnchecked, &[3]),
    (Fault::TombstonesDropped, &[8]),
    (Fault::SourcesUnnamed, &[36]),
];
const OWNERS: usize = 4;
const CALLS: usize = 30;
const FAULTS: Faults = Faults { fail: 15, lose: 15, delay: 300 };

/// All versions of all pages: times and bodies, by URL.
pub type Content = BTreeMap<Vec<u8>, Vec<(i64, Vec<u8>)>>;

struct Run {
    seed: u64,
    random: fastrand::Rng,
    objects: Arc<InMemory>,
    fault: Option<Fault>,
    /// True if the run has more of the steps that find a fault; also set for the run without a
    /// fault that is compared with it.
    is_hunt: bool,
    /// Permitted contents: the content at the last sync, and after each call since.
    may_be: Vec<Content>,
}

impl Run {
    fn options(&self) -> CloudOptions {
        let options = CloudOptions::new().segment_bytes(64 << 10).uploads(3).max_retries(6);
        // Rewritten segments are deleted at once, or never.
        let options = options.grace(Duration::from_secs(self.seed % 2 * 3600));
        self.fault.iter().fold(options, |options, fault| options.fault(*fault))
    }

    fn open(&self, end: &Arc<Simulated>, mode: Mode) -> filemap_cloud::Result<CloudStore> {
        open_on(Arc::clone(end) as _, "a", "the simulation", mode, &self.options())
    }

    /// Runs the whole life of a store. An error says what was lost.
    fn run(mut self) -> Result<(), String> {
        for owner in 0..OWNERS {
            if !self.is_hunt && self.random.u8(..5) == 0 {
                self.repairs(owner as u64)?;
            }
            let end = Simulated::new(Arc::clone(&self.objects), self.seed ^ (owner as u64) << 32, FAULTS);
            // Opening fails by chance: no owner in this round.
            let Ok(store) = self.open(&end, Mode::Fill) else { continue };
            self.check(&store, "opened")?;
            self.calls(&store);
            match self.random.u8(..5) {
                0 => self.cut_in_a_sync(&store, &end),
                1 => self.compacts(&store, Some(&end)),
                // It stays open, and the next one fences it.
                2 => self.fenced(&store)?,
                3 => drop(store.sync().map(|()| self.synced())),
                _ => drop(store.close().map(|()| self.synced())),
            }
        }
        self.end()
    }

    /// Repairs with faults, perhaps cut off; a second repair completes it.
    fn repairs(&self, nth: u64) -> Result<(), String> {
        let Ok(described) = self.open(&Simulated::new(Arc::clone(&self.objects), 1, Faults::default()), Mode::Read)
        else {
            // The store was not created yet.
            return Ok(());
        };
        drop(described);
        let ends = [FAULTS, Faults::default()]
            .map(|faults| Simulated::new(Arc::clone(&self.objects), self.seed ^ nth << 40, faults));
        let repair = |end: &Arc<Simulated>| repair_on(Arc::clone(end) as _, "a", "the simulation", &self.options());
        let after = Duration::from_millis(fastrand::Rng::with_seed(self.seed ^ nth).u64(..200));
        let is_done = std::thread::scope(|scope| {
            let first = scope.spawn(|| repair(&ends[0]));
            std::thread::sleep(after);
            ends[0].cut();
            first.join().expect("no panic").is_ok()
        });
        if is_done {
            return Ok(());
        }
        let second = repair(&ends[1]).map_err(|error| format!("no fault, and yet: {error}"))?;
        if second.damage.is_empty() { Ok(()) } else { Err(format!("repaired: {:?}", second.damage)) }
    }

    /// Reads all without faults, and again when only segments are left.
    fn end(&mut self) -> Result<(), String> {
        let end = Simulated::new(Arc::clone(&self.objects), 0, Faults::default());
        let fail = |error: &dyn std::fmt::Display| format!("no fault, and yet: {error}");
        let store = self.open(&end, Mode::Fill).map_err(|error| fail(&error))?;
        self.check(&store, "at the end")?;
        if self.seed.is_multiple_of(2) {
            // A segment then tells a repair what earlier ones had not committed.
            self.put(&store, "http://last.example/", 1);
        }
        store.close().map_err(|error| fail(&error))?;
        self.synced();
        let reader = self.open(&end, Mode::Read).map_err(|error| fail(&error))?;
        self.check(&reader, "to a reader")?;
        let verified = reader.verify().map_err(|error| fail(&error))?;
        if !verified.damage.is_empty() {
            return Err(format!("verified: {:?}", verified.damage));
        }
        let objects = Arc::clone(&end) as _;
        let repaired = repair_on(objects, "a", "the simulation", &self.options()).map_err(|error| fail(&error))?;
        if !repaired.damage.is_empty() {
            return Err(format!("repaired: {:?}", repaired.damage));
        }
        let store = self.open(&end, Mode::Write).map_err(|error| fail(&error))?;
        self.check(&store, "repaired")?;
        store.close().map_err(|error| fail(&error))
    }

    fn now(&self) -> Content {
        self.may_be.last().cloned().unwrap_or_default()
    }

    /// Drops the permitted contents before the last.
    fn synced(&mut self) {
        self.may_be.drain(..self.may_be.len() - 1);
    }

    fn put(&mut self, store: &CloudStore, url: &str, time_ms: i64) {
        let bytes = self.random.usize(..9000);
        let body: Vec<u8> = std::iter::repeat_with(|| self.random.u8(..)).take(bytes).collect();
        let page = Page::new(url, time_ms, 200, body.clone());
        let rule = [PutRule::Always, PutRule::IfChanged][self.random.usize(..2)];
        if store.put(&page, rule).is_ok() {
            let mut now = self.now();
            now.entry(url.as_bytes().to_vec()).or_default().push((time_ms, body));
            self.may_be.push(now);
        }
    }

    fn calls(&mut self, store: &CloudStore) {
        for call in 0..CALLS {
            let url = format!("http://{}.example/{}", self.random.usize(..3), self.random.usize(..4));
            let time_ms = i64::from(self.random.u8(..40));
            let mut now = self.now();
            match self.random.u8(..10) {
                0 => {
                    if store.remove(url.as_bytes(), None).is_ok_and(|was_there| was_there) {
                        now.remove(url.as_bytes());
                        self.may_be.push(now);
                    }
                }
                1 => {
                    // One record a version: a crash may come between two of them.
                    let of_time = |found: &(i64, Vec<u8>)| found.0 == time_ms;
                    let versions =
                        now.get(url.as_bytes()).map_or(0, |all| all.iter().filter(|one| of_time(one)).count());
                    if versions == 1 && store.remove_at(url.as_bytes(), None, time_ms).is_ok() {
                        let left = now.get_mut(url.as_bytes()).expect("it has versions");
                        left.retain(|one| !of_time(one));
                        if left.is_empty() {
                            now.remove(url.as_bytes());
                        }
                        self.may_be.push(now);
                    }
                }
                2 if call % 3 == 0 => drop(store.sync().map(|()| self.synced())),
                3 if call % 3 == 0 => self.collect(store),
                4 if call % 3 == 0 => self.compacts(store, None),
                5 if call % 6 == 0 && !self.is_hunt => {
                    // It may fail after the page is removed.
                    if now.remove(url.as_bytes()).is_some() {
                        self.may_be.push(now);
                    }
                    if store.erase_url(url.as_bytes()).is_ok() {
                        self.synced();
                    }
                }
                _ => self.put(store, &url, time_ms),
            }
        }
    }

    /// Collects during the upload of a full segment.
    fn collect(&mut self, store: &CloudStore) {
        (0..16).for_each(|nth| self.put(store, "http://full.example/", nth));
        std::thread::sleep(Duration::from_millis(self.random.u64(..30)));
        // A fault leaves an orphan, no more.
        store.collect(Duration::ZERO).ok();
    }

    fn goal(&mut self) -> CompactionGoal {
        [CompactionGoal::NoGarbage, CompactionGoal::Bound][self.random.usize(..2)]
    }

    /// Compacts during puts and removals; with a handle, until that is cut off.
    fn compacts(&mut self, store: &CloudStore, end: Option<&Arc<Simulated>>) {
        let (goal, after) = (self.goal(), Duration::from_millis(self.random.u64(..40)));
        std::thread::scope(|scope| {
            scope.spawn(|| drop(store.compact(goal)));
            scope.spawn(|| {
                std::thread::sleep(after);
                end.iter().for_each(|end| end.cut());
            });
            self.calls_beside(store);
        });
    }

    /// Cuts the handle off during the upload of a full segment and the rest.
    fn cut_in_a_sync(&mut self, store: &CloudStore, end: &Arc<Simulated>) {
        (0..16).for_each(|nth| self.put(store, "http://cut.example/", nth));
        let after = Duration::from_millis(self.random.u64(..20));
        let synced = std::thread::scope(|scope| {
            let synced = scope.spawn(|| store.sync());
            std::thread::sleep(after);
            end.cut();
            synced.join().expect("no panic")
        });
        if synced.is_ok() {
            self.synced();
        }
    }

    /// Makes puts, removals and syncs during other work.
    fn calls_beside(&mut self, store: &CloudStore) {
        for nth in 0..12 {
            std::thread::sleep(Duration::from_millis(self.random.u64(..3)));
            let url = format!("http://{}.example/{}", self.random.usize(..3), self.random.usize(..4));
            if nth % 3 > 0 {
                let mut now = self.now();
                if store.remove(url.as_bytes(), None).is_ok_and(|was_there| was_there) {
                    now.remove(url.as_bytes());
                    self.may_be.push(now);
                }
            } else {
                self.put(store, &url, nth);
            }
            if nth % 5 == 4 {
                drop(store.sync().map(|()| self.synced()));
            }
        }
    }

    /// Opens a second owner while this one is alive; later syncs of this one must not count.
    fn fenced(&mut self, store: &CloudStore) -> Result<(), String> {
        let end = Simulated::new(Arc::clone(&self.objects), self.seed ^ 99, Faults::default());
        let other = self.open(&end, Mode::Write).map_err(|error| format!("no fault, and yet: {error}"))?;
        self.check(&other, "taken over")?;
        self.put(&other, "http://other.example/", 7);
        other.sync().map_err(|error| format!("no fault, and yet: {error}"))?;
        self.synced();
        store.put(&Page::new("http://late.example/", 1, 200, "late"), PutRule::Always).ok();
        if store.sync().is_ok() {
            return Err("a fenced writer was told that its pages are safe".to_owned());
        }
        other.close().map_err(|error| format!("no fault, and yet: {error}"))
    }

    /// Asserts that the store holds a permitted content, which becomes the only one.
    fn check(&mut self, store: &CloudStore, when: &str) -> Result<(), String> {
        // Reads fail, too: a fault is not a loss.
        let found = (0..20).find_map(|_| content(store).ok()).ok_or("20 reads failed, one after the other")?;
        let sorted = |content: &Content| {
            let mut content = content.clone();
            content.values_mut().for_each(|versions| versions.sort());
            content
        };
        match self.may_be.iter().rev().find(|may_be| sorted(may_be) == found).cloned() {
            Some(is) => self.may_be = vec![is],
            None => return Err(format!("{when}: it holds what it held after no call: {:?}", shape(&found))),
        }
        Ok(())
    }
}

pub fn content(store: &CloudStore) -> filemap::Result<Content> {
    let mut content = Content::new();
    for listed in store.list(&Scope::new(), None)? {
        let url = listed?.url;
        let lookup = Lookup::new(&url);
        let mut versions = Vec::new();
        for version in store.versions(&lookup)? {
            let page = store.get_version(&lookup, version)?;
            versions.push((version.time_ms, page.map(|page| page.body).unwrap_or_default()));
        }
        versions.sort();
        content.insert(url, versions);
    }
    Ok(content)
}

fn shape(content: &Content) -> Vec<(String, usize)> {
    content.iter().map(|(url, versions)| (String::from_utf8_lossy(url).into_owned(), versions.len())).collect()
}

fn run(seed: u64, fault: Option<Fault>, is_hunt: bool) -> Result<(), String> {
    let random = fastrand::Rng::with_seed(seed);
    let run = Run { seed, random, objects: Arc::default(), fault, is_hunt, may_be: vec![Content::new()] };
    run.run().map_err(|what| format!("seed {seed}: {what}"))
}

/// Returns the first failure of these seeds, and its seed.
fn first_failure(seeds: &[u64], fault: Option<Fault>) -> Option<(u64, String)> {
    let at_once = if fault.is_some() { HUNTING_AT_ONCE } else { AT_ONCE };
    seeds.chunks(at_once).find_map(|part| {
        std::thread::scope(|scope| {
            let one = |seed| move || run(seed, fault, fault.is_some()).err().map(|what| (seed, what));
            let runs: Vec<_> = part.iter().map(|seed| scope.spawn(one(*seed))).collect();
            runs.into_iter().filter_map(|run| run.join().expect("no panic")).next()
        })
    })
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_removed_comes_back() {
    let seeds = std::env::var("FILEMAP_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let failure = first_failure(&(0..seeds).collect::<Vec<_>>(), None);
    assert!(failure.is_none(), "{}", failure.map(|(_, what)| what).unwrap_or_default());
}

#[test]
fn every_planted_fault_is_caught() {
    // One after the other: on a busy machine some are seldom caught.
    for fault in Fault::ALL {
        let before =
            CAUGHT_BEFORE.iter().filter(|caught| caught.0 == fault).flat_map(|caught| caught.1.iter().copied());
        let caught = first_failure(&before.chain(0..SEEDS_TO_CATCH).collect::<Vec<_>>(), Some(fault));
        let (seed, what) = caught.unwrap_or_else(|| panic!("{fault:?} is not caught"));
        // Without the fault, the same seed must pass.
        let without = run(seed, None, true);
        assert_eq!(without, Ok(()), "without {fault:?}, which showed as: {what}");
    }
}
