//! WARC.gz: a gzip member a page in one file, written once; a CDXJ index in memory, written beside
//! it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use xxhash_rust::xxh3::xxh3_128;

use super::{Can, EVERYTHING, Engine, Facts, Kind, Purpose, Session, Settings};

const GZIP_LEVEL: u32 = 6;
const DATE: &str = "2026-01-01T00:00:00Z";

pub static KIND: Kind = Kind {
    name: "warc",
    version: || format!("WARC/1.0 by this package, {}", super::locked("flate2")),
    settings: |_| {
        "one file, a gzip member a page, appended under a lock after compression outside it; CDXJ in memory, written at syncs and \
         read when opened; put one by one"
            .into()
    },
    compression: |_| format!("gzip -{GZIP_LEVEL} by the application"),
    open: |dir, settings, purpose| Ok(Box::new(Warc::open(dir, settings, purpose)?)),
    batch: 1,
    can: Can { recover: false, update: false, delete: false, ..EVERYTHING },
    is_index_file: Some(|path| path.ends_with(".cdxj")),
};

type Places = HashMap<Box<[u8]>, (u64, u32)>;

struct Warc {
    file: File,
    index: PathBuf,
    tail: Mutex<u64>,
    places: RwLock<Places>,
    stored_bytes: AtomicU64,
}

impl Warc {
    fn open(dir: &Path, _settings: &Settings, _purpose: Purpose) -> Outcome<Warc> {
        fs::create_dir_all(dir)?;
        let file = OpenOptions::new().read(true).append(true).create(true).open(dir.join("pages.warc.gz"))?;
        let index = dir.join("pages.cdxj");
        let tail = Mutex::new(file.metadata()?.len());
        let places = RwLock::new(if index.exists() { read_index(&index)? } else { Places::new() });
        Ok(Warc { file, index, tail, places, stored_bytes: AtomicU64::new(0) })
    }

    fn write_index(&self) -> Outcome<()> {
        let mut out = BufWriter::new(File::create(&self.index)?);
        for (url, (offset, bytes)) in &*self.places.read().expect("no put panicked") {
            out.write_all(url)?;
            write!(out, " 20260101000000 {{\"url\": \"")?;
            out.write_all(url)?;
            writeln!(
                out,
                "\", \"mime\": \"text/html\", \"status\": \"200\", \"length\": \"{bytes}\", \"offset\": \"{offset}\", \
                 \"filename\": \"pages.warc.gz\"}}"
            )?;
        }
        Ok(out.into_inner()?.sync_all()?)
    }
}

fn read_index(path: &Path) -> Outcome<Places> {
    let mut places = Places::new();
    let mut lines = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let (url, offset, bytes) = index_line(&line).ok_or("pages.cdxj: a line that is not of the index")?;
        places.insert(url.into(), (offset, bytes));
        line.clear();
    }
    Ok(places)
}

fn index_line(line: &[u8]) -> Option<(&[u8], u64, u32)> {
    let end = line.iter().position(|byte| *byte == b' ')?;
    let text = std::str::from_utf8(&line[end..]).ok()?;
    let field = |name: &str| {
        let (_, after) = text.split_once(name)?;
        after.split('"').next()?.parse::<u64>().ok()
    };
    Some((&line[..end], field("\"offset\": \"")?, field("\"length\": \"")? as u32))
}

impl Engine for Warc {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Lane { warc: self, header: String::new(), member: Vec::new(), record: Vec::new() }))
    }

    fn sync(&self) -> Outcome<()> {
        self.file.sync_data()?;
        self.write_index()
    }

    fn facts(&self) -> Outcome<Facts> {
        let stored = self.stored_bytes.load(Ordering::Relaxed);
        Ok(Facts { stored_bytes: Some(stored), ..Facts::default() })
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

struct Lane<'a> {
    warc: &'a Warc,
    header: String,
    member: Vec<u8>,
    record: Vec<u8>,
}

impl Session for Lane<'_> {
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()> {
        for page in pages {
            self.header.clear();
            let id = xxh3_128(&page.url);
            write!(
                self.header,
                "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:uuid:{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}>\r\n\
                 WARC-Date: {DATE}\r\nWARC-Target-URI: {}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
                id >> 96,
                id >> 80 & 0xffff,
                id >> 64 & 0xfff,
                id >> 52 & 0xfff,
                id & 0xffff_ffff_ffff,
                String::from_utf8_lossy(&page.url),
                page.body.len()
            )?;
            self.member.clear();
            let mut encoder = GzEncoder::new(&mut self.member, Compression::new(GZIP_LEVEL));
            encoder.write_all(self.header.as_bytes())?;
            encoder.write_all(&page.body)?;
            encoder.write_all(b"\r\n\r\n")?;
            encoder.finish()?;
            let mut tail = self.warc.tail.lock().expect("no put panicked");
            (&self.warc.file).write_all(&self.member)?;
            let place = (*tail, self.member.len() as u32);
            *tail += self.member.len() as u64;
            drop(tail);
            self.warc.places.write().expect("no put panicked").insert(page.url.as_slice().into(), place);
            self.warc.stored_bytes.fetch_add(self.member.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        let place = self.warc.places.read().expect("no put panicked").get(key).copied();
        let Some((offset, bytes)) = place else { return Ok(false) };
        self.member.resize(bytes as usize, 0);
        self.warc.file.read_exact_at(&mut self.member, offset)?;
        self.record.clear();
        GzDecoder::new(&self.member[..]).read_to_end(&mut self.record)?;
        let end = self.record.windows(4).position(|four| four == b"\r\n\r\n").ok_or("a WARC record has no header")? + 4;
        let last = self.record.len().checked_sub(4).filter(|last| *last >= end).ok_or("a WARC record is cut short")?;
        body.clear();
        body.extend_from_slice(&self.record[end..last]);
        Ok(true)
    }

    fn delete(&mut self, _keys: &[&[u8]]) -> Outcome<()> {
        Err("a WARC is written once".into())
    }
}
