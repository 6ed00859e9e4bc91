//! Names of a set's keys, and the note that describes its layout.
//!
//! | key | what |
//! |---|---|
//! | `fm:NAME` | the note: JSON, written once |
//! | `fm:NAME:{TAG}:K` | key K (hexadecimal) of the set's URLs |
//! | `fm:NAME:{TAG}:n` | number of URLs in the keys of this group |
//! | `fm:NAME:{TAG}:a:OWNER` | the answers given to an owner, until they expire |
//!
//! A group is the keys of one tag: they share a slot of a cluster, so one call can change them.
//! The slots of the groups are spread evenly, so each of any number of masters holds about an
//! equal part of a set. Key K is in group K modulo the number of groups.

use redis::Cmd;
use serde::{Deserialize, Serialize};

use crate::kind::NewRedisSet;

/// The format version of a set.
pub const FORMAT: u32 = 1;
/// Groups of a set: more cost more calls a request, fewer spread over fewer masters.
const GROUPS: u32 = 64;
/// Slots of a cluster.
const SLOTS: u32 = 16_384;

/// The layout of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub format: u32,
    #[serde(flatten)]
    pub set: NewRedisSet,
    pub groups: u32,
    pub seed: u64,
    pub rules: String,
    pub rules_version: u32,
}

impl Note {
    pub fn new(set: NewRedisSet, rules: &str, rules_version: u32) -> Note {
        Note { format: FORMAT, set, groups: GROUPS, seed: fastrand::u64(..), rules: rules.to_owned(), rules_version }
    }

    /// The reason why the note is unusable, if it is.
    pub fn fault(&self) -> Option<String> {
        if self.format > FORMAT {
            return Some(format!(
                "it has format {}, this program knows up to {FORMAT}: use a newer FileMap",
                self.format
            ));
        }
        if !(1..=SLOTS).contains(&self.groups) {
            return Some(format!("{} groups", self.groups));
        }
        self.set.check().err().map(|error| error.to_string())
    }
}

/// Names of keys.
#[derive(Clone, Debug)]
pub struct Names {
    set: String,
    tags: Vec<String>,
}

impl Names {
    pub fn note(set: &str) -> String {
        format!("fm:{set}")
    }

    pub fn new(set: &str, groups: u32) -> Names {
        Names { set: set.to_owned(), tags: (0..groups).map(|group| tag(group, groups)).collect() }
    }

    pub fn groups(&self) -> usize {
        self.tags.len()
    }

    pub fn group(&self, key: u64) -> usize {
        (key % self.tags.len() as u64) as usize
    }

    pub fn key(&self, key: u64) -> String {
        format!("fm:{}:{{{}}}:{key:x}", self.set, self.tags[self.group(key)])
    }

    pub fn count(&self, group: usize) -> String {
        format!("fm:{}:{{{}}}:n", self.set, self.tags[group])
    }

    pub fn answers(&self, group: usize, owner: u128) -> String {
        format!("fm:{}:{{{}}}:a:{owner:032x}", self.set, self.tags[group])
    }
}

/// The first number whose slot is in part `group` of `groups` equal parts of all slots.
fn tag(group: u32, groups: u32) -> String {
    let is_of = |number: &u32| slot(number.to_string().as_bytes()) * groups / SLOTS == group;
    (0..).find(is_of).unwrap_or_default().to_string()
}

/// The slot of a tag: CRC-16/XMODEM modulo 16,384 (Redis Cluster Specification, "Keys distribution
/// model").
fn slot(tag: &[u8]) -> u32 {
    let crc = tag.iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| (crc << 1) ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 })
    });
    u32::from(crc) % SLOTS
}

/// Builds a command of these words.
pub fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_spread_over_all_slots() {
        // The example in the specification.
        assert_eq!(slot(b"123456789"), 0x31C3);
        for groups in [1, 3, 64, 1000] {
            let names = Names::new("pages", groups);
            for (group, tag) in names.tags.iter().enumerate() {
                assert_eq!(slot(tag.as_bytes()) * groups / SLOTS, group as u32);
            }
        }
        let names = Names::new("pages", 64);
        assert_eq!(names.key(65), format!("fm:pages:{{{}}}:41", names.tags[1]));
    }

    #[test]
    fn a_note_is_read_as_it_was_written_and_a_newer_one_named() {
        let mut note = Note::new(NewRedisSet::Exact { urls: 1_000 }, "whatwg", 1);
        let text = serde_json::to_string(&note).expect("JSON");
        assert_eq!(serde_json::from_str::<Note>(&text).expect("a note"), note);
        assert_eq!(note.fault(), None);
        note.format = 2;
        assert!(note.fault().expect("newer").contains("newer FileMap"));
        note.format = 1;
        note.groups = 0;
        assert!(note.fault().is_some());
    }
}
