//! Rounds over several calls: refunds, rent, weights, and their state in a snapshot.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::opening::judge_queues;
use super::*;
use crate::credit::{TOTAL, WEIGHT_MAX};
use crate::delivery::{Errand, Taken};
use crate::marks::Status;

const PAGES: u32 = 3_000;

fn url(page: u32) -> String {
    format!("http://h{}.example/{page}", page % 30)
}

/// Enters links found by another crawl.
fn arrive(frontier: &mut Frontier, pages: std::ops::Range<u32>) {
    let urls: Vec<String> = pages.map(url).collect();
    frontier.arrived(&urls.iter().map(|url| &url[..]).collect::<Vec<_>>(), 1).expect("entered");
}

/// Waiting pages with little credit each, and one fetched page that holds the rest.
fn poor(options: FrontierOptions) -> (SimDisk, Frontier) {
    let (disk, mut frontier) = made(options.virtual_visits(0).journal_bytes_min(4096));
    arrive(&mut frontier, 0..PAGES);
    let first = fetch(&mut frontier, 0).page.number();
    done(&mut frontier, PageId::new(first), 0, &[]);
    let state = &mut frontier.state;
    (state.totals.virtual_credit, state.queued_credit) = (0, 0);
    for page in (0..PAGES).filter(|page| *page != first) {
        let credit = 1 + u64::from(page) * 7_919 % 1_000;
        state.table.update(page).expect("read").credit = credit;
        state.queued_credit += credit;
    }
    state.table.update(first).expect("read").credit = TOTAL - state.queued_credit;
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
    (disk, frontier)
}

/// Gives up the next page: an event that advances a round and has no links.
fn give_up(frontier: &mut Frontier) {
    let page = fetch(frontier, 0).page;
    let gone = Failure { remedy: Remedy::GiveUp, ..failure(FailureKind::ClientStatus) };
    frontier.failed(page, &gone, 0).expect("told");
}

fn errand(frontier: &Frontier) -> Errand {
    frontier.state.delivery.round.as_ref().map_or(Errand::None, |round| round.errand)
}

fn is_paying(frontier: &Frontier) -> bool {
    matches!(errand(frontier), Errand::Pay(_))
}

/// Pages that wait for their first fetch with their credit, the richest first.
fn ranks(frontier: &Frontier) -> Vec<(u32, u64)> {
    let rows = frontier.state.table.scan_from(0).map(|row| row.expect("read")).zip(0..);
    let mut ranks: Vec<(u32, u64)> =
        rows.filter(|(row, _)| row.status().is_new()).map(|(row, page)| (page, row.credit)).collect();
    ranks.sort_by_key(|(page, credit)| (Reverse(*credit), *page));
    ranks
}

/// A page of a held host that a refund has yet to reach.
fn behind(frontier: &Frontier) -> Option<u32> {
    let from = frontier.state.delivery.round.as_ref().expect("a round").next + 100;
    let is_new = |page: &u32| frontier.state.table.peek(*page).expect("read").status().is_new();
    (from..PAGES).filter(|page| page % 30 == 7).find(is_new)
}

#[test]
fn a_refund_keeps_proportion_and_order_whatever_is_told_meanwhile() {
    let (disk, mut frontier) = poor(options());
    // Pages that arrive or are seeded keep their credit.
    for host in ["new.example", "h7.example"] {
        frontier.host_hold(host, i64::MAX).expect("told");
    }
    frontier.commit().expect("committed");
    let before = ranks(&frontier);
    let (mut seeded, mut calls, mut arrived) = (BTreeSet::new(), [0; 2], 0);
    for event in 0.. {
        assert!(event < 600, "what arrives puts a refund off");
        let was_paying = is_paying(&frontier);
        give_up(&mut frontier);
        calls[0] += u32::from(errand(&frontier) == Errand::Collect);
        calls[1] += u32::from(is_paying(&frontier));
        if was_paying && !is_paying(&frontier) {
            break;
        }
        if event % 10 == 3 && event > 100 {
            arrived += frontier.arrived(&[&format!("http://new.example/{event}")], 1).expect("entered").new_links;
        }
        if is_paying(&frontier)
            && event % 10 == 5
            && let Some(page) = behind(&frontier)
        {
            seeded.insert(page);
            frontier.seed(&[url(page)], 0).expect("seeded");
        }
        if event % 25 == 7 {
            // A journal has all of it; a long one ends with a snapshot, which has it as well.
            let name = "x".repeat(if event % 50 == 7 { 20_000 } else { 1 });
            frontier.host_hold(&name, 0).expect("told");
            let delivery = frontier.state.delivery.clone();
            frontier.commit().expect("committed");
            drop(frontier);
            frontier = Frontier::open_in(disk.dir(), options().journal_bytes_min(4096)).expect("opened");
            assert_eq!(frontier.state.delivery, delivery);
        }
        assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
    }
    assert!(calls.iter().all(|calls| *calls > 50) && seeded.len() > 5 && arrived > 5, "{calls:?} {seeded:?} {arrived}");
    let after = ranks(&frontier);
    let waiting: BTreeSet<u32> = after.iter().map(|(page, _)| *page).filter(|page| !seeded.contains(page)).collect();
    let of = |ranks: &[(u32, u64)]| -> Vec<(u32, u64)> {
        ranks.iter().copied().filter(|(page, _)| *page < PAGES && waiting.contains(page)).collect()
    };
    let (before, after) = (of(&before), of(&after));
    let times = after[0].1 / before[0].1;
    let expected: Vec<(u32, u64)> = before.iter().map(|(page, credit)| (*page, credit * times)).collect();
    assert!(expected.len() > 1_000 && times > 1_000_000, "{} {times}", expected.len());
    assert_eq!(after, expected);
    let all: u64 = after.iter().map(|(_, credit)| credit).sum();
    assert!(all > TOTAL / 8, "{all}");
}

