//! The response to an archive file: lines written by one thread and sent by the connection, each
//! once it is durable.
//!
//! Most clients send everything before they read anything. So the import never waits for the
//! client: lines that the connection cannot take yet stay in memory, and above [`IN_MEMORY`] in a
//! temporary file. A client that disconnects leaves no file behind.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::try_unfold;
use serde::Serialize;
use serde_json::json;
use tempfile::SpooledTempFile;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::super::backend::Backend;

/// Number of bytes of lines kept in memory; also the largest part of a response.
const IN_MEMORY: usize = 256 << 10;
/// Time to collect lines before one sync makes all of them durable.
const GATHERED: Duration = Duration::from_millis(200);

/// Queue of lines.
pub(super) struct Told {
    lines: Mutex<Lines>,
    news: Notify,
    ended: Notify,
}

struct Lines {
    /// Lines older than `last`; read from `read` on.
    aside: SpooledTempFile,
    read: u64,
    aside_bytes: u64,
    last: Vec<u8>,
    /// Number of bytes of all lines so far.
    told: u64,
    is_over: bool,
    /// Lines are dropped: the client has left, or they would no longer be true.
    is_left: bool,
    /// Reason why lines are lost.
    failure: Option<io::Error>,
}

impl Told {
    pub(super) fn new() -> Told {
        let aside = SpooledTempFile::new(IN_MEMORY);
        let lines = Lines {
            aside,
            read: 0,
            aside_bytes: 0,
            last: Vec::new(),
            told: 0,
            is_over: false,
            is_left: false,
            failure: None,
        };
        Told { lines: Mutex::new(lines), news: Notify::new(), ended: Notify::new() }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. Never waits for the client; may block on the temporary file. If that fails the
    /// response breaks off.
    pub(super) fn tell(&self, line: &impl Serialize) {
        let mut lines = self.lines();
        if lines.is_left || lines.failure.is_some() {
            return;
        }
        if let Err(error) = lines.add(line) {
            lines.failure = Some(error);
        }
        drop(lines);
        self.news.notify_one();
    }

    /// Returns whether lines are lost; the client notices that the response breaks off.
    pub(super) fn has_failed(&self) -> bool {
        let lines = self.lines();
        lines.failure.is_some()
    }

    /// Marks the end of the lines.
    fn end(&self) {
        self.lines().is_over = true;
        self.news.notify_one();
        self.ended.notify_one();
    }

    /// Number of bytes of lines so far, and whether these are all.
    ///
    /// # Errors
    ///
    /// The reason why lines are lost.
    fn so_far(&self) -> io::Result<(u64, bool)> {
        let lines = self.lines();
        match &lines.failure {
            None => Ok((lines.told, lines.is_over)),
            Some(error) => {
                Err(io::Error::new(error.kind(), format!("lines of an answer cannot be set aside: {error}")))
            }
        }
    }

    /// Takes at most `most` bytes of the oldest lines.
    fn take(&self, most: u64) -> io::Result<Vec<u8>> {
        self.lines().take(most)
    }
}

impl Lines {
    fn add(&mut self, line: &impl Serialize) -> io::Result<()> {
        let before = self.last.len();
        serde_json::to_writer(&mut self.last, line)?;
        self.last.push(b'\n');
        self.told += (self.last.len() - before) as u64;
        if self.last.len() >= IN_MEMORY { self.set_aside() } else { Ok(()) }
    }

    fn set_aside(&mut self) -> io::Result<()> {
        self.aside.seek(SeekFrom::Start(self.aside_bytes))?;
        self.aside.write_all(&self.last)?;
        self.aside_bytes += self.last.len() as u64;
        self.last.clear();
        Ok(())
    }

