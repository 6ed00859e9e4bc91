//! Fair shares of pages without a voucher: by site, by host and by shape of the URL.
//!
//! A page without a voucher ([`crate::trust`]) may be the far end of a long chain, or a page of a
//! trap. The pages look alike, but their families differ. A family is the fetched pages of a site,
//! a host, or a shape on a host; those of good standing are its proofs of worth. A family may have
//! as many fetched pages without a voucher as it has proofs, and [`FREE`] more. Beyond that it has
//! a *level*, the logarithm of the multiple of its share, and pages without a voucher are ordered
//! by level: all families get the same multiple of their shares. A trap behind the greatest hub
//! has one proof, its root, however much credit.
//!
//! Invariant: counts follow from the page table: the fetched pages, and the host, shape and
//! standing of each. A snapshot has them, so that an opening need not read all rows.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::grow::push;
use crate::slots::Slots;
use crate::trust::Standing;

/// Pages without a voucher that every family may have beyond its proofs.
const FREE: u64 = 16;
/// Levels are below this.
pub(crate) const LEVELS: u16 = 64;
/// Levels in each doubling of the share, as a power of two.
const STEPS_LOG2: u32 = 2;

/// Counts of fetched pages of a family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) bare: u32,
    pub(crate) proofs: u32,
}

impl Family {
    fn is_empty(self) -> bool {
        self == Family::default()
    }

    fn count(&mut self, standing: Standing, by: i32) {
        let count = match standing {
            Standing::None => &mut self.bare,
            // A page reached only through the root of a trap proves nothing.
            Standing::Named => return,
            Standing::Near | Standing::Endorsed => &mut self.proofs,
        };
        *count = count.saturating_add_signed(by);
    }

    fn level(self) -> u16 {
        let shares = (u64::from(self.bare) << STEPS_LOG2) / (u64::from(self.proofs) + FREE);
        if shares >> STEPS_LOG2 == 0 {
            return 0;
        }
        let doublings = shares.ilog2() - STEPS_LOG2;
        let step = shares >> doublings & ((1 << STEPS_LOG2) - 1);
        (((doublings as u16) << STEPS_LOG2 | step as u16) + 1).min(LEVELS - 1)
    }
}

/// The counts of a host: eight bytes, and two of [`Kin`].
#[derive(Clone, Copy, Debug, Default)]
struct Small {
    /// A hash of its site's name; sites of equal hash are merged.
    site: u32,
    /// Its family, unless it is in [`Shares::large`].
    bare: u16,
    proofs: u16,
}

/// Families of a host besides its own. Most sites have one host, and most hosts have fetched pages
/// of one shape: then the host's family is the only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kin(u16);

impl Kin {
    /// The host was entered.
    const KNOWN: u16 = 1 << 15;
    /// Its site has other hosts.
    const SHARED: u16 = 1 << 14;
    /// Its family is in the map of large ones.
    const LARGE: u16 = 1 << 13;
    /// All its fetched pages have the shape in the low byte.
    const ONE_SHAPE: u16 = 1 << 12;
    /// Its shapes have their own families.
    const SHAPES: u16 = 1 << 11;

    fn is(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    fn set(&mut self, flag: u16) {
        self.0 |= flag;
    }

    fn one_shape(self) -> Option<u8> {
        self.is(Kin::ONE_SHAPE).then_some(self.0 as u8)
    }

    fn set_one_shape(&mut self, shape: Option<u8>) {
        let one = shape.map_or(0, |shape| Kin::ONE_SHAPE | u16::from(shape));
        self.0 = self.0 & !(Kin::ONE_SHAPE | 0xff) | one;
    }
}

/// Fetched pages by family.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// Counts of each host, by number.
    hosts: Vec<Small>,
    kin: Vec<Kin>,
    /// Families of hosts whose counts exceed 16 bits.
    large: HashMap<u32, Family>,
    /// The first host of each site.
    sites: Slots,
    /// Families of sites with several hosts, by the hash of their names.
    shared: HashMap<u32, Family>,
    /// Families of shapes with fetched pages, on hosts with several shapes.
    shapes: HashMap<u64, Family>,
}

