//! Content codings of HTTP, for bodies as received from the server.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::argument::number;

/// Decodes the codings of a body (`gzip`, `deflate`, `br`, `zstd`, `identity`), given in the order
/// in which they were applied. `None` if the body does not decode to its very end: keep it as
/// received. Each coding may produce up to `max_bytes`.
#[pyfunction]
#[pyo3(signature = (codings, body, *, max_bytes = 256 << 20))]
pub fn decode_body<'py>(
    py: Python<'py>,
    codings: Vec<String>,
    body: PyBackedBytes,
    #[pyo3(from_py_with = number)] max_bytes: u64,
) -> Option<Bound<'py, PyBytes>> {
    let decoded = py.detach(|| filemap::coding::decode(&codings, body.to_vec(), max_bytes)).ok()?;
    Some(PyBytes::new(py, &decoded))
}
