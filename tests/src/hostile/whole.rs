//! A small store of many files; whole files are removed, emptied, swapped or rolled back,
//! two at a time.
//!
//! The store ([`Past`]) has segments of values, one made by a compaction, segments of keys, an
//! index, a superblock, a dictionary and rules. Its bytes are kept at two earlier checkpoints; a
//! store of another id lends files that are the only ones of their kind. A [`Harm`] is a file and
//! what was done to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use filemap_core::sim::{self, Limits};
use filemap_core::{Options, Record, Result, Store};
use filemap_io::sim::SimDisk;

use super::image::Image;

/// Numbers of keys that the store was ever given.
pub const KEYS: u32 = 44;
const BODY_BYTES: usize = 900;
/// Length of the part that all bodies share, in bytes.
const ALIKE_BYTES: usize = 100;

/// Key and time of a version.
pub type Named = (u32, i64);

/// Options to open the store, and its remains.
pub fn options() -> Options {
    let limits = Limits { key_segment_bytes: 2048, map_pages: 16, slack_bytes: 0, ..Limits::default() };
    let limits = Limits { first_pages: 5, group_pages: 1000, always_train: true, ..limits };
    let options = Options::new().segment_bytes(16 << 10).large_value_bytes(8 << 10).free_space_floor(0);
    let options = options.dictionary_bytes(4096).recompression_level(None).canonicalizer("bytes", 1);
    sim::with_limits(options, limits)
}

/// The name of a key.
pub fn key(number: u32) -> Vec<u8> {
    format!("http://whole.example/{number}").into_bytes()
}

/// The body of a version, which no other has: it shrinks only by what all of them begin with.
pub fn body((number, time): Named) -> Vec<u8> {
    let mut body: Vec<u8> = random(0).take(ALIKE_BYTES).collect();
    body.extend(random(u64::from(number) << 32 | time.cast_unsigned()).take(BODY_BYTES - ALIKE_BYTES));
    body
}

fn random(seed: u64) -> impl Iterator<Item = u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(move || rng.u8(..))
}

/// The names of a simulated disk's files and their bytes, without the lock.
pub fn image(disk: &SimDisk) -> Image {
    let names = disk.names().into_iter().filter(|name| name != "LOCK");
    Image(names.filter_map(|name| disk.bytes(&name).map(|bytes| (name, bytes))).collect())
}

/// A disk with these files.
pub fn disk(image: &Image) -> SimDisk {
    let disk = SimDisk::new(1);
    image.0.iter().for_each(|(name, bytes)| disk.set_bytes(name, bytes));
    disk
}

/// A store as it is and as it was.
#[derive(Debug)]
pub struct Past {
    /// The files as they are.
    pub now: Image,
    /// The files at earlier checkpoints.
    pub then: Vec<Image>,
    /// The files of another store that came about in the same way.
    pub foreign: Image,
    /// Versions that can be read.
    pub alive: BTreeSet<Named>,
    /// Versions that could be read at the earlier checkpoints.
    pub alive_then: Vec<BTreeSet<Named>>,
    /// The segment in which lies what was put after the last checkpoint, if there is such.
    pub tail: Option<String>,
}

/// The end of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was compacted and closed.
    Closed,
    /// Its process was killed a little after a checkpoint, before it was compacted.
    Killed,
}

struct Maker {
    disk: SimDisk,
    store: Store,
    alive: BTreeSet<Named>,
    then: Vec<Image>,
    alive_then: Vec<BTreeSet<Named>>,
}

impl Maker {
    fn new(seed: u64) -> Result<Maker> {
        let disk = SimDisk::new(seed);
        let store = sim::create(disk.dir(), options())?;
        Ok(Maker { disk, store, alive: BTreeSet::new(), then: Vec::new(), alive_then: Vec::new() })
    }

    fn put(&mut self, keys: std::ops::Range<u32>, time: i64) -> Result<()> {
        for number in keys {
            self.store.put(&Record::new(&key(number), &body((number, time))).time(time))?;
            self.alive.insert((number, time));
        }
        Ok(())
    }

    fn remove(&mut self, keys: std::ops::Range<u32>) -> Result<()> {
        for number in keys {
            self.store.remove(&key(number))?;
            self.alive.retain(|version| version.0 != number);
        }
        Ok(())
    }

    fn keep(&mut self) -> Result<()> {
        self.store.checkpoint()?;
        self.then.push(image(&self.disk));
        self.alive_then.push(self.alive.clone());
        Ok(())
    }

