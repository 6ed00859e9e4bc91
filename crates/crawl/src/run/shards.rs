//! Shards of a fleet with their pages in a bucket, crawled by one process: each by a crawl of its
//! own, on a thread of its own.
//!
//! The bucket decides who has a shard: a run that opens it fences the one before. The mailboxes
//! only tell which shards nobody works on, so that processes do not take shards from each other:
//! free ones, and those whose owner was not heard from within its lease. Two processes may choose
//! the same one at the same moment: the later one has it, and the earlier one looks for another.
//! It leaves the lost one alone for a lease: so the two do not take it from each other in turns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use filemap_http::{ClientOptions, LinksClient};
use filemap_io::guard;
use mailbox::{ShardStats, Standing};

use super::observe::{Event, Observer};
use crate::error::Error;
use crate::settings::fleet::{FleetSettings, Own};
use crate::stop::Stop;

/// The interval at which the shards are looked at, and after a failure.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The interval at which a process without room looks for shards that nobody takes.
const LOOK_BUSY: Duration = Duration::from_secs(10);
/// Leases after which the shard of a silent owner is taken without room.
const LEASES_BUSY: u32 = 2;
/// The interval at which ended crawls are noticed.
const PAUSE: Duration = Duration::from_millis(50);
/// A crawl that has starved counts as starving for this time: it says so each ten seconds.
const STARVES_FOR: Duration = Duration::from_secs(15);

/// What follows the end of a shard's crawl.
///
/// ```
/// use crawl::run::End;
/// use crawl::run::shards::Then;
/// let then = |end: End| if end == End::MaxPages { Then::Stop } else { Then::Leave };
/// assert_eq!((then(End::Complete), then(End::MaxPages)), (Then::Leave, Then::Stop));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The shard is taken again only if links come for it.
    Leave,
    /// Another owner has the shard: it may be taken again once that one is silent.
    Lost,
    /// The crawl failed: the shard is not taken again.
    Failed,
    /// Take no more shards.
    Stop,
}

/// Which crawls of a process have more connections than pages to fetch: if all have, there is room
/// for another shard.
///
/// ```
/// use crawl::run::shards::Appetite;
/// let appetite = Appetite::default();
/// assert!(appetite.has_room(), "nothing runs");
/// appetite.begins(2);
/// assert!(!appetite.has_room());
/// appetite.starves(2);
/// assert!(appetite.has_room());
/// ```
#[derive(Debug, Default)]
pub struct Appetite(Mutex<BTreeMap<u32, Option<Instant>>>);

impl Appetite {
    /// Notes that the crawl of a shard begins: the others may get its work too.
    pub fn begins(&self, shard: u32) {
        let mut crawls = guard(&self.0);
        crawls.values_mut().for_each(|since| *since = None);
        crawls.insert(shard, None);
    }

    /// Notes [`Event::Starving`] of a shard's crawl.
    pub fn starves(&self, shard: u32) {
        if let Some(since) = guard(&self.0).get_mut(&shard) {
            *since = Some(Instant::now());
        }
    }

    /// Notes that the crawl of a shard has ended.
    pub fn ends(&self, shard: u32) {
        guard(&self.0).remove(&shard);
    }

    /// Returns whether all crawls starve.
    pub fn has_room(&self) -> bool {
        guard(&self.0).values().all(|since| since.is_some_and(|since| since.elapsed() <= STARVES_FOR))
    }
}

/// The next step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Take this shard.
    Take(u32),
    /// None can be taken now, but one may later.
    Wait,
    /// Nothing is left to take.
    Over,
}

/// Decides which shard is taken next.
#[derive(Debug)]
struct Choice {
    own: Own,
    lease: Duration,
    /// The epoch of each shard when the process began, and whether the fleet was over.
    begun: BTreeMap<u32, u64>,
    was_over: bool,
    /// Shards whose crawl has ended here; those of failed ones are never taken again.
    left: BTreeSet<u32>,
    failed: BTreeSet<u32>,
    /// Shards that others have taken, and when.
    lost: BTreeMap<u32, Instant>,
    has_taken: bool,
    is_enough: bool,
}

impl Choice {
    fn new(own: &Own, lease: Duration, (standing, stats): (&Standing, &[ShardStats])) -> Choice {
        Choice {
            own: own.clone(),
            lease,
            begun: stats.iter().map(|shard| (shard.shard, shard.epoch)).collect(),
            was_over: standing.is_over,
            left: BTreeSet::new(),
            failed: BTreeSet::new(),
            lost: BTreeMap::new(),
            has_taken: false,
            is_enough: false,
        }
    }

