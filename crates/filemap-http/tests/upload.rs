//! Archive files sent to a server: read while they arrive, with a line for each record, and the
//! same result as an import without a server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use filemap::access::Scope;
use filemap::import::{ImportOptions, ImportReport, import};
use filemap::page::RecordKind;
use filemap::{Options, Page, PageRead, PageStore, Result};
use filemap_http::server::{ServerOptions, Tokens};
use filemap_http::{ArchiveForm, Client, ClientOptions};
use serde_json::Value;

use crate::served::{self, Answer, Served, served};

const KIND: &str = "Content-Type: application/warc";
const WRITER: &str = "0123456789abcdef";
const READER: &str = "fedcba9876543210";

fn sample(name: &str) -> Vec<u8> {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("the test data is there")
}

fn samples() -> Vec<String> {
    let of = |folder: &str| {
        let dir = format!("{}/../../tests/data/{folder}", env!("CARGO_MANIFEST_DIR"));
        let names = std::fs::read_dir(dir).expect("the test data is there");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("readable").file_name();
        names.map(|entry| format!("{folder}/{}", name(entry).display())).collect::<Vec<_>>()
    };
    [of("warc"), of("warcio")].concat()
}

fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(file).read_to_end(&mut plain).expect("the sample is whole");
    plain
}

/// All of it, in one gzip member.
fn packed(plain: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(plain, flate2::Compression::fast()).read_to_end(&mut packed).expect("memory");
    packed
}

fn record(nth: u64, body: &str) -> Vec<u8> {
    named(&format!("http://a.example/{nth}"), body)
}

fn named(url: &str, body: &str) -> Vec<u8> {
    format!(
        "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2023-11-14T22:13:20Z\r\n\
         Content-Length: {}\r\n\r\n{body}\r\n\r\n",
        body.len()
    )
    .into_bytes()
}

/// The lines before the sums, and the sums, which may be missing.
fn told(answer: &Answer) -> (Vec<Value>, Option<Value>) {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")), "{answer:?}");
    let text = std::str::from_utf8(&answer.body).expect("text");
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let has_sums = lines.last().is_some_and(|line| line["records"].is_u64());
    let sums = if has_sums { lines.pop() } else { None };
    (lines, sums)
}

fn send(server: &Served, file: &[u8]) -> (Vec<Value>, Value) {
    let (lines, sums) = told(&server.ask("POST", "/v1/pages", &[KIND], file));
    (lines, sums.expect("sums"))
}

fn outcomes(lines: &[Value], outcome: &str) -> u64 {
    lines.iter().filter(|line| line["outcome"] == outcome).count() as u64
}

/// An import without a server.
fn imported(name: &str, file: &[u8], options: &ImportOptions) -> (PageStore, tempfile::TempDir, ImportReport) {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
    let report = import(&store, name, file, options, &mut |_| ControlFlow::Continue(())).expect("imported");
    (store, dir, report)
}

/// Every page of a store, with all its versions.
fn all(store: &dyn PageRead) -> Vec<(Vec<u8>, i64, u64, Page)> {
    let mut found = Vec::new();
    for listed in store.list(&Scope::default(), None).expect("a list") {
        let listed = listed.expect("readable");
        for head in store.history(&(&listed.url).into()).expect("a history") {
            let head = head.expect("readable");
            found.push((listed.url.clone(), head.version.time_ms, head.body_bytes, head.page));
        }
    }
    found
}