    fn live(mut self, ending: Ending) -> Result<Maker> {
        self.put(0..24, 1)?;
        self.remove(0..3)?;
        self.keep()?;
        self.store.train()?;
        self.put(10..34, 2)?;
        self.remove(10..13)?;
        self.store.add_rule(b"none of these", "a test")?;
        self.keep()?;
        if ending == Ending::Killed {
            self.put(34..37, 3)?;
            self.remove(13..14)?;
            return Ok(self);
        }
        self.remove(3..10)?;
        self.store.checkpoint()?;
        self.store.compact()?;
        self.put(34..KEYS, 3)?;
        self.remove(13..14)?;
        Ok(self)
    }
}

impl Past {
    /// Makes it.
    ///
    /// # Errors
    /// The store's.
    pub fn make(ending: Ending) -> Result<Past> {
        let (own, foreign) = (Maker::new(1)?.live(ending)?, Maker::new(2)?.live(ending)?);
        for store in [own.store, foreign.store] {
            match ending {
                Ending::Closed => store.close()?,
                Ending::Killed => sim::abandon(store),
            }
        }
        let (now, foreign) = (image(&own.disk), image(&foreign.disk));
        assert!(now.0.keys().any(|name| name.ends_with(".zdict")), "there is a dictionary");
        let last = now.0.keys().rfind(|name| name.starts_with("value")).cloned();
        let tail = last.filter(|_| ending == Ending::Killed);
        Ok(Past { now, then: own.then, foreign, alive: own.alive, alive_then: own.alive_then, tail })
    }

    /// Versions owed after some harms: those that can be read or, when nothing can show that there
    /// were more, those that could be read then.
    pub fn owed(&self, harms: &[Harm]) -> &BTreeSet<Named> {
        let last = self.then.len() - 1;
        let is_old = |h: &Harm| self.tail.as_ref() == Some(&h.file) && h.way == Way::RolledBack(last);
        if harms.iter().any(is_old) { &self.alive_then[last] } else { &self.alive }
    }

    /// All that may become of a file.
    pub fn harms(&self) -> Vec<Harm> {
        let mut harms = Vec::new();
        for (name, bytes) in &self.now.0 {
            let file = name.clone();
            harms.extend([Way::Removed, Way::Emptied, Way::Swapped].map(|way| Harm { file: file.clone(), way }));
            let olds =
                self.then.iter().enumerate().filter(|(_, then)| then.0.get(name).is_some_and(|old| old != bytes));
            harms.extend(olds.map(|(nth, _)| Harm { file: file.clone(), way: Way::RolledBack(nth) }));
        }
        // What compaction gave back comes again.
        for (nth, then) in self.then.iter().enumerate() {
            let gone = then.0.keys().filter(|name| !self.now.0.contains_key(*name));
            harms.extend(gone.map(|name| Harm { file: name.clone(), way: Way::RolledBack(nth) }));
        }
        harms
    }

    /// Does it to some files.
    pub fn harm(&self, image: &mut Image, harm: &Harm) {
        let file = &harm.file;
        match harm.way {
            Way::Removed => drop(image.0.remove(file)),
            Way::Emptied => drop(image.0.insert(file.clone(), Vec::new())),
            Way::RolledBack(nth) => drop(image.0.insert(file.clone(), self.then[nth].file(file).to_vec())),
            Way::Swapped => match self.peer(file) {
                Some(peer) => {
                    let (mine, other) = (image.0.remove(file), image.0.remove(&peer));
                    mine.map(|bytes| image.0.insert(peer, bytes));
                    other.map(|bytes| image.0.insert(file.clone(), bytes));
                }
                None => drop(image.0.insert(file.clone(), self.foreign.file(file).to_vec())),
            },
        }
    }

    /// The next file of the same kind.
    fn peer(&self, file: &str) -> Option<String> {
        let kind = |name: &str| name.trim_end_matches(|c| c != 'e' && c != 'y').to_owned();
        let is_segment = |name: &str| name.ends_with(".dat");
        let names = self.now.0.keys().filter(|name| is_segment(name) && kind(name) == kind(file));
        let peers: Vec<&String> = names.collect();
        let at = peers.iter().position(|name| *name == file)?;
        Some(peers[(at + 1) % peers.len()].clone()).filter(|peer| peer != file)
    }
}

/// Fate of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// It is missing.
    Removed,
    /// It is there, without a byte.
    Emptied,
    /// It has changed names with the next of its kind; the only one of its kind is that of another
    /// store.
    Swapped,
    /// It is what it was at an earlier checkpoint.
    RolledBack(usize),
}

