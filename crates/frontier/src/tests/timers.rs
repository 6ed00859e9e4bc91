//! Waiting pages with few timers in memory: each comes due and is fetched once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use filemap_io::sim::{Level, Loss};

use super::*;
use crate::failpoint::{Failpoint, plant};

const HOUR_MS: i64 = 3_600_000;

/// Recrawls every page after an hour; 32 timers in 4 KiB.
fn hourly(memory_bytes: u64) -> FrontierOptions {
    let recrawl = Recrawl::new().first_ms(HOUR_MS as u64).min_ms(HOUR_MS as u64).max_ms(HOUR_MS as u64);
    options().recrawl(Some(recrawl)).memory_bytes(memory_bytes).journal_bytes_min(1 << 16)
}

fn url(page: usize) -> String {
    format!("http://h{}.example/{page}", page % 7)
}

/// Fetches each of some pages three times, 20 a second; returns pages and times in order, and the
/// maximum number of timers in memory. The queues of hosts have all pages, so only timers are left
/// out.
fn crawl(pages: usize, timers_max: usize) -> (Vec<(u32, i64)>, usize) {
    let (_disk, mut frontier) = made(hourly(1 << 24));
    frontier.state.limit(timers_max, 1 << 16);
    frontier.seed(&(0..pages).map(url).collect::<Vec<_>>(), 0).expect("seeded");
    let (mut now_ms, mut fetched, mut most) = (0, Vec::new(), 0);
    while fetched.len() < 3 * pages {
        match frontier.next(now_ms).expect("answered") {
            Next::Fetch(assignment) => {
                fetched.push((assignment.page.number(), now_ms));
                done(&mut frontier, assignment.page, now_ms, &[]);
                now_ms += 50;
            }
            Next::Wait { until_ms } => {
                assert!(until_ms > now_ms);
                now_ms = until_ms;
            }
            other => panic!("{other:?}"),
        }
        most = most.max(frontier.state.queue.timers.iter().len());
        if fetched.len().is_multiple_of(100) {
            frontier.commit().expect("committed");
        }
    }
    (fetched, most)
}

#[test]
fn with_few_timers_in_memory_pages_are_fetched_again_at_the_same_times_and_in_the_same_order() {
    let pages = 2_000;
    let ((much, all), (little, few)) = (crawl(pages, 1 << 20), crawl(pages, 32));
    assert!(all >= pages && few <= 32, "{all} {few}");
    assert_eq!(much.iter().zip(&little).position(|(much, little)| much != little), None);
    let mut times = BTreeMap::<u32, Vec<i64>>::new();
    little.iter().for_each(|(page, at_ms)| times.entry(*page).or_default().push(*at_ms));
    assert_eq!(times.len(), pages);
    for (page, times) in times {
        assert_eq!(times.len(), 3, "page {page}");
        assert!(times.windows(2).all(|two| (HOUR_MS..HOUR_MS + 2_000).contains(&(two[1] - two[0]))), "{times:?}");
    }
}

/// Two hundred pages fetched at 0, most without a timer in memory.
fn fetched(options: FrontierOptions) -> (SimDisk, Frontier) {
    let (disk, mut frontier) = made(options);
    frontier.seed(&(0..200).map(url).collect::<Vec<_>>(), 0).expect("seeded");
    for _ in 0..200 {
        let page = fetch(&mut frontier, 0).page;
        done(&mut frontier, page, i64::from(page.number()) * 1_000, &[]);
    }
    assert!(frontier.state.queue.timers.left_out().first.is_some());
    (disk, frontier)
}

fn rest(frontier: &mut Frontier, now_ms: i64) -> usize {
    let mut pages = BTreeSet::new();
    while let Next::Fetch(assignment) = frontier.next(now_ms).expect("answered") {
        assert!(pages.insert(assignment.page), "{} comes twice", assignment.url);
    }
    pages.len()
}

#[test]
fn pages_without_a_timer_in_memory_are_due_at_once_after_a_long_pause_and_after_an_opening() {
    let (disk, mut frontier) = fetched(hourly(4096));
    assert_eq!(frontier.next(199_000).expect("answered"), Next::Wait { until_ms: HOUR_MS });
    frontier.commit().expect("committed");
    drop(frontier);
    let mut frontier = Frontier::open_in(disk.dir(), hourly(4096)).expect("opened");
    assert_eq!(frontier.next(200_000).expect("answered"), Next::Wait { until_ms: HOUR_MS });
    assert_eq!(rest(&mut frontier, HOUR_MS + 99_000), 100);
    assert_eq!(rest(&mut frontier, 9 * HOUR_MS), 100);
}

#[test]
fn a_clock_that_is_put_back_shortens_the_waits_of_pages_without_a_timer_in_memory() {
    let (_disk, mut frontier) = fetched(hourly(4096));
    frontier.next(40 * HOUR_MS).expect("answered");
    rest(&mut frontier, 40 * HOUR_MS);
    for page in 0..200 {
        done(&mut frontier, PageId::new(page), 40 * HOUR_MS, &[]);
    }
    // No wait exceeds the longest one from now: an hour for a recrawl, two days for two rests.
    assert_eq!(frontier.next(HOUR_MS).expect("answered"), Next::Wait { until_ms: 41 * HOUR_MS });
    frontier.next(-1).expect("answered");
    assert_eq!(rest(&mut frontier, 48 * HOUR_MS), 200);
}

