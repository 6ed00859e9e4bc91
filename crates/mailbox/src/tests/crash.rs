//! Power losses at any moment, kills, and calls that fail: no link is lost, none is entered twice.

use std::sync::{Arc, Mutex};

use filemap_io::sim::{Failure, Fault, Level, Loss, Snapshot};

use super::*;
use crate::failpoint::{Failpoint, plant};

type Judged<T> = std::result::Result<T, String>;
const SENDERS: u128 = 3;

/// State of a mailbox as its clients know it.
#[derive(Clone, Debug, Default)]
struct Known {
    /// All links in the order in which they were entered: crawl and number.
    entered: Vec<(u128, u64)>,
    /// Number of them that were dropped.
    dropped: u64,
    epoch: u64,
    /// Links that the call under way enters or drops if it succeeds.
    maybe_entered: usize,
    maybe_dropped: u64,
    maybe_epoch: u64,
}

fn of(sender: u128, number: u64) -> Link {
    Link { url: format!("http://h/{sender}/{number}"), depth: 2, is_seed: false }
}

impl Known {
    fn next(&self, sender: u128) -> u64 {
        let known = &self.entered[..self.entered.len() - self.maybe_entered];
        known.iter().filter(|(of, _)| *of == sender).count() as u64
    }

    /// Checks the mailbox in a crash image.
    fn judge(&self, disk: &SimDisk) -> Judged<()> {
        let boxes = Mailboxes::open_in(disk.dir(), options()).map_err(|error| format!("does not open: {error}"))?;
        let boxes = boxes.ok_or("is not there")?;
        let stats = boxes.stats()[0];
        let (all, certain) = (self.entered.len() as u64, (self.entered.len() - self.maybe_entered) as u64);
        if !(certain..=all).contains(&stats.entered) || ![certain, all].contains(&stats.entered) {
            return Err(format!("{} links were entered, {certain} to {all} should be", stats.entered));
        }
        let dropped = stats.entered - stats.waiting;
        if ![self.dropped, self.maybe_dropped].contains(&dropped) {
            return Err(format!("{dropped} links are dropped, {} or {} should be", self.dropped, self.maybe_dropped));
        }
        if ![self.epoch, self.maybe_epoch].contains(&stats.epoch) {
            return Err(format!("epoch {}, not {}", stats.epoch, self.epoch));
        }
        let found = boxes.read(0, None, usize::MAX).map_err(|error| format!("cannot be read: {error}"))?;
        let wanted = &self.entered[dropped as usize..stats.entered as usize];
        let wanted: Vec<Link> = wanted.iter().map(|(sender, number)| of(*sender, *number)).collect();
        if found.links != wanted {
            return Err(format!("{} links wait, and should: {}", found.links.len(), wanted.len()));
        }
        // Every sender sends all its links again, and one more.
        for sender in 0..SENDERS {
            let had = self.entered[..stats.entered as usize].iter().filter(|(of, _)| *of == sender).count() as u64;
            let again: Vec<Link> = (0..had + 1).map(|number| of(sender, number)).collect();
            let posted = boxes.post(0, sender, 0, &again).map_err(|error| format!("takes no more: {error}"))?;
            if posted != (Posted { entered: 1, next: had + 1 }) {
                return Err(format!("{posted:?} of {had} that it had, and one more"));
            }
        }
        let found = boxes.read(0, None, usize::MAX).map_err(|error| format!("cannot be read: {error}"))?;
        boxes.drop_to(0, boxes.stats()[0].epoch, found.cursor).map_err(|error| format!("drops nothing: {error}"))?;
        let names = disk.names();
        match boxes.stats()[0].waiting == 0 && names.iter().filter(|name| name.ends_with(".mail")).count() == 1 {
            true => Ok(()),
            false => Err(format!("files are left over: {names:?}")),
        }
    }
}

