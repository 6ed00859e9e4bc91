//! Journal records, one for each event. Encode beside decode.
//!
//! A record is a tag of one byte and fields. Numbers are variable-length ([`filemap_io::varint`]).
//! A text is its length and its bytes, UTF-8. A list is its length and its elements; page numbers
//! in a list rise, and each is written as the difference to the one before.
//!
//! | tag | record | fields |
//! |---|---|---|
//! | 1 | seeds | list of known pages, list of new URLs |
//! | 2 | done | page, due, age, links lost (2^32 - 1: it hands nothing on), list of known pages, depth of new ones, list of new URLs |
//! | 3 | failed | page, failure's code, attempts, due, 1 if the page is given up |
//! | 4 | delay | host, 0 or 1 + milliseconds |
//! | 5 | hold | host, time |
//! | 6 | began | page handed out, time |
//! | 7 | opened | none: pages are handed out again after the frontier was closed |
//! | 8 | rested | time at which every host began to rest: the last fetches are not known |
//! | 9 | claimed | id (16 bytes), list of pages asked for, list of those that are settled |
//! | 10 | down | host, time since when it fails, number of its rests, time at which this one ends |
//! | 11 | lost | list of pages that are given up since their host is down |
//! | 12 | retried | list of pages that were given up, or wait for an attempt, and are queued again |
//! | 13 | host began | host, time at which its last fetch began |
//! | 14 | up | host that has answered, so that it does not fail |
//! | 15 | hinted | count; of each page the difference to the one before, age, due or 0 |
//! | 16 | arrived | depth, list of new URLs: links that other crawls have found |
//!
//! *Due* is in seconds, 0 for never; *age* is the step of the recrawl interval; a *time* is in
//! milliseconds, below 2^63. A record holds decisions, not their reasons, so a replay does not
//! depend on options.

use filemap_io::{layout, varint};

use crate::outcome::{Failing, FailureKind};

