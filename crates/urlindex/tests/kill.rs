//! `kill -9` in the middle of a merge, of a real process on the real file system.
//!
//! The child is this test binary again. It fills a set, syncs it, and begins a batch that is
//! merged with all runs; a directory that counts its changing calls stops it at call N for ever,
//! and reports that. Then the parent kills it and opens what it left. So every point of the merge
//! is tested, and no clock decides which.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use filemap_io::sim::{Calls, Interrupt};
use filemap_io::{Dir, OsDir, StorageError};
use urlindex::{DiskOptions, DiskUrlSet, Error, SeenSet};

const FOLDER: &str = "URLINDEX_KILL_FOLDER";
const CALL: &str = "URLINDEX_KILL_CALL";
const STOPPED: &str = "stopped in the middle";
const DONE: &str = "done";

/// Synced before the merge, in two runs and the log.
const SYNCED: u64 = 12_100;
/// All that the merge brings.
const ALL: u64 = 30_000;

fn options() -> DiskOptions {
    DiskOptions::new().memory_bytes(32 << 10)
}

fn url(i: u64) -> Vec<u8> {
    format!("http://h{}.example.com/page/{i}", i % 7).into_bytes()
}

fn stop() {
    println!("\n{STOPPED}");
    io::stdout().flush().expect("a pipe");
    loop {
        std::thread::park();
    }
}

/// The child's part; does nothing in the parent.
#[test]
fn the_child_fills_a_set_and_merges_it() {
    let (Ok(folder), Ok(call)) = (std::env::var(FOLDER), std::env::var(CALL)) else { return };
    let interrupt = Interrupt::never(Calls::Changes, stop);
    let inner: Arc<dyn Dir> = Arc::new(OsDir::open(Path::new(&folder)).expect("the folder"));
    let dir = interrupt.over(inner);
    let set = DiskUrlSet::create_in(dir, "seen", options()).expect("made");
    for part in [0..8_000, 8_000..12_000, 12_000..SYNCED] {
        insert(&set, part);
    }
    set.sync().expect("synced");
    interrupt.after(call.parse().expect("a number"));
    insert(&set, SYNCED..ALL);
    set.sync().expect("synced");
    interrupt.disarm();
    println!("\n{DONE}");
}

fn insert(set: &DiskUrlSet, urls: std::ops::Range<u64>) {
    let urls: Vec<Vec<u8>> = urls.map(url).collect();
    let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    set.check_and_insert_batch(&urls, &mut Vec::new()).expect("inserted");
}

/// Runs a child until it stops at call number `call`, and kills it; `false` if it finished before.
fn kill_at(folder: &Path, call: u64) -> bool {
    let me = std::env::current_exe().expect("this binary");
    let mut child = Command::new(me)
        .args(["--exact", "kill::the_child_fills_a_set_and_merges_it", "--nocapture"])
        .env(FOLDER, folder)
        .env(CALL, call.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let word = lines.by_ref().map(|line| line.expect("text")).find(|line| line == STOPPED || line == DONE);
    let is_stopped = word.expect("it says how it went") == STOPPED;
    if is_stopped {
        let dir: Arc<dyn Dir> = Arc::new(OsDir::open(folder).expect("the folder"));
        match DiskUrlSet::open_in(dir, "seen", options()) {
            Err(Error::Storage(StorageError::Locked { pid, .. })) => {
                assert_eq!(pid, Some(child.id()), "it holds the lock, alive")
            }
            other => panic!("call {call}: {other:?}"),
        }
        child.kill().expect("SIGKILL");
    }
    lines.for_each(drop);
    child.wait().expect("it ended");
    is_stopped
}

/// Everything that was synced is seen, the batch is seen as a whole or not at all, and nothing
/// else is seen.
fn judge(set: &dyn SeenSet, call: u64) -> bool {
    let urls: Vec<Vec<u8>> = (0..ALL + 500).map(url).collect();
    let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    let mut verdicts = Vec::new();
    set.contains_batch(&urls, &mut verdicts).expect("known");
    let is_seen = |i: u64| !verdicts[i as usize].is_new();
    let lost = (0..SYNCED).find(|i| !is_seen(*i));
    assert_eq!(lost, None, "call {call}: a synced URL is new");
    let rest = (SYNCED..ALL).filter(|i| is_seen(*i)).count() as u64;
    assert!(rest == 0 || rest == ALL - SYNCED, "call {call}: {rest} of the batch");
    assert_eq!((ALL..ALL + 500).find(|i| is_seen(*i)), None, "call {call}: a URL that never came is seen");
    assert_eq!(set.len(), SYNCED + rest);
    rest > 0
}

#[test]
fn a_process_killed_at_any_call_of_a_merge_loses_nothing_synced() {
    let (mut unfinished_runs, mut before, mut after) = (0, 0, 0);
    for call in 0.. {
        let folder = tempfile::tempdir().expect("a folder");
        if !kill_at(folder.path(), call) {
            break;
        }
        let names = || {
            let names = std::fs::read_dir(folder.path()).expect("listed");
            names.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect::<Vec<_>>()
        };
        let left = names().iter().filter(|name| name.ends_with(".run")).count() as u64;
        let dir: Arc<dyn Dir> = Arc::new(OsDir::open(folder.path()).expect("the folder"));
        let set = DiskUrlSet::open_in(Arc::clone(&dir), "seen", options()).expect("opens by itself");
        let is_there = judge(&set, call);
        unfinished_runs += u32::from(left > set.disk_stats().runs);
        *(if is_there { &mut after } else { &mut before }) += 1;
        drop(set);
        let set = DiskUrlSet::open_in(dir, "seen", options()).expect("opens by itself");
        assert_eq!(judge(&set, call), is_there);
        let runs = names().iter().filter(|name| name.ends_with(".run")).count() as u64;
        assert_eq!(runs, set.disk_stats().runs, "what the killed process left is gone");
    }
    println!("{before} kills before the manifest, {after} after, {unfinished_runs} left a run that nothing names");
    assert!(unfinished_runs >= 5 && before >= 10 && after >= 5, "{unfinished_runs} {before} {after}");
}
