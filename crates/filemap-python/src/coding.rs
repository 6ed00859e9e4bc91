//! Content codings of HTTP, for bodies that come as the server sent them.

use filemap::coding::{Coding, Decoder};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::argument::number;

/// Codings of one body; a longer list is hostile.
const MAX_CODINGS: usize = 8;

/// Undoes the codings of a body (`gzip`, `deflate`, `br`, `zstd`, `identity`), given in the order
/// in
/// which they were applied. `None` if the body does not decode, to its very end: then it is to be
/// kept as it came. Each coding may give up to `max_bytes`.
#[pyfunction]
#[pyo3(signature = (codings, body, *, max_bytes = 256 << 20))]
pub fn decode_body<'py>(
    py: Python<'py>,
    codings: Vec<String>,
    body: PyBackedBytes,
    #[pyo3(from_py_with = number)] max_bytes: u64,
) -> Option<Bound<'py, PyBytes>> {
    let decoded = py.detach(|| undone(&codings, &body, max_bytes))?;
    Some(PyBytes::new(py, &decoded))
}

fn undone(codings: &[String], body: &[u8], max_bytes: u64) -> Option<Vec<u8>> {
    if codings.len() > MAX_CODINGS {
        return None;
    }
    let mut current = body.to_vec();
    for coding in codings.iter().rev() {
        current = match coding.trim().to_ascii_lowercase().as_str() {
            "identity" | "" => current,
            "gzip" | "x-gzip" => one(Coding::Gzip, &current, max_bytes)?,
            // Servers send raw deflate under this name, too.
            "deflate" => {
                one(Coding::Zlib, &current, max_bytes).or_else(|| one(Coding::Deflate, &current, max_bytes))?
            }
            "br" => one(Coding::Brotli, &current, max_bytes)?,
            "zstd" => one(Coding::Zstd, &current, max_bytes)?,
            _ => return None,
        };
    }
    Some(current)
}

fn one(coding: Coding, body: &[u8], max_bytes: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut decoder = Decoder::new(coding).max_bytes(max_bytes);
    decoder.push(body, &mut out).and_then(|()| decoder.finish()).ok()?;
    Some(out)
}