    /// Notes the end of a shard's crawl.
    fn ended(&mut self, shard: u32, then: Then) {
        self.is_enough |= then == Then::Stop;
        match (then, &self.own) {
            (Then::Failed, _) | (_, Own::List(_)) => drop(self.failed.insert(shard)),
            (Then::Leave | Then::Stop, Own::Auto) => drop(self.left.insert(shard)),
            (Then::Lost, Own::Auto) => {
                self.lost.insert(shard, Instant::now());
                // One lost at once was no part in the fleet: others may be free.
                self.has_taken &= !self.left.is_empty();
            }
        }
    }

    /// The next step, while the crawls of these shards run here. Without room only a shard is
    /// taken whose links nobody drops: a full mailbox of a dead owner holds up the crawls that
    /// post there.
    fn step(&self, standing: &Standing, stats: &[ShardStats], running: &BTreeSet<u32>, has_room: bool) -> Step {
        if let Own::List(list) = &self.own {
            let next = list.iter().find(|shard| !running.contains(shard) && !self.failed.contains(shard));
            return next.map_or(Step::Over, |shard| Step::Take(*shard));
        }
        let (mut best, mut shards, mut may_come) = (u8::MAX, Vec::new(), false);
        for shard in stats {
            if running.contains(&shard.shard) || self.failed.contains(&shard.shard) {
                continue;
            }
            let is_late = shard.waiting > 0
                && shard.owner.is_some_and(|owner| owner.heard >= self.lease.saturating_mul(LEASES_BUSY));
            match self.rank(standing, shard) {
                Some(_) if self.rests(shard.shard) || !has_room && !is_late => may_come = true,
                Some(rank) if rank < best => (best, shards) = (rank, vec![shard.shard]),
                Some(rank) if rank == best => shards.push(shard.shard),
                Some(_) => {}
                None => may_come |= self.may_come(shard),
            }
        }
        match (shards.is_empty(), may_come) {
            // At random, so that processes that look together rarely choose the same.
            (false, _) => Step::Take(shards[fastrand::usize(..shards.len())]),
            (true, true) => Step::Wait,
            (true, false) => Step::Over,
        }
    }

    /// Returns whether a shard was lost within the lease: its new owner may not be known at the
    /// mailboxes yet, which it is after its first commit.
    fn rests(&self, shard: u32) -> bool {
        self.lost.get(&shard).is_some_and(|since| since.elapsed() < self.lease)
    }

    /// Returns whether a shard that must not be taken may be taken later: its owner may stop, and
    /// leave its work; or the fleet was over, and its owner has just ended.
    fn may_come(&self, shard: &ShardStats) -> bool {
        let is_ours = self.left.contains(&shard.shard);
        let may = |is_idle: bool| match is_idle {
            true => shard.waiting > 0 || self.was_over && self.is_unseen(shard),
            false => shard.waiting > 0 || !is_ours,
        };
        shard.owner.is_some_and(|owner| owner.heard < self.lease && may(owner.is_idle))
    }

    /// Returns whether no process has had a shard since this one began.
    fn is_unseen(&self, shard: &ShardStats) -> bool {
        !self.left.contains(&shard.shard) && self.begun.get(&shard.shard) == Some(&shard.epoch)
    }

    /// How urgent a shard is, 0 before 1; `None` if it must not be taken.
    fn rank(&self, standing: &Standing, shard: &ShardStats) -> Option<u8> {
        let was_here = self.left.contains(&shard.shard);
        let Some(owner) = shard.owner else {
            let has_begun = standing.is_over && self.has_taken;
            return match shard.waiting > 0 {
                true => Some(1),
                false => (!has_begun && !was_here).then_some(2),
            };
        };
        if owner.heard < self.lease {
            return None;
        }
        let has_work = shard.waiting > 0 || !owner.is_idle && !was_here;
        // Idle ones are looked at once: their pages may be due again, or start pages be new.
        if has_work { Some(0) } else { self.is_unseen(shard).then_some(3) }
    }
}

/// Looks at the shards of the fleet from time to time.
struct Looks<'a> {
    client: LinksClient,
    observer: &'a Arc<dyn Observer>,
    next: Instant,
    answered: Instant,
}

