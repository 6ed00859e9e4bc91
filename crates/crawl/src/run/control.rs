//! The control socket of a running crawl: accepts requests from the same user's processes. The
//! coordinator, which alone has the frontier, answers them.
//!
//! It is a Unix socket in the crawl's private folder. A connection carries one request, a line of
//! JSON, and its answers, a line of JSON each, until the crawl closes it. A stale socket is
//! removed: whoever holds the store's lock owns the socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use filemap_io::{Dir as _, OsDir};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::list::Wanted;
use crate::error::Error;
use crate::files;

/// The maximum length of a request.
const REQUEST_BYTES: u64 = 16 << 20;
/// A connection without a request is closed after this.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// A request to a running crawl.
///
/// ```
/// use crawl::run::control::Request;
/// let request = Request::Add { urls: vec!["http://example.com/".to_owned()] };
/// let line = r#"{"do":"add","urls":["http://example.com/"]}"#;
/// assert_eq!(serde_json::to_string(&request)?, line);
/// assert_eq!(serde_json::from_str::<Request>(line)?, request);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Request {
    /// Assign no more pages.
    Pause,
    /// Resume.
    Resume,
    /// Add start pages.
    Add {
        /// Their URLs.
        urls: Vec<String>,
    },
    /// Fetch these pages now, ahead of the queue; answers with the result of each.
    Fetch {
        /// Their URLs.
        urls: Vec<String>,
    },
    /// Return the frontier's state of a page, by its canonical URL.
    Page {
        /// That URL.
        key: String,
    },
    /// Return a slice of the list of pages: it begins with the first of these numbers.
    List {
        /// The numbers of the pages that are left to look at.
        left: Range<u32>,
        /// The pages to list.
        wanted: Wanted,
    },
    /// Copy the store and the state beside it, as they are now.
    Backup {
        /// The target of the store's copy, an absolute path.
        to: PathBuf,
    },
    /// Queue pages again, as `retry` does.
    Retry {
        /// Only pages of this host.
        host: Option<String>,
        /// Only pages whose last failure has this name.
        reason: Option<String>,
    },
}

/// A request and the channel for its answers. Dropping it ends the answers.
///
/// ```
/// use crawl::run::control::{Asked, Request, refusal};
/// let (answers, said) = std::sync::mpsc::channel();
/// let asked = Asked { request: Request::Pause, answers };
/// asked.answers.send(refusal("not now"))?;
/// assert_eq!(said.recv()?["refused"], "not now");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Asked {
    /// The request.
    pub request: Request,
    /// The channel for its answers.
    pub answers: Sender<Value>,
}

/// A listening socket. Dropping it removes the file and ends the thread.
///
/// ```
/// use crawl::run::control::{Asked, Control, Request, ask};
/// # let place = tempfile::tempdir()?;
/// let answer = |asked: Asked| drop(asked.answers.send(serde_json::json!({ "added": 1 })));
/// let listening = Control::listen(place.path(), answer)?;
/// let add = Request::Add { urls: vec!["http://example.com/".to_owned()] };
/// assert!(ask(place.path(), &add, |answer| assert_eq!(answer["added"], 1))?);
/// drop(listening);
/// assert!(!ask(place.path(), &add, |_| ())?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Control {
    dir: OsDir,
    path: PathBuf,
    has_ended: Arc<AtomicBool>,
}

impl Control {
    /// Listens in a crawl's folder; passes each request to `ask`, on a separate thread.
    ///
    /// # Errors
    /// I/O errors, also if the folder's path is too long for a socket.
    pub fn listen(folder: &Path, ask: impl Fn(Asked) + Clone + Send + 'static) -> Result<Control, Error> {
        let path = folder.join(files::CONTROL);
        let failed = |error| Error::io("listen on", &path, error);
        let dir = OsDir::open(folder).map_err(failed)?;
        if let Err(error) = dir.remove(files::CONTROL)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(failed(error));
        }
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&has_ended);
        let listen = move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else {
                    // For instance, the limit of open files is reached.
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                let ask = ask.clone();
                // A caller that disconnects does no harm.
                std::thread::spawn(move || drop(serve(stream, ask)));
            }
        };
        std::thread::Builder::new().name("control".to_owned()).spawn(listen).map_err(failed)?;
        Ok(Control { dir, path, has_ended })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        // The connection wakes the thread.
        drop(UnixStream::connect(&self.path));
        // The next run removes it too.
        drop(self.dir.remove(files::CONTROL));
    }
}

