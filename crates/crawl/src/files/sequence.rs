//! The sequence note: the store's last durable sequence number at the frontier's last commit.
//!
//! Pages that the frontier calls done are in the store. A store restored from an older backup
//! lacks some of them, and they would never be fetched again; the note detects it, because the
//! store's sequence is then below it.
//!
//! The file has two slots of 512 bytes, at 0 and at 4096, written alternately; the larger valid
//! number counts.
//!
//! Invariants: a number is noted after the store has made it durable, and is durable here before
//! the frontier commits what depends on it. So after a crash the note is at or below the store,
//! and at or above the frontier. One slot stays valid while the other is written, so there is
//! always a note.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap::PageStore;
use filemap_io::{Access, Dir, File, StorageError, files};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;

const NAME: &str = crate::files::SEQUENCE;
const MAGIC: [u8; 8] = *b"FMCSEQ01";
const PLACE_BYTES: usize = Slot::BYTES;
/// Far enough apart that a device cannot write both at once.
const PLACES: [u64; 2] = [0, 4096];

filemap_io::layout! {
    /// A slot.
    struct Slot {
        0 MAGIC: [u8; 8] = "magic `FMCSEQ01`";
        8 SEQUENCE: u64 = "the sequence";
        16 CHECKSUM: u64 = "XXH3-64 of the 16 bytes before";
        24 RESERVED: filemap_io::layout::Zeros<488> = "zero";
    }
}

/// The note, open for writing.
///
/// ```
/// use crawl::files::sequence::{SequenceNote, noted};
/// # let place = tempfile::tempdir()?;
/// let dir = filemap_io::OsDir::open(place.path())?;
/// let mut note = SequenceNote::open(&dir)?;
/// note.note(7)?;
/// note.note(5)?;
/// assert_eq!((note.get(), noted(&dir)?), (7, Some(7)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SequenceNote {
    file: Arc<dyn File>,
    path: PathBuf,
    noted: u64,
    /// The previous number, as of opening.
    before: u64,
    /// The slot to write next: the one without the largest number.
    next: usize,
}

impl SequenceNote {
    /// Opens the note in a folder, or creates one at 0.
    ///
    /// # Errors
    /// I/O errors, and damage.
    pub fn open(dir: &dyn Dir) -> Result<SequenceNote, Error> {
        SequenceNote::named(dir, NAME)
    }

    /// Opens a note of another monotonic number.
    ///
    /// # Errors
    /// I/O errors, and damage.
    pub fn named(dir: &dyn Dir, name: &str) -> Result<SequenceNote, Error> {
        let path = dir.path().join(name);
        let file = match dir.open(name, Access::Write) {
            Err(error) if error.kind() == ErrorKind::NotFound => begin(dir, name)?,
            opened => opened.map_err(|error| Error::io("open", &path, error))?,
        };
        let Slots { newest: (noted, at), before } = slots(&*file, &path)?;
        Ok(SequenceNote { file, path, noted, before, next: 1 - at })
    }

    /// The sequences whose pages the frontier may not have committed, in a store that ends with
    /// `last`: those after the last commit, and those reported to the frontier during it, which
    /// came after the commit before.
    pub fn unsure(&self, last: u64) -> Range<u64> {
        let from = if self.noted == 0 { last } else { self.before.min(last) };
        from.saturating_add(1)..last.saturating_add(1)
    }

    /// The current number.
    pub fn get(&self) -> u64 {
        self.noted
    }

    /// Notes the store's durable sequence; durable on return.
    ///
    /// # Errors
    /// I/O errors.
    pub fn note(&mut self, sequence: u64) -> Result<(), Error> {
        if sequence <= self.noted {
            return Ok(());
        }
        let written = self.file.write_at(&place(sequence), PLACES[self.next]).and_then(|()| self.file.sync());
        written.map_err(|error| Error::io("write", &self.path, error))?;
        (self.noted, self.next) = (sequence, 1 - self.next);
        Ok(())
    }
}

/// The note in a folder; `None` if there is none, as in crawls of earlier versions.
///
/// # Errors
/// I/O errors, and damage.
pub fn noted(dir: &dyn Dir) -> Result<Option<u64>, Error> {
    let path = dir.path().join(NAME);
    match dir.open(NAME, Access::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("open", &path, error)),
        Ok(file) => slots(&*file, &path).map(|slots| Some(slots.newest.0)),
    }
}

/// Refuses a store whose sequence is below the note. Read the note before opening the store,
/// because a crawl may be running.
///
/// # Errors
/// Damage, with the remedy; errors of the store.
pub fn check(noted: Option<u64>, store: &PageStore, folder: &Path) -> Result<(), Error> {
    let Some(noted) = noted else { return Ok(()) };
    if store.engine().is_read_only() {
        // A follower starts at the last checkpoint.
        store.engine().refresh()?;
    }
    let last = store.engine().stats().last_sequence;
    if last >= noted {
        return Ok(());
    }
    let (store, note, folder) = (store.engine().path().display(), folder.join(NAME), folder.display());
    Err(Error::Damage(format!(
        "{store}: the store ends with sequence {last}, but the crawl in {folder} has put pages up to {noted}: it was restored from an older \
         copy, or is another store. Bring the newer store back, or the copy of {folder} made with this one; or remove {folder} and run \
         with --seed again: stored pages are requested with their ETag or date. Remove {} alone if the store lacks nothing, such as a \
         compact copy",
        note.display()
    )))
}

