//! The erase rules in force, which check every put.

mod rule;

use std::sync::Arc;

use filemap_core::erase::{Admission, Rule, RuleState};
use filemap_core::{Record, Store};

pub use self::rule::{EraseOrder, EraseTarget};
pub(crate) use self::rule::{Matcher, salt_of, words};

use crate::error::{Error, Result};
use crate::page::digest::{Digest, Hasher};
use crate::page::{key, meta};

/// The erase rules of one store, parsed.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    rules: Vec<(u32, Matcher)>,
    /// The reason why the rules cannot be read.
    unread: Option<String>,
}

/// The digests that rules refer to, one for each algorithm, with their hashers.
pub(crate) type Hashers<'r> = Vec<(&'r Digest, Hasher)>;

/// Applies the erase rules of a store to an engine that was opened without a `PageStore`.
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
    /// Parses the rules of a store that are in force.
    ///
    /// # Errors
    ///
    /// [`Error::Rule`] if one is invalid.
    pub(crate) fn of(rules: &[Rule]) -> Result<RuleSet> {
        RuleSet::that(rules, |rule| rule.holds())
    }

    /// Parses the rules of erasures that are not finished.
    pub(crate) fn unfinished(rules: &[Rule]) -> Result<RuleSet> {
        RuleSet::that(rules, |rule| rule.state == RuleState::Unfinished)
    }

    fn that(rules: &[Rule], is_meant: impl Fn(&Rule) -> bool) -> Result<RuleSet> {
        let read = |rule: &Rule| match Matcher::read(&rule.what) {
            Ok(matcher) => Ok((rule.id, matcher)),
            Err(what) => Err(Error::Rule { id: rule.id, what }),
        };
        Ok(RuleSet { rules: rules.iter().filter(|r| is_meant(r)).map(read).collect::<Result<_>>()?, unread: None })
    }

    /// A set of rules that cannot be read.
    pub(crate) fn unread(why: String) -> RuleSet {
        RuleSet { unread: Some(why), ..RuleSet::default() }
    }

    /// # Errors
    ///
    /// [`Error::Rule`] if the rules cannot be read.
    pub(crate) fn check(&self) -> Result<()> {
        let unread = |what: &String| Error::Rule { id: 0, what: what.clone() };
        self.unread.as_ref().map_or(Ok(()), |what| Err(unread(what)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) fn matchers(&self) -> impl Iterator<Item = &Matcher> {
        self.rules.iter().map(|(_, matcher)| matcher)
    }

    /// Hashers for the digests that rules refer to.
    pub(crate) fn hashers(&self) -> Hashers<'_> {
        let mut hashers: Hashers<'_> = Vec::new();
        for digest in self.matchers().filter_map(Matcher::digest) {
            if !hashers.iter().any(|(other, _)| other.is_comparable(digest)) {
                hashers.extend(digest.hasher().map(|hasher| (digest, hasher)));
            }
        }
        hashers
    }

    /// Returns the rule that refuses a body: `hashers` have read the body, `told` is the digest
    /// that came with it.
    pub(crate) fn judge(&self, hashers: Hashers<'_>, told: Option<&str>, time_ms: i64) -> Option<u32> {
        let computed = hashers.into_iter().map(|(wanted, hasher)| wanted.with_bytes(&hasher.finalize()));
        let digests: Vec<Digest> = computed.chain(told.and_then(Digest::parse)).collect();
        let is_it = |m: &Matcher| m.includes(time_ms) && m.digest().is_some_and(|d| digests.contains(d));
        self.rules.iter().find(|(_, m)| is_it(m)).map(|(id, _)| *id)
    }

    /// As [`RuleSet::judge`], for a whole body.
    pub(crate) fn judge_body(&self, body: &[u8], told: Option<&str>, time_ms: i64) -> Option<u32> {
        let mut hashers = self.hashers();
        hashers.iter_mut().for_each(|(_, hasher)| hasher.update(body));
        self.judge(hashers, told, time_ms)
    }
}

impl Admission for RuleSet {
    fn refuses(&self, key: &[u8], time_ms: i64) -> Option<u32> {
        // A mark has no URL; a regex might match its empty one.
        let mut rules = self.rules.iter().filter(|_| !key::is_own(key));
        rules.find(|(_, m)| m.includes(time_ms) && m.is_about(key::url(key))).map(|(id, _)| *id)
    }

