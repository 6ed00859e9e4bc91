//! Followers in other processes beside a writer in a separate process, which grows the index,
//! rolls segments, checkpoints in stages and is killed with SIGKILL repeatedly. What a follower
//! reads is intact, is never older than the operations acknowledged before it refreshed, and never
//! goes back. The test ends by counts, not by time.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use filemap_core::{Durability, Options, Record, Store};

const STORE: &str = "FILEMAP_READERS_STORE";
const FROM: &str = "FILEMAP_READERS_FROM";
const LIVES: u64 = 5;
const STEPS: u64 = 4;
const OPERATIONS: u64 = 4000;
const READERS: usize = 2;
/// More keys than the 128 leaves of a new index hold, so that leaves split and the directory
/// doubles on the way.
const KEYS: u64 = 42_000;

fn options() -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .checkpoint_bytes(256 << 10)
        .memtable_bytes(256 << 10)
        .free_space_floor(0)
        .durability(Durability::Interval(Duration::from_millis(20)))
        .max_open_files(4)
        .value_cache_bytes(4 << 20)
}

fn key(i: u64) -> Vec<u8> {
    format!("http://host{}.example/{i}", i % 13).into_bytes()
}

fn body(i: u64, n: u64) -> Vec<u8> {
    let size = if n.is_multiple_of(997) { 30_000 } else { 1 + (i + n) as usize % 40 };
    format!("{i} {n} ").repeat(size).into_bytes()
}

/// The key of an operation: every other one the next key, until all have had their turn, else any
/// of those before. So the writer's lives touch all but a few of the keys that killed steps skip:
/// 280 for a leaf of 254 slots.
fn key_of(n: u64) -> u64 {
    let next = n / 2;
    let old = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (next + 1);
    (if n.is_multiple_of(2) { next } else { old }) % KEYS
}

/// These keys are removed now and then.
fn is_removable(i: u64) -> bool {
    i.is_multiple_of(5)
}

/// The number of the last operation on each key that has returned, shared by all processes through
/// a file.
struct Acknowledged(File);

impl Acknowledged {
    fn open(store: &Path) -> Acknowledged {
        let path = store.with_extension("acknowledged");
        Acknowledged(File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap())
    }

    fn set(&self, i: u64, n: u64) {
        self.0.write_all_at(&n.to_le_bytes(), i * 8).unwrap();
    }

    fn all(&self) -> Vec<u64> {
        let mut bytes = vec![0; KEYS as usize * 8];
        let mut read = 0;
        while read < bytes.len() {
            match self.0.read_at(&mut bytes[read..], read as u64).unwrap() {
                0 => break,
                n => read += n,
            }
        }
        bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
    }
}

/// The writer's process. Does nothing when run as an ordinary test.
#[test]
fn the_writer() {
    let (Some(path), Ok(from)) = (std::env::var_os(STORE).map(PathBuf::from), std::env::var(FROM)) else { return };
    let mut n: u64 = from.parse().unwrap();
    let acknowledged = Acknowledged::open(&path);
    let store = Store::open(&path, options()).unwrap();
    for line in std::io::stdin().lines() {
        if line.unwrap() == "close" {
            store.close().unwrap();
            println!("\nclosed");
            return;
        }
        for operation in 0..OPERATIONS {
            let i = key_of(n);
            if is_removable(i) && n.is_multiple_of(3) {
                store.remove(&key(i)).unwrap();
            } else {
                store.put(&Record::new(&key(i), &body(i, n)).time(n as i64)).unwrap();
            }
            acknowledged.set(i, n);
            n += 1;
            if operation % 1000 == 500 {
                store.checkpoint().unwrap();
                println!("\ncheckpoint {n}");
            }
        }
        println!("\nstep {n}");
    }
}

/// A follower's process. Does nothing when run as an ordinary test.
#[test]
fn a_reader() {
    let (Some(path), Err(_)) = (std::env::var_os(STORE).map(PathBuf::from), std::env::var(FROM)) else { return };
    let acknowledged = Acknowledged::open(&path);
    let store = Store::open_read_only(&path, options()).unwrap();
    let mut seen = vec![0; KEYS as usize];
    let mut requests = std::io::stdin().lines();
    let mut round = 0;
    loop {
        round += 1;
        let fresh;
        let handle = if round % 4 == 0 {
            fresh = Store::open_read_only(&path, options()).unwrap();
            &fresh
        } else {
            &store
        };
        read_some(handle, &acknowledged, &mut seen, round);
        match round % 6 {
            1 => list(handle, &acknowledged),
            3 => assert_eq!(handle.verify().unwrap().problems, []),
            _ => {}
        }
        println!("\nround {round}");
        // One line requests a round; the end of input ends the process.
        if requests.next().is_none() {
            break;
        }
    }
    read_some(&store, &acknowledged, &mut seen, 0);
    list(&store, &acknowledged);
    assert_eq!(store.verify().unwrap().problems, []);
    let stats = store.stats();
    assert!(stats.index_leaves > 128 && stats.directory_bytes > 8 * 128 && stats.segments > 8, "{stats:?}");
}

