//! `kill -9` in the middle of a merge, of a real process on the real file system.
//!
//! The child is this test binary again. It fills a set, syncs it, and begins a batch that is merged with all there is; a directory
//! that counts its changing calls stops it at call number N, for ever, and says so. Then the parent kills it and opens what it left. So
//! every moment of the merge comes by, and no clock decides which.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use filemap_io::{Access, Advice, Dir, File, Locking, Map, OsDir};
use urlindex::{BloomOptions, DiskOptions, DiskUrlSet, Error, FrontFilter, SeenSet, TwoTierSet};

const FOLDER: &str = "URLINDEX_KILL_FOLDER";
const CALL: &str = "URLINDEX_KILL_CALL";
const STOPPED: &str = "stopped in the middle";
const DONE: &str = "done";

/// Synced before the merge, in two runs and the log.
const SYNCED: u64 = 12_100;
/// All that the merge brings.
const ALL: u64 = 30_000;

fn options() -> DiskOptions {
    DiskOptions::new().memory_bytes(64 << 10)
}

fn filter() -> FrontFilter {
    FrontFilter::Bloom(BloomOptions::new(ALL, 0.01))
}

fn url(i: u64) -> Vec<u8> {
    format!("http://h{}.example.com/page/{i}", i % 7).into_bytes()
}

/// Calls that are left; when none is, the process waits to be killed. Below 0 they do not count.
#[derive(Clone, Debug)]
struct Left(Arc<AtomicI64>);

impl Left {
    fn change(&self) {
        if self.0.load(Ordering::SeqCst) >= 0 && self.0.fetch_sub(1, Ordering::SeqCst) == 0 {
            println!("\n{STOPPED}");
            io::stdout().flush().expect("a pipe");
            loop {
                std::thread::park();
            }
        }
    }
}

#[derive(Debug)]
struct Stopping<T: ?Sized> {
    left: Left,
    inner: Arc<T>,
}

impl Dir for Stopping<dyn Dir> {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.left.change();
        let inner = self.inner.open(name, access)?;
        Ok(Arc::new(Stopping { left: self.left.clone(), inner }))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.left.change();
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.left.change();
        self.inner.remove(name)
    }
    fn sync(&self) -> io::Result<()> {
        self.left.change();
        self.inner.sync()
    }
    fn lock(&self, name: &str) -> io::Result<Locking> {
        self.inner.lock(name)
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }
    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.inner.random(buf)
    }
}

impl File for Stopping<dyn File> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    /// A write is stopped in its middle: its first half is there.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let half = data.len() / 2;
        self.inner.write_at(&data[..half], offset)?;
        self.left.change();
        self.inner.write_at(&data[half..], offset + half as u64)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn allocated_bytes(&self) -> io::Result<u64> {
        self.inner.allocated_bytes()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.left.change();
        self.inner.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.left.change();
        self.inner.sync()
    }
    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.inner.advise(advice, offset, len);
    }
    fn map(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        self.inner.map(offset, len)
    }
}

/// What the child does; nothing, unless it is one.
#[test]
fn the_child_fills_a_set_and_merges_it() {
    let (Ok(folder), Ok(call)) = (std::env::var(FOLDER), std::env::var(CALL)) else { return };
    let left = Left(Arc::new(AtomicI64::new(-1)));
    let inner: Arc<dyn Dir> = Arc::new(OsDir::open(Path::new(&folder)).expect("the folder"));
    let dir: Arc<dyn Dir> = Arc::new(Stopping { left: left.clone(), inner });
    let set = TwoTierSet::create(dir, "seen", options(), &filter()).expect("made");
    for part in [0..8_000, 8_000..12_000, 12_000..SYNCED] {
        insert(&set, part);
    }
    set.sync().expect("synced");
    left.0.store(call.parse().expect("a number"), Ordering::SeqCst);
    insert(&set, SYNCED..ALL);
    set.save_filter().expect("saved");
    left.0.store(-1, Ordering::SeqCst);
    println!("\n{DONE}");
}

fn insert(set: &TwoTierSet, urls: std::ops::Range<u64>) {
    let urls: Vec<Vec<u8>> = urls.map(url).collect();
    let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    set.check_and_insert_batch(&urls, &mut Vec::new()).expect("inserted");
}

/// Runs a child until it stops at its call number `call`, and kills it; `false` if it came to its end before.
fn kill_at(folder: &Path, call: u64) -> bool {
    let me = std::env::current_exe().expect("this binary");
    let mut child = Command::new(me)
        .args(["--exact", "the_child_fills_a_set_and_merges_it", "--nocapture"])
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
        match DiskUrlSet::open(dir, "seen", options()) {
            Err(Error::Locked { pid, .. }) => assert_eq!(pid, Some(child.id()), "it holds the lock, alive"),
            other => panic!("call {call}: {other:?}"),
        }
        child.kill().expect("SIGKILL");
    }
    lines.for_each(drop);
    child.wait().expect("it ended");
    is_stopped
}

/// Everything that was synced is there, the batch is there as a whole or not at all, nothing else is.
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
        let set = DiskUrlSet::open(Arc::clone(&dir), "seen", options()).expect("opens by itself");
        let is_there = judge(&set, call);
        unfinished_runs += u32::from(left > set.disk_stats().runs);
        *(if is_there { &mut after } else { &mut before }) += 1;
        drop(set);
        let set = TwoTierSet::open(dir, "seen", options(), &filter()).expect("opens by itself");
        assert_eq!(judge(&set, call), is_there);
        let runs = names().iter().filter(|name| name.ends_with(".run")).count() as u64;
        assert_eq!(runs, set.exact().disk_stats().runs, "what the killed process left is gone");
    }
    println!("{before} kills before the manifest, {after} after, {unfinished_runs} left a run that nothing names");
    assert!(unfinished_runs >= 5 && before >= 10 && after >= 5, "{unfinished_runs} {before} {after}");
}
