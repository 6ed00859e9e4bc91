//! `stat` of a bucket: segments and bytes, by the index.

use filemap_core::StatValue;
use fm_cli::Failure;

use super::to_read;
use crate::flags::Shared;

/// Name, value and description.
type Field = (&'static str, StatValue, &'static str);

/// Texts about the store, and its levels.
type Figures = ([(&'static str, String); 2], Vec<Field>);

/// Texts about the store, and its levels. Reads no segment.
pub fn figures(location: &str, shared: &Shared) -> Result<Figures, Failure> {
    let store = to_read(location, shared)?;
    let canonicalizer = store.canonicalizer();
    let made_with = format!("{} {}", canonicalizer.name(), canonicalizer.version());
    let stats = store.stats().map_err(filemap::Error::from)?;
    let gauge = |name, value, help| (name, StatValue::Gauge(value), help);
    let fields = vec![
        gauge("generation", stats.generation, "Generation of the index: 1, and more after repairs."),
        gauge("next_sequence", stats.next_sequence, "Sequence of the next version."),
        gauge("segments", stats.segments, "Segments that count."),
        gauge("segment_bytes", stats.segment_bytes, "Bytes of their records, in bytes."),
        gauge("live_bytes", stats.live_bytes, "What a compaction keeps, in bytes."),
        gauge("dead_bytes", stats.dead_bytes, "Versions that were removed or replaced, in bytes."),
        gauge("tombstone_bytes", stats.note_bytes, "Tombstones and names of other segments, in bytes."),
        gauge("waiting_segments", stats.waiting_segments, "Segments that were rewritten and wait to be deleted."),
    ];
    Ok(([("path", location.to_owned()), ("canonicalizer", made_with)], fields))
}
