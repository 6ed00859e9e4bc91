//! The depot: keeps a crawl's state with its pages in a shard of a remote store.
//!
//! The crawl's folder is then scratch: a run restores the files of the last commit into it, and
//! each commit uploads what has changed since. So whichever machine continues has pages and
//! frontier of the same commit. Not kept are the seen set, which is rebuilt from the frontier, and
//! the content-seen test, which starts empty on another machine.
//!
//! Between two snapshots of the frontier only its journal is uploaded: its other files are rebuilt
//! from that, as after a power failure.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filemap::access::kept::{Change, KeptFile};
use filemap_io::system::create_dir;
use filemap_io::{Access, Dir, File, Lock, OsDir, files as io_files};

use crate::error::Error;
use crate::files::{self, FrontierFile};
use crate::settings::bucket::BucketSettings;
use crate::settings::{Folder, Settings};
use crate::shard::Shard;

/// Kept files at the top level of the folder.
const KEPT: [&str; 5] = [files::SETTINGS, files::SEEDS, files::SEQUENCE, files::SITEMAPS, files::OWNER];
/// Length of the snapshot's head, which is unique to a snapshot.
const SNAPSHOT_HEAD: usize = 512;
/// Attempts to read the name of a new owner, which is in its first commit, and the pause.
const LOOKS: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A crawl's shard and the state kept in it.
///
/// ```
/// use crawl::files::depot::Depot;
/// use crawl::settings::bucket::BucketSettings;
/// # use crawl::shard::Shard;
/// # use std::{path::Path, sync::Arc};
/// fn into_shard(store: &Path, shard: Arc<dyn Shard>) -> crawl::Result<crawl::Builder> {
///     let bucket = BucketSettings::new("s3://bucket/pages");
///     let depot = Depot::open(store, (&bucket, "this machine"), || Ok(shard))?;
///     Ok(crawl::Crawler::builder(store)?.depot(Some(depot)))
/// }
/// ```
pub struct Depot {
    shard: Arc<dyn Shard>,
    folder: Folder,
    /// The name of this owner, and of the one that it has replaced, if that is known.
    owner: String,
    before: Option<String>,
    /// The head of the snapshot at the last commit.
    snapshot: Vec<u8>,
    _lock: Box<dyn Lock>,
}

/// An open file of the crawl's folder.
struct Open {
    name: String,
    file: Arc<dyn File>,
    change: Change,
}

impl Depot {
    /// Opens the shard, and restores the files of its last commit into the crawl's folder, which
    /// no other process may use meanwhile. Removes older files of a crawl into this shard. `owner`
    /// names this run to those that it replaces.
    ///
    /// # Errors
    /// `Usage` if the folder belongs to another crawl, and an error if it is in use: then the
    /// shard is not opened, and its owner keeps it. Errors of `open`, the system and the shard.
    /// [`Error::Taken`] if another owner takes it meanwhile; `open` says so if that comes first.
    pub fn open(
        store: &Path,
        (bucket, owner): (&BucketSettings, &str),
        open: impl FnOnce() -> Result<Arc<dyn Shard>, Error>,
    ) -> Result<Depot, Error> {
        let folder = Folder::of(store);
        if let Some(settings) = folder.settings()? {
            let is_it = |known: &BucketSettings| {
                (&known.location, known.shards, known.shard) == (&bucket.location, bucket.shards, bucket.shard)
            };
            if !settings.bucket.as_ref().is_some_and(is_it) {
                return Err(Error::Usage(format!(
                    "{}: this folder belongs to a crawl into another store; name another STORE for this one",
                    folder.path().display()
                )));
            }
        }
        create_dir(folder.path()).map_err(|error| Error::io("create", folder.path(), error))?;
        let dir = dir(folder.path())?;
        let lock = io_files::lock(&dir, files::DEPOT_LOCK, files::DEPOT_LOCK)
            .map_err(|error| Error::files(folder.path(), error))?;
        let shard = open()?;
        let restored = shard.kept().map_err(Error::from).and_then(|kept| {
            begin(&folder, bucket, kept.is_empty())?;
            restore(&folder, &*shard, &kept)?;
            owner_of(&*shard, &kept)
        });
        let before = restored.map_err(|error| match shard.is_lost() {
            true => Error::Taken { shard: shard.name(), by: None },
            false => error,
        })?;
        files::replace(folder.path(), files::OWNER, owner.as_bytes())?;
        Ok(Depot { shard, folder, owner: owner.to_owned(), before, snapshot: Vec::new(), _lock: lock })
    }

    /// The shard.
    pub fn shard(&self) -> &Arc<dyn Shard> {
        &self.shard
    }

