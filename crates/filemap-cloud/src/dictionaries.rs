//! The dictionaries of a shard: those read lately, in bounded memory, and those that this handle
//! compresses with.
//!
//! A dictionary never changes. It is in object storage before it is used, so any handle can read
//! what was compressed with it. Concurrent reads of one wait for one request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use filemap::access::keys;
use futures_util::future::join_all;
use object_store::ObjectMeta;
use tokio::sync::OnceCell;

use crate::bucket::Bucket;
use crate::dictionary::{Dictionary, unpack};
use crate::error::{Error, Result};
use crate::format::dictionary::{FOLDER, object, of_name};
use crate::format::record::{DictionaryId, Record};

/// Dictionaries read in parallel by a writer that opens the store.
const AT_ONCE: usize = 8;
/// The newest dictionaries that a writer considers for new bodies.
const MOST_CURRENT: usize = 64;

/// The dictionaries of a shard.
pub(crate) struct Dictionaries {
    bucket: Bucket,
    /// Bytes of memory for those that were read.
    bound: u64,
    read: Mutex<Read>,
    current: RwLock<Current>,
    /// Held while dictionaries are trained or retired.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Read {
    cells: HashMap<DictionaryId, Slot>,
    /// Number of reads: the time of a slot's last use.
    reads: u64,
}

struct Slot {
    cell: Arc<OnceCell<Arc<Dictionary>>>,
    used: u64,
}

/// The dictionaries that a writer compresses with.
#[derive(Default)]
struct Current {
    /// By site; the one of all pages has an empty name.
    of_sites: BTreeMap<Vec<u8>, Arc<Dictionary>>,
    /// All that this handle has compressed with: records in memory may name them.
    own: BTreeMap<DictionaryId, Arc<Dictionary>>,
    /// Those that nothing may be stored with any more.
    retired: BTreeSet<DictionaryId>,
    last_number: u64,
}

/// The body of a record, or the reason why there is none.
pub(crate) enum Unpacked {
    Body(Vec<u8>),
    /// Description of the damage.
    Damaged(String),
    /// The dictionary that it needs is missing.
    Without(DictionaryId),
}

/// The reason why a dictionary cannot be read.
enum Miss {
    Absent,
    Failed(Error),
}

impl Dictionaries {
    pub(crate) fn new(bucket: Bucket, bound: u64) -> Dictionaries {
        let (read, current, turn) = (Mutex::default(), RwLock::default(), Mutex::default());
        Dictionaries { bucket, bound, read, current, turn }
    }

    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Excludes others from training and retiring dictionaries.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A dictionary; `None` if it does not exist.
    pub(crate) async fn get(&self, id: DictionaryId) -> Result<Option<Arc<Dictionary>>> {
        if let Some(own) = self.own(id) {
            return Ok(Some(own));
        }
        let cell = {
            let mut read = self.read();
            read.reads += 1;
            let used = read.reads;
            let slot = read.cells.entry(id).or_insert_with(|| Slot { cell: Arc::default(), used });
            slot.used = used;
            Arc::clone(&slot.cell)
        };
        let found = cell.get_or_try_init(|| self.fetched(id)).await.cloned();
        match found {
            Ok(dictionary) => {
                self.shrink();
                Ok(Some(dictionary))
            }
            Err(miss) => {
                self.read().cells.remove(&id);
                match miss {
                    Miss::Absent => Ok(None),
                    Miss::Failed(error) => Err(error),
                }
            }
        }
    }

    async fn fetched(&self, id: DictionaryId) -> std::result::Result<Arc<Dictionary>, Miss> {
        let name = object(id);
        let bytes = self.bucket.get(&name).await.map_err(Miss::Failed)?.ok_or(Miss::Absent)?;
        let dictionary = Dictionary::decode(&bytes, id);
        dictionary.map(Arc::new).map_err(|what| Miss::Failed(self.bucket.damaged(&name, what)))
    }

