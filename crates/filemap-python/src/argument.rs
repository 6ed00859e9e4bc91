//! Arguments that several calls take: URLs, variants, bodies, scopes.
//!
//! Text crosses as UTF-8 with `surrogateescape`, like file names in Python: bytes of a URL that
//! are not UTF-8 come back unchanged.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use filemap::access::ListKind;
use filemap::{Lookup, Variant};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyDict, PyIterator, PyString};

use crate::errors::{self, Failure};

/// A URL, a variant or a header given as `str` or `bytes`.
pub enum Text {
    Str(PyBackedStr),
    Bytes(PyBackedBytes),
    Owned(Vec<u8>),
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        match self {
            Text::Str(text) => text.as_bytes(),
            Text::Bytes(bytes) => bytes,
            Text::Owned(bytes) => bytes,
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Text> {
        if let Ok(text) = value.cast::<PyString>() {
            return match PyBackedStr::try_from(text.to_owned()) {
                Ok(text) => Ok(Text::Str(text)),
                Err(_) => {
                    let encoded = text.call_method1("encode", ("utf-8", "surrogateescape"));
                    let encoded = encoded.map_err(|error| errors::invalid(error.value(text.py()).to_string()))?;
                    Ok(Text::Owned(encoded.cast::<PyBytes>()?.as_bytes().to_vec()))
                }
            };
        }
        match value.cast::<PyBytes>() {
            Ok(bytes) => Ok(Text::Bytes(PyBackedBytes::from(bytes.to_owned()))),
            Err(_) => Err(PyTypeError::new_err(format!("it must be str or bytes, not {}", value.get_type().name()?))),
        }
    }
}

/// A number as an argument.
///
/// # Errors
///
/// `TypeError`; `InvalidValueError` for one out of range, where Python has an `OverflowError`.
pub fn number<'py, T>(value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    value.extract().map_err(|error: PyErr| {
        let is_range = error.is_instance_of::<PyOverflowError>(value.py());
        if is_range { errors::invalid(format!("{value} is out of range")) } else { error }
    })
}

/// The value of an argument that comes in a dictionary.
///
/// # Errors
///
/// As [`number`], with the argument's name.
pub fn named<'py, T>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    value.extract().map_err(|error: PyErr| {
        let py = value.py();
        if error.is_instance_of::<PyOverflowError>(py) {
            errors::invalid(format!("{name}: {value} is out of range"))
        } else if error.is_instance_of::<PyTypeError>(py) {
            PyTypeError::new_err(format!("{name}: {}", error.value(py)))
        } else {
            error
        }
    })
}

/// An iterator over an argument of many URLs. A single text is refused: its letters would be taken
/// for URLs.
///
/// # Errors
///
/// `TypeError`.
pub fn many<'py>(urls: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    if urls.is_instance_of::<PyString>() || urls.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err("this takes many URLs: give a list, not one text"));
    }
    urls.try_iter()
}

/// A path given as an argument. The empty path is refused.
///
/// # Errors
///
/// `TypeError`, `InvalidValueError`.
pub fn path(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let path: PathBuf = value.extract().map_err(|error: PyErr| {
        let is_text = error.is_instance_of::<PyUnicodeError>(value.py());
        if is_text { errors::invalid(error.value(value.py()).to_string()) } else { error }
    })?;
    if path.as_os_str().is_empty() { Err(errors::invalid("the path is empty")) } else { Ok(path) }
}

/// Bytes of a store as `str`.
pub fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => {
            let bytes = PyBytes::new(py, bytes);
            Ok(bytes.call_method1("decode", ("utf-8", "surrogateescape"))?.cast_into()?)
        }
    }
}

/// A body: `bytes`, any object with a buffer, or `str` (as UTF-8).
pub struct Body(pub Vec<u8>);

impl<'py> FromPyObject<'_, 'py> for Body {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Body> {
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Body(bytes.as_bytes().to_vec()));
        }
        if value.cast::<PyString>().is_ok() {
            return Ok(Body(Text::extract(value)?.as_ref().to_vec()));
        }
        let buffer = pyo3::buffer::PyBuffer::<u8>::get(&value);
        let buffer = buffer.map_err(|_| {
            PyTypeError::new_err(format!(
                "a body is bytes or str, not {}",
                value.get_type().qualname().map_or_else(|_| "this".to_owned(), |name| name.to_string())
            ))
        })?;
        buffer.to_vec(value.py()).map(Body)
    }
}

