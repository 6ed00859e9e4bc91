//! URLs as the keys of a set: fingerprints for a set on disk, texts for the others.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use filemap_io::{guard, layout};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{AnySet, StoredSet};
use crate::error::{Error, Result};
use crate::format::RequestsHeader;
use crate::journal::{self, Journal, Keep, KeysOf};
use crate::seen::{SeenSet, Verdict};

const FINGERPRINT_BYTES: usize = 10;
/// Maximum URL length that every kind takes.
const URL_BYTES_MAX: usize = u16::MAX as usize;

/// Keys of one set, in order of arrival.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// Of a set on disk.
    Fingerprints(Vec<u128>),
    /// Of any other.
    Texts(Vec<Box<[u8]>>),
}

impl Keys {
    /// An empty list of the same kind.
    pub(crate) fn none(&self) -> Keys {
        match self {
            Keys::Fingerprints(_) => Keys::Fingerprints(Vec::new()),
            Keys::Texts(_) => Keys::Texts(Vec::new()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Keys::Fingerprints(keys) => keys.len(),
            Keys::Texts(keys) => keys.len(),
        }
    }

    /// Adds all keys of another request to the same set.
    pub(crate) fn extend(&mut self, from: &Keys) {
        match (self, from) {
            (Keys::Fingerprints(keys), Keys::Fingerprints(from)) => keys.extend_from_slice(from),
            (Keys::Texts(keys), Keys::Texts(from)) => keys.extend_from_slice(from),
            _ => {}
        }
    }

    /// Appends the key at this place in its encoding for files.
    pub(crate) fn write(&self, place: usize, out: &mut Vec<u8>) {
        match self {
            Keys::Fingerprints(keys) => out.extend_from_slice(&keys[place].to_be_bytes()[..FINGERPRINT_BYTES]),
            Keys::Texts(keys) => {
                layout::push(out, keys[place].len() as u32);
                out.extend_from_slice(&keys[place]);
            }
        }
    }

    /// Adds keys from their encoding for files; `None` if the bytes are malformed.
    fn read(&mut self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            match self {
                Keys::Fingerprints(keys) => {
                    let (key, rest) = bytes.split_first_chunk::<FINGERPRINT_BYTES>()?;
                    let mut whole = [0; size_of::<u128>()];
                    whole[..FINGERPRINT_BYTES].copy_from_slice(key);
                    keys.push(u128::from_be_bytes(whole));
                    bytes = rest;
                }
                Keys::Texts(keys) => {
                    let len = layout::take::<u32>(&mut bytes)?;
                    let (text, rest) = bytes.split_at_checked(len as usize)?;
                    keys.push(text.into());
                    bytes = rest;
                }
            }
        }
        Some(())
    }

    /// A hash of all keys and their order.
    pub(crate) fn digest(&self, hash: &mut Xxh3) {
        match self {
            Keys::Fingerprints(keys) => keys.iter().for_each(|key| hash.update(&key.to_le_bytes())),
            Keys::Texts(keys) => keys.iter().for_each(|key| {
                hash.update(&(key.len() as u64).to_le_bytes());
                hash.update(key);
            }),
        }
    }
}

/// Distinct keys in memory, in order of arrival.
#[derive(Debug)]
pub(crate) struct KeySet {
    keys: Keys,
    fingerprints: HashSet<u128, BuildHasherDefault<OfHash>>,
    texts: HashSet<Box<[u8]>>,
}

