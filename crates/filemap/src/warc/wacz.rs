//! Imports a WACZ file (Web Archive Collection Zipped 1.1.1): a zip file with WARC files in its folder `archive/`.
//!
//! The index and the list of pages beside them say nothing that the WARC files do not: they are not read. An entry is read
//! as it lies, stored or deflated, and its WARC file as any other; problems name both files. An archive elsewhere in the zip
//! file, a WACZ file among them, is not read: it is a problem with its name.
//!
//! Invariants: memory is bounded by the list of entries, whose bytes are bounded, and by that of an import; no byte of
//! the file belongs to two entries. A zip file that is damaged is a problem of the report, never an error.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zip::ZipArchive;

use super::import::{ImportProgress, import_into};
use super::options::ImportOptions;
use super::report::{ImportReport, Place, Problem, ProblemKind};
use crate::error::{Error, Result};
use crate::store::PageStore;

/// The folder of the WARC files.
const ARCHIVE: &str = "archive/";
/// Ends of the names of archives, and of packed files.
const FORMS: [&str; 3] = [".warc", ".arc", ".wacz"];
const PACKINGS: [&str; 4] = [".gz", ".zst", ".xz", ".bz2"];
/// Bytes that may be read to know the entries: 180,000 at most, which take 70 MiB of memory.
const MAX_LIST_BYTES: u64 = 8 << 20;

/// Whether a file that begins so is a zip file.
pub fn is_zip(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(b"PK\x03\x04") || first_bytes.starts_with(b"PK\x05\x06")
}

/// Imports the WARC files in the WACZ file `source`, as [`import`](super::import) does each; the report is of all together. `file` is
/// its name in the report.
///
/// # Errors
///
/// As [`import`](super::import).
pub fn import_wacz<R: Read + Seek + Send>(
    store: &PageStore,
    file: &str,
    source: R,
    options: &ImportOptions,
    progress: &mut dyn FnMut(&ImportProgress),
) -> Result<ImportReport> {
    import_wacz_into(&mut |_| Ok(store.clone()), file, source, options, progress)
}

/// As [`import_wacz`], into the store that `stores` gives, as [`import_into`] does.
///
/// # Errors
///
/// As [`import_into`].
pub fn import_wacz_into<R: Read + Seek + Send>(
    stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>,
    file: &str,
    source: R,
    options: &ImportOptions,
    progress: &mut dyn FnMut(&ImportProgress),
) -> Result<ImportReport> {
    let watch = Arc::new(Watch { left: AtomicU64::new(MAX_LIST_BYTES), ..Watch::default() });
    let mut total = ImportReport::default();
    let mut zip = match opened(Watched { source, watch: Arc::clone(&watch) }) {
        Ok(zip) => zip,
        Err(why) => {
            watch.check(file)?;
            total.problem(problem(file, ProblemKind::Damage, why));
            return Ok(total);
        }
    };
    watch.left.store(u64::MAX, Ordering::Relaxed);
    let mut found = false;
    for at in 0..zip.len() {
        let name = match archive_name(&zip, file, at) {
            Ok(None) => continue,
            Ok(Some(name)) => name,
            Err(unread) => {
                total.problem(unread);
                continue;
            }
        };
        found = true;
        let entry = match zip.by_index(at) {
            Ok(entry) => entry,
            Err(error) => {
                watch.check(&name)?;
                total.problem(problem(&name, ProblemKind::Unusable, format!("it cannot be unpacked: {error}")));
                continue;
            }
        };
        let damage = Mutex::new(None);
        let entry = Entry { entry, watch: &watch, damage: &damage };
        let imported = import_into(stores, &name, entry, options, &mut |at| progress(&at.after(&total)));
        let mut report = match imported {
            // The others are none the worse for it.
            Err(Error::Packed { form, .. }) => {
                let what = format!(
                    "it is compressed by {form}, which is not read: take it out, unpack it by `{}`, and import that",
                    form.command()
                );
                total.problem(problem(&name, ProblemKind::Unusable, what));
                continue;
            }
            imported => imported?,
        };
        if let Some(what) = damage.into_inner().unwrap_or_else(PoisonError::into_inner) {
            report.problem(problem(&name, ProblemKind::Damage, what));
        }
        total.add(report);
        if total.stopped {
            break;
        }
    }
    if !found {
        let what = "a zip file without WARC files in a folder archive/: no WACZ";
        total.problem(problem(file, ProblemKind::Unusable, what.to_owned()));
    }
    Ok(total)
}

