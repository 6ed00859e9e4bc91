//! Failing hosts, pages brought back, and wrong clocks.

use std::collections::BTreeSet;

use super::*;

const DAY_MS: i64 = 24 * 3_600_000;

fn fails(frontier: &mut Frontier, now_ms: i64, remedy: Remedy) -> Assignment {
    let assignment = fetch(frontier, now_ms);
    frontier.failed(assignment.page, &Failure { remedy, ..failure(FailureKind::Connect) }, now_ms).expect("told");
    assignment
}

/// Earliest time at which the next page may be fetched.
fn opens_at(frontier: &mut Frontier, mut now_ms: i64) -> i64 {
    loop {
        match frontier.next(now_ms).expect("answered") {
            Next::Fetch(assignment) => {
                frontier.release(assignment.page).expect("given back");
                return now_ms;
            }
            Next::Wait { until_ms } => now_ms = until_ms,
            other => panic!("{other:?}"),
        }
    }
}

#[track_caller]
fn wait(frontier: &mut Frontier, now_ms: i64) -> i64 {
    match frontier.next(now_ms).expect("answered") {
        Next::Wait { until_ms } => until_ms,
        other => panic!("{other:?}"),
    }
}

fn many(pages: u32) -> Vec<String> {
    (0..pages).map(|page| format!("http://a.example/{page}")).collect()
}

#[test]
fn a_host_that_fails_rests_longer_each_time_and_its_pages_stay_queued() {
    let (_disk, mut frontier) = made(options().attempts_max(2).host_rest_ms(1_000, 4_000));
    frontier.seed(&many(5), 0).expect("seeded");
    frontier.seed(&["http://b.example/"], 0).expect("seeded");
    let (mut now_ms, mut asked) = (0, Vec::new());
    for rest_ms in [1_000, 2_000, 4_000, 4_000] {
        asked.push(fails(&mut frontier, now_ms, Remedy::HostRests).url);
        // No other host waits for it.
        if let Next::Fetch(other) = frontier.next(now_ms).expect("answered") {
            assert_eq!(other.url, "http://b.example/");
            done(&mut frontier, other.page, now_ms, &[]);
        }
        assert!(wait(&mut frontier, now_ms) > now_ms);
        assert_eq!(opens_at(&mut frontier, now_ms), now_ms + rest_ms);
        now_ms += rest_ms;
    }
    // The page may be the broken part: another is tried each time.
    assert!(asked.windows(2).all(|two| two[0] != two[1]), "{asked:?}");
    assert_eq!((frontier.stats().queued, frontier.stats().gone), (5, 0));
    let state = state_of(&frontier, &asked[0]);
    assert_eq!((state.failed_attempts, state.last_failure), (0, Some(FailureKind::Connect)));
    // An answer ends the outage, and the next failure counts as the first.
    let next = fetch(&mut frontier, now_ms);
    done(&mut frontier, next.page, now_ms, &[]);
    fails(&mut frontier, now_ms, Remedy::HostRests);
    assert_eq!(opens_at(&mut frontier, now_ms), now_ms + 1_000);
}

#[test]
fn fetches_that_fail_together_are_one_outage() {
    let (_disk, mut frontier) = made(options().host_rest_ms(1_000, 60_000));
    frontier.seed(&many(8), 0).expect("seeded");
    let flying: Vec<Assignment> = (0..8).map(|_| fetch(&mut frontier, 0)).collect();
    let down = Failure { remedy: Remedy::HostRests, ..failure(FailureKind::Connect) };
    for (number, assignment) in flying.iter().enumerate() {
        frontier.failed(assignment.page, &down, number as i64).expect("told");
    }
    assert_eq!(frontier.hosts().next().expect("a host").failing.map(|failing| failing.rests), Some(1));
    assert!(wait(&mut frontier, 8) <= 2_000);
}

#[test]
fn pages_that_fail_in_a_row_are_the_hosts_fault_until_one_is_answered() {
    let (_disk, mut frontier) = made(options().host_failures_max(3).attempts_max(2).backoff_ms(60_000, 60_000));
    frontier.seed(&many(6), 0).expect("seeded");
    let counted: Vec<u8> = (0..3)
        .map(|_| {
            let url = fails(&mut frontier, 0, Remedy::Retry).url;
            state_of(&frontier, &url).failed_attempts
        })
        .collect();
    assert_eq!(counted, [1, 1, 1]);
    // The host rests shortly; the attempt counts, since the page may be at fault.
    let fourth = fails(&mut frontier, 0, Remedy::Retry);
    assert_eq!(state_of(&frontier, &fourth.url).failed_attempts, 1);
    assert_eq!(wait(&mut frontier, 0), 2_000);
    // A status of 404 is an answer.
    let fifth = fetch(&mut frontier, 2_000);
    let missing = Failure { remedy: Remedy::GiveUp, ..failure(FailureKind::ClientStatus) };
    frontier.failed(fifth.page, &missing, 2_000).expect("told");
    let sixth = fails(&mut frontier, 2_000, Remedy::Retry);
    assert_eq!(state_of(&frontier, &sixth.url).failed_attempts, 1);
}

