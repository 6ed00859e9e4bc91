//! Seen sets, and canonical URLs. The classes of each kind are in `filemap.seen`.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use filemap_http::Client;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use urlindex::canonical::{Rule, RuleSet};
use urlindex::stored::{NewSet, SetKind, StoredSet};
use urlindex::{Canonicalizer, CrawlRules, DiskOptions, Verdict};

use crate::argument::{self, Text, of_kind, patience, text};
use crate::backing;
use crate::errors::{self, Failure};
use crate::fork::OfProcess;
use crate::made::{ANY_KIND, check_made, disk_options, new_set};
use crate::options;
use crate::redis::{Asking, OnRedis};
use crate::sets::{Reaching, Served, Set};

/// Most URLs that `add_many` takes from its iterator before it inserts them, and most bytes: a
/// server accepts 64 MiB at once.
const AT_ONCE: usize = 4096;
const BYTES_AT_ONCE: usize = 16 << 20;

/// A set of URLs in files. The classes in `filemap.seen` are its kinds.
#[pyclass(frozen, subclass, weakref, module = "filemap._native", name = "SeenSet")]
pub struct SeenSet {
    set: RwLock<OfProcess<Option<Set>>>,
    /// Applied to each URL; `None`: bytes unchanged.
    canonicalizer: Option<Arc<dyn Canonicalizer>>,
    path: PathBuf,
    /// The address of a set behind a server or on Redis.
    location: Option<String>,
    mode: String,
    closing: Mutex<()>,
}

/// The form of a URL that a set compares.
fn form<'a>(canonicalizer: Option<&dyn Canonicalizer>, url: &'a [u8]) -> Result<Cow<'a, [u8]>, Failure> {
    match canonicalizer {
        None => Ok(Cow::Borrowed(url)),
        Some(rule) => rule.canonical(url).map_err(|source| {
            let said = format!("{:?}: {source}", String::from_utf8_lossy(url));
            Failure::Python(errors::make("InvalidUrlError", said))
        }),
    }
}

