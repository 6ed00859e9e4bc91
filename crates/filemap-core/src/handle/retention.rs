//! Retention: chooses the versions of a key to keep, by number or age.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::handle::spot::Spot;
use crate::handle::spot::sort_versions;
use crate::options::Options;
use crate::record::{Version, now_ms};

/// Versions that retention dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Keys with no versions left.
    pub(crate) keys: u64,
    pub(crate) versions: u64,
    /// Bytes of the value log, chunks included.
    pub(crate) bytes: u64,
    /// Keys with versions hidden by damage, and places where damage hides keys. All of these stay.
    pub(crate) hidden: u64,
}

impl Dropped {
    pub(crate) fn add(&mut self, other: Dropped) {
        self.keys += other.keys;
        self.versions += other.versions;
        self.bytes += other.bytes;
        self.hidden += other.hidden;
    }
}

/// Versions whose bodies others need in a way that only the caller knows, as a revisit record of a
/// WARC file needs its original: sequence -> youngest version that needs it.
pub type Needed = HashMap<u64, Version>;

/// Returns true for the selected keys.
pub type KeyFilter = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Versions and keys that a prune leaves alone, whatever its rule drops; by default none.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # use std::ops::ControlFlow;
/// # use std::sync::Arc;
/// use filemap_core::prune::{PruneRule, Spared};
/// let rule = PruneRule { since_ms: Some(8), ..PruneRule::default() };
/// let mut spared = Spared::default();
/// spared.keys = Some(Arc::new(|key: &[u8]| key.starts_with(b"http://b.example/")));
/// let pruned = store.prune_with(rule, &spared, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!(pruned.versions, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Spared {
    /// Versions that others need.
    pub needed: Arc<Needed>,
    /// The keys that are pruned; all others keep every version. `None`: all keys.
    pub keys: Option<KeyFilter>,
}

impl Spared {
    /// Returns true if a key may lose versions.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys(key))
    }
}

impl fmt::Debug for Spared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.as_ref().map(|_| "..");
        f.debug_struct("Spared").field("needed", &self.needed).field("keys", &keys).finish()
    }
}

/// Retention rules: a version is kept if any rule keeps it; without rules all are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Number of newest versions kept.
    pub(crate) versions: Option<u32>,
    /// Keeps versions not older than this time, in ms since 1970.
    pub(crate) since_ms: Option<i64>,
    /// Of versions of exactly that time, keeps those with this sequence or a later one.
    pub(crate) since_sequence: u64,
    /// Keeps versions with this sequence or a later one, if there is another rule.
    pub(crate) settled_below: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention::new(None, None)
    }
}

impl Retention {
    pub(crate) fn new(versions: Option<u32>, since_ms: Option<i64>) -> Retention {
        Retention { versions, since_ms, since_sequence: 0, settled_below: u64::MAX }
    }

    /// The rules of a store's options, as of now.
    pub(crate) fn of(options: &Options) -> Retention {
        Retention::new(options.keep_versions, options.keep_age.map(before_now_ms))
    }

    /// The same rules for a checkpoint that enters versions with this sequence or a later one.
    /// Readers find these in memory until it ends, so versions that they refer to must stay,
    /// unless they are not shown.
    pub(crate) fn entering(self, sequence: u64, is_shown: bool) -> Retention {
        Retention { settled_below: if is_shown { sequence } else { u64::MAX }, ..self }
    }

    /// Keeps a version and everything newer.
    pub(crate) fn since(version: Version) -> Retention {
        Retention { since_sequence: version.sequence, ..Retention::new(None, Some(version.time_ms)) }
    }

    /// Returns true if the age rule does not keep a version, also if there is no age rule.
    pub(crate) fn is_old(&self, version: Version) -> bool {
        let since = |time_ms| Version { time_ms, sequence: self.since_sequence };
        self.since_ms.is_none_or(|time_ms| version < since(time_ms))
    }

