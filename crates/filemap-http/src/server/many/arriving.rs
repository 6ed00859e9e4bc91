//! A body that is read while it arrives: parts go from the connection to a thread that blocks.
//!
//! Invariants: no more than [`PARTS`] parts are in memory, so that a slow store slows its client;
//! a body that breaks off is an error, never its end.

use std::io::{self, Read};
use std::sync::Arc;

use axum::body::Body;
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::super::backend::Backend;

/// Parts that wait for the thread: each is what was read from the connection at once.
const PARTS: usize = 16;

/// A part; `None` is the body's end.
type Part = io::Result<Option<Bytes>>;

/// A body, as its bytes come.
pub(super) struct Arriving {
    parts: Receiver<Part>,
    part: Bytes,
    is_over: bool,
    /// Told once the bytes before it are read.
    failure: Option<io::Error>,
}

impl Arriving {
    /// Begins to take a body, and waits for its first part: a client that asked whether to send is
    /// told to, before it has an answer. If the bytes are not wanted any more, they are taken to
    /// their end all the same: most clients read no answer before they have sent all.
    pub(super) async fn begin(mut body: Body, backend: Arc<Backend>) -> Arriving {
        let (sender, parts) = channel(PARTS);
        let mut arriving = Arriving { parts, part: Bytes::new(), is_over: false, failure: None };
        let first = tokio::select! {
            () = backend.stopped() => Err(io::Error::other("the server ends")),
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
                    let _ = sender.send(Err(io::Error::other("the server ends"))).await;
                }
                () = take(body, &sender) => {}
            }
        });
        arriving
    }

    /// The first bytes, before any is read.
    pub(super) fn first_bytes(&self) -> &[u8] {
        &self.part
    }

    /// Gets the next part; `waits` for it, or takes it if it is there. Returns whether it did.
    fn fill(&mut self, waits: bool) -> bool {
        if self.is_over {
            return false;
        }
        let part = match self.parts.try_recv() {
            Ok(part) => part,
            Err(_) if !waits => return false,
            Err(_) => self.parts.blocking_recv().unwrap_or_else(|| Err(io::Error::other("the server ends"))),
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
        // It fails if nobody wants it.
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
