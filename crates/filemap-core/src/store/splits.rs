//! Splits: disjoint parts of a store, which several threads or processes read in parallel.
//!
//! A split is a range of sequences, as of one moment. Segments of the log hold ascending
//! sequences, so a split names the places in the log between which its versions were put.
//! Compaction moves versions and keeps their sequences: its outputs are scanned by every split,
//! which skips the versions of other splits by their heads.
//!
//! Invariant: every sequence below that moment's next one is in exactly one split.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use filemap_io::layout::Field;

use crate::error::{Error, Result};
use crate::format::superblock::Tail;
use crate::format::value::Kind;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::store::{Heads, Pages, Store};

/// Places sampled for each split, to find where the live bytes lie.
const SAMPLES: u64 = 128;
/// Greatest number of places sampled; more if there are more segments.
const MAX_SAMPLES: u64 = 8192;
/// Bytes searched for a head at one place.
const SEARCH_BYTES: u64 = 4 << 20;
/// Records sampled at one place, to estimate the work of reading its pages from their stored
/// bytes.
const SAMPLE_RECORDS: usize = 4;
/// Cost of reading any record, in bytes of a body that are decompressed in the same time.
const RECORD_WORK: u64 = 8 << 10;
/// Greatest number of bytes of a body that count for a record that refers to it.
const LONGEST_REFERRED: u64 = 64 << 10;
/// The layout of [`Split::to_bytes`].
const LAYOUT: u8 = 1;

filemap_io::layout! {
    /// A split as bytes.
    struct SplitRecord {
        0 LAYOUT: u8 = "layout, 1";
        1 STORE_ID: [u8; 16] = "the store's id";
        17 FIRST: u64 = "its first sequence";
        25 NEXT: u64 = "the first sequence of the next split";
        33 FROM: u64 = "segment of its first version, or of one before it";
        41 FROM_AT: u64 = "offset of that in the segment";
        49 TO: u64 = "segment of its last version, or of one after it";
        57 TO_AT: u64 = "offset of that in the segment";
        65 BEFORE: u64 = "the next sequence when the splits were made";
        73 END: u64 = "segment of the end of the log then";
        81 END_AT: u64 = "offset of that in the segment";
    }
}

/// A part of a store, for [`Store::pages_in`]. Plain data, which can be sent to another process.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// use filemap_core::list::Split;
/// let splits = store.splits(2)?;
/// let sent: Vec<Vec<u8>> = splits.iter().map(Split::to_bytes).collect();
/// // In another process, over `Store::open_read_only`:
/// let mut pages = 0;
/// for bytes in &sent {
///     pages += store.pages_in(&Split::from_bytes(bytes)?)?.filter(Result::is_ok).count();
/// }
/// assert_eq!(pages, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Split {
    store_id: [u8; 16],
    first: u64,
    /// The first sequence of the next split.
    next: u64,
    /// A place at or before its first version in the log; and one at or after its last.
    pub(super) from: Tail,
    pub(super) to: Tail,
    /// The next sequence when the splits were made, and the end of the log then.
    pub(super) before: u64,
    pub(super) end: Tail,
}

impl Split {
    /// The sequences of its versions.
    pub fn sequences(&self) -> Range<u64> {
        self.first..self.next
    }

    /// Encodes the split, to be sent to another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; SplitRecord::BYTES];
        SplitRecord::LAYOUT.put(&mut bytes, LAYOUT);
        SplitRecord::STORE_ID.put(&mut bytes, self.store_id);
        SplitRecord::FIRST.put(&mut bytes, self.first);
        SplitRecord::NEXT.put(&mut bytes, self.next);
        SplitRecord::FROM.put(&mut bytes, self.from.ordinal);
        SplitRecord::FROM_AT.put(&mut bytes, self.from.offset);
        SplitRecord::TO.put(&mut bytes, self.to.ordinal);
        SplitRecord::TO_AT.put(&mut bytes, self.to.offset);
        SplitRecord::BEFORE.put(&mut bytes, self.before);
        SplitRecord::END.put(&mut bytes, self.end.ordinal);
        SplitRecord::END_AT.put(&mut bytes, self.end.offset);
        bytes
    }

    /// Decodes a split from [`Split::to_bytes`].
    ///
    /// # Errors
    /// `InvalidOption` for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Split> {
        let refused = || Error::option("split", "not a split that this program can read: make the splits again");
        if bytes.len() != SplitRecord::BYTES || SplitRecord::LAYOUT.get(bytes) != LAYOUT {
            return Err(refused());
        }
        let tail =
            |ordinal: Field<u64>, offset: Field<u64>| Tail { ordinal: ordinal.get(bytes), offset: offset.get(bytes) };
        let split = Split {
            store_id: SplitRecord::STORE_ID.get(bytes),
            first: SplitRecord::FIRST.get(bytes),
            next: SplitRecord::NEXT.get(bytes),
            from: tail(SplitRecord::FROM, SplitRecord::FROM_AT),
            to: tail(SplitRecord::TO, SplitRecord::TO_AT),
            before: SplitRecord::BEFORE.get(bytes),
            end: tail(SplitRecord::END, SplitRecord::END_AT),
        };
        let is_possible = split.first <= split.next && split.next <= split.before;
        if is_possible { Ok(split) } else { Err(refused()) }
    }
}

