//! Effects of the crawls of a fleet on each other: scopes, limits and spellings of incoming links,
//! expiring leases, full disks, shards that are taken over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crawl::fetch::address::Override;
use crawl::settings::fleet::{FleetSettings, Own};
use crawl::settings::scope::Reach;
use crawl::{Crawler, Stop};
use filemap_http::{ClientOptions, LinksClient, Mailed};
use mailbox::{Link, MailboxOptions};

use super::{Fleet, Post, all_urls, hosts, leading, ring};
use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, sites};

fn client(post: &Post, shards: u32) -> LinksClient {
    let location = format!("http://{}/v1/links", post.address);
    LinksClient::open(&location, shards, &ClientOptions::new()).expect("mailboxes")
}

/// Sends links to shard 0, as a crawl with this id that has sent none before.
fn send(post: &Post, sender: u128, urls: impl IntoIterator<Item = String>) {
    let links = urls.into_iter().map(|url| Link { url, depth: 1, is_seed: false }).collect();
    let sent = client(post, 2).post(0, sender, 0, links).expect("answered");
    assert!(matches!(sent, Mailed::Done(_)), "{sent:?}");
}

/// Waits for a condition.
#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_fetched_by_name_and_handed_over_widens_no_scope_and_a_redirected_start_page_does() {
    let hosts = hosts(2, 2);
    let to = format!("http://{}/", hosts[1]);
    let start: Site = Arc::new(move |_: &Request| Reply::to(to.clone()));
    let tree = || sites::tree(super::PAGES);
    let web = Web::new([(hosts[0], start), (hosts[1], tree()), (hosts[3], tree())]);
    let (fleet, post) = (Fleet::new(web, hosts, 2, 2), Post::new(MailboxOptions::new(), None));
    let (seed, resolve) = (format!("--seed=http://{}/", fleet.hosts[0]), fleet.web.resolve());
    let alone = ["--allow-private", "--json", "--rate=0", &resolve, &seed];
    // It is redirected to the second host, and a page of the fourth is requested by name.
    let begun = fleet.benches[0].run("run", &[&alone[..], &["--max-pages=1"]].concat()).ended(0);
    assert!(begun.words.contains("redirects to"), "{}", begun.words);
    let links = format!("--links=http://{}/v1/links", post.address);
    let part = |own: &'static str| [&alone[..], &[&*links, "--shards=2", own, "--patience=1s"]].concat();
    let named = format!("--fetch=http://{}/p/1", fleet.hosts[3]);
    fleet.benches[0].run("run", &[&part("--own=0")[..], &[&*named]].concat()).ended(5);
    let first = fleet.benches[0].start("run", &part("--own=0"));
    let second = fleet.benches[1].start("run", &part("--own=1"));
    for child in [first, second] {
        assert!([0, 1].contains(&Bench::finish(child).code));
    }
    let found = fleet.benches[1].pages();
    let of = |host: &str| found.keys().filter(|url| url.starts_with(&format!("http://{host}/"))).count();
    assert_eq!(of(fleet.hosts[1]), super::PAGES, "where the start page leads to");
    assert_eq!(of(fleet.hosts[3]), 1, "the page that was named: {:?}", found.keys());
}

#[test]
fn links_that_come_are_as_the_standard_has_them_and_within_the_limits_of_the_receiver() {
    let hosts = hosts(2, 2);
    let (one, other) = (hosts[0], hosts[2]);
    let web = Web::new([(one, leading(vec![])), (other, leading(vec![]))]);
    let (fleet, post) = (Fleet::new(web, hosts, 2, 1), Post::new(MailboxOptions::new(), None));
    let few = fleet.benches[0].path("hosts.toml");
    std::fs::write(&few, format!("[hosts.\"{other}\"]\npages = 3\n")).expect("written");
    let loud = [format!("http://{}:80/p/1", one.to_uppercase()), format!("http://{one}/a/a/a/a/a/a/")];
    send(&post, 7, loud.into_iter().chain((0..9).map(|number| format!("http://{other}/p/{number}"))));
    let hosts_file = format!("--hosts={}", few.display());
    let ran = Bench::finish(fleet.start(&post, 0, &["--own=0,1", &hosts_file])).ended(0).json();
    let counts: BTreeMap<String, usize> = fleet.web.counts().into_iter().collect();
    assert_eq!(counts.get(&format!("http://{one}/p/1")), Some(&1), "once: {counts:?}");
    assert!(counts.keys().all(|url| url.contains(".test/") && !url.contains("/a/a/")), "{counts:?}");
    assert_eq!(counts.keys().filter(|url| url.contains(&format!("{other}/p/"))).count(), 3, "{counts:?}");
    let times = |reason: &str| ran["reasons"][reason].as_u64().unwrap_or(0);
    assert!(times("repeated-path") == 1 && times("host-pages-limit") >= 6, "{ran}");
}

