//! Turns at addresses: how often one is asked, by whatever names of hosts.
//!
//! A request that comes too early gets the next turn that is free, and its host keeps that: it is
//! to come back then, whenever it does so. Who comes back late, when others have their turns, waits
//! for the next moment at which the address may be asked, and not behind those that came after it.
//!
//! Memory is bounded: of more than [`KNOWN_MAX`] hosts or addresses, what nobody waits for is
//! forgotten, and if that is too little, everything.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Hosts, and addresses, that are known at once.
const KNOWN_MAX: usize = 200_000;
/// A host's address is looked up again after this time.
const ADDRESS_FOR: Duration = Duration::from_secs(600);
/// A host is to ask again after this time at the latest: it keeps its turn.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The turns of all addresses.
#[derive(Debug)]
pub struct Turns {
    /// The time between two turns at an address.
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
    /// When the address is looked up again.
    until: Instant,
    /// The turn that it keeps.
    turn: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Address {
    /// When it may be asked next.
    open: Instant,
    /// The first turn that nobody keeps.
    free: Instant,
    /// The same of turns for those who came late.
    late: Instant,
}

impl Turns {
    /// Turns at this distance; `None` for a distance of 0.
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

    /// Takes a host's turn at its address: `None` if that is now, else the time after which it is
    /// to ask again.
    pub fn take(&self, host: &str, address: IpAddr, now: Instant) -> Option<Duration> {
        let mut known = self.known();
        known.make_room(now);
        let Known { hosts, addresses } = &mut *known;
        let at = addresses.entry(address).or_insert(Address { open: now, free: now, late: now });
        let entry = hosts.entry(host.to_owned()).or_insert(Host { address, until: now, turn: None });
        let kept = entry.turn.filter(|_| entry.address == address);
        let turn = match kept {
            Some(turn) if turn > now => turn,
            Some(_) if at.open <= now => now,
            Some(_) => {
                let turn = at.late.max(at.open);
                at.late = turn + self.every;
                turn
            }
            None => {
                let turn = at.free.max(at.open).max(now);
                at.free = turn + self.every;
                turn
            }
        };
        *entry = Host { address, until: entry.until.max(now + ADDRESS_FOR), turn: (turn > now).then_some(turn) };
        if turn <= now {
            at.ask(now, self.every);
        }
        (turn > now).then(|| (turn - now).min(WAIT_MAX))
    }

    /// An address is asked, by whom or what no turn was taken for.
    pub fn asked(&self, address: IpAddr, now: Instant) {
        let mut known = self.known();
        known.make_room(now);
        known.addresses.entry(address).or_insert(Address { open: now, free: now, late: now }).ask(now, self.every);
    }
}

impl Address {
    fn ask(&mut self, now: Instant, every: Duration) {
        self.open = self.open.max(now + every);
        self.free = self.free.max(self.open);
    }
}

impl Known {
    fn make_room(&mut self, now: Instant) {
        if self.hosts.len() >= KNOWN_MAX {
            self.hosts.retain(|_, host| host.turn.is_some());
        }
        if self.addresses.len() >= KNOWN_MAX {
            self.addresses.retain(|_, address| address.free.max(address.late) > now);
        }
        if self.hosts.len() >= KNOWN_MAX || self.addresses.len() >= KNOWN_MAX {
            self.hosts.clear();
            // The queues are gone, and so are the turns in them.
            self.addresses.retain(|_, address| address.open > now);
            self.addresses.values_mut().for_each(|address| (address.free, address.late) = (address.open, address.open));
        }
        if self.addresses.len() >= KNOWN_MAX {
            self.addresses.clear();
        }
    }
}

#[cfg(test)]
mod tests {
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
        // Each keeps its turn, however often it asks.
        assert_eq!((turns.take("b", ONE, at(50)), turns.take("c", ONE, at(150))), (Some(ms(50)), Some(ms(50))));
        assert_eq!((turns.take("b", ONE, at(100)), turns.take("c", ONE, at(210))), (None, None));
        assert_eq!(turns.take("b", ONE, at(220)), Some(ms(90)));
        assert_eq!(turns.take("a", ONE, at(1000)), None);
        // What is asked without a turn counts too.
        turns.asked(ONE, at(2000));
        assert_eq!(turns.take("a", ONE, at(2010)), Some(ms(90)));
        assert_eq!((turns.address("a", at(1000)), turns.address("x", at(1000))), (Some(ONE), None));
        assert_eq!(turns.address("a", at(700_000)), None);
        assert!(Turns::new(Duration::ZERO).is_none());
    }

    /// Has hosts ask whenever they are to, from this time on, until each has had `times` requests
    /// or an hour is over; the times of all requests.
    fn simulate(turns: &Turns, hosts: usize, times: usize, begin: Instant) -> Vec<Instant> {
        let mut waiting: std::collections::BTreeSet<(Instant, usize)> = (0..hosts).map(|host| (begin, host)).collect();
        let (mut left, mut asked) = (vec![times; hosts], Vec::new());
        while let Some((now, host)) = waiting.pop_first() {
            assert!(now < begin + Duration::from_secs(20_000), "{} hosts have had no turn", waiting.len());
            match turns.take(&host.to_string(), ONE, now) {
                Some(wait) => drop(waiting.insert((now + wait, host))),
                None => {
                    asked.push(now);
                    left[host] -= 1;
                    if left[host] > 0 {
                        waiting.insert((now + ms(1), host));
                    }
                }
            }
        }
        asked
    }

    #[test]
    fn thousands_of_hosts_at_one_address_all_have_their_turns_and_leave_none_empty() {
        let turns = Turns::new(ms(1000)).unwrap();
        let asked = simulate(&turns, 2000, 3, Instant::now());
        assert_eq!(asked.len(), 6000);
        assert!(asked.windows(2).all(|two| two[1] - two[0] >= ms(1000)));
        assert!(asked[5999] - asked[0] < ms(1000) * 6100, "{:?}", asked[5999] - asked[0]);
    }

    #[test]
    fn those_who_come_late_do_not_come_at_once() {
        let turns = Turns::new(ms(100)).unwrap();
        let begin = Instant::now();
        for host in 0..50 {
            turns.take(&host.to_string(), ONE, begin);
        }
        // The crawl has paused.
        let asked = simulate(&turns, 50, 1, begin + Duration::from_secs(60));
        assert_eq!(asked.len(), 50);
        assert!(asked.windows(2).all(|two| two[1] - two[0] >= ms(100)), "{asked:?}");
        assert!(asked[49] - asked[0] < ms(100) * 60, "{:?}", asked[49] - asked[0]);
    }

    #[test]
    fn many_hosts_and_addresses_are_forgotten_and_turns_that_are_kept_are_not() {
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
        ask(half..2 * half + 10, now + ms(10_000));
        assert!(turns.known().hosts.len() < 100 && turns.known().addresses.len() <= KNOWN_MAX);
        assert_eq!(turns.take("kept", ONE, now + ms(10_000)), Some(ms(10_000)));
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