#[test]
fn every_sample_has_a_line_for_each_record_and_brings_what_a_local_import_does() {
    for name in samples() {
        let file = sample(&name);
        let mut damaged = file.clone();
        for at in (file.len() / 7..file.len()).step_by(file.len() / 4 + 1) {
            damaged[at] ^= 0x55;
        }
        let cut = file[..file.len() * 2 / 3].to_vec();
        for (what, file) in [("whole", file), ("damaged", damaged), ("cut", cut)] {
            let (store, _dir, report) = imported(&name, &file, &ImportOptions::new());
            let server = served(&[]);
            let (lines, sums) = send(&server, &file);
            let name = format!("{name}, {what}");
            let records: Vec<_> = lines.iter().filter(|line| line["outcome"].is_string()).collect();
            assert_eq!(records.len() as u64, report.records, "{name}: a line for each record");
            let stored = outcomes(&lines, "stored") + outcomes(&lines, "unchanged");
            assert_eq!((stored, outcomes(&lines, "present")), (report.stored, report.already_there), "{name}");
            let skipped = |line: &&Value| line["outcome"] == "skipped" && line["reason"].is_string();
            assert_eq!(lines.iter().filter(skipped).count() as u64, report.ignored, "{name}");
            let problems = lines.iter().filter(|line| line["problem"].is_string()).count() as u64;
            assert_eq!(problems, report.losses() + report.warnings, "{name}");
            for line in &records {
                let is_stored = line["outcome"] == "stored" || line["outcome"] == "unchanged";
                let has_all = line["url"].is_string() && line["time"].is_string() && line["type"].is_string();
                assert!(line["offset"].is_u64() && (!is_stored || has_all), "{name}: {line}");
                let has_reason = line["error"].is_string();
                assert_eq!(line["outcome"] == "failed", has_reason, "{name}: {line}");
            }
            let sum = |name: &str| sums[name].as_u64();
            assert_eq!(
                (sum("records"), sum("stored"), sum("damaged"), sum("bytes_read"), sum("body_bytes")),
                (
                    Some(report.records),
                    Some(report.stored),
                    Some(report.damaged),
                    Some(report.bytes_read),
                    Some(report.body_bytes)
                ),
                "{name}: {sums}"
            );
            assert_eq!((&sums["is_whole"], &sums["durable"]), (&true.into(), &true.into()), "{name}: {sums}");
            assert_eq!(all(&server.client()), all(&store), "{name}");
        }
    }
}

#[test]
fn a_file_brings_the_same_however_it_is_packed_and_nothing_when_sent_again() {
    let file = sample("warc/python-docs.warc.gz");
    let plain = unpacked(&file);
    let (_, _dir, report) = imported("a", &file, &ImportOptions::new());
    for file in [&file, &packed(&plain), &plain] {
        let server = served(&[]);
        let (lines, sums) = send(&server, file);
        assert_eq!(sums["stored"].as_u64(), Some(report.stored), "{sums}");
        assert_eq!(outcomes(&lines, "stored") + outcomes(&lines, "unchanged"), report.stored);
        let (again, sums) = send(&server, file);
        assert_eq!((outcomes(&again, "stored"), sums["stored"].as_u64()), (0, Some(0)), "{sums}");
        assert_eq!(outcomes(&again, "present"), report.stored + report.already_there, "{sums}");
    }
}

#[test]
fn the_client_reports_what_a_local_import_does() {
    let everything = || {
        let kinds = [RecordKind::Request, RecordKind::Metadata, RecordKind::Conversion];
        kinds.into_iter().fold(ImportOptions::new().as_received(), ImportOptions::keep)
    };
    let mut names = samples();
    names.sort();
    for (name, options) in names.iter().flat_map(|name| [(name, ImportOptions::new()), (name, everything())]) {
        let mut file = sample(name);
        let middle = file.len() / 2;
        file[middle] ^= 0x10;
        let (store, _dir, mut report) = imported(name, &file, &options);
        let revisits = std::mem::take(&mut report.unresolved).count(&store).expect("counted");
        let server = served(&[]);
        let client = server.client();
        let sent = client.import(name, ArchiveForm::Warc, &mut &file[..], &options).expect("sent");
        assert_eq!((&sent.report, &sent.revisits, &sent.failure), (&report, &revisits, &None), "{name}");
        assert_eq!(all(&client), all(&store), "{name}");
    }
}

#[test]
fn a_large_record_passes_and_one_that_the_store_refuses_costs_no_other() {
    let large = "x".repeat(20 << 20);
    let long = format!("http://a.example/{}", "u".repeat(70_000));
    let file =
        [record(1, "one"), record(2, &large), named(&long, "never"), named("no URL", "never"), record(3, "three")];
    let server = served(&[]);
    let (lines, sums) = send(&server, &file.concat());
    let fates: Vec<_> = lines.iter().map(|line| line["outcome"].as_str().unwrap_or("none")).collect();
    assert_eq!(fates, ["stored", "stored", "failed", "failed", "stored"]);
    assert!(lines[2]["error"].as_str().is_some_and(|words| words.contains("65536")), "{}", lines[2]["error"]);
    assert!(lines[3]["error"].as_str().is_some_and(|words| words.contains("no URL")), "{}", lines[3]);
    assert_eq!((sums["unusable"].as_u64(), sums["is_whole"].as_bool()), (Some(2), Some(true)), "{sums}");
    assert_eq!(server.get("/v1/page?url=http://a.example/2", &[]).body.len(), large.len());
    assert_eq!(server.get("/v1/page?url=http://a.example/3", &[]).body, b"three");
}

