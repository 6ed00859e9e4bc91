//! The files of a cache on disk: parts that entries are appended to, and that are deleted whole,
//! oldest first, before the cache exceeds its bound.
//!
//! An entry counts by its checksums alone: nothing is synced, and bytes that are torn, damaged or
//! of another program are ignored. Several processes may share a folder: each appends to parts of
//! its own, reads those of all that it has seen, and may delete any. A part that is deleted under
//! its reader stays readable while it is open; then its entries are missing. A bounded number of
//! parts is open, those used last. Files with other names are left alone.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use filemap_io::{Access, Dir, File, OsDir, files, system};
use xxhash_rust::xxh3::xxh3_64;

use super::CacheCounts;

/// The smallest bound of a cache.
const LEAST_BYTES: u64 = 1 << 20;
/// Parts of a full cache, and the longest part.
const PARTS: u64 = 16;
const MOST_PART_BYTES: u64 = 64 << 20;
/// The most parts that are open for reading.
const OPEN: usize = if cfg!(test) { 4 } else { 64 };
/// The end of a part's name; before it the time of its making and a random number.
const END: &str = ".part";
/// The length of a part's name.
const NAME_BYTES: usize = 16 + 1 + 16 + END.len();

filemap_io::layout! {
    /// The head of an entry; the bytes follow.
    struct Head {
        0 MAGIC: [u8; 8] = "`FMCACHE1`";
        8 KEY: u128 = "XXH3-128 of store, object and range";
        24 SIZE: u64 = "length of the object";
        32 MODIFIED_MS: i64 = "time of the object, ms since 1970";
        40 PAYLOAD_BYTES: u64 = "length of the bytes";
        48 PAYLOAD_CHECKSUM: u64 = "XXH3 of the bytes";
        56 CHECKSUM: u64 = "XXH3 of the head before";
    }
}

const MAGIC: [u8; 8] = *b"FMCACHE1";

/// A range of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The length of the whole object.
    pub(super) size: u64,
    pub(super) modified_ms: i64,
    pub(super) bytes: Bytes,
}

impl Entry {
    fn encode(&self, key: u128) -> Vec<u8> {
        let mut out = vec![0; Head::BYTES];
        Head::MAGIC.put(&mut out, MAGIC);
        Head::KEY.put(&mut out, key);
        Head::SIZE.put(&mut out, self.size);
        Head::MODIFIED_MS.put(&mut out, self.modified_ms);
        Head::PAYLOAD_BYTES.put(&mut out, self.bytes.len() as u64);
        Head::PAYLOAD_CHECKSUM.put(&mut out, xxh3_64(&self.bytes));
        let checksum = xxh3_64(&out[..Head::CHECKSUM.at]);
        Head::CHECKSUM.put(&mut out, checksum);
        out.extend_from_slice(&self.bytes);
        out
    }

    /// Decodes the entry of a key; `None` if the bytes are another or damaged.
    fn decode(bytes: Vec<u8>, key: u128) -> Option<Entry> {
        let (of_key, payload_bytes) = head(&bytes)?;
        let payload = bytes.get(Head::BYTES..)?;
        let is_it = of_key == key
            && payload_bytes == payload.len() as u64
            && Head::PAYLOAD_CHECKSUM.get(&bytes) == xxh3_64(payload);
        let (size, modified_ms) = (Head::SIZE.get(&bytes), Head::MODIFIED_MS.get(&bytes));
        is_it.then(|| Entry { size, modified_ms, bytes: Bytes::from(bytes).slice(Head::BYTES..) })
    }
}

/// The key and the length of the bytes, from a valid head.
fn head(bytes: &[u8]) -> Option<(u128, u64)> {
    let head = bytes.get(..Head::BYTES)?;
    let is_valid = Head::MAGIC.get(head) == MAGIC && Head::CHECKSUM.get(head) == xxh3_64(&head[..Head::CHECKSUM.at]);
    is_valid.then(|| (Head::KEY.get(head), Head::PAYLOAD_BYTES.get(head)))
}

/// The place of an entry.
#[derive(Clone, Debug)]
struct Spot {
    /// The name of its part.
    part: Arc<str>,
    offset: u64,
    /// Length of head and bytes.
    bytes: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Known parts by name, oldest first, with their lengths.
    parts: BTreeMap<String, u64>,
    spots: HashMap<u128, Spot>,
    /// The part that this handle appends to.
    own: Option<Own>,
}

/// A part that a handle appends to.
#[derive(Clone, Debug)]
struct Own {
    name: Arc<str>,
    file: Arc<dyn File>,
}

