//! What a verification is asked, and what it says: how far it is, and what it found.

/// What is verified, how fast, and whether it can be interrupted.
///
/// ```
/// let slowly = filemap_core::VerifyOptions::new().rate(Some(50_000_000)).resumable(true);
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
    /// Everything is read, as fast as may be.
    pub fn new() -> VerifyOptions {
        VerifyOptions::default()
    }

    /// Whether only what leads somewhere is read: superblock, index, heads of the files, and the log after the last checkpoint. No
    /// value that is older is looked at.
    pub fn quick(mut self, quick: bool) -> VerifyOptions {
        self.is_quick = quick;
        self
    }

    /// How many bytes a second are read at most; `None`, the default, for no limit.
    pub fn rate(mut self, bytes_per_second: Option<u64>) -> VerifyOptions {
        self.rate = bytes_per_second;
        self
    }

    /// Whether a full pass goes on where an earlier one ended that was resumable too, and less than 30 days ago: it notes in the
    /// store's file `VERIFYING` which segments it has found whole, a byte or two a record, and these are not read again. Whatever
    /// ends it, even the machine's stop, at most the segment that was being read is read again. What has changed since is, too. A
    /// store in which nothing can be written is read as if this were not asked.
    pub fn resumable(mut self, resumable: bool) -> VerifyOptions {
        self.is_resumable = resumable;
        self
    }

    /// Whether a resumable pass begins anew, whatever an earlier one has read.
    pub fn anew(mut self, anew: bool) -> VerifyOptions {
        self.is_anew = anew;
        self
    }

    /// Whether a read-only handle, too, notes the end of a full pass in the store, for [`Stats::verified_ms`](crate::Stats). One
    /// that writes always does.
    pub fn note(mut self, note: bool) -> VerifyOptions {
        self.is_noted = note;
        self
    }
}

/// One damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name inside the store.
    pub file: String,
    /// Byte offset of the damage.
    pub offset: u64,
    /// How many bytes belong to no whole record; 0 where that is not what is wrong.
    pub bytes: u64,
    /// What is wrong.
    pub what: String,
    /// The keys of the records that begin in the damaged place, as far as the key log or their own heads say.
    pub keys: Vec<Vec<u8>>,
}

/// How far a verification has come.
#[derive(Clone, Debug)]
pub struct VerifyProgress {
    /// The file being read.
    pub file: String,
    /// Bytes read so far, of all files, by earlier parts of the pass too.
    pub done_bytes: u64,
    /// Bytes to read in all.
    pub total_bytes: u64,
    /// Damaged places found so far.
    pub problems: u64,
}

/// What a verification found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Whether it came to its end: the caller has not stopped it.
    pub is_complete: bool,
    /// Of a pass that was stopped: whether a resumable one goes on from where it ended.
    pub is_resumable: bool,
    /// Files that were read.
    pub files: u64,
    /// Bytes that were read, by earlier parts of the pass too.
    pub bytes: u64,
    /// Of these, what earlier parts of the pass have read.
    pub resumed_bytes: u64,
    /// Whole records of the value log.
    pub value_records: u64,
    /// Whole records of the key log.
    pub key_records: u64,
    /// Bytes of the key log that belong to no record: what interrupted checkpoints left. No damage.
    pub unused_key_bytes: u64,
    /// Leaf pages of the index.
    pub index_pages: u64,
    /// Keys in the index.
    pub indexed_keys: u64,
    /// All damage, in the order of the files.
    pub problems: Vec<Problem>,
}
