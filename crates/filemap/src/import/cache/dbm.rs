//! Finds the entries of a Scrapy cache in the files of Python's `dbm`: the two files of
//! `dbm.dumb`, and a file of gdbm (`dbm.gnu`, and `dbm.ndbm` where it is built on gdbm).
//!
//! Returns the ranges of an entry's values: no value is read here.
//!
//! Invariants: time and memory are linear in the length of the files, whatever they hold; ranges
//! of a gdbm file are inside it.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use filemap_io::layout;
use filemap_io::layout::{get, try_get};

use super::data::View;
use super::literal;

/// An entry of a Scrapy cache in a file of values.
///
/// ```
/// use filemap::import::cache::dumb_index;
/// let index = dumb_index(b"'0a_data', (0, 525)\n'0a_time', (1024, 18)\n").unwrap();
/// let entry = &index.entries[0];
/// assert_eq!((&*entry.fingerprint, entry.data.clone()), ("0a", Some(0..525)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DbmEntry {
    /// The fingerprint of its request, in hexadecimal.
    pub fingerprint: String,
    /// Range of the response in the file; `None` if it is missing.
    pub data: Option<Range<u64>>,
    /// Range of the time in the file; `None` if it is missing.
    pub time: Option<Range<u64>>,
}

/// The entries of a Scrapy cache, in the order of the file.
///
/// ```
/// let index = filemap::import::cache::dumb_index(b"'other', (0, 525)\n").unwrap();
/// assert_eq!((index.entries.len(), index.foreign), (0, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DbmIndex {
    /// The entries.
    pub entries: Vec<DbmEntry>,
    /// Number of keys that do not belong to a Scrapy cache.
    pub foreign: u64,
    /// Parts of the index that cannot be read, a sentence each.
    pub damage: Vec<String>,
    /// Ranges of all values of a `dbm.dumb`, including those of foreign keys.
    pub(super) named: Vec<Range<u64>>,
}

/// The longest key of a Scrapy cache, including fingerprints of custom fingerprinters.
const MAX_KEY_BYTES: usize = 512;
/// Maximum number of sentences of damage.
const MAX_DAMAGE: usize = 1000;

impl DbmIndex {
    fn damaged(&mut self, what: String) {
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(what);
        }
    }
}

/// Entries by fingerprint, while they are collected.
#[derive(Default)]
struct Gathered {
    index: DbmIndex,
    by_name: HashMap<String, usize>,
}

impl Gathered {
    fn add(&mut self, key: &[u8], place: Range<u64>) {
        let text = std::str::from_utf8(key).unwrap_or_default();
        let Some((fingerprint, part)) = text.rsplit_once('_').filter(|(name, part)| {
            let is_hex = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hex && matches!(*part, "data" | "time")
        }) else {
            self.index.foreign += 1;
            return;
        };
        let at = *self.by_name.entry(fingerprint.to_owned()).or_insert_with(|| {
            self.index.entries.push(DbmEntry { fingerprint: fingerprint.to_owned(), ..DbmEntry::default() });
            self.index.entries.len() - 1
        });
        let entry = &mut self.index.entries[at];
        if part == "data" { entry.data = Some(place) } else { entry.time = Some(place) }
    }

    fn finish(mut self) -> DbmIndex {
        self.index.entries.sort_by_key(|entry| entry.data.as_ref().map(|data| data.start));
        self.index
    }
}

/// Reads the directory (`.dir`) of a `dbm.dumb`; the values are in its `.dat`.
///
/// # Errors
///
/// The reason why it is not a directory of `dbm.dumb`.
pub fn dumb_index(directory: &[u8]) -> Result<DbmIndex, String> {
    let mut gathered = Gathered::default();
    for (number, line) in directory.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let text: String = line.iter().copied().map(char::from).collect();
        let data = literal::read(&format!("({text})")).ok();
        match data.as_ref().and_then(|data| dumb_line(data.view())) {
            Some((key, place)) => {
                gathered.index.named.push(place.clone());
                gathered.add(key.as_bytes(), place);
            }
            None if number == 0 => {
                return Err("it is not a directory of dbm.dumb: its first line has no key".to_owned());
            }
            None => gathered.index.damaged(format!("line {} of the directory cannot be read", number + 1)),
        }
    }
    Ok(gathered.finish())
}

