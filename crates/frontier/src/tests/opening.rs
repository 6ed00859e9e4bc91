//! The queues after an opening that does not read the rows of pages.

use std::collections::BTreeMap;

use super::*;
use crate::marks::Status;
use crate::shares::Shares;

/// Checks the queues and counts of a frontier against the rows of all its pages.
pub(super) fn judge_queues(frontier: &Frontier) -> std::result::Result<(), String> {
    let state = &frontier.state;
    let (mut ready, mut shares) = (BTreeMap::new(), Shares::default());
    let (mut queued_credit, mut members) = (0, 0);
    let hosts = &state.hosts;
    (0..hosts.len()).for_each(|host| shares.enter(host, crate::shape::site(hosts.name(host))));
    let mut timers: Vec<u64> = state.queue.timers.iter().collect();
    timers.sort_unstable();
    for (row, page) in state.table.scan_from(0).zip(0u64..) {
        let row = row.expect("read");
        if let Some(kind) = row.status().queue() {
            *ready.entry((row.host, kind)).or_insert(0) += 1;
        }
        if row.status().is_fetched() {
            shares.count(row.host, row.shape, row.trust.standing(), 1);
        }
        queued_credit += if row.status().is_new() { row.credit } else { 0 };
        members += u32::from(row.is_member(state.table.rent));
        let waits = row.status() == Status::Waiting || row.status() == Status::Fetched && state.has_recrawls;
        let timer = u64::from(row.due_s) << 32 | page;
        let left_out = state.queue.timers.left_out();
        let is_left_out = left_out.first.is_some_and(|first| first <= timer) && row.due_s <= left_out.latest_s;
        if waits && !is_left_out && timers.binary_search(&timer).is_err() {
            return Err(format!("page {page} has no timer: {row:?}"));
        }
    }
    for host in 0..hosts.len() {
        for kind in 0..2 {
            let rows = ready.get(&(host, kind)).copied().unwrap_or(0);
            let (queued, ..) = hosts.queue(host, kind);
            if queued != rows {
                return Err(format!("{}, kind {kind}: {queued} pages are queued, not {rows}", hosts.name(host)));
            }
        }
        if state.table.shares.of_host(host) != shares.of_host(host) {
            return Err(format!("{} has other counts", hosts.name(host)));
        }
    }
    if (members, u128::from(state.totals.waiting)) != (state.table.members, state.delivery.credit()) {
        return Err(format!(
            "{members} pages get rent, not {}; {} credit waits, not {}",
            state.table.members,
            state.delivery.credit(),
            state.totals.waiting
        ));
    }
    match (state.table.shares.of_shapes() == shares.of_shapes(), queued_credit == state.queued_credit) {
        (true, true) => Ok(()),
        (false, _) => Err("shapes have other counts".into()),
        (true, false) => Err(format!("{queued_credit} is queued, not {}", state.queued_credit)),
    }
}

/// Reports some fetches and failures to a frontier; some pages stay in flight.
fn crawl(frontier: &mut Frontier, now_ms: i64, rng: &mut fastrand::Rng, fetches: u32) -> Vec<Assignment> {
    let mut flying = Vec::new();
    for i in 0..fetches {
        let Next::Fetch(assignment) = frontier.next(now_ms).expect("answered") else { break };
        let links: Vec<String> = (0..rng.u32(..9))
            .map(|_| format!("http://h{}.example/{}/{}", rng.u32(..50), rng.char('a'..='d'), rng.u32(..4_000)))
            .collect();
        match i % 16 {
            0..=12 => {
                let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
                done(frontier, assignment.page, now_ms, &links);
            }
            13 => frontier.failed(assignment.page, &failure(FailureKind::Timeout), now_ms).expect("told"),
            14 => frontier.release(assignment.page).expect("in flight"),
            _ => flying.push(assignment),
        }
    }
    flying
}

