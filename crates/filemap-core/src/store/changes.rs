//! Changes since a place in the store's history: durable puts and removals, in the order in which
//! they were made.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::value::Removed;
use crate::handle::reading::Reading;
use crate::logs::values::read::Want;
use crate::record::{Head, Version};
use crate::store::Store;
use crate::store::since::{Found, Since, What};

/// A place in the history of one store; [`Store::changes`] lists the changes since.
///
/// Its text form, which `FromStr` parses, holds the store's id, its life (a new one after a
/// recovery that dropped something, and in a backup), the generation of its erasure rules, and the
/// next sequence.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let at = temp.path().join("a");
/// # let store = filemap_core::Store::create(at, filemap_core::Options::new())?;
/// use filemap_core::changes::ChangeCursor;
///
/// let place = store.changes_end()?;
/// assert_eq!(place.to_string().parse::<ChangeCursor>()?, place);
/// assert!("nowhere".parse::<ChangeCursor>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChangeCursor {
    store_id: [u8; 16],
    life: u64,
    rules: u64,
    next: u64,
}

impl ChangeCursor {
    /// The next sequence: changes with lower ones were returned before.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The store's id.
    pub fn store_id(&self) -> [u8; 16] {
        self.store_id
    }
}

impl fmt::Display for ChangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = u128::from_be_bytes(self.store_id);
        write!(f, "{id:032x}-{:016x}-{}-{}", self.life, self.rules, self.next)
    }
}

impl FromStr for ChangeCursor {
    type Err = Error;

    /// # Errors
    /// `InvalidOption` for any other text.
    fn from_str(text: &str) -> Result<ChangeCursor> {
        let refused = || Error::option("cursor", format!("{text:?} is not a place in a store's history"));
        let parts: Vec<&str> = text.split('-').collect();
        let [id, life, rules, next] = parts[..] else { return Err(refused()) };
        let is_hex = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_hex(id, 32) || !is_hex(life, 16) || !is_number(rules) || !is_number(next) {
            return Err(refused());
        }
        let id = u128::from_str_radix(id, 16).map_err(|_| refused())?;
        let life = u64::from_str_radix(life, 16).map_err(|_| refused())?;
        let (rules, next) = (rules.parse().map_err(|_| refused())?, next.parse().map_err(|_| refused())?);
        Ok(ChangeCursor { store_id: id.to_be_bytes(), life, rules, next })
    }
}

/// One change of a store.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let at = temp.path().join("a");
/// # let store = filemap_core::Store::create(at, filemap_core::Options::new())?;
/// use filemap_core::Record;
/// use filemap_core::changes::Change;
///
/// let before = store.changes_end()?;
/// store.put(&Record::new(b"http://a.example/", b"A page."))?;
/// store.sync()?;
/// let change = store.changes(before)?.next().expect("it was put")?;
/// assert!(matches!(change, Change::Put { key, .. } if key == b"http://a.example/"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// A version was put, and still exists.
    Put {
        /// Its key.
        key: Vec<u8>,
        /// The version without its body.
        head: Head,
    },
    /// All versions of a key with lower sequences were removed.
    Removed {
        /// The key.
        key: Vec<u8>,
        /// Time and sequence of the removal.
        version: Version,
    },
    /// One version of a key was removed ([`Store::remove_version`]), and no other version has the
    /// same time, body and meta.
    RemovedOne {
        /// The key.
        key: Vec<u8>,
        /// Time and sequence of the removal.
        version: Version,
        /// The version that was removed.
        removed: Version,
        /// The digest of its body, as in [`Head::digest`]; zeros if its record was damaged.
        digest: [u8; 16],
        /// XXH3-64 of its meta.
        meta_hash: u64,
    },
    /// The erasure rules have changed; [`Store::rules`] returns them. Copies of what they erased
    /// must be erased too.
    Rules,
    /// A damaged record: its change is not known.
    Damaged {
        /// Its key and version; `None` if they are not known.
        of: Option<(Vec<u8>, Version)>,
        /// Its file and offset.
        error: Error,
    },
}

