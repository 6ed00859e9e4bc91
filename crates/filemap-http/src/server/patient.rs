//! A connection with an idle timeout for the client to take the next part of a response, or to
//! send something: while it sends a body it need not read. And the same for the parts of a body,
//! with a timer only for those that are waited for.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_io_timeout::TimeoutStream;

/// The connection.
pub(super) struct Patient<S> {
    stream: Pin<Box<TimeoutStream<S>>>,
    idle: Duration,
}

impl<S: AsyncRead + AsyncWrite> Patient<S> {
    pub(super) fn new(stream: S, idle: Duration) -> Patient<S> {
        let mut stream = Box::pin(TimeoutStream::new(stream));
        stream.as_mut().set_write_timeout_pinned(Some(idle));
        Patient { stream, idle }
    }
}

impl<S: AsyncRead + AsyncWrite> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let read = self.stream.as_mut().poll_read(cx, out);
        if out.filled().len() > before {
            // The timeout restarts when writing is retried, which the reader does next.
            let idle = Some(self.idle);
            self.stream.as_mut().set_write_timeout_pinned(idle);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The client sent no further part of a body within the time limit.
#[derive(Debug)]
pub(super) struct TooSlow;

impl std::fmt::Display for TooSlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the next part did not come in time")
    }
}

impl std::error::Error for TooSlow {}

/// A request's body whose parts come within `idle` each, or end with [`TooSlow`].
pub(super) fn body(body: Body, idle: Duration) -> Body {
    // Most requests have none.
    if body.is_end_stream() { body } else { Body::new(PatientBody { body, idle, sleep: None }) }
}

struct PatientBody {
    body: Body,
    idle: Duration,
    /// Runs while a part is waited for: a small body comes with its head and needs no timer.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for PatientBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.sleep = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let idle = self.idle;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(idle)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Some(Err(Box::new(TooSlow))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::Error;
    use futures_util::stream::{StreamExt, iter, pending};
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn a_part_that_does_not_come_ends_a_body_and_one_that_is_there_needs_no_timer() {
        // Without a timer a sleep would panic.
        let without = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let there = body(Body::from("there"), Duration::from_millis(20));
        assert_eq!(there.size_hint().exact(), Some(5), "known before it is read");
        let read = without.block_on(there.collect()).expect("whole").to_bytes();
        assert_eq!(read, "there");
        assert!(body(Body::empty(), Duration::ZERO).is_end_stream());
        let with = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let parts = iter([Ok::<_, Error>(Bytes::from_static(b"one"))]).chain(pending());
        let mut slow = body(Body::from_stream(parts), Duration::from_millis(20));
        let first = with.block_on(slow.frame()).expect("a part").expect("read");
        assert_eq!(first.into_data().expect("data"), "one");
        let late = with.block_on(slow.frame()).expect("an end").expect_err("nothing comes");
        assert!(std::error::Error::source(&late).is_some_and(|source| source.is::<TooSlow>()), "{late:?}");
    }
}
