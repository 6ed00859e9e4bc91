//! Reads and writes WARC, ARC and WACZ files through Python file objects: this crate opens no
//! file. `filemap.warc` opens them, and renames written ones once they are complete.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use filemap::PageStore as Pages;
use filemap::dump::{DumpEvent, DumpOptions, Format, OutputFile, Selection, Target, Wacz, dump};
use filemap::import::{ImportOptions, ImportProgress, import, import_wacz, is_zip};
use filemap::page::RecordKind;
use filemap::warc::Compression;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::argument::{self, Text};
use crate::errors::{Failure, invalid};
use crate::report::{ExportReport, ImportReport};
use crate::signals::Watch;
use crate::store::PageStore;
use crate::times;

/// Bytes per call of `read` or `write`.
const PIECE_BYTES: usize = 1 << 20;

/// The first exception of a file object. The call raises it unchanged: readers and writers would
/// lose its type on the way up.
#[derive(Clone, Default)]
struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    fn first(&self) -> MutexGuard<'_, Option<PyErr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a file object, unless one has raised already.
    fn call<T>(&self, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> io::Result<T> {
        if self.first().is_some() {
            return Err(io::Error::other("a file object has raised an exception"));
        }
        Python::attach(work).map_err(|error| {
            // Not of the kind `Interrupted`, which would be retried.
            let said = io::Error::other(error.to_string());
            *self.first() = Some(error);
            said
        })
    }

    /// The exception, if any, with a note of the place; otherwise the result.
    fn end<T>(&self, result: Result<T, Failure>) -> PyResult<T> {
        let Some(error) = self.first().take() else { return Ok(result?) };
        if let Err(failure) = result {
            Python::attach(|py| {
                let said = PyErr::from(failure).value(py).to_string();
                let _ = error.value(py).call_method1("add_note", (said,));
            });
        }
        Err(error)
    }
}

/// A binary file object of Python.
struct PyFile {
    file: Py<PyAny>,
    raised: Raised,
    /// Bytes read ahead and not returned yet.
    piece: Vec<u8>,
    at: usize,
}

impl PyFile {
    fn new(file: Py<PyAny>, raised: &Raised) -> PyFile {
        PyFile { file, raised: raised.clone(), piece: Vec::new(), at: 0 }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.piece = self.raised.call(|py| {
            let read = self.file.bind(py).call_method1("read", (PIECE_BYTES,))?;
            match read.cast::<PyBytes>() {
                Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
                Err(_) => Err(PyTypeError::new_err(format!(
                    "read() of a binary file object returns bytes, not {}",
                    read.get_type().name()?
                ))),
            }
        })?;
        self.at = 0;
        Ok(())
    }
}

impl Read for PyFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            self.fill()?;
        }
        let count = (self.piece.len() - self.at).min(out.len());
        out[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

impl Seek for PyFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let behind = (self.piece.len() - self.at) as i64;
        let (offset, whence) = match to {
            SeekFrom::Start(offset) => (i64::try_from(offset).map_err(io::Error::other)?, 0),
            // The file's own position is after the bytes read ahead.
            SeekFrom::Current(offset) => (offset - behind, 1),
            SeekFrom::End(offset) => (offset, 2),
        };
        (self.piece, self.at) = (Vec::new(), 0);
        self.raised.call(|py| self.file.bind(py).call_method1("seek", (offset, whence))?.extract::<u64>())
    }
}

impl Write for PyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.raised.call(|py| {
            let mut bytes = bytes;
            while !bytes.is_empty() {
                let piece = PyBytes::new(py, &bytes[..bytes.len().min(PIECE_BYTES)]);
                let written: usize = self.file.bind(py).call_method1("write", (piece,))?.extract()?;
                if written == 0 {
                    return Err(io::Error::from(io::ErrorKind::WriteZero).into());
                }
                bytes = &bytes[written.min(bytes.len())..];
            }
            Ok(())
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.raised.call(|py| self.file.bind(py).call_method0("flush").map(|_| ()))
    }
}

