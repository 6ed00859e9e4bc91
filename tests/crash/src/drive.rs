//! Performs operations on a store and tells the oracle what began and what returned.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use filemap_core::erase::{Erased, RuleState};
use filemap_core::prune::PruneRule;
use filemap_core::{Error, Put, Record, StorageError, Store, Writer, sim};
use filemap_io::sim::{Level, Loss, SimDisk};

use crate::judge::{self, Depth};
use crate::listing::Listing;
use crate::op::Op;
use crate::trouble::Trouble;
use crate::world::{World, choice};
use crate::{contents, erase};
use filemap_oracle::{After, Oracle, Pruning, What};

/// Text common to all bodies.
const ALIKE: &[u8] = b"<p>What every page of a site has in the same words, and in the same place.</p>";

/// Length and number of bodies that a dictionary is made of: enough in some worlds.
const ALIKE_BYTES: usize = 240;
const TRAINED_ON: usize = 2;

/// The oracle, shared with whoever draws images in the middle of an operation.
pub type Shared = Arc<Mutex<Arc<Oracle>>>;

/// The oracle as of now.
pub fn now(shared: &Shared) -> Arc<Oracle> {
    Arc::clone(&shared.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn tell<T>(shared: &Shared, what: impl FnOnce(&mut Oracle) -> T) -> T {
    what(Arc::make_mut(&mut shared.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// A handle that writes, its oracle, and where bodies come from.
pub struct Driver {
    disk: SimDisk,
    world: World,
    /// `None` only while it is reopened, and after that failed.
    pub(crate) store: Option<Store>,
    pub(crate) reader: Option<Store>,
    /// The keys of the world.
    pub keys: Vec<Vec<u8>>,
    /// The permitted content of the store.
    pub oracle: Shared,
    pub(crate) rng: fastrand::Rng,
    /// A list of keys that runs beside everything else.
    pub(crate) listing: Arc<Mutex<Option<Listing>>>,
    /// The store is another driver's.
    is_guest: bool,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // What is not closed is abandoned, as when the process ends: a close would write.
        if !self.is_guest {
            self.store.take().into_iter().chain(self.reader.take()).for_each(sim::abandon);
        }
    }
}

impl Driver {
    /// Drives an open store over a disk.
    pub fn new(disk: SimDisk, world: World, store: Store, oracle: Shared, rng: fastrand::Rng) -> Driver {
        let keys = world.keys(&store);
        let listing = Arc::default();
        Driver { disk, world, store: Some(store), reader: None, keys, oracle, rng, listing, is_guest: false }
    }

    /// The open store.
    ///
    /// # Errors
    /// `Closed` after a reopening that failed.
    pub fn store(&self) -> Result<&Store, Trouble> {
        self.store.as_ref().ok_or(Trouble::Error(Error::Closed))
    }

    fn body(&mut self, bytes: usize) -> Vec<u8> {
        // Unique, so that a mixture or another version shows, and partly compressible.
        let id = self.rng.u64(..);
        let mut body: Vec<u8> = id.to_le_bytes().iter().cycle().take(bytes).copied().collect();
        body.iter_mut().skip(9).step_by(3).for_each(|b| *b = self.rng.u8(..));
        // What all bodies have in the middle is what dictionaries are for.
        let middle = body.iter_mut().skip(24).take((bytes / 2).saturating_sub(12));
        middle.zip(ALIKE.iter().cycle()).for_each(|(b, alike)| *b = *alike);
        body
    }

    /// Performs one operation.
    ///
    /// # Errors
    /// What the store returned, or did wrong.
    pub fn perform(&mut self, op: &Op) -> Result<(), Trouble> {
        if self.world.is_traced {
            eprintln!("{}{op:?}, operation {}", if self.is_guest { "   " } else { "" }, now(&self.oracle).next());
        }
        if !self.is_guest {
            self.list()?;
        }
        match op {
            Op::Put { key, time_ms, bytes } => {
                let body = self.body(*bytes);
                self.put(*key, *time_ms, body)
            }
            Op::PutSame { key, time_ms } => self.put_same(*key, *time_ms),
            Op::PutTwice { key, time_ms } => {
                let body = self.body(600);
                self.put(*key, *time_ms, body)?;
                self.put_same(*key, *time_ms)
            }
            Op::Batch { keys, time_ms } => self.batch(keys, *time_ms),
            Op::Stream { key, time_ms, bytes } => self.stream(*key, *time_ms, *bytes, |_| Ok(())),
            Op::StreamOverCompaction { key, time_ms, bytes } => self.stream(*key, *time_ms, *bytes, |driver| {
                // Only sealed segments are compacted.
                driver.durable(Store::checkpoint)?;
                driver.perform(&Op::Roll)?;
                driver.perform(&Op::Compact)
            }),
            Op::Remove { key } => self.remove(*key),
            Op::RemoveOne { key, nth } => self.remove_one(*key, *nth),
            Op::Sync => self.durable(Store::sync),
            Op::Checkpoint => self.with_steps(|store| store.checkpoint().map(|()| true)),
            Op::Recompress => self.with_steps(|store| store.recompress(2).map(judge::all_moved)),
            Op::Compact => self.with_steps(|store| store.compact().map(judge::all_moved)),
            Op::CompactKeys { any: None } => self.with_steps(sim::compact_keys),
            Op::CompactKeys { any: Some(pick) } => {
                // A reader that knows nothing from the log alone.
                self.durable(Store::checkpoint)?;
                self.end_list()?;
                self.reader.take().into_iter().for_each(sim::abandon);
                self.follow()?;
                self.with_steps(|store| sim::empty_keys(store, *pick).map(|()| true))?;
                self.stay_behind()
            }
            Op::ShrinkIndex => self.with_steps(|store| sim::shrink_index(store).map(|()| true)),
            Op::Prune { keep, since_ms } => self.prune(*keep, *since_ms),
            Op::Backup { by_reader } => self.backup(*by_reader),
            Op::Erase { key, is_busy } => self.erase(*key, *is_busy),
            Op::Work => {
                sim::work(self.store()?);
                Ok(())
            }
            Op::Roll => self.stream(self.keys.len() - 1, 0, self.world.segment_bytes as usize, |_| Ok(())),
            Op::Grow => {
                for key in 0..self.keys.len() {
                    let body = self.body(5);
                    self.put(key, 1, body)?;
                }
                self.durable(Store::checkpoint)
            }
            Op::Train { key } => self.train(*key),
            Op::CloseInside { long, after, key } => self.close_inside(*long, *after, *key),
            Op::Reopen => self.reopen(),
            Op::Follow => self.follow(),
        }
    }

    fn begin(&self, key: &[u8], time_ms: i64, body: &[u8], meta: &[u8]) -> u64 {
        let what = What::Put { time_ms, sequence: None, body: body.into(), meta: meta.into() };
        tell(&self.oracle, |o| o.begin(key, what))
    }

    /// Notes the promise of an acknowledged put with `Durability::Sync`.
    fn put_returned(&self, number: u64) {
        if self.world.is_sync {
            tell(&self.oracle, |o| o.durable(number + 1));
        }
    }

    fn put(&mut self, key: usize, time_ms: i64, body: Vec<u8>) -> Result<(), Trouble> {
        let key = self.keys[key].clone();
        let meta = vec![7; body.len() % 5];
        let number = self.begin(&key, time_ms, &body, &meta);
        let version = self.store()?.put(&Record::new(&key, &body).time(time_ms).meta(&meta))?;
        tell(&self.oracle, |o| o.acknowledge(&key, number, Some(version)));
        self.put_returned(number);
        Ok(())
    }

    fn put_same(&mut self, key: usize, time_ms: i64) -> Result<(), Trouble> {
        let key = self.keys[key].clone();
        let (newest, is_certain) = (now(&self.oracle).newest(&key), now(&self.oracle).is_certain(&key));
        let body = match &newest {
            Some(body) => body.to_vec(),
            None => self.body(100),
        };
        let number = self.begin(&key, time_ms, &body, b"again");
        let put = self.store()?.put_if_changed(&Record::new(&key, &body).time(time_ms).meta(b"again"))?;
        tell(&self.oracle, |o| o.acknowledge(&key, number, Some(put.version())));
        self.put_returned(number);
        match (newest, put) {
            (Some(_), Put::Unchanged(_)) | (None, Put::Stored(_)) => Ok(()),
            _ if !is_certain || now(&self.oracle).may_put_anew() => Ok(()),
            (newest, put) => Err(Trouble::Wrong(format!("{put:?}, and there was one: {}", newest.is_some()))),
        }
    }

    fn batch(&mut self, keys: &[usize], time_ms: i64) -> Result<(), Trouble> {
        let bodies: Vec<(Vec<u8>, Vec<u8>)> = keys.iter().map(|&k| (self.keys[k].clone(), self.body(30))).collect();
        let numbers: Vec<u64> = bodies.iter().map(|(k, b)| self.begin(k, time_ms, b, b"")).collect();
        let records: Vec<Record<'_>> = bodies.iter().map(|(k, b)| Record::new(k, b).time(time_ms)).collect();
        let versions = self.store()?.put_batch(&records)?;
        for (((key, _), number), version) in bodies.iter().zip(numbers).zip(versions) {
            tell(&self.oracle, |o| o.acknowledge(key, number, Some(version)));
            self.put_returned(number);
        }
        Ok(())
    }

    /// A streamed put, with something else when half of the body is written.
    fn stream(
        &mut self,
        key: usize,
        time_ms: i64,
        bytes: usize,
        halfway: impl FnOnce(&mut Driver) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let key = self.keys[key].clone();
        let body = self.body(bytes);
        let mut writer = self.store()?.put_stream(&key, b"stream", time_ms)?;
        let (first, second) = body.split_at(bytes / 2);
        write(&mut writer, first)?;
        halfway(self)?;
        // Nothing of it may show before: not even its last chunk is written.
        let number = self.begin(&key, time_ms, &body, b"stream");
        write(&mut writer, second)?;
        let version = writer.finish()?;
        tell(&self.oracle, |o| o.acknowledge(&key, number, Some(version)));
        self.put_returned(number);
        Ok(())
    }

    fn remove(&mut self, key: usize) -> Result<(), Trouble> {
        let key = self.keys[key].clone();
        let (was_there, is_certain) = (now(&self.oracle).newest(&key).is_some(), now(&self.oracle).is_certain(&key));
        let number = tell(&self.oracle, |o| o.begin(&key, What::Remove));
        let removed = self.store()?.remove(&key)?;
        if removed != was_there && is_certain {
            return Err(Trouble::Wrong(format!("remove says {removed}, and there was one: {was_there}")));
        }
        if removed {
            tell(&self.oracle, |o| o.acknowledge(&key, number, None));
            self.put_returned(number);
        } else {
            tell(&self.oracle, |o| o.forget(&key, number));
        }
        Ok(())
    }

    fn train(&mut self, key: usize) -> Result<(), Trouble> {
        for _ in 0..TRAINED_ON {
            let body = self.body(ALIKE_BYTES);
            self.put(key, 1, body)?;
        }
        match self.store()?.train() {
            // Pages are stored raw in this world.
            Ok(_) | Err(Error::Storage(StorageError::InvalidOption { .. })) => {}
            Err(e) => return Err(Trouble::Error(e)),
        }
        let body = self.body(ALIKE_BYTES);
        self.put(key, 1, body)?;
        self.durable(Store::sync)
    }

    /// Something that makes all durable that was acknowledged before.
    pub(crate) fn durable(&mut self, what: impl FnOnce(&Store) -> filemap_core::Result<()>) -> Result<(), Trouble> {
        let mark = now(&self.oracle).next();
        what(self.store()?)?;
        tell(&self.oracle, |o| o.durable(mark));
        Ok(())
    }

    /// Runs `what`, which tells whether it ran a checkpoint, with other work between its steps.
    fn with_steps(&mut self, what: impl FnOnce(&Store) -> filemap_core::Result<bool>) -> Result<(), Trouble> {
        self.interrupted(false, |driver| {
            let mark = now(&driver.oracle).next();
            if what(driver.store()?)? {
                tell(&driver.oracle, |o| o.durable(mark));
            }
            Ok(())
        })
    }

    /// A driver of the same handle.
    pub(crate) fn guest(&mut self) -> Driver {
        Driver {
            disk: self.disk.clone(),
            world: self.world.clone(),
            store: self.store.clone(),
            reader: self.reader.clone(),
            keys: self.keys.clone(),
            oracle: Arc::clone(&self.oracle),
            rng: self.rng.fork(),
            listing: Arc::clone(&self.listing),
            is_guest: true,
        }
    }

    /// Returns whether a call of the disk was made to fail.
    pub(crate) fn has_failed(&self) -> bool {
        self.disk.failed() > 0
    }

    /// As above; between the steps also checkpoints and compactions, where they can run.
    pub(crate) fn interrupted(
        &mut self,
        by_checkpoints: bool,
        what: impl FnOnce(&mut Driver) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let inner = self.guest();
        let trouble = Arc::new(Mutex::new(None));
        let between = BetweenSteps { driver: inner, by_checkpoints };
        let (seen, between) = (Arc::clone(&trouble), std::cell::RefCell::new(between));
        sim::at_steps(Some(Box::new(move || {
            if let Err(e) = between.borrow_mut().one() {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if seen.is_none() || matches!(e, Trouble::Wrong(_)) {
                    *seen = Some(e);
                }
            }
        })));
        let result = what(self);
        sim::at_steps(None);
        match trouble.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(trouble) => Err(trouble),
            None => result,
        }
    }

    fn prune(&mut self, keep: Option<u32>, since_ms: Option<i64>) -> Result<(), Trouble> {
        let begun = now(&self.oracle).next();
        tell(&self.oracle, |o| o.prune(Pruning { keep, since_ms }));
        self.list_may_lack();
        let rule = PruneRule { keep_versions: keep, since_ms, max_live_bytes: None };
        self.interrupted(false, |d| {
            d.durable(|store| store.prune(rule, &mut |_| ControlFlow::Continue(())).map(judge::all_seen))
        })?;
        let shown = contents::contents(self.store()?, &now(&self.oracle), After::Kill);
        let shown = shown.map_err(|e| within("after a prune", e))?;
        tell(&self.oracle, |o| o.pruned(begun, &shown));
        Ok(())
    }

    fn erase(&mut self, key: usize, is_busy: bool) -> Result<(), Trouble> {
        let key = self.keys[key].clone();
        let rule = self.store()?.add_rule(&key, "")?.id;
        let begun = now(&self.oracle).next();
        tell(&self.oracle, |o| o.erase(&key));
        self.list_may_lack();
        let mut erased = Erased::default();
        let mut run = |d: &mut Driver| {
            d.durable(|store| {
                erased = store.erase(&erase::of(&key), &mut |_| ControlFlow::Continue(()))?;
                Ok(())
            })
        };
        if is_busy {
            self.interrupted(false, run)?
        } else {
            run(self)?
        }
        let is_complete = erased.is_complete();
        if !is_busy && !is_complete {
            return Err(Trouble::Wrong(format!("an erasure left something: {erased:?}")));
        }
        let shown = contents::contents(self.store()?, &now(&self.oracle), After::Kill);
        let shown = shown.map_err(|e| within("after an erasure", e))?;
        if is_complete {
            let texts = tell(&self.oracle, |o| o.erased(&key, begun, &shown));
            erase::nowhere(&self.disk, &texts)?;
            if !is_busy {
                erase::check(&self.disk, self.store()?, &key, &texts)?;
            }
            self.store()?.set_rule_state(rule, RuleState::InForce)?;
        } else {
            tell(&self.oracle, |o| o.pruned(begun, &shown));
        }
        Ok(())
    }

    fn backup(&mut self, by_reader: bool) -> Result<(), Trouble> {
        let begun = now(&self.oracle).next();
        let to = SimDisk::new(self.rng.u64(..));
        self.interrupted(!by_reader, |d| {
            let from = match by_reader {
                true => d.reader()?.clone(),
                false => d.store()?.clone(),
            };
            Ok(sim::back_up(&from, &*to.dir()).map(|_| ())?)
        })?;
        // All of it is durable, or nothing of it.
        let lost = to.crash(Level::Adversarial, Loss::Everything, self.rng.u64(..));
        let oracle = now(&self.oracle).as_of(begun);
        let judged = judge::image(&lost, &self.world, &oracle, After::PowerLoss, Depth::Verify);
        judged.map_err(|what| Trouble::Wrong(format!("a backup: {what}")))
    }

    fn reader(&mut self) -> Result<&Store, Trouble> {
        if self.reader.is_none() {
            self.reader = Some(sim::open_read_only(self.disk.dir(), self.world.options.clone())?);
        }
        self.reader.as_ref().ok_or(Trouble::Error(Error::Closed))
    }

    pub(crate) fn reopen(&mut self) -> Result<(), Trouble> {
        self.end_list()?;
        self.reader.take().into_iter().for_each(sim::abandon);
        let mark = now(&self.oracle).next();
        if let Some(store) = self.store.take() {
            store.close()?;
        }
        tell(&self.oracle, |o| o.durable(mark));
        self.store = Some(sim::open(self.disk.dir(), self.world.options.clone())?);
        Ok(())
    }

    /// A follower that has not refreshed for a while keeps reading.
    fn stay_behind(&self) -> Result<(), Trouble> {
        let read = self.reader.iter().try_for_each(|reader| contents::readable(reader, &now(&self.oracle)));
        read.map_err(|e| within("a reader that stays behind", e))
    }

    /// A follower sees everything acknowledged before it looked.
    fn follow(&mut self) -> Result<(), Trouble> {
        self.stay_behind()?;
        let reader = self.reader()?.clone();
        reader.refresh()?;
        let oracle = now(&self.oracle);
        contents::contents(&reader, &oracle, After::Kill).map_err(|e| within("a reader", e))?;
        Ok(())
    }
}

fn write(writer: &mut Writer, body: &[u8]) -> Result<(), Trouble> {
    body.chunks(100).try_for_each(|piece| writer.write_all(piece)).map_err(|e| {
        match e.into_inner().map(|e| e.downcast::<Error>()) {
            Some(Ok(e)) => Trouble::Error(*e),
            _ => Trouble::Wrong("a stream fails without saying why".into()),
        }
    })
}

/// Operations between the steps of a long one.
struct BetweenSteps {
    driver: Driver,
    /// True if checkpoints and compactions are among them.
    by_checkpoints: bool,
}

impl BetweenSteps {
    fn one(&mut self) -> Result<(), Trouble> {
        let driver = &mut self.driver;
        let key = driver.rng.usize(..driver.keys.len());
        let time_ms = driver.rng.i64(-2..6);
        if self.by_checkpoints && sim::is_idle(driver.store()?) {
            match driver.rng.u8(..12) {
                0 => return driver.durable(Store::checkpoint),
                1 => {
                    let _ = driver.store()?.compact();
                    return Ok(());
                }
                _ => {}
            }
        }
        let op = match driver.rng.u8(..16) {
            0..=2 => Op::Put { key, time_ms, bytes: driver.rng.usize(..100) },
            3 | 9 => Op::PutSame { key, time_ms },
            4 => Op::Remove { key },
            5 => Op::Sync,
            6 => Op::Follow,
            8 | 10 | 11 => return driver.list().map_err(|e| within("beside a checkpoint", e)),
            7 => {
                let oracle = now(&driver.oracle);
                let read = contents::contents(driver.store()?, &oracle, After::Kill);
                return read.map(|_| ()).map_err(|e| within("during a checkpoint", e));
            }
            _ => return Ok(()),
        };
        driver.perform(&op)
    }
}

pub(crate) fn within(place: &str, trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Wrong(what) => Trouble::Wrong(format!("{place}: {what}")),
        error => error,
    }
}

/// A random fault of a call in the near future.
pub fn random_failure(rng: &mut fastrand::Rng, calls: u64) -> filemap_io::sim::Failure {
    use filemap_io::sim::{Failure, Fault};
    let fault = *choice(rng, &[Fault::Eio, Fault::Eio, Fault::Eio, Fault::Enospc, Fault::Eintr, Fault::ShortWrite]);
    Failure { at: calls + rng.u64(1..40), fault, only_syncs: rng.bool(), forever: rng.bool() }
}