/// `'key', (start, length)`.
fn dumb_line(line: View<'_>) -> Option<(&str, Range<u64>)> {
    let mut parts = line.items()?;
    let (key, place) = (parts.next()?.text()?, parts.next()?);
    let mut numbers = place.items()?.map(|number| number.int().and_then(|number| u64::try_from(number).ok()));
    let (start, length) = (numbers.next()??, numbers.next()??);
    Some((key, start..start.checked_add(length)?))
}

/// Magic numbers of gdbm with 64-bit offsets: old, since 1.9, and with crash tolerance.
const GDBM_MAGICS: [u32; 3] = [0x1357_9ace, 0x1357_9acf, 0x1357_9ad1];
/// Magic numbers of gdbm with 32-bit offsets.
const GDBM_SMALL_MAGICS: [u32; 2] = [0x1357_9acd, 0x1357_9ad0];
/// Bytes of a header that are read; of a bucket before its entries; of an entry.
const HEADER_BYTES: usize = 40;
const BUCKET_HEAD_BYTES: usize = 112;
const BUCKET_ENTRY_BYTES: usize = BucketEntry::BYTES;
const MAX_BUCKET_BYTES: u64 = 16 << 20;

layout! {
    /// A header, up to what is needed of it.
    struct Header {
        0 MAGIC: u32 = "magic";
        4 BLOCK_BYTES: u32 = "bytes of a block";
        8 DIRECTORY: u64 = "offset of the directory";
        16 DIRECTORY_BYTES: u32 = "its length";
        20 DIRECTORY_BITS: u32 = "bits of a hash that lead into it";
        24 BUCKET_BYTES: u32 = "bytes of a bucket";
    }
}

layout! {
    /// An entry of a bucket.
    struct BucketEntry {
        0 HASH: i32 = "hash; -1 of a free entry";
        4 KEY_START: [u8; 4] = "first bytes of the key";
        8 PLACE: u64 = "offset of the key, which the value follows";
        16 KEY_BYTES: i32 = "length of the key";
        20 VALUE_BYTES: i32 = "length of the value";
    }
}

/// Returns whether a file begins like a gdbm file, in either byte order.
pub fn is_gdbm(head: &[u8]) -> bool {
    let Some(magic) = head.first_chunk::<4>() else { return false };
    let known = |magic: u32| GDBM_MAGICS.contains(&magic) || GDBM_SMALL_MAGICS.contains(&magic);
    known(u32::from_le_bytes(*magic)) || known(u32::from_be_bytes(*magic))
}

/// Reads the directory and the buckets of a gdbm file; the values are in the same file.
///
/// # Errors
///
/// Those of `file`; `InvalidData` if it is not a readable gdbm file, with advice.
pub fn gdbm_index(file: &mut (impl Read + Seek)) -> io::Result<DbmIndex> {
    let length = file.seek(SeekFrom::End(0))?;
    let header = piece(file, 0..HEADER_BYTES as u64)?;
    let layout = Layout::of(&header, length).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
    let directory = piece(file, layout.directory.clone())?;
    let mut buckets: Vec<u64> = directory.as_chunks::<8>().0.iter().map(|bytes| get(bytes, 0)).collect();
    buckets.sort_unstable();
    buckets.dedup();
    let (mut gathered, mut free_from) = (Gathered::default(), HEADER_BYTES as u64);
    for bucket in buckets {
        let end = bucket.checked_add(layout.bucket_bytes).filter(|end| *end <= length && bucket >= free_from);
        let Some(end) = end else {
            gathered
                .index
                .damaged(format!("the bucket at byte {bucket} overlaps another or lies beyond the end of the file"));
            continue;
        };
        free_from = end;
        let bytes = piece(file, bucket..end)?;
        for entry in bytes[BUCKET_HEAD_BYTES.min(bytes.len())..].as_chunks::<BUCKET_ENTRY_BYTES>().0 {
            take_gdbm(file, entry, length, &mut gathered)?;
        }
    }
    Ok(gathered.finish())
}

