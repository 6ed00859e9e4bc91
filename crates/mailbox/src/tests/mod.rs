//! Tests of what mailboxes and outboxes promise, also after crashes and damage.

mod crash;
mod damage;

use std::time::Duration;

use filemap_io::sim::{Failure, Fault, SimDisk};

use crate::*;

fn link(number: u64) -> Link {
    Link { url: format!("http://h{}.example/{number}", number % 7), depth: 1, is_seed: number.is_multiple_of(9) }
}

fn links(numbers: std::ops::Range<u64>) -> Vec<Link> {
    numbers.map(link).collect()
}

fn options() -> MailboxOptions {
    MailboxOptions::new()
}

fn made(shards: u32) -> (SimDisk, Mailboxes) {
    let disk = SimDisk::new(1);
    let boxes = Mailboxes::create_in(disk.dir(), shards, options()).expect("made");
    (disk, boxes)
}

fn opened(disk: &SimDisk) -> Mailboxes {
    Mailboxes::open_in(disk.dir(), options()).expect("opened").expect("there")
}

/// All waiting links of a mailbox.
fn waiting(boxes: &Mailboxes, shard: u32) -> Vec<Link> {
    boxes.read(shard, None, usize::MAX).expect("read").links
}

#[test]
fn links_sent_again_are_not_entered_twice_and_a_gap_is_refused() {
    let (disk, boxes) = made(2);
    assert_eq!(boxes.post(0, 7, 0, &links(0..3)).expect("taken"), Posted { entered: 3, next: 3 });
    assert_eq!(boxes.post(0, 7, 0, &links(0..3)).expect("taken"), Posted { entered: 0, next: 3 });
    assert_eq!(boxes.post(0, 7, 1, &links(1..5)).expect("taken"), Posted { entered: 2, next: 5 });
    assert!(matches!(boxes.post(0, 7, 6, &links(6..7)), Err(Error::Gap { shard: 0, next: 5, first: 6 })));
    assert!(matches!(boxes.post(0, 8, 1, &links(1..2)), Err(Error::Gap { next: 0, .. })));
    assert!(matches!(boxes.post(2, 7, 0, &links(0..1)), Err(Error::NoSuchShard { .. })));
    drop(boxes);
    let boxes = opened(&disk);
    assert_eq!(boxes.post(0, 7, 3, &links(3..6)).expect("taken"), Posted { entered: 1, next: 6 });
    assert_eq!((waiting(&boxes, 0), waiting(&boxes, 1)), (links(0..6), vec![]));
}

#[test]
fn links_are_read_in_parts_and_dropped_up_to_a_cursor() {
    let (disk, boxes) = made(1);
    for first in (0..20).step_by(5) {
        boxes.post(0, 7, first, &links(first..first + 5)).expect("taken");
    }
    let first = boxes.read(0, None, 8).expect("read");
    assert_eq!(first.links, links(0..10));
    let second = boxes.read(0, Some(first.cursor), 1).expect("read");
    assert_eq!(second.links, links(10..15));
    assert_eq!(boxes.drop_to(0, boxes.stats()[0].epoch, first.cursor).expect("dropped"), 10);
    assert_eq!(boxes.drop_to(0, boxes.stats()[0].epoch, first.cursor).expect("dropped"), 0);
    drop(boxes);
    let boxes = opened(&disk);
    assert_eq!(waiting(&boxes, 0), links(10..20));
    // A dropped place means the first waiting link.
    assert_eq!(boxes.read(0, Some(0), 1).expect("read").links, links(10..15));
    assert!(matches!(boxes.drop_to(0, boxes.stats()[0].epoch, second.cursor - 512), Ok(0) | Err(Error::Cursor { .. })));
    assert!(matches!(boxes.drop_to(0, boxes.stats()[0].epoch, second.cursor + 1), Err(Error::Cursor { .. })));
    assert!(matches!(boxes.read(0, Some(1 << 40), 1), Err(Error::Cursor { .. })));
    // The middle of a batch is not a place either.
    assert!(matches!(boxes.read(0, Some(second.cursor - 7), 1), Err(Error::Cursor { .. })));
    let all = boxes.read(0, None, 100).expect("read");
    assert_eq!(boxes.drop_to(0, boxes.stats()[0].epoch, all.cursor).expect("dropped"), 10);
    assert_eq!((boxes.stats()[0].waiting, boxes.stats()[0].bytes), (0, 0));
}