fn of_shape(host: u32, shape: u8) -> u64 {
    u64::from(host) << 8 | u64::from(shape)
}

fn hash_of(slots: &Slots, site: u32) -> u64 {
    slots.hash(&site.to_le_bytes())
}

impl Shares {
    /// Enters a host that has a known page.
    pub(crate) fn enter(&mut self, host: u32, site: &str) {
        while self.hosts.len() <= host as usize {
            push(&mut self.hosts, Small::default());
            push(&mut self.kin, Kin::default());
        }
        if self.kin[host as usize].is(Kin::KNOWN) {
            return;
        }
        let site = xxh3_64(site.as_bytes()) as u32;
        self.kin[host as usize].set(Kin::KNOWN);
        self.hosts[host as usize].site = site;
        let (hash, hosts) = (hash_of(&self.sites, site), &self.hosts);
        match self.sites.find(hash, |one| hosts[one as usize].site == site) {
            Some(first) => {
                if !self.kin[first as usize].is(Kin::SHARED) {
                    self.kin[first as usize].set(Kin::SHARED);
                    self.shared.insert(site, self.of_host(first));
                }
                self.kin[host as usize].set(Kin::SHARED);
            }
            None => self.sites.add(hash, host, |slots, one| hash_of(slots, hosts[one as usize].site)),
        }
    }

    fn kin_of(&self, host: u32) -> Kin {
        self.kin.get(host as usize).copied().unwrap_or_default()
    }

    /// Adds a fetched page to the counts (`by` is 1), or removes it (-1).
    pub(crate) fn count(&mut self, host: u32, shape: u8, standing: Standing, by: i32) {
        let kin = self.kin_of(host);
        if !kin.is(Kin::KNOWN) {
            return;
        }
        let before = self.of_host(host);
        let mut family = before;
        family.count(standing, by);
        if !kin.is(Kin::SHAPES) && kin.one_shape() != Some(shape) && !before.is_empty() {
            self.tell_shapes_apart(host);
        }
        self.set_family(host, family);
        if let Some(site) = self.shared.get_mut(&self.hosts[host as usize].site).filter(|_| kin.is(Kin::SHARED)) {
            site.count(standing, by);
        }
        let kin = &mut self.kin[host as usize];
        if !kin.is(Kin::SHAPES) {
            kin.set_one_shape(Some(shape).filter(|_| !family.is_empty()));
            return;
        }
        let of_shape = of_shape(host, shape);
        let family = self.shapes.entry(of_shape).or_default();
        family.count(standing, by);
        if family.is_empty() {
            self.shapes.remove(&of_shape);
        }
    }

    /// Gives each shape of a host its own family.
    fn tell_shapes_apart(&mut self, host: u32) {
        let (family, kin) = (self.of_host(host), &mut self.kin[host as usize]);
        if let Some(shape) = kin.one_shape() {
            self.shapes.insert(of_shape(host, shape), family);
        }
        kin.set_one_shape(None);
        kin.set(Kin::SHAPES);
    }

    fn set_family(&mut self, host: u32, family: Family) {
        let kin = &mut self.kin[host as usize];
        if let (false, Ok(bare), Ok(proofs)) =
            (kin.is(Kin::LARGE), u16::try_from(family.bare), u16::try_from(family.proofs))
        {
            let small = &mut self.hosts[host as usize];
            (small.bare, small.proofs) = (bare, proofs);
        } else {
            kin.set(Kin::LARGE);
            self.large.insert(host, family);
        }
    }

    /// Counts a fetched page whose standing has risen.
    pub(crate) fn risen(&mut self, host: u32, shape: u8, before: Standing, after: Standing) {
        self.count(host, shape, before, -1);
        self.count(host, shape, after, 1);
    }

