//! Pages claimed before they are fetched: their hosts' delays, and the end of claims.

use super::*;

fn polite() -> FrontierOptions {
    options().delay_ms(1_000).connections(2)
}

fn handed(frontier: &mut Frontier, now_ms: i64) -> Assignment {
    match frontier.next(now_ms).expect("open") {
        Next::Fetch(assignment) => assignment,
        other => panic!("{other:?} at {now_ms}"),
    }
}

fn of_one_host() -> Frontier {
    let mut frontier = Frontier::create_in(SimDisk::new(1).dir(), polite()).expect("made");
    let urls: Vec<String> = (0..20).map(|i| format!("http://a.example/{i}")).collect();
    frontier.seed(&urls, 0).expect("seeded");
    frontier
}

#[test]
fn a_delay_runs_from_the_beginning_of_a_fetch_that_was_asked_for_first() {
    let mut frontier = of_one_host();
    let first = handed(&mut frontier, 0);
    let second = handed(&mut frontier, 1_000);
    // The answer for both comes late: only one may begin.
    assert!(frontier.begins(first.page, 10_000).expect("in flight"));
    assert!(!frontier.begins(second.page, 10_000).expect("in flight"));
    frontier.release(second.page).expect("in flight");
    assert!(matches!(frontier.next(10_500).expect("open"), Next::Wait { until_ms: 11_000 }));
    handed(&mut frontier, 11_000);
    // The usual case: an answer within the delay, for a single page.
    let mut frontier = of_one_host();
    let first = handed(&mut frontier, 0);
    assert!(frontier.begins(first.page, 3).expect("in flight"));
    assert!(matches!(frontier.next(1_002).expect("open"), Next::Wait { until_ms: 1_003 }));
    // A hold set in the meantime.
    let second = handed(&mut frontier, 1_003);
    frontier.host_hold("a.example", 5_000).expect("held");
    assert!(!frontier.begins(second.page, 1_010).expect("in flight"));
    assert!(frontier.begins(second.page, 5_000).expect("in flight"));
    assert!(matches!(frontier.begins(PageId::new(9), 5_000), Err(Error::NotInFlight { .. })));
}

#[test]
fn a_page_that_is_left_to_another_crawl_costs_no_delay() {
    let mut frontier = of_one_host();
    let elsewhere = Failure { kind: FailureKind::Elsewhere, retry_after_ms: None, remedy: Remedy::GiveUp };
    for _ in 0..10 {
        let left = handed(&mut frontier, 5);
        frontier.failed(left.page, &elsewhere, 5).expect("in flight");
    }
    let own = handed(&mut frontier, 5);
    assert!(frontier.begins(own.page, 6).expect("in flight"));
    assert!(matches!(frontier.next(1_005).expect("open"), Next::Wait { until_ms: 1_006 }));
}

#[test]
fn a_claim_that_is_ended_is_no_more_also_when_it_is_opened_again() {
    let disk = SimDisk::new(1);
    let mut frontier = Frontier::create_in(disk.dir(), polite()).expect("made");
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let page = handed(&mut frontier, 0).page;
    frontier.claim(7, &[page]).expect("in flight");
    assert!(matches!(frontier.claim(8, &[page]), Err(Error::NotInFlight { .. })));
    frontier.end_claim(7).expect("open");
    frontier.end_claim(7).expect("there is none, which is not an error");
    frontier.claim(8, &[page]).expect("free");
    frontier.commit().expect("committed");
    drop(frontier);
    let frontier = Frontier::open_in(disk.dir(), polite()).expect("opened");
    let claims = frontier.claims().expect("read");
    assert_eq!(claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), [8]);
}
