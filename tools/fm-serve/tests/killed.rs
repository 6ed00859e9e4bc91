//! `kill -9` under load: what was answered is there.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use filemap::access::PutRule;
use filemap::{Options, Page, PageStore, PageWrite};

use crate::program::Program;

const KILLS: u64 = 20;
const WRITERS: u64 = 4;

#[test]
fn every_page_that_was_acknowledged_is_there_after_a_kill() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let (acknowledged, puts) = (Mutex::new(BTreeMap::new()), AtomicU64::new(0));
    for kill in 0..KILLS {
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
                        // Some are made durable, the others only accepted: the machine stays up.
                        if client.put(&page, PutRule::Always).is_err() || (nth % 7 == 0 && client.sync().is_err()) {
                            return;
                        }
                        acknowledged.lock().expect("unpoisoned").insert(url, page);
                        puts.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // Under load, however fast the machine is; at a moment that differs.
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
