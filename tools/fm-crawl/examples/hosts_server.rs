//! Serves many web sites on loopback addresses, one a host, and notes when each was asked, to
//! measure a crawl of many hosts and whether it is polite. `benches/hosts.py` runs it.
//!
//! `hosts_server HOSTS [BYTES [PAGES [SLOW]]]` prints its port and serves until it is killed: host
//! number N is 127.1.(N / 250).(N % 250 + 1), and has PAGES pages of some BYTES each, endless ones
//! with 0. Each page links to two new ones, if there are more, and to the same page of the next
//! host; no two pages have the same text. The last SLOW hosts have a `Crawl-delay` of 30 s in
//! robots.txt, and link to each other only, as the plain ones do. `/now` of 127.0.0.1 has the
//! server's clock in microseconds, the number of pages asked for, and that of plain hosts among
//! them; `/times` the time of each request: a line with the clock and the longest delay of the
//! server's own wake-ups, then a line a host, with `p` before the time of a page and `r` before
//! one of robots.txt or anything else.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// Hosts whose addresses differ in the last byte only.
const HOSTS_A_NETWORK: usize = 250;
const HOSTS_MAX: usize = 200 * HOSTS_A_NETWORK;
/// Bytes of a page's text unless others are asked for.
const BYTES: usize = 2048;
/// What the robots.txt of a host says.
const PLAIN: &str = "User-agent: *\nAllow: /\n";
const SLOW: &str = "User-agent: *\nAllow: /\nCrawl-delay: 30\n";
/// Time between two wake-ups of the watch.
const WAKE_UP: Duration = Duration::from_millis(2);

const WORDS: [&str; 32] = [
    "amber", "anchor", "autumn", "bakery", "barley", "beacon", "breeze", "bridge", "candle", "canyon", "cedar",
    "chapter", "cinder", "clover", "cobalt", "copper", "coral", "cotton", "crystal", "delta", "ember", "falcon",
    "fern", "forest", "garden", "glacier", "granite", "harbor", "hazel", "indigo", "island", "ivory",
];

/// The times of one host's requests in microseconds, doubled, and one more for a page.
type Times = Mutex<Vec<u64>>;

struct Sites {
    begun: Instant,
    bytes: usize,
    /// Pages of each host.
    each: u64,
    hosts: Vec<Times>,
    /// Hosts without a delay in robots.txt: the first ones.
    plain: usize,
    pages: AtomicU64,
    plain_pages: AtomicU64,
    latest_us: AtomicU64,
}

/// The address of a host.
fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 1, (host / HOSTS_A_NETWORK) as u8, (host % HOSTS_A_NETWORK) as u8 + 1)
}

/// The host at an address.
fn host_at(address: IpAddr) -> Option<usize> {
    let IpAddr::V4(address) = address else { return None };
    match address.octets() {
        [127, 1, network, last] => Some(usize::from(network) * HOSTS_A_NETWORK + usize::from(last).checked_sub(1)?),
        _ => None,
    }
}

/// The number of the page at a path.
fn page_at(path: &str) -> Option<u64> {
    if path == "/" { Some(0) } else { path.strip_prefix("/p/")?.parse().ok() }
}

