//! Several machines, each with a shard of one store in the bucket of `FILEMAP_S3`: again and again
//! one is lost with its disk, and another machine continues its shard.

use std::process::Child;
use std::time::{Duration, Instant};

use mailbox::MailboxOptions;

use super::{Fleet, PAGES, Post, all_urls, finish, hosts, ring};
use crate::bucket::{pages, place};
use crate::web::Web;
use crate::web::crawl::Bench;

const KILLS: usize = 3;

fn start(fleet: &Fleet, post: &Post, which: usize, location: &str) -> Child {
    let (store, own) = (format!("--store={location}"), format!("--own={which}"));
    fleet.start(post, which, &[&store, &own, "--commit-every=300ms"])
}

#[test]
fn a_shard_whose_machine_is_lost_goes_on_elsewhere_and_no_link_is_lost() {
    let Some(location) = place("fleet") else { return };
    let hosts = hosts(2, 2);
    let web = Web::slow(ring(&hosts, 1), Duration::from_millis(10));
    let (mut fleet, post) = (Fleet::new(web, hosts, 2, 2), Post::new(MailboxOptions::new(), None));
    // The first one creates the store.
    let mut children = vec![start(&fleet, &post, 0, &location)];
    let begun = Instant::now();
    while fleet.web.pages_asked() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    children.push(start(&fleet, &post, 1, &location));
    for kill in 0..KILLS {
        let which = kill % 2;
        let before = fleet.web.pages_asked();
        while fleet.web.pages_asked() < before + PAGES / 3 && children[which].try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(600), "it does not go on");
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = children[which].kill();
        children[which].wait().unwrap();
        // Its disk is lost too.
        fleet.benches[which] = Bench::new();
        children[which] = start(&fleet, &post, which, &location);
    }
    finish(children);
    let found = pages(&location);
    let missing: Vec<_> = all_urls(&fleet.hosts).into_iter().filter(|url| !found.contains_key(url)).collect();
    assert!(missing.is_empty(), "{} are missing, {:?}", missing.len(), missing.first());
    assert_eq!(found.len(), all_urls(&fleet.hosts).len());
    assert!(found.values().all(|(body, versions)| !body.is_empty() && *versions == 1));
}

#[test]
fn processes_take_free_shards_and_those_of_a_killed_one() {
    let Some(location) = place("auto") else { return };
    let hosts = hosts(3, 1);
    let web = Web::slow(ring(&hosts, 1), Duration::from_millis(10));
    let lease = MailboxOptions::new().lease(Duration::from_secs(2));
    let (fleet, post) = (Fleet::new(web, hosts, 3, 2), Post::new(lease, None));
    let store = format!("--store={location}");
    let start = |which: usize| fleet.start(&post, which, &[&store, "--own=auto", "--commit-every=300ms"]);
    let mut first = start(0);
    let begun = Instant::now();
    while fleet.web.pages_asked() < PAGES / 3 {
        let ended = first.try_wait().unwrap();
        assert!(ended.is_none() && begun.elapsed() < Duration::from_secs(300), "it does not go on: {ended:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let ran = Bench::finish(start(1)).ended(0);
    assert!(ran.out.lines().count() >= 3 && ran.out.lines().all(|line| line.contains("\"shard\":")), "{}", ran.out);
    let found = pages(&location);
    let missing: Vec<_> = all_urls(&fleet.hosts).into_iter().filter(|url| !found.contains_key(url)).collect();
    assert!(missing.is_empty(), "{} are missing, {:?}", missing.len(), missing.first());
    assert!(found.values().all(|(body, versions)| !body.is_empty() && *versions == 1));
    // Remembered settings are enough, and each shard has a folder of its own.
    assert!(fleet.benches[1].path("pages.fm-0.crawl").exists() && fleet.benches[1].path("pages.fm-2.crawl").exists());
    let status = fleet.benches[1].run("status", &[]).ended(2);
    assert!(status.words.contains("a folder of its own"), "{}", status.words);
    let resolve = fleet.web.resolve();
    let again = fleet.benches[1].start("run", &["--allow-private", "--json", &resolve]);
    Bench::finish(again).ended(0);
}

#[test]
fn one_process_crawls_the_shards_of_a_list() {
    let Some(location) = place("list") else { return };
    let hosts = hosts(2, 1);
    let (web, store) = (Web::new(ring(&hosts, 1)), format!("--store={location}"));
    let (fleet, post) = (Fleet::new(web, hosts, 2, 1), Post::new(MailboxOptions::new(), None));
    let ran = Bench::finish(fleet.start(&post, 0, &[&store, "--own=0,1"])).ended(0);
    assert_eq!(ran.out.lines().count(), 2, "{}", ran.out);
    assert_eq!(pages(&location).len(), all_urls(&fleet.hosts).len());
    let refused = Bench::finish(fleet.start(&post, 0, &[&store, "--own=0,1", "--fetch=http://a.test/"])).ended(2);
    assert!(refused.words.contains("--fetch is for one shard"), "{}", refused.words);
}