impl SeenSet {
    fn handle(&self) -> PyResult<Set> {
        let set = self.set.read().unwrap_or_else(PoisonError::into_inner);
        set.get()?.clone().ok_or_else(|| errors::make("ClosedError", "the set is closed".to_owned()))
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Set, Option<&dyn Canonicalizer>) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let set = self.handle()?;
        Ok(py.detach(|| work(&set, self.canonicalizer.as_deref()))?)
    }

    /// Opens a set in files.
    fn here(
        py: Python<'_>,
        kind: &str,
        path: PathBuf,
        mode: &str,
        canonicalizer: Option<&str>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<SeenSet> {
        let (new, disk) = (new_set(kind, given)?, disk_options(given)?);
        let rule = options::canonicalizer(canonicalizer.unwrap_or("exact"))?;
        let (set, noted) = py.detach(|| -> Result<_, Failure> {
            let set = opened(&path, mode, new, disk, &*rule)?;
            let noted = set.canonicalizer()?;
            Ok((set, noted))
        })?;
        if kind != ANY_KIND && kind_named(kind) != Some(set.kind()) {
            let what = format!("{} is a set of the kind {}, not {kind}", path.display(), set.kind().name());
            return Err(errors::invalid(what));
        }
        check_made(&path.display().to_string(), &set, given)?;
        let Some(noted) = noted.or_else(|| canonicalizer.map(|_| Arc::clone(&rule))) else {
            return Err(errors::invalid(format!(
                "{0}.canon, which names the canonicaliser of {0}, is missing: give `canonicalizer`",
                path.display()
            )));
        };
        if canonicalizer.is_some() {
            check_rules(&path.display().to_string(), (noted.name(), noted.version()), &*rule)?;
        }
        Ok(SeenSet::of(Set::Here(Arc::new(set)), noted, path, None, mode))
    }

    /// Connects to a set behind a server, or on Redis.
    fn there(
        py: Python<'_>,
        kind: &str,
        location: String,
        mode: &str,
        canonicalizer: Option<&str>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<SeenSet> {
        if kind != ANY_KIND {
            let said = format!("{location} is an address: open its set, of whatever kind, by filemap.seen.open");
            return Err(errors::invalid(said));
        }
        let wanted = options::canonicalizer(canonicalizer.unwrap_or("exact"))?;
        let (set, name, version) = if urlindex_redis::is_location(&location) {
            let asking = Asking::of(given)?;
            let opened = py.detach(|| OnRedis::open(&location, mode, &*wanted, asking))?;
            let (name, version) = opened.set().rules();
            let name = name.to_owned();
            (Set::Redis(Arc::new(opened)), name, version)
        } else {
            let reaching = reaching(py, given)?;
            let served = py.detach(|| Served::open(&location, mode, wanted.name(), reaching))?;
            let (name, version) = served.rules();
            let name = name.to_owned();
            (Set::There(Arc::new(served)), name, version)
        };
        // A URL that the set's rules refuse is detected here, before the URLs after it are added.
        let rule = options::canonicalizer(&name)?;
        for rule in [Some(&rule), canonicalizer.map(|_| &wanted)].into_iter().flatten() {
            check_rules(&location, (&name, version), &**rule)?;
        }
        Ok(SeenSet::of(set, rule, PathBuf::from(&location), Some(location), mode))
    }

    fn of(set: Set, rule: Arc<dyn Canonicalizer>, path: PathBuf, location: Option<String>, mode: &str) -> SeenSet {
        SeenSet {
            set: RwLock::new(OfProcess::new(Some(set))),
            canonicalizer: Some(rule).filter(|rule| rule.name() != "exact"),
            path,
            location,
            mode: mode.to_owned(),
            closing: Mutex::new(()),
        }
    }

    /// Takes the set out of the handle; `None` if it is closed, or belongs to another process.
    fn take(&self) -> Option<Set> {
        let _one = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *set, OfProcess::new(None)).take().flatten()
    }

    fn close_taken(&self, set: Option<Set>) -> Result<(), Failure> {
        let Some(set) = set else { return Ok(()) };
        let Set::Here(set) = set else { return set.sync() };
        match Arc::try_unwrap(set) {
            Ok(set) if self.mode != "r" => Ok(set.close()?),
            Ok(_) => Ok(()),
            // A call in another thread still holds the set: it closes with that call.
            Err(_) if self.mode == "r" => Ok(()),
            Err(set) => Ok(Set::Here(set).sync()?),
        }
    }

    /// Runs `work` on all URLs in batches of some thousand; `means` interprets a verdict. Any
    /// error, of the iterable too, has the results for the URLs before it as `done`, because they
    /// may be in the set and would not be new again.
    fn batches(
        &self,
        py: Python<'_>,
        urls: &Bound<'_, PyAny>,
        work: impl Fn(&Set, &[&[u8]], &mut Vec<Verdict>) -> Result<(), Failure> + Send + Sync,
        means: impl Fn(Verdict) -> bool,
    ) -> PyResult<Vec<bool>> {
        let mut done: Vec<bool> = Vec::new();
        let mut urls = argument::many(urls)?;
        loop {
            let (mut batch, mut bytes, mut failed, mut is_over) = (Vec::new(), 0, None, false);
            while batch.len() < AT_ONCE && bytes < BYTES_AT_ONCE {
                let Some(url) = urls.next() else {
                    is_over = true;
                    break;
                };
                match url.and_then(|url| url.extract::<Text>()) {
                    Ok(url) => {
                        bytes += url.as_ref().len();
                        batch.push(url);
                    }
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            let mut verdicts = Vec::new();
            let worked = self.with(py, |set, rule| {
                let (forms, wrong) = forms(rule, &batch);
                let borrowed: Vec<&[u8]> = forms.iter().map(|form| &**form).collect();
                work(set, &borrowed, &mut verdicts)?;
                wrong.map_or(Ok(()), Err)
            });
            done.extend(verdicts.into_iter().map(&means));
            let worked = worked.and_then(|()| failed.map_or(Ok(()), Err)).and_then(|()| py.check_signals());
            if let Err(error) = worked {
                return Err(errors::with_done(error, py, done));
            }
            if is_over {
                return Ok(done);
            }
        }
    }
}

/// The forms of URLs that a set compares, up to the first invalid URL.
fn forms<'a>(rule: Option<&dyn Canonicalizer>, urls: &'a [Text]) -> (Vec<Cow<'a, [u8]>>, Option<Failure>) {
    let mut forms = Vec::with_capacity(urls.len());
    for url in urls {
        match form(rule, url.as_ref()) {
            Ok(form) => forms.push(form),
            Err(wrong) => return (forms, Some(wrong)),
        }
    }
    (forms, None)
}

/// # Errors
///
/// `InvalidValueError` if the set has other rules.
fn check_rules(of: &str, noted: (&str, u32), rule: &dyn Canonicalizer) -> PyResult<()> {
    if noted == (rule.name(), rule.version()) {
        return Ok(());
    }
    let (name, version) = noted;
    Err(errors::invalid(format!(
        "the URLs of {of} are canonical by {name} (version {version}), not by {} (version {})",
        rule.name(),
        rule.version()
    )))
}

/// The options of a set behind a server.
fn reaching(py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<Reaching> {
    let rest = given.map(|given| given.copy()).transpose()?;
    for name in ["durable", "patience"] {
        if let Some(rest) = &rest {
            let _ = rest.del_item(name);
        }
    }
    Ok(Reaching {
        options: backing::client_options(py, rest.as_ref())?,
        durable: of_kind(given, "durable")?.unwrap_or(false),
        patience: patience(given)?,
    })
}

fn opened(
    path: &PathBuf,
    mode: &str,
    new: NewSet,
    disk: DiskOptions,
    rule: &dyn Canonicalizer,
) -> urlindex::Result<StoredSet> {
    match mode {
        "r" => StoredSet::open_read_only_with(path, disk),
        "w" => StoredSet::open_with(path, disk),
        "x" => StoredSet::create(path, new, rule),
        _ => match StoredSet::create(path, new, rule) {
            Err(error) if is_there(&error) => StoredSet::open_with(path, disk),
            created => created,
        },
    }
}

fn is_there(error: &urlindex::Error) -> bool {
    match error {
        urlindex::Error::Storage(urlindex::StorageError::Io { source, .. }) => {
            source.kind() == std::io::ErrorKind::AlreadyExists
        }
        _ => false,
    }
}

fn kind_named(kind: &str) -> Option<SetKind> {
    let kinds = [SetKind::Md5Bitmap, SetKind::Bloom, SetKind::Trie, SetKind::Disk];
    kinds.into_iter().find(|each| each.name() == kind)
}

#[pymethods]
impl SeenSet {
    #[new]
    #[pyo3(signature = (kind, path, mode = "a", *, canonicalizer = None, **given))]
    fn new(
        py: Python<'_>,
        kind: &str,
        path: &Bound<'_, PyAny>,
        mode: &str,
        canonicalizer: Option<&str>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<SeenSet> {
        if !matches!(mode, "r" | "w" | "a" | "x") {
            return Err(errors::invalid(format!("a mode is 'r', 'w', 'a' or 'x', not {mode:?}")));
        }
        let is_address = |text: &String| Client::is_location(text) || urlindex_redis::is_location(text);
        match path.extract().ok().filter(is_address) {
            Some(location) => SeenSet::there(py, kind, location, mode, canonicalizer, given),
            None => SeenSet::here(py, kind, argument::path(path)?, mode, canonicalizer, given),
        }
    }

    /// The set's path, or its address as a `str`.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.location {
            Some(location) => Ok(PyString::new(py, location).into_any()),
            None => Ok(self.path.as_path().into_pyobject(py)?.into_any()),
        }
    }

    #[getter]
    fn mode(&self) -> &str {
        &self.mode
    }

    #[getter]
    fn closed(&self) -> bool {
        self.set.read().unwrap_or_else(PoisonError::into_inner).get().is_ok_and(Option::is_none)
    }

    fn __enter__(slf: Py<SeenSet>) -> Py<SeenSet> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// Makes added URLs durable, and closes. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.set.read().unwrap_or_else(PoisonError::into_inner).get()?;
        Ok(py.detach(|| self.close_taken(self.take()))?)
    }

    /// Makes added URLs durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |set, _| set.sync())
    }

    /// Adds a URL. Returns whether it is new.
    fn add(&self, py: Python<'_>, url: Text) -> PyResult<bool> {
        self.with(py, |set, rule| set.insert(&form(rule, url.as_ref())?))
    }

    /// Adds URLs. Returns for each whether it is new. After an error the URLs before it are in the
    /// set; its attribute `done` says which of them were new.
    fn add_many(&self, py: Python<'_>, urls: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        self.batches(py, urls, Set::add, Verdict::is_new)
    }

    fn __contains__(&self, py: Python<'_>, url: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(url) = url.extract::<Text>() else { return Ok(false) };
        self.with(py, |set, rule| match form(rule, url.as_ref()) {
            // Not a URL, so it was never added.
            Err(_) => Ok(false),
            Ok(form) => set.contains(&form),
        })
    }

    /// Returns for each URL whether it was added, or may have been.
    fn contains_many(&self, py: Python<'_>, urls: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        self.batches(py, urls, Set::check, |verdict| !verdict.is_new())
    }

    /// Removes URLs from the set. Returns for each whether it was in it.
    fn forget_many(&self, py: Python<'_>, urls: Vec<Text>) -> PyResult<Vec<bool>> {
        self.with(py, |set, rule| {
            let forms: Vec<_> = urls.iter().map(|url| form(rule, url.as_ref())).collect::<Result<_, Failure>>()?;
            set.forget(&forms)
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |set, _| Ok(usize::try_from(set.stats()?.urls).unwrap_or(usize::MAX)))
    }

    fn __bool__(&self) -> bool {
        true
    }

    /// Statistics, by name.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.with(py, |set, _| set.stats())?;
        let dict = PyDict::new(py);
        dict.set_item("urls", stats.urls)?;
        dict.set_item("inserted", stats.inserted)?;
        dict.set_item("memory_bytes", stats.memory_bytes)?;
        dict.set_item("disk_bytes", stats.disk_bytes)?;
        dict.set_item("false_positive_rate", stats.false_positive_rate)?;
        dict.set_item("expected_loss", stats.expected_loss)?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let closed = if self.closed() { ", closed" } else { "" };
        format!("<filemap.seen set {:?}, mode {:?}{closed}>", self.path, self.mode)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a seen set cannot be pickled: send its path, and open it in the other process (mode 'r' beside a writer)",
        ))
    }
}