    /// The name of the owner that has replaced this one; `None` if it cannot be read. Waits some
    /// seconds for that owner's first commit: until then the last one may be of the owner before
    /// this one, which is not named.
    pub fn successor(&self) -> Option<String> {
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(LOOK_EVERY);
            }
            // The message lacks the name then: nothing depends on it.
            let named = self.shard.newest(files::OWNER).ok()?.and_then(|name| String::from_utf8(name).ok());
            let is_known = |name: &String| *name == self.owner || Some(name) == self.before.as_ref();
            if let Some(name) = named.filter(|name| !is_known(name)) {
                return Some(name);
            }
        }
        None
    }

    /// Free bytes on the disk of the folder, if known.
    pub fn free_bytes(&self) -> Option<u64> {
        dir(self.folder.path()).ok()?.free_bytes().ok()
    }

    /// Makes all earlier puts durable, together with the crawl's state. The state must not change
    /// meanwhile, except that outbox files may go.
    ///
    /// # Errors
    /// I/O errors, and errors of the shard.
    pub fn commit(&mut self) -> Result<(), Error> {
        let snapshot = self.snapshot_now()?;
        let is_new = snapshot != self.snapshot;
        let mut open = Vec::new();
        self.open_all("", &mut open, |name| KEPT.contains(&name).then_some(Change::Replaced))?;
        self.open_all(files::FRONTIER, &mut open, |name| of_frontier(name, is_new))?;
        self.open_all(files::OUTBOX, &mut open, |name| files::is_of_outbox(name).then_some(Change::Appended))?;
        let state = open.iter().map(|open| KeptFile { name: &open.name, file: &*open.file, change: open.change });
        self.shard.commit(&state.collect::<Vec<_>>())?;
        self.snapshot = snapshot;
        Ok(())
    }

    fn snapshot_now(&self) -> Result<Vec<u8>, Error> {
        let path = self.folder.join(files::FRONTIER_SNAPSHOT);
        let read = || {
            let file = filemap_io::system::open_to_inspect(&path)?;
            let mut head = vec![0; SNAPSHOT_HEAD];
            let read = file.read_at(&mut head, 0)?;
            head.truncate(read);
            Ok(head)
        };
        read().map_err(|error| Error::io("read", &path, error))
    }

    /// Opens the kept files of a folder.
    fn open_all(
        &self,
        below: &str,
        open: &mut Vec<Open>,
        change: impl Fn(&str) -> Option<Change>,
    ) -> Result<(), Error> {
        let path = if below.is_empty() { self.folder.path().to_owned() } else { self.folder.join(below) };
        let failed = |error| Error::io("read", &path, error);
        let dir = match OsDir::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            dir => dir.map_err(failed)?,
        };
        let mut names = dir.list().map_err(failed)?;
        names.sort_unstable();
        for name in names {
            let Some(change) = change(&name) else { continue };
            let file = match dir.open(&name, Access::Read) {
                // An outbox file is removed once all its links have arrived.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(failed)?,
            };
            let name = if below.is_empty() { name } else { format!("{below}/{name}") };
            open.push(Open { name, file, change });
        }
        Ok(())
    }
}

/// The change of a frontier file: the whole file with a new snapshot, else only the journal's
/// growth.
fn of_frontier(name: &str, is_new: bool) -> Option<Change> {
    Some(match files::frontier_file(name)? {
        FrontierFile::Journal => Change::Appended,
        FrontierFile::OfSnapshot if is_new => Change::Replaced,
        FrontierFile::OfSnapshot | FrontierFile::Run => Change::Same,
    })
}

fn dir(path: &Path) -> Result<OsDir, Error> {
    OsDir::open(path).map_err(|error| Error::io("open", path, error))
}

/// Removes the restored files and the seen set. The content-seen test stays: nothing depends on
/// it.
///
/// If the shard keeps nothing, the crawl has not begun: the settings go, and only the outbox
/// stays, whose id identifies the crawl to mailboxes. Else placeholder settings name the folder's
/// owner and refer to no other file, so that a run that ends here does not block the next.
fn begin(folder: &Folder, bucket: &BucketSettings, is_new: bool) -> Result<(), Error> {
    let path = folder.path();
    if is_new {
        let gone = io_files::remove(&dir(path)?, files::SETTINGS);
        gone.map_err(|error| Error::files(path, error))?;
    } else {
        let mut settings = Settings::new(0);
        settings.bucket = Some(bucket.clone());
        folder.keep(&settings)?;
    }
    let below = if is_new { &[files::FRONTIER][..] } else { &[files::FRONTIER, files::OUTBOX] };
    clear(path, below)
}

fn clear(folder: &Path, folders: &[&str]) -> Result<(), Error> {
    for below in folders {
        let path = folder.join(below);
        let dir = match OsDir::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            dir => dir.map_err(|error| Error::io("open", &path, error))?,
        };
        remove(&dir, |_| true)?;
    }
    remove(&dir(folder)?, |name| {
        let is_kept = KEPT.contains(&name) && name != files::SETTINGS;
        let is_of_set = name == files::SEEN || files::is_beside_seen(name);
        is_kept || name == files::SEEN_NOTE || is_of_set
    })
}

