//! WARC files that grow with a crawl: `pages-00000.warc.gz` and so on, for a store `pages.fm`.
//!
//! An unfinished file ends in `.open`. `pages.place` notes the progress: the place in the store's
//! history, the number of the file, and its length. `pages.lock` is held while the series grows.
//!
//! Invariant: the note is replaced after the file is synced, so bytes beyond the noted length
//! belong to a place that is not noted. They are cut off: every version is in the files exactly
//! once, after any crash.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap::PageStore;
use filemap::dump::{WarcFollower, WarcPart, WarcPlace};
use filemap_io::system::create_dir;
use filemap_io::{Access, Dir, File, Lock, OsDir, StorageError, files};
use serde::{Deserialize, Serialize};

use crate::clock::now_ms;
use crate::error::Error;

/// The length at which a file is finished and the next is begun.
const FILE_BYTES: u64 = 1_000_000_000;
/// The largest number of a file: five digits.
const NUMBER_MAX: u32 = 99_999;

/// A series of WARC files.
///
/// ```
/// use crawl::files::warc::Series;
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("pages.fm");
/// # let store = filemap::PageStore::create(path, filemap::Options::new())?;
/// let (mut series, mut follower) = Series::open(&place.path().join("warc"), &store)?;
/// store.put_page(&filemap::Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// store.sync()?;
/// while let Some(part) = follower.part()? {
///     series.add(&part, &follower)?;
/// }
/// series.finish(&follower)?;
/// assert!(place.path().join("warc/pages-00000.warc.gz").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Series {
    dir: OsDir,
    stem: String,
    note: Note,
    file: Option<Arc<dyn File>>,
    /// Held as long as the series is open.
    _lock: Box<dyn Lock>,
    /// The length at which a file is finished.
    file_bytes: u64,
}

/// The progress of a series.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Note {
    /// The follower's place.
    place: String,
    /// The number of the current or next file.
    file: u32,
    /// Its length.
    bytes: u64,
}

impl Series {
    /// Continues the series of a store in a folder, or begins one with puts from now on. Makes the
    /// folder if missing.
    ///
    /// # Errors
    /// I/O errors; damage of the note, a series of another store, and a place that the store no
    /// longer knows.
    pub fn open(folder: &Path, store: &PageStore) -> Result<(Series, WarcFollower), Error> {
        create_dir(folder).map_err(|error| Error::io("create", folder, error))?;
        let dir = OsDir::open(folder).map_err(|error| Error::io("open", folder, error))?;
        let stem = store.engine().path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = super::warc_lock(&stem);
        let lock = files::lock(&dir, &name, &name).map_err(|error| Error::files(folder, error))?;
        let mut series = Series { dir, stem, note: Note::default(), file: None, _lock: lock, file_bytes: FILE_BYTES };
        let follower = match series.noted()? {
            Some(note) => {
                series.note = note;
                series.resume(store)?
            }
            None => {
                // If the note was removed, old files of the series stay untouched.
                series.note.file = series.next_number()?;
                let follower = WarcFollower::begin(store)?;
                series.keep(&follower)?;
                follower
            }
        };
        Ok((series, follower))
    }

    /// Adds records; durable on return.
    ///
    /// # Errors
    /// I/O errors.
    pub fn add(&mut self, part: &WarcPart, follower: &WarcFollower) -> Result<(), Error> {
        if part.records > 0 {
            let file = self.opened(follower)?;
            let written = file.write_at(&part.bytes, self.note.bytes).and_then(|()| file.sync());
            written.map_err(|error| Error::io("write", &self.path(&self.open_name()), error))?;
            self.note.bytes += part.bytes.len() as u64;
        }
        self.keep(follower)?;
        if self.note.bytes >= self.file_bytes { self.finish(follower) } else { Ok(()) }
    }

