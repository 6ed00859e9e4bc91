//! The sets of a server by name, and the backend of each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use urlindex::idempotent::{IdempotentSet, RequestOptions};
use urlindex::stored::{NewSet, StoredSet};
use urlindex::{Canonicalizer, DiskOptions, Error, Result, SeenSet, SeenStats, Verdict};

use super::external::SharedSet;
use super::worker::Worker;

/// The longest name of a set.
const MAX_NAME: usize = 64;
/// Maximum number of sets of a server that creates sets on request: each has its own thread and
/// memory.
const MAX_SETS: usize = 256;
/// Default memory limit of a set created on request.
const MOST_BYTES: u64 = 256 << 20;

/// Receives log lines for the operator.
type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Seen sets that a server serves, by name: `[a-z0-9_-]{1,64}`.
///
/// ```
/// use filemap_http::server::{SeenSets, ServerOptions};
///
/// # let folder = tempfile::tempdir()?;
/// let sets = SeenSets::new().writes().folder(folder.path());
/// let options = ServerOptions::new().writes().seen(sets);
/// # let _ = options;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct SeenSets {
    writes: bool,
    disk: DiskOptions,
    requests: RequestOptions,
    log: Log,
    folder: Option<PathBuf>,
    most_bytes: u64,
    served: Mutex<BTreeMap<String, Arc<Served>>>,
    /// Names of sets that are being created.
    making: Mutex<BTreeSet<String>>,
}

/// Reason why a set is not created.
pub(super) enum NotMade {
    /// The server creates none.
    NoFolder,
    /// Another request is creating it.
    Begun,
    /// There are too many sets.
    TooMany,
    Failed(Error),
}

/// A set that is served.
pub(crate) struct Served {
    pub(crate) name: String,
    pub(crate) canonicalizer: Arc<dyn Canonicalizer>,
    from: From,
}

enum From {
    Worker(Worker),
    /// On a read-only server: as it was when the server started; a bitmap as it is now.
    Reader(Box<StoredSet>),
    /// Outside the server.
    Shared(Arc<dyn SharedSet>),
}

impl Served {
    /// The thread that adds; `None` if the server is read-only, or the set is external.
    pub(crate) fn worker(&self) -> Option<&Worker> {
        match &self.from {
            From::Worker(worker) => Some(worker),
            From::Reader(_) | From::Shared(_) => None,
        }
    }

    /// The external set, if it is one.
    pub(super) fn shared(&self) -> Option<&Arc<dyn SharedSet>> {
        match &self.from {
            From::Shared(set) => Some(set),
            From::Worker(_) | From::Reader(_) => None,
        }
    }

    pub(crate) fn seen(&self) -> &dyn SeenSet {
        match &self.from {
            From::Worker(worker) => worker.set().set(),
            From::Reader(set) => &**set,
            From::Shared(set) => set.set(),
        }
    }

    /// The kind of the set, as a word.
    pub(crate) fn kind(&self) -> &str {
        match &self.from {
            From::Worker(worker) => worker.set().set().kind().name(),
            From::Reader(set) => set.kind().name(),
            From::Shared(set) => set.kind(),
        }
    }

    /// Returns whether clients can add to it here.
    pub(crate) fn is_writable(&self) -> bool {
        !matches!(self.from, From::Reader(_))
    }

    /// Number of URLs that look-ups find but its counts do not include: [`StoredSet::waiting`].
    pub(super) fn waiting(&self) -> u64 {
        match &self.from {
            From::Worker(worker) => worker.set().set().waiting(),
            From::Reader(set) => set.waiting(),
            From::Shared(_) => 0,
        }
    }

    /// Returns whether each of these canonical URLs was added. Blocks.
    pub(super) fn contains(&self, urls: &[&[u8]]) -> Result<Vec<Verdict>> {
        match &self.from {
            From::Worker(worker) => worker.set().contains(urls),
            From::Reader(_) | From::Shared(_) => {
                let mut verdicts = Vec::with_capacity(urls.len());
                self.seen().contains_batch(urls, &mut verdicts)?;
                Ok(verdicts)
            }
        }
    }

