//! Lists of segments in records: those with the versions that a tombstone removes, and those that
//! a rewritten segment replaces.
//!
//! | payload | what it is |
//! |---|---|
//! | of a tombstone | epoch and number of each segment, to the end |
//! | of a rewrite | number of segments, these, then epoch and base of writers, to the end |
//!
//! The bases come from the headers of replaced segments: a fenced writer's uncommitted uploads
//! must stay recognisable. All numbers are varints.

use std::collections::{BTreeMap, BTreeSet};

use filemap_io::varint;

use super::segment::SegmentId;

/// The segments that a rewritten segment replaces, and the bases of their writers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Segments that no longer count, whether their objects exist or not.
    pub(crate) segments: BTreeSet<SegmentId>,
    /// By epoch: the first uncommitted sequence when that epoch's writer opened the store.
    pub(crate) bases: BTreeMap<u64, u64>,
}

impl Sources {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::put(&mut out, self.segments.len() as u64);
        put(&mut out, self.segments.iter().map(|id| (id.epoch, id.number)));
        put(&mut out, self.bases.iter().map(|(epoch, base)| (*epoch, *base)));
        out
    }

    /// Decodes it; `None` if the bytes are invalid.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Sources> {
        let segments = varint::take(&mut bytes)?;
        let mut sources = Sources::default();
        for _ in 0..segments {
            let (epoch, number) = take(&mut bytes)?;
            sources.segments.insert(SegmentId { epoch, number });
        }
        while !bytes.is_empty() {
            let (epoch, base) = take(&mut bytes)?;
            sources.bases.insert(epoch, base);
        }
        Some(sources)
    }

    /// Drops bases that a later writer's base implies.
    pub(crate) fn shorten(&mut self) {
        let latest: BTreeMap<u64, u64> = self.bases.iter().map(|(epoch, base)| (*base, *epoch)).collect();
        self.bases.retain(|epoch, base| latest.get(base) == Some(epoch));
    }
}

/// Encodes the segments that a tombstone names.
pub(crate) fn holders(segments: &BTreeSet<SegmentId>) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, segments.iter().map(|id| (id.epoch, id.number)));
    out
}

/// The segments that a tombstone names. `None` if it names none: then any may hold its target.
pub(crate) fn holders_of(mut payload: &[u8]) -> Option<BTreeSet<SegmentId>> {
    let mut segments = BTreeSet::new();
    while !payload.is_empty() {
        let (epoch, number) = take(&mut payload)?;
        segments.insert(SegmentId { epoch, number });
    }
    (!segments.is_empty()).then_some(segments)
}

fn put(out: &mut Vec<u8>, pairs: impl Iterator<Item = (u64, u64)>) {
    for (first, second) in pairs {
        varint::put(out, first);
        varint::put(out, second);
    }
}

fn take(bytes: &mut &[u8]) -> Option<(u64, u64)> {
    Some((varint::take(bytes)?, varint::take(bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_holders_come_back_and_no_part_of_them_does() {
        let id = |epoch, number| SegmentId { epoch, number };
        let mut sources = Sources {
            segments: [id(1, 2), id(1, 300), id(1 << 40, 1)].into(),
            bases: [(1, 1), (2, 1), (7, 900), (1 << 40, 901)].into(),
        };
        let bytes = sources.encode();
        assert_eq!(Sources::decode(&bytes).as_ref(), Some(&sources));
        assert!((0..bytes.len()).all(|at| Sources::decode(&bytes[..at]).as_ref() != Some(&sources)));
        assert_eq!(Sources::decode(&bytes[..5]), None, "it ends inside a name");
        sources.shorten();
        assert_eq!(sources.bases, [(2, 1), (7, 900), (1 << 40, 901)].into());
        assert_eq!(holders_of(&holders(&sources.segments)), Some(sources.segments));
        assert_eq!((holders_of(b""), holders_of(&[1])), (None, None));
    }
}
