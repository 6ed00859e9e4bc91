//! `Page`, `PageHead`, `Put` and `Version`: results of a store, and pages to put.

use std::io::Read;
use std::sync::Arc;

use filemap::PageWrite;
use filemap::access::PutRule;
use filemap::page::{HttpVersion, RecordKind};
use filemap::store::PageReader;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString};

use crate::argument::{Body, Text, escaped, named, number, text, variant};
use crate::backing::Backing;
use crate::errors::{Failure, invalid};
use crate::headers::{self, Headers, latin1};
use crate::times;

/// Identifies a version of a page: its time, and its sequence in the store. Newer ones are
/// greater.
#[pyclass(frozen, eq, ord, hash, module = "filemap", name = "Version")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    #[pyo3(get)]
    time_ms: i64,
    #[pyo3(get)]
    sequence: u64,
}

impl From<filemap::Version> for Version {
    fn from(version: filemap::Version) -> Version {
        Version { time_ms: version.time_ms, sequence: version.sequence }
    }
}

impl From<&Version> for filemap::Version {
    fn from(version: &Version) -> filemap::Version {
        filemap::Version { time_ms: version.time_ms, sequence: version.sequence }
    }
}

#[pymethods]
impl Version {
    #[new]
    fn new(#[pyo3(from_py_with = number)] time_ms: i64, #[pyo3(from_py_with = number)] sequence: u64) -> Version {
        Version { time_ms, sequence }
    }

    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times::to_datetime(py, self.time_ms)
    }

    fn __repr__(&self) -> String {
        format!("Version(time_ms={}, sequence={})", self.time_ms, self.sequence)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Version>) -> (Bound<'py, PyAny>, (i64, u64)) {
        (slf.get_type().into_any(), (slf.get().time_ms, slf.get().sequence))
    }
}

/// The result of a put.
#[pyclass(frozen, module = "filemap", name = "Put")]
#[derive(Debug)]
pub struct Put {
    #[pyo3(get)]
    version: Version,
    /// False if the body equals that of the newest version, and was not stored again.
    #[pyo3(get)]
    changed: bool,
}

impl From<filemap::Put> for Put {
    fn from(put: filemap::Put) -> Put {
        Put { version: put.version().into(), changed: !matches!(put, filemap::Put::Unchanged(_)) }
    }
}

#[pymethods]
impl Put {
    fn __repr__(&self) -> String {
        let changed = if self.changed { "True" } else { "False" };
        format!("Put(version={}, changed={changed})", self.version.__repr__())
    }
}

/// A capture without its body: URL, time, status, headers.
#[pyclass(frozen, subclass, module = "filemap", name = "Capture")]
#[derive(Debug)]
pub struct Capture(pub Arc<filemap::Page>);

#[pymethods]
impl Capture {
    #[getter]
    fn url<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        text(py, &self.0.url)
    }

    #[getter]
    fn variant<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.variant.as_ref().map(|variant| PyBytes::new(py, variant.as_bytes()))
    }

    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times::to_datetime(py, self.0.fetched_at_ms)
    }

    #[getter]
    fn time_ms(&self) -> i64 {
        self.0.fetched_at_ms
    }

    #[getter]
    fn status(&self) -> Option<u16> {
        self.0.status
    }

    #[getter]
    fn reason(&self) -> String {
        latin1(&self.0.reason)
    }

    #[getter]
    fn http_version(&self) -> Option<&str> {
        self.0.http_version.as_ref().map(HttpVersion::as_str)
    }

    #[getter]
    fn method(&self) -> Option<&str> {
        self.0.method.as_deref()
    }

    #[getter]
    fn ip(&self) -> Option<String> {
        self.0.ip.map(|ip| ip.to_string())
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind.name()
    }

    #[getter]
    fn headers(&self) -> Headers {
        Headers(self.0.headers.clone())
    }

    #[getter]
    fn content_type(&self) -> Option<String> {
        self.0.headers.get("Content-Type").map(latin1)
    }

    #[getter]
    fn truncated(&self) -> Option<&str> {
        self.0.truncated.as_deref()
    }

    #[getter]
    fn digest(&self) -> Option<&str> {
        self.0.digest.as_deref()
    }

    #[getter]
    fn record_id(&self) -> Option<&str> {
        self.0.record_id.as_deref()
    }

    fn _repr_html_(slf: &Bound<'_, Capture>) -> PyResult<String> {
        let capture = slf.get();
        let time = slf.getattr("time").and_then(|time| time.str().map(|time| time.to_string()));
        let rows = [
            ("URL", String::from_utf8_lossy(&capture.0.url).into_owned()),
            ("time", time.unwrap_or_else(|_| format!("{} ms", capture.0.fetched_at_ms))),
            ("status", capture.0.status.map_or_else(String::new, |status| status.to_string())),
            ("type", capture.content_type().unwrap_or_default()),
            ("bytes", bytes_of(slf)?.map_or_else(String::new, |bytes| bytes.to_string())),
        ];
        let row = |(name, value): (&str, String)| format!("<tr><th>{name}</th><td>{}</td></tr>", escaped(&value));
        Ok(format!("<table>{}</table>", rows.into_iter().map(row).collect::<String>()))
    }
}