/// A part by name.
type Part = (Arc<str>, Arc<dyn File>);

/// The files of a cache.
#[derive(Debug)]
pub(super) struct Files {
    dir: OsDir,
    most: u64,
    part_bytes: u64,
    state: Mutex<State>,
    /// Open parts, the one used last at the end. Locked after the state.
    open: Mutex<VecDeque<Part>>,
    hits: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
    failed: AtomicU64,
}

impl Files {
    /// Opens or makes the cache in a folder; its parent must exist.
    pub(super) fn open(folder: &Path, bytes: u64) -> io::Result<Files> {
        system::create_dir(folder)?;
        let most = bytes.max(LEAST_BYTES);
        let files = Files {
            dir: OsDir::open(folder)?,
            most,
            part_bytes: (most / PARTS).min(MOST_PART_BYTES),
            state: Mutex::default(),
            open: Mutex::default(),
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
            damaged: AtomicU64::default(),
            failed: AtomicU64::default(),
        };
        {
            let mut state = files.state();
            files.look(&mut state)?;
            files.shrink(&mut state, most)?;
        }
        Ok(files)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> CacheCounts {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CacheCounts {
            hits: count(&self.hits),
            misses: count(&self.misses),
            damaged: count(&self.damaged),
            failed: count(&self.failed),
            bytes: self.state().bytes(),
        }
    }

    /// The file of a part, opened if it is not. Closes the one that was used least recently.
    fn file(&self, name: &Arc<str>) -> io::Result<Arc<dyn File>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().position(|(of, _)| of == name).and_then(|at| open.remove(at));
        let (name, file) = match known {
            Some(known) => known,
            None => (Arc::clone(name), self.dir.open(name, Access::Read)?),
        };
        open.push_back((name, Arc::clone(&file)));
        while open.len() > OPEN {
            open.pop_front();
        }
        Ok(file)
    }

