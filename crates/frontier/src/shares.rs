//! Fair shares of the pages that nobody vouches for: by site, by host and by shape of the URL.
//!
//! A page without a voucher ([`crate::trust`]) may be the far end of a long chain, or a page of a
//! trap. One looks like the other, but their families do not: of a site, of a host and of a shape
//! on a host, fetched pages of good standing are proof that there is something to be found. A
//! family may have as many fetched pages without a voucher as it has proofs, and [`FREE`] more.
//! From there on it has a *level*, the logarithm of how often it has had that share, and pages
//! without a voucher come in the order of their levels: all families get the same multiple of their
//! shares. A trap behind the greatest hub has one proof, its root, however much credit.
//!
//! Invariant: counts follow from the page table: which pages are fetched, host, shape and standing
//! of each. A snapshot has them, so that an opening need not read all rows.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::grow::push;
use crate::trust::Standing;

/// Pages without a voucher that every family may have.
const FREE: u64 = 16;
/// Levels are below this.
pub(crate) const LEVELS: u16 = 64;
/// Levels in each doubling of the share, as a power of two.
const STEPS_LOG2: u32 = 2;

/// Fetched pages of a family.
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
            // A page that only the root of a trap leads to proves nothing.
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

/// Fetched pages by family.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// The site's number and the family of each host, by the host's number.
    hosts: Vec<(u32, Family)>,
    sites: Vec<Family>,
    /// Numbers of sites by a hash of their names: sites of one hash are one.
    numbers: HashMap<u32, u32>,
    /// Families of one shape on a host, of which any page was fetched.
    shapes: HashMap<u64, Family>,
}

/// No site.
const UNKNOWN: u32 = u32::MAX;

fn of_shape(host: u32, shape: u8) -> u64 {
    u64::from(host) << 8 | u64::from(shape)
}

impl Shares {
    /// Enters a host of which a page is known.
    pub(crate) fn enter(&mut self, host: u32, site: &str) {
        while self.hosts.len() <= host as usize {
            push(&mut self.hosts, (UNKNOWN, Family::default()));
        }
        let entry = &mut self.hosts[host as usize];
        if entry.0 == UNKNOWN {
            let next = self.sites.len() as u32;
            entry.0 = *self.numbers.entry(xxh3_64(site.as_bytes()) as u32).or_insert(next);
            if entry.0 == next {
                push(&mut self.sites, Family::default());
            }
        }
    }

    /// Counts a page that was fetched (`by` 1), or is not any more (-1).
    pub(crate) fn count(&mut self, host: u32, shape: u8, standing: Standing, by: i32) {
        if let Some((site, family)) = self.hosts.get_mut(host as usize) {
            family.count(standing, by);
            if let Some(site) = self.sites.get_mut(*site as usize) {
                site.count(standing, by);
            }
        }
        let family = self.shapes.entry(of_shape(host, shape)).or_default();
        family.count(standing, by);
        if family.is_empty() {
            self.shapes.remove(&of_shape(host, shape));
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
        let (site, of_host) = self.hosts.get(host as usize).copied().unwrap_or((UNKNOWN, Family::default()));
        let of_site = self.sites.get(site as usize).copied().unwrap_or_default();
        let of_shape = self.shapes.get(&of_shape(host, shape)).copied().unwrap_or_default();
        of_host.level().max(of_site.level()).max(of_shape.level())
    }

    /// The family of a host.
    pub(crate) fn of_host(&self, host: u32) -> Family {
        self.hosts.get(host as usize).map_or(Family::default(), |(_, family)| *family)
    }

    /// Families of one shape on a host, by host and shape, in order.
    pub(crate) fn of_shapes(&self) -> Vec<(u64, Family)> {
        let mut shapes: Vec<(u64, Family)> = self.shapes.iter().map(|(key, family)| (*key, *family)).collect();
        shapes.sort_unstable_by_key(|(key, _)| *key);
        shapes
    }

    /// Enters a host, of which no page is counted yet, with its family.
    pub(crate) fn load_host(&mut self, host: u32, site: &str, family: Family) {
        self.enter(host, site);
        let entry = &mut self.hosts[host as usize];
        entry.1 = family;
        if let Some(of_site) = self.sites.get_mut(entry.0 as usize) {
            of_site.bare = of_site.bare.saturating_add(family.bare);
            of_site.proofs = of_site.proofs.saturating_add(family.proofs);
        }
    }

    pub(crate) fn load_shape(&mut self, key: u64, family: Family) {
        self.shapes.insert(key, family);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let numbers = self.numbers.capacity() * (size_of::<(u32, u32)>() + 1);
        let shapes = self.shapes.capacity() * (size_of::<(u64, Family)>() + 1);
        let lists = self.hosts.capacity() * size_of::<(u32, Family)>() + self.sites.capacity() * size_of::<Family>();
        (numbers + shapes + lists) as u64
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
}
