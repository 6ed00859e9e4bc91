//! Space accounting of the value log: live, tombstone, dead and unindexed bytes.

use std::sync::Arc;

use std::cmp::Ordering as Order;

use crate::error::Result;
use crate::format::location::UNIT_BYTES;
use crate::format::superblock::Tail;
use crate::handle::reading::Reading;
use crate::index::segment_table::SegmentTable;
use crate::logs::segments::{FIRST_RECORD, Segment};

/// Bytes of the value log by state as of the last checkpoint, without segment headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) live_bytes: u64,
    pub(crate) tombstone_bytes: u64,
    pub(crate) dead_bytes: u64,
    /// Bytes after the last checkpoint.
    pub(crate) unindexed_bytes: u64,
}

impl Space {
    pub(crate) fn amplification_permille(&self) -> u64 {
        let useful = self.live_bytes + self.unindexed_bytes;
        let all = useful + self.tombstone_bytes + self.dead_bytes;
        (1000 * all).checked_div(useful).unwrap_or(1000)
    }

    pub(crate) fn add(&mut self, other: &Space) {
        self.live_bytes += other.live_bytes;
        self.tombstone_bytes += other.tombstone_bytes;
        self.dead_bytes += other.dead_bytes;
        self.unindexed_bytes += other.unindexed_bytes;
    }
}

impl Reading {
    /// Space of all segments.
    pub(crate) fn space(&self) -> Space {
        let mut all = Space::default();
        self.values.segments.all().iter().filter_map(|s| self.space_of(s)).for_each(|s| all.add(&s));
        all
    }

    /// Space of one segment; `None` if no superblock names it yet or it cannot be measured.
    pub(crate) fn space_of(&self, segment: &Arc<Segment>) -> Option<Space> {
        let (latest, segment_table) = (self.latest.load(), self.segment_table.load());
        self.space_in(segment, latest.tail, &segment_table, self.log_end().0).ok().flatten()
    }

    /// Space of one segment as of a checkpoint with this tail; the log now ends at `end`.
    pub(crate) fn space_in(
        &self,
        segment: &Arc<Segment>,
        tail: Tail,
        segment_table: &SegmentTable,
        end: Tail,
    ) -> Result<Option<Space>> {
        if segment.is_output && !segment_table.names(segment.id, segment.ordinal) {
            return Ok(None);
        }
        let is_sealed = segment.is_output || segment.ordinal < end.ordinal;
        let len = if is_sealed { self.values.segments.sealed_bytes(segment)? } else { end.offset };
        let seen = match segment.ordinal.cmp(&tail.ordinal) {
            _ if segment.is_output => len,
            Order::Less => len,
            Order::Equal => tail.offset.min(len),
            Order::Greater => FIRST_RECORD.min(len),
        };
        let row = segment_table.values.get(&segment.id).copied().unwrap_or_default();
        let (live_bytes, tombstone_bytes) = (row.live_units * UNIT_BYTES, row.tombstone_units * UNIT_BYTES);
        Ok(Some(Space {
            live_bytes,
            tombstone_bytes,
            dead_bytes: seen.saturating_sub(FIRST_RECORD + live_bytes + tombstone_bytes),
            unindexed_bytes: len.saturating_sub(seen.max(FIRST_RECORD)),
        }))
    }
}