    /// Time before which versions may be dropped even if they are their keys' newest.
    pub(crate) fn horizon_ms(&self) -> i64 {
        let after = |time_ms: i64| time_ms.saturating_add(i64::from(self.since_sequence > 0));
        self.since_ms.filter(|_| self.versions.is_none()).map_or(i64::MIN, after)
    }

    /// Returns true if nothing is ever dropped.
    pub(crate) fn keeps_all(&self) -> bool {
        self.versions.is_none() && self.since_ms.is_none()
    }

    fn keeps(&self, nth: usize, spot: &Spot) -> bool {
        self.keeps_all()
            || self.versions.is_some_and(|n| nth < n as usize)
            || (self.since_ms.is_some() && !self.is_old(spot.version))
            || spot.version.sequence >= self.settled_below
    }

    /// Returns true if a needed version stays. `by`, the youngest version that needs it, is never
    /// one that the number rule drops.
    fn keeps_for(&self, by: Version) -> bool {
        self.versions.is_some() || !self.is_old(by)
    }

    /// Returns true if readers see the nth newest version. A version that is only too old is shown
    /// until its space is freed.
    pub(crate) fn shows(&self, nth: usize, spot: &Spot) -> bool {
        self.versions.is_none() || self.keeps(nth, spot)
    }

    /// Returns true if a chain of this length should be cut. Cutting rewrites the chain, so it is
    /// not done for every surplus version.
    pub(crate) fn may_drop(&self, length: usize) -> bool {
        self.versions.is_some_and(|n| length > n as usize + n as usize / 2)
    }

    /// Returns true if no more than `kept` versions can be kept.
    pub(crate) fn is_satisfied(&self, kept: usize) -> bool {
        self.since_ms.is_none() && self.versions.is_some_and(|n| kept >= n as usize)
    }

    /// The kept versions and those that hold their bodies, newest first.
    pub(crate) fn kept(&self, all: Vec<Spot>) -> Vec<Spot> {
        self.kept_with(all, &Needed::new())
    }

    /// [`Retention::kept`] with versions that others need.
    pub(crate) fn kept_with(&self, mut all: Vec<Spot>, needed: &Needed) -> Vec<Spot> {
        sort_versions(&mut all);
        if self.keeps_all() {
            return all;
        }
        let is_needed = |spot: &Spot| needed.get(&spot.version.sequence).is_some_and(|by| self.keeps_for(*by));
        let keeps = |(nth, spot): (usize, &Spot)| self.keeps(nth, spot) || is_needed(spot);
        if all.iter().enumerate().all(keeps) {
            return all;
        }
        let kept: Vec<bool> = all.iter().enumerate().map(keeps).collect();
        let holders: HashSet<u64> =
            all.iter().zip(&kept).filter(|(s, kept)| **kept && s.refers_to != 0).map(|(s, _)| s.refers_to).collect();
        let mut nth = 0;
        all.retain(|spot| {
            nth += 1;
            kept[nth - 1] || holders.contains(&spot.version.sequence)
        });
        all
    }

    /// [`Retention::kept_with`] for a prune, and whether damage was found. An unreadable version
    /// does not count among those kept by number: it stays, with as many readable ones. For a key
    /// that loses something, reads the versions kept by number.
    ///
    /// # Errors
    /// Those of `is_readable`.
    pub(crate) fn kept_readable(
        &self,
        all: &[Spot],
        needed: &Needed,
        mut is_readable: impl FnMut(&Spot) -> Result<bool>,
    ) -> Result<(Vec<Spot>, bool)> {
        if self.versions.is_none() {
            return Ok((self.kept_with(all.to_vec(), needed), false));
        }
        let mut rest = all.to_vec();
        let (mut damaged, mut whole) = (Vec::new(), HashSet::new());
        loop {
            let mut kept = self.kept_with(rest.clone(), needed);
            let mut found = HashSet::new();
            if kept.len() < rest.len() {
                for spot in &kept {
                    let sequence = spot.version.sequence;
                    match whole.contains(&sequence) || is_readable(spot)? {
                        true => whole.insert(sequence),
                        false => found.insert(sequence),
                    };
                }
            }
            if found.is_empty() {
                let holders: HashSet<u64> = damaged.iter().map(|s: &Spot| s.refers_to).collect();
                let is_extra = |s: &&Spot| holders.contains(&s.version.sequence) && !kept.contains(s);
                let extra: Vec<Spot> = rest.iter().filter(is_extra).copied().collect();
                let is_damaged = !damaged.is_empty();
                kept.extend(damaged.into_iter().chain(extra));
                sort_versions(&mut kept);
                return Ok((kept, is_damaged));
            }
            damaged.extend(rest.iter().filter(|s| found.contains(&s.version.sequence)));
            rest.retain(|s| !found.contains(&s.version.sequence));
        }
    }
}

