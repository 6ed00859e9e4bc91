//! A million hosts take little memory, and are served in the same order.

use std::collections::BTreeSet;

use super::*;

/// Bytes allocated for each host, by the frontier's own account.
fn bytes_a_host(frontier: &Frontier) -> u64 {
    let state = &frontier.state;
    (state.hosts.memory_bytes() + state.table.shares.memory_bytes()) / u64::from(state.hosts.len())
}

#[test]
fn a_million_hosts_take_64_bytes_each_and_their_names_queued_or_fetched_and_after_an_opening() {
    const HOSTS: usize = 1_000_000;
    let little = || options().memory_bytes(1 << 26).virtual_visits(0).journal_bytes_min(1 << 28);
    let dir = tempfile::tempdir().expect("made");
    let mut frontier = Frontier::create(dir.path().join("frontier"), little()).expect("made");
    let url = |host: usize| format!("http://h{host}.site-{}.example/", host / 3);
    let mut name_bytes = 0;
    for from in (0..HOSTS).step_by(10_000) {
        let seeds: Vec<String> = (from..from + 10_000).map(url).collect();
        name_bytes += seeds.iter().map(|seed| seed.len() - "http:///".len()).sum::<usize>();
        frontier.seed(&seeds, 0).expect("seeded");
        frontier.commit().expect("committed");
    }
    let most = 64 + (name_bytes / HOSTS) as u64;
    assert!(bytes_a_host(&frontier) <= most, "queued: {} of {most}", bytes_a_host(&frontier));
    assert_eq!(frontier.state.hosts.actives(), 0);
    for _ in 0..HOSTS / 5 {
        let page = fetch(&mut frontier, 0).page;
        done(&mut frontier, page, 0, &[]);
        assert_eq!(frontier.state.hosts.actives(), 0);
    }
    assert!(bytes_a_host(&frontier) <= most, "fetched: {} of {most}", bytes_a_host(&frontier));
    frontier.close().expect("closed");
    let frontier = Frontier::open(dir.path().join("frontier"), little()).expect("opened");
    assert!(bytes_a_host(&frontier) <= most, "opened: {} of {most}", bytes_a_host(&frontier));
    assert_eq!((frontier.state.hosts.actives(), frontier.hosts().count()), (0, HOSTS));
    assert_eq!(frontier.pages_of("h7.site-2.example"), 1);
}

/// Once the queues are full, hosts of many pages become records too.
#[test]
fn hosts_with_several_pages_in_memory_are_within_the_limit_of_the_queues() {
    let (_disk, mut frontier) = made(options().memory_bytes(1 << 20));
    let urls: Vec<String> = (0..40_000).map(|page| format!("http://h{}.example/{page}", page % 5_000)).collect();
    let mut most = 0;
    for urls in urls.chunks(1_000) {
        frontier.seed(urls, 0).expect("seeded");
        most = most.max(frontier.state.hosts.memory_bytes());
    }
    // A quarter of a mebibyte, and an eighth of that; records and names.
    let limit = (1 << 18) + (1 << 15) + 5_000 * 100;
    assert!(most < limit && frontier.state.hosts.actives() < 2_500, "{most}, {}", frontier.state.hosts.actives());
    let mut pages = BTreeSet::new();
    while let Next::Fetch(assignment) = frontier.next(0).expect("answered") {
        assert!(pages.insert(assignment.page), "{} comes twice", assignment.url);
        done(&mut frontier, assignment.page, 0, &[]);
    }
    assert_eq!((pages.len(), frontier.state.hosts.actives()), (40_000, 0));
}

#[test]
fn a_host_with_limits_of_its_own_or_failures_keeps_them_and_is_a_record_again_after() {
    let (disk, mut frontier) = made(options().host_rest_ms(5_000, 5_000).backoff_ms(1_000, 1_000));
    let hosts = ["a", "b", "c", "d"].map(|host| format!("http://{host}.example/"));
    frontier.seed(&hosts, 0).expect("seeded");
    frontier.host_delay("a.example", Some(9_000)).expect("told");
    frontier.host_hold("b.example", 20_000).expect("told");
    let mut handed = Vec::new();
    while let Next::Fetch(assignment) = frontier.next(0).expect("answered") {
        handed.push(assignment.page);
    }
    assert_eq!((handed.len(), frontier.state.hosts.actives()), (3, 4));
    let down = Failure { remedy: Remedy::HostRests, ..failure(FailureKind::Connect) };
    frontier.failed(handed[1], &down, 0).expect("told");
    done(&mut frontier, handed[0], 0, &["http://a.example/1"]);
    done(&mut frontier, handed[2], 0, &[]);
    assert_eq!(frontier.state.hosts.actives(), 3);
    frontier.commit().expect("committed");
    drop(frontier);
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(frontier.state.hosts.actives(), 3);
    let states: Vec<HostState> = frontier.hosts().collect();
    assert_eq!((states[0].delay_ms, states[1].next_at_ms, states[2].failing.is_some()), (9_000, 20_000, true));
    frontier.host_delay("a.example", None).expect("told");
    for now_ms in [20_000, 4_000_000] {
        while let Next::Fetch(assignment) = frontier.next(now_ms).expect("answered") {
            done(&mut frontier, assignment.page, now_ms, &[]);
        }
    }
    // Only the hold of a host that was not asked since is kept.
    frontier.seed(&["http://b.example/1"], 4_000_000).expect("seeded");
    assert_eq!((frontier.state.hosts.actives(), frontier.stats().fetched), (0, 5));
}

/// Fetches all pages of 500 hosts, with at most `open_max` open ones in memory.
fn crawl(open_max: usize) -> Vec<(u32, i64)> {
    let (_disk, mut frontier) = made(options().delay_ms(3_000).connections(1));
    frontier.state.limit(1 << 16, open_max);
    let url = |page: u32| format!("http://h{}.example/{page}", page % 500);
    frontier.seed(&(0..500).map(url).collect::<Vec<_>>(), 0).expect("seeded");
    let (mut rng, mut now_ms, mut fetched) = (fastrand::Rng::with_seed(5), 0, Vec::new());
    loop {
        match frontier.next(now_ms).expect("answered") {
            Next::Fetch(assignment) => {
                fetched.push((assignment.page.number(), now_ms));
                let links: Vec<String> = (0..rng.u32(..5)).map(|_| url(rng.u32(..5_000))).collect();
                done(&mut frontier, assignment.page, now_ms, &links.iter().map(|link| &link[..]).collect::<Vec<_>>());
                now_ms += rng.i64(0..10);
            }
            Next::Wait { until_ms } => {
                assert!(until_ms > now_ms);
                now_ms = until_ms;
            }
            _ => return fetched,
        }
    }
}

#[test]
fn with_few_open_hosts_in_memory_pages_are_fetched_at_the_same_times_and_in_the_same_order() {
    let (all, few) = (crawl(1 << 16), crawl(8));
    assert!(all.len() > 4_000, "{}", all.len());
    assert_eq!(all.iter().zip(&few).position(|(all, few)| all != few), None);
    assert_eq!(all.len(), few.len());
}
