//! Special cases of fleets: shards that come back, lost answers, older copies, links that no crawl
//! takes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mailbox::MailboxOptions;

use super::{Fleet, PAGES, Post, all_urls, hosts, ring};
use crate::web::Web;
use crate::web::crawl::{Bench, Ran};

/// Waits for the end of a run, for at most `limit`.
#[track_caller]
fn ended_within(mut child: Child, limit: Duration) -> Ran {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > limit {
            child.kill().unwrap();
            panic!("it goes on: {}", Bench::finish(child).words);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Bench::finish(child)
}

/// A crawl of these hosts that started alone and has fetched some pages.
fn begun_alone(web: Web, hosts: Vec<&'static str>) -> Fleet {
    let fleet = Fleet::new(web, hosts, 2, 1);
    let seed = format!("--seed=http://{}/", fleet.hosts[0]);
    let resolve = fleet.web.resolve();
    let alone = ["--scope=any", "--allow-private", "--json", "--rate=0", &resolve, &seed, "--max-pages=8"];
    fleet.benches[0].run("run", &alone).ended(0);
    fleet
}

#[test]
fn pages_that_were_handed_over_are_fetched_when_their_shard_comes_back() {
    let hosts = hosts(2, 1);
    let fleet = begun_alone(Web::new(ring(&hosts, 1)), hosts);
    let post = Post::new(MailboxOptions::new().lease(Duration::from_secs(10)), None);
    let ran = Bench::finish(fleet.start(&post, 0, &["--own=0", "--patience=1s"])).ended(5);
    assert!(ran.json()["reasons"]["handed-over"].as_u64().is_some_and(|pages| pages > 0), "{}", ran.out);
    let left = all_urls(&fleet.hosts[1..]);
    let mut whys = left.iter().map(|url| fleet.benches[0].run("why", &[url]).out);
    assert!(whys.any(|why| why.contains("the last: elsewhere") && why.contains("left to another crawl")));
    Bench::finish(fleet.start(&post, 0, &["--own=0,1"])).ended(0);
    fleet.check(0);
}

/// A relay to a server that drops the answer to some requests, chosen among those of one method to
/// one path by their number, from 0.
struct Lossy {
    address: SocketAddr,
    lost: Arc<AtomicUsize>,
}

impl Lossy {
    fn new(server: SocketAddr, method: &'static str, path_ends: &'static str, loses: fn(usize) -> bool) -> Lossy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (count, lost) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let lost_of_all = Arc::clone(&lost);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(there) = TcpStream::connect(server) else { continue };
                let (count, lost) = (Arc::clone(&count), Arc::clone(&lost_of_all));
                let is_one = move |bytes: &[u8]| {
                    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
                    let line = String::from_utf8_lossy(line).into_owned();
                    let mut words = line.split([' ', '?']);
                    words.next() == Some(method) && words.next().is_some_and(|path| path.ends_with(path_ends))
                };
                std::thread::spawn(move || {
                    lead(client, there, is_one, || loses(count.fetch_add(1, Ordering::SeqCst)), &lost)
                });
            }
        });
        Lossy { address, lost }
    }
}