fn remove(dir: &OsDir, goes: impl Fn(&str) -> bool) -> Result<(), Error> {
    let names = dir.list().map_err(|error| Error::io("read", dir.path(), error))?;
    let gone = names.iter().filter(|name| goes(name)).try_for_each(|name| io_files::remove(dir, name));
    gone.map_err(|error| Error::files(dir.path(), error))
}

/// The name of the owner that made the last commit, if it is in there.
fn owner_of(shard: &dyn Shard, kept: &[(String, u64)]) -> Result<Option<String>, Error> {
    if !kept.iter().any(|(name, _)| name == files::OWNER) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    shard.read(files::OWNER, &mut |part| {
        bytes.extend_from_slice(part);
        Ok(())
    })?;
    // The name is only for messages.
    Ok(String::from_utf8(bytes).ok())
}

/// Writes the shard's kept files. The settings come last: they refer to others.
fn restore(folder: &Folder, shard: &dyn Shard, kept: &[(String, u64)]) -> Result<(), Error> {
    let mut settings = None;
    for (name, _) in kept {
        if name == files::SETTINGS {
            let mut bytes = Vec::new();
            shard.read(name, &mut |part| {
                bytes.extend_from_slice(part);
                Ok(())
            })?;
            settings = Some(bytes);
            continue;
        }
        let (below, file) = name.rsplit_once('/').unwrap_or(("", name));
        let is_known = match below {
            "" => KEPT.contains(&file),
            files::FRONTIER => of_frontier(file, true).is_some(),
            files::OUTBOX => files::is_of_outbox(file),
            _ => false,
        };
        if !is_known {
            let words = format!("{}: it keeps a file that this program does not know: {name}", shard.name());
            return Err(Error::Damage(words));
        }
        let path = if below.is_empty() { folder.path().to_owned() } else { folder.join(below) };
        create_dir(&path).map_err(|error| Error::io("create", &path, error))?;
        let failed = |error| Error::io("write", &folder.join(name), error);
        let to = dir(&path)?.open(file, Access::Create).map_err(failed)?;
        let mut at = 0;
        shard.read(name, &mut |part| {
            to.write_at(part, at)?;
            at += part.len() as u64;
            Ok(())
        })?;
        to.sync().map_err(failed)?;
    }
    settings.map_or(Ok(()), |bytes| files::replace(folder.path(), files::SETTINGS, &bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, PoisonError};

    use filemap::canonical::Canonicalizer;
    use filemap::page::RecordKind;
    use filemap::{Lookup, Options, Page, PageStore, PageWrite, Result};

    use super::*;
    use crate::shard::Body;

    /// A shard in memory whose pages are never used.
    struct InMemory {
        pages: PageStore,
        kept: Mutex<BTreeMap<String, Vec<u8>>>,
        fails: AtomicBool,
    }

    impl Shard for InMemory {
        fn name(&self) -> String {
            "a shard".to_owned()
        }

        fn pages(&self) -> &dyn PageWrite {
            &self.pages
        }

        fn canonicalizer(&self) -> &Arc<dyn Canonicalizer> {
            self.pages.canonicalizer()
        }

        fn body(&self, _: &Lookup<'_>) -> Result<Option<Body>> {
            Ok(None)
        }

        fn beside(&self, _: &Lookup<'_>, _: RecordKind) -> Result<Option<Page>> {
            Ok(None)
        }

        fn last_sequence(&self) -> Result<u64> {
            Ok(0)
        }

        fn is_lost(&self) -> bool {
            false
        }

        fn check(&self) -> Result<()> {
            Ok(())
        }

        fn newest(&self, name: &str) -> Result<Option<Vec<u8>>> {
            Ok(self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned())
        }

        fn kept(&self) -> Result<Vec<(String, u64)>> {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(kept.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect())
        }

        fn read(&self, name: &str, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<()> {
            if self.fails.load(Ordering::Relaxed) {
                return Err(filemap::Error::Unsupported { what: "reading" });
            }
            let bytes = self.kept.lock().unwrap_or_else(PoisonError::into_inner)[name].clone();
            each(&bytes).map_err(|source| filemap::Error::Read { what: name.to_owned(), offset: 0, source })
        }

        fn commit(&self, files: &[KeptFile<'_>]) -> Result<()> {
            let read = |file: &KeptFile<'_>| {
                let mut bytes = vec![0; file.file.len().expect("its length") as usize];
                file.file.read_at(&mut bytes, 0).expect("read");
                (file.name.to_owned(), bytes)
            };
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = files.iter().map(read).collect();
            Ok(())
        }
    }

    struct Bench {
        place: tempfile::TempDir,
        bucket: BucketSettings,
        shard: Arc<InMemory>,
    }

    impl Bench {
        fn new() -> Bench {
            let place = tempfile::tempdir().expect("a folder");
            let pages = PageStore::create(place.path().join("pages.fm"), Options::new()).expect("a store");
            let (kept, fails) = (Mutex::default(), AtomicBool::new(false));
            let shard = Arc::new(InMemory { pages, kept, fails });
            Bench { place, bucket: BucketSettings::new("s3://bucket/pages"), shard }
        }

        fn store(&self) -> PathBuf {
            self.place.path().join("news")
        }

        fn folder(&self) -> Folder {
            Folder::of(&self.store())
        }

        fn open(&self) -> std::result::Result<Depot, Error> {
            self.open_as("the first")
        }

        fn open_as(&self, owner: &str) -> std::result::Result<Depot, Error> {
            let shard = Arc::clone(&self.shard) as Arc<dyn Shard>;
            Depot::open(&self.store(), (&self.bucket, owner), || Ok(shard))
        }

        /// A run with listed start pages, up to its first commit.
        fn begin(&self) -> Depot {
            let depot = self.open().expect("opened");
            let folder = self.folder();
            let mut settings = Settings::new(7);
            settings.bucket = Some(self.bucket.clone());
            settings.listed = Arc::new(vec!["http://a.example/".to_owned()]);
            folder.keep_listed(&mut settings).expect("kept");
            folder.keep(&settings).expect("kept");
            for (below, file) in [(files::FRONTIER, "frontier.snapshot"), (files::OUTBOX, "1.mail")] {
                fs::create_dir_all(folder.join(below)).expect("made");
                fs::write(folder.join(below).join(file), file).expect("written");
            }
            depot
        }
    }

    #[test]
    fn a_run_that_ends_while_it_brings_the_files_keeps_no_other_out() {
        let bench = Bench::new();
        bench.begin().commit().expect("committed");
        bench.shard.fails.store(true, Ordering::Relaxed);
        assert!(bench.open().is_err());
        let known = bench.folder().settings().expect("read").expect("there");
        assert_eq!((known.bucket.as_ref(), known.listed.len()), (Some(&bench.bucket), 0));
        bench.shard.fails.store(false, Ordering::Relaxed);
        bench.open().expect("opened");
        let known = bench.folder().settings().expect("read").expect("there");
        assert_eq!((known.begun_ms, known.listed.as_slice()), (7, &["http://a.example/".to_owned()][..]));
        assert_eq!(fs::read(bench.folder().join("outbox").join("1.mail")).expect("there"), b"1.mail");
    }

    #[test]
    fn a_run_that_ends_before_its_first_commit_has_not_begun_and_keeps_its_id_at_the_mailboxes() {
        let bench = Bench::new();
        drop(bench.begin());
        bench.open().expect("opened");
        assert_eq!(bench.folder().settings().expect("read"), None);
        assert!(!bench.folder().join(files::FRONTIER_SNAPSHOT).exists() && !bench.folder().join(files::SEEDS).exists());
        assert!(bench.folder().join(files::OUTBOX).join("1.mail").exists());
        // The bucket's files win over local ones.
        let mut depot = bench.begin();
        depot.commit().expect("committed");
        fs::write(bench.folder().join(files::OUTBOX).join("2.mail"), "more").expect("written");
        drop(depot);
        bench.open().expect("opened");
        assert!(!bench.folder().join(files::OUTBOX).join("2.mail").exists());
    }

    #[test]
    fn the_name_of_a_new_owner_is_that_of_its_first_commit() {
        let bench = Bench::new();
        let mut first = bench.begin();
        first.commit().expect("committed");
        let kept = bench.shard.newest(files::OWNER).expect("read");
        assert_eq!(kept.as_deref(), Some(&b"the first"[..]));
        // Another machine, which has a folder of its own, commits.
        let later = [(files::OWNER.to_owned(), b"the second".to_vec())];
        bench.shard.kept.lock().unwrap_or_else(PoisonError::into_inner).extend(later);
        assert_eq!(first.successor().as_deref(), Some("the second"));
    }

    #[test]
    fn the_owner_before_is_not_named_as_the_new_one() {
        let bench = Bench::new();
        bench.begin().commit().expect("committed");
        // It commits nothing before it is replaced: the last commit is still of the first.
        let second = bench.open_as("the second").expect("opened");
        assert_eq!(second.successor(), None);
        let later = [(files::OWNER.to_owned(), b"the third".to_vec())];
        bench.shard.kept.lock().unwrap_or_else(PoisonError::into_inner).extend(later);
        assert_eq!(second.successor().as_deref(), Some("the third"));
    }
}