#[test]
fn a_part_is_bounded_by_bytes_too() {
    let (_disk, boxes) = made(1);
    let long = |number: u64| Link { url: format!("{}{}", link(number).url, "x".repeat(60_000)), ..link(number) };
    let all: Vec<Link> = (0..200).map(long).collect();
    for (at, link) in all.iter().enumerate() {
        boxes.post(0, 7, at as u64, std::slice::from_ref(link)).expect("taken");
    }
    let (mut found, mut cursor) = (Vec::new(), None);
    while found.len() < 200 {
        let part = boxes.read(0, cursor, 1_000).expect("read");
        assert!((1..80).contains(&part.links.len()), "{} links of 60 KB", part.links.len());
        found.extend(part.links);
        cursor = Some(part.cursor);
    }
    assert_eq!(found, all);
}

#[test]
fn a_full_mailbox_refuses_and_takes_again_when_its_owner_has_dropped_some() {
    let disk = SimDisk::new(1);
    let boxes = Mailboxes::create_in(disk.dir(), 1, options().max_bytes(3_000)).expect("made");
    let mut next = 0;
    let full = loop {
        match boxes.post(0, 7, next, &links(next..next + 10)) {
            Ok(posted) => next = posted.next,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Full { shard: 0, max: 3_000, .. }), "{full}");
    // Links that it has are recognised even when it is full.
    assert_eq!(boxes.post(0, 7, next - 10, &links(next - 10..next)).expect("known").entered, 0);
    let part = boxes.read(0, None, 20).expect("read");
    boxes.drop_to(0, boxes.stats()[0].epoch, part.cursor).expect("dropped");
    assert_eq!(boxes.post(0, 7, next, &links(next..next + 10)).expect("taken").entered, 10);
    let mut found = part.links;
    found.extend(waiting(&boxes, 0));
    assert_eq!(found, links(0..next + 10));
}

#[test]
fn a_shard_has_one_owner_and_an_epoch_that_fences_the_one_before() {
    let (disk, boxes) = made(2);
    let first = boxes.claim(0, 7).expect("free");
    assert!(matches!(boxes.claim(0, 8), Err(Error::Owned { owner: 7, .. })));
    assert!(matches!(boxes.free(0), Err(Error::Alive { .. })), "it was just heard from");
    // The same crawl claims again.
    let second = boxes.claim(0, 7).expect("its own");
    assert!(matches!(boxes.check(0, first), Err(Error::Fenced { .. })) && boxes.check(0, second).is_ok());
    drop(boxes);
    let boxes = Mailboxes::open_in(disk.dir(), options().lease(Duration::ZERO)).expect("opened").expect("there");
    boxes.check(0, second).expect("as before");
    boxes.free(0).expect("silent");
    let third = boxes.claim(0, 8).expect("free");
    assert!(third > second);
    assert_eq!(boxes.report(7, &[(0, second)], Activity::Idle).expect("heard"), [0]);
    assert_eq!(boxes.report(8, &[(0, third)], Activity::Idle).expect("heard"), []);
}

#[test]
fn a_fleet_is_at_its_end_when_all_are_idle_and_nothing_waits() {
    let (disk, boxes) = made(2);
    let epochs = [boxes.claim(0, 7).expect("free"), boxes.claim(1, 8).expect("free")];
    let idle = |boxes: &Mailboxes, shard: u32| {
        let (crawl, epoch) = (7 + u128::from(shard), epochs[shard as usize]);
        assert_eq!(boxes.report(crawl, &[(shard, epoch)], Activity::Idle).expect("heard"), []);
    };
    assert_eq!(boxes.standing(), Standing { working: 2, ..Standing::default() });
    idle(&boxes, 0);
    assert_eq!(boxes.standing().working, 1);
    boxes.post(0, 8, 0, &links(0..2)).expect("taken");
    idle(&boxes, 1);
    assert!(!boxes.standing().is_over, "two links wait");
    let part = boxes.read(0, None, 10).expect("read");
    boxes.drop_to(0, boxes.stats()[0].epoch, part.cursor).expect("dropped");
    assert!(!boxes.standing().is_over, "their owner was idle before it had them");
    idle(&boxes, 0);
    assert!(boxes.standing().is_over);
    drop(boxes);
    assert!(opened(&disk).standing().is_over, "that is on the device");
    let boxes = Mailboxes::open_in(disk.dir(), options().lease(Duration::ZERO)).expect("opened").expect("there");
    boxes.claim(0, 7).expect("its own");
    assert_eq!(boxes.standing(), Standing { silent: vec![0], ..Standing::default() });
}

