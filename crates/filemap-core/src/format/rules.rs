//! The file RULES: rules for what was erased and must not come back. It is written whole as
//! RULES.new, synced and renamed.

use filemap_io::layout::{Text, Zeros, is_reserved_zero};

use super::{FORMAT_VERSION, Flaw};

filemap_io::layout! {
    /// The head of the file.
    pub(crate) struct Layout {
        0 MAGIC: Text<8> = "magic `FMRULES\\0`";
        8 CRC: u32 = "CRC-32 of bytes 12 to the end of the file";
        12 READ_VERSION: u16 = "format version that a reader must know";
        14 WRITE_VERSION: u16 = "format version that a writer must know";
        16 STORE_ID: [u8; 16] = "store id";
        32 GENERATION: u64 = "generation: one more with every change, from 1 on; the superblock names one that is not greater";
        40 NEXT_ID: u32 = "id of the next rule: none is given again";
        44 RULES: u32 = "number of rules, which follow one after the other";
        48 FILE_BYTES: u64 = "length of the file";
        56 RESERVED: Zeros<8> = "reserved, zero";
    }
}

filemap_io::layout! {
    /// The fixed part of a rule.
    pub(crate) struct RuleLayout {
        0 ID: u32 = "its id, from 1 on";
        4 STATE: u8 = "1 = made, and the erasure is not finished; 2 = in force; 3 = lifted";
        5 RESERVED: Zeros<3> = "zeros";
        8 MADE_MS: i64 = "when it was made, ms since 1970";
        16 CHANGED_MS: i64 = "when its state last changed, ms since 1970";
        24 REASON_BYTES: u32 = "length of the reason";
        28 WHAT_BYTES: u32 = "length of what it is about";
        .. "32", "" = "reason, as UTF-8; what it is about, in the terms of the program that stores pages";
    }
}

pub(crate) const MAGIC: &[u8; 8] = b"FMRULES\0";
const HEAD_BYTES: usize = Layout::BYTES;
const RULE_BYTES: usize = RuleLayout::BYTES;
/// Longest file that is written or read, in bytes.
pub(crate) const LONGEST: u64 = 64 << 20;

/// State of a rule and of the erasure that made it.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// use filemap_core::erase::RuleState;
/// let rule = store.add_rule(b"http://a.example/", "asked for by letter")?;
/// store.set_rule_state(rule.id, RuleState::Lifted)?;
/// assert!(!store.rules()?[0].holds());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleState {
    /// The erasure has begun: the rule holds, but files may still contain what it matches.
    Unfinished,
    /// The erasure is complete; the rule holds.
    InForce,
    /// The rule was lifted: it no longer holds, and is kept as a note.
    Lifted,
}

impl RuleState {
    const ALL: [RuleState; 3] = [RuleState::Unfinished, RuleState::InForce, RuleState::Lifted];

    fn tag(self) -> u8 {
        match self {
            RuleState::Unfinished => 1,
            RuleState::InForce => 2,
            RuleState::Lifted => 3,
        }
    }
}

/// A rule: matches something that was erased and must not come back.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// let rule = store.add_rule(b"http://a.example/", "asked for by letter")?;
/// assert!(rule.holds() && store.rules()? == [rule]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule's number in the store, never reused.
    pub id: u32,
    /// State of the rule and of its erasure.
    pub state: RuleState,
    /// Time of creation, in ms since 1970.
    pub made_ms: i64,
    /// Time of the last change of its state, in ms since 1970.
    pub changed_ms: i64,
    /// Reason, as given by the caller.
    pub reason: String,
    /// The pattern of the rule. The engine does not interpret it.
    pub what: Vec<u8>,
}

impl Rule {
    /// Returns true if the rule refuses puts.
    pub fn holds(&self) -> bool {
        self.state != RuleState::Lifted
    }
}

/// The decoded file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) generation: u64,
    pub(crate) next_id: u32,
    pub(crate) list: Vec<Rule>,
}