/// The canonical form of a URL. `rules` is a canonicaliser's name (`whatwg`, `exact`, `crawl`,
/// `surt`) or names of single rules; `base` is the page on which a link was found.
#[pyfunction]
#[pyo3(signature = (url, rules = None, *, base = None))]
pub fn canonicalize<'py>(
    py: Python<'py>,
    url: Text,
    rules: Option<&Bound<'py, PyAny>>,
    base: Option<Text>,
) -> PyResult<Bound<'py, PyString>> {
    let rule: Arc<dyn Canonicalizer> = match rules {
        None => options::canonicalizer("whatwg")?,
        Some(name) if name.is_instance_of::<PyString>() => options::canonicalizer(&name.extract::<String>()?)?,
        Some(names) => Arc::new(CrawlRules::new(rule_set(names)?)),
    };
    let done = match &base {
        Some(base) => rule.resolve(base.as_ref(), url.as_ref()),
        None => rule.canonicalize(url.as_ref()),
    };
    let done = done.map_err(|source| {
        errors::make("InvalidUrlError", format!("{:?}: {source}", String::from_utf8_lossy(url.as_ref())))
    })?;
    text(py, &done)
}

fn rule_set(names: &Bound<'_, PyAny>) -> PyResult<RuleSet> {
    let mut rules = RuleSet::from_bits(0).unwrap_or(RuleSet::WHATWG);
    for name in names.try_iter()? {
        let name: String = name?.extract()?;
        let rule = Rule::named(&name);
        let rule = rule.ok_or_else(|| errors::invalid(format!("there is no rule {name:?} of canonical URLs")))?;
        rules = rules.with(rule);
    }
    Ok(rules)
}

impl Drop for SeenSet {
    /// Saves a set in files that was not closed, since a program may end without closing. Does not
    /// wait for a set behind a server.
    fn drop(&mut self) {
        let Some(set @ Set::Here(_)) = self.take() else { return };
        let mut set = Some(set);
        let closed = Python::try_attach(|py| {
            let set = set.take();
            if let Err(failure) = py.detach(|| self.close_taken(set)) {
                PyErr::from(failure).write_unraisable(py, None);
            }
        });
        if closed.is_none() {
            // The interpreter has shut down, so the error cannot be reported.
            let _ = self.close_taken(set);
        }
    }
}
