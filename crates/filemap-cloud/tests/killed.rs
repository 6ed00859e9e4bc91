//! Kills a process that puts pages with SIGKILL, repeatedly: every page that was reported as safe
//! must be found by the next owner, and the store must be undamaged. Runs only in a real object
//! storage, in the bucket of `FILEMAP_S3`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use filemap::access::PutRule;
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::Mode;

use crate::as_store::{locations, opened};

const ROUNDS: u64 = 15;
const PAGES_A_SYNC: u64 = 20;

fn page(round: u64, nth: u64) -> Page {
    let url = format!("http://{}.example/{round}/{nth}", nth % 3);
    Page::new(url, 1_700_000_000_000, 200, format!("body {nth} ").repeat(nth as usize % 500))
}

/// The process to kill: this test in a separate process.
#[test]
#[ignore = "it is started by the test below, and puts until it is killed"]
fn puts_until_it_is_killed() {
    let (Ok(location), Ok(round)) = (std::env::var("FILEMAP_PUT_TO"), std::env::var("FILEMAP_ROUND")) else { return };
    let round = round.parse().expect("a number");
    let store = opened(&location, Mode::Fill);
    for nth in 0.. {
        store.put(&page(round, nth), PutRule::Always).expect("stored");
        if nth % PAGES_A_SYNC == PAGES_A_SYNC - 1 {
            store.sync().expect("synced");
            println!("synced {}", nth + 1);
        }
    }
}

/// Starts a process that puts, and kills it after a while. Returns the pages that it reported as
/// safe.
fn killed(location: &str, round: u64, after: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "killed::puts_until_it_is_killed", "--ignored", "--nocapture"])
        .env("FILEMAP_PUT_TO", location)
        .env("FILEMAP_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let reader = std::thread::spawn(move || {
        let told = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("synced ")?.parse().ok());
        told.last().unwrap_or(0)
    });
    std::thread::sleep(after);
    child.kill().expect("killed");
    child.wait().expect("ended");
    reader.join().expect("no panic")
}

#[test]
fn a_killed_process_has_lost_nothing_that_it_was_told_is_safe() {
    let Some(location) = locations("killed").into_iter().find(|location| location.starts_with("s3://")) else {
        eprintln!("skipped: FILEMAP_S3 names no bucket");
        return;
    };
    let mut random = fastrand::Rng::with_seed(7);
    let mut safe = Vec::new();
    for round in 0..ROUNDS {
        safe.push(killed(&location, round, Duration::from_millis(random.u64(300..2500))));
        let store = opened(&location, Mode::Write);
        for (round, pages) in safe.iter().enumerate() {
            // The pages put last are at risk; the end checks all of them.
            let from = if round as u64 + 1 == ROUNDS { 0 } else { pages.saturating_sub(3 * PAGES_A_SYNC) };
            for nth in from..*pages {
                let page = page(round as u64, nth);
                assert_eq!(store.get(&Lookup::new(&page.url)).expect("readable"), Some(page), "round {round}");
            }
        }
        store.close().expect("closed");
    }
    assert!(safe.iter().sum::<u64>() > 0, "no process came as far as a sync");
    let store = opened(&location, Mode::Read);
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
}
