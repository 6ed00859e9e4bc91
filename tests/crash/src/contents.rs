//! Reads everything that a store shows, in every way, and lets the oracle judge it.

use std::collections::BTreeMap;

use filemap_core::list::{Direction, KeyRange};
use filemap_core::{Error, Head, StorageError, Store, Value, sim};

use crate::trouble::Trouble;
use crate::world::is_counted;
use filemap_oracle::{After, Oracle, Shown};

/// All versions of all keys that a store shows, newest first.
pub type Contents = BTreeMap<Vec<u8>, Vec<Shown>>;

/// Reads every key that the oracle knows, in all ways, and judges it.
///
/// # Errors
/// Says what is wrong.
pub fn contents(store: &Store, oracle: &Oracle, after: After) -> Result<Contents, Trouble> {
    let mut all = Contents::new();
    for key in oracle.keys() {
        let name = || String::from_utf8_lossy(key).into_owned();
        let shown = versions(store, key)?;
        oracle.judge(key, &shown, after).map_err(|e| format!("{} {after:?}: {e}", name()))?;
        newest(store, key, shown.first())?;
        if !shown.is_empty() {
            all.insert(key.clone(), shown);
        }
    }
    let mut listed = store.keys().collect::<Result<Vec<_>, _>>()?;
    listed.sort();
    if !listed.iter().eq(all.keys()) {
        return Err(Trouble::Wrong(format!("{} keys are listed, {} can be read", listed.len(), all.len())));
    }
    // Until a recovery fills them, the holes of a power loss are damage to a scan.
    if after == After::Kill || !store.is_read_only() {
        pages(store, &all)?;
    }
    in_order(store, &all)?;
    let counted = all.keys().filter(|key| is_counted(key)).count() as u64;
    match store.counted_keys()? {
        Some(told) if told == counted => {}
        told => return Err(Trouble::Wrong(format!("the store counts {told:?} keys; {counted} can be read"))),
    }
    Ok(all)
}

/// The pages listed must be the newest version of each key, once, and the versions listed all of
/// them.
///
/// # Errors
/// What a read returned, or what is wrong.
pub(crate) fn pages(store: &Store, all: &Contents) -> Result<(), Trouble> {
    let one = |page: filemap_core::Result<(Vec<u8>, Value)>| page.map(|(key, value)| (key, value.body));
    let mut pages = store.pages().map(one).collect::<Result<Vec<_>, _>>()?;
    pages.sort();
    if !pages.iter().map(|(key, body)| (key, body)).eq(all.iter().map(|(key, shown)| (key, &shown[0].body))) {
        return Err(Trouble::Wrong(format!("{} pages are listed, {} can be read", pages.len(), all.len())));
    }
    let one = |version: filemap_core::Result<(Vec<u8>, Value)>| version.map(|(key, value)| (key, value.head.version));
    let mut versions = store.versions().map(one).collect::<Result<Vec<_>, _>>()?;
    versions.sort();
    let mut known: Vec<_> =
        all.iter().flat_map(|(key, shown)| shown.iter().map(|s| (key.clone(), s.version))).collect();
    known.sort();
    if versions != known {
        return Err(Trouble::Wrong(format!("{} versions are listed, {} can be read", versions.len(), known.len())));
    }
    Ok(())
}