#[test]
fn no_visit_outlives_the_lease() {
    let hosts = hosts(2, 1);
    let lease = Duration::from_secs(2);
    let tree = sites::tree(4);
    // The first answer takes far longer than the lease.
    let slow: Site = Arc::new(move |request: &Request| {
        if request.path == "/p/1" && request.before == 0 {
            std::thread::sleep(Duration::from_secs(25));
        }
        tree(request)
    });
    let web = Web::new([(hosts[0], slow)]);
    let (fleet, mut post) = (Fleet::new(web, hosts, 2, 1), Post::new(MailboxOptions::new().lease(lease), None));
    let slow = format!("http://{}/p/1", fleet.hosts[0]);
    let child = fleet.start(&post, 0, &["--own=0,1"]);
    until("the slow page is asked for", || fleet.web.counts().contains_key(&slow));
    post.stop();
    std::thread::sleep(lease * 2);
    post.start();
    let ran = Bench::finish(child).ended(0);
    // More often, if a busy machine loses the lease once more.
    assert!(fleet.web.counts()[&slow] >= 2, "it was dropped, and asked for again: {}", ran.words);
    assert_eq!(fleet.benches[0].pages().len(), 4);
}

#[test]
fn a_crawl_without_room_on_its_disk_takes_no_links() {
    let hosts = hosts(2, 1);
    let web = Web::new([(hosts[0], sites::tree(4))]);
    let (fleet, post) = (Fleet::new(web, hosts, 2, 1), Post::new(MailboxOptions::new(), None));
    let mut child = fleet.start(&post, 0, &["--own=0,1", "--min-free=1000000GiB"]);
    let mail = client(&post, 2);
    let waiting = || match mail.report(7, &[], mailbox::Activity::Working).expect("answered") {
        Mailed::Done(news) => (news.standing.waiting, news.standing.free.len()),
        other => panic!("{other:?}"),
    };
    until("it has its shards", || waiting().1 == 0);
    std::thread::sleep(Duration::from_millis(500));
    send(&post, 7, [format!("http://{}/p/1", fleet.hosts[0])]);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(waiting().0, 1);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn who_takes_a_shard_fetches_its_start_pages_and_who_is_paused_takes_none() {
    let hosts = hosts(2, 1);
    let web = Web::new(hosts.iter().map(|host| (*host, sites::tree(3))).collect::<Vec<_>>());
    // No visit may outlive it, on a busy machine either.
    let lease = Duration::from_secs(4);
    let (fleet, mut post) = (Fleet::new(web, hosts, 2, 2), Post::new(MailboxOptions::new().lease(lease), None));
    let both = format!("--seed=http://{}/", fleet.hosts[1]);
    let start = |post: &Post, which: usize, own: &str| fleet.start(post, which, &[own, &both, "--forever"]);
    let pages = |host: &str| fleet.web.counts().get(&format!("http://{host}/")).copied().unwrap_or(0);
    let mut children = [start(&post, 0, "--own=0"), start(&post, 1, "--own=1")];
    until("both are at work", || fleet.hosts.iter().all(|host| pages(host) > 0));
    std::thread::sleep(Duration::from_secs(2));
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    post.free(1, lease);
    let before = pages(fleet.hosts[1]);
    let mut child = start(&post, 0, "--own=auto");
    until("it can be asked", || fleet.benches[0].run("pause", &[]).code == 0);
    std::thread::sleep(Duration::from_secs(13));
    assert_eq!(pages(fleet.hosts[1]), before, "it is paused");
    assert_eq!(client(&post, 2).take(1, 9).map(|taken| matches!(taken, Mailed::Done(_))).ok(), Some(true), "free");
    post.free(1, lease);
    fleet.benches[0].run("resume", &[]).ended(0);
    until("its start page is fetched again", || pages(fleet.hosts[1]) > before);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn rules_that_make_one_host_of_two_are_refused() {
    let hosts = hosts(2, 1);
    let web = Web::new(ring(&hosts, 1));
    let (fleet, post) = (Fleet::new(web, hosts, 2, 1), Post::new(MailboxOptions::new(), None));
    let ran = Bench::finish(fleet.start(&post, 0, &["--canonicalizer=crawl,+www"])).ended(2);
    assert!(ran.words.contains("would belong to two shards"), "{}", ran.words);
}

#[test]
fn a_run_in_a_program_leaves_nothing_open_behind_it() {
    let hosts = hosts(1, 1);
    let (web, post) = (Web::new(ring(&hosts, 1)), Post::new(MailboxOptions::new(), None));
    let bench = Bench::new();
    let resolve = web.resolve();
    let address = Override::parse(resolve.trim_start_matches("--resolve=")).expect("an address");
    let runs = AtomicUsize::new(0);
    let run = || {
        let mut builder = Crawler::builder(bench.store()).expect("a crawl");
        let fleet = FleetSettings::new(format!("http://{}/v1/links", post.address), 1, Own::Auto);
        builder.settings().fleet = Some(fleet);
        let builder = builder.seed(format!("http://{}/", hosts[0])).scope(Reach::Host).rate(0.0).stop(Stop::new());
        let summary = builder.allow_private().resolve(vec![address.clone()]).build().and_then(Crawler::run);
        summary.unwrap_or_else(|error| panic!("run {}: {error}", runs.load(Ordering::SeqCst)));
        runs.fetch_add(1, Ordering::SeqCst);
    };
    run();
    let names = || -> usize {
        let name =
            |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(entry.ok()?.path().join("comm")).ok();
        let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
        tasks.filter_map(name).filter(|name| ["links", "control"].contains(&name.trim())).count()
    };
    until("its threads end", || names() == 0);
    // The next runs start at once, since the outbox is free.
    (0..3).for_each(|_| run());
    until("their threads end", || names() == 0);
    assert_eq!(all_urls(&hosts).len(), bench.pages().len());
}