/// Relays a connection to a server.
fn lead(
    client: TcpStream,
    there: TcpStream,
    is_one: impl Fn(&[u8]) -> bool,
    loses: impl Fn() -> bool,
    lost: &AtomicUsize,
) {
    let (mut from_client, mut to_client) = (client.try_clone().unwrap(), client);
    let (mut from_there, mut to_there) = (there.try_clone().unwrap(), there);
    let back = std::thread::spawn({
        let mut to_client = to_client.try_clone().unwrap();
        let mut from_there = from_there.try_clone().unwrap();
        move || {
            let mut bytes = [0; 65_536];
            while let Ok(count @ 1..) = from_there.read(&mut bytes) {
                if to_client.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            let _ = to_client.shutdown(std::net::Shutdown::Both);
        }
    });
    let mut bytes = [0; 65_536];
    while let Ok(count @ 1..) = from_client.read(&mut bytes) {
        if is_one(&bytes[..count]) && loses() {
            // It uses a separate connection, so that no client gets the answer.
            let _ = to_client.shutdown(std::net::Shutdown::Both);
            let mut own = TcpStream::connect(to_there.peer_addr().unwrap()).unwrap();
            own.write_all(&bytes[..count]).unwrap();
            assert!(own.read(&mut bytes).is_ok_and(|count| count > 0), "it is done");
            lost.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to_there.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = (from_there.shutdown(std::net::Shutdown::Both), to_client.flush(), from_there.flush());
    let _ = back.join();
}

#[test]
fn a_shard_whose_claim_was_not_answered_is_this_crawls_and_its_pages_are_fetched() {
    let hosts = hosts(2, 1);
    let fleet = begun_alone(Web::new(ring(&hosts, 1)), hosts);
    let mut post = Post::new(MailboxOptions::new(), None);
    // The first request is sent at the start; the next when the crawl has nothing left to do.
    let server = post.address;
    let lossy = Lossy::new(server, "PUT", "/owner", |number| number == 1);
    post.address = lossy.address;
    let ran = ended_within(fleet.start(&post, 0, &[]), Duration::from_secs(300)).ended(0);
    post.address = server;
    assert_eq!(lossy.lost.load(Ordering::SeqCst), 1, "{}", ran.words);
    assert!(ran.words.contains("shard 1 now belongs to this crawl"), "{}", ran.words);
    fleet.check(0);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy(&entry.path(), &place),
            kind if kind.is_file() => drop(std::fs::copy(entry.path(), place).unwrap()),
            _ => {}
        }
    }
}

#[test]
fn an_older_copy_of_a_crawl_is_refused_before_its_links_are_lost() {
    let hosts = hosts(2, 1);
    let web = Web::new(ring(&hosts, 1));
    let (fleet, post) = (Fleet::new(web, hosts, 2, 1), Post::new(MailboxOptions::new(), None));
    let run = |pages: &str| Bench::finish(fleet.start(&post, 0, &["--own=0", pages]));
    let first = run("--max-pages=10").ended(0).json();
    assert!(first["links_sent"].as_u64().is_some_and(|links| links > 0), "{first}");
    let (folder, older) = (fleet.benches[0].path("pages.fm.crawl"), fleet.benches[0].path("older"));
    copy(&folder, &older);
    run("--max-pages=20").ended(0);
    std::fs::remove_dir_all(&folder).unwrap();
    copy(&older, &folder);
    let ran = run("--max-pages=30");
    assert!(ran.code == 3 && ran.words.contains("an older copy"), "{}: {}", ran.code, ran.words);
}

#[test]
fn a_run_ends_though_a_mailbox_takes_nothing_and_says_what_waits() {
    let hosts = hosts(2, 1);
    let web = Web::new(ring(&hosts, 1));
    let options = MailboxOptions::new().max_bytes(0);
    let (fleet, mut post) = (Fleet::new(web, hosts, 2, 2), Post::new(options, None));
    // It fetched all that it may: that is complete, and it reports the links that wait.
    let ran = Bench::finish(fleet.start(&post, 0, &["--own=0", "--max-pages=20"])).ended(5);
    assert!(ran.json()["links_waiting"].as_u64().is_some_and(|links| links > 0), "{}", ran.out);
    assert!(ran.words.contains("are in no mailbox yet"), "{}", ran.words);
    let ran = ended_within(fleet.start(&post, 0, &["--own=0", "--patience=2s"]), Duration::from_secs(300)).ended(5);
    assert!(ran.words.contains("shard 1 has no owner"), "{}", ran.words);
    assert_eq!(fleet.benches[0].pages().len(), PAGES);
    // Once there are room and an owner, all links are taken.
    post.stop();
    post.options = MailboxOptions::new();
    post.start();
    super::finish(vec![fleet.start(&post, 1, &["--own=1"]), fleet.start(&post, 0, &["--own=0"])]);
    fleet.check(0);
    assert_eq!(fleet.benches[1].pages().len(), all_urls(&fleet.hosts[1..]).len());
}
