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
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    children.push(start(&fleet, &post, 1, &location));
    for kill in 0..KILLS {
        let which = kill % 2;
        let before = fleet.web.pages_asked();
        while fleet.web.pages_asked() < before + PAGES / 3 && children[which].try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(120), "it does not go on");
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
