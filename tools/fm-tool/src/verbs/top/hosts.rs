//! Sums by host in bounded memory, by lossy counting (Manku and Motwani).
//!
//! Exact up to the bound. Beyond it a full table drops its lighter half. A host that returns
//! starts at 0, so sums are lower bounds, too small by at most [`Hosts::short_by`].

use std::collections::HashMap;

/// The sums of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub pages: u64,
    /// Versions of the pages.
    pub versions: u64,
    /// Bytes of all versions' bodies, unchanged ones included, and of records beside pages.
    pub body_bytes: u64,
    /// Bytes that these take in the value log.
    pub stored_bytes: u64,
}

impl Sums {
    /// Adds other sums.
    pub fn add(&mut self, other: &Sums) {
        self.pages += other.pages;
        self.versions += other.versions;
        self.body_bytes += other.body_bytes;
        self.stored_bytes += other.stored_bytes;
    }
}

/// The sum by which hosts are compared.
pub type Weight = fn(&Sums) -> u64;

/// Sums of the heaviest hosts.
pub struct Hosts {
    sums: HashMap<Vec<u8>, Sums>,
    /// At least 2.
    bound: usize,
    weight: Weight,
    /// The heaviest dropped weight, summed over all drops.
    limits: u64,
    all: Sums,
}

impl Hosts {
    /// A table of up to `bound` hosts that keeps the heaviest.
    pub fn new(bound: usize, weight: Weight) -> Hosts {
        Hosts { sums: HashMap::new(), bound: bound.max(2), weight, limits: 0, all: Sums::default() }
    }

    /// Adds to a host's sums.
    pub fn add(&mut self, host: &[u8], sums: &Sums) {
        self.all.add(sums);
        if let Some(known) = self.sums.get_mut(host) {
            known.add(sums);
            return;
        }
        if self.sums.len() >= self.bound {
            self.drop_lighter();
        }
        self.sums.insert(host.to_vec(), *sums);
    }

    /// Drops the lighter half.
    fn drop_lighter(&mut self) {
        let mut weights: Vec<u64> = self.sums.values().map(self.weight).collect();
        let middle = weights.len() / 2;
        let (_, limit, _) = weights.select_nth_unstable(middle);
        let limit = *limit;
        // Of hosts exactly at the limit, keeps just enough to fill half the table.
        let mut alike = self.bound / 2 - weights.iter().filter(|weight| **weight > limit).count().min(self.bound / 2);
        self.sums.retain(|_, sums| match (self.weight)(sums) {
            weight if weight == limit && alike > 0 => {
                alike -= 1;
                true
            }
            weight => weight > limit,
        });
        self.limits = self.limits.saturating_add(limit);
    }

    /// Greatest error of a host's deciding sum; 0 while all are exact.
    pub fn short_by(&self) -> u64 {
        // At most the total that was dropped.
        let kept: u64 = self.sums.values().map(self.weight).sum();
        self.limits.min((self.weight)(&self.all) - kept)
    }

    /// Sums of all hosts, which are always exact.
    pub fn all(&self) -> &Sums {
        &self.all
    }

    /// The heaviest first; equal weights by name.
    pub fn heaviest(self, limit: usize) -> Vec<(Vec<u8>, Sums)> {
        let weight = self.weight;
        let mut hosts: Vec<(Vec<u8>, Sums)> = self.sums.into_iter().collect();
        hosts.sort_unstable_by(|a, b| weight(&b.1).cmp(&weight(&a.1)).then_with(|| a.0.cmp(&b.0)));
        hosts.truncate(limit);
        hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(stored_bytes: u64) -> Sums {
        Sums { pages: 1, versions: 1, body_bytes: 2 * stored_bytes, stored_bytes }
    }

    fn names(hosts: Vec<(Vec<u8>, Sums)>) -> Vec<(String, u64)> {
        hosts.into_iter().map(|(host, sums)| (String::from_utf8(host).unwrap(), sums.stored_bytes)).collect()
    }

    #[test]
    fn sums_are_exact_within_the_bound() {
        let mut hosts = Hosts::new(10, |sums| sums.stored_bytes);
        for round in 1..=3 {
            for host in 0..10_u64 {
                hosts.add(format!("h{host}").as_bytes(), &bytes(host * round));
            }
        }
        assert_eq!((hosts.short_by(), hosts.all().pages, hosts.all().stored_bytes), (0, 30, 45 * 6));
        let heaviest = names(hosts.heaviest(2));
        assert_eq!(heaviest, [("h9".to_owned(), 54), ("h8".to_owned(), 48)]);
    }

    #[test]
    fn beyond_it_the_heavy_hosts_stay_and_no_sum_is_too_large_nor_shorter_than_told() {
        let mut hosts = Hosts::new(50, |sums| sums.stored_bytes);
        let mut truth: HashMap<String, u64> = HashMap::new();
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // A few heavy hosts among a thousand light ones.
            let host = if seed >> 60 < 8 { (seed >> 40) % 5 } else { (seed >> 40) % 1000 };
            let weight = if host < 5 { 1000 } else { 1 };
            *truth.entry(format!("h{host}")).or_default() += weight;
            hosts.add(format!("h{host}").as_bytes(), &bytes(weight));
        }
        assert_eq!(hosts.all().stored_bytes, truth.values().sum::<u64>());
        let short_by = hosts.short_by();
        assert!(short_by > 0 && hosts.sums.len() <= 50);
        let heaviest = names(hosts.heaviest(5));
        let mut heavy: Vec<&str> = heaviest.iter().map(|(host, _)| host.as_str()).collect();
        heavy.sort_unstable();
        assert_eq!(heavy, ["h0", "h1", "h2", "h3", "h4"]);
        for (host, sum) in &heaviest {
            assert!(*sum <= truth[host] && sum + short_by >= truth[host], "{host}: {sum} of {}", truth[host]);
        }
    }

    #[test]
    fn hosts_of_one_weight_stay_within_the_bound_too() {
        let mut hosts = Hosts::new(4, |sums| sums.pages);
        for host in 0..100 {
            hosts.add(format!("h{host}").as_bytes(), &bytes(1));
            assert!(hosts.sums.len() <= 4);
        }
        assert_eq!(hosts.all().pages, 100);
    }
}
