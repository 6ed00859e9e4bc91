//! The time at which a page may be fetched: delays, connections, holds, retries, recrawls.

use super::*;

fn wait(frontier: &mut Frontier, now_ms: i64) -> i64 {
    match frontier.next(now_ms).expect("answered") {
        Next::Wait { until_ms } => until_ms,
        other => panic!("{other:?}"),
    }
}

const A: [&str; 3] = ["http://a.example/1", "http://a.example/2", "http://a.example/3"];

#[test]
fn a_host_is_asked_once_in_its_delay_and_by_one_connection() {
    let (_disk, mut frontier) = made(FrontierOptions::new());
    frontier.seed(&A, 10_000).expect("seeded");
    frontier.seed(&["http://b.example/"], 10_000).expect("seeded");
    let first = fetch(&mut frontier, 10_000);
    let other = fetch(&mut frontier, 10_000);
    assert_ne!(first.url.as_bytes()[7], other.url.as_bytes()[7]);
    assert_eq!(frontier.next(20_000).expect("answered"), Next::InFlight);
    done(&mut frontier, first.page, 20_000, &[]);
    done(&mut frontier, other.page, 20_000, &[]);
    // The delay began with the fetch, and has ended.
    let second = fetch(&mut frontier, 20_000);
    done(&mut frontier, second.page, 20_100, &[]);
    assert_eq!(wait(&mut frontier, 20_100), 21_000);
    assert_eq!(wait(&mut frontier, 20_999), 21_000);
    let third = fetch(&mut frontier, 21_000);
    done(&mut frontier, third.page, 21_000, &[]);
    assert_eq!(frontier.next(21_000).expect("answered"), Next::Empty);
}

#[test]
fn several_connections_are_in_flight_at_once_when_that_is_asked_for() {
    let (_disk, mut frontier) = made(FrontierOptions::new().connections(2).delay_ms(100));
    frontier.seed(&A, 0).expect("seeded");
    let first = fetch(&mut frontier, 0);
    assert_eq!(wait(&mut frontier, 0), 100);
    let _second = fetch(&mut frontier, 100);
    assert_eq!(frontier.next(5_000).expect("answered"), Next::InFlight);
    done(&mut frontier, first.page, 5_000, &[]);
    fetch(&mut frontier, 5_000);
}

#[test]
fn a_delay_and_a_hold_of_a_host_are_kept_and_heeded() {
    let (disk, mut frontier) = made(FrontierOptions::new());
    frontier.host_delay("a.example", Some(30_000)).expect("told");
    frontier.seed(&A, 0).expect("seeded");
    let first = fetch(&mut frontier, 0);
    frontier.host_hold("a.example", 50_000).expect("told");
    done(&mut frontier, first.page, 100, &[]);
    assert_eq!(wait(&mut frontier, 100), 50_000);
    frontier.commit().expect("committed");
    drop(frontier);
    let mut frontier = Frontier::open_in(disk.dir(), FrontierOptions::new()).expect("opened");
    assert_eq!(wait(&mut frontier, 100), 50_000);
    let second = fetch(&mut frontier, 50_000);
    done(&mut frontier, second.page, 50_000, &[]);
    assert_eq!(wait(&mut frontier, 50_000), 80_000);
    frontier.host_delay("a.example", None).expect("told");
    assert_eq!(wait(&mut frontier, 50_000), 51_000);
}

#[test]
fn a_page_that_fails_is_tried_again_later_and_later_and_given_up() {
    let (_disk, mut frontier) = made(options().attempts_max(3).backoff_ms(1_000, 1_500));
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let mut now_ms = 0;
    for (attempt, waits_ms) in [(0, 1_000), (1, 2_000)] {
        let assignment = fetch(&mut frontier, now_ms);
        assert_eq!(assignment.failed_attempts, attempt);
        frontier.failed(assignment.page, &failure(FailureKind::Timeout), now_ms).expect("told");
        let state = state_of(&frontier, "http://a.example/");
        assert_eq!((state.status, state.last_failure), (PageStatus::Retrying, Some(FailureKind::Timeout)));
        // The second wait is the longest: 1.5 seconds, rounded up to whole seconds.
        now_ms += waits_ms;
        assert_eq!(state.due_ms, Some(now_ms));
        assert_eq!(wait(&mut frontier, now_ms - 1), now_ms);
    }
    let last = fetch(&mut frontier, now_ms);
    frontier.failed(last.page, &failure(FailureKind::Connect), now_ms).expect("told");
    assert_eq!(frontier.next(now_ms + 9_999_999).expect("answered"), Next::Empty);
    assert_eq!(state_of(&frontier, "http://a.example/").status, PageStatus::Gone);
    assert_eq!((frontier.stats().gone, frontier.stats().failures), (1, 3));
}