    /// Its figures. Blocks: a filter counts its bits, and an external set is queried.
    pub(crate) fn stats(&self) -> SeenStats {
        self.shared().map_or_else(|| self.seen().stats(), |set| set.stats())
    }
}

/// Returns whether a text is a valid name of a set.
pub(super) fn is_name(text: &str) -> bool {
    let known = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(known)
}

impl Default for SeenSets {
    fn default() -> SeenSets {
        SeenSets {
            writes: false,
            disk: DiskOptions::new(),
            requests: RequestOptions::new(),
            log: Arc::new(|_| {}),
            folder: None,
            most_bytes: MOST_BYTES,
            served: Mutex::default(),
            making: Mutex::default(),
        }
    }
}

impl SeenSets {
    /// An empty collection. Sets added later are served as they were when opened, unless the
    /// server [writes](SeenSets::writes).
    pub fn new() -> SeenSets {
        SeenSets::default()
    }

    /// Makes the server the only writer of the sets added later.
    pub fn writes(self) -> SeenSets {
        SeenSets { writes: true, ..self }
    }

    /// Memory and clock of disk sets added later.
    pub fn disk(self, disk: DiskOptions) -> SeenSets {
        SeenSets { disk, ..self }
    }

    /// Memory limit in bytes of a filter or bitmap created on request; 256 MiB by default. A trie
    /// and a growing filter use what their URLs need.
    pub fn most_bytes(self, most_bytes: u64) -> SeenSets {
        SeenSets { most_bytes, ..self }
    }

    /// Time that requests are remembered, for sets added later.
    pub fn requests(self, requests: RequestOptions) -> SeenSets {
        SeenSets { requests, ..self }
    }

    /// Receives a log line for each failure of a set added later.
    pub fn log(self, log: impl Fn(&str) + Send + Sync + 'static) -> SeenSets {
        SeenSets { log: Arc::new(log), ..self }
    }

    /// Serves an existing set as `name`.
    ///
    /// # Errors
    ///
    /// A message for the operator: the name is invalid or taken, or the set cannot be opened.
    pub fn add(&mut self, name: &str, path: &Path) -> std::result::Result<(), String> {
        self.check_name(name)?;
        let of = |error: Error| format!("seen set `{name}` ({}): {error}", path.display());
        let served = self.open(name, path).map_err(of)?;
        self.sets().insert(name.to_owned(), Arc::new(served));
        Ok(())
    }

    /// Serves an external set as `name`. Its own durability applies, regardless of the request.
    ///
    /// # Errors
    ///
    /// A message for the operator: the name is invalid or taken.
    pub fn share(&mut self, name: &str, set: Arc<dyn SharedSet>) -> std::result::Result<(), String> {
        self.check_name(name)?;
        let served = Served { name: name.to_owned(), canonicalizer: set.canonicalizer(), from: From::Shared(set) };
        self.sets().insert(name.to_owned(), Arc::new(served));
        Ok(())
    }

    fn check_name(&self, name: &str) -> std::result::Result<(), String> {
        if !is_name(name) {
            return Err(format!("`{name}` is not a name of a seen set: give 1 to {MAX_NAME} of a-z, 0-9, _ and -"));
        }
        match self.get(name) {
            Some(_) => Err(format!("two seen sets have the name `{name}`")),
            None => Ok(()),
        }
    }

    /// Creates new sets as files in this folder, which must exist.
    pub fn folder(self, folder: &Path) -> SeenSets {
        SeenSets { folder: Some(folder.to_owned()), ..self }
    }

    fn open(&self, name: &str, path: &Path) -> Result<Served> {
        match self.writes {
            true => self.start(name, StoredSet::open_with(path, self.disk.clone())?),
            false => {
                let set = StoredSet::open_read_only_with(path, self.disk.clone())?;
                Ok(Served {
                    name: name.to_owned(),
                    canonicalizer: canonicalizer(&set)?,
                    from: From::Reader(Box::new(set)),
                })
            }
        }
    }