/// Checks crash images of the disk while `live` runs; returns the first violation.
fn watched<T: Clone + Send + 'static>(
    seed: u64,
    disk: &SimDisk,
    known: &Arc<Mutex<T>>,
    judge: impl Fn(&T, &SimDisk) -> Judged<()> + Send + 'static,
    live: impl FnOnce() -> Result<()>,
) -> Judged<u64> {
    let broken = Arc::new(Mutex::new((None, 0u64)));
    let (known, broken_then) = (Arc::clone(known), Arc::clone(&broken));
    let mut chance = fastrand::Rng::with_seed(seed ^ 77);
    disk.observe(Some(Box::new(move |snapshot: &Snapshot<'_>| {
        let mut broken = broken_then.lock().expect("one thread");
        if broken.0.is_some() || chance.u8(..4) > 0 {
            return;
        }
        let level = if chance.bool() { Level::Adversarial } else { Level::Ordered };
        let (loss, number) = (Loss::ALL[chance.usize(..4)], chance.u64(..));
        let image = if chance.u8(..5) == 0 { snapshot.kill() } else { snapshot.crash(level, loss, number) };
        broken.1 += 1;
        let judged = judge(&known.lock().expect("one thread"), &image);
        broken.0 =
            judged.err().map(|what| format!("seed {seed}, call {}, {level:?} {loss:?}: {what}", snapshot.calls()));
    })));
    let lived = live();
    disk.observe(None);
    let (broken, images) = std::mem::take(&mut *broken.lock().expect("one thread"));
    match (broken, lived) {
        (Some(what), _) => Err(what),
        (None, Err(error)) => Err(format!("seed {seed}: {error}")),
        (None, Ok(())) => Ok(images),
    }
}

/// Makes one call on a mailbox, and updates what is known.
fn act(boxes: &Mailboxes, rng: &mut fastrand::Rng, known: &Mutex<Known>) -> Result<()> {
    let settle = || {
        let mut known = known.lock().expect("one thread");
        (known.maybe_entered, known.dropped, known.epoch) = (0, known.maybe_dropped, known.maybe_epoch);
    };
    match rng.u8(..10) {
        0..6 => {
            let sender = rng.u128(..SENDERS);
            let next = known.lock().expect("one thread").next(sender);
            let (first, count) = (next - rng.u64(..=next.min(4)), rng.u64(1..12));
            let posted: Vec<Link> = (first..next + count).map(|number| of(sender, number)).collect();
            {
                let mut known = known.lock().expect("one thread");
                known.entered.extend((next..next + count).map(|number| (sender, number)));
                known.maybe_entered = count as usize;
            }
            boxes.post(0, sender, first, &posted)?;
        }
        6..8 => {
            let part = boxes.read(0, None, rng.usize(1..30))?;
            known.lock().expect("one thread").maybe_dropped += part.links.len() as u64;
            boxes.drop_to(0, boxes.stats()[0].epoch, part.cursor)?;
        }
        8 => {
            known.lock().expect("one thread").maybe_epoch += 1;
            boxes.claim(0, 7)?;
        }
        _ => {
            let epoch = boxes.stats()[0].epoch;
            let does = if rng.bool() { Activity::Idle } else { Activity::Working };
            boxes.report(7, &[(0, epoch)], does)?;
        }
    }
    settle();
    Ok(())
}

/// One life of a mailbox, with crashes at many moments.
fn live(seed: u64) -> Judged<u64> {
    let (disk, known) = (SimDisk::new(seed), Arc::new(Mutex::new(Known::default())));
    let mut boxes = Some(Mailboxes::create_in(disk.dir(), 1, options()).expect("made"));
    let mut rng = fastrand::Rng::with_seed(seed);
    let (of_life, disk_of_life) = (Arc::clone(&known), disk.clone());
    watched(seed, &disk, &known, Known::judge, move || {
        for _ in 0..120 {
            if let Some(open) = &boxes {
                act(open, &mut rng, &of_life)?;
            }
            if rng.u8(..40) == 0 {
                drop(boxes.take());
                boxes = Mailboxes::open_in(disk_of_life.dir(), options())?;
            }
        }
        Ok(())
    })
}

