//! The file RULES: what was erased, and is not to come back. Written whole under the name RULES.new, synced, renamed.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `FMRULES\0` |
//! | 8 | 4 | CRC-32 of bytes 12 to the end of the file |
//! | 12 | 2 | format version that a reader must know |
//! | 14 | 2 | format version that a writer must know |
//! | 16 | 16 | store id |
//! | 32 | 8 | generation: one more with every change, from 1 on; the superblock names one that is not greater |
//! | 40 | 4 | id of the next rule: none is given again |
//! | 44 | 4 | number of rules, which follow one after the other |
//! | 48 | 8 | length of the file |
//! | 56 | 8 | reserved, zero |
//!
//! A rule:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | its id, from 1 on |
//! | 4 | 1 | 1 = made, and the erasure is not finished; 2 = in force; 3 = lifted |
//! | 5 | 3 | zeros |
//! | 8 | 8 | when it was made, ms since 1970 |
//! | 16 | 8 | when its state last changed, ms since 1970 |
//! | 24 | 4 | length of the reason |
//! | 28 | 4 | length of what it is about |
//! | 32 | | reason, as UTF-8; what it is about, in the terms of the program that stores pages |

use super::{FORMAT_VERSION, Flaw, all_zero, get_16, get_u16, get_u32, get_u64, put};

const MAGIC: &[u8; 8] = b"FMRULES\0";
const HEAD_BYTES: usize = 64;
const RULE_BYTES: usize = 32;
/// The longest file that is written or read, in bytes.
pub(crate) const LONGEST: u64 = 64 << 20;

/// What has become of the erasure that made a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleState {
    /// It has begun: the rule holds, and files may still have what it is about.
    Unfinished,
    /// It is done: the rule holds.
    InForce,
    /// The rule was taken back: it holds no more, and is kept as a note.
    Lifted,
}

/// Something that was erased and is not to come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its number in the store, given once.
    pub id: u32,
    /// Whether it holds.
    pub state: RuleState,
    /// When it was made, in ms since 1970.
    pub made_ms: i64,
    /// When its state last changed, in ms since 1970.
    pub changed_ms: i64,
    /// Why, in the words of whoever made it.
    pub reason: String,
    /// What it is about. The engine does not look into it.
    pub what: Vec<u8>,
}

impl Rule {
    /// Whether what it is about is refused.
    pub fn holds(&self) -> bool {
        self.state != RuleState::Lifted
    }
}

/// All that the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) generation: u64,
    pub(crate) next_id: u32,
    pub(crate) list: Vec<Rule>,
}

impl Rules {
    pub(crate) fn encode(&self, store_id: &[u8; 16]) -> Vec<u8> {
        let mut b = vec![0; HEAD_BYTES];
        put(&mut b, 0, MAGIC);
        put(&mut b, 12, &FORMAT_VERSION.to_le_bytes());
        put(&mut b, 14, &FORMAT_VERSION.to_le_bytes());
        put(&mut b, 16, store_id);
        put(&mut b, 32, &self.generation.to_le_bytes());
        put(&mut b, 40, &self.next_id.to_le_bytes());
        put(&mut b, 44, &(self.list.len() as u32).to_le_bytes());
        for rule in &self.list {
            let state: u8 = match rule.state {
                RuleState::Unfinished => 1,
                RuleState::InForce => 2,
                RuleState::Lifted => 3,
            };
            b.extend_from_slice(&rule.id.to_le_bytes());
            b.extend_from_slice(&[state, 0, 0, 0]);
            b.extend_from_slice(&rule.made_ms.to_le_bytes());
            b.extend_from_slice(&rule.changed_ms.to_le_bytes());
            b.extend_from_slice(&(rule.reason.len() as u32).to_le_bytes());
            b.extend_from_slice(&(rule.what.len() as u32).to_le_bytes());
            b.extend_from_slice(rule.reason.as_bytes());
            b.extend_from_slice(&rule.what);
        }
        let len = b.len() as u64;
        put(&mut b, 48, &len.to_le_bytes());
        let crc = crc32fast::hash(&b[12..]);
        put(&mut b, 8, &crc.to_le_bytes());
        b
    }

    /// What the file's bytes say, and the versions that its readers and writers must know.
    pub(crate) fn decode(b: &[u8], store_id: &[u8; 16]) -> Result<(Rules, u16, u16), Flaw> {
        if b.len() < HEAD_BYTES || &b[..8] != MAGIC {
            return Err("unknown magic");
        }
        if get_u64(b, 48) != b.len() as u64 || crc32fast::hash(&b[12..]) != get_u32(b, 8) {
            return Err("checksum does not match");
        }
        if get_16(b, 16) != *store_id {
            return Err("it is another store's");
        }
        let versions = (get_u16(b, 12), get_u16(b, 14));
        let mut rules = Rules { generation: get_u64(b, 32), next_id: get_u32(b, 40), list: Vec::new() };
        if versions.0 > FORMAT_VERSION {
            return Ok((rules, versions.0, versions.1));
        }
        if !all_zero(&b[56..64]) || versions.0 == 0 || rules.generation == 0 {
            return Err("its head says what cannot be");
        }
        let mut rest = &b[HEAD_BYTES..];
        for _ in 0..get_u32(b, 44) {
            let (rule, more) = decode_rule(rest)?;
            if rule.id == 0 || rule.id >= rules.next_id {
                return Err("a rule has an id that was not given");
            }
            rules.list.push(rule);
            rest = more;
        }
        if rest.is_empty() { Ok((rules, versions.0, versions.1)) } else { Err("there is more than its rules") }
    }
}

fn decode_rule(b: &[u8]) -> Result<(Rule, &[u8]), Flaw> {
    const CUT: Flaw = "a rule is cut off";
    if b.len() < RULE_BYTES {
        return Err(CUT);
    }
    let state = match (b[4], all_zero(&b[5..8])) {
        (1, true) => RuleState::Unfinished,
        (2, true) => RuleState::InForce,
        (3, true) => RuleState::Lifted,
        _ => return Err("a rule has an unknown state"),
    };
    let (reason, rest) = b[RULE_BYTES..].split_at_checked(get_u32(b, 24) as usize).ok_or(CUT)?;
    let (what, rest) = rest.split_at_checked(get_u32(b, 28) as usize).ok_or(CUT)?;
    let reason = str::from_utf8(reason).map_err(|_| "a rule's reason is no text")?.to_owned();
    let (made_ms, changed_ms) = (get_u64(b, 8).cast_signed(), get_u64(b, 16).cast_signed());
    Ok((Rule { id: get_u32(b, 0), state, made_ms, changed_ms, reason, what: what.to_vec() }, rest))
}

#[cfg(test)]
pub(crate) fn example() -> Rules {
    let rule = |id, state| Rule {
        id,
        state,
        made_ms: 5,
        changed_ms: -6,
        reason: "asked for by letter".into(),
        what: vec![0, 255, id as u8],
    };
    let list = vec![rule(1, RuleState::Lifted), rule(2, RuleState::InForce), rule(7, RuleState::Unfinished)];
    Rules { generation: 9, next_id: 8, list }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_back_and_any_changed_byte_is_noticed() {
        let bytes = example().encode(&[3; 16]);
        assert_eq!(Rules::decode(&bytes, &[3; 16]).unwrap().0, example());
        assert!(Rules::decode(&bytes, &[4; 16]).is_err());
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(Rules::decode(&bad, &[3; 16]).is_err(), "byte {at}");
            assert!(Rules::decode(&bytes[..at], &[3; 16]).is_err(), "cut at {at}");
        }
    }
}