#[test]
fn an_opening_reads_few_rows_and_goes_on_in_the_same_order() {
    let recrawl = Recrawl::new().first_ms(60_000).min_ms(1_000).max_ms(600_000);
    for recrawl in [None, Some(recrawl)] {
        let options = || options().recrawl(recrawl).journal_bytes_min(4096).memory_bytes(1 << 18);
        let (disk, mut frontier) = made(options());
        frontier.seed(&(0..20).map(|i| format!("http://h{i}.example/")).collect::<Vec<_>>(), 0).expect("seeded");
        let mut rng = fastrand::Rng::with_seed(7);
        for turn in 0..6 {
            let flying = crawl(&mut frontier, turn * 40_000, &mut rng, 400);
            flying.iter().for_each(|one| frontier.release(one.page).expect("in flight"));
        }
        frontier.commit().expect("committed");
        judge_queues(&frontier).expect("right");
        let next =
            |frontier: &mut Frontier| -> Vec<String> { (0..200).map(|_| fetch(frontier, 240_000).url).collect() };
        let stats = frontier.stats();
        assert!(stats.pages > 4_000 && stats.journal_bytes < 100_000, "{stats:?}");
        let order = next(&mut frontier);
        drop(frontier);
        let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
        let in_memory = frontier.state.table.blocks_in_memory();
        assert!(in_memory < 8, "{in_memory} of {stats:?}");
        judge_queues(&frontier).expect("right");
        let differs = next(&mut frontier).iter().zip(&order).position(|(next, before)| next != before);
        assert_eq!(differs, None);
    }
}

#[test]
fn what_was_in_flight_at_a_snapshot_is_queued_again_but_what_was_told_since() {
    let options = || {
        options().recrawl(Some(Recrawl::new().first_ms(50_000).min_ms(1_000).max_ms(600_000))).journal_bytes_min(4096)
    };
    let (disk, mut frontier) = made(options());
    frontier.seed(&(0..20).map(|i| format!("http://h{i}.example/")).collect::<Vec<_>>(), 0).expect("seeded");
    let mut rng = fastrand::Rng::with_seed(8);
    let mut flying = Vec::new();
    for turn in 0..40 {
        flying.extend(crawl(&mut frontier, turn * 5_000, &mut rng, 100));
        for _ in 0..3 {
            if flying.is_empty() {
                continue;
            }
            let one = flying.swap_remove(rng.usize(..flying.len()));
            match rng.u32(..3) {
                0 => drop(done(&mut frontier, one.page, turn * 5_000, &["http://h7.example/x"])),
                1 => frontier.failed(one.page, &failure(FailureKind::ClientStatus), turn * 5_000).expect("told"),
                _ => frontier.release(one.page).expect("in flight"),
            }
        }
        frontier.commit().expect("committed");
        if turn % 4 == 3 {
            let fetched = frontier.stats().fetched;
            drop(frontier);
            frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
            judge_queues(&frontier).expect("right");
            assert_eq!((frontier.stats().fetched, frontier.stats().in_flight), (fetched, 0));
            flying.clear();
        }
    }
    assert!(frontier.stats().refreshes > 100 && frontier.stats().failures > 100, "{:?}", frontier.stats());
}

#[test]
fn a_crawl_may_begin_and_end_to_fetch_pages_again_at_any_opening() {
    let recrawl = Recrawl::new().first_ms(50_000).min_ms(1_000).max_ms(600_000);
    let with = |recrawls: bool| options().recrawl(recrawls.then_some(recrawl));
    // A journal has the records of several processes, all since the snapshot of the first.
    for lives in [[false, true, false], [true, false, true], [false, false, true], [true, true, false]] {
        let (disk, mut frontier) = made(with(lives[0]));
        frontier.seed(&["http://h0.example/"], 0).expect("seeded");
        frontier.commit().expect("committed");
        drop(frontier);
        for (life, recrawls) in lives.into_iter().enumerate() {
            let mut frontier = Frontier::open_in(disk.dir(), with(recrawls)).expect("opened");
            judge_queues(&frontier).expect("right");
            let one = fetch(&mut frontier, 0);
            done(&mut frontier, one.page, 0, &[&format!("http://h{life}.example/new"), "http://h9.example/"]);
            frontier.commit().expect("committed");
            drop(frontier);
            let mut frontier = Frontier::open_in(disk.dir(), with(recrawls)).expect("opened");
            judge_queues(&frontier).expect("right");
            frontier.next(0).expect("answered");
            drop(frontier);
        }
        let mut frontier = Frontier::open_in(disk.dir(), with(lives[2])).expect("opened");
        let fetched = frontier.stats().fetched;
        let mut again = 0;
        while let Next::Fetch(assignment) = frontier.next(60_000).expect("answered") {
            again += u32::from(assignment.is_refresh);
        }
        assert_eq!(again, if lives[2] { fetched } else { 0 }, "{lives:?}");
    }
}
