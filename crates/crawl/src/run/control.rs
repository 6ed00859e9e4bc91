//! The control socket of a running crawl: requests from other processes of its user, answered by
//! the coordinator, which alone has the frontier.
//!
//! A Unix socket in the crawl's folder, which is private. A connection carries one request, a line
//! of JSON, and its answers, a line of JSON each, until the crawl closes it. What a process before
//! has left is removed: whoever has the store's lock has the socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use filemap_io::{Dir as _, OsDir};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Error;
use crate::files;

/// Longest request.
const REQUEST_BYTES: u64 = 16 << 20;
/// A connection without a request is closed after this.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// What a crawl can be asked.
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
    /// Hand out no more pages.
    Pause,
    /// Go on.
    Resume,
    /// Take more start pages.
    Add {
        /// Their URLs.
        urls: Vec<String>,
    },
    /// Fetch these pages now, whatever the queue; answers with what became of each.
    Fetch {
        /// Their URLs.
        urls: Vec<String>,
    },
    /// What the frontier knows of a page, by its canonical URL.
    Page {
        /// That URL.
        key: String,
    },
    /// Copy the store, and what is beside it, as they are now.
    Backup {
        /// Where the store is copied to, a path from the root.
        to: PathBuf,
    },
    /// Queue pages again, as `retry` does.
    Retry {
        /// Pages of this host only.
        host: Option<String>,
        /// Pages whose last failure has this name only.
        reason: Option<String>,
    },
}

/// A request and where its answers go. Whoever drops it ends the answers.
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
    /// Where its answers go.
    pub answers: Sender<Value>,
}

/// A listening socket; its file and its thread go with it.
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
    /// Listens in a crawl's folder; each request is passed to `ask`, on a thread of its own.
    ///
    /// # Errors
    /// The system's, also if the folder's path is too long for a socket.
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
                    // No more files may be opened, say.
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                let ask = ask.clone();
                // A caller that goes away harms nobody.
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
        // That wakes the thread.
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
        Err(error) => return writeln!(stream, "{}", refusal(&format!("this is no request: {error}"))),
    };
    let (answers, said): (Sender<Value>, Receiver<Value>) = channel();
    ask(Asked { request, answers });
    said.iter().try_for_each(|answer| writeln!(stream, "{answer}"))
}

/// An answer that says what is wrong.
pub fn refusal(words: &str) -> Value {
    json!({ "refused": words })
}

/// Whether an error says that nobody listens: a path that is too long for a socket has none.
fn is_none(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, InvalidInput, NotFound};
    matches!(kind, NotFound | ConnectionRefused | InvalidInput)
}

/// Asks the crawl that runs in a folder, and passes each answer to `each`. `Ok(false)` if none
/// runs there.
///
/// # Errors
/// What the crawl refuses; the system's; a crawl that ends before it has answered.
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
        // What a killed crawl leaves.
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
        assert!(text.contains("this is no request"), "{text}");
        drop(control);
        assert!(!ask(folder.path(), &Request::Pause, |_| ()).unwrap());
    }
}
