//! A copy of a store's files as of one moment.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Copies the files of a store in use, as a machine that stops would leave them if everything had
/// been written. The files are copied one by one, which shows one moment only if no checkpoint of
/// the background runs in between, not even a part of one: a checkpoint begins with key records
/// and ends with the superblock. Compaction begins one, too, before it judges.
pub fn copy(from: &Path, to: &Path) {
    let checkpoints = || {
        let files = fs::read_dir(from).unwrap().map(Result::unwrap);
        let keys = files.filter(|entry| entry.file_name().to_string_lossy().starts_with("key"));
        let mut lengths: Vec<_> = keys.map(|e| (e.file_name(), e.metadata().map(|m| m.len()).unwrap_or(0))).collect();
        lengths.sort();
        (fs::read(from.join("SUPERBLOCK")).unwrap(), lengths)
    };
    loop {
        fs::create_dir(to).unwrap();
        let before = checkpoints();
        let copied = fs::read_dir(from).unwrap().map(Result::unwrap).all(|entry| {
            match fs::copy(entry.path(), to.join(entry.file_name())) {
                Err(e) if e.kind() == ErrorKind::NotFound => false,
                copied => copied.map(|_| true).unwrap(),
            }
        });
        if copied && checkpoints() == before {
            return;
        }
        fs::remove_dir_all(to).unwrap();
    }
}