#[test]
fn who_is_stuck_is_neither_idle_nor_at_work() {
    let (_disk, boxes) = made(2);
    let epoch = boxes.claim(0, 7).expect("free");
    boxes.report(7, &[(0, epoch)], Activity::Stuck).expect("heard");
    let standing = Standing { free: vec![1], ..Standing::default() };
    assert_eq!(boxes.standing(), standing);
    boxes.post(0, 9, 0, &links(0..2)).expect("taken");
    assert_eq!(boxes.standing().working, 1, "it has links to take");
    boxes.drop_to(0, epoch, boxes.read(0, None, 9).expect("read").cursor).expect("dropped");
    assert_eq!(boxes.standing(), standing);
    boxes.report(7, &[(0, epoch)], Activity::Working).expect("heard");
    assert_eq!(boxes.standing().working, 1);
}

#[test]
fn crawls_that_own_nothing_are_not_remembered() {
    let disk = SimDisk::new(1);
    let boxes = Mailboxes::create_in(disk.dir(), 1, options().lease(Duration::ZERO)).expect("made");
    let epoch = boxes.claim(0, 7).expect("free");
    for crawl in 100..200 {
        boxes.report(crawl, &[], Activity::Working).expect("heard");
        assert_eq!(boxes.report(crawl, &[(0, epoch - 1)], Activity::Idle).expect("heard"), [0]);
        boxes.post(0, crawl, 0, &links(0..1)).expect("taken");
    }
    assert_eq!(boxes.remembered(), 1);
    boxes.free(0).expect("silent");
    assert_eq!(boxes.remembered(), 0);
}

#[test]
fn the_number_of_shards_never_changes() {
    let (disk, boxes) = made(3);
    drop(boxes);
    assert_eq!(opened(&disk).shards(), 3);
    let other = Mailboxes::create_in(disk.dir(), 4, options());
    assert!(matches!(other, Err(Error::OtherShards { found: 3, wanted: 4, .. })));
    assert!(Mailboxes::create_in(SimDisk::new(1).dir(), 0, options()).is_err());
    assert!(Mailboxes::open_in(SimDisk::new(1).dir(), options()).expect("nothing").is_none());
    let disk = SimDisk::new(1);
    drop(Outbox::open_in(disk.dir(), 3).expect("made"));
    assert!(matches!(Outbox::open_in(disk.dir(), 2), Err(Error::OtherShards { found: 3, wanted: 2, .. })));
}

#[test]
fn links_that_are_held_are_sent_after_their_release_alone() {
    let disk = SimDisk::new(1);
    let mut outbox = Outbox::open_in(disk.dir(), 2).expect("made");
    assert!(outbox.add(1, link(1)));
    outbox.commit().expect("committed");
    outbox.hold();
    assert!(outbox.add(1, link(2)) && outbox.add(0, link(3)));
    outbox.commit().expect("committed");
    let next = |outbox: &Outbox, shard| outbox.next_batch(shard, 9).expect("read").map(|batch| batch.links);
    assert_eq!((next(&outbox, 1), next(&outbox, 0)), (Some(vec![link(1)]), None));
    assert_eq!(outbox.waiting(), 3);
    outbox.release();
    assert_eq!((next(&outbox, 1), next(&outbox, 0)), (Some(vec![link(1), link(2)]), Some(vec![link(3)])));
    assert!(outbox.add(0, link(4)));
    outbox.commit().expect("committed");
    assert_eq!(next(&outbox, 0), Some(vec![link(3)]), "it holds on");
}

#[test]
fn links_between_two_commits_take_bounded_memory_and_wait_for_the_release() {
    let disk = SimDisk::new(1);
    let mut outbox = Outbox::open_in(disk.dir(), 2).expect("made");
    outbox.hold();
    // A link takes over 50 bytes: so fewer than 40 are in memory.
    links(0..100).into_iter().for_each(|link| assert!(outbox.add_within(1, link, 2_000).expect("added")));
    assert!(!outbox.add_within(2, link(0), 2_000).expect("there is no such shard"));
    assert_eq!((outbox.waiting(), outbox.next_batch(1, 9).expect("read")), (100, None));
    let written = Outbox::open_in(disk.kill().dir(), 2).expect("opened");
    assert!((61..100).contains(&written.waiting()), "{}", written.waiting());
    outbox.commit().expect("committed");
    outbox.release();
    let first = outbox.next_batch(1, 9).expect("read").expect("released");
    assert_eq!((first.first, &first.links[0]), (0, &link(0)));
}