/// The state of a fleet and of its shards.
type Look = (Standing, Vec<ShardStats>);

impl Looks<'_> {
    /// The state of the fleet, if a look is due and is answered.
    ///
    /// # Errors
    /// The error of the server, if no crawl runs and it has not answered for the lease.
    fn look(&mut self, is_alone: bool, has_room: bool) -> Result<Option<Look>, Error> {
        let due = if has_room { self.next } else { self.next.max(self.answered + LOOK_BUSY) };
        if Instant::now() < due {
            return Ok(None);
        }
        match self.client.shards() {
            Ok(found) => {
                (self.answered, self.next) = (Instant::now(), Instant::now() + LOOK_EVERY);
                Ok(Some(found))
            }
            Err(error) if is_alone && self.answered.elapsed() >= self.client.lease() => Err(error.into()),
            Err(error) => {
                self.next = Instant::now() + LOOK_AGAIN;
                drop(self.observer.event(&Event::LinksLater { why: error.to_string(), after: LOOK_AGAIN }));
                Ok(None)
            }
        }
    }
}

/// Crawls the shards of a fleet that this process owns: those of a list, or free ones, one at the
/// start, and one more each time when `appetite` has room. `crawl` crawls one to its end, on a
/// thread of its own. Returns the results, in the order of their ends: when the fleet is over, the
/// listed ones have ended, or a stop was asked for. A busy process takes only a shard with links
/// whose owner is silent for two leases. A crawl that panics ends the process: the others are
/// stopped, as by `stop`. Blocks.
///
/// # Errors
/// Errors of the server of the mailboxes, at the start, or if it is away for the lease while
/// nothing is crawled. A crawl that panicked, when the others have ended.
///
/// ```no_run
/// use crawl::run::shards::{Appetite, Then, crawl_shards};
/// use crawl::settings::fleet::{FleetSettings, Own};
/// # use std::sync::Arc;
/// let fleet = FleetSettings::new("http://127.0.0.1:8640/v1/links", 16, Own::Auto);
/// let (stop, appetite) = (crawl::Stop::new(), Appetite::default());
/// let nobody: Arc<dyn crawl::run::Observer> = Arc::new(crawl::run::Nobody);
/// let crawl = |shard: u32| (format!("shard {shard} is crawled"), Then::Leave);
/// let ended = crawl_shards(&fleet, &Default::default(), (&stop, &nobody, &appetite), crawl)?;
/// assert!(ended.len() <= 16);
/// # Ok::<(), crawl::Error>(())
/// ```
pub fn crawl_shards<T: Send>(
    fleet: &FleetSettings,
    options: &ClientOptions,
    (stop, observer, appetite): (&Stop, &Arc<dyn Observer>, &Appetite),
    crawl: impl Fn(u32) -> (T, Then) + Sync,
) -> Result<Vec<(u32, T)>, Error> {
    let client = LinksClient::open(&fleet.links, fleet.shards, options)?;
    let (standing, stats) = client.shards()?;
    let mut choice = Choice::new(&fleet.own, client.lease(), (&standing, &stats));
    let now = Instant::now();
    let (mut looks, crawl) = (Looks { client, observer, next: now, answered: now }, &crawl);
    std::thread::scope(|scope| {
        let (mut threads, mut results, mut has_said, mut broken) = (BTreeMap::new(), Vec::new(), false, None);
        loop {
            for (shard, ended) in ended(&mut threads) {
                appetite.ends(shard);
                looks.next = Instant::now();
                match ended {
                    Ok((result, then)) => {
                        choice.ended(shard, then);
                        results.push((shard, result));
                    }
                    Err(error) => {
                        // The scope waits for the others, which may never end by themselves.
                        stop.ask();
                        broken = broken.or(Some(error));
                    }
                }
            }
            let goes_on = !stop.is_asked() && !choice.is_enough;
            if threads.is_empty() && !goes_on {
                return broken.map_or(Ok(results), Err);
            }
            let has_room = appetite.has_room() || fleet.own != Own::Auto;
            let found = if goes_on { looks.look(threads.is_empty(), has_room)? } else { None };
            let running: BTreeSet<u32> = threads.keys().copied().collect();
            let step = found.map(|(standing, stats)| choice.step(&standing, &stats, &running, has_room));
            if step == Some(Step::Wait) && running.is_empty() && !std::mem::replace(&mut has_said, true) {
                observer.event(&Event::NoShard { lease: choice.lease }).map_err(Error::Observer)?;
            }
            match step.unwrap_or(Step::Wait) {
                Step::Take(shard) => {
                    appetite.begins(shard);
                    choice.has_taken = true;
                    looks.next = Instant::now();
                    threads.insert(shard, scope.spawn(move || crawl(shard)));
                }
                Step::Over if threads.is_empty() => return Ok(results),
                Step::Over | Step::Wait => std::thread::sleep(PAUSE),
            }
        }
    })
}