/// The folder of an export: calls `create(name)`, which returns a file object whose `close`
/// completes it, and `place(path, content)`.
struct Folder {
    create: Py<PyAny>,
    place: Py<PyAny>,
    raised: Raised,
}

struct Part(io::BufWriter<PyFile>);

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl OutputFile for Part {
    fn close(self: Box<Part>) -> io::Result<()> {
        let file = self.0.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.raised.call(|py| file.file.bind(py).call_method0("close").map(|_| ()))
    }
}

impl Target for Folder {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn OutputFile>> {
        let file = self.raised.call(|py| self.create.call1(py, (name,)))?;
        Ok(Box::new(Part(io::BufWriter::with_capacity(PIECE_BYTES, PyFile::new(file, &self.raised)))))
    }

    fn place(&mut self, path: &str, content: &[u8]) -> io::Result<bool> {
        self.raised.call(|py| {
            let content = PyBytes::new(py, content);
            self.place.call1(py, (path, content))?.extract::<bool>(py)
        })
    }
}

/// Imports one WARC, ARC or WACZ file, given as a binary file object.
#[pyfunction]
#[pyo3(signature = (store, name, file, *, as_received = false, keep = None, progress = None))]
pub fn import_(
    py: Python<'_>,
    store: &Bound<'_, PageStore>,
    name: &str,
    file: Py<PyAny>,
    as_received: bool,
    keep: Option<Vec<String>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<ImportReport> {
    let mut options = ImportOptions::new();
    if as_received {
        options = options.as_received();
    }
    for kind in keep.unwrap_or_default() {
        let kind =
            RecordKind::named(&kind).ok_or_else(|| invalid(format!("there are no records of the kind {kind:?}")))?;
        options = options.keep(kind);
    }
    let store = store.get().handle()?;
    let report = py.detach(|| {
        let mut watch = Watch::new();
        let mut step = |so_far: ImportProgress| {
            watch.tick(|py| match &progress {
                Some(progress) => progress.call1(py, (so_far.bytes_read, so_far.pages)).map(|_| ()),
                None => Ok(()),
            })
        };
        let raised = Raised::default();
        let done = take_in(&store, name, PyFile::new(file, &raised), &options, &mut step);
        let done = done.and_then(|mut report| {
            let revisits = report.unresolved.count(&store)?;
            Ok((report, revisits))
        });
        watch.end(raised.end(done))
    });
    let (report, revisits) = report?;
    Ok(ImportReport {
        bytes_read: report.bytes_read,
        records: report.records,
        stored: report.stored,
        beside: report.beside,
        unchanged: report.unchanged,
        variants: report.variants,
        already_there: report.already_there,
        ignored: report.ignored,
        damaged: report.damaged,
        unusable: report.unusable,
        misplaced: report.misplaced,
        segments: report.segments,
        refused: report.refused,
        warnings: report.warnings,
        kept_as_received: report.kept_as_received,
        without_request: report.without_request,
        unanswered: report.unanswered,
        mended_dates: report.mended_dates.values().sum(),
        revisits: revisits.revisits,
        unresolved_revisits: revisits.unresolved,
        problems: report.problems.iter().map(ToString::to_string).collect(),
    })
}

fn take_in(
    store: &Pages,
    name: &str,
    mut file: PyFile,
    options: &ImportOptions,
    step: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<filemap::import::ImportReport, Failure> {
    let read = |source| filemap::Error::Read { what: name.to_owned(), offset: 0, source };
    let mut first = [0; 4];
    let mut count = 0;
    while count < first.len() {
        match file.read(&mut first[count..]).map_err(read)? {
            0 => break,
            more => count += more,
        }
    }
    if is_zip(&first[..count]) {
        file.seek(SeekFrom::Start(0)).map_err(read)?;
        return Ok(import_wacz(store, name, file, options, step)?);
    }
    let whole = io::Cursor::new(first[..count].to_vec()).chain(file);
    Ok(import(store, name, whole, options, step)?)
}

/// Arguments of an export.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Choice {
    format: String,
    stem: String,
    host: Option<String>,
    domain: Option<String>,
    prefix: Option<Text>,
    since: Option<Py<PyAny>>,
    until: Option<Py<PyAny>>,
    newest_only: bool,
}

impl Choice {
    fn options(self, py: Python<'_>) -> PyResult<(DumpOptions, bool)> {
        let (formats, compression): (&[Format], _) = match self.format.as_str() {
            "warc.gz" => (&[Format::Warc, Format::Cdxj], Compression::Gzip),
            "warc.zst" => (&[Format::Warc, Format::Cdxj], Compression::Zstd),
            "warc" => (&[Format::Warc, Format::Cdxj], Compression::Plain),
            "wacz" => (&[Format::Warc, Format::Cdxj, Format::Pages], Compression::Gzip),
            "jsonl" => (&[Format::Jsonl], Compression::Gzip),
            other => {
                return Err(invalid(format!(
                    "a format is 'warc.gz', 'warc.zst', 'warc', 'wacz' or 'jsonl', not {other:?}"
                )));
            }
        };
        let mut selection = Selection::new();
        if let Some(host) = &self.host {
            selection = selection.host(&argument::host(host.clone())?);
        }
        if let Some(domain) = &self.domain {
            selection = selection.host_with_subdomains(&argument::host(domain.clone())?);
        }
        if let Some(prefix) = self.prefix {
            selection = selection.prefix(argument::prefix(prefix)?);
        }
        if let Some(since) = &self.since {
            selection = selection.from(times::from_python(since.bind(py))?);
        }
        if let Some(until) = &self.until {
            selection = selection.before(times::from_python(until.bind(py))?.saturating_add(1));
        }
        let mut options = DumpOptions::new(&self.stem, formats).selection(selection).compression(compression);
        if self.newest_only {
            options = options.newest_only();
        }
        Ok((options, self.format == "wacz"))
    }
}

/// Exports pages to a folder (`create` and `place` make its files), or to `whole`, the single file
/// of a WACZ.
#[pyfunction]
#[pyo3(signature = (store, choice, create, place, whole = None, progress = None))]
pub fn export(
    py: Python<'_>,
    store: &Bound<'_, PageStore>,
    choice: Bound<'_, PyAny>,
    create: Py<PyAny>,
    place: Py<PyAny>,
    whole: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<ExportReport> {
    let (options, is_wacz) = choice.extract::<Choice>()?.options(py)?;
    let store = store.get().handle()?;
    let report = py.detach(|| {
        let mut watch = Watch::new();
        let mut step = |event: DumpEvent<'_>| match event {
            DumpEvent::Progress(so_far) => watch.tick(|py| match &progress {
                Some(progress) => progress.call1(py, (so_far.written, so_far.seen)).map(|_| ()),
                None => Ok(()),
            }),
            _ => ControlFlow::Continue(()),
        };
        let raised = Raised::default();
        let done = match whole {
            Some(file) if is_wacz => write_wacz(&store, &options, PyFile::new(file, &raised), &mut step),
            _ => {
                let mut folder = Folder { create, place, raised: raised.clone() };
                dump(&store, &options, &mut folder, &mut step).map_err(Failure::from)
            }
        };
        watch.end(raised.end(done))
    })?;
    Ok(ExportReport {
        seen: report.seen,
        written: report.written,
        damaged: report.damaged,
        bodiless: report.bodiless,
        inexact: report.inexact,
        without_place: report.without_place,
        files: report.files,
    })
}

fn write_wacz(
    store: &Pages,
    options: &DumpOptions,
    file: PyFile,
    step: &mut dyn FnMut(DumpEvent<'_>) -> ControlFlow<()>,
) -> Result<filemap::dump::DumpReport, Failure> {
    let mut wacz = Wacz::new(file);
    let report = dump(store, options, &mut wacz, step)?;
    if !report.is_cancelled {
        wacz.finish(&report).and_then(|mut file| file.flush()).map_err(filemap::Error::Write)?;
    }
    Ok(report)
}