/// The changes of a store since a place in its history; see [`Store::changes`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let at = temp.path().join("a");
/// # let store = filemap_core::Store::create(at, filemap_core::Options::new())?;
/// let mut changes = store.changes(store.changes_end()?)?;
/// assert!(changes.next().is_none());
/// store.put(&filemap_core::Record::new(b"http://a.example/", b"A page."))?;
/// store.sync()?;
/// assert!(changes.renew()? && changes.next().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Changes {
    reading: Arc<Reading>,
    at: ChangeCursor,
    /// Reads the log up to its durable end.
    since: Since,
    /// A version that no longer exists, and the next sequence when that was found. Whatever
    /// replaced or removed it must be durable before the version is skipped.
    gone: Option<(u64, u64)>,
    /// Removals may be missing from the changes.
    only_puts: bool,
    is_ended: bool,
}

filemap_io::debug_fields!(Changes: at);

impl Store {
    /// The current place in the store's history: every durable change was made before it. A
    /// follower first follows its writer, and syncs the part of the log that it has found.
    ///
    /// # Errors
    /// `Corrupt`; `Io`; `Closed`.
    pub fn changes_end(&self) -> Result<ChangeCursor> {
        self.reading.check_open()?;
        if let Ok(upkeep) = self.upkeep() {
            // Otherwise the tombstone of a running removal could lie before this place while its
            // version is still listed.
            upkeep.removals_ended();
        }
        let (_, next) = self.reading.durable_end()?;
        let latest = self.reading.latest();
        Ok(ChangeCursor { store_id: latest.store_id, life: latest.life, rules: latest.rules, next })
    }

    /// Returns whether the store still has everything that it had at a place in its history:
    /// nothing was taken back or lost since. The place must have been noted by the writer of this
    /// store.
    ///
    /// # Errors
    /// As [`Store::changes_end`].
    pub fn has_come_from(&self, place: ChangeCursor) -> Result<bool> {
        let now = self.changes_end()?;
        let kept_from = self.reading.latest().removals_from;
        Ok(place.store_id == now.store_id && place.next <= now.next && kept_from <= place.next)
    }

    /// Lists the changes since a place in the store's history: each version put since that still
    /// exists, and each removal, in the order of their sequences. Only durable changes are
    /// returned, so that no crash can take back one that was. Versions dropped by retention are
    /// not mentioned, nor are removals of keys that had been erased.
    ///
    /// To mirror a whole store, take [`Store::changes_end`], list the versions with sequences
    /// below its next one, then continue from that place. Later versions in the list may not be
    /// durable.
    ///
    /// The first change costs reading some heads of one segment; each further one costs reading
    /// its record and a lookup. Where compaction has removed a segment of the log, all its outputs
    /// since are read once for each million records in them.
    ///
    /// ```
    /// # let temp = tempfile::tempdir()?;
    /// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
    /// use filemap_core::Record;
    /// use filemap_core::changes::Change;
    /// let before = store.changes_end()?;
    /// store.put(&Record::new(b"http://a.example/", b"A page."))?;
    /// store.sync()?;
    /// let mut changes = store.changes(before)?;
    /// assert!(matches!(changes.next(), Some(Ok(Change::Put { .. }))));
    /// assert!(changes.next().is_none());
    /// assert_eq!(changes.cursor(), store.changes_end()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Outrun`] if the changes are no longer known: the place belongs to another store or
    /// another life of it, or removals since were dropped
    /// ([`Options::keep_removals`](crate::Options::keep_removals)). `Corrupt`; `Io`; `Closed`.
    pub fn changes(&self, since: ChangeCursor) -> Result<Changes> {
        self.reading.check_open()?;
        let mut end = self.reading.durable_end()?;
        if since.next > end.1 && !self.is_read_only() {
            // A follower may have returned it already.
            self.sync()?;
            end = self.reading.durable_end()?;
        }
        let from = Since::new(Arc::clone(&self.reading), since.next, end);
        let reading = Arc::clone(&self.reading);
        let changes = Changes { reading, at: since, since: from, gone: None, only_puts: false, is_ended: false };
        changes.check_kept()?;
        Ok(changes)
    }

