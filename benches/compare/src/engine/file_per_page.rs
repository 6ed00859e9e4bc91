//! One zstd file per page, in two levels of directories by the hash of the URL.
//!
//! A put in use writes a new file and renames it over the old one; a durable put syncs file and
//! directory.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use xxhash_rust::xxh3::xxh3_128;

use super::{Can, EVERYTHING, Engine, Facts, Kind, Purpose, Session, zstd_by_application};
use crate::engine::codec::Codec;

pub static KIND: Kind = Kind {
    name: "file-per-page",
    version: || "the file system and this package".into(),
    settings: |_| {
        "256 x 256 directories by XXH3-128 of the URL; in loads written in place and synced at the end by syncfs, in use by \
         another file and a rename, fsync of file and directory for durable puts"
            .into()
    },
    compression: zstd_by_application,
    open: |dir, settings, purpose| {
        fs::create_dir_all(dir)?;
        Ok(Box::new(Files { dir: dir.into(), level: settings.level, purpose, stored_bytes: AtomicU64::new(0) }))
    },
    batch: 1,
    can: Can { pages_max: 1_000_000, ..EVERYTHING },
    is_index_file: None,
};

struct Files {
    dir: PathBuf,
    level: i32,
    purpose: Purpose,
    stored_bytes: AtomicU64,
}

impl Files {
    fn path(&self, key: &[u8]) -> PathBuf {
        let name = format!("{:032x}", xxh3_128(key));
        self.dir.join(&name[..2]).join(&name[2..4]).join(&name[4..])
    }
}

/// Creates a file, and its directories where they are missing.
fn create(path: &Path) -> Outcome<File> {
    match File::create(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().ok_or("a page's path has no directory")?)?;
            Ok(File::create(path)?)
        }
        other => Ok(other?),
    }
}

impl Engine for Files {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Lane { files: self, codec: Codec::new(self.level)?, frame: Vec::new() }))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(rustix::fs::syncfs(File::open(&self.dir)?)?)
    }

    fn facts(&self) -> Outcome<Facts> {
        let stored = self.stored_bytes.load(Ordering::Relaxed);
        Ok(Facts { stored_bytes: Some(stored), ..Facts::default() })
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.sync()
    }
}

struct Lane<'a> {
    files: &'a Files,
    codec: Codec,
    frame: Vec<u8>,
}

impl Session for Lane<'_> {
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()> {
        for page in pages {
            let frame = self.codec.compress(&page.body)?;
            let path = self.files.path(&page.url);
            if self.files.purpose == Purpose::Load {
                create(&path)?.write_all(frame)?;
                continue;
            }
            let other = path.with_extension("new");
            let mut file = create(&other)?;
            file.write_all(frame)?;
            if self.files.purpose == Purpose::Durable {
                file.sync_all()?;
            }
            fs::rename(&other, &path)?;
            if self.files.purpose == Purpose::Durable {
                File::open(path.parent().ok_or("a page's path has no directory")?)?.sync_all()?;
            }
        }
        self.files.stored_bytes.fetch_add(self.codec.take_stored_bytes(), Ordering::Relaxed);
        Ok(())
    }

    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        let mut file = match File::open(self.files.path(key)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        self.frame.clear();
        file.read_to_end(&mut self.frame)?;
        self.codec.expand(&self.frame, body)?;
        Ok(true)
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()> {
        for key in keys {
            fs::remove_file(self.files.path(key))?;
        }
        Ok(())
    }
}
