//! The quick verification: checks that all references lead to existing bytes. It reads only those
//! values that no checkpoint has covered.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result, StorageError};
use crate::format::key::{offset_of, segment_of};
use crate::format::leaf::Slot;
use crate::format::location::{Location, UNIT_BYTES};
use crate::format::{PAGE_BYTES, names};
use crate::index::segment_table::SegmentRow;
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::upkeep::check::stamp;
use crate::upkeep::check::{Check, not_read};

impl Check<'_, '_> {
    /// Reads superblock, index, heads of segments and the end of the log.
    pub(super) fn quick(&mut self) -> Result<()> {
        let (settled, latest) = (stamp(self.reading), Arc::clone(&self.reading.latest()));
        self.order.clone_from(&self.reading.segment_table().order);
        self.total_bytes = (latest.index.leaves + self.reading.index().run_pages()) * PAGE_BYTES as u64;
        self.superblock()?;
        self.rules()?;
        self.dictionary_heads()?;
        for segment in self.reading.values().segments.all().iter() {
            self.head(segment)?;
        }
        self.bounds()?;
        self.key_heads();
        self.run_heads()?;
        let keys = self.leaves()?;
        let unchanged = settled.is_some() && stamp(self.reading) == settled;
        if unchanged && self.report.problems.is_empty() && keys != latest.index.keys {
            let what = format!("the index has {keys} keys, the superblock says {}", latest.index.keys);
            self.problem(names::INDEX, 0, what);
        }
        if unchanged && self.report.problems.is_empty() {
            self.compare_order(keys, false);
        }
        Ok(())
    }

    /// Checks a segment's header, and reads the part of it beyond the last checkpoint.
    fn head(&mut self, segment: &Arc<Segment>) -> Result<()> {
        let end = self.places.end;
        if segment.is_output || segment.ordinal > end.ordinal {
            return Ok(());
        }
        self.report.files += 1;
        let name = segment.name();
        let file = match self.reading.values().segments.file(segment) {
            Err(e) if e.is_corrupt() => {
                self.reading.catch_up()?;
                if self.reading.values().segments.get(segment.id).is_ok_and(|s| s.ordinal == segment.ordinal) {
                    self.problem(name, 0, e.to_string());
                }
                return Ok(());
            }
            file => file?,
        };
        if segment.ordinal < self.tail.ordinal {
            return Ok(());
        }
        let from = if segment.ordinal == self.tail.ordinal { self.tail.offset } else { FIRST_RECORD };
        let to = if segment.ordinal == end.ordinal { end.offset } else { u64::MAX };
        let mut scan = self.reading.values().scan(segment, &*file, from, to)?;
        let mut told = from;
        while let Some(item) = scan.next()? {
            match item {
                Item::Gap { offset, bytes, what } => {
                    self.problem(&name, offset, format!("{bytes} bytes belong to no intact record: {what}"));
                }
                Item::Record { .. } => self.report.value_records += 1,
                Item::Filler { .. } => {}
            }
            let at = scan.offset();
            if at - told >= self.piece_bytes() {
                self.read(&name, at - std::mem::replace(&mut told, at))?;
            }
        }
        self.read(&name, scan.offset().saturating_sub(told))
    }

    /// Checks that each live segment of the segment table exists and is long enough for its live
    /// bytes.
    fn bounds(&mut self) -> Result<()> {
        let segment_table = Arc::clone(&self.reading.segment_table());
        for (id, row) in segment_table.values.iter().filter(|(_, a)| a.live_units > 0) {
            let useful = (row.live_units + row.tombstone_units) * UNIT_BYTES + FIRST_RECORD;
            let len = self.reading.values().segments.get(*id).and_then(|s| self.reading.values().segments.file(&s));
            let len = len.and_then(|f| f.len().map_err(Error::io("measure", names::segment(*id))));
            match len {
                Ok(len) if len >= useful => {}
                _ if self.reading.segment_table().values.get(id) != Some(row) => {}
                Ok(len) => {
                    let what = format!("it has {len} bytes, but the segment table counts {useful} in use");
                    self.problem(names::segment(*id), len, what);
                }
                Err(e) => self.judge(names::segment(*id), e)?,
            }
        }
        Ok(())
    }

