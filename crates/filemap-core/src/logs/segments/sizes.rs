//! How long segments are, and what they take on the device.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use filemap_io::Access;

use crate::error::{Error, Result};
use crate::logs::segments::{Segment, Segments};
use crate::sync::lock;

impl Segments {
    /// Length of a segment that nothing is appended to any more. Measured once.
    pub(crate) fn sealed_bytes(&self, segment: &Arc<Segment>) -> Result<u64> {
        let known = segment.sealed_bytes.load(Ordering::Relaxed);
        if known != 0 {
            return Ok(known);
        }
        let len = self.file(segment)?.len().map_err(|e| Error::io("measure", segment.name(), e))?;
        segment.sealed_bytes.store(len, Ordering::Relaxed);
        Ok(len)
    }

    /// Length of all segments in bytes, and what they take on the device: those that are being removed with them, for as long as
    /// their files are there, which may be long.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        let all = self.all();
        // After the others, so that none that leaves is missed.
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