/// The variant, if one is given.
///
/// # Errors
///
/// The variant is empty or too long.
pub fn variant(given: Option<Text>) -> Result<Option<Variant>, Failure> {
    Ok(given.map(|text| Variant::new(text.as_ref())).transpose()?)
}

/// The lookup of a version by URL, variant and time.
pub fn lookup<'a>(url: &'a Text, variant: Option<&'a Variant>, at_ms: Option<i64>) -> Lookup<'a> {
    let lookup = Lookup::new(url).variant(variant);
    match at_ms {
        Some(ms) => lookup.at(ms),
        None => lookup,
    }
}

/// A selection of canonical URLs: of a host, of a domain (a host and its subdomains), with a
/// prefix. An omitted part restricts nothing.
#[derive(Clone)]
pub struct Scope {
    of_store: filemap::access::Scope,
    takes: Arc<Takes>,
}

type Takes = dyn Fn(&[u8]) -> bool + Send + Sync;

impl Default for Scope {
    fn default() -> Scope {
        Scope::of(filemap::access::Scope::new())
    }
}

impl Scope {
    /// # Errors
    ///
    /// `InvalidValueError` for a part that would match nothing.
    pub fn new(given_host: Option<String>, given_prefix: Option<Text>, domain: Option<String>) -> PyResult<Scope> {
        let mut scope = filemap::access::Scope::new();
        (scope.host, scope.domain) = (given_host.map(host).transpose()?, domain.map(host).transpose()?);
        let prefix = given_prefix.map(prefix).transpose()?;
        scope.prefix = prefix.map(|prefix| prefix.as_ref().to_vec()).unwrap_or_default();
        Ok(Scope::of(scope))
    }

    fn of(of_store: filemap::access::Scope) -> Scope {
        let takes = Arc::new(of_store.filter());
        Scope { of_store, takes }
    }

    /// The scope in the store's form.
    pub fn of_store(&self, kind: ListKind, is_backwards: bool) -> filemap::access::Scope {
        let mut scope = self.of_store.clone();
        (scope.kind, scope.is_backwards) = (kind, is_backwards);
        scope
    }

    pub fn is_all(&self) -> bool {
        self.of_store.is_all()
    }

    pub fn takes(&self, url: &[u8]) -> bool {
        (self.takes)(url)
    }
}

/// A host given as an argument. A URL, or a host with a port, would match nothing and is refused.
///
/// # Errors
///
/// `InvalidValueError`.
pub fn host(text: String) -> PyResult<String> {
    if urlindex::canonical::is_bare_host(&text) {
        return Ok(text);
    }
    Err(errors::invalid(format!("{text:?} is not a host: give its name alone, such as example.com")))
}

/// A prefix of URLs given as an argument. One without a scheme would match nothing and is refused.
///
/// # Errors
///
/// `InvalidValueError`.
pub fn prefix(text: Text) -> PyResult<Text> {
    let has_scheme = text.as_ref().iter().find(|byte| matches!(byte, b':' | b'/')) != Some(&b'/');
    if has_scheme {
        return Ok(text);
    }
    let shown = String::from_utf8_lossy(text.as_ref()).into_owned();
    Err(errors::invalid(format!(
        "{shown:?} is not the beginning of a URL: give the scheme too, such as https://example.com/"
    )))
}

/// Text escaped for HTML.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Default time for which a request to a server is repeated, in seconds.
const PATIENCE_SECS: f64 = 30.0;

/// An argument that only one kind of set has.
pub fn of_kind<'py, T>(given: Option<&Bound<'py, PyDict>>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match given.map(|given| given.get_item(name)).transpose()?.flatten() {
        Some(value) if !value.is_none() => named(name, &value).map(Some),
        _ => Ok(None),
    }
}

/// Time for which a server that does not answer is retried.
pub fn patience(given: Option<&Bound<'_, PyDict>>) -> PyResult<Duration> {
    let seconds: f64 = of_kind(given, "patience")?.unwrap_or(PATIENCE_SECS);
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| errors::invalid(format!("patience is a number of seconds, 0 or more, not {seconds}")))
}