/// The length of the body, of a capture of any class.
fn bytes_of(capture: &Bound<'_, Capture>) -> PyResult<Option<u64>> {
    if let Ok(page) = capture.cast::<Page>() {
        return Ok(Some(page.get().body.bind(capture.py()).len()? as u64));
    }
    Ok(capture.cast::<PageHead>().ok().map(|head| head.get().body_bytes))
}

fn shown(capture: &filemap::Page) -> String {
    let status = capture.status.map_or_else(|| "no status".to_owned(), |status| status.to_string());
    format!("{} {status}", String::from_utf8_lossy(&capture.url))
}

/// A page with its body.
#[pyclass(frozen, extends = Capture, module = "filemap", name = "Page")]
#[derive(Debug)]
pub struct Page {
    #[pyo3(get)]
    body: Py<PyBytes>,
}

impl Page {
    /// A page of a store.
    pub fn of(py: Python<'_>, mut page: filemap::Page) -> PyResult<Bound<'_, Page>> {
        let body = PyBytes::new(py, &std::mem::take(&mut page.body));
        Page::with_body(page, body)
    }

    /// A page of a store with its body from a reader. A body in many pieces is decompressed
    /// directly into the object that Python gets.
    ///
    /// # Errors
    ///
    /// `CorruptError`, `StoreIOError`; `MemoryError`.
    pub fn read(py: Python<'_>, page: filemap::Page, mut body: PageReader) -> PyResult<Bound<'_, Page>> {
        if let Some(bytes) = body.in_memory() {
            return Page::with_body(page, PyBytes::new(py, bytes));
        }
        let length = usize::try_from(body.remaining())?;
        let bytes = PyBytes::new_with(py, length, |out| {
            py.detach(|| body.read_exact(out)).map_err(|error| Failure::reading(&page.url, error).into())
        })?;
        Page::with_body(page, bytes)
    }

    /// A page with this body.
    pub fn with_body<'py>(page: filemap::Page, body: Bound<'py, PyBytes>) -> PyResult<Bound<'py, Page>> {
        let py = body.py();
        let page = PyClassInitializer::from(Capture(Arc::new(page))).add_subclass(Page { body: body.unbind() });
        Bound::new(py, page)
    }

    /// Description and body, for a thread without the interpreter.
    pub fn parts(page: &Bound<'_, Page>) -> (Arc<filemap::Page>, PyBackedBytes) {
        let body = PyBackedBytes::from(page.get().body.bind(page.py()).clone());
        (Arc::clone(&page.as_super().get().0), body)
    }

    fn content_type(capture: &Capture) -> Option<&[u8]> {
        capture.0.headers.get("Content-Type")
    }
}

#[pymethods]
impl Page {
    #[new]
    #[pyo3(signature = (url, body, **rest))]
    fn new(
        py: Python<'_>,
        url: Text,
        body: &Bound<'_, PyAny>,
        rest: Option<&Bound<'_, pyo3::types::PyDict>>,
    ) -> PyResult<PyClassInitializer<Page>> {
        let description = described(url, rest)?;
        let body = match body.cast::<PyBytes>() {
            Ok(bytes) => bytes.clone(),
            Err(_) => PyBytes::new(py, &body.extract::<Body>()?.0),
        };
        Ok(PyClassInitializer::from(Capture(Arc::new(description))).add_subclass(Page { body: body.unbind() }))
    }

