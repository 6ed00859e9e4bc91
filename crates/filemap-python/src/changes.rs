//! Changes of a store since a place in its history: `PageStore.changes`.

use std::io::Read;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use filemap::replica::Told;
use filemap::store::{Beside, ChangesPlace, PageChange, PageChanges};
use filemap_core::erase::{Rule, RuleState};
use filemap_http::{Client, Lines, Said};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::argument::text;
use crate::backing::Backing;
use crate::errors::{self, Failure};
use crate::fork::OfProcess;
use crate::page::Page;
use crate::signals::{Looks, Watch};
use crate::store::PageStore;
use crate::times;

/// Longest wait of one request to a server.
const ASKED: Duration = Duration::from_secs(1);
/// Interval at which new changes are checked for.
const LOOK: Duration = Duration::from_millis(100);

/// A change of a store.
#[pyclass(frozen, module = "filemap", name = "Change")]
pub struct Change {
    /// `put`, `removed`, `removed-version`, `listed`, `rules` or `damaged`.
    #[pyo3(get)]
    kind: &'static str,
    /// Of `put`: the stored version.
    #[pyo3(get)]
    page: Option<Py<Page>>,
    of: Option<Beside>,
    time_ms: Option<i64>,
    version_time_ms: Option<i64>,
    /// Of `damaged`: what is wrong.
    #[pyo3(get)]
    error: Option<String>,
    /// Of `listed`: True if everything that was not listed is not in the store.
    #[pyo3(get)]
    is_whole: Option<bool>,
    rules: Option<Vec<Rule>>,
}

impl Change {
    fn new(kind: &'static str) -> Change {
        Change {
            kind,
            page: None,
            of: None,
            time_ms: None,
            version_time_ms: None,
            error: None,
            is_whole: None,
            rules: None,
        }
    }

    fn removed_version(of: Beside, time_ms: i64, version_time_ms: i64) -> Change {
        let (time_ms, version_time_ms) = (Some(time_ms), Some(version_time_ms));
        Change { of: Some(of), time_ms, version_time_ms, ..Change::new("removed-version") }
    }
}

#[pymethods]
impl Change {
    /// The canonical URL of a removed or damaged page; the fetched URL of a version.
    #[getter]
    fn url<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        if let Some(page) = &self.page {
            return text(py, &page.bind(py).as_super().get().0.url).map(Some);
        }
        self.of.as_ref().map(|of| text(py, &of.url)).transpose()
    }

    #[getter]
    fn variant<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let of_page = self.page.as_ref().and_then(|page| page.bind(py).as_super().get().0.variant.clone());
        let variant = of_page.or_else(|| self.of.as_ref().and_then(|of| of.variant.clone()));
        variant.map(|variant| PyBytes::new(py, variant.as_bytes()))
    }

    /// `response` for a page itself, or the kind of its records.
    #[getter]
    fn record_kind(&self, py: Python<'_>) -> Option<&'static str> {
        let of_page = self.page.as_ref().map(|page| page.bind(py).as_super().get().0.kind.name());
        of_page.or_else(|| self.of.as_ref().map(|of| of.kind.name()))
    }

    /// The time of the removal.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.time_ms.map(|time_ms| times::to_datetime(py, time_ms)).transpose()
    }

    /// Of `removed-version`: the time of the version.
    #[getter]
    fn version_time<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.version_time_ms.map(|time_ms| times::to_datetime(py, time_ms)).transpose()
    }

    /// Of `rules`: all erasure rules. The pages that they cover are erased.
    #[getter]
    fn rules<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(rules) = &self.rules else { return Ok(None) };
        let list = PyList::empty(py);
        for rule in rules {
            let dict = PyDict::new(py);
            let state = match rule.state {
                RuleState::Unfinished => "unfinished",
                RuleState::InForce => "in-force",
                RuleState::Lifted => "lifted",
            };
            dict.set_item("id", rule.id)?;
            dict.set_item("state", state)?;
            dict.set_item("reason", &rule.reason)?;
            dict.set_item("what", String::from_utf8_lossy(&rule.what))?;
            list.append(dict)?;
        }
        Ok(Some(list))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let url = self.url(py)?.map_or_else(String::new, |url| format!(" {url}"));
        Ok(format!("<Change {}{url}>", self.kind))
    }
}