/// Value of `lost` for a page that hands nothing on.
pub(crate) const ALL_LOST: u32 = u32::MAX;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Seeds {
        known: Vec<u32>,
        new: Vec<&'a str>,
    },
    Done {
        page: u32,
        due_s: u32,
        age: u8,
        lost: u32,
        known: Vec<u32>,
        depth: u16,
        new: Vec<&'a str>,
    },
    Failed {
        page: u32,
        code: u8,
        attempts: u8,
        due_s: u32,
        is_gone: bool,
    },
    Delay {
        host: &'a str,
        delay_ms: Option<u64>,
    },
    Hold {
        host: &'a str,
        until_ms: i64,
    },
    Began {
        page: u32,
        at_ms: i64,
    },
    Opened,
    Rested {
        at_ms: i64,
    },
    Claimed {
        id: u128,
        pages: Vec<u32>,
        done: Vec<u32>,
    },
    Down {
        host: &'a str,
        down: Failing,
    },
    Lost {
        pages: Vec<u32>,
    },
    Retried {
        pages: Vec<u32>,
    },
    HostBegan {
        host: &'a str,
        at_ms: i64,
    },
    Up {
        host: &'a str,
    },
    /// Page, age and due of each page; pages ascend.
    Hinted {
        changes: Vec<(u32, u8, u32)>,
    },
    Arrived {
        depth: u16,
        new: Vec<&'a str>,
    },
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    varint::put(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// Appends page numbers, which ascend.
pub(crate) fn put_pages(to: &mut Vec<u8>, pages: &[u32]) {
    varint::put(to, pages.len() as u64);
    let mut last = 0;
    for page in pages {
        varint::put(to, u64::from(page - last));
        last = *page;
    }
}

fn put_changes(to: &mut Vec<u8>, changes: &[(u32, u8, u32)]) {
    to.push(15);
    varint::put(to, changes.len() as u64);
    let mut last = 0;
    for (page, age, due_s) in changes {
        [page - last, u32::from(*age), *due_s].iter().for_each(|field| varint::put(to, u64::from(*field)));
        last = *page;
    }
}

fn put_arrived(to: &mut Vec<u8>, depth: u16, new: &[&str]) {
    to.push(16);
    varint::put(to, u64::from(depth));
    put_texts(to, new);
}

fn put_list(to: &mut Vec<u8>, tag: u8, pages: &[u32]) {
    to.push(tag);
    put_pages(to, pages);
}

fn put_texts(to: &mut Vec<u8>, texts: &[&str]) {
    varint::put(to, texts.len() as u64);
    texts.iter().for_each(|text| put_text(to, text));
}

impl<'a> Record<'a> {
    /// Appends the encoded record. Lists of pages are sorted.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Record::Seeds { known, new } => {
                to.push(1);
                put_pages(to, known);
                put_texts(to, new);
            }
            Record::Done { page, due_s, age, lost, known, depth, new } => {
                to.push(2);
                [*page, *due_s, u32::from(*age), *lost].iter().for_each(|field| varint::put(to, u64::from(*field)));
                put_pages(to, known);
                varint::put(to, u64::from(*depth));
                put_texts(to, new);
            }
            Record::Failed { page, code, attempts, due_s, is_gone } => {
                to.push(3);
                let fields = [*page, u32::from(*code), u32::from(*attempts), *due_s, u32::from(*is_gone)];
                fields.iter().for_each(|field| varint::put(to, u64::from(*field)));
            }
            Record::Delay { host, delay_ms } => {
                to.push(4);
                put_text(to, host);
                varint::put(to, delay_ms.map_or(0, |delay| delay.saturating_add(1)));
            }
            Record::Hold { host, until_ms } => {
                to.push(5);
                put_text(to, host);
                varint::put(to, *until_ms as u64);
            }
            Record::Began { page, at_ms } => {
                to.push(6);
                varint::put(to, u64::from(*page));
                varint::put(to, *at_ms as u64);
            }
            Record::Opened => to.push(7),
            Record::Rested { at_ms } => {
                to.push(8);
                varint::put(to, *at_ms as u64);
            }
            Record::Claimed { id, pages, done } => {
                to.push(9);
                layout::push(to, *id);
                put_pages(to, pages);
                put_pages(to, done);
            }
            Record::Down { host, down } => {
                to.push(10);
                put_text(to, host);
                let fields = [down.since_ms as u64, u64::from(down.rests), down.until_ms as u64];
                fields.iter().for_each(|field| varint::put(to, *field));
            }
            Record::Lost { pages } => put_list(to, 11, pages),
            Record::Retried { pages } => put_list(to, 12, pages),
            Record::HostBegan { host, at_ms } => {
                to.push(13);
                put_text(to, host);
                varint::put(to, *at_ms as u64);
            }
            Record::Up { host } => {
                to.push(14);
                put_text(to, host);
            }
            Record::Hinted { changes } => put_changes(to, changes),
            Record::Arrived { depth, new } => put_arrived(to, *depth, new),
        }
    }

    /// Decodes the first record of `bytes`; `None` if there is none.
    pub(crate) fn decode(bytes: &mut &'a [u8]) -> Option<Record<'a>> {
        let mut from = Bytes { rest: bytes };
        let record = match from.byte()? {
            1 => Record::Seeds { known: from.pages()?, new: from.texts()? },
            2 => Record::Done {
                page: from.small()?,
                due_s: from.small()?,
                age: from.small().filter(|age| *age < 16)? as u8,
                lost: from.small()?,
                known: from.pages()?,
                depth: u16::try_from(from.small()?).ok()?,
                new: from.texts()?,
            },
            3 => Record::Failed {
                page: from.small()?,
                code: u8::try_from(from.small()?).ok().filter(|code| FailureKind::of_code(*code).is_some())?,
                attempts: from.small().filter(|attempts| *attempts < 16)? as u8,
                due_s: from.small()?,
                is_gone: from.small().filter(|gone| *gone < 2)? == 1,
            },
            4 => Record::Delay { host: from.text()?, delay_ms: from.number()?.checked_sub(1) },
            5 => Record::Hold { host: from.text()?, until_ms: from.time()? },
            6 => Record::Began { page: from.small()?, at_ms: from.time()? },
            7 => Record::Opened,
            8 => Record::Rested { at_ms: from.time()? },
            9 => Record::Claimed { id: from.id()?, pages: from.pages()?, done: from.pages()? },
            10 => Record::Down {
                host: from.text()?,
                down: Failing {
                    since_ms: from.time()?,
                    rests: u8::try_from(from.small()?).ok()?,
                    until_ms: from.time()?,
                },
            },
            11 => Record::Lost { pages: from.pages()? },
            12 => Record::Retried { pages: from.pages()? },
            13 => Record::HostBegan { host: from.text()?, at_ms: from.time()? },
            14 => Record::Up { host: from.text()? },
            15 => Record::Hinted { changes: from.changes()? },
            16 => Record::Arrived { depth: u16::try_from(from.small()?).ok()?, new: from.texts()? },
            _ => return None,
        };
        *bytes = from.rest;
        Some(record)
    }
}

/// Converts a stored time. Earlier versions stored `u64`: one beyond `i64` is a hold for ever.
pub(crate) fn time_of(stored: u64) -> i64 {
    i64::try_from(stored).unwrap_or(i64::MAX)
}