#[test]
fn what_is_queued_of_a_host_that_is_down_too_long_is_given_up_by_name_and_can_be_brought_back() {
    let options = || options().host_rest_ms(DAY_MS as u64, DAY_MS as u64).host_down_ms(3 * DAY_MS as u64);
    let (disk, mut frontier) = made(options());
    frontier.seed(&many(9), 0).expect("seeded");
    let mut now_ms = 0;
    for _ in 0..3 {
        fails(&mut frontier, now_ms, Remedy::HostRests);
        now_ms = opens_at(&mut frontier, now_ms);
        assert_eq!(frontier.stats().gone, 0);
    }
    assert_eq!(now_ms, 3 * DAY_MS);
    fails(&mut frontier, now_ms, Remedy::HostRests);
    // One page waits for its own turn, and is then given up.
    now_ms = opens_at(&mut frontier, now_ms);
    fails(&mut frontier, now_ms, Remedy::HostRests);
    assert_eq!((frontier.next(now_ms).expect("answered"), frontier.stats().gone), (Next::Empty, 9));
    assert_eq!(state_of(&frontier, "http://a.example/3").last_failure, Some(FailureKind::HostDown));
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
    assert!(matches!(frontier.retry(&[PageId::new(9)]), Err(Error::NoSuchPage { page: 9 })));
    assert_eq!(frontier.retry(&[PageId::new(3), PageId::new(4), PageId::new(3)]).expect("told"), 2);
    frontier.commit().expect("committed");
    drop(frontier);
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!((frontier.stats().gone, frontier.stats().queued), (7, 2));
    // The host has its full time again.
    fails(&mut frontier, now_ms, Remedy::HostRests);
    assert_eq!((frontier.stats().gone, opens_at(&mut frontier, now_ms)), (7, now_ms + DAY_MS));
    assert_eq!(frontier.hosts().next().expect("a host").failing.map(|failing| failing.rests), Some(1));
}