    /// Drops those not used for longest, until the rest fits into the bound.
    fn shrink(&self) {
        let mut read = self.read();
        let bytes = |slot: &Slot| slot.cell.get().map_or(0, |dictionary| dictionary.bytes());
        let mut sum = read.cells.values().map(bytes).sum::<u64>();
        while sum > self.bound {
            let whole = read.cells.iter().filter(|(_, slot)| slot.cell.initialized());
            let Some(oldest) = whole.min_by_key(|(_, slot)| slot.used).map(|(id, _)| *id) else { return };
            // One that was read since was not counted.
            sum = sum.saturating_sub(read.cells.remove(&oldest).as_ref().map_or(0, bytes));
        }
    }

    /// The body of a page's record.
    pub(crate) async fn unpacked(&self, record: &Record<'_>) -> Result<Unpacked> {
        let dictionary = match record.dictionary() {
            None => None,
            Some(id) => match self.get(id).await? {
                None => return Ok(Unpacked::Without(id)),
                found => found,
            },
        };
        Ok(unpack(record, dictionary.as_deref()).map_or_else(Unpacked::Damaged, Unpacked::Body))
    }

    /// The dictionaries in object storage.
    pub(crate) async fn listed(bucket: &Bucket) -> Result<Vec<(DictionaryId, ObjectMeta)>> {
        let objects = bucket.list(FOLDER).await?;
        Ok(objects.into_iter().filter_map(|object| Some((of_name(object.location.filename()?)?, object))).collect())
    }