/// A shard whose crawl has ended; an error is a panic.
type Ended<T> = (u32, Result<(T, Then), Error>);

/// Takes out the crawls that have ended.
fn ended<T>(threads: &mut BTreeMap<u32, ScopedJoinHandle<'_, (T, Then)>>) -> Vec<Ended<T>> {
    let done: Vec<u32> = threads.iter().filter(|(_, thread)| thread.is_finished()).map(|(shard, _)| *shard).collect();
    let mut ended = Vec::new();
    for shard in done {
        let Some(thread) = threads.remove(&shard) else { continue };
        let broke = |_| Error::Broken(format!("the crawl of shard {shard} stopped unexpectedly; please report it"));
        ended.push((shard, thread.join().map_err(broke)));
    }
    ended
}

#[cfg(test)]
mod tests {
    use mailbox::Owner;

    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn free(shard: u32, waiting: u64) -> ShardStats {
        ShardStats { shard, waiting, bytes: 0, entered: waiting, epoch: 0, owner: None }
    }

    fn owned(shard: u32, waiting: u64, heard: u64, is_idle: bool) -> ShardStats {
        let owner = Owner { crawl: 7, heard: Duration::from_secs(heard), is_idle };
        ShardStats { shard, waiting, bytes: 0, entered: waiting, epoch: 3, owner: Some(owner) }
    }

    fn standing(stats: &[ShardStats]) -> Standing {
        let is_done = |shard: &ShardStats| shard.waiting == 0 && shard.owner.is_none_or(|owner| owner.is_idle);
        Standing { is_over: stats.iter().all(is_done), ..Standing::default() }
    }

    fn chosen(stats: &[ShardStats], own: &Own) -> Choice {
        Choice::new(own, LEASE, (&standing(stats), stats))
    }

    fn step(choice: &Choice, stats: &[ShardStats], running: &[u32]) -> Step {
        choice.step(&standing(stats), stats, &running.iter().copied().collect(), true)
    }

    #[test]
    fn a_shard_is_taken_from_nobody_who_was_heard_from_within_the_lease() {
        let at_work = [owned(0, 9, 59, false), owned(1, 0, 0, false)];
        let choice = chosen(&at_work, &Own::Auto);
        assert_eq!(step(&choice, &at_work, &[]), Step::Wait, "one of them may stop");
        let one_is_silent = [owned(0, 9, 60, false), owned(1, 0, 0, false)];
        assert_eq!(step(&choice, &one_is_silent, &[]), Step::Take(0));
        assert_eq!(step(&choice, &one_is_silent, &[0]), Step::Wait, "it is crawled here");
    }

    #[test]
    fn silent_shards_with_work_come_before_free_ones_and_those_with_links_first() {
        let mut stats = vec![owned(0, 0, 99, true), free(1, 0), free(2, 4), owned(3, 0, 99, false)];
        let choice = chosen(&stats, &Own::Auto);
        for expected in [3, 2, 1, 0] {
            assert_eq!(step(&choice, &stats, &[]), Step::Take(expected));
            stats.retain(|shard| shard.shard != expected);
        }
        assert_eq!(step(&choice, &stats, &[]), Step::Over);
    }

    #[test]
    fn each_shard_of_an_earlier_fleet_is_looked_at_by_one_process() {
        let before = [owned(0, 0, 99, true), owned(1, 0, 99, true)];
        let mut choice = chosen(&before, &Own::Auto);
        choice.has_taken = true;
        choice.ended(0, Then::Leave);
        assert_eq!(step(&choice, &before, &[]), Step::Take(1));
        // Another process had it meanwhile.
        let later = [before[0], ShardStats { epoch: 4, ..before[1] }];
        assert_eq!(step(&choice, &later, &[]), Step::Over);
        // Links have come for the first one.
        let later = [owned(0, 1, 99, true), later[1]];
        assert_eq!(step(&choice, &later, &[]), Step::Take(0));
        choice.ended(0, Then::Failed);
        assert_eq!(step(&choice, &later, &[]), Step::Over);
    }

