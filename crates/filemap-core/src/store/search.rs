//! Searches all files of a store for erased text, in raw bytes and in decompressed records.
//!
//! Text inside an intact record that stays is a mention: a page that links to an erased one, or
//! has the same text. Any other occurrence is reported as left.

use std::collections::BTreeSet;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use filemap_io::{Access, File, Progress};
use filemap_runs::ordered::{Change, Cursor};

use crate::error::{Error, Result, unless_cancelled};
use crate::format::names;
use crate::format::value::{self, Header, Kind};
use crate::logs::keys::KeyFile;
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::logs::values::dictionaries::Part;
use crate::logs::values::read;
use crate::record::Version;
use crate::store::{Erasure, Store};

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Most remains listed; further ones are counted.
const MOST_LEFT: usize = 1 << 16;

/// Texts to search for, and the callbacks.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let at = temp.path().join("a");
/// # let store = filemap_core::Store::create(at, filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page."))?;
/// # store.sync()?;
/// # use std::ops::ControlFlow;
/// # use std::sync::Arc;
/// use filemap_core::erase::{Erasure, Search};
///
/// # let nothing = || Arc::new(|_: &[u8]| false);
/// # let what = Erasure { keys: nothing(), versions: Arc::new(|_, _| true), groups: nothing() };
/// let mut mentions = Vec::new();
/// let found = store.search(Search {
///     texts: &[b"A page".to_vec()],
///     what: &what,
///     tombstones_too: false,
///     mention: &mut |key, _| mentions.push(key.to_vec()),
///     progress: &mut |_| ControlFlow::Continue(()),
/// })?;
/// // It stays, and does not come from erased pages.
/// assert!(found.left.is_empty() && mentions == [b"http://a.example/"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Search<'a> {
    /// Texts that should occur nowhere. None may be empty. They may overlap each other.
    pub texts: &'a [Vec<u8>],
    /// The erasure: no record that it selects may exist.
    pub what: &'a Erasure,
    /// If true, no tombstone of such a key may exist either.
    pub tombstones_too: bool,
    /// Called with a key that stays and the number of a text in its record. The key is `RULES` for
    /// the file RULES.
    pub mention: &'a mut dyn FnMut(&[u8], usize),
    /// Called with the number of bytes searched; may cancel.
    pub progress: &'a mut Progress<'a, u64>,
}

impl std::fmt::Debug for Search<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Search").field("texts", &self.texts.len()).finish_non_exhaustive()
    }
}

/// Remains of erased text; see [`Searched`].
///
/// ```
/// # let searched = filemap_core::erase::Searched::default();
/// for found in searched.left {
///     println!("{} at byte {} of {}", found.what, found.offset, found.file);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundText {
    /// The file's name.
    pub file: String,
    /// Byte offset in it.
    pub offset: u64,
    /// Description of the find.
    pub what: String,
}

/// Result of a search.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # use std::ops::ControlFlow;
/// use filemap_core::erase::{Erasure, Search};
/// use std::sync::Arc;
/// # let nothing = || Arc::new(|_: &[u8]| false);
/// let what = Erasure { keys: nothing(), versions: Arc::new(|_, _| true), groups: nothing() };
/// let found = store.search(Search {
///     texts: &[b"secret".to_vec()],
///     what: &what,
///     tombstones_too: false,
///     mention: &mut |_, _| {},
///     progress: &mut |_| ControlFlow::Continue(()),
/// })?;
/// assert!(found.left.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Searched {
    /// Files searched.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records decompressed.
    pub records: u64,
    /// Remains of erased text: the first 65,536, then one entry with the number of further ones.
    pub left: Vec<FoundText>,
    /// Files in the directory that do not belong to the store; not searched.
    pub strangers: Vec<String>,
}

struct Run<'a, 's> {
    store: &'a Store,
    search: Search<'s>,
    finder: AhoCorasick,
    longest: usize,
    /// Numbers of texts that occur in something that stays.
    mentioned: BTreeSet<usize>,
    found: Searched,
    /// Remains that are not listed.
    unlisted: u64,
}

