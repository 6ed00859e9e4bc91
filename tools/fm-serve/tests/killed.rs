//! `kill -9` under load: answered writes are kept, and a repeated request gets its right answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use filemap::access::PutRule;
use filemap::{Options, Page, PageStore, PageWrite};

use filemap_http::{Ack, Added, ClientOptions, SeenClient};
use urlindex::idempotent::RequestId;
use urlindex::stored::{NewSet, StoredSet};
use urlindex::{DiskOptions, Verdict, Whatwg};

use crate::program::Program;

/// The number of kills; a long test sets `FILEMAP_KILLS` to get more.
fn kills() -> u64 {
    std::env::var("FILEMAP_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

const WRITERS: u64 = 4;

#[test]
fn every_page_that_was_acknowledged_is_there_after_a_kill() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let (acknowledged, puts) = (Mutex::new(BTreeMap::new()), AtomicU64::new(0));
    for kill in 0..kills() {
        let server = Program::start(&path, &["--write"]);
        let mut is_loaded = false;
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (client, acknowledged, puts) = (server.client(), &acknowledged, &puts);
                scope.spawn(move || {
                    for nth in 0.. {
                        let url = format!("http://{writer}.example/{}", nth % 50);
                        let time_ms = (kill * 1_000_000 + nth) as i64;
                        let page = Page::new(url.clone(), time_ms, 200, format!("{kill} {nth} ").repeat(200));
                        // Some pages are made durable, others only accepted; the machine stays up.
                        if client.put(&page, PutRule::Always).is_err() || (nth % 7 == 0 && client.sync().is_err()) {
                            return;
                        }
                        acknowledged.lock().expect("unpoisoned").insert(url, page);
                        puts.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // Under load, however fast the machine is, and at a different time in each round.
            let before = puts.load(Ordering::Relaxed);
            is_loaded = (0..60_000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                puts.load(Ordering::Relaxed) >= before + 20
            });
            std::thread::sleep(Duration::from_millis(kill * 3));
            server.signal("KILL");
        });
        server.end();
        assert!(is_loaded, "hardly anything is put in a minute");
        let acknowledged = acknowledged.lock().expect("unpoisoned");
        let store = PageStore::open(&path, Options::new()).expect("opened");
        for (url, page) in &*acknowledged {
            let found = store.get(url).expect("readable").expect("there");
            assert!(found.fetched_at_ms >= page.fetched_at_ms, "{url} is an older version after kill {kill}");
            let same = store.get(filemap::Lookup::new(url).at(page.fetched_at_ms)).expect("readable");
            assert_eq!(same.as_ref(), Some(page), "{url} after kill {kill}");
        }
        store.close().expect("closed");
    }
}

/// A client like a crawler: it remembers its request, and repeats it until it gets an answer.
fn told(location: &Mutex<String>, batch: &[String]) -> Vec<String> {
    let id = RequestId::now();
    for _ in 0..30_000 {
        let at = location.lock().expect("unpoisoned").clone();
        let asked = SeenClient::open(&at, &ClientOptions::new()).and_then(|set| set.add(Some(id), batch, Ack::Durable));
        match asked {
            Ok(Added::Verdicts(verdicts)) => {
                let new = batch.iter().zip(verdicts).filter(|(_, verdict)| *verdict == Some(Verdict::New));
                return new.map(|(url, _)| url.clone()).collect();
            }
            Ok(other) => panic!("it is kept for a day: {other:?}"),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    panic!("no server for a minute");
}

/// Several clients ask for each URL.
fn batch(client: u64, nth: u64) -> Vec<String> {
    let first = nth * 20 + client * 5;
    (first..first + 30).map(|i| format!("http://h{}.example/{i}", i % 9)).collect()
}

#[test]
fn every_url_is_new_to_exactly_one_client_through_kills() {
    let dir = tempfile::tempdir().expect("a folder");
    let (path, set) = (dir.path().join("pages.fm"), dir.path().join("seen"));
    let made = StoredSet::create(&set, NewSet::Disk(DiskOptions::new()), &Whatwg).expect("made");
    made.close().expect("closed");
    let (named, location) = (format!("pages={}", set.display()), Mutex::new(String::new()));
    let start = || {
        let server = Program::start(&path, &["--write", "--seen", &named]);
        *location.lock().expect("unpoisoned") = format!("{}/v1/seen/pages", server.location);
        server
    };
    let (batches, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut asked, mut fetched) = (BTreeSet::new(), Vec::new());
    let run = |client: u64| {
        let (mut asked, mut fetched) = (Vec::new(), Vec::new());
        for nth in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let batch = batch(client, nth);
            fetched.extend(told(&location, &batch));
            asked.extend(batch);
            batches.fetch_add(1, Ordering::Relaxed);
        }
        (asked, fetched)
    };
    std::thread::scope(|scope| {
        let run = &run;
        let clients: Vec<_> = (0..WRITERS).map(|client| scope.spawn(move || run(client))).collect();
        for kill in 0..kills() {
            let before = batches.load(Ordering::Relaxed);
            let server = start();
            let is_loaded = (0..60_000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                batches.load(Ordering::Relaxed) >= before + 10
            });
            // At a different time in each round: between answers, before a sync, during one.
            std::thread::sleep(Duration::from_micros(kill * 700));
            server.signal("KILL");
            server.end();
            assert!(is_loaded, "hardly anything is asked in a minute");
        }
        is_over.store(true, Ordering::Relaxed);
        let _server = start();
        for client in clients {
            let (of_client, new) = client.join().expect("no panic");
            asked.extend(of_client);
            fetched.extend(new);
        }
    });
    let once: BTreeSet<String> = fetched.iter().cloned().collect();
    assert_eq!(once.len(), fetched.len(), "a URL was new to two clients");
    assert_eq!(once, asked, "nobody was told to fetch some");
}