/// Bytes left to decode.
pub(crate) struct Bytes<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn id(&mut self) -> Option<u128> {
        layout::take(&mut self.rest)
    }

    fn number(&mut self) -> Option<u64> {
        varint::take(&mut self.rest)
    }

    fn time(&mut self) -> Option<i64> {
        self.number().map(time_of)
    }

    pub(crate) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// The length of a list whose elements take at least one byte each: at most the bytes left.
    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|len| *len <= self.rest.len())
    }

    fn changes(&mut self) -> Option<Vec<(u32, u8, u32)>> {
        let (count, mut page, mut changes) = (self.length()?, 0u32, Vec::new());
        for at in 0..count {
            let step = self.small().filter(|step| at == 0 || *step > 0)?;
            page = page.checked_add(step)?;
            let age = self.small().filter(|age| *age < 16)? as u8;
            changes.push((page, age, self.small()?));
        }
        Some(changes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let len = self.length()?;
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest;
        std::str::from_utf8(text).ok()
    }

    pub(crate) fn pages(&mut self) -> Option<Vec<u32>> {
        let mut pages = Vec::new();
        self.pages_into(&mut pages)?;
        Some(pages)
    }

    /// Appends a list of page numbers.
    pub(crate) fn pages_into(&mut self, pages: &mut Vec<u32>) -> Option<()> {
        let mut last = 0u32;
        for at in 0..self.length()? {
            // No page occurs twice.
            let gap = self.small().filter(|gap| at == 0 || *gap > 0)?;
            last = last.checked_add(gap)?;
            pages.push(last);
        }
        Some(())
    }

    fn texts(&mut self) -> Option<Vec<&'a str>> {
        (0..self.length()?).map(|_| self.text()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> Vec<Record<'static>> {
        vec![
            Record::Seeds { known: vec![0, 5], new: vec!["http://a.example/", "é"] },
            Record::Done {
                page: 7,
                due_s: 1_700_000_000,
                age: 15,
                lost: 3,
                known: vec![1, 2, 300, u32::MAX],
                depth: 65_535,
                new: vec!["http://b.example/x"],
            },
            Record::Done { page: 0, due_s: 0, age: 0, lost: 0, known: vec![], depth: 0, new: vec![] },
            Record::Failed { page: 1 << 30, code: 12, attempts: 5, due_s: 9, is_gone: true },
            Record::Delay { host: "a.example", delay_ms: None },
            Record::Delay { host: "", delay_ms: Some(0) },
            Record::Hold { host: "a.example", until_ms: i64::MAX },
            Record::Began { page: 300, at_ms: 1_700_000_000_000 },
            Record::Opened,
            Record::Rested { at_ms: 1 },
            Record::Claimed { id: u128::MAX - 7, pages: vec![3, 900], done: vec![900] },
            Record::Down { host: "a.example", down: Failing { since_ms: 1 << 41, rests: 255, until_ms: i64::MAX } },
            Record::Lost { pages: vec![0, 7] },
            Record::Retried { pages: vec![7] },
            Record::HostBegan { host: "a.example", at_ms: 7 },
            Record::Up { host: "a.example" },
            Record::Hinted { changes: vec![(0, 3, 0), (9, 15, u32::MAX)] },
            Record::Arrived { depth: 300, new: vec!["http://c.example/", "é"] },
        ]
    }

    #[test]
    fn records_come_back_as_they_were_one_behind_the_other() {
        let mut bytes = Vec::new();
        records().iter().for_each(|record| record.encode(&mut bytes));
        let mut rest = &bytes[..];
        let decoded: Vec<Record<'_>> = std::iter::from_fn(|| Record::decode(&mut rest)).collect();
        assert_eq!(decoded, records());
        assert!(rest.is_empty());
    }

    /// Existing journals hold these bytes: they must never change.
    #[test]
    fn the_bytes_are_the_golden_ones() {
        let mut bytes = Vec::new();
        Record::Done { page: 300, due_s: 0, age: 8, lost: 0, known: vec![2, 5], depth: 1, new: vec!["ab"] }
            .encode(&mut bytes);
        assert_eq!(bytes, [2, 0xac, 2, 0, 8, 0, 2, 2, 3, 1, 1, 2, b'a', b'b']);
        bytes.clear();
        Record::Failed { page: 1, code: 4, attempts: 2, due_s: 128, is_gone: false }.encode(&mut bytes);
        assert_eq!(bytes, [3, 1, 4, 2, 0x80, 1, 0]);
    }

    #[test]
    fn a_record_that_is_cut_short_is_none() {
        for record in records() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            for len in 0..bytes.len() {
                assert_eq!(Record::decode(&mut &bytes[..len]), None, "{record:?} at {len}");
            }
        }
    }

    #[test]
    fn pages_that_are_named_twice_and_lists_longer_than_the_record_are_none() {
        assert_eq!(Record::decode(&mut &[1, 2, 5, 0, 0][..]), None);
        assert_eq!(Record::decode(&mut &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1][..]), None);
        assert_eq!(Record::decode(&mut &[3, 1, 16, 0, 0, 0][..]), None);
        assert_eq!(Record::decode(&mut &[17][..]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_records_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200), tag in 0u8..18) {
            let bytes = [&[tag][..], &bytes].concat();
            let mut rest = &bytes[..];
            while let Some(record) = Record::decode(&mut rest) {
                let mut again = Vec::new();
                record.encode(&mut again);
                prop_assert_eq!(Record::decode(&mut &again[..]), Some(record));
            }
        }
    }

    #[test]
    fn a_hold_for_ever_of_an_earlier_build_is_one_still() {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, u64::MAX);
        assert_eq!(Bytes { rest: &bytes }.time(), Some(i64::MAX));
        assert_eq!((time_of(7), time_of(i64::MAX as u64)), (7, i64::MAX));
    }
}
