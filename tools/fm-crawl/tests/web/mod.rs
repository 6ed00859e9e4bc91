//! A web for tests: many hosts on one listener on the loopback address, both well-behaved and
//! hostile ones. It records all requests.
//! Plain threads read and answer the requests as bytes, so that a host can do what no HTTP library
//! would: send half an answer, none, or an endless one. Programs reach it with `--resolve
//! *:80:ADDRESS:PORT`.

pub mod crawl;
pub mod hostile;
pub mod proxy;
pub mod sites;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The requested host.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// Header fields, with lower-case names.
    pub fields: HashMap<String, String>,
    /// The number of earlier requests for this URL.
    pub before: usize,
}

/// A function that handles a connection.
pub type Act = Box<dyn FnOnce(&mut TcpStream) + Send>;

/// The answer of a host to a request.
pub enum Reply {
    /// A complete answer: status, fields, body.
    Page(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Any bytes on the bare connection, which is then closed.
    Bare(Act),
}

impl Reply {
    /// Creates an HTML page.
    pub fn html(body: impl Into<Vec<u8>>) -> Reply {
        Reply::Page(200, vec![("Content-Type", "text/html; charset=utf-8".to_owned())], body.into())
    }

    /// Creates a text page.
    pub fn text(body: &str) -> Reply {
        Reply::Page(200, vec![("Content-Type", "text/plain".to_owned())], body.into())
    }

    /// Creates a 404 page.
    pub fn missing() -> Reply {
        Reply::Page(404, vec![("Content-Type", "text/html".to_owned())], b"<p>missing".to_vec())
    }

    /// Creates a redirect.
    pub fn to(location: impl Into<String>) -> Reply {
        Reply::Page(302, vec![("Location", location.into())], Vec::new())
    }
}

/// A host.
pub type Site = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

/// A request that was received.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `http://host/path`.
    pub url: String,
    /// The time of the request.
    pub at: Instant,
    /// Header fields.
    pub fields: HashMap<String, String>,
}

struct Inner {
    sites: HashMap<&'static str, Site>,
    asked: Mutex<Vec<Asked>>,
    counts: Mutex<HashMap<String, usize>>,
    delay: Duration,
}

/// A running web.
pub struct Web {
    address: SocketAddr,
    inner: Arc<Inner>,
}

impl Web {
    /// Starts a web with these hosts; it runs as long as the process.
    pub fn new(sites: impl IntoIterator<Item = (&'static str, Site)>) -> Web {
        Web::slow(sites, Duration::ZERO)
    }

    /// Starts a web whose hosts wait this long before each answer.
    pub fn slow(sites: impl IntoIterator<Item = (&'static str, Site)>, delay: Duration) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let sites = sites.into_iter().collect();
        let inner = Arc::new(Inner { sites, asked: Mutex::default(), counts: Mutex::default(), delay });
        let serving = Arc::clone(&inner);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let inner = Arc::clone(&serving);
                std::thread::spawn(move || inner.serve(stream));
            }
        });
        Web { address, inner }
    }

    /// The argument that directs all names to this web.
    pub fn resolve(&self) -> String {
        format!("--resolve=*:80:{}", self.address)
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.inner.asked.lock().unwrap().clone()
    }

    /// The number of requests so far, without robots.txt.
    pub fn pages_asked(&self) -> usize {
        let counts = self.inner.counts.lock().unwrap();
        counts.iter().filter(|(url, _)| !url.ends_with("/robots.txt")).map(|(_, times)| times).sum()
    }

    /// The number of requests for each URL.
    pub fn counts(&self) -> HashMap<String, usize> {
        self.inner.counts.lock().unwrap().clone()
    }
}

impl Inner {
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let Ok(mut writer) = stream.try_clone() else { return };
        let mut reader = BufReader::new(stream);
        while let Some(request) = self.read(&mut reader) {
            std::thread::sleep(self.delay);
            let reply = match self.sites.get(request.host.as_str()) {
                Some(site) => site(&request),
                None => Reply::missing(),
            };
            match reply {
                Reply::Page(status, fields, body) => {
                    if write_page(&mut writer, status, &fields, &body).is_err() {
                        return;
                    }
                }
                Reply::Bare(act) => {
                    act(&mut writer);
                    let _ = writer.shutdown(std::net::Shutdown::Both);
                    return;
                }
            }
        }
    }

    fn read(&self, reader: &mut impl BufRead) -> Option<Request> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut fields = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            fields.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let host = fields.get("host")?.clone();
        let url = format!("http://{host}{path}");
        let before = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(url.clone()).or_default();
            *count += 1;
            *count - 1
        };
        self.asked.lock().unwrap().push(Asked { url, at: Instant::now(), fields: fields.clone() });
        Some(Request { host, path, fields, before })
    }
}

fn write_page(out: &mut TcpStream, status: u16, fields: &[(&str, String)], body: &[u8]) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Some Words\r\n");
    for (name, value) in fields {
        head += &format!("{name}: {value}\r\n");
    }
    if status != 304 {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    head += "\r\n";
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    out.write_all(&bytes)
}

/// Reads and discards data until the other side closes.
pub fn wait_for_close(stream: &mut TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    let mut sink = [0; 256];
    while stream.read(&mut sink).is_ok_and(|count| count > 0) {}
}