    fn take(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let most = most.min(IN_MEMORY as u64);
        if self.aside_bytes == 0 {
            let behind = self.last.split_off((most as usize).min(self.last.len()));
            return Ok(std::mem::replace(&mut self.last, behind));
        }
        let mut taken = Vec::new();
        self.aside.seek(SeekFrom::Start(self.read))?;
        (&mut self.aside).take(most).read_to_end(&mut taken)?;
        self.read += taken.len() as u64;
        if self.read == self.aside_bytes {
            self.aside.set_len(0)?;
            (self.read, self.aside_bytes) = (0, 0);
        }
        Ok(taken)
    }
}

/// The writer's handle: the response ends when it is dropped, for whatever reason.
pub(super) struct Telling(pub(super) Arc<Told>);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The response's side of the queue.
struct Answered {
    told: Arc<Told>,
    backend: Arc<Backend>,
    is_durable: bool,
    /// Bytes sent, and bytes that may be sent because what they report is durable.
    taken: u64,
    ready: u64,
    synced: Instant,
}

impl Drop for Answered {
    fn drop(&mut self) {
        let mut lines = self.told.lines();
        lines.is_left = true;
        // Closes the file, and frees its space.
        (lines.aside, lines.last) = (SpooledTempFile::new(0), Vec::new());
    }
}

/// The lines as a body. If `is_durable`, what they report is synced before they are sent.
pub(super) fn body(told: Arc<Told>, backend: Arc<Backend>, is_durable: bool) -> Body {
    let answered = Answered { told, backend, is_durable, taken: 0, ready: 0, synced: Instant::now() };
    Body::from_stream(try_unfold(Some(answered), |answered| async move {
        match answered {
            Some(answered) => answered.next().await,
            None => Ok(None),
        }
    }))
}

impl Answered {
    async fn next(mut self) -> io::Result<Option<(Bytes, Option<Answered>)>> {
        loop {
            if self.taken < self.ready {
                let (told, most) = (Arc::clone(&self.told), self.ready - self.taken);
                let part = spawn_blocking(move || told.take(most)).await.map_err(io::Error::other)??;
                self.taken += part.len() as u64;
                return Ok(Some((part.into(), Some(self))));
            }
            let (told, is_over) = self.told.so_far().inspect_err(|error| self.backend.log(&error.to_string()))?;
            if self.taken == told {
                if is_over {
                    return Ok(None);
                }
                self.told.news.notified().await;
            } else if !self.is_durable {
                self.ready = told;
            } else if let Some(words) = self.failed_sync().await? {
                return Ok(Some((words.into(), None)));
            }
        }
    }

    /// Syncs what was reported so far. If that fails, nothing more is stored: returns a line with
    /// the reason.
    async fn failed_sync(&mut self) -> io::Result<Option<String>> {
        // The last line cuts this short, so that a small file need not wait.
        let _ = timeout_at(self.synced + GATHERED, self.told.ended.notified()).await;
        let (told, is_over) = self.told.so_far()?;
        if is_over {
            self.told.ended.notify_one();
        }
        let synced = self.backend.whole.call(filemap::PageStore::sync).await;
        self.synced = Instant::now();
        let Err(error) = synced else {
            self.ready = told;
            return Ok(None);
        };
        let words = format!("records from here on are not durable, and have no line: {error}");
        self.backend.log(&format!("an uploaded file: {words}"));
        self.told.lines().failure = Some(io::Error::other(words.clone()));
        Ok(Some(format!("{}\n", json!({ "error": words }))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_their_order_from_memory_and_from_the_file() {
        let told = Told::new();
        let (mut expected, mut taken) = (Vec::new(), Vec::new());
        for nth in 0..60_000_u64 {
            let line = json!({ "offset": nth * 1000, "outcome": "stored" });
            told.tell(&line);
            expected.extend_from_slice(format!("{line}\n").as_bytes());
            // At first nothing is taken, so that far more lines wait than fit in memory.
            if nth > 30_000 && nth % 3 == 0 {
                taken.extend(told.take(100).expect("readable"));
            }
        }
        assert!(told.lines().aside.is_rolled());
        loop {
            let part = told.take(u64::MAX).expect("readable");
            assert!(part.len() <= IN_MEMORY);
            if part.is_empty() {
                break;
            }
            taken.extend(part);
        }
        assert!(taken == expected);
        assert_eq!(told.so_far().expect("no failure").0, expected.len() as u64);
        assert_eq!(told.lines().aside_bytes, 0);
    }
}