#[test]
fn hosts_that_are_woken_are_asked_at_once_also_for_pages_that_wait() {
    let (_disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let mut now_ms = 0;
    for _ in 0..12 {
        fails(&mut frontier, now_ms, Remedy::HostRests);
        now_ms = opens_at(&mut frontier, now_ms);
    }
    fails(&mut frontier, now_ms, Remedy::HostRests);
    let wakes = now_ms + 10;
    assert!(wait(&mut frontier, wakes) > wakes + 60_000);
    assert_eq!(frontier.wake(Some("c.example"), wakes).expect("told"), 0);
    assert_eq!(frontier.wake(None, wakes).expect("told"), 1);
    fails(&mut frontier, wakes, Remedy::HostRests);
    // Its count of failures is kept.
    assert!(opens_at(&mut frontier, wakes) > wakes + 60_000);
}

/// Regression: two broken pages took turns for ever, and all others were given up after a week.
#[test]
fn pages_that_are_broken_hold_up_none_that_are_not() {
    let (_disk, mut frontier) = made(FrontierOptions::new());
    frontier.seed(&many(100), 0).expect("seeded");
    let (mut now_ms, mut fetched) = (0, 0);
    loop {
        match frontier.next(now_ms).expect("answered") {
            Next::Fetch(assignment) if assignment.page.number() < 40 => {
                frontier.failed(assignment.page, &failure(FailureKind::ServerStatus), now_ms).expect("told");
            }
            Next::Fetch(assignment) => {
                fetched += 1;
                done(&mut frontier, assignment.page, now_ms, &[]);
                if fetched == 60 {
                    break;
                }
            }
            Next::Wait { until_ms } => now_ms = until_ms,
            other => panic!("{other:?}"),
        }
    }
    assert!(now_ms < DAY_MS / 12, "{} minutes", now_ms / 60_000);
    while let Ok(next @ (Next::Fetch(_) | Next::Wait { .. })) = frontier.next(now_ms) {
        match next {
            Next::Fetch(assignment) => {
                frontier.failed(assignment.page, &failure(FailureKind::ServerStatus), now_ms).expect("told");
            }
            Next::Wait { until_ms } => now_ms = until_ms,
            _ => unreachable!("matched above"),
        }
    }
    // The broken pages are given up for their own failures, after days.
    let counts = frontier.counts().expect("read");
    assert!(counts.contains(&(PageStatus::Gone, Some(FailureKind::ServerStatus), 40)), "{counts:?}");
    assert!((2 * DAY_MS..6 * DAY_MS).contains(&now_ms), "{} days", now_ms / DAY_MS);
}

#[test]
fn a_time_in_which_nobody_asked_is_no_silence() {
    let (disk, mut frontier) = made(options());
    frontier.seed(&many(20), 0).expect("seeded");
    fails(&mut frontier, 0, Remedy::HostRests);
    frontier.close().expect("closed");
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    let later = 30 * DAY_MS;
    frontier.wake(None, later).expect("told");
    fails(&mut frontier, later, Remedy::HostRests);
    assert_eq!((frontier.stats().gone, opens_at(&mut frontier, later)), (0, later + 4_000));
}

#[test]
fn a_host_that_may_fail_for_ever_loses_nothing() {
    let (_disk, mut frontier) = made(options().host_down_ms(u64::MAX).host_rest_ms(u64::MAX, u64::MAX));
    frontier.seed(&many(3), 0).expect("seeded");
    fails(&mut frontier, i64::MAX - 1, Remedy::HostRests);
    assert_eq!(frontier.stats().gone, 0);
}

#[test]
fn half_an_answer_is_an_answer_after_a_replay_too() {
    let (disk, mut frontier) = made(options());
    frontier.seed(&many(3), 0).expect("seeded");
    fails(&mut frontier, 1_000, Remedy::HostRests);
    fails(&mut frontier, 9_000, Remedy::RetryPage);
    assert_eq!(frontier.hosts().next().expect("a host").failing, None);
    frontier.commit().expect("committed");
    drop(frontier);
    let frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(frontier.hosts().next().expect("a host").failing, None);
}

/// A page claimed at a shared set would be `seen` there if requested under another id.
#[test]
fn a_page_that_is_retried_counts_as_tried_unless_another_crawl_has_it() {
    let (_disk, mut frontier) = made(options());
    frontier.seed(&many(2), 0).expect("seeded");
    for kind in [FailureKind::ServerStatus, FailureKind::Elsewhere] {
        let assignment = fetch(&mut frontier, 0);
        frontier.failed(assignment.page, &Failure { remedy: Remedy::GiveUp, ..failure(kind) }, 0).expect("told");
    }
    assert_eq!(frontier.retry(&[PageId::new(0), PageId::new(1)]).expect("told"), 2);
    let mut attempts: Vec<u8> = (0..2).map(|_| fetch(&mut frontier, 0).failed_attempts).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [0, 1]);
}

#[test]
fn a_host_rests_on_after_a_restart_and_a_snapshot() {
    let options = || options().host_rest_ms(50_000, 400_000).journal_bytes_min(4096);
    let (disk, mut frontier) = made(options());
    frontier.seed(&many(4), 0).expect("seeded");
    fails(&mut frontier, 1_000, Remedy::HostRests);
    // Enough URLs for a snapshot.
    frontier
        .seed(&(0..200).map(|n| format!("http://b{n}.example/{}", "x".repeat(99))).collect::<Vec<_>>(), 0)
        .expect("seeded");
    frontier.commit().expect("committed");
    assert!(disk.names().iter().any(|name| name == "frontier.2.journal"), "{:?}", disk.names());
    drop(frontier);
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    let failing = frontier.hosts().next().expect("a host").failing.expect("it fails");
    assert_eq!((failing.since_ms, failing.rests, failing.until_ms), (1_000, 1, 51_000));
    let asked: BTreeSet<String> = std::iter::from_fn(|| match frontier.next(50_000).expect("answered") {
        Next::Fetch(assignment) => Some(assignment.url),
        _ => None,
    })
    .collect();
    assert!(asked.len() == 200 && !asked.iter().any(|url| url.contains("a.example")));
}

