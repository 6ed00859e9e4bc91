//! Erasing: versions go from the index, then from every file. See docs/ERASING.md.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::event::{Compacted, Reason};
use crate::format::names;
use crate::handle::spot::Spot;
use crate::logs::values::dictionaries::DictionaryFacts;
use crate::record::{Record, Version};
use crate::store::Store;
use crate::sync::lock;
use crate::upkeep::checkpoint::Task;
use crate::upkeep::state::KeyFilter;

/// Says of a version of a key whether it is meant.
pub type VersionFilter = Arc<dyn Fn(&[u8], Version) -> bool + Send + Sync>;

/// What [`Store::erase`] takes away.
#[derive(Clone)]
pub struct Erasure {
    /// The keys of which something goes. Removals of such keys go from the log too.
    pub keys: KeyFilter,
    /// Which of their versions go.
    pub versions: VersionFilter,
    /// Whether a dictionary that was made for this group of keys may hold text of what goes. The one of all keys always may.
    pub groups: KeyFilter,
}

impl std::fmt::Debug for Erasure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Erasure").finish_non_exhaustive()
    }
}

/// What an erasure is about, as it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErasureStep {
    /// Versions are looked for, and taken out of the index; so many keys were looked at.
    Dropping(u64),
    /// Dictionaries are made in place of those that go.
    Training,
    /// Segments of values are written anew; so many bytes were read.
    Values(u64),
    /// Segments of the key log are written anew.
    Keys,
}

/// What an erasure has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erased {
    /// Versions that went.
    pub versions: u64,
    /// Keys of which nothing is left.
    pub keys: u64,
    /// Versions that stay though their body was stored with one that goes: they have one of their own now.
    pub promoted: u64,
    /// Ids of the dictionaries that went.
    pub dictionaries: Vec<u32>,
    /// How many were made in their place.
    pub made_dictionaries: u64,
    /// Segments of values that were written anew, or removed.
    pub segments: u64,
    /// Bytes of them.
    pub segment_bytes: u64,
    /// Files of the store that may still hold something of what was to go: damage, a body that is being put or a backup that is
    /// being made keeps them. So do records that cannot be expanded keep their dictionary: without it they could never be read.
    /// Done again when what keeps them is gone, the erasure ends.
    pub left: Vec<String>,
    /// Keys that cannot be looked at because of damage, or that changed too often.
    pub unreadable_keys: u64,
    /// The first damage that kept a key from being looked at, in words: file and offset.
    pub first_damage: Option<String>,
}

impl Erased {
    /// Whether nothing is left in the files of the store.
    pub fn is_complete(&self) -> bool {
        self.left.is_empty() && self.unreadable_keys == 0
    }
}

type Watch<'a> = &'a mut dyn FnMut(ErasureStep) -> ControlFlow<()>;

/// So many versions are dropped in one checkpoint.
const VERSIONS_AT_ONCE: usize = 1 << 16;
/// So many keys are looked at between two looks at whether to go on.
const KEYS_AT_ONCE: u64 = 1024;
/// The keys are looked through again for as long as others go on putting what is to go, at most so often.
const PASSES: u32 = 4;

impl Store {
    /// Takes versions away for good. They go from the index; every dictionary that may hold their text goes, with others made of
    /// what stays in its place where that pays; every segment that may hold their bytes, or bytes of their keys, is written anew
    /// and removed, and free pages of the index are emptied. Reads and puts go on meanwhile; what is put meanwhile and is meant
    /// is found too, but nothing keeps it from being put later: rules do.
    ///
    /// Interrupted anywhere, by a crash too, it is ended by doing it again. Takes as long as compressing all pages on one core,
    /// where dictionaries go; else as long as reading the log and writing the segments in which anything is dead. Takes room for
    /// two segments.
    ///
    /// # Errors
    /// [`Error::Stopped`] when `watch` breaks it off; [`Error::InvalidOption`] while a backup is being made through this handle;
    /// those of [`Store::compact`].
    pub fn erase(&self, what: &Erasure, watch: Watch<'_>) -> Result<Erased> {
        self.reading.check_open()?;
        if self.upkeep()?.is_held() {
            let why = "a backup is being made through this handle; erase when it is done".to_owned();
            return Err(Error::InvalidOption { name: "erase", why });
        }
        let mut done = Erased::default();
        self.drop_meant(what, watch, &mut done)?;
        let retired = self.retire(what)?;
        if !retired.is_empty() && self.reading.options().makes_dictionaries() {
            go_on(watch(ErasureStep::Training))?;
            done.made_dictionaries = self.upkeep()?.train()?.len() as u64;
        }
        done.versions -= done.promoted.min(done.versions);
        self.rewrite(what, &retired, watch, &mut done)?;
        if done.left.is_empty() && self.upkeep()?.remove_dictionaries(&retired)? {
            done.dictionaries = retired.into_iter().collect();
        } else {
            let all: Vec<String> = retired.iter().map(|id| names::dictionary(*id)).collect();
            done.left.retain(|name| !all.contains(name));
            done.left.extend(all);
        }
        if let Some(pages) = &self.reading.values().cache {
            pages.forget();
        }
        Ok(done)
    }

