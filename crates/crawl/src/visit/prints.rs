//! Detection of barren pages: near-duplicates of another page of their host, and pages with status
//! 200 that nearly equal an error page of it (soft 404).
//!
//! A ring of [`PAGES`] in memory has the fingerprints ([`crate::simhash64`]) of the last error
//! pages and pages that are not barren, of all hosts; it is empty after a restart. Two that differ
//! in at most three of 64 bits share one of four blocks of 16 bits: each block of a host leads to
//! its pages, newest first, like the match chains of LZ77.
//!
//! Invariant: memory is at most 56 bytes for each of [`PAGES`], 14 MiB.

use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

/// The maximum number of fingerprints.
const PAGES: usize = 1 << 18;
/// The maximum number of fingerprints compared for one block.
const COMPARED: usize = 64;
const BLOCKS: usize = 4;
/// The number for no page.
const NONE: u32 = u32::MAX;

/// Reason why a page is barren.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barren {
    /// Another page of its host has nearly the same text.
    NearDuplicate,
    /// It nearly equals an error page of its host.
    SoftError,
}

/// A page's data for the comparison.
#[derive(Clone, Copy, Debug)]
pub struct Print<'a> {
    /// Its host.
    pub host: &'a str,
    /// Its canonical URL.
    pub key: &'a str,
    /// The fingerprint of its text.
    pub bits: u64,
}

/// The fingerprints of all hosts.
#[derive(Debug, Default)]
pub struct Prints(Mutex<Ring>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    host: u32,
    is_error: bool,
    /// The hash of its canonical URL.
    page: u64,
    bits: u64,
    /// For each block, the number of the previous page with the same block.
    before: [u32; BLOCKS],
}

/// Entries by number; new ones overwrite the oldest.
#[derive(Debug, Default)]
struct Ring {
    entries: Vec<Entry>,
    /// Number of pages so far, which is the next page's number.
    count: u32,
    /// The number of the last page, by block and its hash.
    last: [Vec<u32>; BLOCKS],
}

impl Prints {
    /// Compares a page with earlier ones: at most `near` bits may differ. Stores it if none
    /// matches.
    pub fn judge(&self, print: Print<'_>, near: u8) -> Option<Barren> {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Entry::of(print, false);
        match ring.nearest(&entry, near) {
            Some(found) => {
                // A page with many near-duplicates is kept longer.
                if ring.is_old(found) {
                    let found = ring.entries[found as usize % PAGES];
                    ring.enter(found);
                }
                let is_error = ring.entries[found as usize % PAGES].is_error;
                Some(if is_error { Barren::SoftError } else { Barren::NearDuplicate })
            }
            None => {
                ring.enter(entry);
                None
            }
        }
    }

    /// Stores an error page.
    pub fn note_error(&self, print: Print<'_>) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Entry::of(print, true);
        let known = ring.nearest(&Entry { page: 0, ..entry }, 0);
        if known.is_none_or(|known| !ring.entries[known as usize % PAGES].is_error || ring.is_old(known)) {
            ring.enter(entry);
        }
    }
}

impl Entry {
    fn of(print: Print<'_>, is_error: bool) -> Entry {
        let (host, page) = (xxh3_64(print.host.as_bytes()) as u32, xxh3_64(print.key.as_bytes()));
        Entry { host, is_error, page, bits: print.bits, before: [NONE; BLOCKS] }
    }

    /// The hash slot of a block of this host.
    fn place(&self, block: usize) -> usize {
        let value = self.bits >> (16 * block) & 0xffff;
        let mixed = (u64::from(self.host) << 16 | value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize % PAGES
    }
}

impl Ring {
    /// Returns whether a page is in the older half of the ring.
    fn is_old(&self, number: u32) -> bool {
        (self.count - number) as usize > PAGES / 2
    }

