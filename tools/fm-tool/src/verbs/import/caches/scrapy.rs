//! The folder of Scrapy's HTTP cache: `SPIDER/2 DIGITS/FINGERPRINT/FILES` of the file storage, and
//! `SPIDER.db` of the DBM storage, in the format that Python's `dbm` chose.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use filemap::coding::decode;
use filemap::import::cache::{
    DbmEntry, DbmIndex, ScrapyFiles, dumb_index, dumb_rest, gdbm_index, is_gdbm, scrapy_dbm_entry, scrapy_entry,
};
use fm_cli::{Failure, words};

use super::{MAX_FILE_BYTES, Taking, head, is_sqlite, name, open, sorted, whole};

/// Imports every entry of a cache's folder.
pub fn import(taking: &mut Taking<'_, '_>, folder: &Path, is_shared: bool) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Err(Failure::Usage(format!(
            "{} is not a folder; name the one that HTTPCACHE_DIR names, with the spiders in it",
            folder.display()
        )));
    }
    let found = sorted(folder)?;
    if found.iter().any(|path| is_spider_part(path)) {
        return Err(Failure::Usage(format!(
            "{} is the folder of one spider; name the folder that it is in",
            folder.display()
        )));
    }
    for path in &found {
        let is_done = match path.is_dir() {
            true => !take_folder(taking, path, is_shared)?,
            false => !take_file(taking, path, is_shared)?,
        };
        if is_done {
            break;
        }
    }
    Ok(())
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether a folder holds entries whose fingerprints begin alike.
fn is_spider_part(path: &Path) -> bool {
    name(path).len() == 2 && is_hex(name(path)) && path.is_dir()
}

