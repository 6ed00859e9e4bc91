//! Erasure: removes versions from the index, then from every file. See docs/ERASING.md.

use std::collections::BTreeSet;
use std::sync::Arc;

use filemap_io::Progress;

use crate::error::{Error, Result, unless_cancelled};
use crate::event::{Compacted, Reason};
use crate::format::names;
use crate::handle::retention::KeyFilter;
use crate::handle::spot::Spot;
use crate::logs::values::dictionaries::DictionaryFacts;
use crate::record::{Record, Version};
use crate::store::Store;
use crate::sync::lock;
use crate::upkeep::checkpoint::Task;

/// Selects versions of a key.
pub type VersionFilter = Arc<dyn Fn(&[u8], Version) -> bool + Send + Sync>;

/// Selects what [`Store::erase`] removes.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # use std::ops::ControlFlow;
/// use filemap_core::erase::Erasure;
/// use std::sync::Arc;
/// let keys = Arc::new(|key: &[u8]| key == b"http://a.example/");
/// let what = Erasure { keys, versions: Arc::new(|_, _| true), groups: Arc::new(|_| false) };
/// let erased = store.erase(&what, &mut |_| ControlFlow::Continue(()))?;
/// assert!(erased.is_complete() && erased.versions == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Erasure {
    /// Keys with something to erase. Their tombstones are removed from the log, too.
    pub keys: KeyFilter,
    /// Versions of these keys to erase.
    pub versions: VersionFilter,
    /// Groups whose dictionary may hold text of what is erased. The dictionary of all keys always
    /// may.
    pub groups: KeyFilter,
}

filemap_io::debug_fields!(Erasure);

/// Progress of an erasure.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// use std::ops::ControlFlow;
/// use std::sync::Arc;
/// use filemap_core::erase::{Erasure, ErasureStep};
/// let keys = Arc::new(|key: &[u8]| key.starts_with(b"http://a.example/"));
/// let what = Erasure { keys: keys.clone(), versions: Arc::new(|_, _| true), groups: keys };
/// store.erase(&what, &mut |step| {
///     if let ErasureStep::Values(bytes) = step {
///         println!("{bytes} bytes read");
///     }
///     ControlFlow::Continue(())
/// })?;
/// assert!(!store.contains(b"http://a.example/")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErasureStep {
    /// Versions are being found and removed from the index; number of keys scanned.
    Dropping(u64),
    /// Dictionaries are being made to replace the removed ones.
    Training,
    /// Value segments are being rewritten; bytes read.
    Values(u64),
    /// Segments of the key log are being rewritten.
    Keys,
}

/// Result of an erasure.
///
/// ```
/// use filemap_core::erase::Erased;
///
/// let mut erased = Erased::default();
/// assert!(erased.is_complete());
/// erased.left.push("value0.dat".to_owned());
/// assert!(!erased.is_complete());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erased {
    /// Versions erased.
    pub versions: u64,
    /// Keys with no version left.
    pub keys: u64,
    /// Kept versions whose body was stored with an erased one: they were stored again with their
    /// own body.
    pub promoted: u64,
    /// Ids of the removed dictionaries.
    pub dictionaries: Vec<u32>,
    /// Dictionaries made in their place.
    pub made_dictionaries: u64,
    /// Value segments rewritten or removed.
    pub segments: u64,
    /// Bytes of them.
    pub segment_bytes: u64,
    /// Files of the store that may still hold something to erase: damage, a body being put or a
    /// backup being made keeps them. A dictionary is kept while records that need it cannot be
    /// decompressed, since without it they could never be read. Repeat the erasure once the cause
    /// is resolved.
    pub left: Vec<String>,
    /// Keys that could not be examined because of damage, or that changed too often.
    pub unreadable_keys: u64,
    /// The first damage that hid a key: file and offset.
    pub first_damage: Option<String>,
}

impl Erased {
    /// Returns true if nothing is left in the files of the store.
    pub fn is_complete(&self) -> bool {
        self.left.is_empty() && self.unreadable_keys == 0
    }
}

/// Versions dropped in one checkpoint.
const VERSIONS_AT_ONCE: usize = 1 << 16;
/// Keys scanned between two cancellation checks.
const KEYS_AT_ONCE: u64 = 1024;
/// Greatest number of repeated passes over the keys while matching versions are still being put.
const PASSES: u32 = 4;

