//! Tables: a store as a stream of Arrow record batches, through the C stream interface, and its
//! splits for several processes.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use filemap::access::ListKind;
use filemap::dump::{MimeRange, Selection, StatusRange};
use filemap::store::UrlPart;
use filemap::table::{Column, OnDamage, Records, TableOptions, TableWatch};
use filemap_core::list::Split;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::argument::{self, Scope, Text, named, number};
use crate::errors::{self, Failure};
use crate::fork::OfProcess;
use crate::iterate::{self, Pages, Times};
use crate::signals::{self, Watch};
use crate::store::PageStore;
use crate::times;

/// The rows of a store, to be read once: by pyarrow, polars, DuckDB, or anything that accepts an
/// object with `__arrow_c_stream__`.
#[pyclass(frozen, module = "filemap", name = "Table")]
pub struct Table {
    /// `None` once it was handed over.
    reader: Mutex<Option<FFI_ArrowArrayStream>>,
    watch: TableWatch,
}

/// The table of a handle. Other processes may not use it.
struct Rows {
    table: OfProcess<filemap::table::PageTable>,
    schema: SchemaRef,
    signals: Arc<Mutex<Watch>>,
    has_panicked: bool,
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        let table = match self.table.get_mut() {
            Ok(table) => table,
            Err(error) => return Some(Err(ArrowError::ExternalError(Box::new(error)))),
        };
        if self.has_panicked {
            return None;
        }
        // The caller is C code, so a panic must not unwind into it.
        let batch = catch_unwind(AssertUnwindSafe(|| table.next())).unwrap_or_else(|_| {
            self.has_panicked = true;
            Some(Err(ArrowError::ComputeError("reading the table panicked".to_owned())))
        });
        // An error of a stream is text only: the exception of a signal is raised once the
        // interpreter runs again.
        let raised = self.signals.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(error) = raised else { return batch };
        let what = format!("reading the table was interrupted: {error}");
        signals::raise_later(error);
        Some(Err(ArrowError::IoError(what, std::io::ErrorKind::Interrupted.into())))
    }
}

/// Returns whether this is the thread that handles signals.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    Ok(threading.call_method0("current_thread")?.is(&threading.call_method0("main_thread")?))
}