impl KeySet {
    /// An empty set of keys, of the kind of `none`.
    pub(crate) fn new(none: Keys) -> KeySet {
        KeySet { keys: none, fingerprints: HashSet::default(), texts: HashSet::new() }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn has(&self, keys: &Keys, place: usize) -> bool {
        match keys {
            Keys::Fingerprints(keys) => self.fingerprints.contains(&keys[place]),
            Keys::Texts(keys) => self.texts.contains(&keys[place]),
        }
    }

    /// Adds a key; returns false if it was present.
    pub(crate) fn add(&mut self, keys: &Keys, place: usize) -> bool {
        match (keys, &mut self.keys) {
            (Keys::Fingerprints(from), Keys::Fingerprints(to)) => {
                let is_new = self.fingerprints.insert(from[place]);
                to.extend(is_new.then_some(from[place]));
                is_new
            }
            (Keys::Texts(from), Keys::Texts(to)) => {
                let is_new = self.texts.insert(from[place].clone());
                to.extend(is_new.then(|| from[place].clone()));
                is_new
            }
            _ => false,
        }
    }

    /// Removes all keys but the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        match &mut self.keys {
            Keys::Fingerprints(keys) => keys.drain(len..).for_each(|key| {
                self.fingerprints.remove(&key);
            }),
            Keys::Texts(keys) => keys.drain(len..).for_each(|key| {
                self.texts.remove(&key);
            }),
        }
    }

    /// Removes all keys, and frees their memory.
    pub(crate) fn clear(&mut self) {
        *self = KeySet::new(self.keys.none());
    }
}

/// Hasher of fingerprints, which are uniform except for their low bits, which are zero.
#[derive(Default)]
struct OfHash(u64);

impl Hasher for OfHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u128(&mut self, fingerprint: u128) {
        let folded = (fingerprint >> 64) as u64 ^ (fingerprint as u64).rotate_left(32);
        self.0 = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Not called for a number.
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }
}

impl StoredSet {
    /// An empty list of keys of this set.
    pub(crate) fn keys(&self) -> Keys {
        match &self.set {
            AnySet::Disk(_) => Keys::Fingerprints(Vec::new()),
            _ => Keys::Texts(Vec::new()),
        }
    }

    /// A hash that differs between sets that cannot take each other's keys.
    ///
    /// # Errors
    /// As [`StoredSet::canonicalizer`].
    pub(crate) fn keys_of(&self) -> Result<u64> {
        let rules = self.rules()?;
        Ok(match &self.set {
            AnySet::Disk(set) => {
                let of = [u64::from(set.fingerprint_bits().bits()), set.seed()];
                xxh3_64(&[&b"disk"[..], &of[0].to_le_bytes(), &of[1].to_le_bytes(), &rules].concat())
            }
            _ => xxh3_64(&[&b"text"[..], &rules].concat()),
        })
    }

    /// Name and version of the canonicaliser; empty without a note.
    fn rules(&self) -> Result<Vec<u8>> {
        let mut known = guard(&self.rules);
        if known.is_none() {
            let noted = self.canonicalizer()?;
            let text = noted.map(|noted| format!("{} {}", noted.name(), noted.version()));
            *known = Some(text.unwrap_or_default().into_bytes());
        }
        Ok(known.clone().unwrap_or_default())
    }

    /// Returns whether a look-up now neither waits for a lock nor writes.
    pub(crate) fn is_free(&self) -> bool {
        match &self.set {
            AnySet::Disk(set) => set.is_free(),
            AnySet::Trie(_) | AnySet::Growing(_) => false,
            _ => true,
        }
    }

    /// Adds the key of a canonical URL; returns false for an empty one and one of more than 65,535
    /// bytes.
    pub(crate) fn push_key(&self, keys: &mut Keys, url: &[u8]) -> bool {
        match (keys, &self.set) {
            _ if url.is_empty() || url.len() > URL_BYTES_MAX => return false,
            (Keys::Fingerprints(keys), AnySet::Disk(set)) => keys.push(set.fingerprint(url).0),
            (Keys::Texts(keys), _) => keys.push(url.into()),
            (Keys::Fingerprints(_), _) => return false,
        }
        true
    }

