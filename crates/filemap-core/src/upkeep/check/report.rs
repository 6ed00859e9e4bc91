//! Input and output of a verification: options, progress and report.

/// Options of a verification: scope, rate, and whether the pass can be resumed.
///
/// ```
/// let slowly = filemap_core::check::VerifyOptions::new().rate(Some(50_000_000)).resumable();
/// ```
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    pub(super) is_quick: bool,
    pub(super) rate: Option<u64>,
    pub(super) is_resumable: bool,
    pub(super) is_anew: bool,
    pub(super) is_noted: bool,
}

impl VerifyOptions {
    /// A full pass without a rate limit.
    pub fn new() -> VerifyOptions {
        VerifyOptions::default()
    }

    /// Verifies only references and the existence of their targets: superblock, index, heads of
    /// the files, and the log after the last checkpoint. Older values are not read.
    pub fn quick(mut self) -> VerifyOptions {
        self.is_quick = true;
        self
    }

    /// Limits the bytes read per second; `None`, the default, for no limit.
    pub fn rate(mut self, bytes_per_second: Option<u64>) -> VerifyOptions {
        self.rate = bytes_per_second;
        self
    }

    /// Makes a full pass resumable: it continues an earlier resumable pass that began less than 30
    /// days ago. The pass records the segments found intact in the store's file `VERIFYING`, in a
    /// byte or two per record; these are not read again unless they have changed. However a pass
    /// ends, even by a power loss, at most the segment being read is read again. A store that
    /// cannot be written is verified as without this option.
    pub fn resumable(mut self) -> VerifyOptions {
        self.is_resumable = true;
        self
    }

    /// Starts a resumable pass from the beginning, ignoring earlier ones.
    pub fn anew(mut self) -> VerifyOptions {
        self.is_anew = true;
        self
    }

    /// Lets a follower, too, record the end of a full pass in the store, for
    /// [`Stats::verified_ms`](crate::Stats). A writer always does.
    pub fn note(mut self) -> VerifyOptions {
        self.is_noted = true;
        self
    }
}

/// A damaged place.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// for problem in store.verify()?.problems {
///     println!("{} at byte {}: {}", problem.file, problem.offset, problem.what);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name inside the store.
    pub file: String,
    /// Byte offset of the damage.
    pub offset: u64,
    /// Number of bytes that belong to no intact record; 0 for any other flaw.
    pub bytes: u64,
    /// Description of the damage.
    pub what: String,
    /// Keys of the records that begin in the damaged place, as far as the key log or their heads
    /// name them.
    pub keys: Vec<Vec<u8>>,
}

/// Progress of a verification.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// use std::ops::ControlFlow;
/// use filemap_core::check::{VerifyOptions, VerifyProgress};
/// store.verify_with(&VerifyOptions::new(), &mut |now: VerifyProgress| {
///     println!("{} of {} bytes, {} problems", now.done_bytes, now.total_bytes, now.problems);
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct VerifyProgress {
    /// The file being read.
    pub file: String,
    /// Bytes read so far in all files, including earlier parts of the pass.
    pub done_bytes: u64,
    /// Bytes to read in all.
    pub total_bytes: u64,
    /// Damaged places found so far.
    pub problems: u64,
}

/// Findings of a verification.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let report = store.verify()?;
/// assert!(report.is_complete && report.problems.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// True if the pass ended; false if the progress callback cancelled it.
    pub is_complete: bool,
    /// True if a cancelled pass can be resumed where it ended.
    pub is_resumable: bool,
    /// Files read.
    pub files: u64,
    /// Bytes read, including earlier parts of the pass.
    pub bytes: u64,
    /// Of these, bytes read by earlier parts of the pass.
    pub resumed_bytes: u64,
    /// Intact records of the value log.
    pub value_records: u64,
    /// Intact records of the key log.
    pub key_records: u64,
    /// Bytes of the key log outside any record, left by interrupted checkpoints. Not damage.
    pub unused_key_bytes: u64,
    /// Leaf pages of the index.
    pub index_pages: u64,
    /// Keys in the index.
    pub indexed_keys: u64,
    /// All damage, in the order of the files.
    pub problems: Vec<Problem>,
}