#[test]
fn a_hint_a_page_before_its_turn_and_hosts_that_are_woken_count_for_pages_without_a_timer_in_memory() {
    let (_disk, mut frontier) = fetched(hourly(4096));
    let last = url(199);
    let hint = Hint { key: &last, changed_ms: Some(199_500), every_ms: None };
    let first = state_of(&frontier, &last).due_ms;
    assert_eq!((first, frontier.hint(&[hint], 200_000).expect("told")), (Some(HOUR_MS + 199_000), 1));
    let hinted = fetch(&mut frontier, 200_000);
    assert_eq!(hinted.url, last);
    let early = PageId::new(150);
    assert!(matches!(frontier.next_of(early, 200_000).expect("answered"), Next::Fetch(_)));
    done(&mut frontier, early, 200_000, &[]);
    done(&mut frontier, hinted.page, 200_000, &[]);
    assert_eq!(rest(&mut frontier, HOUR_MS + 199_999), 198);
    assert_eq!(rest(&mut frontier, HOUR_MS + 200_000), 2);
    let (_disk, mut frontier) = made(options().memory_bytes(4096).host_rest_ms(1_000_000, 1_000_000));
    frontier.seed(&(0..200).map(url).collect::<Vec<_>>(), 0).expect("seeded");
    let pages: Vec<PageId> = (0..100).map(|_| fetch(&mut frontier, 0).page).collect();
    let down = Failure { remedy: Remedy::HostRests, ..failure(FailureKind::Timeout) };
    pages.iter().for_each(|page| frontier.failed(*page, &down, 0).expect("told"));
    assert!(frontier.state.queue.timers.left_out().first.is_some());
    let others = rest(&mut frontier, 1_000);
    assert!(frontier.wake(None, 2_000).expect("told") >= 3);
    assert_eq!((others < 100, rest(&mut frontier, 2_000)), (true, 200 - others));
}

#[test]
fn nobody_waits_for_a_page_without_a_timer_in_memory_that_was_taken_before_its_turn() {
    let (_disk, mut frontier) = fetched(hourly(4096));
    let first = frontier.state.queue.timers.left_out().first.expect("some are left out");
    let (early, due_ms) = (PageId::new(first as u32), (first >> 32) as i64 * 1_000);
    assert!(matches!(frontier.next_of(early, 200_000).expect("answered"), Next::Fetch(_)));
    done(&mut frontier, early, 200_000, &[]);
    assert_eq!(rest(&mut frontier, due_ms - 1) as u32, early.number());
    assert_eq!(frontier.next(due_ms - 1).expect("answered"), Next::Wait { until_ms: due_ms + 1_000 });
    assert_eq!(rest(&mut frontier, 9 * HOUR_MS) as u32, 200 - early.number());
}

/// One life with crashes at many moments; returns the first violation.
fn live(seed: u64) -> std::result::Result<u64, String> {
    let disk = SimDisk::new(seed);
    let small = || hourly(4096).journal_bytes_min(4096);
    let mut frontier = Frontier::create_in(disk.dir(), small()).expect("made");
    let mut rng = fastrand::Rng::with_seed(seed);
    let judged = Arc::new(Mutex::new(Ok(0)));
    let (judged_then, mut chance) = (Arc::clone(&judged), rng.fork());
    disk.observe(Some(Box::new(move |snapshot| {
        let mut judged = judged_then.lock().expect("one thread");
        let Ok(images) = &mut *judged else { return };
        if chance.u8(..8) > 0 {
            return;
        }
        *images += 1;
        let image = snapshot.crash(Level::Adversarial, Loss::ALL[chance.usize(..4)], chance.u64(..));
        // The file's name may not be durable.
        let Ok(mut frontier) = Frontier::open_in(image.dir(), small()) else { return };
        let all = frontier.pages();
        let found = opening::judge_queues(&frontier);
        let handed = found.as_ref().map_or(0, |()| rest(&mut frontier, 1 << 40)) as u32;
        if found.is_err() || handed != all {
            *judged = Err(format!("{found:?}; {handed} of {all} pages come again"));
        }
    })));
    let mut now_ms = 0i64;
    for step in 0..600 {
        if step % 4 == 0 {
            frontier.seed(&[url(rng.usize(..400))], now_ms).expect("seeded");
        }
        now_ms += rng.i64(0..90_000);
        let Next::Fetch(assignment) = frontier.next(now_ms).expect("answered") else { continue };
        match rng.u8(..6) {
            0 => frontier.failed(assignment.page, &failure(FailureKind::ServerStatus), now_ms).expect("told"),
            _ => drop(done(&mut frontier, assignment.page, now_ms, &[&url(rng.usize(..400))])),
        }
        if step % 10 == 0 {
            frontier.commit().expect("committed");
        }
    }
    disk.observe(None);
    std::mem::replace(&mut *judged.lock().expect("one thread"), Ok(0))
}

#[test]
fn every_page_comes_due_after_a_crash_at_any_moment() {
    let images: u64 = (0..6).map(|seed| live(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"))).sum();
    assert!(images > 100, "{images}");
    plant(Some(Failpoint::LeftOutDropped));
    let found = (0..6).find_map(|seed| live(seed).err());
    plant(None);
    assert!(found.is_some(), "timers that a snapshot does not have are not missed");
}
