//! `PageStore`: opening, closing, and operations on single pages.

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use filemap::access::ListKind;
use filemap::{Lookup, PageRead, PageWrite};
use filemap_core::StatValue;
use filemap_http::Client;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::argument::{self, Scope, Text, lookup, number, text, variant};
use crate::backing::{self, Backing};
use crate::errors::{self, Failure};
use crate::fork::{self, OfProcess};
use crate::iterate::{self, Bytes, Heads, Many, Urls};
use crate::options::{Mode, Opening};
use crate::page::{Given, Page, PageHead, Put, Version};
use crate::report::Absent;
use crate::times;

/// Pages that `put_many` takes from its iterator before it puts them.
const PUT_AT_ONCE: usize = 32;

/// A store of pages by URL. See `filemap.open`.
#[pyclass(frozen, subclass, weakref, module = "filemap._native", name = "PageStore")]
pub struct PageStore {
    /// `None` once it is closed.
    store: RwLock<OfProcess<Option<Backing>>>,
    /// The address of a store behind a server.
    location: Option<String>,
    path: PathBuf,
    /// The absolute path, valid in every working directory.
    full_path: PathBuf,
    mode: Mode,
}

impl PageStore {
    /// A handle for one call: a clone, so that no lock is held during the call.
    ///
    /// # Errors
    ///
    /// `ClosedError`, `ForkedError`.
    pub fn backing(&self) -> PyResult<Backing> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        store.get()?.clone().ok_or_else(errors::closed)
    }

    /// As [`PageStore::backing`], for operations that need the files.
    ///
    /// # Errors
    ///
    /// As there; `FileMapError` for a store behind a server.
    pub fn handle(&self) -> PyResult<filemap::PageStore> {
        self.backing()?.here()
    }

    /// Runs `work` on any store, without the interpreter.
    ///
    /// # Errors
    ///
    /// Errors of [`PageStore::backing`] and of `work`.
    pub fn on<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&Backing) -> Result<T, Failure> + Send) -> PyResult<T> {
        let store = self.backing()?;
        Ok(py.detach(|| work(&store))?)
    }

    /// Runs `work` on a local store, without the interpreter.
    ///
    /// # Errors
    ///
    /// Errors of [`PageStore::handle`] and of `work`.
    pub fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&filemap::PageStore) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let store = self.handle()?;
        Ok(py.detach(|| work(&store))?)
    }

    fn take(&self) -> Option<Backing> {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *store, OfProcess::new(None)).take().flatten()
    }

    fn is_forked(&self) -> bool {
        self.store.read().unwrap_or_else(PoisonError::into_inner).get().is_err()
    }

    fn found<'py>(&self, py: Python<'py>, lookup: Lookup<'_>) -> PyResult<Option<Bound<'py, Page>>> {
        match self.backing()? {
            Backing::Local(store) => {
                let found = py.detach(|| store.get_reader(lookup).map_err(Failure::from))?;
                found.map(|(page, body)| Page::read(py, page, body)).transpose()
            }
            Backing::Remote(client, _) => {
                let found = py.detach(|| client.get(&lookup).map_err(Failure::from))?;
                found.map(|page| Page::of(py, page)).transpose()
            }
        }
    }
}

