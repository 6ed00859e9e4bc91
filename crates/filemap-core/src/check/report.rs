//! What a verification says: how far it is, and what it found.

/// One damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name inside the store.
    pub file: String,
    /// Byte offset of the damage.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

/// How far a verification has come.
#[derive(Clone, Debug)]
pub struct VerifyProgress {
    /// The file being read.
    pub file: String,
    /// Bytes read so far, of all files.
    pub done_bytes: u64,
    /// Bytes to read in all.
    pub total_bytes: u64,
    /// Damaged places found so far.
    pub problems: u64,
}

/// What a verification found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Files that were read.
    pub files: u64,
    /// Bytes that were read.
    pub bytes: u64,
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