/// An iterator over changes.
#[pyclass(frozen, module = "filemap", name = "Changes")]
pub struct Changes(Mutex<OfProcess<Source>>, Looks);

enum Source {
    Local(Box<Local>),
    Remote(Box<Remote>),
}

struct Local {
    changes: PageChanges,
    /// The place after the last change returned.
    place: String,
    until: Instant,
    has_told: bool,
    is_over: bool,
}

struct Remote {
    client: Client,
    lines: Lines,
    /// The place after the last change returned.
    place: Option<String>,
    until: Instant,
    has_told: bool,
    is_over: bool,
}

impl Source {
    /// Ends the iteration. No change comes after an error, because the one with the error was not
    /// returned.
    fn end(&mut self) {
        match self {
            Source::Local(local) => local.is_over = true,
            Source::Remote(remote) => remote.is_over = true,
        }
    }
}

/// Asks a server for a short time only, so that signals are checked in between.
fn asked(client: &Client, since: Option<&str>, until: Instant) -> filemap::Result<Lines> {
    client.changes(since, ASKED.min(until.saturating_duration_since(Instant::now())))
}

/// A change that is not a Python object yet.
type Found = (Change, Option<filemap::Page>);

impl Local {
    fn next(&mut self, watch: &mut Watch) -> Result<Option<Found>, Failure> {
        loop {
            if self.is_over {
                return Ok(None);
            }
            if !self.has_told {
                self.changes.renew()?;
            }
            if let Some(change) = self.changes.next().transpose()? {
                self.has_told = true;
                let found = self.found(change)?;
                self.place = self.changes.place().to_string();
                match found {
                    Some(found) => return Ok(Some(found)),
                    // The version was removed meanwhile; its removal comes next.
                    None => continue,
                }
            }
            self.place = self.changes.place().to_string();
            if self.has_told || Instant::now() >= self.until || watch.tick(|_| Ok(())).is_break() {
                self.is_over = true;
                return Ok(None);
            }
            std::thread::sleep(LOOK.min(self.until.saturating_duration_since(Instant::now())));
        }
    }

    fn found(&self, change: PageChange) -> Result<Option<Found>, Failure> {
        Ok(Some(match change {
            PageChange::Put { key, head, .. } => match self.changes.stored(&key, head.version) {
                Ok(None) => {
                    self.changes.settle()?;
                    return Ok(None);
                }
                Ok(Some(stored)) => (Change::new("put"), Some(stored.page)),
                Err(error) if error.is_damage() => {
                    let page = &head.page;
                    let of = Beside { url: page.url.clone(), variant: page.variant.clone(), kind: page.kind };
                    (Change { of: Some(of), error: Some(error.to_string()), ..Change::new("damaged") }, None)
                }
                Err(error) => return Err(error.into()),
            },
            PageChange::Removed { of, time_ms } => {
                (Change { of: Some(of), time_ms: Some(time_ms), ..Change::new("removed") }, None)
            }
            PageChange::RemovedVersion { of, time_ms, version_time_ms, .. } => {
                (Change::removed_version(of, time_ms, version_time_ms), None)
            }
            PageChange::Listed { is_whole } => {
                self.changes.settle()?;
                (Change { is_whole: Some(is_whole), ..Change::new("listed") }, None)
            }
            PageChange::Rules(rules) => (Change { rules: Some(rules), ..Change::new("rules") }, None),
            PageChange::Damaged { of, error } => {
                (Change { of, error: Some(error.to_string()), ..Change::new("damaged") }, None)
            }
            _ => return Err(filemap::Error::Unsupported { what: "support for this kind of change" }.into()),
        }))
    }
}

