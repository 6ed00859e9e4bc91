//! Settings of SlateDB: garbage collection of its log and tables, compaction, and the settings on
//! which writer, follower and compactor must agree.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, CompressionCodec, GarbageCollectorDirectoryOptions,
    GarbageCollectorOptions, Settings,
};
use slatedb::{BloomFilterPolicy, FilterPolicy, MergeOperator, MergeOperatorError, PrefixExtractor, PrefixTarget};

use crate::bucket::Bucket;
use crate::format::row;
use crate::options::CloudOptions;

/// The longest time a commit waits for the write-ahead log before its upload.
const FLUSH_EVERY: Duration = Duration::from_millis(20);
/// The interval of garbage collection.
const COLLECT_EVERY: Duration = Duration::from_secs(600);
/// Bits a key of the Bloom filters: a false positive rate of 1 %.
const FILTER_BITS: u32 = 10;
/// The minimum age for collection: a reader may still use younger objects.
pub(super) const MIN_AGE: Duration = Duration::from_secs(2 * 3600);

pub(super) fn settings(
    options: &CloudOptions,
    bucket: &Bucket,
    replaces_if_match: bool,
    min_age: Duration,
) -> Settings {
    let retries = Some(bucket.retries());
    let collected = Some(GarbageCollectorDirectoryOptions {
        interval: Some(COLLECT_EVERY),
        min_age,
        ..GarbageCollectorDirectoryOptions::default()
    });
    let metadata = collected.filter(|_| replaces_if_match);
    let codec = Some(CompressionCodec::Lz4);
    let worker = CompactionWorkerOptions {
        compactions_poll_interval: options.poll,
        compression_codec: codec,
        min_filter_keys: 1,
        object_store_max_retries: retries,
        ..CompactionWorkerOptions::default()
    };
    let compactor = CompactorOptions {
        poll_interval: options.poll,
        commit_compacted_interval: options.poll,
        checkpoint_lifetime: MIN_AGE,
        worker: Some(worker),
        object_store_max_retries: retries,
        ..CompactorOptions::default()
    };
    let collector = GarbageCollectorOptions {
        manifest_options: metadata,
        compactions_options: metadata,
        wal_options: collected,
        compacted_options: collected,
        // Without its fence, a fenced writer could acknowledge writes that are lost.
        wal_fence_options: None,
        detach_options: None,
        boundary_files_enabled: replaces_if_match,
        object_store_max_retries: retries,
        metric_level: None,
    };
    Settings {
        flush_interval: Some(FLUSH_EVERY),
        manifest_poll_interval: options.poll,
        min_filter_keys: 1,
        l0_max_ssts: 64,
        l0_max_ssts_per_key: 64,
        compression_codec: codec,
        compactor_options: Some(compactor),
        garbage_collector_options: Some(collector),
        object_store_max_retries: retries,
        ..Settings::default()
    }
}

/// Sets what must never be set: see `Fault::FencesCollected`.
pub(super) fn collect_fences(settings: &mut Settings) {
    let at_once = Duration::from_millis(2);
    let collected = GarbageCollectorDirectoryOptions {
        interval: Some(at_once),
        min_age: at_once,
        ..GarbageCollectorDirectoryOptions::default()
    };
    if let Some(collector) = &mut settings.garbage_collector_options {
        (collector.wal_options, collector.wal_fence_options) = (Some(collected), Some(collected));
    }
}

pub(super) fn filters() -> Vec<Arc<dyn FilterPolicy>> {
    let policy = BloomFilterPolicy::new(FILTER_BITS).with_prefix_extractor(Arc::new(KeyOfRow));
    vec![Arc::new(policy.with_whole_key_filtering(false))]
}

/// The merge operator that adds the byte counts of a segment.
pub(super) struct Sum;

impl MergeOperator for Sum {
    fn merge(
        &self,
        _key: &Bytes,
        existing: Option<Bytes>,
        value: Bytes,
    ) -> std::result::Result<Bytes, MergeOperatorError> {
        // An invalid value counts as zero: `verify` finds it.
        let decoded = |bytes: &Bytes| row::Bytes::decode(bytes).unwrap_or_default();
        let sum = existing.as_ref().map(decoded).unwrap_or_default().plus(decoded(&value));
        Ok(Bytes::copy_from_slice(&sum.encode()))
    }
}

/// Extracts the entry of the filters: the key part of a version row, the whole of other rows.
struct KeyOfRow;

impl PrefixExtractor for KeyOfRow {
    fn name(&self) -> &str {
        "filemap key 1"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        match target {
            PrefixTarget::Point(row) if row.first() != Some(&row::VERSIONS) => Some(row.len()),
            PrefixTarget::Point(row) | PrefixTarget::Prefix(row) => row::key_bytes(row),
        }
    }
}