fn serve(mut stream: UnixStream, ask: impl Fn(Asked)) -> std::io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_WITHIN))?;
    let mut line = String::new();
    BufReader::new(Read::by_ref(&mut stream).take(REQUEST_BYTES)).read_line(&mut line)?;
    let request = match serde_json::from_str(&line) {
        Ok(request) => request,
        Err(error) => return writeln!(stream, "{}", refusal(&format!("this is not a request: {error}"))),
    };
    let (answers, said): (Sender<Value>, Receiver<Value>) = channel();
    ask(Asked { request, answers });
    said.iter().try_for_each(|answer| writeln!(stream, "{answer}"))
}

/// An answer with an error message.
pub fn refusal(words: &str) -> Value {
    json!({ "refused": words })
}

/// Returns whether an error means that nobody listens: a path too long for a socket cannot have
/// one.
fn is_none(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, InvalidInput, NotFound};
    matches!(kind, NotFound | ConnectionRefused | InvalidInput)
}

/// Sends a request to the crawl running in a folder, and passes each answer to `each`. `Ok(false)`
/// if none runs there.
///
/// # Errors
/// A refusal by the crawl; an I/O error; a crawl that ends before it has answered.
pub fn ask(folder: &Path, request: &Request, mut each: impl FnMut(&Value)) -> Result<bool, Error> {
    let path = folder.join(files::CONTROL);
    let failed = |error| Error::io("ask", &path, error);
    let mut stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(error) if is_none(error.kind()) => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    writeln!(stream, "{}", json!(request)).map_err(failed)?;
    let mut answers = 0;
    for line in BufReader::new(stream).lines() {
        let answer: Value = serde_json::from_str(&line.map_err(failed)?)
            .map_err(|error| Error::Broken(format!("{}: {error}", path.display())))?;
        if let Some(words) = answer["refused"].as_str() {
            return Err(Error::Usage(words.to_owned()));
        }
        each(&answer);
        answers += 1;
    }
    match answers {
        0 => Err(Error::Broken("the crawl has ended before it answered".to_owned())),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_and_what_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!ask(folder.path(), &Request::Pause, |_| ()).unwrap());
        // The remains of a killed crawl.
        drop(UnixListener::bind(folder.path().join(files::CONTROL)).unwrap());
        assert!(!ask(folder.path(), &Request::Pause, |_| ()).unwrap());
        let answer = |asked: Asked| {
            let answer = match asked.request {
                Request::Add { urls } => json!({ "added": urls }),
                Request::Resume => return,
                _ => refusal("no"),
            };
            asked.answers.send(answer.clone()).unwrap();
            asked.answers.send(answer).unwrap();
        };
        let control = Control::listen(folder.path(), answer).unwrap();
        let mut said = Vec::new();
        let add = Request::Add { urls: vec!["http://a/".to_owned()] };
        assert!(ask(folder.path(), &add, |answer| said.push(answer.clone())).unwrap());
        assert_eq!(said, [json!({ "added": ["http://a/"] }), json!({ "added": ["http://a/"] })]);
        assert!(matches!(ask(folder.path(), &Request::Pause, |_| ()), Err(Error::Usage(words)) if words == "no"));
        assert!(matches!(ask(folder.path(), &Request::Resume, |_| ()), Err(Error::Broken(_))));
        let mut stream = UnixStream::connect(folder.path().join(files::CONTROL)).unwrap();
        stream.write_all(b"nonsense\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.contains("this is not a request"), "{text}");
        drop(control);
        assert!(!ask(folder.path(), &Request::Pause, |_| ()).unwrap());
    }
}
