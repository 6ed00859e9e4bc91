//! A proxy for tests: HTTP with `CONNECT`, and SOCKS5, on one port. It connects every name to one
//! address, wants the user `us er` with the password `s:cret`, and records all requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The credentials as they are written in a URL, and in an HTTP header.
pub const CREDENTIALS: &str = "us%20er:s%3Acret";
const BASIC: &str = "Proxy-Authorization: Basic dXMgZXI6czpjcmV0";

/// A running proxy; it runs as long as the process.
pub struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Starts a proxy that connects everything to this address.
    pub fn to(there: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let (address, asked) = (listener.local_addr().expect("bound"), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let noted = Arc::clone(&noted);
                std::thread::spawn(move || serve(stream, there, &noted));
            }
        });
        Proxy { address, asked }
    }

    /// The command line argument for it, with these credentials or none.
    pub fn argument(&self, scheme: &str, credentials: &str) -> String {
        let at = if credentials.is_empty() { "" } else { "@" };
        format!("--proxy={scheme}://{credentials}{at}{}", self.address)
    }

    /// The requested hosts, in order.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, there: SocketAddr, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut first = [0];
    stream.peek(&mut first).ok()?;
    if first == [5] { socks(stream, there, asked) } else { http(stream, there, asked) }
}

fn http(stream: TcpStream, there: SocketAddr, asked: &Mutex<Vec<String>>) -> Option<()> {
    let (mut reader, mut client) = (BufReader::new(stream.try_clone().ok()?), stream);
    let upstream = TcpStream::connect(there).ok()?;
    let (mut answers, mut upstream) = (BufReader::new(upstream.try_clone().ok()?), upstream);
    loop {
        let (head, _) = head(&mut reader)?;
        let (method, target) = head.split_once(' ')?;
        let target = target.split(' ').next()?.to_owned();
        asked.lock().unwrap().push(target.clone());
        if !head.to_lowercase().contains(&BASIC.to_lowercase()) {
            client.write_all(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n").ok()?;
            continue;
        }
        if method == "CONNECT" {
            client.write_all(b"HTTP/1.1 200 Go on\r\n\r\n").ok()?;
            return splice(client, upstream);
        }
        let path = target.strip_prefix("http://").and_then(|rest| rest.find('/').map(|at| &rest[at..]))?;
        upstream.write_all(head.replacen(&target, path, 1).as_bytes()).ok()?;
        let (head, bytes) = self::head(&mut answers)?;
        let mut body = vec![0; bytes];
        answers.read_exact(&mut body).ok()?;
        client.write_all(&[head.as_bytes(), &body].concat()).ok()?;
    }
}

/// Reads a head; returns it with the length of the body after it.
fn head(reader: &mut impl BufRead) -> Option<(String, usize)> {
    let (mut head, mut bytes) = (String::new(), 0);
    loop {
        let from = head.len();
        reader.read_line(&mut head).ok().filter(|bytes| *bytes > 0)?;
        let line = head[from..].trim_end().to_ascii_lowercase();
        if let Some(length) = line.strip_prefix("content-length:") {
            bytes = length.trim().parse().ok()?;
        }
        if line.is_empty() {
            return Some((head, bytes));
        }
    }
}

fn socks(mut client: TcpStream, there: SocketAddr, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut take = |count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).ok().map(|()| bytes)
    };
    let methods = take(2)?[1];
    let takes_password = take(usize::from(methods))?.contains(&2);
    client.write_all(&[5, if takes_password { 2 } else { 0xff }]).ok()?;
    let mut take = |count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).ok().map(|()| bytes)
    };
    let user = take(2)?[1];
    let user = take(usize::from(user))?;
    let password = take(1)?[0];
    let password = take(usize::from(password))?;
    let is_right = user == b"us er" && password == b"s:cret";
    client.write_all(&[1, u8::from(!is_right)]).ok()?;
    let mut take = |count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).ok().map(|()| bytes)
    };
    let kind = take(4)?[3];
    let host = match kind {
        3 => {
            let length = take(1)?[0];
            String::from_utf8(take(usize::from(length))?).ok()?
        }
        1 => format!("{:?}", take(4)?),
        _ => format!("{:?}", take(16)?),
    };
    let port = take(2)?;
    asked.lock().unwrap().push(format!("{host}:{}", u16::from_be_bytes([port[0], port[1]])));
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).ok()?;
    splice(client, TcpStream::connect(there).ok()?)
}

fn splice(client: TcpStream, upstream: TcpStream) -> Option<()> {
    let (mut from, mut to) = (client.try_clone().ok()?, upstream.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let (mut from, mut to) = (upstream, client);
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
    Some(())
}