    fn wants_bodies(&self) -> bool {
        self.matchers().any(|m| m.digest().is_some())
    }

    fn refuses_body(&self, record: &Record<'_>) -> Option<u32> {
        // A mark has no body, even if the empty body was erased.
        if key::is_own(record.key) {
            return None;
        }
        let spilled = meta::spill_bytes(record.meta).unwrap_or(0) as usize;
        let (spill, body) = record.body.split_at_checked(spilled)?;
        let page = meta::decode(record.meta, spill, key::url(record.key), record.time_ms).ok();
        let told = page.as_ref().and_then(|page| page.digest.as_deref());
        // The body of a page in place is elsewhere: it is checked where it is read.
        match page.as_ref().is_some_and(|page| page.in_place.is_some()) {
            true => self.judge(Vec::new(), told, record.time_ms),
            false => self.judge_body(body, told, record.time_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rule::digest;
    use super::*;

    #[test]
    fn a_body_in_pieces_is_judged_by_the_digest_that_it_came_with_too() {
        let told = "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5";
        let what = format!(r#"{{"kind":"digest","text":"{told}"}}"#);
        let set = RuleSet { rules: vec![(7, Matcher::read(what.as_bytes()).expect("a rule"))], ..RuleSet::default() };
        assert_eq!(set.hashers().len(), 1, "a rule wants bodies");
        for told in [told, "VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5", "urn:sha1:vgmt4nsha2awvor6evyxqugcnsonbwe5"] {
            assert_eq!(set.judge(set.hashers(), Some(told), 0), Some(7), "{told}");
        }
        assert_eq!(set.judge(set.hashers(), None, 0), None);
    }

    #[test]
    fn a_digest_is_the_same_however_it_is_written() {
        let texts = [
            "sha1:a9993e364706816aba3e25717850c26c9cd0d89d",
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ];
        let known = texts.map(|text| digest(text).unwrap());
        assert_eq!(known.each_ref().map(Digest::text), texts);
        for text in ["SHA-1:A9993E364706816ABA3E25717850C26C9CD0D89D", "sha1:vgmt4nsha2awvor6evyxqugcnsonbwe5"] {
            assert_eq!(digest(text), Some(known[0].clone()), "{text}");
        }
        let rule = |text: &str| Matcher::read(format!(r#"{{"kind":"digest","text":"{text}"}}"#).as_bytes()).unwrap();
        let set = RuleSet {
            rules: vec![(1, rule(texts[1])), (2, rule(texts[0])), (3, rule(texts[0]))],
            ..RuleSet::default()
        };
        let mut hashers = set.hashers();
        [&b"a"[..], b"bc"].iter().for_each(|part| hashers.iter_mut().for_each(|(_, hasher)| hasher.update(part)));
        let made: Vec<_> = hashers.into_iter().map(|(wanted, hasher)| wanted.with_bytes(&hasher.finalize())).collect();
        assert_eq!(made, [known[1].clone(), known[0].clone()]);
        assert_eq!(digest("sha-256:XJ4BNP4PAHH6UQKBIDPF3LRCEOYAGYNDSYLXVHFUCD7WD4QACWWQ===="), Some(known[1].clone()));
        for text in [
            "sha1:qZk+NkcGgWq6PiVxeFDCbJzQ2J0=",
            "urn:sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5",
            "sha1=a9993e364706816aba3e25717850c26c9cd0d89d",
        ] {
            assert_eq!(digest(text), Some(known[0].clone()), "{text}");
        }
        // Without a label, an MD5 in hexadecimal may be a SHA-1 in base 32.
        for text in [
            "VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5",
            "a9993e364706816aba3e25717850c26c9cd0d89d",
            "qZk+NkcGgWq6PiVxeFDCbJzQ2J0=",
        ] {
            assert_eq!(digest(text), None, "{text}");
        }
        for text in ["", "sha1", "sha1:", "md5:900150983cd24fb0d6963f7d28e17f72", "sha1:xyz", "sha256:a9993e36"] {
            assert_eq!(digest(text), None, "{text}");
        }
    }
}
