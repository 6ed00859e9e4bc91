//! A body read while it arrives: parts go from the connection to a blocking thread.
//!
//! Invariants: at most [`PARTS`] parts are in memory, so that a slow store slows its client; a
//! body that breaks off is an error, never its end.

use std::io::{self, Read};
use std::sync::Arc;

use axum::body::Body;
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::super::backend::Backend;

/// Maximum number of parts queued for the thread. A part is the result of one read from the
/// connection.
const PARTS: usize = 16;

/// A part; `None` is the body's end.
type Part = io::Result<Option<Bytes>>;

/// Reads a body as it arrives.
pub(super) struct Arriving {
    parts: Receiver<Part>,
    part: Bytes,
    is_over: bool,
    /// Returned after the bytes before it.
    failure: Option<io::Error>,
}

impl Arriving {
    /// Begins to read a body, and waits for its first part: so a client that waits for
    /// `100 Continue` gets it before the response. Even if the bytes are no longer needed, the
    /// body is read to its end: most clients read no response before they have sent everything.
    pub(super) async fn begin(mut body: Body, backend: Arc<Backend>) -> Arriving {
        let (sender, parts) = channel(PARTS);
        let mut arriving = Arriving { parts, part: Bytes::new(), is_over: false, failure: None };
        let first = tokio::select! {
            () = backend.stopped() => Err(io::Error::other("the server is shutting down")),
            first = next(&mut body) => first,
        };
        match first {
            Ok(Some(first)) => arriving.part = first,
            Ok(None) => arriving.is_over = true,
            Err(error) => (arriving.is_over, arriving.failure) = (true, Some(error)),
        }
        if arriving.is_over {
            return arriving;
        }
        tokio::spawn(async move {
            tokio::select! {
                () = backend.stopped() => {
                    let _ = sender.send(Err(io::Error::other("the server is shutting down"))).await;
                }
                () = take(body, &sender) => {}
            }
        });
        arriving
    }

    /// The first bytes, before any is consumed.
    pub(super) fn first_bytes(&self) -> &[u8] {
        &self.part
    }

    /// Gets the next part, waiting for it if `waits`. Returns whether it got one.
    fn fill(&mut self, waits: bool) -> bool {
        if self.is_over {
            return false;
        }
        let part = match self.parts.try_recv() {
            Ok(part) => part,
            Err(_) if !waits => return false,
            Err(_) => {
                self.parts.blocking_recv().unwrap_or_else(|| Err(io::Error::other("the server is shutting down")))
            }
        };
        match part {
            Ok(Some(part)) => {
                self.part = part;
                return true;
            }
            Ok(None) => {}
            Err(error) => self.failure = Some(error),
        }
        self.is_over = true;
        false
    }
}

async fn take(mut body: Body, sender: &Sender<Part>) {
    loop {
        let part = next(&mut body).await;
        let is_last = !matches!(part, Ok(Some(_)));
        // Fails if the reader was dropped.
        let _ = sender.send(part).await;
        if is_last {
            return;
        }
    }
}

async fn next(body: &mut Body) -> Part {
    loop {
        let Some(frame) = body.frame().await else { return Ok(None) };
        let frame = frame.map_err(|error| io::Error::other(format!("the upload breaks off: {error}")))?;
        if let Ok(data) = frame.into_data()
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
}

/// Blocks.
impl Read for Arriving {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < out.len() {
            if self.part.is_empty() && !self.fill(read == 0) {
                break;
            }
            let length = self.part.len().min(out.len() - read);
            self.part.split_to(length).copy_to_slice(&mut out[read..read + length]);
            read += length;
        }
        match self.failure.take() {
            Some(error) if read == 0 => Err(error),
            failure => {
                self.failure = failure;
                Ok(read)
            }
        }
    }
}