    #[test]
    fn after_a_fleet_that_was_over_a_process_waits_until_its_owners_are_silent() {
        let just_ended = [owned(0, 0, 5, true)];
        assert_eq!(step(&chosen(&just_ended, &Own::Auto), &just_ended, &[]), Step::Wait);
        // In a fleet at work an idle owner is left alone, also when all is over.
        let at_work = [owned(0, 0, 5, true), owned(1, 3, 5, false)];
        assert_eq!(step(&chosen(&at_work, &Own::Auto), &just_ended, &[]), Step::Over);
    }

    #[test]
    fn a_new_fleet_begins_though_nothing_waits_and_a_lost_shard_may_come_back() {
        let new = [free(0, 0)];
        let mut choice = chosen(&new, &Own::Auto);
        assert_eq!(step(&choice, &new, &[]), Step::Take(0));
        choice.has_taken = true;
        assert_eq!(step(&choice, &new, &[]), Step::Over);
        choice.ended(0, Then::Lost);
        assert_eq!(step(&choice, &[owned(0, 0, 1, false)], &[]), Step::Wait);
        assert_eq!(step(&choice, &[free(0, 0), free(1, 0)], &[]), Step::Take(1), "another is free");
        // Its new owner may not have said so at the mailboxes yet.
        for stats in [owned(0, 0, 99, false), free(0, 4)] {
            assert_eq!(step(&choice, &[stats], &[]), Step::Wait, "{stats:?}");
        }
        choice.lease = Duration::ZERO;
        assert_eq!(step(&choice, &[owned(0, 0, 99, false)], &[]), Step::Take(0));
    }

    #[test]
    fn a_process_without_room_takes_only_a_shard_whose_links_nobody_drops() {
        let choice = chosen(&[free(0, 0)], &Own::Auto);
        let busy = |stats: ShardStats| {
            let running = [7].into_iter().collect();
            choice.step(&standing(&[stats]), &[stats], &running, false)
        };
        for left in [free(0, 9), owned(0, 9, 60, false), owned(0, 9, 119, false), owned(0, 0, 120, false)] {
            assert_eq!(busy(left), Step::Wait, "{left:?}");
        }
        assert_eq!(busy(owned(0, 9, 120, false)), Step::Take(0));
        assert_eq!(busy(owned(0, 9, 120, true)), Step::Take(0), "links have come for it");
    }

    #[test]
    fn a_shard_that_ended_here_with_work_keeps_the_process_only_if_links_come() {
        let stats = [owned(0, 0, 9, false)];
        let mut choice = chosen(&stats, &Own::Auto);
        choice.ended(0, Then::Leave);
        assert_eq!(step(&choice, &stats, &[]), Step::Over);
        assert_eq!(step(&choice, &[owned(0, 0, 99, false)], &[]), Step::Over);
        assert_eq!(step(&choice, &[owned(0, 1, 9, false)], &[]), Step::Wait);
        assert_eq!(step(&choice, &[owned(0, 1, 60, false)], &[]), Step::Take(0));
    }

    #[test]
    fn listed_shards_are_crawled_once_whoever_has_them() {
        let stats = [owned(0, 0, 0, false), owned(1, 0, 0, false), free(2, 9)];
        let mut choice = chosen(&stats, &Own::List([0, 1].into()));
        assert_eq!((step(&choice, &stats, &[]), step(&choice, &stats, &[0])), (Step::Take(0), Step::Take(1)));
        choice.ended(0, Then::Lost);
        choice.ended(1, Then::Leave);
        assert_eq!(step(&choice, &stats, &[]), Step::Over);
    }

    #[test]
    fn there_is_room_when_all_starve_and_none_right_after_a_shard_was_taken() {
        let appetite = Appetite::default();
        [4, 5].into_iter().for_each(|shard| appetite.begins(shard));
        appetite.starves(4);
        assert!(!appetite.has_room());
        appetite.starves(5);
        assert!(appetite.has_room());
        appetite.begins(6);
        assert!(!appetite.has_room());
        [5, 6].into_iter().for_each(|shard| appetite.ends(shard));
        assert!(!appetite.has_room());
        appetite.starves(4);
        appetite.starves(9);
        assert!(appetite.has_room(), "of 9 there is no crawl");
    }
}
