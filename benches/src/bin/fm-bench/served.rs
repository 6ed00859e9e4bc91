//! Adds URLs to a seen set behind a server: many clients, each with one request at a time on a
//! its own connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use filemap_benches::drive::Outcome;
use filemap_benches::report::Report;
use hdrhistogram::Histogram;

/// Numbers of URLs and sets, and the mode of the requests.
#[derive(Args)]
pub struct ServedArgs {
    /// The server's address, such as 127.0.0.1:8640
    server: String,
    /// The set's name; made, on disk, if it is missing
    #[arg(long, default_value = "bench")]
    set: String,
    /// URLs to add
    #[arg(long, default_value_t = 10_000_000)]
    urls: u64,
    /// Number of the first: those below it were added before
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Of each hundred, how many were added before
    #[arg(long, default_value_t = 0)]
    seen: u64,
    /// URLs of a request, up to 16384: the answer to more comes in chunks
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=16_384))]
    batch: u64,
    /// Clients
    #[arg(long, default_value_t = 16)]
    clients: u64,
    /// Wait until each answer is on the device
    #[arg(long)]
    durable: bool,
    /// Give each request an id
    #[arg(long)]
    ids: bool,
}

/// Result of one client.
struct Seen {
    new: u64,
    took: Histogram<u64>,
}

pub fn run(args: &ServedArgs) -> Outcome<Report> {
    let made = ask(
        &mut connect(args)?,
        &format!("PUT /v1/seen/{} HTTP/1.1\r\nHost: {}\r\n", args.set, args.server),
        b"{\"kind\":\"disk\"}",
        &mut Vec::new(),
    )?;
    if !(200..300).contains(&made) {
        return Err(format!("the server makes no set: {made}").into());
    }
    let next = AtomicU64::new(args.first);
    let begun = Instant::now();
    let seen = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..args.clients).map(|_| scope.spawn(|| client(args, &next))).collect();
        clients
            .into_iter()
            .map(|client| client.join().map_err(|_| "a client panicked")?)
            .collect::<Outcome<Vec<Seen>>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut took = Histogram::new(3)?;
    seen.iter().try_for_each(|seen| took.add(&seen.took))?;
    let mut report = Report::default();
    report.section(format!("{} URLs, {} a request, {} clients", args.urls, args.batch, args.clients));
    report.number("URLs", args.urls as f64 / seconds, "/s");
    report.count("new", seen.iter().map(|seen| seen.new).sum());
    report.latencies("request", &took);
    Ok(report)
}

fn connect(args: &ServedArgs) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(&args.server)?;
    stream.set_nodelay(true)?;
    Ok(BufReader::with_capacity(64 << 10, stream))
}

fn client(args: &ServedArgs, next: &AtomicU64) -> Outcome<Seen> {
    let mut stream = connect(args)?;
    let durable = if args.durable { "" } else { "?durable=0" };
    let head = format!("POST /v1/seen/{}/add{durable} HTTP/1.1\r\nHost: {}\r\n", args.set, args.server);
    let (mut body, mut words, mut seen) = (Vec::new(), Vec::new(), Seen { new: 0, took: Histogram::new(3)? });
    let end = args.first + args.urls;
    loop {
        let first = next.fetch_add(args.batch, Ordering::Relaxed);
        if first >= end {
            return Ok(seen);
        }
        body.clear();
        for number in first..(first + args.batch).min(end) {
            // A multiplier that shares no factor with the number of those before.
            let is_again = number % 100 < args.seen && args.first > 0;
            url(if is_again { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % args.first } else { number }, &mut body);
        }
        let head = match args.ids {
            true => format!("{head}Idempotency-Key: {}\r\n", urlindex::idempotent::RequestId::now()),
            false => head.clone(),
        };
        let begun = Instant::now();
        let status = ask(&mut stream, &head, &body, &mut words)?;
        seen.took.record(begun.elapsed().as_nanos() as u64)?;
        if !(200..300).contains(&status) {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&words)).into());
        }
        seen.new += words.split(|byte| *byte == b'\n').filter(|word| *word == b"new").count() as u64;
    }
}

/// URL number `number`: hosts have a thousand each.
fn url(number: u64, out: &mut Vec<u8>) {
    let _ = writeln!(out, "https://www.host{}.example.com/articles/2026/{}.html", number / 1_000, number % 1_000);
}

/// Sends a request, and reads its answer into `words`; returns the status.
fn ask(stream: &mut BufReader<TcpStream>, head: &str, body: &[u8], words: &mut Vec<u8>) -> io::Result<u16> {
    let mut request = format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    request.extend_from_slice(body);
    stream.get_mut().write_all(&request)?;
    let (mut status, mut length, mut line) = (0, 0, String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        if text.is_empty() {
            break;
        }
        match text.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap_or(0),
            Some(_) => {}
            None => status = text.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0),
        }
    }
    words.resize(length, 0);
    stream.read_exact(words)?;
    Ok(status)
}