/// Imports the entries of one spider. Returns false once the work must stop.
fn take_folder(taking: &mut Taking<'_, '_>, folder: &Path, is_shared: bool) -> Result<bool, Failure> {
    let parts = sorted(folder)?;
    let is_spider = parts.iter().any(|part| is_spider_part(part));
    let named = taking.name_of(folder);
    if !is_spider {
        taking.foreign(&named, "the folder is not a spider's: left out");
        return Ok(true);
    }
    let spider = name(folder);
    if spider.is_empty() {
        taking.damaged(&named, "the name of the spider is not text");
        return Ok(true);
    }
    for part in parts {
        if !is_spider_part(&part) {
            let named = taking.name_of(&part);
            taking.foreign(&named, "it is not part of the cache: left out");
            continue;
        }
        for entry in sorted(&part)? {
            if !take_entry(taking, &entry, (!is_shared).then_some(spider))? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Imports one entry of the file storage.
fn take_entry(taking: &mut Taking<'_, '_>, folder: &Path, spider: Option<&str>) -> Result<bool, Failure> {
    let named = taking.name_of(folder);
    let fingerprint = name(folder);
    if !folder.is_dir() || !is_hex(fingerprint) {
        taking.foreign(&named, "it is not an entry: left out");
        return Ok(true);
    }
    let mut bytes = 0;
    match read_entry(folder, &mut bytes) {
        Ok(read) => {
            let mut files = ScrapyFiles::new(&read.meta, &read.headers, read.body);
            files.data = read.data.as_deref();
            match scrapy_entry(spider, fingerprint, files) {
                Ok(page) => taking.put(&named, page)?,
                Err(error) => taking.damaged(&named, error),
            }
        }
        Err(what) => taking.damaged(&named, what),
    }
    Ok(taking.goes_on(bytes))
}

/// The files of an entry, decompressed.
struct Read {
    meta: Vec<u8>,
    headers: Vec<u8>,
    body: Vec<u8>,
    data: Option<Vec<u8>>,
}

/// Reads the files of an entry; the error says what is wrong.
fn read_entry(folder: &Path, bytes: &mut u64) -> Result<Read, String> {
    let meta = match whole(&folder.join("meta")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err("it has no meta: it was being written, or is of another program".to_owned());
        }
        meta => meta.map_err(|error| format!("meta cannot be read: {error}"))?,
    };
    // With HTTPCACHE_GZIP all files of an entry are compressed.
    let is_gzip = meta.starts_with(b"\x1f\x8b");
    let mut read = |name: &str| match whole(&folder.join(name)) {
        Ok(file) => {
            *bytes += file.len() as u64;
            let plain = if is_gzip { decode(&["gzip"], file, MAX_FILE_BYTES) } else { Ok(file) };
            plain.map(Some).map_err(|_| format!("{name} is compressed and does not decompress whole"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    };
    let mut needed = |name: &str| read(name)?.ok_or_else(|| format!("it has no {name}: it was being written"));
    let (meta, headers, body) = (needed("meta")?, needed("response_headers")?, needed("response_body")?);
    Ok(Read { meta, headers, body, data: read("response_data")? })
}

/// Imports a file beside the spiders' folders: a database, or a part of one. Returns false once
/// the work must stop.
fn take_file(taking: &mut Taking<'_, '_>, path: &Path, is_shared: bool) -> Result<bool, Failure> {
    let named = taking.name_of(path);
    let spider_of = |end: &str| name(path).strip_suffix(end).filter(|spider| !spider.is_empty());
    let spider_in = |spider| if is_shared { None } else { Some(spider) };
    if let Some(spider) = spider_of(".db.dat") {
        return take_dumb(taking, path, spider_in(spider));
    }
    if spider_of(".db.dir").is_some() || spider_of(".db.bak").is_some() {
        let has_values = path.with_extension("dat").exists() || path.with_extension("pag").exists();
        if !has_values {
            taking.damaged(&named, "the file with the values is missing");
        }
        return Ok(true);
    }
    // Files beside an SQLite database; SQLite reads them itself.
    if [".db-wal", ".db-shm", ".db-journal"].iter().any(|end| spider_of(end).is_some()) {
        return Ok(true);
    }
    // dbm.ndbm adds its own suffix.
    let spider = spider_of(".db.db").or_else(|| spider_of(".db.pag")).or_else(|| spider_of(".db"));
    let Some(spider) = spider else {
        taking.foreign(&named, "it is not part of a cache: left out");
        return Ok(true);
    };
    let head = match head(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            taking.damaged(&named, error);
            return Ok(true);
        }
        head => head.map_err(|error| Failure::io("read", path, &error))?,
    };
    if is_sqlite(&head) {
        #[cfg(feature = "sqlite")]
        return super::tables::scrapy(taking, path, spider_in(spider));
        #[cfg(not(feature = "sqlite"))]
        taking.refused(&named, super::NO_SQLITE);
    } else if is_gdbm(&head) {
        return take_gdbm(taking, path, spider_in(spider));
    } else if head.is_empty() {
        taking.damaged(&named, "the file is empty: it was cut off, or nothing was written to it");
    } else {
        let what = "it is of a kind of dbm that is not read (dbm.ndbm over Berkeley DB, say); where Scrapy ran, make a \
                    dbm.dumb of it in a new folder, and import that: ";
        let command = "python3 -c \"import dbm, dbm.dumb, sys; a = dbm.open(sys.argv[1]); b = dbm.dumb.open(sys.argv[2], \
                       'n'); [b.__setitem__(k, a[k]) for k in a.keys()]; b.close()\"";
        let from = path.with_extension("");
        let from = if name(path).ends_with(".db.db") || name(path).ends_with(".pag") { from.as_path() } else { path };
        taking.refused(&named, format_args!("{what}{command} {} NEW/{spider}.db", from.display()));
    }
    Ok(true)
}

fn take_dumb(taking: &mut Taking<'_, '_>, values: &Path, spider: Option<&str>) -> Result<bool, Failure> {
    let (named, directory) = (taking.name_of(values), values.with_extension("dir"));
    let index = whole(&directory).map_err(|error| format!("the directory (.dir) cannot be read: {error}"));
    let index = index.and_then(|directory| dumb_index(&directory));
    let before = whole(&values.with_extension("bak")).ok().and_then(|before| dumb_index(&before).ok());
    let lacks = before.map_or(0, |before| lacking(index.as_ref().ok(), &before));
    let bak = match lacks {
        0 => String::new(),
        _ => format!(
            "; the directory before it (.bak) has {} more: in a copy of the cache, put it in the place of .dir, and \
             import the copy, too",
            words::count(lacks, "entry")
        ),
    };
    let index = match index {
        Ok(index) => index,
        Err(what) => {
            taking.damaged(&named, what + &bak);
            return Ok(true);
        }
    };
    let rest = match open(values).and_then(|mut values| dumb_rest(&index, &mut values)) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            taking.damaged(&named, error);
            return Ok(true);
        }
        rest => rest.map_err(|error| Failure::io("read", values, &error))?,
    };
    let nameless = format!(
        "{} of the file, with {} and {}, have no name in the directory (.dir)",
        words::count(rest.bytes, "byte"),
        words::count(rest.responses, "response"),
        words::count(rest.times, "time"),
    );
    if rest.is_loss || lacks > 0 {
        taking.damaged(&named, format_args!("{nameless}, which is empty, cut short or old{bak}"));
    } else if rest.bytes > 0 {
        taking.foreign(&named, format_args!("{nameless}: what was replaced since is left out"));
    }
    take_index(taking, values, &index, spider)
}

/// Number of entries of an earlier directory that a later one lacks, whole or in part.
fn lacking(index: Option<&DbmIndex>, before: &DbmIndex) -> u64 {
    let entries = index.map_or(&[][..], |index| &index.entries);
    let parts = |entry: &DbmEntry| (entry.data.is_some(), entry.time.is_some());
    let known: HashMap<&str, _> = entries.iter().map(|entry| (&*entry.fingerprint, parts(entry))).collect();
    let lacks = |entry: &&DbmEntry| known.get(&*entry.fingerprint).is_none_or(|known| *known < parts(entry));
    before.entries.iter().filter(lacks).count() as u64
}

fn take_gdbm(taking: &mut Taking<'_, '_>, path: &Path, spider: Option<&str>) -> Result<bool, Failure> {
    let mut file = open(path).map_err(|error| Failure::io("open", path, &error))?;
    match gdbm_index(&mut file) {
        Ok(index) => take_index(taking, path, &index, spider),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let named = taking.name_of(path);
            taking.refused(&named, error);
            Ok(true)
        }
        Err(error) => Err(Failure::io("read", path, &error)),
    }
}

/// Imports the entries of an index, whose values lie in `path`.
fn take_index(
    taking: &mut Taking<'_, '_>,
    path: &Path,
    index: &DbmIndex,
    spider: Option<&str>,
) -> Result<bool, Failure> {
    let named = taking.name_of(path);
    let fail = |error: io::Error| Failure::io("read", path, &error);
    let file = open(path).map_err(fail)?;
    let length = file.metadata().map_err(fail)?.len();
    taking.is_cache |= index.entries.is_empty() && index.foreign == 0;
    index.damage.iter().for_each(|what| taking.damaged(&named, what));
    if index.foreign > 0 {
        taking.foreign(&named, format_args!("it has {} keys that are not a cache's: left out", index.foreign));
    }
    let piece = |place: &Option<std::ops::Range<u64>>| {
        let place = place.as_ref()?;
        let bytes =
            place.end.checked_sub(place.start).filter(|bytes| *bytes <= MAX_FILE_BYTES && place.end <= length)?;
        let mut piece = vec![0; usize::try_from(bytes).ok()?];
        file.read_exact_at(&mut piece, place.start).ok().map(|()| piece)
    };
    for entry in &index.entries {
        let entry_name = format!("{named}: {}", entry.fingerprint);
        let mut bytes = 0;
        match (piece(&entry.data), piece(&entry.time)) {
            (Some(data), Some(time)) => {
                bytes = (data.len() + time.len()) as u64;
                match scrapy_dbm_entry(spider, &entry.fingerprint, &data, &time) {
                    Ok(page) => taking.put(&entry_name, page)?,
                    Err(error) => taking.damaged(&entry_name, error),
                }
            }
            (None, _) => taking.damaged(&entry_name, "its response is not in the file"),
            (_, None) => taking.damaged(&entry_name, "its time is not in the file"),
        }
        if !taking.goes_on(bytes) {
            return Ok(false);
        }
    }
    Ok(true)
}
