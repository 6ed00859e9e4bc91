//! Rate limiting by address: a minimum time between requests to one address, over all its hosts.
//!
//! A host that comes too early takes a ticket and gets a time for its turn, after older tickets.
//! It keeps the ticket until it has had a turn, so it may return early or late. Whichever host
//! comes when the address is free gets the turn.
//!
//! Memory is bounded: above [`KNOWN_MAX`] hosts or addresses, those without a ticket are dropped,
//! and if that is not enough, all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Hosts, and addresses, known at once.
const KNOWN_MAX: usize = 200_000;
/// The interval at which a host's address is resolved again.
const ADDRESS_FOR: Duration = Duration::from_secs(600);
/// The longest wait before a host has to ask again.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The turns of all addresses.
#[derive(Debug)]
pub struct Turns {
    /// The minimum time between two turns at an address.
    every: Duration,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    hosts: HashMap<String, Host>,
    addresses: HashMap<IpAddr, Address>,
}

#[derive(Debug)]
struct Host {
    address: IpAddr,
    /// Time at which the address must be resolved again.
    until: Instant,
    /// Its ticket, a number in the queue.
    ticket: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Address {
    /// The earliest time of the next request.
    open: Instant,
    /// The next ticket.
    next: u64,
    /// Tickets finished: their hosts have had a turn, or never came.
    done: u64,
}

impl Turns {
    /// Turns at this interval; `None` for an interval of 0.
    pub fn new(every: Duration) -> Option<Turns> {
        (!every.is_zero()).then(|| Turns { every, known: Mutex::default() })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of a host, if it is known.
    pub fn address(&self, host: &str, now: Instant) -> Option<IpAddr> {
        let known = self.known();
        known.hosts.get(host).filter(|host| host.until > now).map(|host| host.address)
    }

    /// Takes a host's turn at its address: `None` to go ahead, else the time after which to ask
    /// again.
    pub fn take(&self, host: &str, address: IpAddr, now: Instant) -> Option<Duration> {
        let mut known = self.known();
        known.make_room(now);
        let Known { hosts, addresses } = &mut *known;
        let at = addresses.entry(address).or_insert(Address::new(now));
        let entry = hosts.entry(host.to_owned()).or_insert(Host { address, until: now, ticket: None });
        if entry.address != address {
            (entry.address, entry.ticket) = (address, None);
        }
        if entry.until <= now {
            entry.until = now + ADDRESS_FOR;
        }
        if at.open <= now {
            // Each unused turn belonged to a host that was dropped.
            let missed = (now - at.open).as_nanos() / self.every.as_nanos();
            let done =
                u64::from(entry.ticket.take().is_some()).saturating_add(u64::try_from(missed).unwrap_or(u64::MAX));
            at.done = at.done.saturating_add(done).min(at.next);
            at.open = now + self.every;
            return None;
        }
        let ticket = *entry.ticket.get_or_insert_with(|| {
            at.next += 1;
            at.next - 1
        });
        let before = u32::try_from(ticket.saturating_sub(at.done)).unwrap_or(u32::MAX);
        let wait = (at.open - now).saturating_add(self.every.saturating_mul(before));
        Some(wait.min(WAIT_MAX))
    }

    /// Notes a request to the address, with or without a turn.
    pub fn asked(&self, address: IpAddr, at: Instant) {
        let mut known = self.known();
        known.make_room(at);
        let entry = known.addresses.entry(address).or_insert(Address::new(at));
        entry.open = entry.open.max(at + self.every);
    }
}

impl Address {
    /// An address free from `open` on, with nobody waiting.
    fn new(open: Instant) -> Address {
        Address { open, next: 0, done: 0 }
    }
}

impl Known {
    fn make_room(&mut self, now: Instant) {
        if self.hosts.len() >= KNOWN_MAX {
            self.hosts.retain(|_, host| host.ticket.is_some());
        }
        if self.addresses.len() >= KNOWN_MAX {
            self.addresses.retain(|_, address| address.open > now || address.done < address.next);
        }
        if self.hosts.len() >= KNOWN_MAX || self.addresses.len() >= KNOWN_MAX {
            self.hosts.clear();
            self.addresses.retain(|_, address| address.open > now);
            self.addresses.values_mut().for_each(|address| address.done = address.next);
        }
        if self.addresses.len() >= KNOWN_MAX {
            self.addresses.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(1, 1, 1, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(2, 2, 2, 2));

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn hosts_at_an_address_take_turns_and_others_do_not_wait() {
        let turns = Turns::new(ms(100)).unwrap();
        let begin = Instant::now();
        let at = |after: u64| begin + ms(after);
        assert_eq!(turns.take("a", ONE, at(0)), None);
        assert_eq!((turns.take("b", ONE, at(10)), turns.take("c", ONE, at(20))), (Some(ms(90)), Some(ms(180))));
        assert_eq!(turns.take("d", OTHER, at(20)), None);
        // Each keeps its place, however often it asks.
        assert_eq!((turns.take("c", ONE, at(30)), turns.take("b", ONE, at(50))), (Some(ms(170)), Some(ms(50))));
        assert_eq!((turns.take("b", ONE, at(100)), turns.take("c", ONE, at(150))), (None, Some(ms(50))));
        assert_eq!((turns.take("b", ONE, at(160)), turns.take("c", ONE, at(200))), (Some(ms(140)), None));
        // A request without a turn counts too, and once.
        turns.asked(ONE, at(250));
        turns.asked(ONE, at(250));
        assert_eq!(turns.take("b", ONE, at(300)), Some(ms(50)));
        assert_eq!((turns.address("a", at(1000)), turns.address("x", at(1000))), (Some(ONE), None));
        assert_eq!(turns.address("a", at(700_000)), None);
        // Even if it asks often, its address is resolved again.
        for times in 0..3 {
            turns.take("a", ONE, at(700_000 + times * 200_000));
        }
        assert_eq!(turns.address("a", at(1_301_000)), None);
        assert!(Turns::new(Duration::ZERO).is_none());
    }

    /// Simulates hosts that ask when told to, some ms late, and again some time after each turn;
    /// returns the times and hosts of the first `requests` requests.
    fn simulate(hosts: usize, every: u64, again: u64, requests: usize) -> Vec<(Instant, usize)> {
        let (turns, begin) = (Turns::new(ms(every)).unwrap(), Instant::now());
        let mut random = fastrand::Rng::with_seed(7);
        let mut waiting: BTreeSet<(Instant, usize)> = (0..hosts).map(|host| (begin, host)).collect();
        let mut asked = Vec::new();
        while asked.len() < requests {
            let (now, host) = waiting.pop_first().expect("all come back");
            let after = turns.take(&host.to_string(), ONE, now).unwrap_or_else(|| {
                asked.push((now, host));
                turns.asked(ONE, now + ms(random.u64(0..3)));
                ms(again)
            });
            waiting.insert((now + after + ms(random.u64(0..10)), host));
        }
        asked
    }

    #[test]
    fn hosts_that_come_when_they_can_have_equal_shares_and_the_address_is_asked_as_often_as_it_may_be() {
        for (hosts, every, again, requests) in
            [(500, 100, 1000, 20_000), (2000, 1000, 1000, 12_000), (50, 1000, 1000, 5_000), (3, 100, 10, 3_000)]
        {
            let asked = simulate(hosts, every, again, requests);
            assert!(asked.windows(2).all(|two| two[1].0 - two[0].0 >= ms(every)), "{hosts}");
            let took = (asked[requests - 1].0 - asked[0].0).as_secs_f64();
            let rate = requests as f64 * ms(every).as_secs_f64() / took;
            let mut shares = vec![0; hosts];
            asked.iter().for_each(|(_, host)| shares[*host] += 1);
            let (least, most) = (*shares.iter().min().unwrap(), *shares.iter().max().unwrap());
            let fair = requests / hosts;
            assert!(rate > 0.85, "{hosts} hosts: {rate}");
            assert!(least * 3 >= fair && most <= fair * 3, "{hosts} hosts: {least} to {most}, fair: {fair}");
        }
    }

    #[test]
    fn those_who_come_late_do_not_come_at_once_and_those_who_never_come_leave_no_gap() {
        let turns = Turns::new(ms(100)).unwrap();
        let begin = Instant::now();
        for host in 0..1000 {
            turns.take(&host.to_string(), ONE, begin);
        }
        // After a pause of the crawl, nine of ten hosts have nothing to ask for.
        let resumed = begin + Duration::from_secs(60);
        let mut waiting: BTreeSet<(Instant, usize)> = (0..100).map(|host| (resumed, host * 10)).collect();
        let mut asked = Vec::new();
        while let Some((now, host)) = waiting.pop_first() {
            match turns.take(&host.to_string(), ONE, now) {
                Some(wait) => drop(waiting.insert((now + wait, host))),
                None => asked.push(now),
            }
        }
        assert_eq!(asked.len(), 100);
        assert!(asked.windows(2).all(|two| two[1] - two[0] >= ms(100)), "{asked:?}");
        assert!(asked[99] - asked[0] < ms(100) * 400, "{:?}", asked[99] - asked[0]);
    }

    #[test]
    fn many_hosts_and_addresses_are_forgotten_and_those_who_wait_are_not() {
        let turns = Turns::new(ms(1000)).unwrap();
        let now = Instant::now();
        for number in 0..20 {
            turns.take(&format!("before {number}"), ONE, now);
        }
        assert_eq!(turns.take("kept", ONE, now), Some(ms(20_000)));
        let ask = |numbers: std::ops::Range<u32>, now: Instant| {
            for number in numbers {
                turns.take(&number.to_string(), IpAddr::from(number.to_be_bytes()), now);
            }
        };
        let half = KNOWN_MAX as u32 / 2;
        ask(0..half, now);
        turns.asked(ONE, now + ms(1400));
        ask(half..2 * half + 10, now + ms(1500));
        assert!(turns.known().hosts.len() < 100 && turns.known().addresses.len() <= KNOWN_MAX + 1);
        assert_eq!(turns.take("kept", ONE, now + ms(1500)), Some(ms(19_900)));
        let later = now + ms(60_000);
        (0..KNOWN_MAX as u32 + 10).for_each(|number| turns.asked(IpAddr::from(number.to_be_bytes()), later));
        assert!(turns.known().addresses.len() <= KNOWN_MAX);
    }

    #[test]
    fn a_queue_that_is_forgotten_leaves_no_empty_turns() {
        let turns = Turns::new(ms(1000)).unwrap();
        let now = Instant::now();
        for number in 0..KNOWN_MAX + 10 {
            turns.take(&number.to_string(), ONE, now);
        }
        assert!(turns.take("new", ONE, now) < Some(ms(20_000)));
    }
}
