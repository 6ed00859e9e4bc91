//! Targets of a dump: a folder, one file, or standard output.
//!
//! A file is called `NAME.open` until it is complete and synced, so the folder always shows which
//! files can be used. An interrupted dump leaves complete files and at least one `.open`. Existing
//! files are replaced only on request, and no file is made in a store's folder.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use filemap::dump::{OutputFile, Target};
use fm_cli::{Failure, sink};

/// The suffix of an incomplete file.
const OPEN: &str = ".open";
const BUFFER_BYTES: usize = 256 << 10;

/// Treatment of existing files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    Refused,
    Replaced,
}

/// A folder for the files of a dump, or for one file of a given name.
pub struct Folder {
    path: PathBuf,
    /// The name of a single file, instead of the dump's own.
    only: Option<String>,
    existing: Existing,
}

impl Folder {
    /// The folder at `path`, made if missing. Fails if it has an earlier dump of this `stem`; with
    /// [`Existing::Replaced`], removes that dump's files.
    pub fn open(path: &Path, stem: &str, existing: Existing) -> Result<Folder, Failure> {
        sink::refuse_store(path)?;
        sink::refuse_link(path)?;
        fs::create_dir_all(path).map_err(|error| Failure::io("create", path, &error))?;
        let entries = fs::read_dir(path).map_err(|error| Failure::io("list", path, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| Failure::io("list", path, &error))?;
            let name = entry.file_name();
            if !name.to_str().is_some_and(|name| is_of_dump(name, stem)) {
                continue;
            }
            let there = entry.path();
            if existing == Existing::Refused {
                let there = there.display();
                return Err(Failure::Io(format!(
                    "{there} is left from an earlier dump; give another folder or --name, or --overwrite"
                )));
            }
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = if is_dir { fs::remove_dir_all(&there) } else { fs::remove_file(&there) };
            removed.map_err(|error| Failure::io("remove", &there, &error))?;
        }
        Ok(Folder { path: path.to_owned(), only: None, existing })
    }

    /// A single file at `path`.
    pub fn file(path: &Path, existing: Existing) -> Result<Folder, Failure> {
        let (folder, name) = place_of(path, existing)?;
        Ok(Folder { path: folder.to_owned(), only: Some(name), existing })
    }
}

/// The folder and name of a file to make.
fn place_of(path: &Path, existing: Existing) -> Result<(&Path, String), Failure> {
    let folder = sink::folder_of(path);
    sink::refuse_store(folder)?;
    sink::refuse_link(path)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.filter(|_| !path.is_dir()) else {
        return Err(Failure::Usage(format!("{} is not a file name", path.display())));
    };
    if path.exists() && existing == Existing::Refused {
        return Err(Failure::Io(format!("{} exists already; --overwrite replaces it", path.display())));
    }
    let open = opened(path);
    if open.exists() && existing == Existing::Refused {
        let what = format!("{} is left from an interrupted dump; --overwrite replaces it", open.display());
        return Err(Failure::Io(what));
    }
    Ok((folder, name.to_owned()))
}

/// The name of a file while it is incomplete.
fn opened(path: &Path) -> PathBuf {
    let mut open = path.to_owned().into_os_string();
    open.push(OPEN);
    open.into()
}

/// Returns whether a dump of this stem makes a file of this name.
fn is_of_dump(name: &str, stem: &str) -> bool {
    let name = name.strip_suffix(OPEN).unwrap_or(name);
    let Some(rest) = name.strip_prefix(stem) else { return false };
    let is_volume = |rest: &str| {
        let (number, extension) = rest.split_at_checked(6).unwrap_or((rest, ""));
        let digits = number.strip_prefix('-').unwrap_or_default();
        digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit()) && is_warc(extension)
    };
    matches!(rest, ".jsonl" | ".cdxj" | ".files.jsonl" | ".files" | ".parquet") || is_warc(rest) || is_volume(rest)
}

fn is_warc(extension: &str) -> bool {
    matches!(extension, ".warc" | ".warc.gz" | ".warc.zst")
}

impl Target for Folder {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn OutputFile>> {
        let path = self.path.join(self.only.as_deref().unwrap_or(name));
        Ok(Box::new(WholeFile::create(self.path.clone(), path, self.existing)?))
    }