/// The texts in a file's raw bytes, found while it is read block by block.
struct Hits<'f> {
    name: String,
    file: &'f dyn File,
    block: Vec<u8>,
    /// Bytes at the start of the block that were searched before: a text may begin there.
    kept: usize,
    /// Bytes of the file that were read.
    at: u64,
    is_read: bool,
    /// Offsets and numbers of texts that nobody has taken yet.
    found: BTreeSet<(u64, usize)>,
}

impl Store {
    /// Searches every file of the store. Reads each once and decompresses every record. Other
    /// threads may use the store meanwhile.
    ///
    /// # Errors
    /// `InvalidOption` for an empty text; `Io`; [`Error::Cancelled`]. Records that cannot be
    /// decompressed are reported as left.
    pub fn search(&self, search: Search<'_>) -> Result<Searched> {
        if let Some(nth) = search.texts.iter().position(Vec::is_empty) {
            return Err(Error::option("texts", format!("text {nth} is empty: it would be found everywhere")));
        }
        let finder = AhoCorasick::new(search.texts).map_err(|e| Error::option("texts", e.to_string()))?;
        let longest = search.texts.iter().map(Vec::len).max().unwrap_or(0);
        let (mentioned, found) = (BTreeSet::new(), Searched::default());
        let mut run = Run { store: self, search, finder, longest, mentioned, found, unlisted: 0 };
        run.values()?;
        run.keys()?;
        run.key_runs()?;
        run.others()?;
        Ok(run.ended())
    }

    /// Names of the store's files with more than one hard link, mostly in a backup.
    ///
    /// # Errors
    /// `Io`.
    pub fn shared_files(&self) -> Result<Vec<String>> {
        let mut shared = self.reading.names()?;
        shared.retain(|name| names::is_ours(name) && self.reading.dir().links(name).is_ok_and(|links| links > 1));
        shared.sort();
        Ok(shared)
    }

    /// Unpredictable random bytes.
    ///
    /// # Errors
    /// `Io`.
    pub fn random_bytes(&self, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.reading.dir().random(&mut bytes).map_err(Error::io("read", "the system's random numbers"))?;
        Ok(bytes)
    }
}

impl Run<'_, '_> {
    /// Reports remains. Several texts that begin at one place are reported once.
    fn left(&mut self, file: &str, offset: u64, what: impl Into<String>) {
        let left = FoundText { file: file.to_owned(), offset, what: what.into() };
        if self.found.left.last() == Some(&left) {
            return;
        }
        if self.found.left.len() < MOST_LEFT {
            self.found.left.push(left);
        } else {
            self.unlisted += 1;
        }
    }

    /// The result, with the number of remains that are not listed.
    fn ended(mut self) -> Searched {
        if let Some(last) = self.found.left.last().filter(|_| self.unlisted > 0) {
            let (file, offset) = (last.file.clone(), last.offset);
            let what = format!("{} further finds after this place are not listed", self.unlisted);
            self.found.left.push(FoundText { file, offset, what });
        }
        self.found
    }

