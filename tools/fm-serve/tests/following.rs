//! A replica and its origin, each killed again and again while pages are put and removed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use filemap::access::PutRule;
use filemap::{Options, Page, PageRead, PageStore, PageWrite};
use filemap_http::Client;

use crate::program::{Program, command};

const KILLS: u64 = 8;
const TIME: i64 = 1_700_000_000_000;

/// The versions in a store: URL and time, with the body.
fn versions(path: &Path) -> BTreeMap<(Vec<u8>, i64), Vec<u8>> {
    let store = PageStore::open(path, Options::new()).expect("opened");
    let found = store.versions().map(|page| {
        let page = page.expect("readable");
        ((page.url, page.fetched_at_ms), page.body)
    });
    let found = found.collect();
    store.close().expect("closed");
    found
}

/// Puts and removes pages until it must stop.
fn work(client: &Client, kill: u64, stop: &AtomicBool) {
    for nth in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let url = format!("http://{}.example/{}", nth % 3, nth * 7 % 60);
        let page =
            Page::new(url.clone(), TIME + (kill * 100_000 + nth) as i64, 200, format!("{kill} {nth} ").repeat(50));
        client.put(&page, PutRule::Always).expect("stored");
        if nth % 11 == 0 {
            client.remove(url.as_bytes(), None).expect("removed");
        }
        if nth % 50 == 0 {
            client.sync().expect("synced");
        }
    }
}

/// Stops the work, even if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until a replica has a page.
fn has(replica: &Program, url: &str) -> bool {
    let (client, begun) = (replica.client(), Instant::now());
    while begun.elapsed() < Duration::from_secs(120) {
        if client.get(&url.into()).expect("readable").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn a_replica_that_is_killed_again_and_again_becomes_equal() {
    let dir = tempfile::tempdir().expect("a folder");
    let (origin_path, replica_path) = (dir.path().join("origin.fm"), dir.path().join("replica.fm"));
    // Enough pages that the first kills come during the first listing.
    let store = PageStore::create(&origin_path, Options::new()).expect("a store");
    for nth in 0..3000 {
        let page = Page::new(format!("http://before.example/{nth}"), TIME, 200, "before ".repeat(200));
        store.put_page(&page).expect("stored");
    }
    store.close().expect("closed");
    let origin = Program::start(&origin_path, &["--write"]);
    for kill in 0..KILLS {
        let replica = Program::start(&replica_path, &["--follow", &origin.location]);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ends = Ends(&stop);
            let (client, stop) = (origin.client(), &stop);
            let worker = scope.spawn(move || work(&client, kill, stop));
            // Each round kills at a different time; in the last one the replica receives
            // everything.
            let marker = format!("http://marker.example/{kill}");
            std::thread::sleep(Duration::from_millis(40 * kill));
            if kill == KILLS - 1 {
                // The marker must be the last.
                stop.store(true, Ordering::Relaxed);
                worker.join().expect("no panic");
            }
            let page = Page::new(marker.clone(), TIME, 200, "here");
            let client = origin.client();
            client.put(&page, PutRule::Always).expect("stored");
            client.sync().expect("synced");
            if kill % 2 == 1 {
                assert!(has(&replica, &marker), "round {kill}");
            }
            replica.signal(if kill == KILLS - 1 { "TERM" } else { "KILL" });
            stop.store(true, Ordering::Relaxed);
        });
        let (status, words) = replica.end();
        assert!(kill < KILLS - 1 || status.success(), "{words}");
    }
    origin.signal("TERM");
    assert!(origin.end().0.success());
    let (want, have) = (versions(&origin_path), versions(&replica_path));
    assert!(want.len() > 60, "{}", want.len());
    assert_eq!(have.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>());
    assert!(have == want);
}

#[test]
fn a_replica_goes_on_when_its_origin_comes_back_and_takes_no_puts() {
    let dir = tempfile::tempdir().expect("a folder");
    let (origin_path, replica_path) = (dir.path().join("origin.fm"), dir.path().join("replica.fm"));
    let origin = Program::start(&origin_path, &["--write"]);
    let address = origin.location.trim_start_matches("http://").to_owned();
    let replica = Program::start(&replica_path, &["--follow", &origin.location]);
    let put = |origin: &Program, url: &str| {
        let client = origin.client();
        client.put(&Page::new(url, TIME, 200, "here"), PutRule::Always).expect("stored");
        client.sync().expect("synced");
    };
    put(&origin, "http://a.example/1");
    assert!(has(&replica, "http://a.example/1"));
    let refused = replica.client().put(&Page::new("http://b.example/", TIME, 200, "x"), PutRule::Always);
    assert!(refused.is_err());
    origin.signal("KILL");
    origin.end();
    let origin = Program::start(&origin_path, &["--write", "--listen", &address]);
    put(&origin, "http://a.example/2");
    assert!(has(&replica, "http://a.example/2"));
    for program in [origin, replica] {
        program.signal("TERM");
        program.end();
    }
    let output = command(&replica_path, &["--follow", "pages.fm"]).output().expect("run");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let output = command(&replica_path, &["--follow", "http://127.0.0.1:1", "--write"]).output().expect("run");
    assert_eq!(output.status.code(), Some(2));
}