#[test]
fn a_refund_is_paid_though_rent_is_due() {
    let (_disk, mut frontier) = poor(options());
    frontier.seed(&[url(2_000)], 0).expect("seeded");
    // The virtual page holds a quarter.
    let fetched = (0..PAGES).find(|page| frontier.state.table.peek(*page).expect("read").status() == Status::Fetched);
    frontier.state.table.update(fetched.expect("one")).expect("read").credit -= TOTAL / 4;
    frontier.state.totals.virtual_credit += TOTAL / 4;
    while errand(&frontier) == Errand::None {
        give_up(&mut frontier);
    }
    assert_eq!((errand(&frontier), frontier.state.table.members), (Errand::Collect, 1));
    while !is_paying(&frontier) {
        give_up(&mut frontier);
    }
    while is_paying(&frontier) {
        give_up(&mut frontier);
    }
    assert!(frontier.state.queued_credit > TOTAL / 4, "{}", frontier.state.queued_credit);
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
}

#[test]
fn rent_for_nobody_is_no_sweep() {
    let (_disk, mut frontier) = made(options());
    arrive(&mut frontier, 0..100);
    (0..60).for_each(|_| give_up(&mut frontier));
    let totals = &frontier.state.totals;
    assert!(totals.is_rent_due(100) && frontier.state.table.members == 0, "{totals:?}");
    assert_eq!(totals.visits_since_sweep, 60);
}

/// A snapshot never has a weight far beyond the limit.
#[test]
fn weights_are_scaled_down_after_each_stretch_of_a_round() {
    let (_disk, mut frontier) = poor(options().window(0.1));
    frontier.state.totals.weight = 0.99 * WEIGHT_MAX;
    while errand(&frontier) != Errand::Collect {
        give_up(&mut frontier);
    }
    let weight = frontier.state.totals.weight;
    assert!((1.0..100.0).contains(&weight), "{weight}");
}

#[test]
fn a_round_with_virtual_visits_and_no_file_of_links_is_damage() {
    for is_forged in [false, true] {
        let (disk, mut frontier) = poor(options());
        while errand(&frontier) != Errand::Collect {
            give_up(&mut frontier);
        }
        let round = frontier.state.delivery.round.as_mut().expect("a round");
        if is_forged {
            round.pot -= 7;
            round.taken.push(Taken { list: 0, credit: 7, word: None });
        }
        frontier.commit().expect("committed");
        drop(frontier);
        match Frontier::open_in(disk.dir(), options()) {
            Err(Error::Storage(StorageError::Corrupt { file, .. })) => {
                assert!(is_forged && file == "frontier.snapshot")
            }
            opened => assert!(!is_forged && opened.is_ok(), "{opened:?}"),
        }
    }
}

#[test]
fn pages_that_get_rent_are_counted_whatever_becomes_of_them() {
    for rent in crate::options::Rent::CODES {
        let (disk, mut frontier) = made(options().rent(rent).attempts_max(1).journal_bytes_min(4096));
        let mut rng = fastrand::Rng::with_seed(7);
        frontier.seed(&(0..40).map(url).collect::<Vec<_>>(), 0).expect("seeded");
        for step in 0..1_500 {
            let any = url(rng.u32(..900));
            match (rng.u8(..16), frontier.next(0).expect("answered")) {
                (0, _) => assert!(frontier.seed(&[any], 0).expect("seeded") < 2),
                (1..5, Next::Fetch(page)) => {
                    let remedy = if rng.bool() { Remedy::GiveUp } else { Remedy::Retry };
                    frontier.failed(page.page, &Failure { remedy, ..failure(FailureKind::Timeout) }, 0).expect("told");
                }
                (_, Next::Fetch(page)) => {
                    let links: Vec<String> = (0..rng.u32(..6)).map(|_| url(rng.u32(..900))).collect();
                    let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
                    assert!(done(&mut frontier, page.page, 0, &links).new_links < 6);
                }
                _ => {}
            }
            if step % 300 == 299 {
                judge_queues(&frontier).expect("right");
                frontier.commit().expect("committed");
                drop(frontier);
                let options = options().attempts_max(1).journal_bytes_min(4096);
                frontier = Frontier::open_in(disk.dir(), options).expect("opened");
                judge_queues(&frontier).expect("right");
            }
        }
        let stats = frontier.stats();
        assert!(stats.gone > 50 && stats.fetched > 100, "{rent:?}: {stats:?}");
    }
}