    /// What [`Store::erase`] would take away: versions, keys, dictionaries. Changes nothing; any handle can tell.
    ///
    /// # Errors
    /// Those of reading; [`Error::Stopped`].
    pub fn erase_plan(&self, what: &Erasure, watch: Watch<'_>) -> Result<Erased> {
        let mut done = Erased::default();
        self.each_key(what, watch, &mut done, &mut |_, goes, stays, done| {
            done.versions += goes.len() as u64;
            done.keys += u64::from(stays.is_empty());
            done.promoted += stays.iter().filter(|s| refers_into(s, &goes)).count() as u64;
            Ok(())
        })?;
        done.dictionaries = self.suspects(what).into_iter().collect();
        Ok(done)
    }

    /// Takes single versions out of the index, durably; how many went. One whose body a version that stays refers to stays too.
    /// Compaction gives their space back.
    ///
    /// # Errors
    /// As [`Store::prune`].
    pub fn drop_versions<'a>(&self, versions: impl IntoIterator<Item = (&'a [u8], Version)>) -> Result<u64> {
        self.reading.check_open()?;
        self.upkeep()?;
        let mut dropped = 0;
        let mut batch = Task::default();
        // What is in memory only is met in its chain then.
        self.upkeep()?.checkpoint()?;
        for (key, version) in versions {
            batch.chains.push(self.reading.hash(key));
            batch.erased.insert(version.sequence);
            if batch.erased.len() >= VERSIONS_AT_ONCE {
                dropped += self.upkeep()?.checkpoint_with(std::mem::take(&mut batch))?.versions;
            }
        }
        if !batch.erased.is_empty() {
            dropped += self.upkeep()?.checkpoint_with(batch)?.versions;
        }
        Ok(dropped)
    }

    /// Takes what is meant out of the index, durably.
    fn drop_meant(&self, what: &Erasure, watch: Watch<'_>, done: &mut Erased) -> Result<()> {
        for pass in 0..=PASSES {
            self.upkeep()?.checkpoint()?;
            let mut batch = Task::default();
            let mut found = false;
            done.unreadable_keys = 0;
            self.each_key(what, watch, done, &mut |key, goes, stays, done| {
                found = true;
                batch.chains.push(self.reading.hash(&key));
                for spot in stays.iter().filter(|s| refers_into(s, &goes)) {
                    match self.promote(&key, spot) {
                        // It stays damaged, and what it refers to stays with it.
                        Err(e) if e.is_corrupt() => {}
                        promoted => {
                            promoted?;
                            done.promoted += 1;
                            batch.erased.insert(spot.version.sequence);
                        }
                    }
                }
                batch.erased.extend(goes.iter().map(|s| s.version.sequence));
                if batch.erased.len() >= VERSIONS_AT_ONCE {
                    self.drop_batch(std::mem::take(&mut batch), done)?;
                }
                Ok(())
            })?;
            self.drop_batch(batch, done)?;
            if !found {
                return Ok(());
            }
            if pass == PASSES {
                done.unreadable_keys += 1;
            }
        }
        Ok(())
    }

    fn drop_batch(&self, batch: Task, done: &mut Erased) -> Result<()> {
        if batch.erased.is_empty() {
            return Ok(());
        }
        let dropped = self.upkeep()?.checkpoint_with(batch)?;
        done.versions += dropped.versions;
        done.keys += dropped.keys;
        Ok(())
    }

    /// Hands every key of which something goes to `f`, with what goes and what stays.
    fn each_key(&self, what: &Erasure, watch: Watch<'_>, done: &mut Erased, f: EachKey<'_>) -> Result<()> {
        let is_meant = Arc::clone(&what.keys);
        let reading = &*self.reading;
        for (nth, key) in (0u64..).zip(self.keys_where(move |key| is_meant(key))) {
            if nth % KEYS_AT_ONCE == 0 {
                go_on(watch(ErasureStep::Dropping(nth)))?;
            }
            let looked = key.and_then(|key| {
                let spots = reading.looking_again(|| reading.all_spots(&key, reading.hash(&key)))?;
                let (goes, stays): (Vec<_>, Vec<_>) =
                    spots.into_iter().partition(|spot| (what.versions)(&key, spot.version));
                if goes.is_empty() { Ok(()) } else { f(key, goes, stays, done) }
            });
            match looked {
                Err(e) if e.is_corrupt() => {
                    done.unreadable_keys += 1;
                    done.first_damage.get_or_insert_with(|| e.to_string());
                }
                looked => looked?,
            }
        }
        Ok(())
    }

    /// Puts a version again with a body of its own.
    fn promote(&self, key: &[u8], spot: &Spot) -> Result<()> {
        let value = self.reading.looking_again(|| self.reading.value_at(key, spot))?;
        let record = Record { key, meta: &value.head.meta, body: &value.body, time_ms: spot.version.time_ms };
        self.put_checked(&record, Some(value.head.digest)).map(|_| ())
    }

    /// Dictionaries that may hold text of what goes: those that are not there now, too, for their files may come back.
    fn suspects(&self, what: &Erasure) -> BTreeSet<u32> {
        let may_hold = |d: &DictionaryFacts| d.problem.is_some() || d.group.is_empty() || (what.groups)(&d.group);
        let found = self.dictionaries();
        let gone = self.absent().into_iter().filter_map(|absent| names::parse_dictionary(&absent.file));
        found.iter().filter(|d| may_hold(d)).map(|d| d.id).chain(gone).collect()
    }

    /// Sees to it that nothing is compressed any more with a dictionary that may hold text of what went.
    fn retire(&self, what: &Erasure) -> Result<BTreeSet<u32>> {
        let writing = self.writing()?;
        // One that is being made may be of pages that were there before. What is made from now on is of pages that stay.
        drop(writing.training().turn());
        let suspects = self.suspects(what);
        self.reading.values().dictionaries.retire(&suspects);
        // Whoever appends from now on knows.
        drop(lock(writing.log()));
        Ok(suspects)
    }

    /// Writes anew what may hold bytes of what went, in both logs and the index.
    fn rewrite(&self, what: &Erasure, retired: &BTreeSet<u32>, watch: Watch<'_>, done: &mut Erased) -> Result<()> {
        let mut sum = Compacted::nothing(Reason::Garbage);
        let cell = RefCell::new(watch);
        let told = |run: &Compacted| (cell.borrow_mut())(ErasureStep::Values(run.read_bytes));
        done.left = self.upkeep()?.clean_values(retired, &what.keys, &mut sum, &told)?;
        (done.segments, done.segment_bytes) = (sum.removed_segments, sum.removed_bytes);
        go_on((cell.borrow_mut())(ErasureStep::Keys))?;
        done.left.extend(self.upkeep()?.clean_keys()?);
        done.left.extend(self.out_of_reach(retired)?);
        self.upkeep()?.punch_index()
    }
}