#[pymethods]
impl PageStore {
    #[new]
    #[pyo3(signature = (path, mode = "r", **options))]
    fn new(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        mode: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PageStore> {
        let mode = Mode::named(mode)?;
        let location: Option<String> = path.extract().ok().filter(|text: &String| Client::is_location(text));
        let (store, path, full_path) = match &location {
            Some(location) => {
                let options = backing::client_options(py, options)?;
                let store = py.detach(|| Backing::remote(location, mode, &options))?;
                (store, PathBuf::from(location), PathBuf::from(location))
            }
            None => {
                let (path, opening) = (argument::path(path)?, Opening::from_python(options)?);
                let store = py.detach(|| Backing::local(&path, mode, opening).map_err(Failure::from))?;
                let full_path = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
                (store, path, full_path)
            }
        };
        Ok(PageStore { store: RwLock::new(OfProcess::new(Some(store))), location, path, full_path, mode })
    }

    /// The store's folder, or the address of a store behind a server as a `str`.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.location {
            Some(location) => Ok(PyString::new(py, location).into_any()),
            None => Ok(self.path.as_path().into_pyobject(py)?.into_any()),
        }
    }

    #[getter]
    fn _full_path(&self) -> &PathBuf {
        &self.full_path
    }

    #[getter]
    fn mode(&self) -> &'static str {
        self.mode.name()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.store.read().unwrap_or_else(PoisonError::into_inner).get().is_ok_and(Option::is_none)
    }

    #[getter]
    fn canonicalizer(&self) -> PyResult<Option<String>> {
        Ok(match self.backing()? {
            Backing::Local(store) => Some(store.canonicalizer().name().to_owned()),
            Backing::Remote(client, _) => client.rules().map(|(name, _)| name.to_owned()),
        })
    }

    /// Files of the store that are missing or shorter than they were. The others are read as
    /// usual.
    #[getter]
    fn absent(&self) -> PyResult<Vec<Absent>> {
        Ok(match self.backing()? {
            Backing::Local(store) => store.engine().absent().into_iter().map(Absent::from).collect(),
            // An answer of a server that may be incomplete says so.
            Backing::Remote(..) => Vec::new(),
        })
    }

    fn __enter__(slf: Py<PageStore>) -> Py<PageStore> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// Makes puts durable, and closes. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_forked() {
            return Err(errors::forked());
        }
        let Some(store) = self.take() else { return Ok(()) };
        Ok(py.detach(|| match store {
            Backing::Local(store) => store.close().map_err(Failure::from),
            Backing::Remote(client, true) => client.close().map_err(Failure::from),
            Backing::Remote(..) => Ok(()),
        })?)
    }

    /// Makes puts durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.on(py, |store| Ok(store.pages().sync()?))
    }

    /// For a follower: picks up changes of another process. Reads do so automatically
    /// twice a second.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.on(py, |store| match store {
            Backing::Local(store) => Ok(store.engine().refresh()?),
            // The server follows its own store.
            Backing::Remote(..) => Ok(()),
        })
    }

    fn __getitem__<'py>(&self, py: Python<'py>, url: Text) -> PyResult<Bound<'py, Page>> {
        match self.found(py, Lookup::new(&url))? {
            Some(page) => Ok(page),
            None => Err(PyKeyError::new_err(text(py, url.as_ref())?.unbind())),
        }
    }

    fn __contains__(&self, py: Python<'_>, url: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(url) = url.extract::<Text>() else { return Ok(false) };
        self.on(py, |store| match store.pages().contains(&Lookup::new(&url)) {
            // Not a URL, so no page has it.
            Err(filemap::Error::Url { .. }) => Ok(false),
            Err(filemap::Error::Remote { is_of_one_page: true, .. }) => Ok(false),
            found => Ok(found?),
        })
    }

    fn __delitem__(&self, py: Python<'_>, url: Text) -> PyResult<()> {
        match self.on(py, |store| Ok(store.writing()?.remove(url.as_ref(), None)?))? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(text(py, url.as_ref())?.unbind())),
        }
    }

    /// The number of URLs that have a page: from the superblock, plus later puts.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.on(py, |store| {
            let number = match store {
                Backing::Local(store) => store.count_pages()?,
                Backing::Remote(client, _) => client.count(&filemap::access::Scope::new())?,
            };
            Ok(usize::try_from(number).unwrap_or(usize::MAX))
        })
    }

    /// A store is true, even if it is empty.
    fn __bool__(&self) -> bool {
        true
    }

    fn __iter__(&self) -> PyResult<Urls> {
        Ok(iterate::urls(&self.backing()?, &Scope::default(), ListKind::Pages, false, None)?)
    }

    #[pyo3(signature = (url, default = None, *, at = None, variant = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        url: Text,
        default: Option<Bound<'py, PyAny>>,
        at: Option<&Bound<'py, PyAny>>,
        variant: Option<Text>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let at_ms = at.map(times::from_python).transpose()?;
        let wanted = self::variant(variant)?;
        match self.found(py, lookup(&url, wanted.as_ref(), at_ms))? {
            Some(page) => Ok(page.into_any()),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    #[pyo3(signature = (url, *, at = None, variant = None))]
    fn head<'py>(
        &self,
        py: Python<'py>,
        url: Text,
        at: Option<&Bound<'py, PyAny>>,
        variant: Option<Text>,
    ) -> PyResult<Option<Bound<'py, PageHead>>> {
        let at_ms = at.map(times::from_python).transpose()?;
        let wanted = self::variant(variant)?;
        let head = self.on(py, |store| Ok(store.pages().head(&lookup(&url, wanted.as_ref(), at_ms))?))?;
        head.map(|head| PageHead::of(py, head)).transpose()
    }

    #[pyo3(signature = (url, version, *, variant = None))]
    fn get_version<'py>(
        &self,
        py: Python<'py>,
        url: Text,
        version: &Version,
        variant: Option<Text>,
    ) -> PyResult<Option<Bound<'py, Page>>> {
        let wanted = self::variant(variant)?;
        let page = self
            .on(py, |store| Ok(store.pages().get_version(&lookup(&url, wanted.as_ref(), None), version.into())?))?;
        page.map(|page| Page::of(py, page)).transpose()
    }

    /// The pages of many URLs, in their order; `None` for a missing one. `ahead` of them are read
    /// together.
    #[pyo3(signature = (urls, *, ahead = 64))]
    fn get_many(&self, urls: &Bound<'_, PyAny>, #[pyo3(from_py_with = number)] ahead: usize) -> PyResult<Many> {
        Many::new(self.backing()?, urls, ahead)
    }

    /// The versions of a page, newest first.
    #[pyo3(signature = (url, *, until = None, variant = None))]
    fn history(
        &self,
        py: Python<'_>,
        url: Text,
        until: Option<&Bound<'_, PyAny>>,
        variant: Option<Text>,
    ) -> PyResult<Heads> {
        let until_ms = until.map(times::from_python).transpose()?;
        let wanted = self::variant(variant)?;
        self.on(py, |store| iterate::history(store, lookup(&url, wanted.as_ref(), until_ms)))
    }

    /// The variants of a URL.
    fn variants(&self, py: Python<'_>, url: Text) -> PyResult<Bytes> {
        self.on(py, |store| iterate::variants(store, &url))
    }

    /// Puts a version of a page: `put(page)`, or `put(url, body, status=..., headers=...)`.
    #[pyo3(signature = (url, body = None, **rest))]
    fn put(
        &self,
        py: Python<'_>,
        url: &Bound<'_, PyAny>,
        body: Option<&Bound<'_, PyAny>>,
        rest: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Version> {
        let given = Given::from_python(url, body, rest)?;
        self.on(py, |store| given.put(store))
    }

    /// As `put`; a body that has not changed is not stored again.
    #[pyo3(signature = (url, body = None, **rest))]
    fn put_if_changed(
        &self,
        py: Python<'_>,
        url: &Bound<'_, PyAny>,
        body: Option<&Bound<'_, PyAny>>,
        rest: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Put> {
        let given = Given::from_python(url, body, rest)?;
        self.on(py, |store| given.put_if_changed(store))
    }

    /// Puts pages, or pairs of URL and body, in their order. Returns their number. An error has
    /// the number of those before it, which are in the store, as `done`.
    #[pyo3(signature = (pages, *, if_changed = false))]
    fn put_many(&self, py: Python<'_>, pages: &Bound<'_, PyAny>, if_changed: bool) -> PyResult<u64> {
        let mut pages = pages.try_iter()?;
        let mut done = 0;
        loop {
            let mut batch = Vec::new();
            let mut failed = None;
            for item in pages.by_ref().take(PUT_AT_ONCE) {
                match item.and_then(|item| Given::from_item(&item)) {
                    Ok(given) => batch.push(given),
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            let put = self.on(py, |store| {
                for given in &batch {
                    if if_changed {
                        given.put_if_changed(store)?;
                    } else {
                        given.put(store)?;
                    }
                    done += 1;
                }
                Ok(())
            });
            let put = put.and_then(|()| failed.map_or(Ok(()), Err)).and_then(|()| py.check_signals());
            if let Err(error) = put {
                return Err(errors::with_done(error, py, done));
            }
            if batch.len() < PUT_AT_ONCE {
                return Ok(done);
            }
        }
    }

    /// Removes a page with all its versions and variants; with `variant`, only that variant; with
    /// `at`, only what was fetched at exactly this time, durably. Returns whether it existed.
    #[pyo3(signature = (url, *, variant = None, at = None))]
    fn remove<'py>(
        &self,
        py: Python<'py>,
        url: Text,
        variant: Option<Text>,
        at: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        let wanted = self::variant(variant)?;
        if let Some(at_ms) = at.map(times::from_python).transpose()? {
            let remove = |store: &Backing| {
                let removed = store.writing()?.remove_at(url.as_ref(), wanted.as_ref(), at_ms)?;
                Ok(removed)
            };
            let removed = self.on(py, remove)?;
            if let Some(lost) = removed.map(|removed| removed.without_body).filter(|lost| *lost > 0) {
                let said = std::ffi::CString::new(format!("the bodies of {lost} revisits of the page are lost"))?;
                PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyUserWarning>(), &said, 1)?;
            }
            return Ok(removed.is_some());
        }
        self.on(py, |store| Ok(store.writing()?.remove(url.as_ref(), wanted.as_ref())?))
    }

    /// The canonical form of a URL: the key of its page.
    fn key<'py>(&self, py: Python<'py>, url: Text) -> PyResult<Bound<'py, PyString>> {
        let key = self.on(py, |store| Ok(store.pages().key(url.as_ref())?))?;
        text(py, &key)
    }

    /// Statistics, by name.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let stats = match self.backing()? {
            Backing::Local(store) => py.detach(|| store.engine().stats()),
            Backing::Remote(client, _) => {
                let held = py.detach(|| client.contents().map_err(Failure::from))?;
                for (name, number) in [("keys", held.keys), ("bytes", held.bytes)] {
                    if let Some(number) = number {
                        dict.set_item(name, number)?;
                    }
                }
                return Ok(dict);
            }
        };
        for (name, value, _) in stats.fields() {
            match value {
                StatValue::Counter(number) | StatValue::Gauge(number) => dict.set_item(name, number)?,
                StatValue::Text(said) => dict.set_item(name, said)?,
            }
        }
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let closed = if self.closed() { ", closed" } else { "" };
        format!("<filemap.PageStore {:?}, mode {:?}{closed}>", self.path, self.mode.name())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a store cannot be pickled: send its path or address, and open it in the other process (mode 'r' beside a writer)",
        ))
    }
}

impl Drop for PageStore {
    fn drop(&mut self) {
        let generation = fork::generation();
        let Some(store) = self.take() else { return };
        let path = self.path.display().to_string();
        let warned = Python::try_attach(|py| {
            if generation == fork::generation() {
                let said = std::ffi::CString::new(format!("unclosed store {path}")).unwrap_or_default();
                let kind = py.get_type::<pyo3::exceptions::PyResourceWarning>();
                if let Err(error) = PyErr::warn(py, &kind, &said, 1) {
                    error.write_unraisable(py, None);
                }
            }
            py.detach(|| drop(store));
        });
        // The interpreter has shut down; the process ends, and recovery will close the store.
        let _ = warned;
    }
}