/// Takes the entry of a bucket: hash, first bytes of the key, offset, lengths of key and value.
fn take_gdbm(
    file: &mut (impl Read + Seek),
    entry: &[u8; BUCKET_ENTRY_BYTES],
    length: u64,
    gathered: &mut Gathered,
) -> io::Result<()> {
    let (key_bytes, value_bytes) = (BucketEntry::KEY_BYTES.get(entry), BucketEntry::VALUE_BYTES.get(entry));
    let place = BucketEntry::PLACE.get(entry);
    if BucketEntry::HASH.get(entry) == -1 {
        return Ok(());
    }
    let sizes = u64::try_from(key_bytes).ok().zip(u64::try_from(value_bytes).ok());
    let value = sizes.and_then(|(key, value)| {
        let start = place.checked_add(key)?;
        start.checked_add(value).filter(|end| *end <= length).map(|end| start..end)
    });
    let Some(value) = value else {
        gathered
            .index
            .damaged(format!("an entry points to byte {place}, but its value ends beyond the end of the file"));
        return Ok(());
    };
    if value.start - place > MAX_KEY_BYTES as u64 {
        gathered.index.foreign += 1;
        return Ok(());
    }
    let key = piece(file, place..value.start)?;
    // Keys written by C programs end with a NUL.
    gathered.add(key.strip_suffix(b"\0").unwrap_or(&key), value);
    Ok(())
}

/// Ranges of the directory and the buckets.
struct Layout {
    directory: Range<u64>,
    bucket_bytes: u64,
}

impl Layout {
    fn of(header: &[u8], length: u64) -> Result<Layout, String> {
        let magic = try_get::<u32>(header, Header::MAGIC.at).unwrap_or_default();
        if !GDBM_MAGICS.contains(&magic) {
            return Err(match is_gdbm(header) {
                true => "it is a gdbm file of another byte order or with 32-bit offsets: export it there with \
                         `gdbm_dump FILE dump.txt`, load it here with `gdbm_load dump.txt FILE`"
                    .to_owned(),
                false => "it is not a gdbm file".to_owned(),
            });
        }
        if header.len() < Header::BYTES {
            return Err("its header is cut".to_owned());
        }
        let (start, bucket_bytes) = (Header::DIRECTORY.get(header), u64::from(Header::BUCKET_BYTES.get(header)));
        let end = start.checked_add(u64::from(Header::DIRECTORY_BYTES.get(header)));
        let end = end.filter(|end| *end <= length && start >= HEADER_BYTES as u64);
        match end {
            Some(end) if (BUCKET_HEAD_BYTES as u64..=MAX_BUCKET_BYTES).contains(&bucket_bytes) => {
                Ok(Layout { directory: start..end, bucket_bytes })
            }
            _ => Err("its header is damaged: `gdbmtool FILE recover` may mend it".to_owned()),
        }
    }
}

