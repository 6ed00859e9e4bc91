//! Clients that read a large body very slowly: others are answered meanwhile, and memory is
//! bounded by the number of such clients, not by the size of the body.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};

use crate::program::Program;

/// More readers than the store handles calls at once; none of them may occupy one. A long test
/// sets `FILEMAP_SLOW_READERS` to get more, and `FILEMAP_SLOW_BYTES` for another body length.
const READERS: u64 = 80;
const BYTES: u64 = 64_000_000;
/// The server's memory for each of them, and for everything else.
const EACH: u64 = 3 << 20;
const ELSE: u64 = 256 << 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The peak memory of the process, in bytes.
fn most_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process of Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

#[test]
fn slow_readers_of_a_large_body_hold_nobody_up() {
    let (readers, bytes) = (number("FILEMAP_SLOW_READERS", READERS), number("FILEMAP_SLOW_BYTES", BYTES));
    let dir = tempfile::tempdir().expect("a folder");
    let server = Program::start(&dir.path().join("pages.fm"), &["--write", "--idle", "5m"]);
    let client = server.client();
    let small = Page::new("http://small.example/", 1_700_000_000_000, 200, "small".repeat(3_000));
    client.put(&small, PutRule::Always).expect("stored");
    // Numbered, so that a missing or misplaced part is noticed.
    let body: Vec<u8> = (0..bytes / 8).flat_map(u64::to_le_bytes).collect();
    let large = Page::new("http://large.example/", 1_700_000_000_000, 200, "");
    client.put_reader(&large, &mut body.as_slice()).expect("stored");
    let address = server.location.strip_prefix("http://").expect("an address").to_owned();
    let target = "/v1/page?url=http://large.example/";
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let before = most_memory(server.process());
    let mut slow: Vec<(TcpStream, Vec<u8>)> = Vec::new();
    for _ in 0..readers {
        let mut stream = TcpStream::connect(&address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut begin = vec![0; 100];
        stream.read_exact(&mut begin).expect("an answer");
        assert!(begin.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&begin));
        slow.push((stream, begin));
    }
    for _ in 0..100 {
        assert_eq!(client.get(&Lookup::new("http://small.example/")).expect("readable"), Some(small.clone()));
        // This call runs in the store's thread pool.
        assert_eq!(client.count(&Scope::new()).expect("counted"), 2);
    }
    let more = most_memory(server.process()).saturating_sub(before);
    assert!(more <= readers * EACH + ELSE, "{more} bytes more for {readers} readers");
    // The slow reader was not cut off, and continues where it was.
    let (mut stream, mut answer) = slow.swap_remove(0);
    stream.read_to_end(&mut answer).expect("readable");
    assert!(answer.ends_with(&body), "{} bytes with the head, of {}", answer.len(), body.len());
}