    /// Verifies every leaf, and that its slots lead into existing files. Returns the number of
    /// keys.
    fn leaves(&mut self) -> Result<u64> {
        self.report.files += 1;
        let lengths: HashMap<u64, u64> = self.reading.keys().lengths()?.into_iter().collect();
        let (mut keys, mut bad, mut pages) = (0, Vec::new(), Vec::new());
        let mut slots = |slots: &[Slot]| {
            keys += slots.len() as u64;
            for slot in slots {
                if !self.may_be_value(slot.location)? {
                    let name = names::segment(slot.location.segment);
                    bad.push((name, slot.location.offset(), "the index leads here, but nothing is stored here"));
                }
                if !self.may_be_key(slot.key, &lengths) {
                    let (name, offset) = (names::keys(segment_of(slot.key)), offset_of(slot.key));
                    bad.push((name, offset, "the index leads here, but nothing is stored here"));
                }
            }
            Ok(())
        };
        let mut follow = || self.reading.follow_writer();
        let mut page = |page, what: &str| pages.push((page, what.to_owned()));
        self.report.index_pages = self.reading.index().check(&mut follow, &mut slots, &mut page)?;
        self.report.indexed_keys = keys;
        self.read(names::INDEX, self.report.index_pages * PAGE_BYTES as u64)?;
        for (page, what) in pages {
            self.problem(names::INDEX, u64::from(page) * PAGE_BYTES as u64, what);
        }
        bad.into_iter().for_each(|(name, offset, what)| self.problem(name, offset, what));
        Ok(keys)
    }

    /// Returns true if bytes exist at a place of the value log. Places written or moved since are
    /// not judged.
    fn may_be_value(&self, place: Location) -> Result<bool> {
        let segments = &self.reading.values().segments;
        match segments.get(place.segment) {
            Ok(s) if s.is_output || s.ordinal >= self.tail.ordinal => Ok(true),
            Ok(s) => match segments.sealed_bytes(&s) {
                Err(e) => not_read(&e).map(|()| false),
                Ok(len) => Ok(place.offset() < len),
            },
            Err(_) => match self.reading.catch_up() {
                Err(e) => not_read(&e).map(|()| false),
                Ok(_) => Ok(segments.get(place.segment).is_ok()),
            },
        }
    }

    /// Returns true if bytes exist at a key-log address, given the lengths of its segments by
    /// ordinal.
    fn may_be_key(&self, address: u64, lengths: &HashMap<u64, u64>) -> bool {
        self.has_moved()
            || self.reading.keys().position(address).is_some_and(|place| {
                place >= self.key_end || lengths.get(&place.ordinal).is_some_and(|len| place.offset < *len)
            })
    }

    /// Checks that each live key-log segment of the segment table exists.
    fn key_heads(&mut self) {
        let missing: Vec<String> =
            self.key_files.iter().filter(|f| f.file.is_none()).map(|f| f.segment.name()).collect();
        self.report.files += self.key_files.len() as u64;
        let segment_table = Arc::clone(&self.reading.segment_table());
        let is_there = |ordinal: u64| self.key_files.iter().any(|f| f.segment.ordinal == ordinal);
        let counts = |a: &SegmentRow| a.live_units > 0 && a.ordinal <= self.key_end.ordinal && !is_there(a.ordinal);
        let named = segment_table.keys.iter().filter(|(_, a)| counts(a)).map(|(id, _)| names::keys(*id));
        let all: Vec<String> = missing.into_iter().chain(named).collect();
        if !self.has_moved() {
            all.into_iter().for_each(|name| self.problem(name, 0, "the segment is missing"));
        }
    }

    /// Reports the flaws seen when the dictionaries were opened.
    fn dictionary_heads(&mut self) -> Result<()> {
        for facts in self.reading.values().dictionaries.facts() {
            self.report.files += 1;
            match facts.problem {
                // The dictionary could not be opened at that time.
                Some(Error::Storage(StorageError::Io { .. })) => {
                    if let Err(e) = self.reading.values().dictionaries.check(facts.id) {
                        self.judge(names::dictionary(facts.id), e)?;
                    }
                }
                Some(e) => self.judge(names::dictionary(facts.id), e)?,
                None => {}
            }
        }
        Ok(())
    }
}