/// The bytes of a part of a file, shorter at its end.
fn piece(file: &mut (impl Read + Seek), part: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(part.start))?;
    file.by_ref().take(part.end - part.start).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use proptest::prelude::*;

    /// A gdbm file of these keys and values: header, directory, one bucket, then the pairs.
    fn gdbm(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
        let (directory, bucket, bucket_bytes) = (64u64, 80u64, (BUCKET_HEAD_BYTES + 10 * BUCKET_ENTRY_BYTES) as u32);
        let mut out = Vec::new();
        out.extend(GDBM_MAGICS[1].to_le_bytes());
        out.extend(64u32.to_le_bytes());
        out.extend(directory.to_le_bytes());
        out.extend([16u32.to_le_bytes(), 1u32.to_le_bytes(), bucket_bytes.to_le_bytes()].concat());
        out.resize(64, 0);
        out.extend([bucket.to_le_bytes(), bucket.to_le_bytes()].concat());
        let mut place = bucket + u64::from(bucket_bytes);
        out.resize(80 + BUCKET_HEAD_BYTES, 0);
        for (key, value) in pairs {
            out.extend(7u32.to_le_bytes());
            out.extend([key[0]; 4]);
            out.extend(place.to_le_bytes());
            out.extend([(key.len() as u32).to_le_bytes(), (value.len() as u32).to_le_bytes()].concat());
            place += (key.len() + value.len()) as u64;
        }
        while out.len() < 80 + bucket_bytes as usize {
            out.extend([&(-1i32).to_le_bytes()[..], &[0; 20]].concat());
        }
        pairs.iter().for_each(|(key, value)| out.extend([*key, *value].concat()));
        out
    }

    #[test]
    fn entries_of_gdbm_are_found_where_they_lie() {
        let file = gdbm(&[(b"0a_data", b"response"), (b"0a_time", b"1.5"), (b"ff_time", b"2"), (b"x_data", b"")]);
        let index = gdbm_index(&mut Cursor::new(&file)).expect("a file of gdbm");
        let read = |place: &Option<Range<u64>>| {
            place.clone().map(|place| file[place.start as usize..place.end as usize].to_vec())
        };
        let found: Vec<_> =
            index.entries.iter().map(|entry| (&*entry.fingerprint, read(&entry.data), read(&entry.time))).collect();
        let expected = [("ff", None, Some(b"2".to_vec())), ("0a", Some(b"response".to_vec()), Some(b"1.5".to_vec()))];
        assert_eq!((found, index.foreign, index.damage.len()), (expected.to_vec(), 1, 0));
    }

    #[test]
    fn what_cannot_be_read_says_what_to_do() {
        let small = [&GDBM_SMALL_MAGICS[0].to_le_bytes()[..], &[0; 60]].concat();
        let swapped = [&GDBM_MAGICS[1].to_be_bytes()[..], &[0; 60]].concat();
        let cut = gdbm(&[])[..70].to_vec();
        for (bytes, words) in [
            (small, "gdbm_dump"),
            (swapped, "gdbm_dump"),
            (cut, "recover"),
            (b"SQLite format 3\0".to_vec(), "not a gdbm"),
        ] {
            let error = gdbm_index(&mut Cursor::new(bytes)).expect_err("refused");
            assert!(error.to_string().contains(words), "{error}");
        }
        assert!(dumb_index(b"no directory\n").is_err() && dumb_index(b"").is_ok_and(|index| index.entries.is_empty()));
        let index = dumb_index(b"'0a_data', (512, 5)\n'0b_data', (1\n'0a_data', (0, 9)\n").expect("a directory");
        assert_eq!((index.entries.len(), index.entries[0].data.clone(), index.damage.len()), (1, Some(0..9), 1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_index_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..400usize, to in any::<u8>()
        ) {
            let _ = (dumb_index(&bytes), gdbm_index(&mut Cursor::new(&bytes)));
            let mut file = gdbm(&[(b"0a_data", b"response"), (b"0a_time", b"1.5")]);
            let at = at.min(file.len() - 1);
            file[at] = to;
            if let Ok(index) = gdbm_index(&mut Cursor::new(&file)) {
                let places = index.entries.iter().flat_map(|entry| [&entry.data, &entry.time]).flatten();
                prop_assert!(places.into_iter().all(|place| place.end <= file.len() as u64));
            }
        }
    }
}
