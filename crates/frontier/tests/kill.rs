//! `kill -9` of a real process that crawls, on the real file system.
//!
//! The child is this test binary again. It crawls a web that its parent knows too, commits, and
//! prints after each commit the acknowledged state: numbers of known and fetched pages, and a hash
//! of all credit. A directory that counts its changing calls stops it in the middle of call N for
//! ever, and reports that; then the parent kills it and opens what it left. No clock decides
//! anything.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use filemap_io::sim::{Calls, Interrupt};
use filemap_io::{Dir, OsDir, StorageError};
use frontier::{Error, Fetched, Frontier, FrontierOptions, Next, PageId, Recrawl};

const FOLDER: &str = "FRONTIER_KILL_FOLDER";
const CALL: &str = "FRONTIER_KILL_CALL";
const STOPPED: &str = "stopped in the middle";
const DONE: &str = "done";
const FETCHES: i64 = 700;

fn options() -> FrontierOptions {
    let recrawl = Recrawl::new().first_ms(400_000).min_ms(1).max_ms(400_000);
    FrontierOptions::new().delay_ms(1_000).connections(9).journal_bytes_min(4096).recrawl(Some(recrawl))
}

fn url(page: u64) -> String {
    format!("http://h{}.example/{page}", page % 7)
}

/// Links of each page.
fn links(url: &str) -> Vec<String> {
    let mut hasher = DefaultHasher::new();
    url.hash(&mut hasher);
    let mut rng = fastrand::Rng::with_seed(hasher.finish());
    (0..rng.u8(..6)).map(|_| self::url(rng.u64(..3_000))).collect()
}

/// Numbers of known pages, of fetched pages and of fetches, and a hash of the importance of all
/// pages.
fn state(frontier: &Frontier) -> String {
    let mut hasher = DefaultHasher::new();
    for (page, importance) in frontier.by_importance(usize::MAX).expect("read") {
        (page.number(), importance.to_bits()).hash(&mut hasher);
    }
    let stats = frontier.stats();
    format!("{} {} {} {}", stats.pages, stats.fetched, stats.fetches, hasher.finish())
}

fn say(word: &str) {
    println!("\n{word}");
    io::stdout().flush().expect("a pipe");
}

fn stop() {
    say(STOPPED);
    loop {
        std::thread::park();
    }
}

/// The child's part; does nothing in the parent.
#[test]
fn the_child_crawls_and_says_what_is_committed() {
    let (Ok(folder), Ok(call)) = (std::env::var(FOLDER), std::env::var(CALL)) else { return };
    let interrupt = Interrupt::never(Calls::Changes, stop);
    interrupt.after(call.parse().expect("a number"));
    let inner: Arc<dyn Dir> = Arc::new(OsDir::open(Path::new(&folder)).expect("the folder"));
    let dir = interrupt.over(inner);
    let mut frontier = Frontier::create_in(dir, options()).expect("made");
    let seeds: Vec<String> = (0..30).map(url).collect();
    frontier.seed(&seeds.iter().map(|seed| &seed[..]).collect::<Vec<&str>>(), 0).expect("seeded");
    frontier.commit().expect("committed");
    say(&state(&frontier));
    for step in 0..FETCHES {
        let Next::Fetch(assignment) = frontier.next(step * 1_000).expect("answered") else { continue };
        let links = links(&assignment.url);
        let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
        let fetched = Fetched { fetched_at_ms: step * 1_000, links: &links, ..Fetched::default() };
        frontier.done(assignment.page, &fetched).expect("told");
        if step % 10 == 0 {
            frontier.commit().expect("committed");
            say(&state(&frontier));
        }
    }
    say(DONE);
}