/// A connection that has sent the head of an upload with a body of this length.
fn begun(server: &Served, bytes: usize, lines: &str) -> TcpStream {
    let mut stream = server.connect();
    let host = server.address;
    let head = format!("POST /v1/pages HTTP/1.1\r\nHost: {host}\r\n{KIND}\r\nContent-Length: {bytes}\r\n{lines}\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

/// Waits until the answer on a connection has this text.
fn wait_for(stream: &mut TcpStream, text: &str) -> String {
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let found = String::from_utf8_lossy(&answer).into_owned();
        if found.contains(text) {
            return found;
        }
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => answer.extend_from_slice(&buffer[..read]),
            end => panic!("{end:?} before `{text}`: {found}"),
        }
    }
}

#[test]
fn an_upload_that_breaks_off_says_what_of_it_is_stored() {
    let file = unpacked(&sample("warc/python-docs.warc.gz"));
    let server = served(&[]);
    let mut stream = begun(&server, file.len(), "Connection: close\r\n");
    stream.write_all(&file[..file.len() / 2]).expect("sent");
    stream.shutdown(Shutdown::Write).expect("half closed");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    let (lines, sums) = told(&Answer::of(&answer));
    let sums = sums.expect("sums");
    let stored = outcomes(&lines, "stored") + outcomes(&lines, "unchanged");
    assert!(stored > 0 && stored < 64, "{sums}");
    assert_eq!((sums["stored"].as_u64(), sums["is_whole"].as_bool()), (Some(stored), Some(false)), "{sums}");
    let last = lines.last().expect("a line");
    assert!(
        last["outcome"].is_null() && last["error"].as_str().is_some_and(|words| words.contains("breaks off")),
        "{last}"
    );
    let client = server.client();
    for line in lines.iter().filter(|line| line["outcome"] == "stored") {
        let url = line["url"].as_str().expect("a URL");
        assert!(client.head(&url.into()).expect("readable").is_some(), "{url}");
    }
    let log = server.log.lock().expect("unpoisoned").join("\n");
    assert!(log.contains("imported only in part") && log.contains("breaks off"), "{log}");
    let (again, sums) = send(&server, &file);
    let twice = imported("a", &file, &ImportOptions::new()).2.already_there;
    assert_eq!(outcomes(&again, "present"), stored + twice, "{sums}");
    assert_eq!(sums["stored"].as_u64().map(|rest| rest + stored), Some(64), "{sums}");
}

