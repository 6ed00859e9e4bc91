//! A connection with an idle timeout for the client to take the next part of a response, or to
//! send something: while it sends a body it need not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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
