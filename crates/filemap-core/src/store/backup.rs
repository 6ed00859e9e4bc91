//! Backups into a new directory, built beside its final name and renamed at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap_io::{Access, Dir, OsDir, Progress, files};

use crate::error::{Error, Result, StorageError};
use crate::format::names;
use crate::store::{Store, open_dir, open_store_dir, take_lock};
use crate::upkeep::backup::{self, BackedUp, BackupProgress, Order};

/// Options of [`Store::backup`].
///
/// ```
/// let to_another_disk = filemap_core::backup::BackupOptions::new().copy_all();
/// ```
#[derive(Clone, Debug, Default)]
pub struct BackupOptions {
    base: Option<PathBuf>,
    copy_all: bool,
}

impl BackupOptions {
    /// A backup that shares files with the store where it can.
    pub fn new() -> BackupOptions {
        BackupOptions::default()
    }

    /// An earlier backup of the same store. Files that cannot be shared with the store are shared
    /// with this backup.
    pub fn base(mut self, path: impl Into<PathBuf>) -> BackupOptions {
        self.base = Some(path.into());
        self
    }

    /// Copies every byte; shares nothing.
    pub fn copy_all(mut self) -> BackupOptions {
        self.copy_all = true;
        self
    }
}

impl Store {
    /// Makes a backup in a new or empty directory: an independent store that can be opened, read
    /// and written. Puts, reads, checkpoints and compaction continue meanwhile. Files that are
    /// never written again are shared with the store by hard links, or with `base`, where the file
    /// system allows it. The index, the key log and the last segment are copied. Shared files take
    /// no extra space, but bit rot in one damages both: to be safe from a failing disk, back up to
    /// another one.
    ///
    /// A writer's backup holds everything put before the call. A follower's backup holds what the
    /// writer had put before it; it fails if checkpoints come faster than the index can be copied.
    ///
    /// The backup is built under `path` with `.partial` added, and renamed when it is durable. The
    /// next backup to the same path replaces what a killed process left there.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if there is something at `path`, or anything but an unfinished backup
    /// beside it; `Locked` if another backup to the same path is being made;
    /// `InvalidOption` if `base` is not a backup of this store or `path` is inside it;
    /// [`Error::Cancelled`]; those of [`Store::checkpoint`], of reading and of writing. The store
    /// is unchanged.
    pub fn backup(
        &self,
        path: impl AsRef<Path>,
        options: &BackupOptions,
        progress: &mut Progress<'_, BackupProgress>,
    ) -> Result<BackedUp> {
        self.reading.check_open()?;
        let path = path.as_ref();
        check_vacant(path)?;
        check_outside(path, self.path())?;
        let base = options.base.as_deref().map(open_store_dir).transpose()?;
        let (partial, to) = begin(path)?;
        let held = take_lock(&*to)?;
        let cleared = clear(&*to, &partial);
        let mark = |_| to.open(names::PARTIAL, Access::Create).map_err(Error::io("create", names::PARTIAL));
        let done = cleared.and_then(mark).and_then(|_| {
            let mut order = Order { to: &*to, base: base.as_deref(), links: !options.copy_all, progress };
            let done = backup::back_up(&self.reading, self.upkeep.as_deref(), &mut order)?;
            filemap_io::system::rename_dir(&partial, path).map_err(Error::io("rename", partial.display()))?;
            Ok(done)
        });
        match done {
            Ok(done) => {
                // Renamed: without the mark it is not taken for unfinished.
                remove(&*to, names::PARTIAL)?;
                files::sync_folder(&*to)?;
                drop(held);
                Ok(done)
            }
            Err(e) => {
                // The next backup replaces leftovers that cannot be removed now.
                if !matches!(e, Error::NotEmpty { .. }) && clear(&*to, &partial).is_ok() {
                    let _ = remove(&*to, names::LOCK).and_then(|()| {
                        filemap_io::system::remove_dir(&partial).map_err(Error::io("remove", partial.display()))
                    });
                }
                Err(e)
            }
        }
    }
}

/// Creates the directory in which the backup is built.
fn begin(path: &Path) -> Result<(PathBuf, Arc<dyn Dir>)> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    filemap_io::system::create_dir(&partial).map_err(Error::io("create", partial.display()))?;
    let dir = open_dir(&partial)?;
    Ok((partial, dir))
}

fn check_vacant(path: &Path) -> Result<()> {
    let not_empty = || Err(Error::NotEmpty { path: path.to_owned() });
    if path.file_name().is_none() {
        return not_empty();
    }
    match OsDir::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::io("open", path.display())(e)),
        Ok(dir) => match dir.list().map_err(Error::io("list", path.display()))?.as_slice() {
            [] => Ok(()),
            _ => not_empty(),
        },
    }
}

/// Refuses a backup inside its store: deleting the store would delete the backup too.
fn check_outside(path: &Path, store: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), store.canonicalize()) {
        (Ok(folder), Ok(store)) if folder.starts_with(&store) => {
            let why = format!("{} is inside the store: make the backup outside it", path.display());
            Err(StorageError::option("path", why).into())
        }
        // A missing folder fails later, when the backup directory is created.
        _ => Ok(()),
    }
}

/// Removes an unfinished backup, except its lock.
fn clear(dir: &dyn Dir, path: &Path) -> Result<()> {
    let found = dir.list().map_err(Error::io("list", path.display()))?;
    let is_marked = found.iter().any(|name| name == names::PARTIAL);
    let is_ours = |name: &String| name == names::LOCK || (is_marked && names::is_ours(name));
    if !found.iter().all(is_ours) {
        return Err(Error::NotEmpty { path: path.to_owned() });
    }
    // The mark goes last: without it the other files would not be recognised.
    let others = found.iter().filter(|name| *name != names::LOCK && *name != names::PARTIAL);
    others.into_iter().try_for_each(|name| remove(dir, name))?;
    if is_marked { remove(dir, names::PARTIAL) } else { Ok(()) }
}

fn remove(dir: &dyn Dir, name: &str) -> Result<()> {
    dir.remove(name).map_err(Error::io("remove", name))
}
