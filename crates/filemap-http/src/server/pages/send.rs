//! Bodies of responses, in bounded memory. A body in memory is sent whole. A larger one is read
//! piece by piece, each after the client has taken the previous one, so that a slow client
//! occupies a piece and no thread.

use std::io::Read;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use filemap::Error;
use filemap::store::PageReader;
use futures_util::stream::try_unfold;

use super::super::backend::Backend;

/// Bytes per piece.
const PIECE: u64 = 256 << 10;

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
            return Body::from(if head.is_empty() { there } else { [head, there].concat() });
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

fn piece(mut rest: Rest) -> Result<(Bytes, Rest), Error> {
    let mut piece = vec![0; rest.bytes.min(PIECE) as usize];
    rest.reader.read_exact(&mut piece).map_err(|source| match source.downcast::<filemap_core::Error>() {
        Ok(error) => error.into(),
        Err(source) => Error::Read { what: rest.url.clone(), offset: 0, source },
    })?;
    rest.bytes -= piece.len() as u64;
    Ok((piece.into(), rest))
}