fn place(sequence: u64) -> [u8; PLACE_BYTES] {
    let mut bytes = [0; PLACE_BYTES];
    Slot::MAGIC.put(&mut bytes, MAGIC);
    Slot::SEQUENCE.put(&mut bytes, sequence);
    let checksum = xxh3_64(&bytes[..Slot::CHECKSUM.at]);
    Slot::CHECKSUM.put(&mut bytes, checksum);
    bytes
}

/// The slots as read.
struct Slots {
    /// The greatest valid sequence, and its slot.
    newest: (u64, usize),
    /// The other slot's sequence; 0 if invalid.
    before: u64,
}

fn slots(file: &dyn File, path: &Path) -> Result<Slots, Error> {
    let (mut newest, mut before) = (None, None);
    for (at, offset) in PLACES.into_iter().enumerate() {
        let mut bytes = [0; PLACE_BYTES];
        file.read_at(&mut bytes, offset).map_err(|error| Error::io("read", path, error))?;
        let sequence = Slot::SEQUENCE.get(&bytes);
        if bytes == place(sequence) {
            (before, newest) = (newest.min(Some((sequence, at))), newest.max(Some((sequence, at))));
        }
    }
    let before = before.map_or(0, |(sequence, _)| sequence);
    newest.map(|newest| Slots { newest, before }).ok_or_else(|| {
        let remedy = match path.ends_with(crate::files::SEEN_NOTE) {
            true => "Remove it: the next run enters all URLs in the seen set again",
            false => "Remove it if the store is not older than the crawl: the next run notes its sequence again",
        };
        Error::Damage("no slot in it is valid".to_owned()).at(path, remedy)
    })
}

fn begin(dir: &dyn Dir, name: &str) -> Result<Arc<dyn File>, Error> {
    let (path, new) = (dir.path().join(name), crate::files::unfinished(name));
    let made = files::remove(dir, &new).and_then(|()| {
        files::replace(dir, name, &new, |file| {
            let mut places = PLACES.into_iter();
            places.try_for_each(|offset| file.write_at(&place(0), offset)).map_err(StorageError::io("write", &new))
        })
    });
    made.map_err(|error| Error::files(&path, error))?;
    dir.open(name, Access::Write).map_err(|error| Error::io("open", &path, error))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use filemap_io::sim::{Level, Loss, SimDisk};

    use super::*;

    #[test]
    fn a_note_is_between_what_was_durable_and_what_was_being_noted_whenever_the_power_fails() {
        // The number noted last, and the one being noted.
        let known = Arc::new(Mutex::new((None, 0u64)));
        let images = Arc::new(Mutex::new(0u64));
        let disk = SimDisk::new(1);
        let (known_then, images_then) = (Arc::clone(&known), Arc::clone(&images));
        disk.observe(Some(Box::new(move |snapshot| {
            let (least, most) = *known_then.lock().unwrap();
            for (number, loss) in Loss::ALL.into_iter().enumerate() {
                for level in [Level::Adversarial, Level::Ordered] {
                    let image = snapshot.crash(level, loss, snapshot.calls() * 10 + number as u64);
                    let found = noted(&*image.dir()).expect("whole");
                    assert!(found >= least && found <= Some(most), "{least:?} {found:?} {most}, {level:?} {loss:?}");
                    // The note continues from there.
                    let mut note = SequenceNote::open(&*image.dir()).expect("opened");
                    note.note(most + 1).expect("noted");
                    assert_eq!(noted(&*image.dir()).expect("whole"), Some(most + 1));
                    *images_then.lock().unwrap() += 1;
                }
            }
        })));
        let mut note = SequenceNote::open(&*disk.dir()).unwrap();
        known.lock().unwrap().0 = Some(0);
        for sequence in [3, 5, 5, 4, 9, 1000, u64::MAX / 2] {
            let most = sequence.max(known.lock().unwrap().1);
            known.lock().unwrap().1 = most;
            note.note(sequence).unwrap();
            known.lock().unwrap().0 = Some(most);
        }
        disk.observe(None);
        assert!(*images.lock().unwrap() > 100);
        assert_eq!(noted(&*disk.dir()).unwrap(), Some(u64::MAX / 2));
    }

    #[test]
    fn what_came_after_the_commit_before_the_last_is_unsure() {
        let disk = SimDisk::new(1);
        let unsure = |last| SequenceNote::open(&*disk.dir()).unwrap().unsure(last);
        assert!(unsure(5).is_empty(), "a crawl that begins has told nobody of what is there");
        for (noted, last, wanted) in [(7, 9, 1..10), (12, 12, 8..13), (12, 20, 8..21), (30, 30, 13..31)] {
            SequenceNote::open(&*disk.dir()).unwrap().note(noted).unwrap();
            assert_eq!(unsure(last), wanted, "{noted}");
        }
    }

    #[test]
    fn one_place_that_is_damaged_leaves_the_other_and_both_are_damage() {
        let disk = SimDisk::new(1);
        assert_eq!(noted(&*disk.dir()).unwrap(), None);
        let mut note = SequenceNote::open(&*disk.dir()).unwrap();
        note.note(7).unwrap();
        note.note(9).unwrap();
        let whole = disk.bytes(NAME).unwrap();
        for at in [8, 17, 400] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            disk.set_bytes(NAME, &bytes);
            assert!([Some(7), Some(9)].contains(&noted(&*disk.dir()).unwrap()));
            bytes[4096 + at] ^= 1;
            disk.set_bytes(NAME, &bytes);
            let said = noted(&*disk.dir()).unwrap_err();
            assert!(matches!(&said, Error::Damage(words) if words.contains(NAME)), "{said}");
        }
        disk.set_bytes(NAME, b"");
        assert!(matches!(SequenceNote::open(&*disk.dir()), Err(Error::Damage(_))));
    }
}