    /// Closes a part that is deleted.
    fn close(&self, name: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _)| **of != *name);
    }

    /// The entry of a key, if it is there and intact.
    pub(super) fn get(&self, key: u128) -> Option<Entry> {
        let spot = self.state().spots.get(&key).cloned();
        // Without its file the part was deleted.
        let file = spot.as_ref().and_then(|spot| self.file(&spot.part).ok());
        let found = spot.as_ref().zip(file.as_ref()).and_then(|(spot, file)| {
            let mut bytes = vec![0; usize::try_from(spot.bytes).ok()?];
            files::read_exact(&**file, &spot.part, &mut bytes, spot.offset).ok()?;
            Entry::decode(bytes, key)
        });
        if found.is_some() {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return found;
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        self.damaged.fetch_add(u64::from(file.is_some()), Ordering::Relaxed);
        if spot.is_some() {
            self.state().spots.remove(&key);
        }
        None
    }

    /// Drops the entries of these keys, as damaged.
    pub(super) fn drop_entries(&self, is_dropped: impl Fn(u128) -> bool) {
        let mut state = self.state();
        let before = state.spots.len();
        state.spots.retain(|key, _| !is_dropped(*key));
        self.damaged.fetch_add((before - state.spots.len()) as u64, Ordering::Relaxed);
    }

    /// Keeps an entry, unless it is longer than a part. One that cannot be written is counted.
    pub(super) fn put(&self, key: u128, entry: &Entry) {
        let bytes = entry.encode(key);
        if bytes.len() as u64 > self.part_bytes {
            return;
        }
        let kept = self.place(bytes.len() as u64).and_then(|(own, offset)| {
            own.file.write_at(&bytes, offset)?;
            Ok(Spot { part: own.name, offset, bytes: bytes.len() as u64 })
        });
        match kept {
            Ok(spot) => {
                let mut state = self.state();
                // The part may have been deleted in the meantime.
                if state.parts.contains_key(&*spot.part) {
                    state.spots.insert(key, spot);
                }
            }
            Err(_) => _ = self.failed.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Reserves bytes at the end of the own part, or of a new one.
    fn place(&self, bytes: u64) -> io::Result<(Own, u64)> {
        let mut state = self.state();
        if let Some(own) = state.own.clone()
            && let Some(length) = state.parts.get_mut(&*own.name)
            && *length + bytes <= self.part_bytes
        {
            let offset = *length;
            *length += bytes;
            return Ok((own, offset));
        }
        self.look(&mut state)?;
        // A new part counts as full.
        self.shrink(&mut state, self.most - self.part_bytes)?;
        let name = self.name()?;
        let file = self.dir.open(&name, Access::Create)?;
        let own = Own { name: Arc::from(&*name), file };
        state.parts.insert(name, bytes);
        state.own = Some(own.clone());
        Ok((own, 0))
    }

    /// The name of a new part: later ones sort behind earlier ones.
    fn name(&self) -> io::Result<String> {
        let mut random = [0; 8];
        self.dir.random(&mut random)?;
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_millis()).unwrap_or_default();
        Ok(format!("{now_ms:016x}-{:016x}{END}", u64::from_le_bytes(random)))
    }

    /// Takes over parts that others have made, and forgets those that others have deleted.
    fn look(&self, state: &mut State) -> io::Result<()> {
        let mut there: BTreeSet<String> = self.dir.list()?.into_iter().filter(|name| is_part(name)).collect();
        let own = state.own.as_ref().map(|own| Arc::clone(&own.name));
        state.parts.retain(|name, length| {
            let is_there = there.remove(name);
            if is_there && own.as_deref() != Some(name.as_str()) {
                // Another process may have appended to it.
                let now = self.file(&Arc::from(&**name)).and_then(|file| file.len());
                *length = now.unwrap_or(*length);
            }
            is_there
        });
        for name in there {
            let part: Arc<str> = Arc::from(&*name);
            // Deleted in the meantime, or not a file of this user: not a part.
            let Ok(file) = self.file(&part) else { continue };
            let length = file.len()?;
            state.spots.extend(entries(&*file, &part, length));
            state.parts.insert(name, length);
        }
        state.forget();
        Ok(())
    }

    /// Deletes the oldest parts until all others have at most `most` bytes.
    fn shrink(&self, state: &mut State, most: u64) -> io::Result<()> {
        while state.bytes() > most {
            let Some((name, _)) = state.parts.pop_first() else { break };
            self.close(&name);
            match self.dir.remove(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        state.forget();
        Ok(())
    }
}

impl State {
    fn bytes(&self) -> u64 {
        self.parts.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
    }

    /// Forgets the entries of parts that are gone.
    fn forget(&mut self) {
        let State { parts, spots, own } = self;
        spots.retain(|_, spot| parts.contains_key(&*spot.part));
        if own.as_ref().is_some_and(|own| !parts.contains_key(&*own.name)) {
            *own = None;
        }
    }
}

/// Returns whether a file is a part, by its name.
fn is_part(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte) || byte == b'-';
    name.len() == NAME_BYTES && name.strip_suffix(END).is_some_and(|digits| digits.bytes().all(is_digit))
}

/// The entries of a part, up to the first head that is not valid.
fn entries(file: &dyn File, part: &Arc<str>, length: u64) -> Vec<(u128, Spot)> {
    let (mut found, mut offset) = (Vec::new(), 0);
    let mut bytes = [0; Head::BYTES];
    while files::read_exact(file, part, &mut bytes, offset).is_ok() {
        let Some((key, payload_bytes)) = head(&bytes) else { break };
        let bytes = payload_bytes.saturating_add(Head::BYTES as u64);
        let end = offset.saturating_add(bytes);
        if end > length {
            break;
        }
        found.push((key, Spot { part: Arc::clone(part), offset, bytes }));
        offset = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = LEAST_BYTES;

    fn entry(nth: u64) -> Entry {
        Entry { size: 9_000 + nth, modified_ms: 5, bytes: Bytes::from(nth.to_le_bytes().repeat(500)) }
    }

    fn held(files: &Files, entries: std::ops::Range<u64>) -> u64 {
        let is_it = |nth: &u64| files.get(u128::from(*nth)).inspect(|found| assert_eq!(*found, entry(*nth))).is_some();
        entries.filter(is_it).count() as u64
    }

    fn disk_bytes(folder: &Path) -> u64 {
        let dir = OsDir::open(folder).expect("a folder");
        let names = dir.list().expect("listed");
        names.iter().map(|name| dir.open(name, Access::Read).and_then(|file| file.len()).expect("a file")).sum()
    }

    #[test]
    fn entries_come_back_also_to_another_handle_and_the_bound_holds() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::open(folder.path(), MOST).expect("opened");
        for nth in 0..100 {
            files.put(u128::from(nth), &entry(nth));
        }
        assert_eq!(held(&files, 0..120), 100);
        let counts = files.counts();
        assert_eq!((counts.hits, counts.misses, counts.damaged, counts.failed), (100, 20, 0, 0));
        assert_eq!(held(&Files::open(folder.path(), MOST).expect("opened"), 0..120), 100, "another handle");
        for nth in 100..1_000 {
            files.put(u128::from(nth), &entry(nth));
            assert!(disk_bytes(folder.path()) <= MOST, "entry {nth}");
        }
        let left = held(&files, 0..1_000);
        assert!((200..=MOST / 4_000).contains(&left), "{left} entries");
        assert_eq!(held(&files, 999..1_000), 1, "the newest stays");
        files.put(5_000, &Entry { bytes: Bytes::from(vec![0; MOST as usize]), ..entry(0) });
        assert!(files.get(5_000).is_none() && files.counts().failed == 0, "it is longer than a part");
        // A smaller bound frees bytes at once.
        let larger = tempfile::tempdir().expect("a folder");
        let files = Files::open(larger.path(), 4 * MOST).expect("opened");
        (0..800).for_each(|nth| files.put(u128::from(nth), &entry(nth)));
        drop(Files::open(larger.path(), MOST).expect("opened"));
        assert!(disk_bytes(larger.path()) <= MOST);
    }

    #[test]
    fn few_parts_are_open_and_all_can_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::open(folder.path(), MOST).expect("opened");
        (0..200).for_each(|nth| files.put(u128::from(nth), &entry(nth)));
        let parts = OsDir::open(folder.path()).expect("a folder").list().expect("listed").len();
        assert!(parts > 2 * OPEN, "{parts} parts");
        for files in [files, Files::open(folder.path(), MOST).expect("opened")] {
            // From part to part, there and back.
            assert_eq!((held(&files, 0..200), held(&files, 0..200)), (200, 200));
            let open = files.open.lock().unwrap_or_else(PoisonError::into_inner).len();
            assert!((1..=OPEN).contains(&open), "{open} of {parts} parts are open");
            assert_eq!(files.counts().damaged, 0);
        }
        // A part that another process has deleted is no damage.
        let files = Files::open(folder.path(), MOST).expect("opened");
        let dir = OsDir::open(folder.path()).expect("a folder");
        dir.list().expect("listed").iter().for_each(|name| dir.remove(name).expect("removed"));
        assert!(held(&files, 0..200) < 200);
        assert_eq!(files.counts().damaged, 0);
    }

    #[test]
    fn two_handles_share_a_folder_and_its_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let both = [0, 1].map(|_| Files::open(folder.path(), MOST).expect("opened"));
        std::thread::scope(|scope| {
            for (files, first) in both.iter().zip([0, 10_000]) {
                scope.spawn(move || {
                    for nth in first..first + 1_500 {
                        files.put(u128::from(nth), &entry(nth));
                        assert!(files.get(u128::from(nth)).is_none_or(|found| found == entry(nth)));
                    }
                });
            }
        });
        assert!(disk_bytes(folder.path()) <= MOST + MOST / PARTS, "the bound, and the part of the other");
        assert!(both.iter().all(|files| files.counts().failed == 0));
        let third = Files::open(folder.path(), MOST).expect("opened");
        assert!(held(&third, 0..1_500) + held(&third, 10_000..11_500) > 100);
    }

    #[test]
    fn damaged_torn_and_foreign_files_are_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::open(folder.path(), MOST).expect("opened");
        (0..10).for_each(|nth| files.put(u128::from(nth), &entry(nth)));
        let dir = OsDir::open(folder.path()).expect("a folder");
        let name = dir.list().expect("listed").remove(0);
        let part = dir.open(&name, Access::Write).expect("a part");
        // A byte of the fourth entry; then the last is cut off.
        let each = (Head::BYTES + 4_000) as u64;
        part.write_at(b"?", 3 * each + 200).expect("written");
        part.set_len(10 * each - 1).expect("cut");
        let foreign = ["notes.txt".to_owned(), format!("{:016x}-{:016x}{END}", 7, 7)];
        for name in &foreign {
            dir.open(name, Access::Create).expect("made").write_at(&[7; 5_000], 0).expect("written");
        }
        for files in [files, Files::open(folder.path(), MOST).expect("opened")] {
            assert_eq!(held(&files, 0..10), 8);
            assert!((1..=2).contains(&files.counts().damaged), "{:?}", files.counts());
            // It is written again.
            files.put(3, &entry(3));
            assert_eq!(held(&files, 0..10), 9);
        }
        (0..300).for_each(|nth| files_at(folder.path()).put(u128::from(nth), &entry(nth)));
        let left = dir.list().expect("listed");
        assert!(left.contains(&foreign[0]) && !left.contains(&foreign[1]), "{left:?}");
    }

    /// A handle for one call: each makes a part of its own.
    fn files_at(folder: &Path) -> Files {
        Files::open(folder, MOST).expect("opened")
    }
}