impl Rules {
    pub(crate) fn encode(&self, store_id: &[u8; 16]) -> Vec<u8> {
        let mut b = vec![0; HEAD_BYTES];
        Layout::MAGIC.put(&mut b, Text(*MAGIC));
        Layout::READ_VERSION.put(&mut b, FORMAT_VERSION);
        Layout::WRITE_VERSION.put(&mut b, FORMAT_VERSION);
        Layout::STORE_ID.put(&mut b, *store_id);
        Layout::GENERATION.put(&mut b, self.generation);
        Layout::NEXT_ID.put(&mut b, self.next_id);
        Layout::RULES.put(&mut b, self.list.len() as u32);
        for rule in &self.list {
            let mut head = [0; RULE_BYTES];
            RuleLayout::ID.put(&mut head, rule.id);
            RuleLayout::STATE.put(&mut head, rule.state.tag());
            RuleLayout::MADE_MS.put(&mut head, rule.made_ms);
            RuleLayout::CHANGED_MS.put(&mut head, rule.changed_ms);
            RuleLayout::REASON_BYTES.put(&mut head, rule.reason.len() as u32);
            RuleLayout::WHAT_BYTES.put(&mut head, rule.what.len() as u32);
            b.extend_from_slice(&head);
            b.extend_from_slice(rule.reason.as_bytes());
            b.extend_from_slice(&rule.what);
        }
        let len = b.len() as u64;
        Layout::FILE_BYTES.put(&mut b, len);
        let crc = crc32fast::hash(&b[Layout::CRC.end()..]);
        Layout::CRC.put(&mut b, crc);
        b
    }

    /// Decodes the file. Returns its rules with the format versions that readers and writers must
    /// know. If the read version is newer than this program's, the list is empty.
    pub(crate) fn decode(b: &[u8], store_id: &[u8; 16]) -> Result<(Rules, u16, u16), Flaw> {
        if b.len() < HEAD_BYTES || Layout::MAGIC.get(b).0 != *MAGIC {
            return Err("unknown magic");
        }
        if Layout::FILE_BYTES.get(b) != b.len() as u64 || crc32fast::hash(&b[Layout::CRC.end()..]) != Layout::CRC.get(b)
        {
            return Err("checksum mismatch");
        }
        if Layout::STORE_ID.get(b) != *store_id {
            return Err("it belongs to another store");
        }
        let versions = (Layout::READ_VERSION.get(b), Layout::WRITE_VERSION.get(b));
        let mut rules =
            Rules { generation: Layout::GENERATION.get(b), next_id: Layout::NEXT_ID.get(b), list: Vec::new() };
        if versions.0 > FORMAT_VERSION {
            return Ok((rules, versions.0, versions.1));
        }
        if !is_reserved_zero(Layout::ROWS, b) || versions.0 == 0 || rules.generation == 0 {
            return Err("header field out of range");
        }
        let mut rest = &b[HEAD_BYTES..];
        for _ in 0..Layout::RULES.get(b) {
            let (rule, more) = decode_rule(rest)?;
            if rule.id == 0 || rule.id >= rules.next_id {
                return Err("a rule has an id that was never assigned");
            }
            rules.list.push(rule);
            rest = more;
        }
        if rest.is_empty() { Ok((rules, versions.0, versions.1)) } else { Err("bytes follow the last rule") }
    }
}

fn decode_rule(b: &[u8]) -> Result<(Rule, &[u8]), Flaw> {
    const CUT: Flaw = "a rule is cut off";
    if b.len() < RULE_BYTES {
        return Err(CUT);
    }
    let tag = RuleLayout::STATE.get(b);
    let state = RuleState::ALL.into_iter().find(|s| s.tag() == tag && is_reserved_zero(RuleLayout::ROWS, b));
    let state = state.ok_or("a rule has an unknown state")?;
    let (reason, rest) = b[RULE_BYTES..].split_at_checked(RuleLayout::REASON_BYTES.get(b) as usize).ok_or(CUT)?;
    let (what, rest) = rest.split_at_checked(RuleLayout::WHAT_BYTES.get(b) as usize).ok_or(CUT)?;
    let reason = str::from_utf8(reason).map_err(|_| "a rule's reason is not UTF-8")?.to_owned();
    let (made_ms, changed_ms) = (RuleLayout::MADE_MS.get(b), RuleLayout::CHANGED_MS.get(b));
    Ok((Rule { id: RuleLayout::ID.get(b), state, made_ms, changed_ms, reason, what: what.to_vec() }, rest))
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
