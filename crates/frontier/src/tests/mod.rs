//! Tests of the frontier's promises: order, politeness, budgets, retries, recrawls; also after
//! crashes and damage.

mod claims;
mod crash;
mod damage;
mod failing;
mod hosts;
mod opening;
mod order;
mod rounds;
mod time;
mod timers;

use filemap_io::sim::SimDisk;

use crate::*;

/// No delays, so that time may stand still in tests of other things.
fn options() -> FrontierOptions {
    FrontierOptions::new().delay_ms(0).connections(100)
}

fn made(options: FrontierOptions) -> (SimDisk, Frontier) {
    let disk = SimDisk::new(1);
    let frontier = Frontier::create_in(disk.dir(), options).expect("made");
    (disk, frontier)
}

#[track_caller]
fn fetch(frontier: &mut Frontier, now_ms: i64) -> Assignment {
    match frontier.next(now_ms).expect("answered") {
        Next::Fetch(assignment) => assignment,
        other => panic!("nothing to fetch: {other:?}"),
    }
}

#[track_caller]
fn done(frontier: &mut Frontier, page: PageId, now_ms: i64, links: &[&str]) -> Done {
    let fetched = Fetched { fetched_at_ms: now_ms, links, ..Fetched::default() };
    frontier.done(page, &fetched).expect("told")
}

fn failure(kind: FailureKind) -> Failure {
    Failure { kind, retry_after_ms: None, remedy: Remedy::Retry }
}

fn state_of(frontier: &Frontier, url: &str) -> PageState {
    frontier.page(url).expect("read").unwrap_or_else(|| panic!("{url} is not known"))
}

/// The credit of all pages and the virtual page.
const ALL_CREDIT: u128 = 1 << 62;

#[test]
fn a_frontier_is_made_once_opened_by_one_and_found_as_it_was() {
    let dir = tempfile::tempdir().expect("made");
    let path = dir.path().join("frontier");
    assert!(matches!(Frontier::open(dir.path(), options()), Err(Error::Missing { .. })));
    let mut frontier = Frontier::create(&path, options()).expect("made");
    assert!(matches!(Frontier::create(&path, options()), Err(Error::Storage(StorageError::Locked { .. }))));
    frontier.seed(&["http://a.example/", "http://b.example/"], 0).expect("seeded");
    let first = fetch(&mut frontier, 0);
    done(&mut frontier, first.page, 0, &["http://a.example/x", "http://b.example/", "http://a.example/x"]);
    frontier.host_delay("a.example", Some(7_000)).expect("told");
    frontier.close().expect("closed");
    assert!(matches!(Frontier::create(&path, options()), Err(Error::Exists { .. })));
    let frontier = Frontier::open(&path, options()).expect("opened");
    let urls: Vec<String> = frontier.urls_from(PageId::new(0)).map(|found| found.expect("read").1).collect();
    assert_eq!(urls, ["http://a.example/", "http://b.example/", "http://a.example/x"]);
    assert_eq!(frontier.urls_from(PageId::new(2)).count(), 1);
    let stats = frontier.stats();
    assert_eq!((stats.pages, stats.fetched, stats.queued, stats.hosts, stats.fetches), (3, 1, 2, 2, 1));
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
    assert_eq!(frontier.hosts().next().expect("a host").delay_ms, 7_000);
    assert_eq!(frontier.url(PageId::new(2)).expect("read"), "http://a.example/x");
    assert!(matches!(frontier.url(PageId::new(3)), Err(Error::NoSuchPage { page: 3 })));
}

#[test]
fn a_frontier_may_be_handed_to_another_thread() {
    fn is_sent<T: Send + Sync>(_: &T) {}
    is_sent(&made(options()).1);
}