/// A place in a segment, and the cost of reading the live versions from there to the next place.
struct Sample {
    sequence: u64,
    /// In bytes of bodies.
    work: u64,
    /// Its place, in a segment of the log's order.
    place: Option<Tail>,
}

/// Offset and sequence of a record.
type Found = (u64, u64);

impl Store {
    /// Divides the store as of now into `number` disjoint parts that take about equal time to
    /// read. Each page is in exactly one. Some are empty if there are few pages. Reads some heads
    /// of every segment, no body.
    ///
    /// # Errors
    /// `InvalidOption` for 0; `Closed`; `Io`.
    pub fn splits(&self, number: usize) -> Result<Vec<Split>> {
        self.reading.check_open()?;
        self.reading.follow_if_due();
        let number = u64::try_from(number).ok().filter(|n| (1..=1 << 20).contains(n));
        let number = number.ok_or_else(|| Error::option("splits", "must be 1 to 1048576"))?;
        let (end, before) = self.reading.log_end();
        let mut samples = if number == 1 { Vec::new() } else { self.samples(number, end)? };
        samples.retain(|s| s.sequence < before);
        samples.sort_by_key(|s| s.sequence);
        let total: u128 = samples.iter().map(|s| u128::from(s.work)).sum();
        let (mut firsts, mut sum, mut at) = (vec![0], 0, 0);
        for nth in 1..number {
            while let Some(sample) = samples.get(at).filter(|_| sum * u128::from(number) < total * u128::from(nth)) {
                sum += u128::from(sample.work);
                at += 1;
            }
            firsts.push(samples.get(at).map_or(before, |s| s.sequence));
        }
        let log: Vec<(u64, Tail)> = samples.iter().filter_map(|s| Some((s.sequence, s.place?))).collect();
        let bounds = firsts.iter().zip(firsts[1..].iter().chain([&before]));
        let split = |(&first, &next): (&u64, &u64)| {
            let from = log[..log.partition_point(|s| s.0 <= first)].last();
            let to = log.get(log.partition_point(|s| s.0 < next));
            Split {
                store_id: self.reading.birth().store_id,
                first,
                next,
                from: from.map_or(Tail { ordinal: 0, offset: 0 }, |s| s.1),
                to: to.map_or(end, |s| s.1),
                before,
                end,
            }
        };
        Ok(bounds.map(split).collect())
    }

    /// Samples all segments, at least once each, in proportion to their live bytes.
    fn samples(&self, splits: u64, end: Tail) -> Result<Vec<Sample>> {
        let all = self.reading.values().segments.all();
        let in_use = |s: &&Arc<Segment>| s.is_output || s.ordinal <= end.ordinal;
        let spaces: Vec<_> = all.iter().filter(in_use).filter_map(|s| Some((s, self.reading.space_of(s)?))).collect();
        let total = spaces.iter().map(|(_, space)| space.live_bytes + space.unindexed_bytes).sum::<u64>().max(1);
        let wanted = (SAMPLES * splits).min(MAX_SAMPLES);
        let mut samples = Vec::new();
        for (segment, space) in spaces {
            let live = space.live_bytes + space.unindexed_bytes;
            let length = live + space.tombstone_bytes + space.dead_bytes;
            let number = (u128::from(wanted) * u128::from(live)).div_ceil(u128::from(total)) as u64;
            for nth in 0..number {
                let at = |nth: u64| FIRST_RECORD + (u128::from(length) * u128::from(nth) / u128::from(number)) as u64;
                let range = at(nth)..at(nth + 1).min(at(nth) + SEARCH_BYTES);
                let bytes = live / number;
                let (first, work) = self.sample(segment, range, bytes)?;
                match first {
                    Some((offset, sequence)) => {
                        let place = (!segment.is_output).then_some(Tail { ordinal: segment.ordinal, offset });
                        samples.push(Sample { sequence, work, place });
                    }
                    // Within a large record: add the work to the sample before.
                    None => {
                        let last = samples.last_mut();
                        last.into_iter().for_each(|last: &mut Sample| last.work = last.work.saturating_add(work));
                    }
                }
            }
        }
        Ok(samples)
    }