    fn hits<'f>(&self, name: &str, file: &'f dyn File) -> Hits<'f> {
        let block = vec![0; BLOCK_BYTES + self.longest];
        Hits { name: name.to_owned(), file, block, kept: 0, at: 0, is_read: false, found: BTreeSet::new() }
    }

    /// Reads and searches the next block of a file.
    fn read(&mut self, hits: &mut Hits<'_>) -> Result<()> {
        let kept = hits.kept;
        let read = hits.file.read_once_at(&mut hits.block[kept..kept + BLOCK_BYTES], hits.at);
        let n = read.map_err(Error::io("read", &hits.name))?;
        let (bytes, start) = (&hits.block[..kept + n], hits.at - kept as u64);
        if self.has_texts(bytes) {
            // The others were found in the block before.
            let new = self.finder.find_overlapping_iter(bytes).filter(|hit| hit.end() > kept);
            hits.found.extend(new.map(|hit| (start + hit.start() as u64, hit.pattern().as_usize())));
        }
        hits.at += n as u64;
        self.found.bytes += n as u64;
        unless_cancelled((self.search.progress)(self.found.bytes))?;
        if n < BLOCK_BYTES {
            hits.is_read = true;
            self.found.files += 1;
            return Ok(());
        }
        // A text may continue in the next block.
        let keep = self.longest.saturating_sub(1).min(kept + n);
        hits.block.copy_within(kept + n - keep..kept + n, 0);
        hits.kept = keep;
        Ok(())
    }

    /// Returns whether any text occurs. Much faster than the search for all that overlap.
    fn has_texts(&self, bytes: &[u8]) -> bool {
        self.longest > 0 && self.finder.is_match(bytes)
    }

    /// Takes the first hit before an offset.
    fn next_hit(&mut self, hits: &mut Hits<'_>, until: u64) -> Result<Option<(u64, usize)>> {
        loop {
            // A later block has no hit before this.
            let known = if hits.is_read { u64::MAX } else { hits.at.saturating_sub(self.longest as u64) };
            if hits.found.first().is_some_and(|hit| hit.0 < known.min(until)) {
                return Ok(hits.found.pop_first());
            }
            if known >= until {
                return Ok(None);
            }
            self.read(hits)?;
        }
    }

    /// Reports hits before an offset as left: they are in no record.
    fn between(&mut self, hits: &mut Hits<'_>, until: u64) -> Result<()> {
        while let Some((offset, _)) = self.next_hit(hits, until)? {
            self.left(&hits.name, offset, "erased text outside any record");
        }
        Ok(())
    }

    fn values(&mut self) -> Result<()> {
        let reading = &*self.store.reading;
        for segment in reading.values().segments.all().iter() {
            let name = segment.name();
            let file = match reading.values().segments.open_anew(segment) {
                // Compacted since.
                Err(e) if e.is_corrupt() && reading.values().segments.get(segment.id).is_err() => continue,
                file => file?,
            };
            let mut hits = self.hits(&name, &*file);
            let mut scan = reading.values().scan(segment, &*file, FIRST_RECORD, u64::MAX)?.once();
            while let Some(item) = scan.next()? {
                let Item::Record { offset, bytes } = item else { continue };
                self.between(&mut hits, offset)?;
                let mut texts = BTreeSet::new();
                while let Some((_, text)) = self.next_hit(&mut hits, offset + bytes.len() as u64)? {
                    texts.insert(text);
                }
                self.record(segment, offset, bytes, texts)?;
            }
            self.between(&mut hits, u64::MAX)?;
        }
        Ok(())
    }

    fn record(&mut self, segment: &Segment, offset: u64, bytes: &[u8], mut texts: BTreeSet<usize>) -> Result<()> {
        let Ok(header) = value::peek(bytes) else { return Ok(()) };
        let key = &bytes[header.key_at()..header.meta_at()];
        if self.is_erased(key, &header) {
            self.left(&segment.name(), offset, "a record that should be erased");
            return Ok(());
        }
        self.found.records += 1;
        match self.expanded(&header, bytes) {
            Err(e) if e.is_corrupt() => self.left(&segment.name(), offset, "a record that cannot be decompressed"),
            expanded => {
                for part in expanded?.iter().filter(|part| self.has_texts(part)) {
                    texts.extend(self.finder.find_overlapping_iter(part).map(|hit| hit.pattern().as_usize()));
                }
            }
        }
        if let Some(text) = texts.first() {
            (self.search.mention)(key, *text);
            self.mentioned.extend(texts);
        }
        Ok(())
    }

    fn is_erased(&self, key: &[u8], header: &Header) -> bool {
        let version = Version { time_ms: header.time_ms, sequence: header.sequence };
        match header.kind {
            Kind::Filler | Kind::Chunk => false,
            Kind::Tombstone => self.search.tombstones_too && (self.search.what.keys)(key),
            _ => (self.search.what.keys)(key) && (self.search.what.versions)(key, version),
        }
    }

    /// Meta and body of a record.
    fn expanded(&self, header: &Header, bytes: &[u8]) -> Result<[Vec<u8>; 2]> {
        let registry = &self.store.reading.values().dictionaries;
        let flaw = |what| Error::corrupt("", 0, what);
        let mut parts = [Vec::new(), Vec::new()];
        if header.kind == Kind::Filler {
            return Ok(parts);
        }
        let meta = &bytes[header.meta_at()..header.payload_at()];
        read::expand(registry, header, Part::Meta, meta, header.meta_raw_bytes as usize, &mut parts[0])?
            .map_err(flaw)?;
        if matches!(header.kind, Kind::Page | Kind::Chunk) {
            let payload = &bytes[header.payload_at()..][..header.payload_bytes as usize];
            read::expand(registry, header, Part::Body, payload, header.raw_bytes as usize, &mut parts[1])?
                .map_err(flaw)?;
        }
        Ok(parts)
    }

    fn keys(&mut self) -> Result<()> {
        let reading = &*self.store.reading;
        let (files, _) = reading.keys().files()?;
        for KeyFile { segment, file, end } in &files {
            let Some(file) = file else { continue };
            let name = segment.name();
            let mut hits = self.hits(&name, &**file);
            let mut scan = reading.keys().scan(segment, &**file, FIRST_RECORD..*end)?;
            while let Some(item) = scan.next()? {
                let Item::Record { offset, bytes } = item else { continue };
                self.between(&mut hits, offset)?;
                let Ok((record, key)) = reading.keys().decode(segment, bytes, offset) else { continue };
                if (self.search.what.keys)(key) && (self.search.what.versions)(key, record.version) {
                    self.left(&name, offset, "a key record that should be erased");
                }
                while let Some((_, text)) = self.next_hit(&mut hits, offset + bytes.len() as u64)? {
                    self.mentioned.insert(text);
                }
            }
            self.between(&mut hits, u64::MAX)?;
        }
        Ok(())
    }

    /// Looks for erased keys in the runs of keys in order. Texts in the keys that stay were found
    /// in the key log.
    fn key_runs(&mut self) -> Result<()> {
        let reading = &*self.store.reading;
        let named = reading.segment_table().order.clone();
        let Some(order) = reading.options().key_order else {
            let runs = named.into_iter().flat_map(|named| named.runs);
            runs.for_each(|run| self.left(&names::key_run(run.number), 0, "keys in an order not in the options"));
            return Ok(());
        };
        for info in named.into_iter().flat_map(|named| named.runs) {
            let name = names::key_run(info.number);
            let run = match reading.key_runs().open_anew(&info) {
                // Joined into another run since.
                Err(e) if e.is_corrupt() && !reading.names()?.contains(&name) => continue,
                run => Arc::new(run?),
            };
            let (mut cursor, mut key) = (Cursor::first(run)?, Vec::new());
            while let Some((form, change)) = cursor.forward()? {
                key.clear();
                if !(order.key)(form, &mut key) {
                    self.left(&name, 0, "an entry that is not a key in the store's order");
                } else if (self.search.what.keys)(&key) && (change == Change::Removed || !self.store.contains(&key)?) {
                    self.left(&name, 0, "a key that was erased");
                }
            }
            self.found.files += 1;
            self.found.bytes += info.disk_bytes();
            unless_cancelled((self.search.progress)(self.found.bytes))?;
        }
        Ok(())
    }

    /// Searches dictionaries, whose text also occurs in pages that stay, and files without text.
    fn others(&mut self) -> Result<()> {
        let reading = &*self.store.reading;
        for name in reading.names()? {
            let is_log = names::parse_segment(&name).is_some() || names::parse_keys(&name).is_some();
            if is_log || names::parse_key_run(&name).is_some() {
                continue;
            }
            if !names::is_ours(&name) {
                self.found.strangers.push(name);
                continue;
            }
            let file = match reading.dir().open(&name, Access::Read) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                file => file.map_err(Error::io("open", &name))?,
            };
            let is_dictionary = names::parse_dictionary(&name).is_some();
            let mut hits = self.hits(&name, &*file);
            while let Some((offset, text)) = self.next_hit(&mut hits, u64::MAX)? {
                match name.as_str() {
                    names::RULES => (self.search.mention)(name.as_bytes(), text),
                    _ if is_dictionary && self.mentioned.contains(&text) => {}
                    _ => self.left(&name, offset, "erased text"),
                }
            }
        }
        Ok(())
    }
}
