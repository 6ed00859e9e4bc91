//! Bodies of responses, in bounded memory. A body in memory is sent whole; that of a page in the
//! value cache is not copied. A larger one is read piece by piece, each after the client has taken
//! the previous one, so that a slow client occupies a piece and no thread.

use std::io::Read;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use filemap::Error;
use filemap::store::{PageReader, SharedBody};
use futures_util::stream::{self, try_unfold};

use super::super::backend::Backend;

/// Bytes per piece.
const PIECE: u64 = 256 << 10;

/// Bodies from this length on are not copied behind their head, but sent after it.
const APART: usize = 16 << 10;

/// The rest of a body.
struct Rest {
    reader: PageReader,
    bytes: u64,
    url: String,
}

/// `head`, then `bytes` bytes of a body from its reader's position.
pub(crate) fn body(backend: &Arc<Backend>, url: &[u8], head: Vec<u8>, reader: PageReader, bytes: u64) -> Body {
    let reader = match reader.into_memory() {
        Ok(mut there) => {
            there.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
            return whole(head, there);
        }
        Err(reader) => reader,
    };
    let rest = Rest { reader, bytes, url: String::from_utf8_lossy(url).into_owned() };
    let backend = Arc::clone(backend);
    Body::from_stream(try_unfold((Some(Bytes::from(head)), rest), move |(head, rest)| {
        let backend = Arc::clone(&backend);
        async move {
            if let Some(head) = head.filter(|head| !head.is_empty()) {
                return Ok(Some((head, (None, rest))));
            }
            if rest.bytes == 0 {
                return Ok(None);
            }
            let url = rest.url.clone();
            let next = backend.go_on(move || piece(rest)).await;
            next.map(|(piece, rest)| Some((piece, (None, rest)))).map_err(|error| {
                backend.log(&format!("the answer with {url} is cut: {error}"));
                std::io::Error::other(error)
            })
        }
    }))
}

/// A head and a body in memory.
fn whole(head: Vec<u8>, body: SharedBody) -> Body {
    if head.is_empty() {
        return Body::from(Bytes::from_owner(body));
    }
    if body.len() < APART {
        return Body::from([&head[..], &body[..]].concat());
    }
    let parts = [Bytes::from(head), Bytes::from_owner(body)];
    Body::from_stream(stream::iter(parts.map(Ok::<Bytes, std::convert::Infallible>)))
}

fn piece(mut rest: Rest) -> Result<(Bytes, Rest), Error> {
    let mut piece = vec![0; rest.bytes.min(PIECE) as usize];
    rest.reader.read_exact(&mut piece).map_err(|source| match source.downcast::<filemap_core::Error>() {
        Ok(error) => error.into(),
        Err(source) => Error::Read { what: rest.url.clone(), offset: 0, source },
    })?;
    rest.bytes -= piece.len() as u64;
    Ok((piece.into(), rest))
}