#[test]
fn a_client_that_is_gone_leaves_what_came_whole_and_the_server_goes_on() {
    let file: Vec<u8> = (0..600).flat_map(|nth| record(nth, &"text ".repeat(200))).collect();
    let server = served(&[]);
    let mut stream = begun(&server, file.len(), "");
    stream.write_all(&file[..file.len() * 9 / 10]).expect("sent");
    let answer = wait_for(&mut stream, "\"outcome\":\"stored\"");
    drop(stream);
    let until = Instant::now() + Duration::from_secs(60);
    while !server.log.lock().expect("unpoisoned").iter().any(|line| line.contains("imported only in part")) {
        assert!(Instant::now() < until, "the server takes note of it");
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = answer.lines().filter(|line| line.starts_with('{') && line.ends_with("\"outcome\":\"stored\"}"));
    let told: Vec<Value> = told.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (client, told_stored) = (server.client(), told.len() as u64);
    for line in told {
        let url = line["url"].as_str().expect("a URL");
        assert!(client.head(&url.into()).expect("readable").is_some(), "{url}");
    }
    let (lines, sums) = send(&server, &file);
    let present = outcomes(&lines, "present");
    assert!(present >= told_stored && present < 600 && told_stored > 0, "{present} of {told_stored}");
    assert_eq!((present + outcomes(&lines, "stored"), &sums["is_whole"]), (600, &true.into()));
}

#[test]
fn a_slow_client_is_told_of_records_while_it_sends_others() {
    let server = served(&[]);
    let file: Vec<Vec<u8>> = (0..10_000).map(|nth| record(nth, "x")).collect();
    let mut stream = begun(&server, file.iter().map(Vec::len).sum(), "Connection: close\r\n");
    let mut sent = file.iter();
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&answer).contains("\"outcome\":\"stored\"") {
        stream.write_all(sent.next().expect("a line comes before all is sent")).expect("sent");
        // A timeout is not a failure: then the next record is sent.
        let read = stream.read(&mut buffer).unwrap_or_default();
        answer.extend_from_slice(&buffer[..read]);
    }
    assert!(sent.len() > 9_000, "{} are left", sent.len());
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    for record in sent {
        stream.write_all(record).expect("sent");
    }
    stream.read_to_end(&mut answer).expect("answered");
    let (lines, sums) = told(&Answer::of(&answer));
    assert_eq!((outcomes(&lines, "stored"), lines.len()), (10_000, 10_000));
    assert_eq!(sums.expect("sums")["is_whole"].as_bool(), Some(true));
}

