//! The page that comes first: credit, budgets, the split between new pages and refreshes.

use super::*;

#[test]
fn the_page_with_the_most_credit_comes_first() {
    let (_disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/", "http://b.example/"], 0).expect("seeded");
    let (a, b) = (fetch(&mut frontier, 0), fetch(&mut frontier, 0));
    // Both link to x, and one to each of the others.
    done(&mut frontier, a.page, 0, &["http://a.example/1", "http://c.example/x"]);
    done(&mut frontier, b.page, 0, &["http://b.example/1", "http://c.example/x", "http://b.example/2"]);
    let urls: Vec<String> = (0..4).map(|_| fetch(&mut frontier, 0).url).collect();
    assert_eq!(urls, ["http://c.example/x", "http://a.example/1", "http://b.example/1", "http://b.example/2"]);
}

#[test]
fn a_page_for_which_nobody_has_a_word_waits_for_all_others_until_somebody_has_one() {
    let (disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/", "http://b.example/"], 0).expect("seeded");
    let (a, b) = (fetch(&mut frontier, 0), fetch(&mut frontier, 0));
    // One gives all its credit to a trap, the other little to each of many pages.
    done(&mut frontier, a.page, 0, &["http://trap.example/"]);
    let others: Vec<String> = (0..40).map(|i| format!("http://b.example/{i}")).collect();
    done(&mut frontier, b.page, 0, &others.iter().map(|url| &url[..]).collect::<Vec<&str>>());
    for (url, link) in [("", "1"), ("1", "2")] {
        let next = fetch(&mut frontier, 0);
        assert_eq!(next.url, format!("http://trap.example/{url}"));
        done(&mut frontier, next.page, 0, &[&format!("http://trap.example/{link}")]);
    }
    let (deep, other) = (state_of(&frontier, "http://trap.example/2"), state_of(&frontier, "http://b.example/39"));
    assert!(deep.credit > 10.0 * other.credit, "{deep:?}");
    assert!(
        !deep.is_vouched_for && other.is_vouched_for && state_of(&frontier, "http://trap.example/1").is_vouched_for
    );
    let next = fetch(&mut frontier, 0);
    assert_eq!(next.url, "http://b.example/0");
    done(&mut frontier, next.page, 0, &[]);
    // The same after it was opened again.
    frontier.close().expect("closed");
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    let next = fetch(&mut frontier, 0);
    assert_eq!(next.url, "http://b.example/1");
    done(&mut frontier, next.page, 0, &["http://trap.example/2"]);
    assert_eq!(fetch(&mut frontier, 0).url, "http://trap.example/2");
    assert_eq!(fetch(&mut frontier, 0).url, "http://b.example/2");
}

#[test]
fn of_pages_without_a_word_each_host_and_shape_has_its_share_whatever_credit_it_has() {
    let (disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/", "http://b.example/"], 0).expect("seeded");
    let (a, b) = (fetch(&mut frontier, 0), fetch(&mut frontier, 0));
    // One gives all its credit to a calendar on the host of the other. The other gives little to
    // many pages, each of which links on.
    done(&mut frontier, a.page, 0, &["http://b.example/calendar/0"]);
    let others: Vec<String> = (0..40).map(|i| format!("http://b.example/{i}.html")).collect();
    done(&mut frontier, b.page, 0, &others.iter().map(|url| &url[..]).collect::<Vec<&str>>());
    let mut in_calendar = Vec::new();
    for round in 0..160 {
        if round == 70 {
            // Shares follow from the data on disk.
            frontier.close().expect("closed");
            frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
        }
        let next = fetch(&mut frontier, 0);
        let links = match next.url.split("calendar/").nth(1) {
            Some(day) => {
                in_calendar.push(round);
                let day: u32 = day.parse().expect("a number");
                (0..3).map(|i| format!("http://b.example/calendar/{}", 3 * day + i + 1)).collect()
            }
            None if next.url.ends_with(".html") => vec![next.url.replace(".html", ".html?more=1")],
            None if next.url.ends_with("more=1") => vec![next.url.replace("more=1", "more=1&all=1")],
            None => vec![],
        };
        done(&mut frontier, next.page, 0, &links.iter().map(|url| &url[..]).collect::<Vec<&str>>());
    }
    // Its first two levels have a voucher. Below them it gets its share first, 16 and one proof,
    // since it has the credit; then the other shape gets that, and then they take turns.
    assert_eq!(in_calendar[..4], [0, 1, 2, 3]);
    assert_eq!(in_calendar[4..21], (84..=100).collect::<Vec<_>>());
    let turns = in_calendar[21..].iter().filter(|round| (117..149).contains(*round)).count();
    assert!(in_calendar[21] == 117 && (12..=20).contains(&turns), "{in_calendar:?}");
}

#[test]
fn pages_that_are_due_and_visited_virtually_are_fetched_all_the_same() {
    const PAGES: usize = 6_000;
    let recrawl = Recrawl::new().first_ms(1_000).min_ms(1_000).max_ms(1_000);
    let (_disk, mut frontier) = made(options().connections(8).recrawl(Some(recrawl)).refresh_share(0.0));
    let urls: Vec<String> = (0..PAGES).map(|i| format!("http://h{}.example/{i}", i % 97)).collect();
    frontier.seed(&[&urls[0]], 0).expect("seeded");
    let mut flying = Vec::new();
    while let Next::Fetch(assignment) = frontier.next(0).expect("answered") {
        let at: usize = assignment.url.rsplit('/').next().and_then(|number| number.parse().ok()).expect("a number");
        if at > PAGES - 100 {
            flying.push(assignment);
            continue;
        }
        let links: Vec<&str> =
            (1..20).map(|i| &urls[(at * 3 + i * i) % PAGES][..]).chain([&urls[at + 1][..]]).collect();
        done(&mut frontier, assignment.page, 0, &links);
    }
    frontier.commit().expect("committed");
    let first = fetch(&mut frontier, 2_000);
    assert!(first.is_refresh && frontier.stats().due > 5_000 && flying.len() > 50, "{:?}", frontier.stats());
    frontier.release(first.page).expect("in flight");
    for other in &flying {
        done(&mut frontier, other.page, 1_999, &[]);
    }
    let due = frontier.stats().due;
    let mut again = 0;
    while let Next::Fetch(assignment) = frontier.next(2_000).expect("answered") {
        again += 1;
        frontier.failed(assignment.page, &failure(FailureKind::ClientStatus), 2_000).expect("told");
    }
    assert_eq!(again, due);
}

#[test]
fn a_barren_page_gives_its_links_neither_credit_nor_a_word() {
    let (disk, mut frontier) = made(options().virtual_visits(4));
    frontier.seed(&["http://a.example/", "http://b.example/"], 0).expect("seeded");
    let (a, b) = (fetch(&mut frontier, 0), fetch(&mut frontier, 0));
    let links = ["http://c.example/1", "http://c.example/2"];
    let barren = Fetched { links: &links, is_barren: true, ..Fetched::default() };
    assert_eq!(frontier.done(a.page, &barren).expect("told").new_links, 2);
    let one = state_of(&frontier, links[0]);
    assert_eq!((one.credit, one.is_vouched_for), (0.0, false));
    done(&mut frontier, b.page, 0, &["http://d.example/"]);
    frontier.commit().expect("committed");
    drop(frontier);
    let mut frontier = Frontier::open_in(disk.dir(), options().virtual_visits(4)).expect("opened");
    assert_eq!(fetch(&mut frontier, 0).url, "http://d.example/");
    assert_eq!(fetch(&mut frontier, 0).url, links[0]);
    assert_eq!(
        (state_of(&frontier, links[1]).is_vouched_for, frontier.credit_units().expect("read")),
        (false, ALL_CREDIT)
    );
}

#[test]
fn a_host_that_is_free_serves_pages_without_a_word_while_others_wait_for_their_time() {
    let (_disk, mut frontier) = made(options().delay_ms(1_000));
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let seed = fetch(&mut frontier, 0);
    done(&mut frontier, seed.page, 0, &["http://trap.example/", "http://a.example/1", "http://a.example/2"]);
    for (url, link) in
        [("http://trap.example/", "http://trap.example/1"), ("http://trap.example/1", "http://b.example/")]
    {
        frontier.host_delay("trap.example", Some(0)).expect("told");
        let next = fetch(&mut frontier, 0);
        assert_eq!(next.url, url);
        done(&mut frontier, next.page, 0, &[link]);
    }
    // Those of a.example have a voucher, but must wait for their delay.
    assert!(!state_of(&frontier, "http://b.example/").is_vouched_for);
    assert_eq!(fetch(&mut frontier, 0).url, "http://b.example/");
    assert_eq!(fetch(&mut frontier, 1_000).url, "http://a.example/1");
}

#[test]
fn seeds_share_all_credit_and_later_ones_what_the_virtual_page_has() {
    let (_disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/", "http://b.example/", "http://a.example/"], 0).expect("seeded");
    assert_eq!(frontier.pages(), 2);
    assert!((state_of(&frontier, "http://a.example/").credit - 0.5).abs() < 1e-9);
    let a = fetch(&mut frontier, 0);
    done(&mut frontier, a.page, 0, &["http://a.example/1"]);
    assert_eq!(frontier.seed(&["http://c.example/", "http://a.example/1"], 0).expect("seeded"), 1);
    let (late, known) = (state_of(&frontier, "http://c.example/"), state_of(&frontier, "http://a.example/1"));
    assert!(late.is_seed && known.is_seed && known.depth == 1 && known.credit > 0.2);
    let before = frontier.stats();
    assert_eq!(frontier.seed(&["http://c.example/", "http://b.example/"], 0).expect("seeded"), 0);
    assert_eq!(frontier.stats(), before);
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
}

#[test]
fn pages_too_deep_and_beyond_a_hosts_budget_are_not_entered() {
    let (_disk, mut frontier) = made(options().depth_max(1).pages_per_host_max(2));
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let a = fetch(&mut frontier, 0);
    let told = done(
        &mut frontier,
        a.page,
        0,
        &["http://a.example/1", "http://a.example/2", "http://a.example/2", "http://b.example/", "http://a.example/3"],
    );
    assert_eq!((told.new_links, told.over_host_budget, told.over_depth), (2, 2, 0));
    let next = fetch(&mut frontier, 0);
    assert_eq!(next.depth, 1);
    let told = done(&mut frontier, next.page, 0, &["http://d.example/", "http://a.example/"]);
    assert_eq!((told.new_links, told.known_links, told.over_depth), (0, 1, 1));
    assert_eq!(frontier.pages(), 3);
}

#[test]
fn the_links_of_a_duplicate_are_not_followed() {
    let (_disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let a = fetch(&mut frontier, 0);
    let fetched = Fetched { links: &["http://a.example/1"], is_duplicate: true, ..Fetched::default() };
    assert_eq!(frontier.done(a.page, &fetched).expect("told").new_links, 0);
    assert_eq!(frontier.next(0).expect("answered"), Next::Empty);
}

#[test]
fn refreshes_get_their_share_while_new_pages_wait_and_all_when_none_do() {
    let recrawl = Recrawl::new().first_ms(0).min_ms(0).max_ms(0);
    let (_disk, mut frontier) = made(options().refresh_share(0.25).recrawl(Some(recrawl)));
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let (mut refreshes, mut fetches) = (0, 0);
    for i in 0..400i64 {
        let assignment = fetch(&mut frontier, 2_000 * i);
        let links: Vec<String> = (0..5).map(|link| format!("http://a.example/{i}/{link}")).collect();
        let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
        done(&mut frontier, assignment.page, 2_000 * i, if i < 300 { &links } else { &[] });
        refreshes += u64::from(assignment.is_refresh);
        fetches += 1;
    }
    assert!(refreshes * 4 >= fetches && refreshes * 4 <= fetches + 8, "{refreshes} of {fetches}");
    assert_eq!((frontier.stats().refreshes, frontier.stats().fetches), (refreshes, fetches));
}

/// A page fetched once keeps the credit that flows to it: waiting pages would end with none.
#[test]
fn a_crawl_that_fetches_each_page_once_never_runs_out_of_credit() {
    let (_disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/home"], 0).expect("seeded");
    // A chain of pages, each of which links back to a hundred fetched ones.
    for i in 0..3_000u32 {
        let assignment = fetch(&mut frontier, 0);
        let mut links: Vec<String> =
            (i.saturating_sub(100)..i).map(|back| format!("http://a.example/{back}")).collect();
        links.extend([format!("http://a.example/{i}"), format!("http://a.example/{}", i + 1)]);
        let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
        done(&mut frontier, assignment.page, 0, &links);
        let next = frontier.urls_from(PageId::new(frontier.pages() - 1)).next().expect("a page").expect("read").1;
        assert!(state_of(&frontier, &next).credit > 0.0, "page {i}");
        assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
    }
}

#[test]
fn credit_that_flows_to_a_page_given_up_goes_to_the_virtual_page() {
    let (_disk, mut frontier) = made(options().recrawl(Some(Recrawl::new().first_ms(0).min_ms(0).max_ms(0))));
    frontier.seed(&["http://a.example/", "http://b.example/"], 0).expect("seeded");
    let a = fetch(&mut frontier, 0);
    let gone = Failure { remedy: Remedy::GiveUp, ..failure(FailureKind::ClientStatus) };
    frontier.failed(a.page, &gone, 0).expect("told");
    assert_eq!(state_of(&frontier, "http://a.example/").status, PageStatus::Gone);
    for now_ms in 0..50 {
        let b = fetch(&mut frontier, 2_000 * now_ms);
        assert_eq!(b.url, "http://b.example/");
        done(&mut frontier, b.page, 2_000 * now_ms, &["http://a.example/"]);
        let a = state_of(&frontier, "http://a.example/");
        assert_eq!((a.credit, a.last_failure), (0.0, Some(FailureKind::ClientStatus)));
    }
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
}

/// A page is identified by its canonical URL and fetched as the first link wrote it: also after a
/// replay, and after a snapshot.
#[test]
fn a_link_is_fetched_as_it_was_written_and_known_by_its_canonical_form() {
    let options = || options().journal_bytes_min(4096);
    let (disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    let first = fetch(&mut frontier, 0);
    assert_eq!((first.url.as_str(), first.key.as_str()), ("http://a.example/", "http://a.example/"));
    let texts = [
        link("http://a.example/?z&y=1", "http://a.example/?y=1&z"),
        link("http://a.example/?y=1&z", "http://a.example/?y=1&z"),
        link("http://www.b.example/x//", "http://b.example/x"),
        link("http://c.example/\0", "http://c.example/"),
    ];
    let texts: Vec<&str> = texts.iter().map(|text| &text[..]).collect();
    assert_eq!(done(&mut frontier, first.page, 0, &texts).new_links, 3);
    for round in 0..2 {
        let asked: Vec<String> = (1..4).map(|page| frontier.url(PageId::new(page)).expect("read")).collect();
        assert_eq!(asked, ["http://a.example/?z&y=1", "http://www.b.example/x//", "http://c.example/"]);
        let keys: Vec<String> = frontier.urls_from(PageId::new(1)).map(|one| one.expect("read").1).take(3).collect();
        assert_eq!(keys, ["http://a.example/?y=1&z", "http://b.example/x", "http://c.example/"]);
        assert_eq!(state_of(&frontier, "http://b.example/x").url, "http://www.b.example/x//");
        // Politeness applies to the host of the URL that is fetched.
        assert_eq!(state_of(&frontier, "http://b.example/x").host, "www.b.example");
        assert!(frontier.page("http://www.b.example/x//").expect("read").is_none());
        if round == 0 {
            frontier.seed(&(0..300).map(|n| format!("http://d.example/{n}")).collect::<Vec<_>>(), 0).expect("seeded");
            frontier.commit().expect("committed");
        }
        drop(frontier);
        frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    }
    assert!(disk.names().iter().any(|name| name == "frontier.2.journal"), "{:?}", disk.names());
}

#[test]
fn pages_are_listed_and_counted_by_what_became_of_them() {
    let (_disk, mut frontier) = made(options());
    let urls: Vec<String> = (0..40).map(|n| format!("http://h{}.example/{n}", n % 2)).collect();
    frontier.seed(&urls, 0).expect("seeded");
    for number in 0..30 {
        let assignment = fetch(&mut frontier, 0);
        let told = match number % 3 {
            0 => Failure { remedy: Remedy::GiveUp, ..failure(FailureKind::ClientStatus) },
            1 => failure(FailureKind::Timeout),
            _ => {
                done(&mut frontier, assignment.page, 0, &[]);
                continue;
            }
        };
        frontier.failed(assignment.page, &told, 0).expect("told");
    }
    let mut counts = frontier.counts().expect("read");
    counts.sort_by_key(|(_, _, count)| *count);
    assert_eq!(counts.iter().map(|(_, _, count)| count).sum::<u32>(), 40);
    assert!(counts.contains(&(PageStatus::Gone, Some(FailureKind::ClientStatus), 10)), "{counts:?}");
    assert!(counts.contains(&(PageStatus::Retrying, Some(FailureKind::Timeout), 10)), "{counts:?}");
    assert!(counts.contains(&(PageStatus::Queued, None, 10)) && counts.contains(&(PageStatus::Fetched, None, 10)));
    let wanted = |page: &PageBrief<'_>| page.status == PageStatus::Retrying && page.host == "h1.example";
    let listed: Vec<PageState> = frontier.list(wanted).map(|state| state.expect("read")).collect();
    assert!(!listed.is_empty() && listed.len() < 10);
    for state in listed {
        assert_eq!((state.due_ms, state.failed_attempts, state.host.as_str()), (Some(60_000), 1, "h1.example"));
        assert_eq!(state_of(&frontier, &state.key), state);
    }
}

/// Regression: it grew with every fetch until the journal was long.
#[test]
fn the_file_of_links_does_not_grow_with_refetches() {
    let recrawl = Recrawl::new().first_ms(0).min_ms(0).max_ms(0);
    let (disk, mut frontier) = made(options().recrawl(Some(recrawl)));
    let urls: Vec<String> = (0..200).map(|n| format!("http://a.example/{n}")).collect();
    frontier.seed(&urls, 0).expect("seeded");
    let links: Vec<&str> = urls.iter().map(|url| &url[..]).collect();
    let (mut longest, mut rewritten) = (0, std::collections::BTreeSet::new());
    for step in 0..20_000i64 {
        let assignment = fetch(&mut frontier, step * 2_000);
        done(&mut frontier, assignment.page, step * 2_000, &links);
        if step % 50 == 0 {
            frontier.commit().expect("committed");
            let name = disk.names().into_iter().find(|name| name.ends_with(".links")).expect("there");
            longest = longest.max(disk.bytes(&name).expect("there").len());
            rewritten.insert(name);
        }
    }
    assert!(longest < 3 << 19 && rewritten.len() > 2, "{longest} {rewritten:?}");
}

#[test]
fn a_page_can_be_handed_out_before_its_turn_as_its_host_allows() {
    let (disk, mut frontier) = made(FrontierOptions::new().delay_ms(1_000));
    let urls: Vec<String> = (0..20).map(|n| format!("http://a.example/{n}")).collect();
    frontier.seed(&urls, 0).expect("seeded");
    frontier.seed(&["http://b.example/"], 0).expect("seeded");
    let taken = |frontier: &mut Frontier, page: u32, now_ms: i64| {
        frontier.next_of(PageId::new(page), now_ms).expect("answered")
    };
    let Next::Fetch(first) = taken(&mut frontier, 17, 0) else { panic!("it may") };
    assert_eq!((first.url.as_str(), first.is_refresh), ("http://a.example/17", false));
    assert_eq!((taken(&mut frontier, 17, 0), taken(&mut frontier, 3, 0)), (Next::InFlight, Next::InFlight));
    done(&mut frontier, first.page, 10, &[]);
    assert_eq!(taken(&mut frontier, 3, 10), Next::Wait { until_ms: 1_000 });
    // A fetched page, and one that was given up.
    let Next::Fetch(again) = taken(&mut frontier, 17, 1_000) else { panic!("it may") };
    assert!(again.is_refresh);
    frontier.release(again.page).expect("given back");
    let Next::Fetch(gone) = taken(&mut frontier, 20, 1_000) else { panic!("it may") };
    let never = Failure { remedy: Remedy::GiveUp, ..failure(FailureKind::ClientStatus) };
    frontier.failed(gone.page, &never, 1_000).expect("told");
    let Next::Fetch(gone) = taken(&mut frontier, 20, 2_000) else { panic!("it may") };
    done(&mut frontier, gone.page, 2_000, &[]);
    assert!(matches!(frontier.next_of(PageId::new(21), 0), Err(Error::NoSuchPage { page: 21 })));
    // All others come in their turn, each once; the released one is due again.
    let (mut now_ms, mut handed) = (2_000, Vec::new());
    loop {
        match frontier.next(now_ms).expect("answered") {
            Next::Fetch(assignment) => {
                handed.push((assignment.page.number(), assignment.is_refresh));
                done(&mut frontier, assignment.page, now_ms, &[]);
            }
            Next::Wait { until_ms } => now_ms = until_ms,
            _ => break,
        }
    }
    handed.sort_unstable();
    let wanted: Vec<(u32, bool)> = (0..20).map(|page| (page, page == 17)).collect();
    assert_eq!(handed, wanted);
    frontier.commit().expect("committed");
    drop(frontier);
    let frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!((frontier.stats().fetched, frontier.credit_units().expect("read")), (21, ALL_CREDIT));
}

/// Regression: each left a timer that ended in one more fetch, again and again.
#[test]
fn pages_that_are_handed_out_before_their_turn_wait_once() {
    let recrawl = Recrawl::new().first_ms(100_000).min_ms(100_000).max_ms(100_000);
    for recrawls in [true, false] {
        let options = || options().recrawl(recrawls.then_some(recrawl)).attempts_max(3);
        let (disk, mut frontier) = made(options());
        frontier.seed(&["http://a.example/", "http://b.example/"], 0).expect("seeded");
        let taken = |frontier: &mut Frontier, page: u32, now_ms: i64| match frontier.next_of(PageId::new(page), now_ms)
        {
            Ok(Next::Fetch(assignment)) => assignment,
            other => panic!("{other:?}"),
        };
        let first = taken(&mut frontier, 0, 0);
        frontier.failed(first.page, &failure(FailureKind::Busy), 0).expect("told");
        for now_ms in [1_000, 2_000, 3_000] {
            let again = taken(&mut frontier, 0, now_ms);
            done(&mut frontier, again.page, now_ms, &[]);
        }
        let other = taken(&mut frontier, 1, 3_000);
        done(&mut frontier, other.page, 3_000, &[]);
        // A refresh that fails permanently, or too often, leaves the page as it was.
        let missing = Failure { remedy: Remedy::GiveUp, ..failure(FailureKind::ClientStatus) };
        let gone = taken(&mut frontier, 1, 4_000);
        frontier.failed(gone.page, &missing, 4_000).expect("told");
        assert_eq!((frontier.stats().gone, state_of(&frontier, "http://b.example/").status), (0, PageStatus::Fetched));
        let busy = taken(&mut frontier, 1, 5_000);
        frontier.failed(busy.page, &failure(FailureKind::Busy), 5_000).expect("told");
        frontier.commit().expect("committed");
        drop(frontier);
        let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
        let (mut now_ms, mut asked) = (6_000, Vec::new());
        while now_ms < 95_000 {
            match frontier.next(now_ms).expect("answered") {
                Next::Fetch(assignment) => {
                    asked.push(assignment.url);
                    done(&mut frontier, assignment.page, now_ms, &[]);
                }
                Next::Wait { until_ms } => now_ms = until_ms,
                _ => break,
            }
        }
        assert_eq!(asked, ["http://b.example/"], "only what has failed is tried again; recrawls: {recrawls}");
        assert_eq!(state_of(&frontier, "http://b.example/").last_failure, None);
    }
}

#[test]
fn of_two_holds_the_longer_counts() {
    let (_disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    frontier.host_hold("a.example", 600_000).expect("told");
    frontier.host_hold("a.example", 1_000).expect("told");
    assert_eq!(frontier.next(0).expect("answered"), Next::Wait { until_ms: 600_000 });
}

#[test]
fn links_of_other_crawls_are_fetched_in_their_turn_within_the_limits() {
    let (disk, mut frontier) = made(options().depth_max(4).pages_per_host_max(3));
    let arrived = ["http://a.example/1", "http://a.example/2", "http://a.example/1", "", "http://b.example/"];
    let found = frontier.arrived(&arrived, 4).expect("entered");
    assert_eq!((found.new_links, found.over_length), (3, 1));
    let found = frontier.arrived(&["http://a.example/3", "http://a.example/4", "http://b.example/"], 2);
    let found = found.expect("entered");
    assert_eq!((found.new_links, found.known_links, found.over_host_budget), (1, 1, 1));
    assert_eq!(frontier.arrived(&["http://c.example/"], 5).expect("entered").over_depth, 1);
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
    let first = fetch(&mut frontier, 0);
    assert_eq!((first.depth, first.is_seed), (4, false));
    assert_eq!(done(&mut frontier, first.page, 0, &["http://a.example/x"]).over_depth, 1);
    frontier.close().expect("closed");
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    let mut depths = Vec::new();
    while let Next::Fetch(assignment) = frontier.next(0).expect("open") {
        depths.push(assignment.depth);
    }
    depths.sort_unstable();
    assert_eq!(depths, [2, 4, 4]);
}

/// Rows, queues and the index are on disk except for a few of each; only the time changes. A
/// snapshot ends a block of lists of links, so both crawls write snapshots at the same times.
#[test]
fn a_crawl_in_little_memory_fetches_the_same_pages_in_the_same_order() {
    let crawl = |memory_bytes: u64| {
        let options = || options().memory_bytes(memory_bytes).journal_bytes_min(1 << 18);
        let (disk, mut frontier) = made(options());
        frontier.seed(&["http://a.example/0"], 0).expect("seeded");
        let (mut rng, mut fetched) = (fastrand::Rng::with_seed(3), Vec::new());
        while let Next::Fetch(assignment) = frontier.next(0).expect("answered") {
            let links: Vec<String> =
                (0..rng.u32(..9)).map(|_| format!("http://a.example/{}", rng.u32(..4_000))).collect();
            done(&mut frontier, assignment.page, 0, &links.iter().map(|link| &link[..]).collect::<Vec<_>>());
            fetched.push(assignment.url);
            frontier.commit().expect("committed");
        }
        let importance = |frontier: &Frontier| frontier.by_importance(usize::MAX).expect("read");
        let (memory, importances) = (frontier.memory_bytes(), importance(&frontier));
        drop(frontier);
        let frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
        assert_eq!((importance(&frontier), frontier.credit_units().expect("read")), (importances.clone(), ALL_CREDIT));
        (fetched, importances, memory)
    };
    let (much, little) = (crawl(1 << 24), crawl(4096));
    assert!(much.0.len() > 3_000, "{}", much.0.len());
    let differs = much.0.iter().zip(&little.0).position(|(much, little)| much != little);
    assert_eq!((differs, much.0.len()), (None, little.0.len()));
    assert!(much.1 == little.1);
    assert!(little.2 < much.2, "{} {}", little.2, much.2);
}