    /// As [`Store::changes`], for callers that need puts only. It continues where removals were
    /// dropped, where a recovery took back changes that were not durable and so were never
    /// returned, and on a copy of the store.
    ///
    /// # Errors
    /// [`Error::Outrun`] if the place belongs to another store, or the store is an older state.
    /// `Corrupt`; `Io`; `Closed`.
    pub fn puts(&self, since: ChangeCursor) -> Result<Changes> {
        let now = self.changes_end()?;
        let mut changes = match since.store_id == now.store_id && since.next <= now.next {
            true => self.changes(ChangeCursor { next: now.next, ..now })?,
            false => return self.changes(since),
        };
        let end = self.reading.durable_end()?;
        (changes.only_puts, changes.at.next) = (true, since.next);
        changes.since = Since::new(Arc::clone(&self.reading), since.next, end);
        Ok(changes)
    }
}

impl Changes {
    /// The place after the last change returned, from which a later call continues.
    pub fn cursor(&self) -> ChangeCursor {
        self.at
    }

    /// Extends the iteration to everything durable now. Returns true if there are more changes.
    ///
    /// # Errors
    /// As [`Store::changes`].
    pub fn renew(&mut self) -> Result<bool> {
        self.reading.check_open()?;
        self.since.end = self.reading.durable_end()?;
        self.check_kept()?;
        Ok(self.at.next < self.since.end.1 || self.at.rules != self.reading.latest().rules)
    }

    /// # Errors
    /// `Outrun`.
    fn check_kept(&self) -> Result<()> {
        let latest = self.reading.latest();
        let why = if self.at.store_id != latest.store_id {
            "the place is in another store's history"
        } else if self.at.life != latest.life {
            "the store has dropped something since, in a recovery or a repair, or is a copy of that one"
        } else if self.at.next < latest.removals_from && !self.only_puts {
            "removals since were dropped, which are kept for a time only"
        } else if self.at.next > self.since.end.1 || self.at.rules > latest.rules {
            "the store is an older state of that one"
        } else {
            return Ok(());
        };
        Err(Error::Outrun { why: why.into() })
    }

    /// The change that a record describes, unless it no longer applies.
    fn told(&self, found: &Found) -> Result<Option<Change>> {
        let Found { key, version, what } = found;
        let (key, version) = (key, *version);
        match what {
            What::Put => {}
            What::Removed => return Ok(Some(Change::Removed { key: key.clone(), version })),
            What::RemovedOne(one) if self.is_there(key, one, version.sequence)? => return Ok(None),
            What::RemovedOne(one) => {
                let (removed, digest, meta_hash) = (one.version, one.digest, one.meta_hash);
                return Ok(Some(Change::RemovedOne { key: key.clone(), version, removed, digest, meta_hash }));
            }
        }
        let head = self.reading.looking_again(|| {
            let newest = self.reading.with_newest(key, Want::Head, |raw| raw.head());
            match newest {
                Ok(Some(head)) if head.version.sequence == version.sequence => return Ok(Some(head)),
                Ok(None) => return Ok(None),
                // A damaged newest version does not hide the others.
                Err(e) if !e.is_corrupt() => return Err(e),
                _ => {}
            }
            let mut spots = self.reading.all_spots(key, self.reading.hash(key))?;
            self.reading.hide_surplus(&mut spots);
            let spot = spots.iter().find(|s| s.version.sequence == version.sequence);
            spot.map(|spot| self.reading.with_spot(key, spot, Want::Head, |raw| raw.head())).transpose()
        })?;
        Ok(head.map(|head| Change::Put { key: key.clone(), head }))
    }