    /// Serves a set that is opened for writing.
    fn start(&self, name: &str, set: StoredSet) -> Result<Served> {
        let canonicalizer = canonicalizer(&set)?;
        let set = IdempotentSet::new(set, self.requests.clone())?;
        let worker = Worker::start(set, name, Arc::clone(&self.log));
        let worker = worker.map_err(|source| urlindex::StorageError::Io {
            op: "start the thread",
            file: name.to_owned(),
            source: source.into(),
        })?;
        Ok(Served { name: name.to_owned(), canonicalizer, from: From::Worker(worker) })
    }

    /// Options of a disk set created on request.
    pub(super) fn disk_options(&self) -> DiskOptions {
        self.disk.clone()
    }

    /// Memory limit in bytes of a set created on request.
    pub(super) fn max_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Creates a set; returns it and whether it is new. Blocks.
    ///
    /// # Errors
    ///
    /// The reason why the set is not created.
    pub(super) fn create(
        &self,
        name: &str,
        new: NewSet,
        canonicalizer: &dyn Canonicalizer,
    ) -> std::result::Result<(Arc<Served>, bool), NotMade> {
        let folder = self.folder.as_ref().filter(|_| self.writes).ok_or(NotMade::NoFolder)?;
        if let Some(served) = self.get(name) {
            return Ok((served, false));
        }
        let making = || self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if !making().insert(name.to_owned()) {
            return Err(NotMade::Begun);
        }
        // Outside the lock, because the set may be large.
        let made = self.made(folder, name, new, canonicalizer);
        making().remove(name);
        made
    }

    fn made(
        &self,
        folder: &Path,
        name: &str,
        new: NewSet,
        canonicalizer: &dyn Canonicalizer,
    ) -> std::result::Result<(Arc<Served>, bool), NotMade> {
        // Another request may have created it meanwhile.
        if let Some(served) = self.get(name) {
            return Ok((served, false));
        }
        if self.sets().len() >= MAX_SETS {
            return Err(NotMade::TooMany);
        }
        let set = StoredSet::create(folder.join(name), new, canonicalizer).map_err(NotMade::Failed)?;
        let served = Arc::new(self.start(name, set).map_err(NotMade::Failed)?);
        self.sets().insert(name.to_owned(), Arc::clone(&served));
        Ok((served, true))
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Served>> {
        self.sets().get(name).cloned()
    }

    /// All sets, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Served>> {
        self.sets().values().cloned().collect()
    }

    /// Closes all sets. Blocks.
    ///
    /// # Errors
    ///
    /// The error of the first set that fails; all are closed.
    pub(crate) fn close(&self) -> Result<()> {
        let sets = std::mem::take(&mut *self.sets());
        let mut first = Ok(());
        for served in sets.into_values() {
            let closed = match Arc::try_unwrap(served) {
                Ok(Served { from: From::Worker(worker), .. }) => worker.close(),
                Ok(_) => Ok(()),
                // A request is still running: make durable what was answered.
                Err(served) => {
                    let done = served.worker().map_or(Ok(()), |worker| worker.set().commit());
                    done.inspect_err(|error| (self.log)(&format!("seen set `{}`: {error}", served.name)))
                }
            };
            first = first.and(closed);
        }
        first
    }

    fn sets(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Served>>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The canonicaliser of a set's URLs.
fn canonicalizer(set: &StoredSet) -> Result<Arc<dyn Canonicalizer>> {
    let noted = set.canonicalizer()?;
    noted.ok_or_else(|| {
        let why =
            "no file beside it names the canonicaliser of its URLs: `fm-tool seen add SET --canonicalizer RULES` writes it";
        Error::Unsupported { file: "the set".to_owned(), op: "be served", why: why.to_owned() }
    })
}