impl Store {
    /// Erases versions so that no file holds them. They are removed from the index. Every
    /// dictionary that may hold their text is removed, and replaced, where that pays, by one
    /// trained on what stays. Every segment that may hold their bytes, or bytes of their keys, is
    /// rewritten and removed, and free pages of the index are emptied. Reads and puts continue
    /// meanwhile. Matching versions put meanwhile are erased, too; later ones are not, unless a
    /// rule refuses them.
    ///
    /// If interrupted, even by a crash, repeat it to finish. Takes as long as compressing all
    /// pages on one core if dictionaries are removed; otherwise as long as reading the log and
    /// writing the segments that hold dead bytes. Takes space for two segments.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `progress` cancels it; `InvalidOption` while a backup is being
    /// made through this handle; those of [`Store::compact`].
    pub fn erase(&self, what: &Erasure, progress: &mut Progress<'_, ErasureStep>) -> Result<Erased> {
        self.reading.check_open()?;
        if self.upkeep()?.is_held() {
            let why = "a backup is being made through this handle; erase when it is done".to_owned();
            return Err(Error::option("erase", why));
        }
        let mut done = Erased::default();
        self.drop_meant(what, progress, &mut done)?;
        let retired = self.retire(what)?;
        if !retired.is_empty() && self.reading.options().makes_dictionaries() {
            unless_cancelled(progress(ErasureStep::Training))?;
            done.made_dictionaries = self.upkeep()?.train()?.len() as u64;
        }
        done.versions -= done.promoted.min(done.versions);
        self.rewrite(what, &retired, progress, &mut done)?;
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

    /// Counts the versions, keys and dictionaries that [`Store::erase`] would remove. Changes
    /// nothing; any handle can do it.
    ///
    /// # Errors
    /// Those of reading; [`Error::Cancelled`].
    pub fn erase_plan(&self, what: &Erasure, progress: &mut Progress<'_, ErasureStep>) -> Result<Erased> {
        let mut done = Erased::default();
        self.each_key(what, progress, &mut done, &mut |_, goes, stays, done| {
            done.versions += goes.len() as u64;
            done.keys += u64::from(stays.is_empty());
            done.promoted += stays.iter().filter(|s| refers_into(s, &goes)).count() as u64;
            Ok(())
        })?;
        done.dictionaries = self.suspects(what).into_iter().collect();
        Ok(done)
    }

    /// Removes single versions from the index, durably. Returns their number. A version stays
    /// while a kept version refers to its body. Compaction frees the space.
    ///
    /// # Errors
    /// As [`Store::prune`].
    pub fn drop_versions<'a>(&self, versions: impl IntoIterator<Item = (&'a [u8], Version)>) -> Result<u64> {
        self.reading.check_open()?;
        self.upkeep()?;
        let mut dropped = 0;
        let mut batch = Task::default();
        // Puts versions that are only in memory into their chains.
        self.upkeep()?.checkpoint()?;
        for (key, version) in versions {
            batch.chains.push(self.reading.hash(key));
            batch.erased.insert(version.sequence, 0);
            if batch.erased.len() >= VERSIONS_AT_ONCE {
                dropped += self.upkeep()?.checkpoint_with(std::mem::take(&mut batch))?.versions;
            }
        }
        if !batch.erased.is_empty() {
            dropped += self.upkeep()?.checkpoint_with(batch)?.versions;
        }
        Ok(dropped)
    }

    /// Removes the matching versions from the index, durably.
    fn drop_meant(&self, what: &Erasure, progress: &mut Progress<'_, ErasureStep>, done: &mut Erased) -> Result<()> {
        for pass in 0..=PASSES {
            self.upkeep()?.checkpoint()?;
            let mut batch = Task::default();
            let mut found = false;
            done.unreadable_keys = 0;
            self.each_key(what, progress, done, &mut |key, goes, stays, done| {
                found = true;
                batch.chains.push(self.reading.hash(&key));
                for spot in stays.iter().filter(|s| refers_into(s, &goes)) {
                    match self.promote(&key, spot) {
                        // It stays damaged, and so does the version that it refers to.
                        Err(e) if e.is_corrupt() => {}
                        promoted => {
                            promoted?;
                            done.promoted += 1;
                            batch.erased.insert(spot.version.sequence, 0);
                        }
                    }
                }
                batch.erased.extend(goes.iter().map(|s| (s.version.sequence, 0)));
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

    /// Calls `f` for every key with something to erase, with the versions that go and those that
    /// stay.
    fn each_key(
        &self,
        what: &Erasure,
        progress: &mut Progress<'_, ErasureStep>,
        done: &mut Erased,
        f: EachKey<'_>,
    ) -> Result<()> {
        let is_meant = Arc::clone(&what.keys);
        let reading = &*self.reading;
        for (nth, key) in (0u64..).zip(self.keys_where(move |key| is_meant(key))) {
            if nth % KEYS_AT_ONCE == 0 {
                unless_cancelled(progress(ErasureStep::Dropping(nth)))?;
            }
            let looked = key.and_then(|key| {
                let spots = reading.all_spots(&key, reading.hash(&key))?;
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

    /// Puts a version again with its own body.
    fn promote(&self, key: &[u8], spot: &Spot) -> Result<()> {
        let value = self.reading.looking_again(|| self.reading.value_at(key, spot))?;
        let record = Record { key, meta: &value.head.meta, body: &value.body, time_ms: spot.version.time_ms };
        self.put_checked(&record, Some(value.head.digest)).map(|_| ())
    }

    /// Dictionaries that may hold erased text. Includes missing ones, since their files may come
    /// back.
    fn suspects(&self, what: &Erasure) -> BTreeSet<u32> {
        let may_hold = |d: &DictionaryFacts| d.problem.is_some() || d.group.is_empty() || (what.groups)(&d.group);
        let found = self.dictionaries();
        let gone = self.absent().into_iter().filter_map(|absent| names::parse_dictionary(&absent.file));
        found.iter().filter(|d| may_hold(d)).map(|d| d.id).chain(gone).collect()
    }

    /// Retires every dictionary that may hold erased text: nothing new is compressed with it.
    fn retire(&self, what: &Erasure) -> Result<BTreeSet<u32>> {
        let writing = self.writing()?;
        // A dictionary being made may include erased pages. Those begun later use only pages that
        // stay.
        drop(writing.training().turn());
        let suspects = self.suspects(what);
        self.reading.values().dictionaries.retire(&suspects);
        // Later appends see the retirement.
        drop(lock(writing.log()));
        Ok(suspects)
    }

    /// Rewrites everything in both logs and the index that may hold erased bytes.
    fn rewrite(
        &self,
        what: &Erasure,
        retired: &BTreeSet<u32>,
        progress: &mut Progress<'_, ErasureStep>,
        done: &mut Erased,
    ) -> Result<()> {
        let mut sum = Compacted::nothing(Reason::Garbage);
        let told = &mut |run: Compacted| progress(ErasureStep::Values(run.read_bytes));
        done.left = self.upkeep()?.clean_values(retired, &what.keys, &mut sum, told)?;
        (done.segments, done.segment_bytes) = (sum.removed_segments, sum.removed_bytes);
        unless_cancelled(progress(ErasureStep::Keys))?;
        done.left.extend(self.upkeep()?.clean_keys()?);
        done.left.extend(self.out_of_reach(retired)?);
        if !self.upkeep()?.punch_index()? {
            done.left.push(names::INDEX.to_owned());
        }
        done.left.extend(self.upkeep()?.join_all()?.into_iter().map(names::key_run));
        Ok(())
    }
}

impl Store {
    /// Files that may be segments of this store but that nothing reads: those counted as lost
    /// though they exist, and those set aside by a repair. `retired` dictionaries are left out:
    /// they are removed later.
    fn out_of_reach(&self, retired: &BTreeSet<u32>) -> Result<Vec<String>> {
        let goes = |file: &str| names::parse_dictionary(file).is_some_and(|id| retired.contains(&id));
        let lost = self.absent().into_iter().map(|absent| absent.file);
        let lost: BTreeSet<String> = lost.filter(|file| !goes(file)).collect();
        let names = self.reading.names()?;
        Ok(names.into_iter().filter(|name| lost.contains(name) || names::is_set_aside(name)).collect())
    }
}

/// Callback of [`Store::each_key`]: key, versions that go, versions that stay, totals.
type EachKey<'a> = &'a mut dyn FnMut(Vec<u8>, Vec<Spot>, Vec<Spot>, &mut Erased) -> Result<()>;

/// Returns true if a version's body is stored with one of `others`.
fn refers_into(spot: &Spot, others: &[Spot]) -> bool {
    spot.refers_to != 0 && others.iter().any(|o| o.version.sequence == spot.refers_to)
}
