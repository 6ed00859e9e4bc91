//! `Headers`: the header fields of a message, in order and with repeats.
//!
//! Names and values are Latin-1 text, as HTTP defines them, so that every byte is preserved; `raw`
//! returns the bytes.

use filemap::page::{Header, Headers as Fields};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PyString, PyTuple};

use crate::errors::invalid;

/// The header fields of a message: in order, with repeats; names compare without case.
#[pyclass(frozen, sequence, module = "filemap", name = "Headers")]
#[derive(Debug)]
pub struct Headers(pub Fields);

/// Bytes as text, one character per byte.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// Text of HTTP as bytes; `what` names it in errors.
///
/// # Errors
///
/// `TypeError`; `InvalidValueError` for text beyond Latin-1, which would be read back differently.
pub fn bytes_of(what: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let Ok(text) = value.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!("{what} is str or bytes, not {}", value.get_type().name()?)));
    };
    let latin = text.to_str().ok().and_then(|text| text.chars().map(|c| u8::try_from(c).ok()).collect());
    latin.ok_or_else(|| invalid(format!("{what} is Latin-1 text, not {text:?}: give its bytes")))
}

fn field_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let bytes = bytes_of("the name or value of a header", value)?;
    if bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(invalid("a header cannot hold a line end or a NUL"));
    }
    Ok(bytes)
}

fn pair_of<'py>(pair: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    pair.extract().map_err(|_| not_headers())
}

fn not_headers() -> PyErr {
    PyTypeError::new_err("headers are a mapping, or pairs of a name and a value")
}

/// Fields given as `Headers`, a mapping (to a value or several), or pairs.
///
/// # Errors
///
/// `TypeError`, `InvalidValueError`.
pub fn from_python(given: &Bound<'_, PyAny>) -> PyResult<Fields> {
    if let Ok(headers) = given.cast::<Headers>() {
        return Ok(headers.get().0.clone());
    }
    let mut fields = Fields::new();
    if let Ok(mapping) = given.cast::<PyMapping>() {
        for pair in mapping.items()? {
            let (name, value) = pair_of(&pair)?;
            let name = field_of(&name)?;
            let is_text = value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyString>();
            match value.try_iter() {
                Ok(several) if !is_text => {
                    for each in several {
                        fields.push(name.clone(), field_of(&each?)?);
                    }
                }
                _ => fields.push(name, field_of(&value)?),
            }
        }
        return Ok(fields);
    }
    for pair in given.try_iter().map_err(|_| not_headers())? {
        let (name, value) = pair_of(&pair?)?;
        fields.push(field_of(&name)?, field_of(&value)?);
    }
    Ok(fields)
}

#[pymethods]
impl Headers {
    #[new]
    #[pyo3(signature = (fields = None))]
    fn new(fields: Option<&Bound<'_, PyAny>>) -> PyResult<Headers> {
        fields.map_or_else(|| Ok(Fields::new()), from_python).map(Headers)
    }

    fn __getitem__(&self, name: &str) -> PyResult<String> {
        self.0.get(name).map(latin1).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| self.0.get(name).is_some())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pairs: Vec<(String, String)> =
            self.0.iter().map(|field| (latin1(&field.name), latin1(&field.value))).collect();
        Ok(pairs.into_pyobject(py)?.try_iter()?.into_any())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Headers>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __repr__(&self) -> String {
        let fields = self.0.iter().map(|f| format!("({:?}, {:?})", latin1(&f.name), latin1(&f.value)));
        format!("Headers([{}])", fields.collect::<Vec<_>>().join(", "))
    }

    #[pyo3(signature = (name, default = None))]
    fn get<'py>(&self, py: Python<'py>, name: &str, default: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        match self.0.get(name) {
            Some(value) => Ok(latin1(value).into_pyobject(py)?.into_any()),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    fn get_all(&self, name: &str) -> Vec<String> {
        self.0.all(name).map(latin1).collect()
    }

    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let pair = |field: &Header| PyTuple::new(py, [PyBytes::new(py, &field.name), PyBytes::new(py, &field.value)]);
        self.0.iter().map(pair).collect()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Headers>) -> PyResult<Bound<'py, PyTuple>> {
        let raw = (slf.get().raw(slf.py())?,).into_pyobject(slf.py())?;
        (slf.get_type(), raw).into_pyobject(slf.py())
    }
}
