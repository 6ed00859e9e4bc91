//! The segment table: how many bytes of each segment are live. A checkpoint keeps it exact, a superblock names it.
//!
//! Live is what the index of that superblock leads to: value records (chunks of large bodies with them) that are some
//! version's in some chain, and the key records of those chains. Removals are counted by themselves: they are neither, and must stay for
//! as long as an earlier version of their key may lie in any segment. All else below the checkpoint's tail is dead.
//! So all numbers can be computed again from the index and the logs, which `verify` does.

use std::collections::BTreeMap;

use crate::format::location::Extent;
use crate::format::{Flaw, key};

/// Words of an entry: {8 bits family, 56 bits ordinal}, live units, units of removals.
const WORDS: usize = 3;
const FAMILY_SHIFT: u32 = 56;
const VALUES: u64 = 1;
const KEYS: u64 = 2;

/// What is live in one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) ordinal: u64,
    /// In units of the segment's family: 64 bytes for values, 16 for key records.
    pub(crate) live_units: u64,
    /// Removals, in the same units.
    pub(crate) tombstone_units: u64,
}

/// The accounts of all segments, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    pub(crate) values: BTreeMap<u16, Account>,
    pub(crate) keys: BTreeMap<u16, Account>,
}

impl Accounts {
    /// A value record became live in a segment of this ordinal.
    pub(crate) fn credit(&mut self, extent: Extent, ordinal: u64) {
        let account = self.values.entry(extent.location.segment).or_default();
        account.ordinal = ordinal;
        account.live_units += u64::from(extent.units);
    }

    /// A value record is live no more.
    pub(crate) fn debit(&mut self, extent: Extent) {
        let account = self.values.entry(extent.location.segment).or_default();
        // Saturating, since damage may have hidden what should have been credited: `verify` tells.
        account.live_units = account.live_units.saturating_sub(u64::from(extent.units));
    }

    /// Removals were written to a segment.
    pub(crate) fn add_tombstones(&mut self, segment: u16, ordinal: u64, units: u64) {
        let account = self.values.entry(segment).or_default();
        account.ordinal = ordinal;
        account.tombstone_units += units;
    }

    /// A key record became live in a segment of this ordinal.
    pub(crate) fn credit_key(&mut self, address: u64, ordinal: u64, bytes: u64) {
        let account = self.keys.entry(key::segment_of(address)).or_default();
        account.ordinal = ordinal;
        account.live_units += bytes / key::UNIT_BYTES;
    }

    /// All key records that another table has became live.
    pub(crate) fn add_keys(&mut self, other: &Accounts) {
        for (id, more) in &other.keys {
            let account = self.keys.entry(*id).or_default();
            account.ordinal = more.ordinal;
            account.live_units += more.live_units;
        }
    }

    /// A key record is live no more.
    pub(crate) fn debit_key(&mut self, address: u64, bytes: u64) {
        if let Some(account) = self.keys.get_mut(&key::segment_of(address)) {
            account.live_units = account.live_units.saturating_sub(bytes / key::UNIT_BYTES);
        }
    }

    /// Drops segments of the key log of which nothing is live: they go.
    pub(crate) fn forget_dead_keys(&mut self) {
        self.keys.retain(|_, account| account.live_units > 0);
    }

    /// Live bytes of the key log's segment of an ordinal.
    pub(crate) fn live_key_bytes(&self, ordinal: u64) -> u64 {
        let account = self.keys.get(&(ordinal as u16)).filter(|a| a.ordinal == ordinal);
        account.map_or(0, |a| a.live_units * key::UNIT_BYTES)
    }

    /// Whether the table has a value segment of this number and ordinal.
    pub(crate) fn names(&self, id: u16, ordinal: u64) -> bool {
        self.values.get(&id).is_some_and(|a| a.ordinal == ordinal)
    }

    /// The table as words, for the index file.
    pub(crate) fn encode(&self) -> Vec<u64> {
        let families = [(VALUES, &self.values), (KEYS, &self.keys)];
        let entries = families.into_iter().flat_map(|(family, accounts)| accounts.values().map(move |a| (family, a)));
        entries.flat_map(|(family, a)| [family << FAMILY_SHIFT | a.ordinal, a.live_units, a.tombstone_units]).collect()
    }

    /// The table of words that were read.
    pub(crate) fn decode(words: &[u64]) -> Result<Accounts, Flaw> {
        let mut accounts = Accounts::default();
        if !words.len().is_multiple_of(WORDS) {
            return Err("segment table has part of an entry");
        }
        for entry in words.chunks_exact(WORDS) {
            let ordinal = entry[0] & ((1 << FAMILY_SHIFT) - 1);
            let account = Account { ordinal, live_units: entry[1], tombstone_units: entry[2] };
            if entry[1] > u64::from(u32::MAX) || entry[2] > u64::from(u32::MAX) {
                return Err("segment table has an account that no segment can have");
            }
            let family = match entry[0] >> FAMILY_SHIFT {
                VALUES => &mut accounts.values,
                KEYS => &mut accounts.keys,
                _ => return Err("segment table has an entry of no known family"),
            };
            if family.insert(ordinal as u16, account).is_some() {
                return Err("segment table has two entries of one number");
            }
        }
        Ok(accounts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::location::Location;

    #[test]
    fn a_table_comes_back_and_what_is_none_is_refused() {
        let mut accounts = Accounts::default();
        let extent = Extent { location: Location::new(3, 64), units: 7 };
        accounts.credit(extent, 65_539);
        accounts.credit(extent, 65_539);
        accounts.debit(extent);
        accounts.add_tombstones(9, 9, 2);
        accounts.credit_key(1 << 25, 65_538, 32);
        let words = accounts.encode();
        assert_eq!(words.len(), 9);
        assert!(accounts.names(3, 65_539) && !accounts.names(3, 3));
        assert_eq!((accounts.live_key_bytes(65_538), accounts.live_key_bytes(2)), (32, 0));
        let back = Accounts::decode(&words).unwrap();
        assert_eq!(back, accounts);
        accounts.debit_key(1 << 25, 32);
        accounts.forget_dead_keys();
        assert!(accounts.keys.is_empty() && accounts.values.len() == 2);
        assert!(Accounts::decode(&words[..8]).is_err());
        assert!(Accounts::decode(&[words.clone(), words].concat()).is_err());
        assert!(Accounts::decode(&[9 << FAMILY_SHIFT, 0, 0]).is_err());
        assert!(Accounts::decode(&[VALUES << FAMILY_SHIFT, 1 << 32, 0]).is_err());
    }
}