impl Store {
    /// Files that may be segments of this store, and that nothing reads: those that count as lost though they lie there, and those
    /// that a repair has set aside. Dictionaries that are `retired` go after that.
    fn out_of_reach(&self, retired: &BTreeSet<u32>) -> Result<Vec<String>> {
        let goes = |file: &str| names::parse_dictionary(file).is_some_and(|id| retired.contains(&id));
        let lost = self.absent().into_iter().map(|absent| absent.file);
        let lost: BTreeSet<String> = lost.filter(|file| !goes(file)).collect();
        let names = self.reading.names()?;
        Ok(names.into_iter().filter(|name| lost.contains(name) || names::is_set_aside(name)).collect())
    }
}

/// What [`Store::each_key`] calls.
type EachKey<'a> = &'a mut dyn FnMut(Vec<u8>, Vec<Spot>, Vec<Spot>, &mut Erased) -> Result<()>;

/// Whether a version has its body from one of others.
fn refers_into(spot: &Spot, others: &[Spot]) -> bool {
    spot.refers_to != 0 && others.iter().any(|o| o.version.sequence == spot.refers_to)
}

fn go_on(flow: ControlFlow<()>) -> Result<()> {
    if flow.is_break() { Err(Error::Stopped) } else { Ok(()) }
}