impl Remote {
    fn next(&mut self, watch: &mut Watch) -> Result<Option<Found>, Failure> {
        loop {
            if self.is_over {
                return Ok(None);
            }
            let Some(line) = self.lines.next().transpose()? else { return Ok(None) };
            let found = match line.said {
                Said::Outrun(why) => {
                    self.is_over = true;
                    return Err(filemap_core::Error::Outrun { why }.into());
                }
                Said::End => {
                    let is_late = Instant::now() >= self.until || watch.tick(|_| Ok(())).is_break();
                    self.is_over = self.has_told || is_late;
                    if !self.is_over {
                        self.lines = asked(&self.client, Some(&line.place), self.until)?;
                    }
                    None
                }
                Said::Damage(of, words) => Some((Change { of, error: Some(words), ..Change::new("damaged") }, None)),
                Said::Told(told) => self.found(told)?,
                _ => return Err(filemap::Error::Unsupported { what: "support for this kind of change" }.into()),
            };
            self.place = Some(line.place);
            self.has_told |= found.is_some();
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Reads the version of a change. `None` if it was removed meanwhile.
    fn found(&self, told: Told) -> Result<Option<Found>, Failure> {
        Ok(Some(match told {
            Told::Put { page, elsewhere: None, .. } => (Change::new("put"), Some(*page)),
            Told::Put { mut page, version, .. } => {
                let Some(mut body) = self.client.body_of(&page, version)? else { return Ok(None) };
                let read = body.read_to_end(&mut page.body);
                read.map_err(|error| Failure::reading(&page.url, error))?;
                (Change::new("put"), Some(*page))
            }
            Told::Removed { of, time_ms } => {
                (Change { of: Some(of), time_ms: Some(time_ms), ..Change::new("removed") }, None)
            }
            Told::RemovedVersion { of, time_ms, version_time_ms, .. } => {
                (Change::removed_version(of, time_ms, version_time_ms), None)
            }
            Told::Listed { is_whole } => (Change { is_whole: Some(is_whole), ..Change::new("listed") }, None),
            Told::Rules(rules) => (Change { rules: Some(rules), ..Change::new("rules") }, None),
            _ => return Err(filemap::Error::Unsupported { what: "support for this kind of change" }.into()),
        }))
    }
}

#[pymethods]
impl Changes {
    fn __iter__(slf: Py<Changes>) -> Py<Changes> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Change>>> {
        self.1.look(py)?;
        let found = py.detach(|| {
            let mut source = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut watch = Watch::new();
            let found = match source.get_mut()? {
                Source::Local(local) => local.next(&mut watch),
                Source::Remote(remote) => remote.next(&mut watch),
            };
            if found.is_err() {
                source.get_mut()?.end();
            }
            watch.end(found.map_err(PyErr::from))
        })?;
        let Some((change, page)) = found else { return Ok(None) };
        let page = page.map(|page| Page::of(py, page).map(Bound::unbind)).transpose()?;
        Bound::new(py, Change { page, ..change }).map(Some)
    }

    /// The place in the store's history after the last change returned: `since` of a later call.
    /// In a local store, while all versions are being listed, this costs a sync.
    #[getter]
    fn cursor(&self, py: Python<'_>) -> PyResult<Option<String>> {
        py.detach(|| {
            let mut source = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match source.get_mut()? {
                Source::Local(local) => {
                    if local.changes.is_listing() {
                        local.changes.settle().map_err(Failure::from)?;
                    }
                    Ok(Some(local.place.clone()))
                }
                Source::Remote(remote) => Ok(remote.place.clone()),
            }
        })
    }
}

#[pymethods]
impl PageStore {
    /// Changes since a place in the store's history: versions put and removals, in order, and only
    /// those that survive a power loss. `None`: first everything that the store has.
    #[pyo3(signature = (since = None, *, wait = 0.0))]
    fn changes(&self, py: Python<'_>, since: Option<String>, wait: f64) -> PyResult<Changes> {
        let wait = Duration::try_from_secs_f64(wait).ok().filter(|wait| wait.as_secs() <= 300);
        let wait = wait.ok_or_else(|| errors::invalid("wait must be 0 to 300 seconds"))?;
        let source = match self.backing()? {
            Backing::Local(store) => {
                let changes = py.detach(|| match since.as_deref() {
                    None => store.changes(None),
                    Some("now") => store.changes(Some(&store.changes_end()?)),
                    Some(place) => store.changes(Some(&place.parse::<ChangesPlace>()?)),
                });
                let changes = changes.map_err(Failure::from)?;
                let until = Instant::now() + wait;
                let place = changes.place().to_string();
                Source::Local(Box::new(Local { changes, place, until, has_told: false, is_over: false }))
            }
            Backing::Remote(client, _) => {
                let until = Instant::now() + wait;
                let lines = py.detach(|| asked(&client, since.as_deref(), until)).map_err(Failure::from)?;
                let remote = Remote { client, lines, place: since, until, has_told: false, is_over: false };
                Source::Remote(Box::new(remote))
            }
        };
        Ok(Changes(Mutex::new(OfProcess::new(source)), Looks::new()))
    }
}