    /// Another page of the host whose fingerprint differs in at most `near` bits; an error page is
    /// preferred.
    fn nearest(&self, entry: &Entry, near: u8) -> Option<u32> {
        let mut found = None;
        for block in 0..BLOCKS {
            let mut number = self.last[block].get(entry.place(block)).copied().unwrap_or(NONE);
            for _ in 0..COMPARED {
                if number == NONE || (self.count - number) as usize > self.entries.len() {
                    break;
                }
                let other = &self.entries[number as usize % PAGES];
                let is_near = (other.bits ^ entry.bits).count_ones() <= u32::from(near);
                if other.host == entry.host && other.page != entry.page && is_near {
                    if other.is_error {
                        return Some(number);
                    }
                    found = found.or(Some(number));
                }
                number = other.before[block];
            }
        }
        found
    }

    fn enter(&mut self, mut entry: Entry) {
        if self.count == NONE {
            *self = Ring::default();
        }
        let at = self.count as usize % PAGES;
        for (block, last) in self.last.iter_mut().enumerate() {
            last.resize(PAGES, NONE);
            let place = entry.place(block);
            entry.before[block] = std::mem::replace(&mut last[place], self.count);
        }
        match self.entries.get_mut(at) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        xxh3_64(&number.to_le_bytes())
    }

    fn print<'a>(host: &'a str, key: &'a str, bits: u64) -> Print<'a> {
        Print { host, key, bits }
    }

    #[test]
    fn pages_of_a_host_that_differ_in_few_bits_are_near_duplicates_wherever_the_bits_are() {
        let prints = Prints::default();
        assert_eq!(prints.judge(print("a", "http://a/", 0), 3), None);
        for number in 1..2000 {
            let key = format!("http://a/{number}");
            let bits = [hash(number), hash(number * 7), hash(number * 13)].map(|at| 1u64 << (at % 64));
            let near = bits[0] | bits[1] | bits[2];
            assert_eq!(prints.judge(print("a", &key, near), 3), Some(Barren::NearDuplicate), "{near:x}");
            assert_eq!(prints.judge(print("b", &format!("http://b/{number}"), hash(number)), 3), None);
        }
        assert_eq!(prints.judge(print("a", "http://a/far", 0xf000_f000_f000_f000), 3), None);
        assert_eq!(prints.judge(print("a", "http://a/one", 1), 0), None);
        // The page itself does not count.
        assert_eq!(prints.judge(print("b", "http://b/7", hash(7) ^ 1), 3), None);
    }

    #[test]
    fn a_page_like_an_error_page_of_its_host_is_one() {
        let prints = Prints::default();
        assert_eq!(prints.judge(print("a", "http://a/first", 6), 3), None);
        prints.note_error(print("a", "http://a/missing", 7));
        prints.note_error(print("a", "http://a/missing2", 7));
        assert_eq!(prints.0.lock().unwrap().count, 2);
        assert_eq!(prints.judge(print("a", "http://a/soft", 5), 3), Some(Barren::SoftError));
        assert_eq!(prints.judge(print("b", "http://b/soft", 5), 3), None);
    }

    #[test]
    fn memory_is_bounded_and_who_has_many_near_duplicates_is_kept() {
        let prints = Prints::default();
        prints.judge(print("a", "http://a/", 0), 3);
        for number in 1..3 * PAGES as u64 {
            prints.judge(print("b", &number.to_string(), hash(number)), 3);
            if number.is_multiple_of(1000) {
                assert_eq!(prints.judge(print("a", "http://a/near", 1), 3), Some(Barren::NearDuplicate), "{number}");
            }
        }
        let ring = prints.0.lock().unwrap();
        assert_eq!(ring.entries.len(), PAGES);
        assert!(ring.count as usize > 2 * PAGES);
        assert!(size_of::<Entry>() + BLOCKS * size_of::<u32>() <= 56);
        drop(ring);
        // A page without matches is overwritten.
        assert_eq!(prints.judge(print("b", "again", hash(1)), 3), None);
    }
}