#[test]
fn a_client_that_sends_no_more_is_told_what_is_stored() {
    let server = served::with(ServerOptions::new().writes().idle(Duration::from_secs(5)), &[]);
    let mut stream = begun(&server, 1 << 20, "Connection: close\r\n");
    stream.write_all(&[record(1, "one"), record(2, "two"), b"WARC/1.1\r\n".to_vec()].concat()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    let (lines, sums) = told(&Answer::of(&answer));
    let sums = sums.expect("sums");
    // The last record before the end may be reported only with the next one.
    assert!(outcomes(&lines, "stored") >= 1, "{lines:?}");
    assert_eq!((sums["stored"].as_u64(), sums["is_whole"].as_bool()), (Some(outcomes(&lines, "stored")), Some(false)));
    assert!(lines.iter().any(|line| line["error"].as_str().is_some_and(|words| words.contains("time"))), "{lines:?}");
    assert_eq!(server.get("/v1/page?url=http://a.example/1", &[]).body, b"one");
}

#[test]
fn a_client_that_reads_nothing_before_all_is_sent_holds_up_nothing() {
    let server = served::with(ServerOptions::new().writes().idle(Duration::from_secs(5)), &[]);
    let url = |nth: u64| format!("http://a.example/{}/{nth}", "path/".repeat(100));
    // Lines of 20 MB in total: more than all buffers between the two hold.
    let file: Vec<u8> = (0..30_000).flat_map(|nth| named(&url(nth), "x")).collect();
    let (lines, sums) = send(&server, &file);
    assert_eq!((lines.len(), outcomes(&lines, "stored")), (30_000, 30_000), "{sums}");
    assert!(lines.iter().zip(0..).all(|(line, nth)| line["url"].as_str() == Some(&url(nth))), "in the file's order");
}

#[test]
fn a_body_is_asked_for_only_if_it_is_taken() {
    let server = served::with(ServerOptions::new().writes().tokens(tokens()), &[]);
    let file = record(1, "one");
    let lines = |token: &str| format!("Expect: 100-continue\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n");
    let mut stream = begun(&server, file.len(), &lines(WRITER));
    let asked = wait_for(&mut stream, "\r\n\r\n");
    assert_eq!(asked, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(&file).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    assert_eq!(outcomes(&told(&Answer::of(&answer)).0, "stored"), 1);
    let mut refused = Vec::new();
    begun(&server, file.len(), &lines(READER)).read_to_end(&mut refused).expect("answered");
    assert_eq!(Answer::of(&refused).status, 403, "without the body");
}

fn tokens() -> Tokens {
    Tokens::parse(&format!("write {WRITER}\nread {READER}")).expect("tokens")
}

#[test]
fn an_upload_needs_the_right_to_write_and_a_server_that_writes() {
    let server = served::with(ServerOptions::new().writes().tokens(tokens()), &[]);
    let reading = served::with(ServerOptions::new(), &[]);
    // Far more than is in flight: it is refused before it is sent.
    let file = record(1, &"x".repeat(50 << 20));
    let import = |server: &Served, token: &str| -> Result<_> {
        let client = Client::open(&format!("http://{}", server.address), &ClientOptions::new().token(token))?;
        client.import("a.warc", ArchiveForm::Warc, &mut &file[..], &ImportOptions::new())
    };
    let error = import(&server, READER).expect_err("it may not write").to_string();
    assert!(error.contains("write"), "{error}");
    let error = import(&reading, WRITER).expect_err("it is read-only").to_string();
    assert!(error.contains("--write"), "{error}");
    assert_eq!(import(&server, WRITER).expect("it may write").report.stored, 1);
    let answer = server.ask("POST", "/v1/pages", &[KIND], &record(1, "x"));
    assert_eq!(answer.status, 401, "without a token");
}

#[test]
fn what_is_no_warc_file_is_refused_in_words() {
    let server = served(&[]);
    for (what, begin) in [("zip", &b"PK\x03\x04"[..]), ("xz", b"\xfd7zXZ\0\0\x04")] {
        // All of it is read, whatever is refused.
        let file = [begin, &[7; 3 << 20]].concat();
        let sent = server.client().import("a", ArchiveForm::Warc, &mut &file[..], &ImportOptions::new());
        let words = match sent {
            Ok(sent) => sent.failure.expect("it is not in"),
            Err(error) => error.to_string(),
        };
        assert!(words.contains(what), "{words}");
    }
    let (lines, sums) = send(&server, &[7; 10_000]);
    assert!(lines.len() == 1 && lines[0]["problem"] == "damage", "{lines:?}");
    assert_eq!((sums["records"].as_u64(), sums["is_whole"].as_bool()), (Some(0), Some(true)), "{sums}");
    for (target, words) in [
        ("/v1/pages?rule=always", "JSON Lines"),
        ("/v1/pages?keep=response", "request, metadata or conversion"),
        ("/v1/pages?as_received=2", "as_received"),
    ] {
        let (status, detail) = server.ask("POST", target, &[KIND], &record(1, "x")).problem();
        assert!(status == 400 && detail.contains(words), "{status} {detail}");
    }
    let lines = ["Content-Type: application/x-ndjson"];
    assert_eq!(server.ask("POST", "/v1/pages?keep=request", &lines, b"{}").problem().0, 400);
}

#[test]
fn a_source_that_fails_is_no_failure_of_the_server() {
    struct Failing(u32);
    impl Read for Failing {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            self.0 += 1;
            if self.0 > 5 {
                return Err(std::io::Error::other("the disk is gone"));
            }
            out.fill(b' ');
            Ok(out.len())
        }
    }
    let server = served(&[]);
    let sent = server.client().import("a.warc", ArchiveForm::Warc, &mut Failing(0), &ImportOptions::new());
    let error = sent.expect_err("it failed");
    assert!(matches!(error, filemap::Error::Read { .. }) && error.to_string().contains("the disk is gone"), "{error}");
}

#[test]
fn a_connection_that_is_cut_while_a_file_is_sent_is_said_to_leave_open_what_is_stored() {
    let server = served(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let location = format!("http://{}", listener.local_addr().expect("an address"));
    let to = server.address;
    // A proxy between the two, until this much has passed.
    let between = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut server = TcpStream::connect(to).expect("a server");
        let (mut back, mut answers) = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
        let answering = std::thread::spawn(move || drop(std::io::copy(&mut answers, &mut back)));
        let _ = std::io::copy(&mut (&mut client).take(4 << 20), &mut server);
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        answering.join().expect("no panic");
    });
    let client = Client::open(&location, &ClientOptions::new()).expect("a server");
    let file: Vec<u8> = (0..2_000).flat_map(|nth| record(nth, &"text ".repeat(4_000))).collect();
    let sent = client.import("a.warc", ArchiveForm::Warc, &mut &file[..], &ImportOptions::new());
    let error = sent.expect_err("it is cut").to_string();
    assert!(error.contains("is unknown") && error.contains("sending the file again"), "{error}");
    between.join().expect("no panic");
    let (lines, sums) = send(&server, &file);
    assert_eq!((lines.len(), &sums["is_whole"]), (2_000, &true.into()));
}
