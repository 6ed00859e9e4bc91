//! The note of a member: its set, its number and the number of members, and whether the set is
//! made.
//!
//! It is the value of a key of the store's own, and so in the value log, which is the truth: a
//! backup, a copy of the files and a repair have it too. Its time is later than that of any page,
//! so no rule of retention takes it. It is text, for whoever looks: `1 SET 0 2 made`.

use filemap_core::{Record, Store};

use crate::error::{Error, Result};
use crate::page::key;
use crate::store::PageStore;

/// The end of the year 9999.
const TIME_MS: i64 = 253_402_300_799_000;
/// First line of a note of this layout.
const LAYOUT: &str = "1";
/// The last word: not all members may be there yet, and no page was put; or all were.
const MAKING: &str = "making";
const MADE: &str = "made";

/// The membership of a folder in a set of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// The id of the set.
    pub(super) set: u128,
    /// Number of this member, from 0.
    pub(super) number: u32,
    /// Number of members.
    pub(super) of: u32,
    /// Every member has its note, durably.
    pub(super) is_made: bool,
}

impl Note {
    /// Returns whether both are of one place, whatever is made of it.
    pub(super) fn is_of(&self, other: &Note) -> bool {
        (self.set, self.number, self.of) == (other.set, other.number, other.of)
    }

    fn text(&self) -> String {
        let state = if self.is_made { MADE } else { MAKING };
        format!("{LAYOUT} {:032x} {} {} {state}", self.set, self.number, self.of)
    }

    /// The note of a text that [`Note::text`] made.
    fn parse(text: &str) -> Option<Note> {
        let mut words = text.split(' ');
        if words.next()? != LAYOUT {
            return None;
        }
        let set = u128::from_str_radix(words.next()?, 16).ok()?;
        let (number, of) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let is_made = words.next()? == MADE;
        let note = Note { set, number, of, is_made };
        (note.text() == text && number < of).then_some(note)
    }
}

/// The place of a store in a store over several folders.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::sync::Arc;
/// use filemap::canonical::Whatwg;
/// use filemap::sharded::{Membership, ShardedStore};
/// use filemap::{Options, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
/// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
/// let second = Membership::of(store.members()[1].engine())?.expect("a member");
/// assert_eq!((second.number, second.members), (1, 2));
/// let alone = PageStore::create(dir.path().join("alone.fm"), Options::new())?;
/// assert!(Membership::of(alone.engine())?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Membership {
    /// The random id of the set.
    pub set: u128,
    /// Number of this member, from 0.
    pub number: u32,
    /// Number of members.
    pub members: u32,
}

impl Membership {
    /// The place of this store; `None` if it is not a member.
    ///
    /// # Errors
    ///
    /// [`Error::NotMembers`] if this program does not understand the note of it; those of
    /// [`Store::get`].
    ///
    /// ```
    /// use filemap::sharded::Membership;
    /// let dir = tempfile::tempdir()?;
    /// let store = filemap::PageStore::create(dir.path().join("a.fm"), filemap::Options::new())?;
    /// assert!(Membership::of(store.engine())?.is_none(), "a store in one folder");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(store: &Store) -> Result<Option<Membership>> {
        let membership = |note: Note| Membership { set: note.set, number: note.number, members: note.of };
        Ok(read_from(store)?.map(membership))
    }
}

/// Returns whether a key of a store is that of the note by which it is a member: for copies of
/// keys to a store that is not, or is another one.
///
/// ```
/// assert!(!filemap::sharded::is_note(b"http://example.com/"));
/// ```
pub fn is_note(key: &[u8]) -> bool {
    key == key::MEMBER
}

/// The note of a store; `None` if it has none, and is not a member.
///
/// # Errors
///
/// [`Error::NotMembers`] if this program does not understand it; those of
/// [`filemap_core::Store::get`].
pub(super) fn read(store: &PageStore) -> Result<Option<Note>> {
    read_from(store.engine())
}

fn read_from(store: &Store) -> Result<Option<Note>> {
    let Some(value) = store.get(key::MEMBER)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&value.body);
    Note::parse(&text).map(Some).ok_or_else(|| Error::NotMembers {
        path: store.path().to_owned(),
        what: format!("its note of the set that it belongs to is not understood ({text:?}): use a newer build"),
    })
}

/// Returns whether the store had a note of this place before: another one was put over it.
///
/// # Errors
///
/// Those of [`filemap_core::Store::get_version`], but for damage, which proves nothing.
pub(super) fn has_had(store: &PageStore, wanted: &Note) -> Result<bool> {
    for head in store.engine().history_iter(key::MEMBER) {
        let value = head.and_then(|head| store.engine().get_version(key::MEMBER, head.version));
        let note = match value {
            Err(error) if error.is_corrupt() => None,
            value => value?.and_then(|value| Note::parse(&String::from_utf8_lossy(&value.body))),
        };
        if note.is_some_and(|note| note.is_of(wanted)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Notes it, durably.
///
/// # Errors
///
/// Those of [`filemap_core::Store::put`] and [`filemap_core::Store::sync`].
pub(super) fn write(store: &PageStore, note: &Note) -> Result<()> {
    let text = note.text();
    store.engine().put(&Record { key: key::MEMBER, meta: b"", body: text.as_bytes(), time_ms: TIME_MS })?;
    store.sync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_and_other_text_is_none() {
        for note in [
            Note { set: 0, number: 0, of: 2, is_made: false },
            Note { set: u128::MAX, number: 1023, of: 1024, is_made: true },
        ] {
            assert_eq!(Note::parse(&note.text()), Some(note));
        }
        let set = "0123456789abcdef0123456789abcdef";
        assert!(Note::parse(&format!("1 {set} 0 2 made")).is_some());
        for text in [
            String::new(),
            format!("2 {set} 0 2 made"),
            format!("1 {set} 2 2 made"),
            format!("1 {set} 0 2 gone"),
            format!("1 {set} 0 2 made more"),
            format!("1 {set} 00 2 made"),
            format!("1 {} 0 2 made", set.to_uppercase()),
            format!("1 {set} 0 2"),
        ] {
            assert_eq!(Note::parse(&text), None, "{text}");
        }
    }
}