/// Runs a child until it stops at call number `call`, and kills it; returns its last word, and
/// whether it was stopped.
fn kill_at(folder: &Path, call: u64) -> (Option<String>, bool) {
    let me = std::env::current_exe().expect("this binary");
    let mut child = Command::new(me)
        .args(["--exact", "kill::the_child_crawls_and_says_what_is_committed", "--nocapture"])
        .env(FOLDER, folder)
        .env(CALL, call.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut said = None;
    let is_stopped = loop {
        let line = lines.next().expect("it says how it went").expect("text");
        match &line[..] {
            STOPPED => break true,
            DONE => break false,
            state if state.split(' ').count() == 4 && state.starts_with(|first: char| first.is_ascii_digit()) => {
                said = Some(line);
            }
            _ => {}
        }
    };
    if is_stopped {
        match Frontier::open(folder, options()) {
            Err(Error::Storage(StorageError::Locked { pid, .. })) => {
                assert_eq!(pid, Some(child.id()), "it holds the lock, alive")
            }
            other => panic!("call {call}: {other:?}"),
        }
        child.kill().expect("SIGKILL");
    }
    lines.for_each(drop);
    child.wait().expect("it ended");
    (said, is_stopped)
}

/// Checks that the acknowledged state is there: that of the last commit reported, or of the next
/// one.
fn judge(folder: &Path, call: u64, said: Option<&str>, next: Option<&str>) {
    let mut frontier = match (Frontier::open(folder, options()), said) {
        (Ok(frontier), _) => frontier,
        (Err(Error::Missing { .. }), None) => return,
        (Err(error), _) => panic!("call {call}, {said:?}: {error}"),
    };
    assert_eq!(frontier.credit_units().expect("read"), 1 << 62, "call {call}");
    let found = state(&frontier);
    let is_known = said.is_none() || Some(&found[..]) == said || Some(&found[..]) == next;
    assert!(is_known, "call {call}: {found} is there, {said:?} was acknowledged, {next:?} comes next");
    let urls = frontier.urls_from(PageId::new(0)).map(|found| found.expect("read").1);
    assert_eq!(urls.collect::<std::collections::HashSet<_>>().len() as u32, frontier.pages());
    assert!(matches!(frontier.next(1 << 40), Ok(Next::Wait { .. } | Next::Empty)), "hosts rest after a crash");
    let mut fetches = 0;
    while let Ok(Next::Fetch(assignment)) = frontier.next((1 << 40) + 1_000) {
        frontier.done(assignment.page, &Fetched::default()).expect("told");
        fetches += 1;
    }
    frontier.commit().expect("committed");
    assert!(said.is_none() || fetches > 0, "it goes on");
}

#[test]
fn a_process_killed_at_any_call_has_all_that_it_acknowledged() {
    // All states, as reported by a child that is not stopped.
    let folder = tempfile::tempdir().expect("a folder");
    let states = all_states(folder.path());
    let (mut kills, mut at_work) = (0, 0);
    for call in (0..).map(|nth: u64| if nth < 30 { nth } else { 30 + (nth - 30) * 5 }) {
        let folder = tempfile::tempdir().expect("a folder");
        let (said, is_stopped) = kill_at(folder.path(), call);
        if !is_stopped {
            break;
        }
        let at = said.as_ref().and_then(|said| states.iter().position(|state| state == said));
        assert_eq!(said.is_some(), at.is_some(), "call {call}: the child crawls as ever");
        judge(folder.path(), call, said.as_deref(), at.and_then(|at| states.get(at + 1)).map(|next| &next[..]));
        kills += 1;
        at_work += u64::from(said.is_some());
    }
    assert!(kills > 60 && at_work > 30, "{kills} {at_work}");
}

fn all_states(folder: &Path) -> Vec<String> {
    let me = std::env::current_exe().expect("this binary");
    let output = Command::new(me)
        .args(["--exact", "kill::the_child_crawls_and_says_what_is_committed", "--nocapture"])
        .env(FOLDER, folder)
        .env(CALL, u64::MAX.to_string())
        .output()
        .expect("run");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains(DONE), "{text}");
    let is_state = |line: &&str| line.split(' ').count() == 4 && line.starts_with(|first: char| first.is_ascii_digit());
    text.lines().filter(is_state).map(str::to_owned).collect()
}
