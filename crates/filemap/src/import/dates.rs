//! The time of every record that is kept: that of its header, otherwise one by the rules of
//! [`crate::date::mend`], from `Date` headers or from neighbours.
//!
//! An invalid date in a record's header is replaced, so later steps see a valid one.

use std::collections::{BTreeMap, BTreeSet};

use crate::date::{self, DateRule};
use crate::error::Result;
use crate::http::head;
use crate::warc::Record;

/// Bytes of an answer's head that are searched for its `Date`.
const HEAD_BYTES: usize = 64 << 10;
/// Characters of an invalid date that are shown.
const SHOWN_CHARS: usize = 60;

/// The dates of one file.
#[derive(Default)]
pub(super) struct Dates {
    last_ms: Option<i64>,
    told: BTreeSet<DateRule>,
    /// Number of records by the rule that gave their date.
    pub(super) mended: BTreeMap<DateRule, u64>,
}

impl Dates {
    /// Gives a valid date to a record that `is_read`, and counts it if it `is_kept`. Returns a
    /// warning at the first use of each rule.
    pub(super) fn settle(&mut self, record: &mut Record, is_read: bool, is_kept: bool) -> Result<Option<String>> {
        if let Some(time_ms) = record.header.date_ms() {
            self.last_ms = Some(time_ms);
            return Ok(None);
        }
        let text = record.header.text("WARC-Date").map(str::to_owned);
        let own = text.as_deref().and_then(date::mend);
        let last_ms = self.last_ms;
        self.last_ms = own.map(|(time_ms, _)| time_ms).or(last_ms);
        if !is_read {
            return Ok(None);
        }
        let (time_ms, rule) = match (own, http_date(record)?, last_ms) {
            (Some(own), ..) => own,
            (None, Some(time_ms), _) => (time_ms, DateRule::HttpDate),
            (None, None, Some(time_ms)) => (time_ms, DateRule::Neighbour),
            (None, None, None) => (0, DateRule::None),
        };
        let written = date::format(time_ms);
        record.header.fields.0.retain(|field| !field.name.eq_ignore_ascii_case(b"WARC-Date"));
        record.header.fields.push("WARC-Date", written.as_str());
        if !is_kept {
            return Ok(None);
        }
        *self.mended.entry(rule).or_default() += 1;
        let is_first = self.told.insert(rule);
        Ok(is_first.then(|| {
            let shown = match &text {
                Some(text) => format!("the date {:?}", text.chars().take(SHOWN_CHARS).collect::<String>()),
                None => "no date".to_owned(),
            };
            format!("the record has {shown}: kept as of {written}, by the rule {rule}; more of them in this file are only counted")
        }))
    }
}

fn http_date(record: &mut Record) -> Result<Option<i64>> {
    let Some(head) = head::parse(&record.block.prefix(HEAD_BYTES)?) else { return Ok(None) };
    Ok(head.headers.text("Date").and_then(date::mend).map(|(time_ms, _)| time_ms))
}
