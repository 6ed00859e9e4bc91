//! An input of `import`, and its kind by its first bytes.

use std::fs::File;
use std::io::{self, BufReader, Cursor, IsTerminal, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use filemap::import::cdxj;
use flate2::read::GzDecoder;
use fm_cli::{Failure, words};

use super::caches::{self, CacheKind};
use super::json_lines;
use super::report::Form;
use crate::flags::Shared;
use crate::input::Input;

/// Number of first bytes that decide.
const HEAD_BYTES: usize = 1024;

/// Kind of content of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// WARC or ARC, plain or compressed.
    Warc,
    Wacz,
    JsonLines,
    /// An index of an archive: CDXJ or CDX.
    Index,
    /// A cache of another program.
    Cache(CacheKind),
    /// A stream whose first bytes have not arrived yet.
    Unknown,
}

impl Content {
    /// JSON Lines begin with `{`, also in gzip; WACZ is a zip file; an index is known by its first
    /// line. The WARC reader gets the rest.
    fn of(head: &[u8]) -> Content {
        match head.trim_ascii_start().first() {
            _ if filemap::import::is_zip(head) => Content::Wacz,
            Some(b'{') => Content::JsonLines,
            _ if first_packed(head) == Some(b'{') => Content::JsonLines,
            _ if cdxj::is_index(head) || cdxj::is_index(&unpacked(head)) => Content::Index,
            _ => Content::Warc,
        }
    }

    /// Reads the first bytes of a stream; the returned input still has them.
    pub fn resolve(self, mut input: Input) -> io::Result<(Content, Head)> {
        let mut head = Vec::new();
        if self != Content::Unknown {
            return Ok((self, Head { head: Cursor::new(head), input }));
        }
        let mut buffer = [0; HEAD_BYTES];
        let is_open = |head: &[u8]| {
            head.trim_ascii_start().is_empty() || json_lines::is_gzip(head) && first_packed(head).is_none()
        };
        while head.len() < HEAD_BYTES && is_open(&head) {
            match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => head.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // A zip file is read from its end, which a stream does not allow.
        let content = if Content::of(&head) == Content::JsonLines { Content::JsonLines } else { Content::Warc };
        Ok((content, Head { head: Cursor::new(head), input }))
    }
}

/// The first byte of a gzip file's content that is not a space, if `head` reaches that far.
fn first_packed(head: &[u8]) -> Option<u8> {
    unpacked(head).into_iter().find(|byte| !byte.is_ascii_whitespace())
}

/// The beginning of a gzip file's content, as far as `head` goes.
fn unpacked(head: &[u8]) -> Vec<u8> {
    BufReader::new(GzDecoder::new(head)).bytes().map_while(io::Result::ok).take(HEAD_BYTES).collect()
}

/// An input, preceded by the bytes that were read ahead.
pub struct Head {
    head: Cursor<Vec<u8>>,
    input: Input,
}

impl Head {
    /// The input, if nothing was read ahead.
    pub fn into_file(self) -> Input {
        self.input
    }
}

impl Read for Head {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.head.read(out)? {
            0 => self.input.read(out),
            length => Ok(length),
        }
    }
}

/// An open input.
pub struct Source {
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub reader: Input,
    pub content: Content,
    /// True if the length is unknown.
    pub is_endless: bool,
}

impl Source {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: &Path, form: Form, from: Option<CacheKind>, shared: &Shared) -> Result<Source, Failure> {
        let fail = |error: io::Error| Failure::io("open", path, &error);
        if let Some(from) = from {
            let is_folder = std::fs::metadata(path).map_err(fail)?.is_dir();
            let file = if is_folder { File::open(path) } else { caches::open(path) };
            let (name, reader) = (path.display().to_string(), Input::file(file.map_err(fail)?));
            let content = Content::Cache(from);
            return Ok(Source { name, path: path.to_path_buf(), bytes: 0, reader, content, is_endless: true });
        }
        let known = if form == Form::Load { Some(Content::JsonLines) } else { None };
        if path == Path::new("-") {
            if io::stdin().is_terminal() && !shared.flags.quiet {
                words::say("reading standard input; end it with Ctrl-D");
            }
            let name = "standard input".to_owned();
            let (reader, content) = (Input::stdin().map_err(fail)?, known.unwrap_or(Content::Unknown));
            return Ok(Source { name, path: path.to_path_buf(), bytes: 0, reader, content, is_endless: true });
        }
        let file = File::open(path).map_err(fail)?;
        let about = file.metadata().map_err(fail)?;
        if about.is_dir() {
            return Err(Failure::Usage(format!("{} is a folder; name the files in it", path.display())));
        }
        let is_named = path.extension().is_some_and(|extension| extension == "jsonl");
        let content = known.or(is_named.then_some(Content::JsonLines)).unwrap_or_else(|| {
            let mut head = [0; HEAD_BYTES];
            match file.read_at(&mut head, 0) {
                Ok(length) if about.is_file() => Content::of(&head[..length]),
                _ => Content::Unknown,
            }
        });
        let (name, reader) = (path.display().to_string(), Input::file(file));
        let (path, bytes) = (path.to_path_buf(), about.len());
        Ok(Source { name, path, bytes, reader, content, is_endless: !about.is_file() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lines_and_zip_files_are_told_by_their_first_bytes() {
        let packed = |text: &str| {
            let mut packed = Vec::new();
            flate2::read::GzEncoder::new(text.as_bytes(), flate2::Compression::default())
                .read_to_end(&mut packed)
                .unwrap();
            packed
        };
        let (lines, warc) = (packed("\n{\"url\":1}\n"), packed("WARC/1.0\r\n{"));
        let rows: [(&[u8], Content); 8] = [
            (&lines, Content::JsonLines),
            (&warc, Content::Warc),
            (b"{\"url\":1}", Content::JsonLines),
            (b" \n\r\n\t{", Content::JsonLines),
            (b"PK\x03\x04", Content::Wacz),
            (b"WARC/1.1\r\n", Content::Warc),
            (b"\x1f\x8b\x08{", Content::Warc),
            (b"", Content::Warc),
        ];
        for (head, content) in rows {
            assert_eq!(Content::of(head), content, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn a_stream_loses_no_byte_to_the_look_at_its_beginning() {
        for text in ["", "\n\n{\"a\":1}\n", "WARC/1.0\r\n", &" ".repeat(200)] {
            let (reader, mut writer) = io::pipe().unwrap();
            io::Write::write_all(&mut writer, text.as_bytes()).unwrap();
            drop(writer);
            let input = Input::file(File::from(std::os::fd::OwnedFd::from(reader)));
            let (content, mut head) = Content::Unknown.resolve(input).unwrap();
            assert_eq!(content == Content::JsonLines, text.contains('{'), "{text:?}");
            let mut read = String::new();
            head.read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }
}