    /// Returns whether another version has the same time, body and meta as a removed one: programs
    /// that copy versions take it for the same. One put after the removal is returned later.
    fn is_there(&self, key: &[u8], one: &Removed, removed_at: u64) -> Result<bool> {
        self.reading.looking_again(|| {
            let mut spots = self.reading.all_spots(key, self.reading.hash(key))?;
            self.reading.hide_surplus(&mut spots);
            // The removed version may not have been dropped by a checkpoint yet.
            spots.retain(|s| s.version.sequence < removed_at && !one.removes(s.version.sequence, s.refers_to));
            for spot in spots.iter().filter(|s| s.version.time_ms == one.version.time_ms) {
                let head = self.reading.with_spot(key, spot, Want::Head, |raw| raw.head());
                match head {
                    Ok(head) if head.digest == one.digest && xxh3_64(&head.meta) == one.meta_hash => return Ok(true),
                    Err(e) if !e.is_corrupt() => return Err(e),
                    _ => {}
                }
            }
            Ok(false)
        })
    }
}

impl Iterator for Changes {
    type Item = Result<Change>;

    /// The next change; `None` after the last that was durable at the last [`Changes::renew`]. An
    /// error ends the iteration: begin again at [`Changes::cursor`].
    fn next(&mut self) -> Option<Result<Change>> {
        if self.is_ended {
            return None;
        }
        let next = self.advance().transpose();
        self.is_ended = matches!(next, Some(Err(_)));
        next
    }
}

impl Changes {
    fn advance(&mut self) -> Result<Option<Change>> {
        let rules = self.reading.latest().rules;
        if rules > self.at.rules {
            self.at.rules = rules;
            return Ok(Some(Change::Rules));
        }
        loop {
            let end = self.since.end.1;
            if self.gone.is_some_and(|(_, before)| before > end) {
                return Ok(None);
            }
            let found = match self.since.pop() {
                Some(Ok(found)) if found.version.sequence < end => found,
                Some(Ok(found)) => {
                    self.since.unpop(found);
                    return Ok(None);
                }
                Some(Err(error)) => return Ok(Some(Change::Damaged { of: None, error })),
                None => {
                    self.at.next = self.at.next.max(self.since.covered());
                    if self.at.next >= end {
                        return Ok(None);
                    }
                    self.since.read_some(self.at.next)?;
                    // Removals in segments that compaction removed may be in no output.
                    self.check_kept()?;
                    continue;
                }
            };
            let told = match self.told(&found) {
                Ok(None) if !self.is_gone_for_good(&found) => {
                    self.since.unpop(found);
                    continue;
                }
                Err(error) if !error.is_corrupt() => {
                    self.since.unpop(found);
                    return Err(error);
                }
                told => told,
            };
            self.at.next = found.version.sequence + 1;
            match told {
                Ok(None) => {}
                Err(error) => return Ok(Some(Change::Damaged { of: Some((found.key, found.version)), error })),
                told => return told,
            }
        }
    }

    /// Returns whether no power loss can bring back a version that no longer exists. If one can,
    /// the version is examined again once everything in the log now is durable.
    fn is_gone_for_good(&mut self, found: &Found) -> bool {
        let (sequence, end) = (found.version.sequence, self.since.end.1);
        if planted(Fault::GoneBelieved) || self.gone.is_some_and(|(of, before)| of == sequence && before <= end) {
            return true;
        }
        let hash = self.reading.hash(&found.key);
        let (_, removed) = self.reading.in_memtables(&found.key, hash);
        // A removal in no memtable is in the index, made durable by a checkpoint.
        let is_replaced =
            self.reading.options().keep_versions.is_some() && self.reading.has_in_memory_since(&found.key, hash, end);
        let is_durable = removed < end && !is_replaced;
        if !is_durable {
            self.gone = Some((sequence, self.reading.log_end().1));
        }
        is_durable
    }
}