/// The finaliser of SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Sites {
    fn now_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    fn note(&self, host: usize, is_page: bool) {
        let time = (self.now_us() << 1) | u64::from(is_page);
        self.hosts[host].lock().expect("no thread panics").push(time);
        if is_page {
            self.pages.fetch_add(1, Ordering::Relaxed);
            self.plain_pages.fetch_add(u64::from(host < self.plain), Ordering::Relaxed);
        }
    }

    /// The next host of the same kind.
    fn next(&self, host: usize) -> usize {
        let (begin, end) = if host < self.plain { (0, self.plain) } else { (self.plain, self.hosts.len()) };
        if host + 1 < end { host + 1 } else { begin }
    }

    /// The answer of a host.
    fn answer(&self, host: usize, port: u16, path: &str) -> (u16, &'static str, String) {
        let page = page_at(path).filter(|page| *page < self.each);
        self.note(host, page.is_some());
        let robots = if host < self.plain { PLAIN } else { SLOW };
        match page {
            Some(page) => (200, "text/html", self.page(host, port, page)),
            None if path == "/robots.txt" => (200, "text/plain", robots.to_owned()),
            None => (404, "text/plain", "missing\n".to_owned()),
        }
    }

    fn page(&self, host: usize, port: u16, page: u64) -> String {
        let mut body = format!("<html><title>Page {page} of {}</title>\n<p>", address(host));
        let mut seed = ((host as u64) << 40) ^ page;
        while body.len() < self.bytes {
            seed = mixed(seed);
            for word in 0..12 {
                body += WORDS[(seed >> (5 * word)) as usize % WORDS.len()];
                body.push(' ');
            }
        }
        let next = address(self.next(host));
        let children = [1, 2].map(|number| page.saturating_mul(2).saturating_add(number));
        for child in children.into_iter().filter(|child| *child < self.each) {
            let _ = write!(body, "\n<p><a href=\"/p/{child}\">page {child}</a>");
        }
        let _ = writeln!(body, "\n<p><a href=\"http://{next}:{port}/p/{page}\">the next host</a>");
        body
    }

    /// The answer to `benches/hosts.py`.
    fn report(&self, path: &str) -> (u16, &'static str, String) {
        let counted = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let now = format!("{} {} {}\n", self.now_us(), counted(&self.pages), counted(&self.plain_pages));
        match path {
            "/now" => (200, "text/plain", now),
            "/times" => {
                let mut text = format!("{} {}\n", self.now_us(), self.latest_us.load(Ordering::Relaxed));
                for (host, times) in self.hosts.iter().enumerate() {
                    let _ = write!(text, "{}", address(host));
                    for time in times.lock().expect("no thread panics").iter() {
                        let _ = write!(text, " {}{}", if time & 1 == 1 { 'p' } else { 'r' }, time >> 1);
                    }
                    text.push('\n');
                }
                (200, "text/plain", text)
            }
            _ => (404, "text/plain", "missing\n".to_owned()),
        }
    }

    /// Notes by how much the machine lets this process wait: by as much a request may be noted
    /// late, and the next one seem early.
    fn watch(&self) {
        loop {
            let begun = Instant::now();
            std::thread::sleep(WAKE_UP);
            let late = begun.elapsed().saturating_sub(WAKE_UP);
            self.latest_us.fetch_max(late.as_micros() as u64, Ordering::Relaxed);
        }
    }
}

/// Serves one connection to its end.
async fn serve(sites: Arc<Sites>, stream: TcpStream) {
    let Ok(local) = stream.local_addr() else { return };
    let host = host_at(local.ip()).filter(|host| *host < sites.hosts.len());
    // Bound to all addresses, since a socket cannot be bound to a network; only loopback answers.
    if !local.ip().is_loopback() {
        return;
    }
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let path = request.uri().path();
        let (status, kind, body) = match host {
            Some(host) => sites.answer(host, local.port(), path),
            None => sites.report(path),
        };
        let answer = Response::builder().status(status).header("content-type", kind);
        let answer = answer.body(Full::<Bytes>::from(body)).expect("a valid answer");
        async move { Ok::<_, Infallible>(answer) }
    });
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let count = arguments.next().expect("a number of hosts");
    assert!((1..=HOSTS_MAX).contains(&count), "1 to {HOSTS_MAX} hosts");
    let bytes = arguments.next().unwrap_or(BYTES);
    let each = arguments.next().filter(|each| *each > 0).map_or(u64::MAX, |each| each as u64);
    let sites = Arc::new(Sites {
        begun: Instant::now(),
        bytes,
        each,
        hosts: (0..count).map(|_| Times::default()).collect(),
        plain: count.saturating_sub(arguments.next().unwrap_or(0)),
        pages: AtomicU64::new(0),
        plain_pages: AtomicU64::new(0),
        latest_us: AtomicU64::new(0),
    });
    let watched = Arc::clone(&sites);
    std::thread::spawn(move || watched.watch());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async move {
        let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address").port());
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(serve(Arc::clone(&sites), stream))),
                // Too many open files, say: the crawl sees it as a host that does not answer.
                Err(error) => {
                    eprintln!("hosts_server: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
}
