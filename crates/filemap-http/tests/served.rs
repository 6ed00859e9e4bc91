//! A server with a new store, and raw requests to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filemap::{Options, Page, PageStore};
use filemap_http::server::{Server, ServerOptions};
use filemap_http::{Client, ClientOptions};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server on its own port; when it is dropped, it is stopped and its store closed.
pub struct Served {
    pub address: SocketAddr,
    pub log: Arc<Mutex<Vec<String>>>,
    pub dir: TempDir,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<filemap::Result<()>>>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

/// A server that writes, with a store of these pages.
pub fn served(pages: &[Page]) -> Served {
    with(ServerOptions::new().writes(), pages)
}

/// A server with these options and a store of these pages.
pub fn with(options: ServerOptions, pages: &[Page]) -> Served {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
    for page in pages {
        store.put_page(page).expect("stored");
    }
    let mut served = of(store, options);
    served.dir = dir;
    served
}

/// A server with these options and this store; its own folder is empty.
pub fn of(store: PageStore, options: ServerOptions) -> Served {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel();
    let log = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&log);
    let options = options.log(move |line| lines.lock().expect("unpoisoned").push(line.to_owned()));
    let server = Server::new(store, options);
    let serving = runtime.spawn(server.serve(listener, None, async { drop(stopped.await) }));
    Served { address, log, dir, runtime, stop: Some(stop), serving: Some(serving) }
}

impl Served {
    pub fn client(&self) -> Client {
        Client::open(&format!("http://{}", self.address), &ClientOptions::new()).expect("a server")
    }

    /// A connection that times out after two minutes.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        stream
    }

    /// The server's answer to these bytes, until it closes the connection.
    pub fn raw(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // A server may close before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// Sends a request with these header lines.
    pub fn ask(&self, method: &str, target: &str, headers: &[&str], body: &[u8]) -> Answer {
        let host = format!("Host: {}", self.address);
        let has_host = headers.iter().any(|line| line.starts_with("Host:"));
        let mut lines: Vec<&str> = if has_host { Vec::new() } else { vec![&host] };
        lines.extend_from_slice(headers);
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!("{method} {target} HTTP/1.1\r\n{}\r\nConnection: close\r\n{length}\r\n", lines.join("\r\n"));
        Answer::of(&self.raw(&[head.as_bytes(), body].concat()))
    }

    pub fn get(&self, target: &str, headers: &[&str]) -> Answer {
        self.ask("GET", target, headers, b"")
    }

    /// Stops the server, which closes its store.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            self.runtime.block_on(serving).expect("no panic").expect("closed");
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Answer {
    pub fn of(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| {
            panic!("no head of an answer: {:?}", String::from_utf8_lossy(bytes));
        });
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head[9..12].parse().expect("a status");
        let mut answer = Answer { status, head, body: bytes[end + 4..].to_vec() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = unchunked(&answer.body);
        }
        answer
    }

    /// Status line and headers.
    pub fn head(&self) -> &str {
        &self.head
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Its status, and the detail of its problem.
    pub fn problem(&self) -> (u16, String) {
        (self.status, self.json()["detail"].as_str().unwrap_or_default().to_owned())
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(at) = bytes.windows(2).position(|two| two == b"\r\n") {
        let len = usize::from_str_radix(std::str::from_utf8(&bytes[..at]).expect("text"), 16).expect("a length");
        if len == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[at + 2..at + 2 + len]);
        bytes = &bytes[at + 4 + len..];
    }
    panic!("the answer breaks off after {} bytes", body.len());
}