/// Reads a range of the keys (round 0: all), some of them by other methods.
fn read_some(store: &Store, acknowledged: &Acknowledged, seen: &mut [u64], round: u64) {
    let at_least = acknowledged.all();
    store.refresh().unwrap();
    let stretch = if round == 0 { 0..KEYS } else { round * 811 % KEYS..(round * 811 % KEYS + 1500).min(KEYS) };
    for i in stretch {
        let (least, last) = (at_least[i as usize], seen[i as usize]);
        let Some(value) = store.get(&key(i)).unwrap() else {
            assert!(least == 0 || is_removable(i), "key {i} of operation {least} is lost");
            // Any version seen before is removed: it must not come back.
            seen[i as usize] = if last == 0 { 0 } else { least.max(last + 1) };
            continue;
        };
        let n = value.head.version.time_ms as u64;
        assert!(value.body == body(i, n), "key {i}: operation {n} has another's body");
        assert!(n >= least, "key {i} is that of operation {n}, but {least} was acknowledged before");
        assert!(n >= last, "key {i} went back from operation {last} to {n}");
        seen[i as usize] = n;
        if i.is_multiple_of(50) {
            let history = store.history(&key(i)).unwrap();
            let times: Vec<i64> = history.iter().map(|h| h.version.time_ms).collect();
            assert!(times.is_sorted_by(|a, b| a > b), "{times:?}");
            assert!(is_removable(i) || times.contains(&(n as i64)), "{i}: {n} is not in {times:?}");
            for head in history.iter().filter(|_| !is_removable(i)) {
                let n = head.version.time_ms;
                let at = store.get_at(&key(i), n).unwrap().unwrap_or_else(|| panic!("{i} at {n}"));
                assert!(at.body == body(i, n as u64), "key {i} at {n}");
            }
        }
    }
}

/// Every acknowledged key that is never removed is listed, and none twice.
fn list(store: &Store, acknowledged: &Acknowledged) {
    let at_least = acknowledged.all();
    store.refresh().unwrap();
    let mut listed = HashSet::new();
    for key in store.keys() {
        let key = key.unwrap();
        assert!(listed.insert(key.clone()), "{} is listed twice", key.escape_ascii());
    }
    for i in (0..KEYS).filter(|i| at_least[*i as usize] > 0 && !is_removable(*i)) {
        assert!(listed.contains(&key(i)), "key {i} is not listed");
    }
}

/// A process of this program that runs one of its tests, and its output.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(test: &str, store: &Path, from: Option<u64>) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture"]).env(STORE, store).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env_remove(FROM);
        if let Some(from) = from {
            command.env(FROM, from.to_string());
        }
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Process { child, lines }
    }

    fn ask(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for a line that starts with a word.
    fn says(&self, word: &str) {
        self.next(word);
    }

    /// The number in the next line that starts with a word; fails if the process ends before.
    fn next(&self, word: &str) -> u64 {
        let mut lines = self.lines.iter();
        let line = lines.find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("it ended without {word:?}"));
        line.split(' ').nth(1).map_or(0, |n| n.parse().unwrap())
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn processes_read_what_was_acknowledged_while_a_writer_grows_rolls_and_is_killed() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    Store::create(&path, options()).unwrap().close().unwrap();
    let mut readers: Vec<Process> = (0..READERS).map(|_| Process::start("readers::a_reader", &path, None)).collect();
    readers.iter().for_each(|r| r.says("round "));
    let mut n = 1;
    for life in 1..=LIVES {
        let mut writer = Process::start("readers::the_writer", &path, Some(n));
        for _ in 0..STEPS {
            readers.iter_mut().for_each(|r| r.ask("round"));
            writer.ask("step");
            n = writer.next("step ");
            readers.iter().for_each(|r| r.says("round "));
        }
        if life == LIVES {
            writer.ask("close");
            writer.says("closed");
            writer.end();
            break;
        }
        // In the middle of a step, at a checkpoint that changes from life to life.
        readers.iter_mut().for_each(|r| r.ask("round"));
        writer.ask("step");
        (0..1 + life % 4).for_each(|_| writer.says("checkpoint "));
        writer.child.kill().unwrap();
        writer.child.wait().unwrap();
        // Numbers of operations that may have been begun are not used again.
        n += OPERATIONS + 1;
        readers.iter().for_each(|r| r.says("round "));
    }
    readers.into_iter().for_each(Process::end);
}
