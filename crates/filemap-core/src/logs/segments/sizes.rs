//! Lengths of segments, and their space on the device.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use filemap_io::Access;

use crate::error::{Error, Result};
use crate::logs::segments::{Segment, Segments};
use crate::sync::lock;

impl Segments {
    /// Length of a segment that is no longer appended to. Measured once.
    pub(crate) fn sealed_bytes(&self, segment: &Arc<Segment>) -> Result<u64> {
        let known = segment.sealed_bytes.load(Ordering::Relaxed);
        if known != 0 {
            return Ok(known);
        }
        let len = self.file(segment)?.len().map_err(Error::io("measure", segment.name()))?;
        segment.sealed_bytes.store(len, Ordering::Relaxed);
        Ok(len)
    }

    /// Total length of all segments in bytes, and their allocated bytes. Segments being removed
    /// count while their files exist, which may be long.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        let all = self.all();
        // Read after the others, so that none is missed while it leaves.
        let mut leaving = lock(&self.leaving).clone();
        leaving.retain(|s| all.iter().all(|a| a.ordinal != s.ordinal));
        for segment in all.iter().chain(&leaving) {
            if let Ok(file) = self.dir.open(&segment.name(), Access::Read) {
                sum.0 += file.len().unwrap_or(0);
                sum.1 += file.allocated_bytes().unwrap_or(0);
            }
        }
        sum
    }
}