    /// Finishes the open file.
    ///
    /// # Errors
    /// I/O errors.
    pub fn finish(&mut self, follower: &WarcFollower) -> Result<(), Error> {
        let (open, whole) = (self.open_name(), self.name());
        if self.note.bytes == 0 {
            // A file that was begun and not noted.
            return files::remove(&self.dir, &open).map_err(|error| self.failed(error));
        }
        // Bytes that a crash left beyond the noted length are cut off.
        let file = self.opened(follower)?;
        self.file = None;
        let failed = |error| Error::io("rename", &self.path(&open), error);
        file.sync().and_then(|()| self.dir.rename(&open, &whole)).map_err(failed)?;
        files::sync_folder(&self.dir).map_err(|error| self.failed(error))?;
        self.begin_next()?;
        self.keep(follower)
    }

    fn begin_next(&mut self) -> Result<(), Error> {
        if self.note.file == NUMBER_MAX {
            let words =
                format!("{}: there are {NUMBER_MAX} WARC files; name another folder", self.dir.path().display());
            return Err(Error::Broken(words));
        }
        (self.note.file, self.note.bytes) = (self.note.file + 1, 0);
        Ok(())
    }

    /// The open file; without one, a new file with its first record.
    fn opened(&mut self, follower: &WarcFollower) -> Result<Arc<dyn File>, Error> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let name = self.open_name();
        let failed = |error| Error::io("open", &self.dir.path().join(&name), error);
        let file = if self.note.bytes > 0 {
            let file = self.dir.open(&name, Access::Write).map_err(failed)?;
            let has = file.len().map_err(failed)?;
            if has < self.note.bytes {
                let (path, wanted) = (self.path(&name), self.note.bytes);
                let words = format!("{}: it has {has} bytes, but should have {wanted}", path.display());
                return Err(Error::Damage(format!("{words}. {}", self.remedy())));
            }
            file.set_len(self.note.bytes).map_err(failed)?;
            file
        } else {
            files::remove(&self.dir, &name).map_err(|error| self.failed(error))?;
            let file = self.dir.open(&name, Access::Create).map_err(failed)?;
            let head = follower.head(&self.name(), now_ms())?;
            file.write_at(&head, 0).map_err(failed)?;
            files::sync_folder(&self.dir).map_err(|error| self.failed(error))?;
            self.note.bytes = head.len() as u64;
            file
        };
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    fn resume(&mut self, store: &PageStore) -> Result<WarcFollower, Error> {
        let path = self.path(&self.note_name());
        let damaged =
            |why: &dyn std::fmt::Display| Error::Damage(format!("{}: {why}. {}", path.display(), self.remedy()));
        let place: WarcPlace = self.note.place.parse().map_err(|error: filemap::Error| damaged(&error))?;
        if place.store_id() != store.changes_end()?.store_id() {
            let words = "it belongs to another store: name another folder for this one's WARC files";
            return Err(Error::Usage(format!("{}: {words}", path.display())));
        }
        let follower = WarcFollower::resume(store, &place).map_err(|error| match error {
            filemap::Error::Engine(filemap_core::Error::Outrun { .. }) => damaged(&error),
            error => error.into(),
        })?;
        let exists = |name: &str| files::exists(&self.dir, name).map_err(|error| self.failed(error));
        // A crash came between finishing a file and noting the next; somebody may have moved the
        // file away.
        if self.note.bytes > 0 && !exists(&self.open_name())? {
            self.begin_next()?;
        }
        Ok(follower)
    }

    fn noted(&self) -> Result<Option<Note>, Error> {
        let path = self.path(&self.note_name());
        let text = match self.dir.open(&self.note_name(), Access::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", &path, error)),
            Ok(file) => {
                let bytes = file.len().map_err(|error| Error::io("read", &path, error))?;
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(1 << 16);
                files::read(&*file, &self.note_name(), 0, bytes).map_err(|error| self.failed(error))?
            }
        };
        let note = serde_json::from_slice(&text);
        note.map(Some).map_err(|error| Error::Damage(format!("{}: {error}. {}", path.display(), self.remedy())))
    }

    /// Notes the progress of the series.
    fn keep(&mut self, follower: &WarcFollower) -> Result<(), Error> {
        self.note.place = follower.place().to_string();
        let text = serde_json::to_vec(&self.note).map_err(|error| Error::Broken(error.to_string()))?;
        super::replace(self.dir.path(), &self.note_name(), &text)
    }