    /// Offset and sequence of the first record in a range of a segment that is not a chunk, and
    /// the work of reading `bytes` stored there, estimated from its first records.
    fn sample(&self, segment: &Arc<Segment>, range: Range<u64>, bytes: u64) -> Result<(Option<Found>, u64)> {
        let (mut first, mut seen, mut stored, mut work) = (None, 0, 0, 0);
        let looked = self.reading.values().each_head(segment, range, |offset, header| {
            if header.kind != Kind::Chunk {
                first.get_or_insert((offset, header.sequence));
            }
            let body = match header.kind {
                // The body is in chunks before it.
                Kind::Chunked => 0,
                // The body is elsewhere. A single one must not outweigh everything stored here.
                Kind::Reference => header.raw_bytes.min(LONGEST_REFERRED),
                _ => header.raw_bytes,
            };
            if header.kind != Kind::Tombstone {
                stored += u128::from(header.total_bytes());
                work += u128::from(RECORD_WORK + body);
            }
            seen += 1;
            if seen < SAMPLE_RECORDS || first.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match looked {
            // Removed meanwhile: the split is less balanced.
            Err(e) if e.is_corrupt() => return Ok((None, bytes)),
            looked => looked?,
        }
        let work = (u128::from(bytes) * work).checked_div(stored).unwrap_or(u128::from(bytes));
        Ok((first, u64::try_from(work).unwrap_or(u64::MAX)))
    }

    /// [`Store::pages`] of a split, as of when the splits were made, whatever was put or compacted
    /// since. Together the splits return each page once. A page replaced since is returned in its
    /// version at that time; if that is not kept, the page is missing. Damage and missing files
    /// are reported by every split that may have lost pages to them.
    ///
    /// # Errors
    /// `InvalidOption` if the split belongs to another store, or to a later state of it than this
    /// handle can see; `Closed`.
    pub fn pages_in(&self, split: &Split) -> Result<Pages> {
        Ok(Pages::new(Arc::clone(&self.reading), Some(self.own(split)?), true))
    }

    /// [`Store::versions`] of a split, as [`Store::pages_in`].
    ///
    /// # Errors
    /// As [`Store::pages_in`].
    pub fn versions_in(&self, split: &Split) -> Result<Pages> {
        Ok(Pages::new(Arc::clone(&self.reading), Some(self.own(split)?), false))
    }

    /// [`Store::heads`] of a split, as [`Store::pages_in`].
    ///
    /// # Errors
    /// As [`Store::pages_in`].
    pub fn heads_in(&self, split: &Split) -> Result<Heads> {
        self.pages_in(split).map(Heads)
    }

    /// [`Store::version_heads`] of a split, as [`Store::pages_in`].
    ///
    /// # Errors
    /// As [`Store::pages_in`].
    pub fn version_heads_in(&self, split: &Split) -> Result<Heads> {
        self.versions_in(split).map(Heads)
    }

    /// The split, if it belongs to this store and this handle can read it.
    fn own(&self, split: &Split) -> Result<Split> {
        self.reading.check_open()?;
        if split.store_id != self.reading.birth().store_id {
            return Err(Error::option("split", "is of another store"));
        }
        if self.reading.log_end().1 < split.before {
            self.reading.catch_up()?;
        }
        if self.reading.log_end().1 < split.before {
            return Err(Error::option("split", "is of a later state of the store: make the splits again"));
        }
        Ok(split.clone())
    }
}