    /// Looks up each of the keys.
    ///
    /// # Errors
    /// As [`SeenSet::contains`].
    pub(crate) fn find_keys(&self, keys: &Keys) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        match (keys, &self.set) {
            (Keys::Fingerprints(keys), AnySet::Disk(set)) => {
                let mut batch = set.batch();
                batch.reserve(keys.len());
                keys.iter().try_for_each(|key| batch.push_fingerprint(*key))?;
                verdicts.extend(set.contains_all(&mut batch)?.iter());
            }
            (Keys::Texts(keys), _) => {
                let urls: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
                self.contains_batch(&urls, &mut verdicts)?;
            }
            (Keys::Fingerprints(_), _) => {}
        }
        Ok(verdicts)
    }

    /// Makes sure that the set has room for the keys from place `from` on; if it has not, nothing
    /// is changed.
    ///
    /// # Errors
    /// [`crate::StorageError::Full`].
    pub(crate) fn make_room_for(&self, keys: &Keys, from: usize) -> Result<()> {
        match keys {
            Keys::Fingerprints(_) => Ok(()),
            Keys::Texts(keys) => {
                let (others, new) = keys.split_at(from);
                self.make_room_beside(&new.iter().map(|key| &**key).collect::<Vec<&[u8]>>(), others)
            }
        }
    }

    /// Inserts keys that the set does not have, without repeats.
    ///
    /// # Errors
    /// As [`SeenSet::check_and_insert`].
    pub(crate) fn insert_new_keys(&self, keys: &Keys) -> Result<()> {
        match (keys, &self.set) {
            (Keys::Fingerprints(keys), AnySet::Disk(set)) => set.insert_new(keys.clone()),
            _ => self.insert_keys(keys),
        }
    }

    /// Inserts keys, some of which the set may have.
    ///
    /// # Errors
    /// As [`SeenSet::check_and_insert`].
    pub(crate) fn insert_keys(&self, keys: &Keys) -> Result<()> {
        self.check_writable()?;
        match (keys, &self.set) {
            (Keys::Fingerprints(keys), AnySet::Disk(set)) => {
                let mut batch = set.batch();
                batch.reserve(keys.len());
                keys.iter().try_for_each(|key| batch.push_fingerprint(*key))?;
                set.check_and_insert_all(&mut batch).map(drop)
            }
            (Keys::Texts(keys), _) => {
                let urls: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
                // There is room: `make_room_for` was called.
                self.set.seen().check_and_insert_batch(&urls, &mut Vec::new())
            }
            (Keys::Fingerprints(_), _) => Ok(()),
        }
    }

    fn decoded(&self, of: &KeysOf) -> Result<Keys> {
        let mut keys = self.keys();
        keys.read(&of.bytes).ok_or_else(|| of.malformed())?;
        Ok(keys)
    }

    /// Keeps the answered keys of a journal that this set's files lack.
    ///
    /// # Errors
    /// `Corrupt`, if they are keys of another set, or malformed.
    pub(super) fn look_at(&mut self, journal: &[KeysOf]) -> Result<()> {
        let mut waiting = KeySet::new(self.keys());
        for of in journal {
            if of.keys_of != self.keys_of()? {
                let at = RequestsHeader::KEYS_OF.at as u64;
                return Err(Error::corrupt(&of.file, at, "the requests are those of another set"));
            }
            let keys = self.decoded(of)?;
            let seen = self.find_keys(&keys)?;
            for (place, _) in seen.iter().enumerate().filter(|(_, verdict)| verdict.is_new()) {
                waiting.add(&keys, place);
            }
        }
        self.waiting = (waiting.len() > 0).then(|| Box::new(waiting));
        Ok(())
    }

    /// Returns whether a URL was answered that the set's files lack.
    pub(super) fn is_waiting(&self, url: &[u8]) -> bool {
        let Some(waiting) = &self.waiting else { return false };
        let mut keys = self.keys();
        self.push_key(&mut keys, url) && waiting.has(&keys, 0)
    }

    /// The journal of requests to this set.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; those of [`Journal::open`].
    pub(crate) fn journal(&self, keep: Keep) -> Result<Journal> {
        self.check_writable()?;
        Journal::open(Arc::clone(&self.dir), &self.name, self.keys_of()?, keep)
    }

    /// Inserts the keys of requests that were answered before a crash.
    ///
    /// # Errors
    /// Those of [`journal::recover`].
    pub(super) fn take_answered(&self) -> Result<()> {
        let insert = |of: &KeysOf| {
            let keys = self.decoded(of)?;
            self.make_room_for(&keys, 0)?;
            self.insert_keys(&keys)
        };
        if journal::files_of(&*self.dir, &self.name)?.is_empty() {
            return Ok(());
        }
        journal::recover(&self.dir, &self.name, self.keys_of()?, insert, || self.sync())
    }
}