/// The name of an entry to import, after the name of the WACZ file; `None` if the entry is a folder or no archive.
///
/// # Errors
///
/// The problem of an archive that is left out.
fn archive_name<R: Read + Seek>(
    zip: &ZipArchive<R>,
    file: &str,
    at: usize,
) -> std::result::Result<Option<String>, Problem> {
    let Some(Ok(name)) = zip.name_for_index(at) else {
        let what = format!("the name of entry {at} of the zip file cannot be read: the entry is left out");
        return Err(problem(file, ProblemKind::Unusable, what));
    };
    let shown = format!("{file}: {name}");
    // As some writers have it.
    let path = name.replace('\\', "/");
    let path = path.trim_start_matches("./");
    if path.ends_with('/') {
        return Ok(None);
    }
    if path.starts_with(ARCHIVE) {
        return Ok(Some(shown));
    }
    if is_archive(path) {
        let what = "an archive outside the folder archive/ is not read: take it out, and import that";
        return Err(problem(&shown, ProblemKind::Unusable, what.to_owned()));
    }
    Ok(None)
}

/// Whether a file is an archive by its name.
fn is_archive(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let unpacked = PACKINGS.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(&path);
    FORMS.iter().any(|end| unpacked.ends_with(end))
}

/// The entries of a zip file; the reason if they cannot be known.
fn opened<R: Read + Seek>(source: R) -> std::result::Result<ZipArchive<R>, String> {
    let damaged = |error| format!("the zip file is damaged: {error}");
    let mut zip = ZipArchive::new(source).map_err(damaged)?;
    // Many entries over the same bytes would make a small file endless.
    if zip.has_overlapping_files().map_err(damaged)? {
        return Err("the zip file is damaged: entries overlap".to_owned());
    }
    Ok(zip)
}

fn problem(file: &str, kind: ProblemKind, what: String) -> Problem {
    Problem { file: file.to_owned(), place: Place { offset: 0, inner: None }, kind, what }
}

/// What is known of the reading of the file below the zip.
#[derive(Default)]
struct Watch {
    /// Bytes that may still be read.
    left: AtomicU64,
    read: AtomicU64,
    failed: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

impl Watch {
    /// The failure of the file itself, if that is why the zip cannot be read.
    fn check(&self, what: &str) -> Result<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let offset = self.read.load(Ordering::Relaxed);
        failure.map_or(Ok(()), |source| Err(Error::Read { what: what.to_owned(), offset, source }))
    }

    fn noted<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let same = io::Error::new(error.kind(), error.to_string());
            self.failed.store(true, Ordering::Relaxed);
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            same
        })
    }
}

struct Watched<R> {
    source: R,
    watch: Arc<Watch>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.watch.left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(io::Error::other("the list of its entries is too long"));
        }
        let room = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = loop {
            match self.source.read(&mut out[..room]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break self.watch.noted(read)?,
            }
        };
        self.watch.read.fetch_add(read as u64, Ordering::Relaxed);
        if left < u64::MAX {
            self.watch.left.store(left - read as u64, Ordering::Relaxed);
        }
        Ok(read)
    }
}

impl<R: Seek> Seek for Watched<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let sought = self.source.seek(to);
        // A place before the file's begin is the zip's fault.
        match sought {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(error),
            sought => self.watch.noted(sought),
        }
    }
}

/// Reads an entry up to its end, or to where it is damaged.
struct Entry<'a, R: Read> {
    entry: R,
    watch: &'a Watch,
    damage: &'a Mutex<Option<String>>,
}

impl<R: Read> Read for Entry<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.entry.read(out) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted && !self.watch.failed.load(Ordering::Relaxed) => {
                let what = format!("the zip entry is damaged, and its end not read: {error}");
                self.damage.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
                Ok(0)
            }
            read => read,
        }
    }
}

impl ImportProgress {
    /// This, after other files.
    fn after(&self, others: &ImportReport) -> ImportProgress {
        ImportProgress {
            bytes_read: others.bytes_read + self.bytes_read,
            records: others.records + self.records,
            pages: others.stored + self.pages,
            problems: others.losses() + self.problems,
        }
    }
}
