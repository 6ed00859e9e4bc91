//! The state of a mailbox without its links, and the records of its log.
//!
//! A record is a tag of one byte and fields; numbers in LEB128, ids 16 bytes, little-endian.
//!
//! | tag | record | fields |
//! |---|---|---|
//! | 1 | state | dropped place, links entered, links dropped, owner (0, or 1 and id), epoch, idle, crawls: id and number of links of each |
//! | 2 | links | crawl's id, number of the first, count, links ([`crate::link`]) |
//! | 3 | dropped | place before which all links are dropped, how many |
//! | 4 | owner | 0, or 1 and id; epoch |
//! | 5 | idle | 1 if the owner has nothing to do |

use std::collections::BTreeMap;

use filemap_io::{layout, varint};

use crate::link::Link;

/// The state of a mailbox without its links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The place before which all links are dropped.
    pub(crate) dropped_at: u64,
    /// Numbers of links entered and dropped since the mailbox was created.
    pub(crate) entered: u64,
    pub(crate) dropped: u64,
    pub(crate) owner: Option<u128>,
    pub(crate) epoch: u64,
    pub(crate) is_idle: bool,
    /// Number of links from each crawl.
    pub(crate) senders: BTreeMap<u128, u64>,
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    State(State),
    Links { sender: u128, first: u64, links: Vec<Link> },
    Dropped { place: u64, count: u64 },
    Owner { owner: Option<u128>, epoch: u64 },
    Idle(bool),
}

fn put_owner(to: &mut Vec<u8>, owner: Option<u128>) {
    to.push(u8::from(owner.is_some()));
    owner.into_iter().for_each(|id| layout::push(to, id));
}

/// Encodes a record of links.
pub(crate) fn encode_links(sender: u128, first: u64, links: &[Link]) -> Vec<u8> {
    let mut to = vec![2];
    layout::push(&mut to, sender);
    [first, links.len() as u64].iter().for_each(|field| varint::put(&mut to, *field));
    links.iter().for_each(|link| link.encode(&mut to));
    to
}

impl State {
    /// Number of links that wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.entered - self.dropped
    }

    /// Counts links written at a place.
    pub(crate) fn enter(&mut self, sender: u128, first: u64, count: u64, at: u64) -> Option<()> {
        if self.waiting() == 0 {
            // The files of earlier links may be removed.
            self.dropped_at = at;
        }
        let next = self.senders.entry(sender).or_default();
        *next = next.checked_add(count).filter(|_| *next == first)?;
        self.entered = self.entered.checked_add(count)?;
        Some(())
    }

    /// Applies the record at a place; `None` if no mailbox in this state can have written it.
    pub(crate) fn apply(&mut self, record: &Record, at: u64) -> Option<()> {
        match record {
            Record::State(state) => *self = state.clone(),
            Record::Links { sender, first, links } => {
                self.enter(*sender, *first, links.len() as u64, at)?;
            }
            Record::Dropped { place, count } => {
                self.dropped = self.dropped.checked_add(*count).filter(|dropped| *dropped <= self.entered)?;
                (self.dropped_at, self.is_idle) = ((*place).max(self.dropped_at), false);
            }
            Record::Owner { owner, epoch } => {
                (self.owner, self.epoch, self.is_idle) = (*owner, *epoch, false);
            }
            Record::Idle(is_idle) => self.is_idle = *is_idle,
        }
        Some(())
    }
}

impl Record {
    /// Encodes the record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        match self {
            Record::State(state) => {
                to.push(1);
                [state.dropped_at, state.entered, state.dropped].iter().for_each(|field| varint::put(&mut to, *field));
                put_owner(&mut to, state.owner);
                let fields = [state.epoch, u64::from(state.is_idle), state.senders.len() as u64];
                fields.iter().for_each(|field| varint::put(&mut to, *field));
                for (sender, next) in &state.senders {
                    layout::push(&mut to, *sender);
                    varint::put(&mut to, *next);
                }
            }
            Record::Links { sender, first, links } => return encode_links(*sender, *first, links),
            Record::Dropped { place, count } => {
                to.push(3);
                [*place, *count].iter().for_each(|field| varint::put(&mut to, *field));
            }
            Record::Owner { owner, epoch } => {
                to.push(4);
                put_owner(&mut to, *owner);
                varint::put(&mut to, *epoch);
            }
            Record::Idle(is_idle) => to.extend_from_slice(&[5, u8::from(*is_idle)]),
        }
        to
    }

    /// Decodes a record; `None` if the bytes are invalid.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
        let (tag, rest) = bytes.split_first()?;
        let mut from = Bytes(rest);
        let record = match tag {
            1 => Record::State(from.state()?),
            2 => {
                let (sender, first, count) = (from.id()?, from.number()?, from.number()?);
                let links: Option<Vec<Link>> = (0..count).map(|_| Link::decode(&mut from.0)).collect();
                Record::Links { sender, first, links: links? }
            }
            3 => Record::Dropped { place: from.number()?, count: from.number()? },
            4 => Record::Owner { owner: from.owner()?, epoch: from.number()? },
            5 => Record::Idle(from.flag()?),
            _ => return None,
        };
        from.0.is_empty().then_some(record)
    }
}

/// Bytes left to decode.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn number(&mut self) -> Option<u64> {
        varint::take(&mut self.0)
    }

    fn flag(&mut self) -> Option<bool> {
        self.number().filter(|flag| *flag < 2).map(|flag| flag == 1)
    }

    fn id(&mut self) -> Option<u128> {
        layout::take(&mut self.0)
    }

    fn owner(&mut self) -> Option<Option<u128>> {
        match self.flag()? {
            true => self.id().map(Some),
            false => Some(None),
        }
    }

    fn state(&mut self) -> Option<State> {
        let (dropped_at, entered) = (self.number()?, self.number()?);
        let dropped = self.number().filter(|dropped| *dropped <= entered)?;
        let (owner, epoch, is_idle, count) = (self.owner()?, self.number()?, self.flag()?, self.number()?);
        let mut senders = BTreeMap::new();
        for _ in 0..count {
            senders.insert(self.id()?, self.number()?);
        }
        Some(State { dropped_at, entered, dropped, owner, epoch, is_idle, senders })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_and_cut_ones_are_none() {
        let link = |url: &str| Link { url: url.to_owned(), depth: 3, is_seed: false };
        let state = State {
            dropped_at: 512,
            entered: 900,
            dropped: 7,
            owner: Some(u128::MAX),
            epoch: 300,
            is_idle: true,
            senders: BTreeMap::from([(1, 5), (u128::MAX, u64::MAX)]),
        };
        let records = [
            Record::State(state),
            Record::State(State::default()),
            Record::Links { sender: 7, first: 200, links: vec![link("http://a/"), link("http://b/")] },
            Record::Dropped { place: 1024, count: 300 },
            Record::Owner { owner: None, epoch: 2 },
            Record::Owner { owner: Some(9), epoch: 1 },
            Record::Idle(true),
        ];
        for record in records {
            let bytes = record.encode();
            assert!((0..bytes.len()).all(|len| Record::decode(&bytes[..len]).is_none()), "{record:?}");
            assert_eq!(Record::decode(&[&bytes[..], &[0]].concat()), None);
            assert_eq!(Record::decode(&bytes), Some(record));
        }
        assert_eq!(Record::decode(&[6]), None);
    }
}