/// Lists in order must have the keys that can be read, both ways, from any cursor on, and the
/// count of any range must be theirs. What a checkpoint has dropped that runs, or has failed, may
/// still be listed.
fn in_order(store: &Store, all: &Contents) -> Result<(), Trouble> {
    let mut forms: Vec<Vec<u8>> = all.keys().map(|key| key.iter().rev().copied().collect()).collect();
    forms.sort();
    let is_still = store.is_read_only() || (sim::may_close(store) && !sim::is_poisoned(store));
    let wrong = |what: &str, of: &KeyRange| Err(Trouble::Wrong(format!("keys in order: {what} of {of:?}")));
    let list = |range: &KeyRange, direction| {
        let mut keys = store.keys_in(range.clone(), direction)?;
        let mut met = Vec::new();
        while let Some(key) = keys.next().transpose()? {
            let form: Vec<u8> = key.iter().rev().copied().collect();
            if form != keys.form() {
                return Err(Trouble::Wrong("a key in order has another's form".into()));
            }
            met.push(form);
        }
        if !is_still {
            met.retain(|form| forms.contains(form));
        }
        Ok(met)
    };
    // From two cursors, other ones in each state: all of them would take half the time of a run.
    let some = all.values().map(Vec::len).sum::<usize>() % (forms.len() + 1);
    for nth in [some, forms.len() - some] {
        let (below, above) = forms.split_at(nth);
        let after = below.last().map_or(KeyRange::all(), |last| KeyRange::all().after(last));
        if list(&after, Direction::Forward)? != above {
            return wrong("a list forwards", &after);
        }
        let before = above.first().map_or(KeyRange::all(), |first| KeyRange::all().before(first));
        if !list(&before, Direction::Back)?.iter().rev().eq(below) {
            return wrong("a list backwards", &before);
        }
        for (range, keys) in [(&after, above), (&before, below)] {
            if is_still && store.count_in(range)? != keys.len() as u64 {
                return wrong("the count", range);
            }
        }
    }
    Ok(())
}

/// Reads every key in all ways without judging what is there: a handle that stays behind its
/// writer may see something older, but never damage.
///
/// # Errors
/// What a read returned.
pub fn readable(store: &Store, oracle: &Oracle) -> Result<(), Trouble> {
    let damage = |e| match e {
        Error::Storage(StorageError::Corrupt { .. }) => Trouble::Wrong(format!("it reports false damage: {e}")),
        e => Trouble::Error(e),
    };
    for key in oracle.keys() {
        store.contains(key).map_err(damage)?;
        store.history(key).map_err(damage)?;
        store.get(key).map_err(damage)?;
    }
    store.pages().try_for_each(|page| page.map(|_| ())).map_err(damage)?;
    store
        .keys_in(KeyRange::all(), Direction::Back)
        .map_err(damage)?
        .try_for_each(|key| key.map(|_| ()))
        .map_err(damage)?;
    store.keys().try_for_each(|key| key.map(|_| ())).map_err(damage)
}

fn versions(store: &Store, key: &[u8]) -> Result<Vec<Shown>, Trouble> {
    let history = store.history(key)?;
    let one = |head: Head| {
        let value = store.get_version(key, head.version)?;
        let value =
            value.ok_or_else(|| format!("{:?} is in the history, and get_version finds nothing", head.version))?;
        // Compaction may have moved it meanwhile, or compressed it anew.
        let Head { place, stored_bytes, .. } = head;
        if (Head { place, stored_bytes, ..value.head.clone() }) != head {
            return Err(Trouble::Wrong(format!("{:?} has another head when it is read", head.version)));
        }
        Ok(Shown { version: head.version, body: value.body, meta: value.head.meta })
    };
    history.into_iter().map(one).collect()
}

/// The ways to the newest version must agree with the history.
fn newest(store: &Store, key: &[u8], first: Option<&Shown>) -> Result<(), Trouble> {
    let got = store.get(key)?;
    let found = got.as_ref().map(|v| (v.head.version, &v.body));
    if found != first.map(|s| (s.version, &s.body)) {
        let gives = found.map(|f| f.0);
        return Err(Trouble::Wrong(format!("get gives {gives:?}, the history {:?}", first.map(|s| s.version))));
    }
    if store.contains(key)? != first.is_some() {
        return Err(Trouble::Wrong("contains says otherwise than get".into()));
    }
    if let Some(first) = first {
        let at = store.get_at(key, first.version.time_ms)?;
        if at.map(|v| v.head.version) != Some(first.version) {
            return Err(Trouble::Wrong("get_at the newest time gives another version".into()));
        }
    }
    Ok(())
}
