//! All rules of a store that hold, asked about everything that is put.

mod rule;

use std::sync::Arc;

use filemap_core::erase::{Admission, Rule, RuleState};
use filemap_core::{Record, Store};

pub use self::rule::{EraseOrder, EraseTarget};
pub(crate) use self::rule::{Matcher, salt_of, words};

use crate::error::{Error, Result};
use crate::page::digest::{Digest, Hashers};
use crate::page::key;
use crate::page::meta;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    rules: Vec<(u32, Matcher)>,
}

/// Has an engine that was opened without pages obey the rules of its erasures.
///
/// # Errors
///
/// [`Error::Rule`]; those of [`Store::rules`].
pub fn obey(engine: &Store) -> Result<()> {
    let set = RuleSet::of(&engine.rules()?)?;
    engine.set_admission((!set.is_empty()).then(|| Arc::new(set) as Arc<dyn Admission>));
    Ok(())
}

impl RuleSet {
    /// Those of a store's rules that hold.
    ///
    /// # Errors
    /// [`Error::Rule`] when one is not understood.
    pub(crate) fn of(rules: &[Rule]) -> Result<RuleSet> {
        RuleSet::that(rules, |rule| rule.holds())
    }

    /// Those whose erasures are not finished.
    pub(crate) fn unfinished(rules: &[Rule]) -> Result<RuleSet> {
        RuleSet::that(rules, |rule| rule.state == RuleState::Unfinished)
    }

    fn that(rules: &[Rule], is_meant: impl Fn(&Rule) -> bool) -> Result<RuleSet> {
        let read = |rule: &Rule| match Matcher::read(&rule.what) {
            Ok(matcher) => Ok((rule.id, matcher)),
            Err(what) => Err(Error::Rule { id: rule.id, what }),
        };
        Ok(RuleSet { rules: rules.iter().filter(|r| is_meant(r)).map(read).collect::<Result<_>>()? })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) fn matchers(&self) -> impl Iterator<Item = &Matcher> {
        self.rules.iter().map(|(_, matcher)| matcher)
    }

    /// Takes the digests that rules ask for; `None` if none does.
    pub(crate) fn hashers(&self) -> Option<Hashers> {
        self.wants_bodies().then(|| Hashers::new(self.matchers().filter_map(Matcher::digest)))
    }

    /// The rule that refuses a body with one of these digests.
    pub(crate) fn by_digest(&self, digests: &[Digest], time_ms: i64) -> Option<u32> {
        let is_it = |m: &Matcher| m.includes(time_ms) && m.digest().is_some_and(|d| digests.contains(d));
        self.rules.iter().find(|(_, m)| is_it(m)).map(|(id, _)| *id)
    }

    /// The same of a body whose pieces were all taken, and that came with a digest.
    pub(crate) fn judge(&self, hashers: Hashers, told: Option<&str>, time_ms: i64) -> Option<u32> {
        self.by_digest(&with_told(hashers, told), time_ms)
    }

    /// The digests by which a version is known: those of its body, and the one that it came with.
    pub(crate) fn digests_of(&self, body: &[u8], told: Option<&str>) -> Vec<Digest> {
        let mut hashers = Hashers::new(self.matchers().filter_map(Matcher::digest));
        hashers.update(body);
        with_told(hashers, told)
    }
}

fn with_told(hashers: Hashers, told: Option<&str>) -> Vec<Digest> {
    hashers.finish().into_iter().chain(told.and_then(Digest::parse)).collect()
}

impl Admission for RuleSet {
    fn refuses(&self, key: &[u8], time_ms: i64) -> Option<u32> {
        let url = key::url(key);
        // The mark of variants has no time of its own: variants of other times need it.
        let is_mark = key::is_mark(key);
        let includes = |m: &Matcher| if is_mark { m.is_of_all_times() } else { m.includes(time_ms) };
        self.rules.iter().find(|(_, m)| includes(m) && m.is_about(url)).map(|(id, _)| *id)
    }

    fn wants_bodies(&self) -> bool {
        self.matchers().any(|m| m.digest().is_some())
    }

    fn refuses_body(&self, record: &Record<'_>) -> Option<u32> {
        let spilled = meta::spill_bytes(record.meta).unwrap_or(0) as usize;
        let (spill, body) = record.body.split_at_checked(spilled)?;
        let page = meta::decode(record.meta, spill, key::url(record.key), record.time_ms).ok();
        let told = page.as_ref().and_then(|page| page.digest.as_deref());
        self.by_digest(&self.digests_of(body, told), record.time_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_pieces_is_judged_by_the_digest_that_it_came_with_too() {
        let told = "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5";
        let what = format!(r#"{{"kind":"digest","text":"{told}"}}"#);
        let set = RuleSet { rules: vec![(7, Matcher::read(what.as_bytes()).expect("a rule"))] };
        let hashers = || set.hashers().expect("a rule wants bodies");
        assert_eq!(set.judge(hashers(), Some(told), 0), Some(7));
        assert_eq!(set.judge(hashers(), None, 0), None);
    }
}