#[test]
fn no_link_is_lost_and_none_entered_twice_whenever_the_power_fails() {
    let images: u64 = (0..20).map(|seed| live(seed).unwrap_or_else(|what| panic!("{what}"))).sum();
    assert!(images > 600, "{images}");
}

#[test]
fn a_folder_of_mailboxes_is_made_whole_or_not_at_all() {
    let (disk, known) = (SimDisk::new(5), Arc::new(Mutex::new(())));
    let of_life = disk.clone();
    let judge = |_: &(), disk: &SimDisk| {
        let opened = Mailboxes::open_in(disk.dir(), options()).map_err(|error| format!("does not open: {error}"))?;
        match opened {
            Some(boxes) if boxes.shards() == 3 => Ok(()),
            Some(_) => Err("another number of shards".to_owned()),
            None => Mailboxes::create_in(disk.dir(), 3, options()).map(drop).map_err(|error| error.to_string()),
        }
    };
    let images = watched(5, &disk, &known, judge, || Mailboxes::create_in(of_life.dir(), 3, options()).map(drop));
    images.unwrap_or_else(|what| panic!("{what}"));
}

/// Known state of a crawl's outbox.
#[derive(Clone, Debug, Default)]
struct Sent {
    id: u128,
    /// Links added, committed and acknowledged for each shard.
    added: [u64; 2],
    committed: [u64; 2],
    acknowledged: [u64; 2],
}

impl Sent {
    fn judge(&self, disk: &SimDisk) -> Judged<()> {
        let mut outbox = Outbox::open_in(disk.dir(), 2).map_err(|error| format!("does not open: {error}"))?;
        if outbox.id() != self.id {
            return Err("has another id".to_owned());
        }
        for shard in 0..2 {
            let mut next = None;
            while let Some(batch) = outbox.next_batch(shard as u32, 5).map_err(|error| error.to_string())? {
                let end = batch.first + batch.links.len() as u64;
                let is_next = next.is_none_or(|next| next == batch.first);
                if !is_next || batch.links != links(batch.first..end) {
                    return Err(format!("shard {shard}: {batch:?} behind {next:?}"));
                }
                if next.is_none() && batch.first > self.acknowledged[shard] {
                    return Err(format!("{} of {} to {shard} are lost", batch.first, self.acknowledged[shard]));
                }
                next = Some(end);
                outbox.acknowledge(shard as u32, end).map_err(|error| error.to_string())?;
            }
            let end = next.unwrap_or(self.acknowledged[shard]);
            if end < self.committed[shard] || end > self.added[shard] {
                return Err(format!("{end} links to {shard}, committed {:?}", self.committed));
            }
            outbox.add(shard as u32, link(0));
            outbox.commit().map_err(|error| error.to_string())?;
            let batch = outbox.next_batch(shard as u32, 5).map_err(|error| error.to_string())?;
            if batch.is_none_or(|batch| batch.first < self.committed[shard]) {
                return Err("a number that was given is given again".to_owned());
            }
        }
        Ok(())
    }
}