/// The time `age` before now.
pub(crate) fn before_now_ms(age: Duration) -> i64 {
    now_ms().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::location::{Extent, Location};

    fn spot(time_ms: i64, sequence: u64, refers_to: u64) -> Spot {
        let extent = Extent { location: Location::new(0, 64 * sequence), units: 1 };
        Spot { version: Version { time_ms, sequence }, extent, refers_to, chunked: false }
    }

    #[test]
    fn what_a_kept_version_refers_to_is_kept_with_it() {
        let all = vec![spot(1, 1, 0), spot(2, 2, 0), spot(3, 3, 1), spot(3, 3, 1)];
        let sequences = |versions, since_ms| {
            let kept = Retention::new(versions, since_ms).kept(all.clone());
            kept.iter().map(|s| s.version.sequence).collect::<Vec<_>>()
        };
        assert_eq!(sequences(Some(1), None), [3, 1]);
        assert_eq!(sequences(Some(2), None), [3, 2, 1]);
        assert_eq!(sequences(None, None), [3, 2, 1]);
        assert_eq!(sequences(None, Some(3)), [3, 1]);
        assert_eq!(sequences(None, Some(4)), [] as [u64; 0]);
        assert_eq!(sequences(Some(1), Some(2)), [3, 2, 1], "what either rule keeps is kept");
        let since = |time_ms, sequence| Retention::since(Version { time_ms, sequence });
        let entering = since(9, 0).entering(3, true).kept(all.clone());
        assert_eq!(entering.iter().map(|s| s.version.sequence).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(since(9, 0).entering(3, false).kept(all.clone()), []);
        let alike = vec![spot(2, 2, 0), spot(2, 3, 0), spot(2, 4, 2)];
        let kept = since(2, 4).kept(alike);
        assert_eq!(
            kept.iter().map(|s| s.version.sequence).collect::<Vec<_>>(),
            [4, 2],
            "of one time the sequence decides"
        );
        assert_eq!((since(2, 4).horizon_ms(), since(2, 0).horizon_ms()), (3, 2));
    }

    #[test]
    fn what_another_key_needs_is_kept_for_as_long_as_that_is() {
        let all = vec![spot(1, 1, 0), spot(2, 2, 1), spot(3, 3, 0), spot(4, 4, 0)];
        let needed = Needed::from([(2, Version { time_ms: 3, sequence: 9 })]);
        let sequences = |rule: Retention| {
            rule.kept_with(all.clone(), &needed).iter().map(|s| s.version.sequence).collect::<Vec<_>>()
        };
        assert_eq!(sequences(Retention::new(Some(1), None)), [4, 2, 1], "and what it refers to itself");
        assert_eq!(sequences(Retention::new(None, Some(3))), [4, 3, 2, 1]);
        assert_eq!(sequences(Retention::new(None, Some(4))), [4], "what needs it goes too");
        assert_eq!(sequences(Retention::since(Version { time_ms: 3, sequence: 9 })), [4, 2, 1]);
        assert_eq!(sequences(Retention::since(Version { time_ms: 3, sequence: 10 })), [4]);
    }
}