    /// The level of pages of a host and a shape: below [`LEVELS`], 0 within their shares.
    #[inline]
    pub(crate) fn level(&self, host: u32, shape: u8) -> u16 {
        let (kin, family) = (self.kin_of(host), self.of_host(host));
        let of_shape = match kin.is(Kin::SHAPES) {
            true => self.shapes.get(&of_shape(host, shape)).copied().unwrap_or_default(),
            // The shape's level is at most the host's.
            false => Family::default(),
        };
        let of_site = match self.hosts.get(host as usize).filter(|_| kin.is(Kin::SHARED)) {
            Some(small) => self.shared.get(&small.site).copied().unwrap_or_default(),
            None => family,
        };
        family.level().max(of_site.level()).max(of_shape.level())
    }

    /// The family of a host.
    pub(crate) fn of_host(&self, host: u32) -> Family {
        if self.kin_of(host).is(Kin::LARGE) {
            return self.large.get(&host).copied().unwrap_or_default();
        }
        let small = self.hosts.get(host as usize).copied().unwrap_or_default();
        Family { bare: u32::from(small.bare), proofs: u32::from(small.proofs) }
    }

    /// Families of one shape on a host, by host and shape, in order.
    pub(crate) fn of_shapes(&self) -> Vec<(u64, Family)> {
        let one = self.kin.iter().zip(0u32..).filter_map(|(kin, host)| Some((of_shape(host, kin.one_shape()?), host)));
        let one = one.map(|(key, host)| (key, self.of_host(host)));
        let mut shapes: Vec<(u64, Family)> =
            self.shapes.iter().map(|(key, family)| (*key, *family)).chain(one).collect();
        shapes.sort_unstable_by_key(|(key, _)| *key);
        shapes
    }

    /// Enters a host from a snapshot, with its family.
    pub(crate) fn load_host(&mut self, host: u32, site: &str, family: Family) {
        self.enter(host, site);
        self.set_family(host, family);
        let (kin, site) = (self.kin_of(host), self.hosts[host as usize].site);
        if let Some(of_site) = self.shared.get_mut(&site).filter(|_| kin.is(Kin::SHARED)) {
            of_site.bare = of_site.bare.saturating_add(family.bare);
            of_site.proofs = of_site.proofs.saturating_add(family.proofs);
        }
    }

