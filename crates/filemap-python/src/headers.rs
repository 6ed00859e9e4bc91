//! `Headers`: the header fields of a message, in order and with repeats.
//!
//! Names and values are text by Latin-1, as HTTP has them, so that every byte comes back; `raw`
//! gives the bytes.

use filemap::page::{Header, Headers as Fields};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PyString, PyTuple};

/// The header fields of a message: in order, with repeats; names compare without case.
#[pyclass(frozen, sequence, module = "filemap", name = "Headers")]
#[derive(Debug)]
pub struct Headers(pub Fields);

/// Bytes as text, each byte one character.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn bytes_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let bytes = if let Ok(bytes) = value.cast::<PyBytes>() {
        bytes.as_bytes().to_vec()
    } else if let Ok(text) = value.cast::<PyString>() {
        let text = text.to_str()?;
        let latin: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
        latin.unwrap_or_else(|| text.as_bytes().to_vec())
    } else {
        return Err(PyTypeError::new_err(format!(
            "names and values of headers are str or bytes, not {}",
            value.get_type().name()?
        )));
    };
    if bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(PyValueError::new_err("a header cannot hold a line end or a NUL"));
    }
    Ok(bytes)
}

/// Fields given as `Headers`, a mapping (to a value or several), or pairs.
///
/// # Errors
///
/// `TypeError`, `ValueError`.
pub fn from_python(given: &Bound<'_, PyAny>) -> PyResult<Fields> {
    if let Ok(headers) = given.cast::<Headers>() {
        return Ok(headers.get().0.clone());
    }
    let mut fields = Fields::new();
    if let Ok(mapping) = given.cast::<PyMapping>() {
        for pair in mapping.items()? {
            let (name, value) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            let name = bytes_of(&name)?;
            if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyString>() {
                fields.push(name, bytes_of(&value)?);
                continue;
            }
            for each in value.try_iter()? {
                fields.push(name.clone(), bytes_of(&each?)?);
            }
        }
        return Ok(fields);
    }
    for pair in given.try_iter()? {
        let (name, value) = pair?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        fields.push(bytes_of(&name)?, bytes_of(&value)?);
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