#[test]
fn a_commit_that_fails_on_a_full_disk_loses_no_link_of_any_shard() {
    let disk = SimDisk::new(1);
    let mut outbox = Outbox::open_in(disk.dir(), 3).expect("made");
    (0..3).for_each(|shard| assert!(outbox.add(shard, link(u64::from(shard)))));
    let at = disk.calls() + 1;
    disk.fail(Some(Failure { at, fault: Fault::Enospc, only_syncs: false, forever: false }));
    assert!(outbox.commit().expect_err("full").is_no_space());
    disk.heal();
    assert_eq!(outbox.waiting(), 3);
    outbox.commit().expect("committed");
    for shard in 0..3 {
        let batch = outbox.next_batch(shard, 9).expect("read").expect("there");
        assert_eq!(batch.links, [link(u64::from(shard))]);
    }
}

#[test]
fn links_that_a_failed_commit_has_appended_are_not_sent_before_they_are_durable() {
    let disk = SimDisk::new(1);
    let mut outbox = Outbox::open_in(disk.dir(), 3).expect("made");
    (0..3).for_each(|shard| assert!(outbox.add(shard, link(u64::from(shard)))));
    // The links of shard 0 are appended, those of shard 1 are not, and nothing is synced.
    let at = disk.calls() + 2;
    disk.fail(Some(Failure { at, fault: Fault::Enospc, only_syncs: false, forever: false }));
    assert!(outbox.commit().expect_err("full").is_no_space());
    assert!(outbox.bytes() > 0, "some are in the file");
    (0..3).for_each(|shard| assert_eq!(outbox.next_batch(shard, 9).expect("read"), None, "{shard}"));
    disk.heal();
    outbox.commit().expect("committed");
    for shard in 0..3 {
        assert_eq!(outbox.next_batch(shard, 9).expect("read").expect("there").links, [link(u64::from(shard))]);
    }
}

#[test]
fn an_outbox_keeps_links_until_they_are_acknowledged() {
    let disk = SimDisk::new(1);
    let mut outbox = Outbox::open_in(disk.dir(), 2).expect("made");
    let id = outbox.id();
    links(0..40).into_iter().for_each(|link| assert!(outbox.add(1, link)));
    assert!(outbox.add(0, link(7)) && !outbox.add(2, link(7)));
    assert!(!outbox.add(0, Link { url: String::new(), ..link(0) }));
    outbox.commit().expect("committed");
    let batch = outbox.next_batch(1, 1_000).expect("read").expect("there");
    assert!(batch.first == 0 && batch.links.len() > 1 && batch.links.len() < 40, "bounded by bytes");
    let next = batch.links.len() as u64;
    assert_eq!(batch.links, links(0..next));
    let all = outbox.bytes();
    outbox.acknowledge(1, next).expect("fewer than all");
    assert_eq!(outbox.next_batch(1, 1_000).expect("read").expect("there").first, next);
    assert_eq!(outbox.waiting(), 41 - next);
    // The link to shard 0 comes before it in the file, and is not acknowledged.
    assert!(outbox.bytes() < all, "{} of {all}", outbox.bytes());
    drop(outbox);
    // After a restart acknowledged links may be sent again, under their numbers.
    let mut outbox = Outbox::open_in(disk.dir(), 2).expect("opened");
    assert_eq!(outbox.id(), id);
    assert_eq!(outbox.bytes(), all, "all are sent again");
    outbox.acknowledge(1, 40).expect("all");
    assert_eq!(outbox.next_batch(1, 9).expect("read"), None);
    assert_eq!(outbox.next_batch(0, 9).expect("read").expect("there").links, [link(7)]);
    assert!(matches!(outbox.acknowledge(0, 2), Err(Error::Gap { next: 2, first: 1, .. })));
    outbox.acknowledge(0, 1).expect("all");
    assert_eq!((outbox.waiting(), outbox.bytes()), (0, 0));
    outbox.add(1, link(40));
    outbox.commit().expect("committed");
    assert_eq!(outbox.next_batch(1, 9).expect("read").expect("there").first, 40);
}