/// Checks for signals while the main thread, if it made the table, reads it. Another thread must
/// not: the main thread could be waiting for it.
fn looking(watch: &Arc<Mutex<Watch>>) -> impl FnMut() -> ControlFlow<()> + Send + 'static {
    let (of, watch) = (thread::current().id(), Arc::clone(watch));
    move || {
        if thread::current().id() != of {
            return ControlFlow::Continue(());
        }
        watch.lock().unwrap_or_else(PoisonError::into_inner).tick(|_| Ok(()))
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

#[pymethods]
impl Table {
    /// The stream, through the Arrow PyCapsule interface. A second call is an error: rows are read
    /// once.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer may ask for another schema and must take what it gets.
        let _ = requested_schema;
        let taken = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stream = taken.ok_or_else(|| errors::invalid("a table is read once: call to_arrow again"))?;
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Rows in the batches read so far.
    #[getter]
    fn rows(&self) -> u64 {
        self.watch.report().rows
    }

    /// Versions, ranges and files that could not be read so far.
    #[getter]
    fn damaged(&self) -> u64 {
        self.watch.report().damaged
    }

    /// Rows so far without their body, because it could not be read.
    #[getter]
    fn bodiless(&self) -> u64 {
        self.watch.report().bodiless
    }

    /// The first of these errors.
    #[getter]
    fn first_error(&self) -> Option<String> {
        self.watch.report().first_error
    }
}

fn column(name: &str) -> PyResult<Column> {
    let found = Column::ALL.into_iter().find(|column| column.name() == name);
    found.ok_or_else(|| {
        let all = Column::ALL.map(Column::name).join(", ");
        errors::invalid(format!("there is no column {name:?}; there are {all}"))
    })
}

/// The caller's filter: a mapping.
fn selection(filter: Option<&Bound<'_, PyDict>>) -> PyResult<Selection> {
    let mut selection = Selection::new();
    for (name, value) in filter.into_iter().flat_map(|filter| filter.iter()) {
        let name: String = name.extract()?;
        if value.is_none() {
            continue;
        }
        selection = match name.as_str() {
            "host" => selection.host(&argument::host(named(&name, &value)?)?),
            "domain" => selection.host_with_subdomains(&argument::host(named(&name, &value)?)?),
            "prefix" => selection.prefix(argument::prefix(named(&name, &value)?)?),
            "since" => selection.from(times::from_python(&value)?),
            "until" => selection.before(times::from_python(&value)?.saturating_add(1)),
            "status" => selection.status(parsed::<StatusRange>(&value)?),
            "mime" => selection.mime(parsed::<MimeRange>(&value)?),
            _ => return Err(PyTypeError::new_err(format!("a filter has no '{name}'"))),
        };
    }
    Ok(selection)
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    value.str()?.to_str()?.parse().map_err(|error: T::Err| errors::invalid(error.to_string()))
}

/// Limits a table to a split of the store, if one is given.
fn of_part(options: TableOptions, token: Option<&[u8]>) -> Result<TableOptions, Failure> {
    let Some(token) = token else { return Ok(options) };
    Ok(match UrlPart::from_bytes(token)? {
        Some(part) => options.urls(Some(part)),
        None => options.split(Some(Split::from_bytes(token)?)),
    })
}

#[pymethods]
impl PageStore {
    /// The rows of the store, or of a split of it. See `filemap.PageStore.to_arrow`.
    #[pyo3(signature = (columns = None, *, filter = None, batch_bytes = None, batch_rows = None, limit = None, all_versions = false, variants = false, skip_damage = false, part = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn _table(
        &self,
        py: Python<'_>,
        columns: Option<Vec<String>>,
        filter: Option<&Bound<'_, PyDict>>,
        #[pyo3(from_py_with = number)] batch_bytes: Option<usize>,
        #[pyo3(from_py_with = number)] batch_rows: Option<usize>,
        #[pyo3(from_py_with = number)] limit: Option<u64>,
        all_versions: bool,
        variants: bool,
        skip_damage: bool,
        part: Option<&[u8]>,
    ) -> PyResult<Table> {
        let mut options = of_part(TableOptions::new().selection(selection(filter)?).limit(limit), part)?;
        if let Some(names) = columns {
            let columns: Vec<Column> = names.iter().map(|name| column(name)).collect::<PyResult<_>>()?;
            options = options.columns(&columns);
        }
        if let Some(bytes) = batch_bytes {
            options = options.batch_bytes(bytes);
        }
        if let Some(rows) = batch_rows {
            options = options.batch_rows(rows);
        }
        if all_versions {
            options = options.all_versions();
        }
        if variants {
            options = options.records(Records::Variants);
        }
        if skip_damage {
            options = options.on_damage(OnDamage::Count);
        }
        let signals = Arc::new(Mutex::new(Watch::new()));
        let mut table = self.with(py, |store| Ok(store.table(&options)?))?;
        if is_main_thread(py)? {
            table = table.while_going(looking(&signals));
        }
        let (schema, watch) = (table.schema(), table.watch());
        let rows = Rows { table: OfProcess::new(table), schema, signals, has_panicked: false };
        Ok(Table { reader: Mutex::new(Some(FFI_ArrowArrayStream::new(Box::new(rows)))), watch })
    }

    /// The newest pages of a split of the store.
    #[pyo3(signature = (part, *, host = None, prefix = None, domain = None, since = None, until = None))]
    fn _pages_in(
        &self,
        part: &[u8],
        host: Option<String>,
        prefix: Option<Text>,
        domain: Option<String>,
        since: Option<&Bound<'_, PyAny>>,
        until: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pages> {
        let times = Times::new(since.map(times::from_python).transpose()?, until.map(times::from_python).transpose()?);
        Ok(iterate::pages_in(&self.handle()?, part, Scope::new(host, prefix, domain)?, times)?)
    }

    /// The store as of now in disjoint splits that take about equal time to read, or the pages of
    /// a scope in splits of about equal number. See `filemap.PageStore.splits`.
    #[pyo3(signature = (number, *, host = None, prefix = None, domain = None))]
    fn _splits(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = number)] number: usize,
        host: Option<String>,
        prefix: Option<Text>,
        domain: Option<String>,
    ) -> PyResult<Vec<Vec<u8>>> {
        let scope = Scope::new(host, prefix, domain)?.of_store(ListKind::Pages, false);
        self.with(py, |store| {
            if let Some(parts) = store.url_parts(&scope, number)? {
                return Ok(parts.iter().map(UrlPart::to_bytes).collect());
            }
            Ok(store.splits(number)?.iter().map(Split::to_bytes).collect())
        })
    }
}