    /// The body as text: decoded by byte order mark, `Content-Type`, a declaration in its first
    /// kilobyte, or else as UTF-8 or windows-1252. Invalid bytes become U+FFFD.
    #[getter]
    fn text<'py>(slf: &Bound<'py, Page>) -> Bound<'py, PyString> {
        let kind = Page::content_type(slf.as_super().get());
        let (text, _) = filemap::page::encoding::decode(slf.get().body.bind(slf.py()).as_bytes(), kind);
        PyString::new(slf.py(), &text)
    }

    /// The name of the encoding that `text` uses.
    #[getter]
    fn encoding(slf: &Bound<'_, Page>) -> &'static str {
        let kind = Page::content_type(slf.as_super().get());
        filemap::page::encoding::decode(slf.get().body.bind(slf.py()).as_bytes(), kind).1.name()
    }

    /// True if the page is a revisit whose original is not in the store.
    #[getter]
    fn lacks_body(slf: &Bound<'_, Page>) -> bool {
        slf.get().body.bind(slf.py()).as_bytes().is_empty() && slf.as_super().get().0.lacks_body()
    }

    fn __repr__(slf: &Bound<'_, Page>) -> PyResult<String> {
        let bytes = slf.get().body.bind(slf.py()).len()?;
        Ok(format!("<Page {}, {bytes} bytes>", shown(&slf.as_super().get().0)))
    }
}

/// A version of a page without its body.
#[pyclass(frozen, extends = Capture, module = "filemap", name = "PageHead")]
#[derive(Debug)]
pub struct PageHead {
    #[pyo3(get)]
    version: Version,
    #[pyo3(get)]
    body_bytes: u64,
    #[pyo3(get)]
    stored_bytes: u64,
    /// True if the body is that of an earlier version, and was not stored again.
    #[pyo3(get)]
    unchanged: bool,
}

impl PageHead {
    pub fn of(py: Python<'_>, head: filemap::PageHead) -> PyResult<Bound<'_, PageHead>> {
        let own = PageHead {
            version: head.version.into(),
            body_bytes: head.body_bytes,
            stored_bytes: head.stored_bytes,
            unchanged: head.unchanged_since.is_some(),
        };
        Bound::new(py, PyClassInitializer::from(Capture(Arc::new(head.page))).add_subclass(own))
    }
}

#[pymethods]
impl PageHead {
    fn __repr__(slf: &Bound<'_, PageHead>) -> String {
        format!("<PageHead {}, {} bytes>", shown(&slf.as_super().get().0), slf.get().body_bytes)
    }
}

/// The description of a page to put: everything but its body.
///
/// # Errors
///
/// `TypeError` for an unknown argument or one of a wrong type, `InvalidValueError`.
pub fn described(url: Text, rest: Option<&Bound<'_, pyo3::types::PyDict>>) -> PyResult<filemap::Page> {
    let mut page = filemap::Page { url: url.as_ref().to_vec(), status: Some(200), ..filemap::Page::default() };
    let mut has_time = false;
    for (name, value) in rest.into_iter().flat_map(|rest| rest.iter()) {
        let name: String = name.extract()?;
        if name == "status" {
            page.status = named(&name, &value)?;
            continue;
        }
        if value.is_none() {
            continue;
        }
        match name.as_str() {
            "headers" => page.headers = headers::from_python(&value)?,
            "time" => {
                page.fetched_at_ms = times::of_page(&value)?;
                has_time = true;
            }
            "variant" => page.variant = variant(Some(named(&name, &value)?)).map_err(PyErr::from)?,
            "reason" => page.reason = headers::bytes_of(&name, &value)?,
            "http_version" => page.http_version = Some(HttpVersion::from_token(&named::<String>(&name, &value)?)),
            "method" => page.method = Some(named(&name, &value)?),
            "ip" => page.ip = Some(ip(&named::<String>(&name, &value)?)?),
            "kind" => page.kind = kind(&named::<String>(&name, &value)?)?,
            "truncated" => page.truncated = Some(named(&name, &value)?),
            "digest" => page.digest = Some(named(&name, &value)?),
            "record_id" => page.record_id = Some(named(&name, &value)?),
            _ => {
                let what = format!("a page has no argument '{name}'");
                return Err(pyo3::exceptions::PyTypeError::new_err(what));
            }
        }
    }
    if !has_time {
        page.fetched_at_ms = now_ms();
    }
    Ok(page)
}

fn ip(said: &str) -> PyResult<std::net::IpAddr> {
    said.parse().map_err(|_| invalid(format!("{said:?} is not an IP address")))
}

fn kind(name: &str) -> PyResult<RecordKind> {
    let kind = RecordKind::named(name).filter(|kind| matches!(kind, RecordKind::Response | RecordKind::Resource));
    kind.ok_or_else(|| invalid(format!("a page is a 'response' or a 'resource', not {name:?}")))
}

/// The current time, in ms since 1970.
pub fn now_ms() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// One argument of a put: a `Page`, or a URL with the other arguments.
pub enum Given {
    Page(Arc<filemap::Page>, PyBackedBytes),
    Parts(Box<filemap::Page>, BodyBytes),
}

/// The bytes of a body to be put.
pub enum BodyBytes {
    Shared(PyBackedBytes),
    Owned(Vec<u8>),
}

impl Given {
    /// # Errors
    ///
    /// `TypeError`, `InvalidValueError`.
    pub fn from_python(
        first: &Bound<'_, PyAny>,
        body: Option<&Bound<'_, PyAny>>,
        rest: Option<&Bound<'_, pyo3::types::PyDict>>,
    ) -> PyResult<Given> {
        if let Ok(page) = first.cast::<Page>() {
            if body.is_some() || rest.is_some_and(|rest| !rest.is_empty()) {
                return Err(pyo3::exceptions::PyTypeError::new_err("a Page is put without further arguments"));
            }
            let (page, body) = Page::parts(page);
            return Ok(Given::Page(page, body));
        }
        let body = body.ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("a URL is put with a body"))?;
        let page = described(first.extract()?, rest)?;
        let body = match body.cast::<PyBytes>() {
            Ok(bytes) => BodyBytes::Shared(PyBackedBytes::from(bytes.clone())),
            Err(_) => BodyBytes::Owned(body.extract::<Body>()?.0),
        };
        Ok(Given::Parts(Box::new(page), body))
    }

