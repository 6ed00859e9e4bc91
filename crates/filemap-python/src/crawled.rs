//! Objects of a crawl in Python: each page, for the callback, and the summary; and the callback's
//! answers.

use std::collections::BTreeMap;

use crawl::run::{End, Summary};
use crawl::{Capture, Reason, Reply};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::argument::named;
use crate::errors::invalid;
use crate::page::Page;

/// Reasons for which a fetched page, or an answer of the callback, is not stored.
const LOSSES: [Reason; 2] = [Reason::Unstorable, Reason::HookFailed];

/// A page that was fetched and is not stored yet.
#[pyclass(frozen, get_all, module = "filemap", name = "CrawledPage")]
#[derive(Debug)]
pub struct CrawledPage {
    page: Py<Page>,
    url: String,
    key: String,
    depth: u16,
    links: Vec<String>,
    fields: BTreeMap<String, String>,
}

#[pymethods]
impl CrawledPage {
    fn __repr__(&self) -> String {
        format!("CrawledPage({:?}, depth={}, links={})", self.url, self.depth, self.links.len())
    }
}

/// Passes a page to the callback, and reads its answer.
///
/// # Errors
///
/// The exception of the callback; `TypeError`, `InvalidValueError` for an invalid answer.
pub fn ask(py: Python<'_>, callback: &Py<PyAny>, capture: &Capture<'_>) -> PyResult<Reply> {
    let body = PyBytes::new(py, &capture.page.body);
    let page = filemap::Page { body: Vec::new(), ..capture.page.clone() };
    let shown = CrawledPage {
        page: Page::with_body(page, body)?.unbind(),
        url: capture.url.to_owned(),
        key: capture.key.to_owned(),
        depth: capture.depth,
        links: capture.links.to_vec(),
        fields: capture.fields.clone(),
    };
    let answer = callback.call1(py, (shown,))?;
    reply(answer.bind(py))
}

fn reply(answer: &Bound<'_, PyAny>) -> PyResult<Reply> {
    if answer.is_none() {
        return Ok(Reply::new());
    }
    let Ok(answer) = answer.cast::<PyDict>() else {
        let kind = answer.get_type().name()?;
        return Err(PyTypeError::new_err(format!("on_page answers None or a dict, not {kind}")));
    };
    let mut reply = Reply::new();
    for (name, value) in answer {
        let name: String = name.extract()?;
        match name.as_str() {
            "links" => reply.links = named(&name, &value)?,
            "fields" => reply.fields = named(&name, &value)?,
            "store" => reply.stores = named(&name, &value)?,
            "follow" => reply.follows = named(&name, &value)?,
            _ => return Err(invalid(format!("an answer has links, fields, store, follow, not {name:?}"))),
        }
    }
    Ok(reply)
}

/// The result of a crawl.
#[pyclass(frozen, get_all, module = "filemap", name = "CrawlSummary")]
#[derive(Debug)]
pub struct CrawlSummary {
    end: &'static str,
    fetched: u64,
    discovered: u64,
    redirects: u64,
    unchanged: u64,
    duplicates: u64,
    queued: u64,
    missing: u64,
    reasons: BTreeMap<&'static str, u64>,
    lost_seeds: Vec<(String, Option<String>)>,
    warc_damaged: u64,
    wire_bytes: u64,
    body_bytes: u64,
    seconds: f64,
}

impl From<Summary> for CrawlSummary {
    fn from(summary: Summary) -> CrawlSummary {
        let missing = summary.coverage.missing(summary.end);
        let Summary { end, tally, frontier, took, lost_seeds, warc, .. } = summary;
        let warc_damaged = warc.map_or(0, |warc| warc.damaged);
        let reasons = tally.reasons.iter().map(|(reason, times)| (reason.name(), *times)).collect();
        CrawlSummary {
            end: end.name(),
            fetched: tally.fetched,
            discovered: tally.discovered,
            redirects: tally.redirects,
            unchanged: tally.unchanged,
            duplicates: tally.duplicates,
            queued: u64::from(frontier.queued) + u64::from(frontier.due),
            missing,
            reasons,
            warc_damaged,
            lost_seeds: lost_seeds.into_iter().map(|lost| (lost.url, lost.why)).collect(),
            wire_bytes: tally.wire_bytes,
            body_bytes: tally.body_bytes,
            seconds: took.as_secs_f64(),
        }
    }
}

#[pymethods]
impl CrawlSummary {
    /// True if nothing is missing for a reason that is neither a host's answer nor a limit: in the
    /// store, of the callback's answers, and in WARC files.
    #[getter]
    fn ok(&self) -> bool {
        let is_kept = !LOSSES.iter().any(|reason| self.reasons.contains_key(reason.name()));
        is_kept && self.missing == 0 && self.warc_damaged == 0 && self.end != End::Interrupted.name()
    }

    fn __repr__(&self) -> String {
        format!(
            "CrawlSummary(end={:?}, fetched={}, queued={}, missing={})",
            self.end, self.fetched, self.queued, self.missing
        )
    }
}
