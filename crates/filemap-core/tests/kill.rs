//! A writer in another process, killed with SIGKILL at arbitrary moments, again and again over the same store: nothing that a
//! put returned is lost, no page is wrong, and what was removed stays removed. Readers in this process follow it meanwhile.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use filemap_core::{Options, Record, Store};

const CYCLES: u64 = 30;
const KEYS: u64 = 400;

fn options() -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .checkpoint_bytes(300 << 10)
        .recent_bytes(256 << 10)
        .free_space_floor(0)
}

fn key(i: u64) -> Vec<u8> {
    format!("http://host{}.example/{i}", i % 7).into_bytes()
}

fn body(i: u64, n: u64) -> Vec<u8> {
    let size = if n.is_multiple_of(97) { 9000 } else { 1 + (i + n) as usize % 60 };
    format!("{i} {n} ").repeat(size).into_bytes()
}

/// The child: puts and removes for ever, and says what has returned. Does nothing when it runs as a test of its own.
#[test]
fn the_writer() {
    let Some(path) = std::env::var_os("FILEMAP_KILL_STORE") else { return };
    let mut n: u64 = std::env::var("FILEMAP_KILL_FROM").unwrap().parse().unwrap();
    let store = Store::open(path, options()).unwrap();
    let mut out = std::io::stdout().lock();
    loop {
        n += 1;
        let i = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let i = i % KEYS;
        if n.is_multiple_of(11) {
            store.remove(&key(i)).unwrap();
            writeln!(out, "removed {i} {n}").unwrap();
        } else {
            store.put(&Record::new(&key(i), &body(i, n)).time(n as i64)).unwrap();
            writeln!(out, "put {i} {n}").unwrap();
        }
        out.flush().unwrap();
    }
}

#[test]
fn killed_at_any_moment_a_writer_loses_nothing_that_it_reported() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    Store::create(&path, options()).unwrap().close().unwrap();
    let reader = Store::open_read_only(&path, options()).unwrap();
    let mut last: HashMap<u64, Option<u64>> = HashMap::new();
    let mut n = 0;
    let mut reported = 0;
    for cycle in 0..CYCLES {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["the_writer", "--exact", "--nocapture"])
            .env("FILEMAP_KILL_STORE", &path)
            .env("FILEMAP_KILL_FROM", n.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20 + cycle * 37 % 150));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        for line in out.split(b'\n') {
            let line = String::from_utf8(line.unwrap()).unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            let (Some(at), true) = (
                words.iter().position(|w| *w == "put" || *w == "removed"),
                line.ends_with(|c: char| c.is_ascii_digit()),
            ) else {
                continue;
            };
            let [what, i, number] = words[at..] else { continue };
            let (i, number): (u64, u64) = (i.parse().unwrap(), number.parse().unwrap());
            last.insert(i, (what == "put").then_some(number));
            n = number;
            reported += 1;
        }
        killer.join().unwrap();
        // The operation after the last reported one may have happened or not.
        let next = n + 1;
        let maybe = (next.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % KEYS;
        let store = Store::open(&path, options()).unwrap();
        reader.refresh().unwrap();
        for i in 0..KEYS {
            let want = last.get(&i).copied().flatten();
            for (who, handle) in [("writer", &store), ("reader", &reader)] {
                let got = handle.get(&key(i)).unwrap().map(|v| v.body);
                let legal = got == want.map(|n| body(i, n));
                let done = i == maybe && got == (next % 11 != 0).then(|| body(i, next));
                assert!(legal || done, "cycle {cycle}, {who}: key {i} should be that of {want:?}");
            }
        }
        // What did happen counts from here on.
        if store.head(&key(maybe)).unwrap().map(|h| h.version.time_ms) == Some(next as i64) {
            last.insert(maybe, Some(next));
        } else if next % 11 == 0 && store.head(&key(maybe)).unwrap().is_none() {
            last.insert(maybe, None);
        }
        n = next;
        if cycle % 5 == 4 {
            assert_eq!(store.verify(&mut |_| {}).unwrap().problems, []);
        }
    }
    assert!(reported > 20 * CYCLES, "only {reported} operations in {CYCLES} cycles");
}