    /// A number above those of all files of the series.
    fn next_number(&self) -> Result<u32, Error> {
        let names = self.dir.list().map_err(|error| Error::io("list", self.dir.path(), error))?;
        let numbers = names.iter().filter_map(|name| super::warc_number(&self.stem, name));
        Ok(numbers.max().map_or(0, |number| number.saturating_add(1)))
    }

    fn name(&self) -> String {
        super::warc_file(&self.stem, self.note.file)
    }

    fn open_name(&self) -> String {
        super::open_warc_file(&self.stem, self.note.file)
    }

    fn note_name(&self) -> String {
        super::warc_note(&self.stem)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn failed(&self, error: StorageError) -> Error {
        Error::files(self.dir.path(), error)
    }

    fn remedy(&self) -> String {
        format!(
            "Remove {} to begin anew with later puts; `fm-tool dump` writes what the store has",
            self.path(&self.note_name()).display()
        )
    }
}

#[cfg(test)]
mod tests {
    use filemap::{Options, Page};

    use super::*;

    struct Bench {
        folder: tempfile::TempDir,
        store: PageStore,
    }

    impl Bench {
        fn new() -> Bench {
            let folder = tempfile::tempdir().unwrap();
            let store = PageStore::create(folder.path().join("pages.fm"), Options::new()).unwrap();
            Bench { folder, store }
        }

        fn open(&self) -> (Series, WarcFollower) {
            Series::open(&self.folder.path().join("warc"), &self.store).unwrap()
        }

        fn put(&self, number: u64) {
            let page = Page::new(format!("http://a/{number}"), 1_700_000_000_000, 200, format!("<p>{number}"));
            self.store.put_page(&page).unwrap();
            self.store.sync().unwrap();
        }

        fn copy_to(&self, folder: &Path) {
            let (to, options) = (folder.join("pages.fm"), Default::default());
            self.store.engine().backup(to, &options, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
        }

        /// The numbers of the pages in all files, in order, and the number of unfinished files.
        fn written(&self) -> (Vec<u64>, usize) {
            let mut names: Vec<String> = OsDir::open(&self.folder.path().join("warc")).unwrap().list().unwrap();
            names.retain(|name| name.contains(".warc.gz"));
            names.sort();
            let mut numbers = Vec::new();
            for name in &names {
                let bytes = std::fs::read(self.folder.path().join("warc").join(name)).unwrap();
                let mut text = Vec::new();
                std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(&bytes[..]), &mut text).unwrap();
                let text = String::from_utf8(text).unwrap();
                assert!(text.starts_with("WARC/1.1\r\nWARC-Type: warcinfo"), "{name}");
                numbers.extend(
                    text.split("WARC-Target-URI: http://a/")
                        .skip(1)
                        .map(|rest| rest.split("\r\n").next().unwrap().parse::<u64>().unwrap()),
                );
            }
            (numbers, names.iter().filter(|name| name.ends_with(".open")).count())
        }
    }

    fn add_all(series: &mut Series, follower: &mut WarcFollower) {
        while let Some(part) = follower.part().unwrap() {
            series.add(&part, follower).unwrap();
        }
    }

    #[test]
    fn what_is_put_is_in_the_files_once_whatever_kills_the_crawl() {
        let bench = Bench::new();
        bench.put(0);
        let (mut series, mut follower) = bench.open();
        series.file_bytes = 600;
        (1..=3).for_each(|number| bench.put(number));
        add_all(&mut series, &mut follower);
        bench.put(4);
        // A crash left records beyond the noted length, and an unfinished file.
        let part = follower.part().unwrap().unwrap();
        let file = series.opened(&follower).unwrap();
        file.write_at(&part.bytes, series.note.bytes).unwrap();
        drop((series, follower, file));
        let (mut series, mut follower) = bench.open();
        add_all(&mut series, &mut follower);
        // A crash between finishing a file and noting the next.
        bench.put(5);
        add_all(&mut series, &mut follower);
        let noted = std::fs::read(bench.folder.path().join("warc/pages.place")).unwrap();
        series.finish(&follower).unwrap();
        if series.note.bytes == 0 {
            std::fs::write(bench.folder.path().join("warc/pages.place"), noted).unwrap();
        }
        drop((series, follower));
        let (mut series, mut follower) = bench.open();
        bench.put(6);
        add_all(&mut series, &mut follower);
        series.finish(&follower).unwrap();
        assert_eq!(bench.written(), ((1..=6).collect(), 0));
        // A series begun anew uses other names.
        drop((series, follower));
        std::fs::remove_file(bench.folder.path().join("warc/pages.place")).unwrap();
        let (mut series, mut follower) = bench.open();
        bench.put(7);
        add_all(&mut series, &mut follower);
        series.finish(&follower).unwrap();
        assert_eq!(bench.written(), ((1..=7).collect(), 0));
    }