    /// An item of `put_many`: a `Page`, or a pair of URL and body.
    ///
    /// # Errors
    ///
    /// `TypeError`, `InvalidValueError`.
    pub fn from_item(item: &Bound<'_, PyAny>) -> PyResult<Given> {
        if item.is_instance_of::<Page>() {
            return Given::from_python(item, None, None);
        }
        let (url, body) = item
            .extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()
            .map_err(|_| pyo3::exceptions::PyTypeError::new_err("an item is a Page, or a pair of URL and body"))?;
        Given::from_python(&url, Some(&body), None)
    }

    /// # Errors
    ///
    /// Errors of the store.
    pub fn put(&self, store: &Backing) -> Result<Version, Failure> {
        store.check_writes()?;
        let (page, body) = self.parts();
        let put = match store {
            Backing::Local(store) => store.put_page_of(page, body),
            Backing::Remote(client, _) => client.put_reader(page, &mut &*body),
        };
        Ok(put.map_err(|error| Failure::putting(&page.url, error))?.into())
    }

    /// # Errors
    ///
    /// Errors of the store.
    pub fn put_if_changed(&self, store: &Backing) -> Result<Put, Failure> {
        store.check_writes()?;
        let (page, body) = self.parts();
        let put = match store {
            Backing::Local(store) => store.put_page_of_if_changed(page, body),
            Backing::Remote(client, _) => {
                let whole = filemap::Page { body: body.to_vec(), ..page.clone() };
                // This rule never skips a page.
                client
                    .put(&whole, PutRule::IfChanged)
                    .and_then(|put| put.ok_or(filemap::Error::Unsupported { what: "version for a page that was put" }))
            }
        };
        Ok(put.map_err(|error| Failure::putting(&page.url, error))?.into())
    }

    pub fn url(&self) -> &[u8] {
        &self.parts().0.url
    }

    pub fn body(&self) -> &[u8] {
        self.parts().1
    }

    /// The page, whose own body is unused, and the body.
    pub fn parts(&self) -> (&filemap::Page, &[u8]) {
        match self {
            Given::Page(page, body) => (page, body),
            Given::Parts(page, BodyBytes::Shared(body)) => (page, body),
            Given::Parts(page, BodyBytes::Owned(body)) => (page, body),
        }
    }
}