fn live_of_outbox(seed: u64) -> Judged<u64> {
    let disk = SimDisk::new(seed);
    let mut outbox = Some(Outbox::open_in(disk.dir(), 2).expect("made"));
    let id = outbox.as_ref().map(Outbox::id).expect("made");
    let known = Arc::new(Mutex::new(Sent { id, ..Sent::default() }));
    let mut rng = fastrand::Rng::with_seed(seed);
    let (of_life, disk_of_life) = (Arc::clone(&known), disk.clone());
    watched(seed, &disk, &known, Sent::judge, move || {
        for _ in 0..200 {
            let Some(open) = &mut outbox else { break };
            let shard = rng.usize(..2);
            match rng.u8(..10) {
                0..5 => {
                    let mut known = of_life.lock().expect("one thread");
                    for _ in 0..rng.u8(1..9) {
                        open.add(shard as u32, link(known.added[shard]));
                        known.added[shard] += 1;
                    }
                }
                5..8 => {
                    open.commit()?;
                    let mut known = of_life.lock().expect("one thread");
                    known.committed = known.added;
                }
                _ => {
                    if let Some(batch) = open.next_batch(shard as u32, 7)? {
                        let end = batch.first + batch.links.len() as u64;
                        of_life.lock().expect("one thread").acknowledged[shard] = end;
                        open.acknowledge(shard as u32, end)?;
                    }
                }
            }
            if rng.u8(..40) == 0 {
                drop(outbox.take());
                outbox = Some(Outbox::open_in(disk_of_life.dir(), 2)?);
                // Uncommitted links are lost with the handle.
                let mut known = of_life.lock().expect("one thread");
                known.added = known.committed;
            }
        }
        Ok(())
    })
}

#[test]
fn an_outbox_keeps_what_was_committed_whenever_the_power_fails() {
    let images: u64 = (0..20).map(|seed| live_of_outbox(seed).unwrap_or_else(|what| panic!("{what}"))).sum();
    assert!(images > 600, "{images}");
}

#[test]
fn planted_mistakes_are_found() {
    let mistakes =
        [Failpoint::NotSynced, Failpoint::FileNotSynced, Failpoint::RemovedEarly, Failpoint::SendersForgotten];
    for mistake in mistakes {
        plant(Some(mistake));
        let found = (100..130).find_map(|seed| live(seed).err());
        let of_outbox = (100..130).find_map(|seed| live_of_outbox(seed).err());
        plant(None);
        assert!(found.is_some(), "{mistake:?} was not found");
        assert!(of_outbox.is_some() || mistake == Failpoint::SendersForgotten, "{mistake:?} was not found");
    }
}

#[test]
fn a_call_that_fails_enters_nothing_and_after_a_full_disk_it_goes_on() {
    let mut went_on = 0;
    for at in 1..60 {
        for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
            let disk = SimDisk::new(3);
            let mut boxes = Mailboxes::create_in(disk.dir(), 1, options()).expect("made");
            let failure = Failure { at: disk.calls() + at, fault, only_syncs: false, forever: false };
            disk.fail(Some(failure));
            let (mut next, mut failed) = (0, 0);
            while next < 300 && failed < 4 {
                match boxes.post(0, 7, next, &links(next..next + 10)) {
                    Ok(posted) => next = posted.next,
                    Err(_) => failed += 1,
                }
                if failed == 2 {
                    // A failed sync has poisoned the mailbox: restart its server.
                    drop(boxes);
                    boxes = opened(&disk);
                    next = boxes.post(0, 7, 0, &links(0..next)).expect("sent again").next;
                    failed += 1;
                }
                if let (true, Ok(part)) = (next.is_multiple_of(20), boxes.read(0, None, 10)) {
                    let _ = boxes.drop_to(0, boxes.stats()[0].epoch, part.cursor);
                }
            }
            disk.fail(None);
            assert_eq!(next, 300, "{fault:?} at {at}");
            went_on += usize::from(failed == 1);
            drop(boxes);
            let boxes = opened(&disk);
            // The sender sends all again; nothing comes twice.
            boxes.post(0, 7, 0, &links(0..300)).expect("taken");
            let stats = boxes.stats()[0];
            assert_eq!(stats.entered, 300, "{fault:?} at {at}");
            assert_eq!(waiting(&boxes, 0), links(300 - stats.waiting..300), "{fault:?} at {at}");
        }
    }
    assert!(went_on > 10, "only {went_on} went on after a call that failed");
}
