//! `inspect`: lists the contents of any file of a store, field by field, without opening the store.

use std::path::Path;

use filemap_io::{File, Progress, files};

use crate::error::{Error, Result};
use crate::format::dictionary::{CONTENT_AT, decode_facts};
use crate::format::header::{self, FileHeader, Kind};
use crate::format::key::KeyRecord;
use crate::format::superblock::{BYTES, COPIES, Superblock};
use crate::format::verified::{self, UnderWay, Verified};
use crate::format::{PAGE_BYTES, key, leaf, node, seed, value};
use crate::logs::keys::KeyFraming;
use crate::logs::scan::{Framing, Item, Scan};
use crate::logs::values::ValueFraming;

/// One item of a file: a header, a record or a page.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # use std::ops::ControlFlow;
/// # store.close()?;
/// filemap_core::check::inspect(temp.path().join("a/value0.dat"), &mut |item| {
///     println!("{} at {}: {:?}", item.kind, item.offset, item.fields);
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Byte offset in the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Kind of item, such as `page record` or `leaf`.
    pub kind: String,
    /// Its fields: name and value.
    pub fields: Vec<(&'static str, String)>,
    /// What is wrong with the item, if anything.
    pub problem: Option<String>,
}

/// Passes every item of a file to `progress`, front to back, until that breaks off. The magic tells the
/// kind of file.
///
/// # Errors
/// [`Error::NotAStore`] when it is not a file of FileMap; `Io`.
pub fn inspect(path: impl AsRef<Path>, progress: &mut Progress<'_, Inspected>) -> Result<()> {
    let path = path.as_ref();
    let not = |why: &str| Error::NotAStore { path: path.to_owned(), why: why.to_owned() };
    let name = path.file_name().and_then(|n| n.to_str()).ok_or_else(|| not("it has no file name"))?;
    let file = filemap_io::open_to_inspect(path).map_err(Error::io("open", path.display()))?;
    let b = files::read(&*file, name, 0, header::BYTES)?;
    if b.starts_with(b"FILEMAP\0") {
        return superblock(&*file, name, progress);
    }
    if let Some(note) = verification(&b) {
        let _ = progress(note);
        return Ok(());
    }
    if !Kind::ALL.iter().any(|k| b.starts_with(k.magic())) {
        return Err(not("it does not start like a file of FileMap"));
    }
    let head = FileHeader::decode(&b);
    if progress(header_item(head)).is_break() {
        return Ok(());
    }
    let Ok(head) = head else { return Ok(()) };
    match head.kind {
        Kind::Values => {
            let framing = ValueFraming { seed: seed(&head.store_id, head.ordinal) };
            log(&*file, name, framing, &|b| value_fields(b), progress)
        }
        Kind::Keys => {
            let framing = KeyFraming::new(key::seed(&head.store_id, head.ordinal));
            log(&*file, name, framing, &|b| key_fields(b), progress)
        }
        Kind::Dictionary => dictionary(&*file, name, &head, progress),
        Kind::Index => pages(&*file, name, seed(&head.store_id, u64::MAX - 1), progress),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn header_item(head: std::result::Result<FileHeader, &str>) -> Inspected {
    let (fields, problem) = match head {
        Err(what) => (Vec::new(), Some(what.to_owned())),
        Ok(h) => (
            vec![
                ("kind", format!("{:?}", h.kind).to_lowercase()),
                ("format_version", h.read_version.to_string()),
                ("store_id", hex(&h.store_id)),
                ("ordinal", h.ordinal.to_string()),
                ("created_ms", h.created_ms.to_string()),
            ],
            None,
        ),
    };
    Inspected { offset: 0, bytes: header::BYTES as u64, kind: "file header".into(), fields, problem }
}

/// Decodes VERIFIED, or the head of VERIFYING; `None` for any other file.
fn verification(b: &[u8]) -> Option<Inspected> {
    let (kind, bytes, fields) = if b.starts_with(verified::MAGIC) {
        let fields = Verified::decode(b).map(|v| {
            vec![
                ("store_id", hex(&v.store_id)),
                ("begun_ms", v.begun_ms.to_string()),
                ("ended_ms", v.ended_ms.to_string()),
                ("bytes", v.bytes.to_string()),
                ("problems", v.problems.to_string()),
            ]
        });
        ("full verification", verified::BYTES, fields)
    } else if b.starts_with(verified::UNDER_WAY_MAGIC) {
        let fields =
            UnderWay::decode(b).map(|u| vec![("store_id", hex(&u.store_id)), ("begun_ms", u.begun_ms.to_string())]);
        ("verification under way", verified::UNDER_WAY_BYTES, fields)
    } else {
        return None;
    };
    let problem = fields.as_ref().err().map(|what| (*what).to_owned());
    let (kind, fields) = (kind.to_owned(), fields.unwrap_or_default());
    Some(Inspected { offset: 0, bytes: bytes as u64, kind, fields, problem })
}

/// Lists both copies of a dictionary.
fn dictionary(file: &dyn File, name: &str, head: &FileHeader, progress: &mut Progress<'_, Inspected>) -> Result<()> {
    let half = file.len().map_err(Error::io("measure", name))? / 2;
    for offset in [0, half] {
        let bytes = files::read(file, name, offset, CONTENT_AT)?;
        let (fields, problem) = match decode_facts(&bytes, &head.store_id) {
            Err(what) => (Vec::new(), Some(what.to_owned())),
            Ok((_, f)) => (
                vec![
                    ("id", f.id.to_string()),
                    ("group", String::from_utf8_lossy(&f.group).into_owned()),
                    ("pages", f.pages.to_string()),
                    ("body_bytes", f.body_bytes.to_string()),
                    ("meta_bytes", f.meta_bytes.to_string()),
                    ("body_ppm", f.body_ppm.to_string()),
                    ("meta_ppm", f.meta_ppm.to_string()),
                    ("level", f.level.to_string()),
                ],
                None,
            ),
        };
        let item = Inspected { offset, bytes: half, kind: "dictionary".into(), fields, problem };
        if progress(item).is_break() {
            return Ok(());
        }
    }
    Ok(())
}

fn superblock(file: &dyn File, name: &str, progress: &mut Progress<'_, Inspected>) -> Result<()> {
    for offset in COPIES {
        let bytes = files::read(file, name, offset, BYTES)?;
        let (fields, problem) = match Superblock::decode(&bytes) {
            Err(what) => (Vec::new(), Some(what.to_owned())),
            Ok(s) => (
                vec![
                    ("format_version", s.read_version.to_string()),
                    ("store_id", hex(&s.store_id)),
                    ("segment_bytes", s.segment_bytes.to_string()),
                    ("canonicalizer", s.canonicalizer.to_string()),
                    ("created_ms", s.created_ms.to_string()),
                    ("epoch", s.epoch.to_string()),
                    ("tail_ordinal", s.tail.ordinal.to_string()),
                    ("tail_offset", s.tail.offset.to_string()),
                    ("next_sequence", s.next_sequence.to_string()),
                    ("key_tail_ordinal", s.key_tail.ordinal.to_string()),
                    ("key_tail_offset", s.key_tail.offset.to_string()),
                    ("index_pages", s.index.pages.to_string()),
                    ("index_root", s.index.root.to_string()),
                    ("index_depth", s.index.depth.to_string()),
                    ("index_leaves", s.index.leaves.to_string()),
                    ("index_keys", s.index.keys.to_string()),
                    ("versions", s.versions.to_string()),
                    ("max_time_ms", s.max_time_ms.to_string()),
                    ("dropped_epoch", s.dropped_epoch.to_string()),
                    ("last_dictionary", s.last_dictionary.to_string()),
                ],
                None,
            ),
        };
        let item = Inspected { offset, bytes: BYTES as u64, kind: "superblock".into(), fields, problem };
        if progress(item).is_break() {
            break;
        }
    }
    Ok(())
}

type Fields = (String, Vec<(&'static str, String)>);

fn log<F: Framing>(
    file: &dyn File,
    name: &str,
    framing: F,
    fields: &dyn Fn(&[u8]) -> Fields,
    progress: &mut Progress<'_, Inspected>,
) -> Result<()> {
    let mut scan = Scan::new(file, name.to_owned(), framing, header::BYTES as u64, u64::MAX)?;
    loop {
        let offset = scan.offset();
        let Some(item) = scan.next()? else { break };
        let item = match item {
            Item::Gap { offset, bytes, what } => {
                Inspected { offset, bytes, kind: "gap".into(), fields: Vec::new(), problem: Some(what.into()) }
            }
            Item::Filler { bytes } => {
                Inspected { offset, bytes, kind: "filler".into(), fields: Vec::new(), problem: None }
            }
            Item::Record { offset, bytes } => {
                let (kind, fields) = fields(bytes);
                Inspected { offset, bytes: bytes.len() as u64, kind, fields, problem: None }
            }
        };
        if progress(item).is_break() {
            break;
        }
    }
    Ok(())
}

fn value_fields(b: &[u8]) -> Fields {
    let Ok(h) = value::peek(b) else { return ("record".into(), Vec::new()) };
    let mut fields = vec![
        ("sequence", h.sequence.to_string()),
        ("time_ms", h.time_ms.to_string()),
        ("codec", format!("{:?}", h.codec).to_lowercase()),
        ("dictionary", h.dictionary.to_string()),
        ("body_bytes", h.raw_bytes.to_string()),
        ("payload_bytes", h.payload_bytes.to_string()),
        ("meta_codec", format!("{:?}", h.meta_codec).to_lowercase()),
        ("meta_bytes", h.meta_raw_bytes.to_string()),
        ("meta_stored_bytes", h.meta_bytes.to_string()),
        ("digest", hex(&h.digest)),
        ("key", String::from_utf8_lossy(&b[h.key_at()..h.meta_at()]).into_owned()),
    ];
    if let (value::Kind::Reference, Some(s)) = (h.kind, b[h.payload_at()..].first_chunk()) {
        fields.push(("refers_to", u64::from_le_bytes(*s).to_string()));
    }
    (format!("{:?} record", h.kind).to_lowercase(), fields)
}

/// Formats a key-log address as segment:offset.
fn place(address: u64) -> String {
    if address == 0 {
        return "none".into();
    }
    format!("{}:{}", key::segment_of(address), key::offset_of(address))
}

fn key_fields(b: &[u8]) -> Fields {
    let Ok(r) = KeyRecord::peek(b) else { return ("key record".into(), Vec::new()) };
    let end = (r.key_at() + r.key_bytes as usize).min(b.len());
    let fields = vec![
        ("sequence", r.version.sequence.to_string()),
        ("time_ms", r.version.time_ms.to_string()),
        ("segment", r.extent.location.segment.to_string()),
        ("offset", r.extent.location.offset().to_string()),
        ("bytes", r.extent.bytes().to_string()),
        ("chunked", r.chunked.to_string()),
        ("previous", place(r.previous)),
        ("chain", r.chain.to_string()),
        ("refers_to", r.refers_to.to_string()),
        ("holder", place(r.holder)),
        ("key", String::from_utf8_lossy(&b[r.key_at()..end]).into_owned()),
    ];
    ("key record".into(), fields)
}

fn pages(file: &dyn File, name: &str, seed: u32, progress: &mut Progress<'_, Inspected>) -> Result<()> {
    let len = file.len().map_err(Error::io("measure", name))?;
    for page in 1..u32::try_from(len / PAGE_BYTES as u64).unwrap_or(u32::MAX) {
        let offset = u64::from(page) * PAGE_BYTES as u64;
        let (kind, fields, problem) = page_fields(seed, page, &files::read(file, name, offset, PAGE_BYTES)?);
        let item = Inspected { offset, bytes: PAGE_BYTES as u64, kind, fields, problem };
        if progress(item).is_break() {
            break;
        }
    }
    Ok(())
}

type PageFields = (String, Vec<(&'static str, String)>, Option<String>);

fn page_fields(seed: u32, page: u32, b: &[u8]) -> PageFields {
    if b.get(4) == Some(&2) {
        return match node::decode(seed, page, b) {
            Err(what) => ("node".into(), Vec::new(), Some(what.into())),
            Ok(n) => (
                "node".into(),
                vec![
                    ("level", n.level.to_string()),
                    ("epoch", n.epoch.to_string()),
                    ("first", n.first.to_string()),
                    ("entries", n.entries.len().to_string()),
                ],
                None,
            ),
        };
    }
    match leaf::decode(seed, page, b) {
        Err(_) if b.iter().all(|&x| x == 0) => ("unused page".into(), Vec::new(), None),
        Err(what) => ("leaf".into(), Vec::new(), Some(what.into())),
        Ok(l) => {
            let slots: Vec<String> = l
                .slots
                .iter()
                .map(|s| {
                    let (segment, offset) = (s.location.segment, s.location.offset());
                    format!("{:010x}->{}@{segment}:{offset}", s.hash, place(s.key))
                })
                .collect();
            (
                "leaf".into(),
                vec![
                    ("depth", l.depth.to_string()),
                    ("prefix", format!("{:x}", l.prefix)),
                    ("epoch", l.epoch.to_string()),
                    ("slots", l.slots.len().to_string()),
                    ("slot_list", slots.join(" ")),
                ],
                None,
            )
        }
    }
}