    fn place(&mut self, path: &str, content: &[u8]) -> io::Result<bool> {
        let path = self.path.join(path);
        let parent = path.parent().unwrap_or(&self.path);
        let in_the_way = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
            )
        };
        if let Err(error) = fs::create_dir_all(parent) {
            return if in_the_way(&error) { Ok(false) } else { Err(named(parent, error)) };
        }
        if path.symlink_metadata().is_ok() {
            return Ok(false);
        }
        // Has another name until it is complete.
        let mode = Permissions::from_mode(0o666);
        let made = tempfile::Builder::new().prefix(".").suffix(OPEN).permissions(mode).tempfile_in(parent);
        let mut made = made.map_err(|error| named(parent, error))?;
        made.write_all(content).map_err(|error| named(&path, error))?;
        match made.persist_noclobber(&path) {
            Ok(_) => Ok(true),
            Err(failed) if in_the_way(&failed.error) => Ok(false),
            Err(failed) => Err(named(&path, failed.error)),
        }
    }
}

/// A file that gets its name once it is complete.
pub struct WholeFile {
    out: BufWriter<File>,
    open: PathBuf,
    path: PathBuf,
    folder: PathBuf,
    existing: Existing,
}

impl WholeFile {
    /// A single file at `path`; it can be written at any offset.
    pub fn at(path: &Path, existing: Existing) -> Result<WholeFile, Failure> {
        let (folder, name) = place_of(path, existing)?;
        WholeFile::create(folder.to_owned(), folder.join(name), existing)
            .map_err(|error| Failure::Io(format!("cannot create {error}")))
    }

    fn create(folder: PathBuf, path: PathBuf, existing: Existing) -> io::Result<WholeFile> {
        let open = opened(&path);
        let mut options = OpenOptions::new();
        let file = match existing {
            Existing::Replaced => sink::create_anew(&open),
            Existing::Refused => options.write(true).create_new(true).open(&open),
        };
        let file = file.map_err(|error| named(&open, error))?;
        Ok(WholeFile { out: BufWriter::with_capacity(BUFFER_BYTES, file), open, path, folder, existing })
    }
}

impl Seek for WholeFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.out.seek(to).map_err(|error| named(&self.open, error))
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| named(&self.open, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| named(&self.open, error))
    }
}

impl OutputFile for WholeFile {
    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.flush()?;
        self.out.get_ref().sync_all().map_err(|error| named(&self.open, error))?;
        if self.path.exists() && self.existing == Existing::Refused {
            return Err(named(&self.path, io::ErrorKind::AlreadyExists.into()));
        }
        fs::rename(&self.open, &self.path).map_err(|error| named(&self.path, error))?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(|error| named(&self.folder, error))
    }
}

/// The error with the file's name.
fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Standard output, a pipe or a device, for a dump of one file.
pub struct Stream {
    out: Option<Box<dyn Write>>,
    name: String,
}

impl Stream {
    /// Standard output.
    pub fn stdout() -> Stream {
        Stream { out: Some(Box::new(io::stdout())), name: "standard output".to_owned() }
    }

    /// The pipe or device at `path`.
    pub fn device(path: &Path) -> Result<Stream, Failure> {
        let file = sink::open(path, OpenOptions::new().write(true));
        let file = file.map_err(|error| Failure::io("open", path, &error))?;
        Ok(Stream { out: Some(Box::new(file)), name: path.display().to_string() })
    }
}

impl Target for Stream {
    fn create(&mut self, _name: &str) -> io::Result<Box<dyn OutputFile>> {
        let Some(out) = self.out.take() else { return Err(io::Error::other("a stream holds one file")) };
        Ok(Box::new(StreamFile { out: BufWriter::with_capacity(BUFFER_BYTES, out), name: self.name.clone() }))
    }

    fn place(&mut self, _path: &str, _content: &[u8]) -> io::Result<bool> {
        Err(io::Error::other("a stream holds no tree of files"))
    }
}

struct StreamFile {
    out: BufWriter<Box<dyn Write>>,
    name: String,
}

impl StreamFile {
    fn failed(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("cannot write to {}: {error}", self.name))
    }
}

impl Write for StreamFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| self.failed(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| self.failed(&error))
    }
}

impl OutputFile for StreamFile {
    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_dump_are_known_by_their_names() {
        for name in
            ["p.jsonl", "p.cdxj.open", "p-00012.warc.gz", "p-00000.warc.zst.open", "p.warc", "p.files", "p.files.jsonl"]
        {
            assert!(is_of_dump(name, "p"), "{name}");
        }
        for name in ["p", "p.html", "pp.jsonl", "p-1.warc.gz", "p-00000.warc.bz2", "p-é0000.warc", "p-00000x.warc"] {
            assert!(!is_of_dump(name, "p"), "{name}");
        }
    }
}
