//! A store's files as they are at one moment.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// What a machine that stops leaves behind, had everything been written: the files of a store in use. They are copied one by one,
/// which shows one moment only if no checkpoint of the background came between; compaction begins one, too, before it judges.
pub fn copy(from: &Path, to: &Path) {
    let superblock = || fs::read(from.join("SUPERBLOCK")).unwrap();
    loop {
        fs::create_dir(to).unwrap();
        let before = superblock();
        let copied = fs::read_dir(from).unwrap().map(Result::unwrap).all(|entry| {
            match fs::copy(entry.path(), to.join(entry.file_name())) {
                Err(e) if e.kind() == ErrorKind::NotFound => false,
                copied => copied.map(|_| true).unwrap(),
            }
        });
        if copied && superblock() == before {
            return;
        }
        fs::remove_dir_all(to).unwrap();
    }
}