#[test]
fn a_seed_that_was_given_up_is_tried_again_when_it_is_seeded_again() {
    let (disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/", "http://b.example/"], 0).expect("seeded");
    let gone = Failure { remedy: Remedy::GiveUp, ..failure(FailureKind::Refused) };
    for now_ms in [0, 10_000] {
        let page = fetch(&mut frontier, now_ms).page;
        frontier.failed(page, &gone, now_ms).expect("told");
    }
    assert_eq!((frontier.next(20_000).expect("answered"), frontier.stats().gone), (Next::Empty, 2));
    assert_eq!(frontier.seed(&["http://a.example/"], 20_000).expect("seeded"), 0);
    // At once, and after a replay.
    for now_ms in [30_000, 40_000] {
        assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
        assert!(state_of(&frontier, "http://a.example/").credit > 0.0);
        let again = fetch(&mut frontier, now_ms);
        assert_eq!((&again.url[..], again.failed_attempts, again.is_refresh), ("http://a.example/", 0, false));
        assert_eq!((frontier.next(now_ms).expect("answered"), frontier.stats().gone), (Next::InFlight, 1));
        frontier.commit().expect("committed");
        drop(frontier);
        frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    }
}

#[test]
fn a_host_that_asks_for_patience_is_given_it() {
    let (_disk, mut frontier) = made(options().backoff_ms(1_000, 1_000));
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let assignment = fetch(&mut frontier, 0);
    let busy = Failure { retry_after_ms: Some(120_000), ..failure(FailureKind::Busy) };
    frontier.failed(assignment.page, &busy, 0).expect("told");
    assert_eq!(wait(&mut frontier, 0), 120_000);
    assert_eq!(fetch(&mut frontier, 120_000).failed_attempts, 1);
}

#[test]
fn a_page_that_changes_is_fetched_again_sooner_and_one_that_does_not_later() {
    let recrawl = Recrawl::new().first_ms(8_000).min_ms(3_000).max_ms(20_000);
    let (disk, mut frontier) = made(options().recrawl(Some(recrawl)));
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let mut now_ms = 0;
    let told = |changed, frontier: &mut Frontier, now_ms: &mut i64| {
        let assignment = fetch(frontier, *now_ms);
        let fetched = Fetched { fetched_at_ms: *now_ms, changed, ..Fetched::default() };
        frontier.done(assignment.page, &fetched).expect("told");
        let next_ms = wait(frontier, *now_ms);
        let age_ms = next_ms - *now_ms;
        *now_ms = next_ms;
        (assignment.is_refresh, age_ms)
    };
    let (mut refreshed, mut ages) = (Vec::new(), Vec::new());
    for changed in [None, Some(true), Some(true), Some(true), Some(false), Some(false), Some(false), Some(false), None]
    {
        let (is_refresh, age_ms) = told(changed, &mut frontier, &mut now_ms);
        refreshed.push(is_refresh);
        ages.push(age_ms);
    }
    assert_eq!(ages, [8_000, 4_000, 3_000, 3_000, 4_000, 8_000, 16_000, 20_000, 20_000]);
    assert!(!refreshed[0] && refreshed[1..].iter().all(|is_refresh| *is_refresh));
    frontier.commit().expect("committed");
    drop(frontier);
    // The time is kept; a frontier without recrawls ignores it.
    let mut frontier = Frontier::open_in(disk.dir(), options().recrawl(Some(recrawl))).expect("opened");
    assert_eq!(wait(&mut frontier, now_ms - 1), now_ms);
    drop(frontier);
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(frontier.next(now_ms).expect("answered"), Next::Empty);
}

#[test]
fn a_refresh_that_fails_again_and_again_waits_for_its_next_recrawl() {
    let recrawl = Recrawl::new().first_ms(100_000).min_ms(1_000).max_ms(100_000);
    let (_disk, mut frontier) = made(options().recrawl(Some(recrawl)).attempts_max(2).backoff_ms(1_000, 1_000));
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let page = fetch(&mut frontier, 0).page;
    done(&mut frontier, page, 0, &[]);
    for (now_ms, until_ms) in [(100_000, 101_000), (101_000, 201_000)] {
        assert!(fetch(&mut frontier, now_ms).is_refresh);
        frontier.failed(page, &failure(FailureKind::ServerStatus), now_ms).expect("told");
        assert_eq!(wait(&mut frontier, now_ms), until_ms);
    }
    assert_eq!(state_of(&frontier, "http://a.example/").status, PageStatus::Fetched);
}

#[test]
fn a_page_that_was_there_and_is_missing_is_looked_for_again() {
    let recrawl = Recrawl::new().first_ms(100_000).min_ms(1_000).max_ms(100_000);
    let (_disk, mut frontier) = made(options().recrawl(Some(recrawl)));
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let page = fetch(&mut frontier, 0).page;
    done(&mut frontier, page, 0, &[]);
    let missing = Failure { remedy: Remedy::GiveUp, ..failure(FailureKind::ClientStatus) };
    assert!(fetch(&mut frontier, 100_000).is_refresh);
    frontier.failed(page, &missing, 100_000).expect("told");
    let state = state_of(&frontier, "http://a.example/");
    assert_eq!((state.status, state.last_failure), (PageStatus::Fetched, Some(FailureKind::ClientStatus)));
    assert_eq!(wait(&mut frontier, 100_000), 200_000);
    assert!(fetch(&mut frontier, 200_000).is_refresh);
}

#[test]
fn times_before_1970_count_as_1970() {
    let (disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/"], -5_000).expect("seeded");
    frontier.host_hold("a.example", i64::MIN).expect("told");
    let first = fetch(&mut frontier, i64::MIN);
    frontier.failed(first.page, &failure(FailureKind::Timeout), -1).expect("told");
    frontier.close().expect("closed");
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(state_of(&frontier, "http://a.example/").due_ms, Some(60_000));
    assert_eq!(fetch(&mut frontier, 60_000).failed_attempts, 1);
}

#[test]
fn a_hold_until_the_end_of_time_is_kept() {
    let (disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    frontier.host_hold("a.example", i64::MAX).expect("told");
    frontier.close().expect("closed");
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(wait(&mut frontier, 1 << 40), i64::MAX);
}

/// A crawl with calls in random order: every page is fetched in the end, and no host is ever asked
/// impolitely.
fn any_crawl(seed: u64) -> usize {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (connections, delay_ms) = (rng.u16(1..4), rng.u64(..3) * 700);
    let (_disk, mut frontier) = made(
        FrontierOptions::new().connections(connections).delay_ms(delay_ms).attempts_max(15).backoff_ms(1_000, 4_000),
    );
    let url = |page: u32| format!("http://h{}.example/{page}", page % 7);
    let seeds: Vec<String> = (0..3).map(url).collect();
    frontier.seed(&seeds.iter().map(|seed| &seed[..]).collect::<Vec<&str>>(), 0).expect("seeded");
    let (mut now_ms, mut began) = (0i64, std::collections::HashMap::<String, i64>::new());
    let mut in_flight: Vec<Assignment> = Vec::new();
    let mut fetched = std::collections::BTreeSet::new();
    loop {
        let next = frontier.next(now_ms).expect("answered");
        let ends_one = match &next {
            Next::Fetch(_) => rng.u8(..3) == 0,
            Next::Wait { until_ms } => {
                assert!(*until_ms > now_ms);
                let is_patient = in_flight.is_empty() || rng.bool();
                now_ms = if is_patient { *until_ms } else { now_ms };
                !is_patient
            }
            Next::InFlight => true,
            Next::Empty => break,
        };
        if let Next::Fetch(assignment) = next {
            let host = host_of(&assignment);
            assert!(in_flight.iter().filter(|one| host_of(one) == host).count() < usize::from(connections));
            if let Some(before) = began.insert(host, now_ms) {
                assert!(now_ms >= before.saturating_add_unsigned(delay_ms), "{before} {now_ms}");
            }
            in_flight.push(assignment);
        }
        if ends_one && !in_flight.is_empty() {
            let assignment = in_flight.swap_remove(rng.usize(..in_flight.len()));
            now_ms += rng.u64(..900) as i64;
            match rng.u8(..12) {
                0 => frontier.failed(assignment.page, &failure(FailureKind::Timeout), now_ms).expect("told"),
                1 => frontier.release(assignment.page).expect("given back"),
                2 => {
                    frontier.host_hold(host_of(&assignment), now_ms + rng.u64(..3_000) as i64).expect("told");
                    frontier.release(assignment.page).expect("given back");
                }
                _ => {
                    let links: Vec<String> = (0..rng.u8(..5)).map(|_| url(rng.u32(..300))).collect();
                    let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
                    done(&mut frontier, assignment.page, now_ms, &links);
                    assert!(fetched.insert(assignment.url));
                }
            }
        }
    }
    let stats = frontier.stats();
    assert_eq!((stats.fetched + stats.gone, stats.queued, stats.in_flight), (stats.pages, 0, 0), "seed {seed}");
    assert_eq!(fetched.len() as u32, stats.fetched);
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
    fetched.len()
}

fn host_of(assignment: &Assignment) -> String {
    assignment.url.split('/').nth(2).expect("a host").to_owned()
}

#[test]
fn no_page_is_forgotten_and_no_host_asked_impolitely_in_whatever_order_things_come() {
    let fetched: usize = (0..200).map(any_crawl).sum();
    assert!(fetched > 20_000, "{fetched}");
}

#[test]
fn when_a_host_was_asked_last_outlives_a_restart_and_hosts_that_nobody_knows_of_rest_for_a_delay() {
    let disk = SimDisk::new(1);
    let options = || FrontierOptions::new().delay_ms(30_000);
    let mut frontier = Frontier::create_in(disk.dir(), options()).expect("made");
    frontier.seed(&[A[0], A[1], A[2], "http://b.example/"], 1_000).expect("seeded");
    let first = fetch(&mut frontier, 1_000);
    assert_eq!(first.url, A[0]);
    done(&mut frontier, first.page, 1_100, &[]);
    frontier.close().expect("closed");
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    // The other host was never asked, and the frontier knows it.
    let other = fetch(&mut frontier, 1_200);
    assert_eq!(other.url, "http://b.example/");
    done(&mut frontier, other.page, 1_300, &[]);
    assert_eq!(wait(&mut frontier, 1_300), 31_000);
    assert_eq!(fetch(&mut frontier, 31_000).url, A[1]);
    frontier.commit().expect("committed");
    drop(frontier);
    // Pages may have been handed out since the commit: the frontier cannot know.
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(wait(&mut frontier, 40_000), 70_000);
    assert_eq!(fetch(&mut frontier, 70_000).url, A[1]);
    drop(frontier);
    // It was opened after no clean close, and wrote nothing: last fetches are still unknown.
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(wait(&mut frontier, 71_000), 101_000);
    drop(fetch(&mut frontier, 101_000));
    frontier.close().expect("closed");
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(wait(&mut frontier, 101_000), 131_000);
    assert_eq!(fetch(&mut frontier, 131_000).url, A[1]);
    // It was closed before, but not since it handed out a page.
    drop(frontier);
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(wait(&mut frontier, 140_000), 170_000);
}

/// Runs that end with a close, a drop or a power loss: after none is a host asked earlier than its
/// delay after the last request, committed or not.
#[test]
fn no_host_is_asked_too_early_after_any_end() {
    use filemap_io::sim::{Level, Loss};
    let (mut asked, mut lives) = (0, 0);
    for seed in 0..120 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let delay_ms = rng.u64(1..5) * 1_000;
        let options = || FrontierOptions::new().delay_ms(delay_ms).journal_bytes_min(4096);
        let mut disk = SimDisk::new(seed);
        let mut frontier = Frontier::create_in(disk.dir(), options()).expect("made");
        let url = |page: u32| format!("http://h{}.example/{page}", page % 5);
        let seeds: Vec<String> = (0..5).map(url).collect();
        frontier.seed(&seeds.iter().map(|seed| &seed[..]).collect::<Vec<&str>>(), 0).expect("seeded");
        frontier.commit().expect("committed");
        let (mut now_ms, mut began) = (0, std::collections::HashMap::<String, i64>::new());
        for _ in 0..300 {
            now_ms += rng.u64(..400) as i64;
            if let Next::Fetch(assignment) = frontier.next(now_ms).expect("answered") {
                if let Some(before) = began.insert(host_of(&assignment), now_ms) {
                    assert!(
                        now_ms >= before.saturating_add_unsigned(delay_ms),
                        "seed {seed}: {} at {before} and {now_ms}",
                        assignment.url
                    );
                }
                asked += 1;
                let links: Vec<String> = (0..4).map(|_| url(rng.u32(..500))).collect();
                done(
                    &mut frontier,
                    assignment.page,
                    now_ms,
                    &links.iter().map(|link| &link[..]).collect::<Vec<&str>>(),
                );
            }
            if rng.u8(..8) == 0 {
                frontier.commit().expect("committed");
            }
            if rng.u8(..12) > 0 {
                continue;
            }
            lives += 1;
            match rng.u8(..3) {
                0 => frontier.close().expect("closed"),
                1 => drop(frontier),
                _ => {
                    drop(frontier);
                    disk = disk.crash(Level::Adversarial, Loss::ALL[rng.usize(..4)], rng.u64(..));
                }
            }
            frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
            if rng.bool() {
                frontier.seed(&[&url(rng.u32(500..600))], now_ms).expect("seeded");
            }
        }
    }
    assert!(asked > 3_000 && lives > 200, "{asked} {lives}");
}

#[test]
fn hints_of_changes_move_recrawls() {
    let recrawl = || Recrawl::new().first_ms(1_000_000).min_ms(10_000).max_ms(100_000_000);
    let options = || options().recrawl(Some(recrawl()));
    let (disk, mut frontier) = made(options());
    let urls: Vec<String> = (0..6).map(|n| format!("http://a.example/{n}")).collect();
    frontier.seed(&urls[..5], 0).expect("seeded");
    // A new page, which will change hourly.
    let hourly = Hint { key: &urls[4], changed_ms: None, every_ms: Some(3_600_000) };
    assert_eq!(frontier.hint(&[hourly], 0).expect("told"), 1);
    for _ in 0..5 {
        let page = fetch(&mut frontier, 50_000).page;
        done(&mut frontier, page, 50_000, &[]);
    }
    let due = |frontier: &Frontier, page: usize| state_of(frontier, &urls[page]).due_ms;
    assert_eq!((due(&frontier, 0), due(&frontier, 4)), (Some(1_050_000), Some(4_050_000)));
    let changed = |page: usize, at_ms: i64| Hint { key: &urls[page], changed_ms: Some(at_ms), every_ms: None };
    let hints = [
        changed(0, 60_000),
        // Changed before the fetch; in the future; unknown page.
        changed(1, 40_000),
        changed(2, 900_000),
        changed(5, 60_000),
        Hint { key: &urls[3], changed_ms: None, every_ms: Some(8_000_000) },
    ];
    assert_eq!(frontier.hint(&hints, 100_000).expect("told"), 2);
    let dues = |frontier: &Frontier| (0..4).map(|page| due(frontier, page).expect("it waits")).collect::<Vec<i64>>();
    assert_eq!(dues(&frontier), [100_000, 1_050_000, 1_050_000, 8_050_000]);
    frontier.commit().expect("committed");
    drop(frontier);
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(dues(&frontier), [100_000, 1_050_000, 1_050_000, 8_050_000]);
    // Each is due once.
    let first = fetch(&mut frontier, 100_000);
    assert_eq!((first.url.as_str(), first.is_refresh), (&*urls[0], true));
    done(&mut frontier, first.page, 100_000, &[]);
    assert_eq!(wait(&mut frontier, 100_000), 1_050_000);
    // A learnt interval takes precedence over a hint.
    let said = Hint { key: &urls[3], changed_ms: None, every_ms: Some(10_000) };
    assert_eq!(frontier.hint(&[said], 200_000).expect("told"), 0);
    let (_disk, mut never) = made(super::options());
    never.seed(&urls, 0).expect("seeded");
    assert_eq!(never.hint(&hints, 0).expect("told"), 0);
}