/// A file and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Harm {
    /// The file's name.
    pub file: String,
    /// Its fate.
    pub way: Way,
}

/// Answers and errors of a handle.
#[derive(Debug, Default)]
pub struct Seen {
    /// Versions that it gave.
    pub got: BTreeSet<Named>,
    /// True if it named a file that is damaged or missing.
    pub is_told: bool,
    /// Broken promises.
    pub broken: BTreeMap<&'static str, String>,
}

impl Seen {
    fn failed(&mut self, e: &filemap_core::Error) {
        self.is_told = true;
        if !names_a_file(e) {
            self.broken.insert("an error that names no file", format!("{e:?}"));
        }
    }

    fn given(&mut self, name: &[u8], value: &filemap_core::Value) -> Option<Named> {
        let number = std::str::from_utf8(name).ok()?.rsplit('/').next()?.parse().ok()?;
        let named = (number, value.head.version.time_ms);
        if key(number) != name || body(named) != value.body {
            self.broken.insert("a wrong body", format!("{named:?}"));
            return None;
        }
        self.got.insert(named);
        Some(named)
    }

    fn missed(&mut self, path: &'static str, got: &BTreeSet<Named>, told: bool, alive: &BTreeSet<Named>) {
        if !told && !got.is_superset(alive) {
            self.broken.insert(path, format!("{:?}", alive.difference(got).collect::<Vec<_>>()));
        }
    }
}

/// Returns whether an error names the file that is the cause.
pub fn names_a_file(e: &filemap_core::Error) -> bool {
    use filemap_core::{Error, StorageError};
    matches!(e, Error::Storage(StorageError::Corrupt { file, .. }) if !file.is_empty())
        || matches!(e, Error::NotAStore { why, .. } if why.contains("SUPERBLOCK") || why.contains("file"))
}

/// Reads all there is, by lists and by keys.
pub fn read(store: &Store, alive: &BTreeSet<Named>) -> Seen {
    let mut seen = Seen::default();
    let is_absent = store.absent().iter().any(|a| a.is_missed());
    seen.is_told = is_absent;
    let (mut got, mut told) = (BTreeSet::new(), is_absent);
    for page in store.versions() {
        match page {
            Ok((name, value)) => got.extend(seen.given(&name, &value)),
            Err(e) => {
                told = true;
                seen.failed(&e);
            }
        }
    }
    seen.missed("a list that is silent", &got, told, alive);
    for number in 0..KEYS {
        let (mut got, mut told) = (BTreeSet::new(), is_absent);
        let name = key(number);
        let newest = store.get(&name).map(|v| v.map(|v| seen.given(&name, &v)));
        told |= newest.is_err();
        got.extend(newest.iter().flatten().flatten().copied());
        newest.err().iter().for_each(|e| seen.failed(e));
        match store.history(&name) {
            Ok(heads) => {
                for head in heads {
                    match store.get_version(&name, head.version) {
                        Ok(Some(value)) => got.extend(seen.given(&name, &value)),
                        Ok(None) => drop(seen.broken.insert("a listed version that is missing", format!("{number}"))),
                        Err(e) => {
                            told = true;
                            seen.failed(&e);
                        }
                    }
                }
            }
            Err(e) => {
                told = true;
                seen.failed(&e);
            }
        }
        let of_key = alive.iter().filter(|v| v.0 == number).copied().collect();
        seen.missed("a key that is silent", &got, told, &of_key);
    }
    seen
}

/// Copies all that a handle gives into a store that has some pages already, or none; what the copy
/// holds, and whether it said that something could not be read.
///
/// # Errors
/// The stores'.
pub fn copy(store: &Store, has: &[Named]) -> Result<(BTreeSet<Named>, bool)> {
    let disk = SimDisk::new(7);
    let to = sim::create(disk.dir(), options())?;
    for named in has {
        to.put(&Record::new(&key(named.0), &body(*named)).time(named.1))?;
    }
    let mut told = false;
    let copied = store.copy_to(&to, filemap_core::backup::CopyOptions::new(), &mut |event| {
        told |= matches!(event, filemap_core::backup::CopyEvent::Damaged(_));
        std::ops::ControlFlow::Continue(())
    })?;
    let seen = read(&to, &BTreeSet::new());
    sim::abandon(to);
    Ok((seen.got, told || copied.damaged > 0))
}

/// Directory with the files of a damaged store.
pub fn dir(image: &Image) -> Arc<dyn filemap_io::Dir> {
    disk(image).dir()
}