/// Ten outages of random length in a crawl of a hundred pages that link on.
#[test]
fn a_crawl_through_outages_ends_with_the_pages_of_one_without() {
    let links = |page: u32| [2 * page + 1, 2 * page + 2].into_iter().filter(|page| *page < 200);
    let url = |page: u32| format!("http://h{}.example/{page}", page % 3);
    for seed in 0..20 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (_disk, mut frontier) = made(FrontierOptions::new());
        frontier.seed(&[url(0)], 0).expect("seeded");
        let (mut now_ms, mut fetched, mut failures) = (0, BTreeSet::new(), 0);
        let outages: Vec<(u32, i64, i64)> = (0..10)
            .map(|_| (rng.u32(..3), rng.i64(0..100_000), rng.i64(1..300) * 1000))
            .map(|(host, from, lasts)| (host, from, from + lasts))
            .collect();
        loop {
            let assignment = match frontier.next(now_ms).expect("answered") {
                Next::Fetch(assignment) => assignment,
                Next::Wait { until_ms } => {
                    assert!(until_ms - now_ms < 600_000, "{until_ms} {now_ms}");
                    now_ms = until_ms;
                    continue;
                }
                _ => break,
            };
            let page: u32 = assignment.url.rsplit('/').next().and_then(|page| page.parse().ok()).expect("a number");
            let is_down = outages.iter().any(|(host, from, to)| *host == page % 3 && (*from..*to).contains(&now_ms));
            if is_down {
                // With a gateway's status, or without a connection.
                let remedy = if seed % 2 == 0 { Remedy::HostRests } else { Remedy::Retry };
                let kind = if seed % 2 == 0 { FailureKind::Connect } else { FailureKind::ServerStatus };
                frontier.failed(assignment.page, &Failure { remedy, ..failure(kind) }, now_ms).expect("told");
                failures += 1;
                continue;
            }
            fetched.insert(page);
            let links: Vec<String> = links(page).map(url).collect();
            done(&mut frontier, assignment.page, now_ms, &links.iter().map(|link| &link[..]).collect::<Vec<&str>>());
        }
        assert!(failures > 0, "seed {seed}");
        assert_eq!((fetched.len(), frontier.stats().gone), (200, 0), "seed {seed}, {failures} failures");
    }
}

#[test]
fn a_clock_that_was_ahead_for_once_holds_nothing_up() {
    let ahead = 10 * 365 * DAY_MS;
    let now_ms = 1 << 40;
    let recrawl = Recrawl::new().first_ms(8_000).min_ms(3_000).max_ms(20_000);
    let options = || FrontierOptions::new().delay_ms(5_000).recrawl(Some(recrawl));
    for reopens in [false, true] {
        let (disk, mut frontier) = made(options());
        frontier.seed(&[many(2), vec!["http://b.example/".to_owned()]].concat(), now_ms).expect("seeded");
        frontier.host_hold("c.example", now_ms + ahead).expect("told");
        frontier.seed(&["http://c.example/"], now_ms).expect("seeded");
        let first = fetch(&mut frontier, now_ms + ahead);
        done(&mut frontier, first.page, now_ms + ahead, &[]);
        fails(&mut frontier, now_ms + ahead, Remedy::HostRests);
        if reopens {
            frontier.close().expect("closed");
            frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
        }
        // The delay and the rest run from now on; the hold is cut to the longest rest.
        let (mut at_ms, mut asked) = (now_ms + 10, BTreeSet::new());
        while asked.len() < 5 {
            match frontier.next(at_ms).expect("answered") {
                Next::Fetch(assignment) => {
                    asked.insert((assignment.url, assignment.is_refresh));
                    done(&mut frontier, assignment.page, at_ms, &[]);
                }
                Next::Wait { until_ms } => {
                    assert!(until_ms > at_ms && until_ms <= now_ms + 2 * DAY_MS, "{until_ms}, {}", until_ms - now_ms);
                    at_ms = until_ms;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(at_ms <= now_ms + 3 * DAY_MS, "{}", at_ms - now_ms);
        assert!(asked.iter().any(|(url, _)| url == "http://c.example/"));
    }
}

/// A host's next request must wait for its delay, even one learnt after the last request.
#[test]
fn a_delay_that_is_learnt_with_a_page_holds_after_a_restart() {
    for closes in [true, false] {
        let (disk, mut frontier) = made(options());
        frontier.seed(&many(2), 0).expect("seeded");
        let first = fetch(&mut frontier, 1_000);
        frontier.host_delay("a.example", Some(10_000)).expect("told");
        done(&mut frontier, first.page, 1_050, &[]);
        if closes {
            frontier.close().expect("closed");
        } else {
            frontier.commit().expect("committed");
            drop(frontier);
        }
        let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
        assert!(wait(&mut frontier, 1_060) >= 11_000);
    }
}