    /// Prepares a writer: reads the newest dictionaries, for new bodies. Damaged ones are not
    /// used.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let mut ids: Vec<DictionaryId> = Self::listed(&self.bucket).await?.into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        let newest = ids.split_off(ids.len().saturating_sub(MOST_CURRENT));
        // Only the newest of a site is used: the others are deleted once no segment needs them.
        let mut of_sites: BTreeMap<Vec<u8>, Arc<Dictionary>> = BTreeMap::new();
        for part in newest.chunks(AT_ONCE) {
            for found in join_all(part.iter().map(|id| self.get(*id))).await {
                match found {
                    Err(error) if error.is_damage() => {}
                    found => of_sites.extend(found?.map(|found| (found.facts.site.clone(), found))),
                }
            }
        }
        of_sites.into_values().for_each(|dictionary| self.adopt(dictionary));
        Ok(())
    }

    /// The dictionary for new bodies of a canonical URL: that of its site, or that of all pages.
    pub(crate) fn choose(&self, canonical_url: &[u8]) -> Option<Arc<Dictionary>> {
        self.of_site(keys::site(canonical_url))
    }

    /// The dictionary for new bodies of a site.
    pub(crate) fn of_site(&self, site: &[u8]) -> Option<Arc<Dictionary>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.of_sites.get(site).or_else(|| current.of_sites.get(&b""[..])).cloned()
    }

    /// The next number of a dictionary in the writer's epoch.
    pub(crate) fn next_number(&self) -> u64 {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.last_number += 1;
        current.last_number
    }

    /// Compresses new bodies with a dictionary that is in object storage.
    pub(crate) fn adopt(&self, dictionary: Arc<Dictionary>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.retired.contains(&dictionary.id) {
            return;
        }
        current.own.insert(dictionary.id, Arc::clone(&dictionary));
        let is_older = |other: &Arc<Dictionary>| other.id > dictionary.id;
        if !current.of_sites.get(&dictionary.facts.site).is_some_and(is_older) {
            current.of_sites.insert(dictionary.facts.site.clone(), dictionary);
        }
    }

    /// Stores nothing with these any more. The caller prevents that a record is appended
    /// meanwhile.
    pub(crate) fn retire(&self, ids: &BTreeSet<DictionaryId>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.own.iter().filter(|(id, _)| ids.contains(id)).for_each(|(_, dictionary)| dictionary.retire());
        current.of_sites.retain(|_, dictionary| !ids.contains(&dictionary.id));
        current.retired.extend(ids);
    }

    /// A dictionary that this handle compresses with, or has.
    fn own(&self, id: DictionaryId) -> Option<Arc<Dictionary>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).own.get(&id).cloned()
    }

    /// All that this handle has compressed with and not retired.
    pub(crate) fn owned(&self) -> Vec<Arc<Dictionary>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.own.values().filter(|own| !current.retired.contains(&own.id)).cloned().collect()
    }

    /// The retired ones.
    pub(crate) fn retired(&self) -> BTreeSet<DictionaryId> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).retired.clone()
    }

    /// At one moment: those that records appended from then on may name, and the retired ones,
    /// which only records appended before may name.
    pub(crate) fn used_and_retired(&self) -> (BTreeSet<DictionaryId>, BTreeSet<DictionaryId>) {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let used = current.own.keys().filter(|id| !current.retired.contains(*id)).copied();
        (used.collect(), current.retired.clone())
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::*;
    use crate::bucket::Bounds;
    use crate::format::dictionary::Facts;

    fn dictionaries(bound: u64) -> Dictionaries {
        let bounds = Bounds { retries: 0, slowest: 1 << 20 };
        Dictionaries::new(Bucket::new(Arc::new(InMemory::new()), Path::from("a"), "the test", bounds), bound)
    }

    fn dictionary(number: u64, site: &[u8]) -> Arc<Dictionary> {
        let facts = Facts { site: site.to_vec(), ..Facts::default() };
        Arc::new(Dictionary::new(DictionaryId { epoch: 1, number }, facts, vec![b'x'; 3_000]).expect("taken"))
    }

    fn waited<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a thread");
        runtime.block_on(work)
    }

    #[test]
    fn dictionaries_that_were_read_stay_within_the_bound_and_missing_ones_are_told() {
        let one = dictionary(1, b"");
        let all = dictionaries(2 * one.bytes());
        waited(async {
            for number in 1..5 {
                let stored = dictionary(number, b"");
                all.bucket.replace(&object(stored.id), stored.encode().into()).await.expect("stored");
                let read = all.get(stored.id).await.expect("readable").expect("there");
                assert_eq!(read.content(), stored.content());
            }
            assert_eq!(all.read().cells.len(), 2);
            assert!(all.get(DictionaryId { epoch: 1, number: 9 }).await.expect("no error").is_none());
            assert_eq!(all.read().cells.len(), 2);
            let damaged = DictionaryId { epoch: 1, number: 4 };
            all.bucket.replace(&object(damaged), b"no dictionary".to_vec().into()).await.expect("stored");
            assert!(all.get(damaged).await.is_ok(), "it is in memory");
            all.read().cells.clear();
            assert!(all.get(damaged).await.is_err_and(|error| error.is_damage()));
            all.prepare().await.expect("the others are taken");
            assert_eq!(all.of_site(b"http://a").expect("that of all pages").id.number, 3);
        });
    }

    #[test]
    fn a_site_has_its_own_newest_dictionary_until_that_is_retired() {
        let all = dictionaries(0);
        for (number, site) in [(3, &b""[..]), (5, b"http://a"), (4, b"http://a")] {
            all.adopt(dictionary(number, site));
        }
        let chosen = |url: &[u8]| all.choose(url).map(|dictionary| dictionary.id.number);
        assert_eq!((chosen(b"http://a/x"), chosen(b"http://b/"), chosen(b"urn:a")), (Some(5), Some(3), Some(3)));
        let held = all.choose(b"http://a/").expect("one");
        let gone = DictionaryId { epoch: 1, number: 5 };
        assert!(all.used_and_retired().0.contains(&gone));
        all.retire(&[gone].into());
        let (used, retired) = all.used_and_retired();
        assert!(held.is_retired() && !used.contains(&gone) && used.len() == 2 && retired == [gone].into());
        assert_eq!(chosen(b"http://a/x"), Some(3));
        all.adopt(dictionary(5, b"http://a"));
        assert_eq!(chosen(b"http://a/x"), Some(3), "it does not come back");
    }
}