    /// Enters the family of a shape from a snapshot, on a host whose shapes have families.
    pub(crate) fn load_shape(&mut self, key: u64, family: Family) {
        let host = (key >> 8) as u32;
        let (kin, of_host) = (self.kin_of(host), self.of_host(host));
        if !kin.is(Kin::KNOWN) || family.is_empty() {
            return;
        }
        if !kin.is(Kin::SHAPES) && kin.one_shape().is_none() && of_host == family {
            return self.kin[host as usize].set_one_shape(Some(key as u8));
        }
        if !kin.is(Kin::SHAPES) {
            self.tell_shapes_apart(host);
        }
        self.shapes.insert(key, family);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        const FAMILY: usize = size_of::<Family>() + 1;
        let hosts = self.hosts.capacity() * size_of::<Small>() + self.kin.capacity() * size_of::<Kin>();
        let few = (self.large.capacity() + self.shared.capacity()) * (size_of::<u32>() + FAMILY);
        self.sites.memory_bytes() + (hosts + few + self.shapes.capacity() * (size_of::<u64>() + FAMILY)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_share_and_then_a_level_that_rises_with_what_it_has_had() {
        let mut family = Family::default();
        let mut last = 0;
        for bare in 0..2_000_000 {
            family.bare = bare;
            let level = family.level();
            assert!((last..LEVELS).contains(&level), "{bare}: {level} after {last}");
            assert_eq!(level == 0, u64::from(bare) < FREE, "{bare}");
            last = level;
        }
        assert!(last > 60, "{last}");
        let proven = Family { bare: 2_000_000, proofs: 2_000_000 };
        assert_eq!(proven.level(), 0);
        assert!(Family { proofs: 1_000_000, ..proven }.level() <= 5);
        assert_eq!(Family { bare: u32::MAX, proofs: 0 }.level(), LEVELS - 1);
    }

    #[test]
    fn a_page_counts_for_its_shape_its_host_and_its_site() {
        let mut shares = Shares::default();
        shares.enter(2, "example.com");
        shares.enter(0, "example.com");
        shares.enter(1, "other.example");
        (0..16).for_each(|_| shares.count(0, 7, Standing::None, 1));
        assert!(shares.level(0, 7) > 0 && shares.level(0, 8) > 0, "of the host");
        assert!(shares.level(2, 7) > 0, "of the site");
        assert_eq!((shares.level(1, 7), shares.level(9, 7)), (0, 0));
        // Proof for the host, not for the shape; a word of the root of a trap is none.
        (0..16).for_each(|_| shares.count(0, 8, Standing::Named, 1));
        assert!(shares.level(0, 8) > 0);
        (0..16).for_each(|_| shares.risen(0, 8, Standing::Named, Standing::Near));
        assert!(shares.level(0, 7) > 0);
        assert_eq!((shares.level(0, 8), shares.level(2, 7)), (0, 0));
        (0..16).for_each(|_| shares.count(0, 7, Standing::None, -1));
        assert_eq!((shares.level(0, 7), shares.shapes.len()), (0, 1));
    }

    /// The reference: families of all hosts, shapes and sites, without the savings for hosts of
    /// one shape and sites of one host.
    #[derive(Default)]
    struct Plain(HashMap<(u8, u64), Family>);

    impl Plain {
        fn families(host: u32, shape: u8) -> [(u8, u64); 3] {
            [(0, u64::from(host)), (1, u64::from(host / 2).min(20)), (2, of_shape(host, shape))]
        }

        fn level(&self, host: u32, shape: u8) -> u16 {
            let levels = Plain::families(host, shape).map(|key| self.0.get(&key).copied().unwrap_or_default().level());
            levels.into_iter().max().unwrap_or_default()
        }
    }

    #[test]
    fn levels_are_as_if_every_family_had_its_own_counts_also_after_a_snapshot() {
        let mut rng = fastrand::Rng::with_seed(2);
        let (mut shares, mut plain) = (Shares::default(), Plain::default());
        let site = |host: u32| format!("s{}.example", (host / 2).min(20));
        (0..60).for_each(|host| shares.enter(host, &site(host)));
        for turn in 0..60_000 {
            let (host, shape) = (rng.u32(..60), [7, 7, 7, 8, 9][rng.usize(..5)] + 10 * u8::from(turn % 5 == 4));
            let standing = [Standing::None, Standing::None, Standing::Named, Standing::Near][rng.usize(..4)];
            // Every fourth host has one shape; one host has very many pages.
            let shape = if host % 4 == 1 { 5 } else { shape };
            let times = if host == 3 && turn % 3 == 0 { 900 } else { 1 };
            for _ in 0..times {
                let by = if rng.u8(..8) == 0 { -1 } else { 1 };
                // Removes only pages that were counted.
                let all = Plain::families(host, shape).map(|key| plain.0.get(&key).copied().unwrap_or_default());
                if by < 0 && all.iter().any(|family| family.bare.min(family.proofs) == 0) {
                    continue;
                }
                shares.count(host, shape, standing, by);
                let families = Plain::families(host, shape);
                families.iter().for_each(|key| plain.0.entry(*key).or_default().count(standing, by));
            }
            if turn % 20_000 == 19_999 {
                let before = std::mem::take(&mut shares);
                (0..60).for_each(|host| shares.load_host(host, &site(host), before.of_host(host)));
                before.of_shapes().into_iter().for_each(|(key, family)| shares.load_shape(key, family));
                assert_eq!(shares.of_shapes(), before.of_shapes());
            }
            let (host, shape) = (rng.u32(..60), rng.u8(4..20));
            assert_eq!(shares.level(host, shape), plain.level(host, shape), "turn {turn}, host {host}, shape {shape}");
        }
        assert!(shares.large.contains_key(&3) && !shares.shapes.contains_key(&of_shape(1, 5)));
    }
}
