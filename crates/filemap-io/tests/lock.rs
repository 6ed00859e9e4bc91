//! The lock: one holder at a time under races; free as soon as its holder ends, in whatever way.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use filemap_io::{Dir, Lock, Locking, OsDir};

fn acquire(dir: &OsDir) -> Option<Box<dyn Lock>> {
    match dir.lock("LOCK").unwrap() {
        Locking::Acquired(held) => Some(held),
        Locking::HeldBy(_) => None,
    }
}

/// Starts one of the tests below in another process.
fn start(test: &str, path: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("FILEMAP_LOCK_DIR", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// Reads the other process's output until it prints `word`.
fn wait_for(word: &str, out: &mut impl BufRead) {
    let mut line = String::new();
    while !line.trim_end().ends_with(word) {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended without saying {word}");
    }
}

#[test]
fn of_threads_that_race_exactly_one_gets_the_lock() {
    const RACES: usize = 1000;
    const THREADS: usize = 4;
    let temp = tempfile::tempdir().unwrap();
    let barrier = Barrier::new(THREADS);
    let winners: Vec<AtomicU32> = (0..RACES).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                let dir = OsDir::open(temp.path()).unwrap();
                for winners in &winners {
                    barrier.wait();
                    let held = acquire(&dir);
                    winners.fetch_add(u32::from(held.is_some()), Ordering::Relaxed);
                    barrier.wait();
                    drop(held);
                    barrier.wait();
                }
            });
        }
    });
    for (race, winners) in winners.iter().enumerate() {
        assert_eq!(winners.load(Ordering::Relaxed), 1, "race {race}");
    }
}

/// Takes the lock 250 times and each time creates a file that must not exist. A no-op unless
/// another test starts it.
#[test]
fn the_racer() {
    let Some(path) = std::env::var_os("FILEMAP_LOCK_DIR") else { return };
    let dir = OsDir::open(Path::new(&path)).unwrap();
    let alone = Path::new(&path).join("alone");
    let mut won = 0;
    while won < 250 {
        let Some(held) = acquire(&dir) else {
            std::thread::yield_now();
            continue;
        };
        fs::File::create_new(&alone).expect("another process holds the lock too");
        fs::remove_file(&alone).unwrap();
        drop(held);
        won += 1;
    }
    println!("won");
}

#[test]
fn of_processes_that_race_never_two_hold_the_lock() {
    let temp = tempfile::tempdir().unwrap();
    let racers: Vec<_> = (0..4).map(|_| start("lock::the_racer", temp.path())).collect();
    for (mut child, mut out) in racers {
        let mut said = String::new();
        out.read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success() && said.contains("won"), "{said}");
    }
}

/// Takes the lock, starts a child that prints a word and lives until its input ends, and waits for
/// it. (The child itself prints, because only then are the descriptors it does not inherit
/// certainly closed.) A no-op unless another test starts it.
#[test]
fn the_holder() {
    let Some(path) = std::env::var_os("FILEMAP_LOCK_DIR") else { return };
    let dir = OsDir::open(Path::new(&path)).unwrap();
    let _held = acquire(&dir).expect("the lock is free");
    let mut child = Command::new("sh").args(["-c", "echo held; exec cat > /dev/null"]).spawn().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_holders_process_id_is_told_and_its_lock_is_free_when_it_is_killed_whatever_it_had_started() {
    let temp = tempfile::tempdir().unwrap();
    let dir = OsDir::open(temp.path()).unwrap();
    for _ in 0..3 {
        let (mut child, mut out) = start("lock::the_holder", temp.path());
        let keeps_its_child_alive = child.stdin.take();
        wait_for("held", &mut out);
        assert!(matches!(dir.lock("LOCK").unwrap(), Locking::HeldBy(Some(pid)) if pid == child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(acquire(&dir).is_some(), "the lock of a killed process");
        drop(keeps_its_child_alive);
    }
}

#[test]
fn whatever_the_lock_file_holds_the_lock_works() {
    let temp = tempfile::tempdir().unwrap();
    let dir = OsDir::open(temp.path()).unwrap();
    let path = temp.path().join("LOCK");
    let contents: [&[u8]; 6] = [b"", b"4711", b"\xff\xfe\0\0", b"-1\n", b"99999999999999999999\n", &[b'7'; 70_000]];
    for content in contents {
        fs::write(&path, content).unwrap();
        let held = acquire(&dir).expect("nobody holds it");
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        // Garbage in the file does not break the lock.
        fs::write(&path, content).unwrap();
        let Locking::HeldBy(pid) = dir.lock("LOCK").unwrap() else { panic!("two locks at once") };
        assert_eq!(pid, (content == b"4711").then_some(4711));
        drop(held);
    }
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(acquire(&dir).is_some());
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
}

#[test]
fn the_lock_file_stays_when_the_lock_is_given_up() {
    let temp = tempfile::tempdir().unwrap();
    let dir = OsDir::open(temp.path()).unwrap();
    drop(acquire(&dir).unwrap());
    assert_eq!(dir.list().unwrap(), ["LOCK"]);
}