    #[test]
    fn nothing_behind_the_noted_length_comes_into_a_whole_file_and_a_copy_of_the_store_goes_on() {
        let bench = Bench::new();
        let (mut series, mut follower) = bench.open();
        bench.put(1);
        add_all(&mut series, &mut follower);
        // A crash within a member whose page is removed before the next run.
        let file = series.opened(&follower).unwrap();
        file.write_at(&[0x1f, 0x8b, 8, 0, 7, 7], series.note.bytes).unwrap();
        let said = Series::open(&bench.folder.path().join("warc"), &bench.store).unwrap_err();
        assert!(said.is_locked(), "{said}");
        drop((series, follower, file));
        let (mut series, mut follower) = bench.open();
        add_all(&mut series, &mut follower);
        series.finish(&follower).unwrap();
        assert_eq!(bench.written(), (vec![1], 0));
        drop((series, follower));
        // A copy has a new identity, like a store whose recovery has cut off records.
        let copy = bench.folder.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        bench.put(2);
        bench.copy_to(&copy);
        let bench = Bench { store: PageStore::open(copy.join("pages.fm"), Options::new()).unwrap(), ..bench };
        bench.put(3);
        let (mut series, mut follower) = bench.open();
        add_all(&mut series, &mut follower);
        series.finish(&follower).unwrap();
        assert_eq!(bench.written(), ((1..=3).collect(), 0));
    }

    #[test]
    fn a_store_from_an_older_copy_is_refused_though_it_has_grown_since() {
        let bench = Bench::new();
        let (mut series, mut follower) = bench.open();
        bench.put(1);
        add_all(&mut series, &mut follower);
        let copy = bench.folder.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        bench.copy_to(&copy);
        (2..=3).for_each(|number| bench.put(number));
        add_all(&mut series, &mut follower);
        drop((series, follower));
        let older = PageStore::open(copy.join("pages.fm"), Options::new()).unwrap();
        let bench = Bench { store: older, ..bench };
        (4..=9).for_each(|number| bench.put(number));
        let said = Series::open(&bench.folder.path().join("warc"), &bench.store).unwrap_err();
        assert!(said.is_damage() && said.to_string().contains("Remove"), "{said}");
    }

    #[test]
    fn a_file_that_is_shorter_than_noted_and_a_series_of_another_store_are_refused() {
        let bench = Bench::new();
        let (mut series, mut follower) = bench.open();
        bench.put(1);
        add_all(&mut series, &mut follower);
        drop((series, follower));
        let open = bench.folder.path().join("warc/pages-00000.warc.gz.open");
        std::fs::write(&open, "x").unwrap();
        let (mut series, mut follower) = bench.open();
        bench.put(2);
        let part = follower.part().unwrap().unwrap();
        let said = series.add(&part, &follower).unwrap_err();
        assert!(said.is_damage() && said.to_string().contains("pages.place"), "{said}");
        drop((series, follower));
        std::fs::create_dir(bench.folder.path().join("other")).unwrap();
        let other = PageStore::create(bench.folder.path().join("other/pages.fm"), Options::new()).unwrap();
        let said = Series::open(&bench.folder.path().join("warc"), &other).unwrap_err();
        assert!(matches!(&said, Error::Usage(words) if words.contains("another store")), "{said}");
    }
}