#[test]
fn an_outcome_is_told_once_of_what_was_handed_out() {
    let (_disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let page = PageId::new(0);
    let fetched = Fetched::default();
    assert!(matches!(frontier.done(page, &fetched), Err(Error::NotInFlight { page: 0 })));
    assert_eq!(fetch(&mut frontier, 0).page, page);
    assert_eq!(frontier.next(0).expect("answered"), Next::InFlight);
    frontier.release(page).expect("given back");
    assert_eq!(fetch(&mut frontier, 0).page, page);
    assert_eq!(done(&mut frontier, page, 0, &["http://a.example/"]), Done { first_new: 1, ..Done::default() });
    assert!(matches!(frontier.failed(page, &failure(FailureKind::Dns), 0), Err(Error::NotInFlight { .. })));
    assert!(matches!(frontier.release(page), Err(Error::NotInFlight { .. })));
    assert_eq!(frontier.next(0).expect("answered"), Next::Empty);
    assert_eq!(state_of(&frontier, "http://a.example/").status, PageStatus::Fetched);
    assert!(frontier.page("http://a.example/other").expect("read").is_none());
}

#[test]
fn a_journal_is_replaced_by_a_snapshot_again_and_again_and_stays_short() {
    let (disk, mut frontier) =
        made(options().journal_bytes_min(4096).recrawl(Some(Recrawl::new().first_ms(0).min_ms(0).max_ms(0))));
    frontier.seed(&["http://a.example/0"], 0).expect("seeded");
    let mut journals = std::collections::BTreeSet::new();
    for i in 0..3_000u32 {
        let assignment = fetch(&mut frontier, 2_000 * i64::from(i));
        let links = [format!("http://h{}.example/{i}", i % 50), "http://a.example/0".to_owned()];
        let known = i % 3 > 0;
        done(&mut frontier, assignment.page, 2_000 * i64::from(i), &[&links[usize::from(known)]]);
        frontier.commit().expect("committed");
        journals.extend(disk.names().into_iter().filter(|name| name.ends_with(".journal")));
        assert!(frontier.stats().journal_bytes <= frontier.snapshot_bytes.max(4096) + 1024);
    }
    assert!(journals.len() > 10, "{}", journals.len());
    assert_eq!(disk.names().len(), 6, "{:?}", disk.names());
    let before = frontier.stats();
    drop(frontier);
    let frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    let after = frontier.stats();
    assert_eq!((after.pages, after.fetches, after.turns), (before.pages, before.fetches, before.turns));
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
}

#[test]
fn a_replay_leads_to_the_same_credit_and_importance_as_what_was_told() {
    let (disk, mut frontier) = made(options().recrawl(Some(Recrawl::new().first_ms(1).min_ms(1).max_ms(9_000))));
    let mut rng = fastrand::Rng::with_seed(5);
    frontier.seed(&["http://a.example/0", "http://b.example/1"], 0).expect("seeded");
    for step in 0..2_000i64 {
        let Next::Fetch(assignment) = frontier.next(step * 100).expect("answered") else { continue };
        if rng.u8(..10) == 0 {
            let is_permanent = rng.u8(..4) == 0;
            let failure = Failure {
                remedy: if is_permanent { Remedy::GiveUp } else { Remedy::Retry },
                ..failure(FailureKind::Timeout)
            };
            frontier.failed(assignment.page, &failure, step * 100).expect("told");
            continue;
        }
        let links: Vec<String> =
            (0..rng.u32(..6)).map(|_| format!("http://h{}.example/{}", rng.u8(..9), rng.u32(..900))).collect();
        let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
        done(&mut frontier, assignment.page, step * 100, &links);
    }
    frontier.commit().expect("committed");
    let importance: Vec<(PageId, u64)> = frontier
        .by_importance(usize::MAX)
        .expect("read")
        .into_iter()
        .map(|(page, one)| (page, one.to_bits()))
        .collect();
    assert!(importance.len() > 500 && importance[0].1 > importance[99].1);
    drop(frontier);
    let again = Frontier::open_in(disk.dir(), options()).expect("opened");
    let found: Vec<(PageId, u64)> =
        again.by_importance(usize::MAX).expect("read").into_iter().map(|(page, one)| (page, one.to_bits())).collect();
    assert_eq!(found, importance);
    assert_eq!(again.by_importance(3).expect("read").len(), 3);
    assert_eq!(again.credit_units().expect("read"), ALL_CREDIT);
}

/// Regression: after an opening all texts of the journal stayed in memory.
#[test]
fn a_frontier_that_was_opened_takes_no_more_memory_than_before() {
    let (disk, mut frontier) = made(options());
    for part in 0..60u32 {
        let urls: Vec<String> =
            (0..1_000).map(|i| format!("http://a.example/{part}/{i}/{}", "x".repeat(150))).collect();
        frontier.seed(&urls.iter().map(|url| &url[..]).collect::<Vec<&str>>(), 0).expect("seeded");
    }
    frontier.commit().expect("committed");
    let (before, disk_bytes) = (frontier.memory_bytes(), frontier.stats().disk_bytes);
    drop(frontier);
    let after = Frontier::open_in(disk.dir(), options()).expect("opened").memory_bytes();
    assert!(disk_bytes > 20 << 20 && after < before + (2 << 20), "{before} {after} {disk_bytes}");
}

#[test]
fn urls_that_are_too_long_or_empty_are_refused_as_seeds_and_left_out_as_links() {
    let (_disk, mut frontier) = made(options());
    let long = format!("http://a.example/{}", "x".repeat(Frontier::URL_BYTES_MAX));
    assert!(matches!(frontier.seed(&["http://a.example/", &long], 0), Err(Error::UrlLength { .. })));
    assert!(matches!(frontier.seed(&[""], 0), Err(Error::UrlLength { len: 0, .. })));
    assert_eq!(frontier.pages(), 0);
    let longest = &long[..Frontier::URL_BYTES_MAX];
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let assignment = fetch(&mut frontier, 0);
    let told = done(&mut frontier, assignment.page, 0, &[&long, "", longest]);
    assert_eq!((told.new_links, told.over_length), (1, 2));
    assert_eq!(fetch(&mut frontier, 0).url, longest);
}

#[test]
fn a_hundred_thousand_hosts_are_served_in_turn() {
    let (_disk, mut frontier) = made(FrontierOptions::new().delay_ms(1_000_000));
    let urls: Vec<String> = (0..200_000).map(|i| format!("http://h{}.example/{}", i % 100_000, i / 100_000)).collect();
    let urls: Vec<&str> = urls.iter().map(|url| &url[..]).collect();
    assert_eq!(frontier.seed(&urls, 0).expect("seeded"), 200_000);
    for round in 0..2 {
        let mut hosts = std::collections::HashSet::new();
        let now_ms = round * 1_000_000;
        while let Next::Fetch(assignment) = frontier.next(now_ms).expect("answered") {
            assert!(hosts.insert(assignment.url.split('/').nth(2).expect("a host").to_owned()));
            done(&mut frontier, assignment.page, now_ms, &[]);
        }
        assert_eq!(hosts.len(), 100_000);
        let until_ms = (round + 1) * 1_000_000;
        let expected = if round == 0 { Next::Wait { until_ms } } else { Next::Empty };
        assert_eq!(frontier.next(now_ms).expect("answered"), expected);
    }
}
