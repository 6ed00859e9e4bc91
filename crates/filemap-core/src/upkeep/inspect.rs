//! `inspect`: lists the contents of any file of a store, field by field, without opening the
//! store. Names and order of the fields are those of the layouts.

use std::path::Path;

use filemap_io::layout::Row;
use filemap_io::{File, Progress, files};
use filemap_runs::ordered;

use crate::error::{Error, Result};
use crate::format::dictionary::{self, CONTENT_AT, decode_facts};
use crate::format::header::{self, FileHeader, Kind};
use crate::format::key::KeyRecord;
use crate::format::leaf::Slot;
use crate::format::rolls::{self, Rolls};
use crate::format::rules::{self, Rules};
use crate::format::run::{self, Change, Summary};
use crate::format::superblock::{self, BYTES, COPIES, Superblock};
use crate::format::verified::{self, UNDER_WAY_BYTES, UnderWay, Verified};
use crate::format::{Flaw, PAGE_BYTES, all_zero, key, leaf, node, seed, value};
use crate::logs::keys::KeyFraming;
use crate::logs::scan::{Framing, Item, Scan};
use crate::logs::values::ValueFraming;
use crate::record::Version;
use crate::upkeep::check::position;

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
    /// Description of the damage, if any.
    pub problem: Option<String>,
}

/// Passes every item of a file to `progress`, front to back, until it breaks. The magic number
/// tells the kind of file.
///
/// # Errors
/// [`Error::NotAStore`] if it is not a FileMap file; `Io`.
pub fn inspect(path: impl AsRef<Path>, progress: &mut Progress<'_, Inspected>) -> Result<()> {
    let path = path.as_ref();
    let not = |why: &str| Error::NotAStore { path: path.to_owned(), why: why.to_owned() };
    let name = path.file_name().and_then(|n| n.to_str()).ok_or_else(|| not("it has no file name"))?;
    let file = filemap_io::system::open_to_inspect(path).map_err(Error::io("open", path.display()))?;
    let b = files::read(&*file, name, 0, header::BYTES)?;
    if b.starts_with(superblock::MAGIC) {
        return superblock(&*file, name, progress);
    }
    if b.starts_with(rules::MAGIC) {
        return rules(&*file, name, progress);
    }
    if b.starts_with(verified::UNDER_WAY_MAGIC) {
        return verifying(&*file, name, &b, progress);
    }
    if b.starts_with(verified::MAGIC) {
        let _ = progress(verified(&b));
        return Ok(());
    }
    if ordered::owner(&b).is_some() {
        return key_run(&*file, name, progress);
    }
    if !Kind::ALL.iter().any(|k| b.starts_with(k.magic())) {
        return Err(not("unknown magic number"));
    }
    let head = FileHeader::decode(&b);
    let shown = head.as_ref().map(|head| header_fields(head, &b)).map_err(|what| *what);
    if progress(item(0, header::BYTES, "file header", shown)).is_break() {
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

/// Names and values of fields.
type Fields = Vec<(&'static str, String)>;

/// The fields that a layout declares. `instead` replaces coded words, by name: one word may hold
/// several values.
fn fields<const N: usize>(rows: &[Row], record: &[u8], instead: [(&str, Fields); N]) -> Fields {
    let mut out = Fields::new();
    for row in rows.iter().filter(|row| !row.is_reserved) {
        match instead.iter().find(|(name, _)| *name == row.name) {
            Some((_, values)) => out.extend(values.iter().cloned()),
            None => out.extend(row.show(record).map(|value| (row.name, value))),
        }
    }
    out
}

/// One value in place of a coded word.
fn word(name: &'static str, value: impl ToString) -> (&'static str, Fields) {
    (name, vec![(name, value.to_string())])
}

fn lower(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// An item with its fields, or with its damage.
fn item(offset: u64, bytes: usize, kind: &str, fields: std::result::Result<Fields, &str>) -> Inspected {
    let problem = fields.as_ref().err().map(|what| (*what).to_owned());
    let fields = fields.unwrap_or_default();
    Inspected { offset, bytes: bytes as u64, kind: kind.to_owned(), fields, problem }
}

fn header_fields(head: &FileHeader, b: &[u8]) -> Fields {
    fields(header::Layout::ROWS, b, [("magic", vec![("kind", lower(head.kind))])])
}

/// Lists VERIFIED.
fn verified(b: &[u8]) -> Inspected {
    let fields = Verified::decode(b).map(|_| fields(verified::Layout::ROWS, b, []));
    item(0, verified::BYTES, "full verification", fields)
}

/// Lists VERIFYING: its head, and the segments that need not be read again.
fn verifying(file: &dyn File, name: &str, b: &[u8], progress: &mut Progress<'_, Inspected>) -> Result<()> {
    let head = UnderWay::decode(b).map(|_| fields(verified::UnderWayLayout::ROWS, b, []));
    let is_whole = head.is_ok();
    if progress(item(0, UNDER_WAY_BYTES, "verification under way", head)).is_break() || !is_whole {
        return Ok(());
    }
    let len = file.len().map_err(Error::io("measure", name))?;
    let mut at = UNDER_WAY_BYTES as u64;
    while let Some(frame) = position::frame(file, at, len) {
        let mut shown = fields(verified::FrameLayout::ROWS, &frame.head, []);
        shown.extend(frame.numbers.map(|(name, number)| (name, number.to_string())));
        if progress(item(at, frame.bytes as usize, "verified segment", Ok(shown))).is_break() {
            return Ok(());
        }
        at += frame.bytes;
    }
    if at < len {
        let _ = progress(item(at, (len - at) as usize, "verified segment", Err("not intact: it is read again")));
    }
    Ok(())
}

/// Lists RULES: its head and its rules.
fn rules(file: &dyn File, name: &str, progress: &mut Progress<'_, Inspected>) -> Result<()> {
    let len = file.len().map_err(Error::io("measure", name))?;
    let b = files::read(file, name, 0, len.min(rules::LONGEST) as usize)?;
    let store_id = files::read(file, name, 0, rules::Layout::BYTES)?;
    let decoded = match store_id.len() < rules::Layout::BYTES {
        true => Err("it is cut short"),
        false => Rules::decode(&b, &rules::Layout::STORE_ID.get(&store_id)),
    };
    let head = decoded.as_ref().map(|_| fields(rules::Layout::ROWS, &b, [])).map_err(|what| *what);
    if progress(item(0, rules::Layout::BYTES, "rules", head)).is_break() {
        return Ok(());
    }
    let Ok((rules, ..)) = decoded else { return Ok(()) };
    let mut at = rules::Layout::BYTES;
    for rule in &rules.list {
        let bytes = rules::RuleLayout::BYTES + rule.reason.len() + rule.what.len();
        let mut shown = fields(rules::RuleLayout::ROWS, &b[at..], [word("state", lower(rule.state))]);
        shown.push(("reason", rule.reason.clone()));
        shown.push(("what", String::from_utf8_lossy(&rule.what).into_owned()));
        if progress(item(at as u64, bytes, "rule", Ok(shown))).is_break() {
            break;
        }
        at += bytes;
    }
    Ok(())
}

/// Lists a run of keys in order: its header, and the header of each block.
fn key_run(file: &dyn File, name: &str, progress: &mut Progress<'_, Inspected>) -> Result<()> {
    let [.., header_rows, block_rows] = filemap_runs::layouts();
    let len = file.len().map_err(Error::io("measure", name))?;
    let header = files::read(file, name, 0, PAGE_BYTES)?;
    let mut page = 0;
    while page * (PAGE_BYTES as u64) < len {
        let at = page * PAGE_BYTES as u64;
        let start = files::read(file, name, at, 8)?;
        let pages = if page == 0 { 1 } else { start.get(5).copied().unwrap_or(1).max(1) };
        let bytes = usize::from(pages) * PAGE_BYTES;
        let b = files::read(file, name, at, bytes)?;
        let (kind, rows) = match (page, start.get(4)) {
            (0, _) => ("run of keys", header_rows),
            (_, Some(0)) => ("leaf block", block_rows),
            _ => ("inner block", block_rows),
        };
        let shown = ordered::flaw(&header, page, &b).map_or_else(|| Ok(fields(rows, &b, [])), Err);
        if progress(item(at, bytes, kind, shown)).is_break() {
            break;
        }
        page += u64::from(pages);
    }
    Ok(())
}

/// Lists both copies of a dictionary.
fn dictionary(file: &dyn File, name: &str, head: &FileHeader, progress: &mut Progress<'_, Inspected>) -> Result<()> {
    let half = file.len().map_err(Error::io("measure", name))? / 2;
    for offset in [0, half] {
        let b = files::read(file, name, offset, CONTENT_AT)?;
        let shown = decode_facts(&b, &head.store_id)
            .map(|(_, facts)| fields(dictionary::Layout::ROWS, &b, [("header", vec![("id", facts.id.to_string())])]));
        if progress(item(offset, half as usize, "dictionary", shown)).is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// Lists both copies of the superblock and the list of begun segments.
fn superblock(file: &dyn File, name: &str, progress: &mut Progress<'_, Inspected>) -> Result<()> {
    for offset in COPIES {
        let b = files::read(file, name, offset, BYTES)?;
        let shown = Superblock::decode(&b).map(|_| fields(superblock::Layout::ROWS, &b, []));
        if progress(item(offset, BYTES, "superblock", shown)).is_break() {
            return Ok(());
        }
    }
    let b = files::read(file, name, rolls::AT, rolls::BYTES)?;
    let shown = Rolls::decode(&b).map(|begun| {
        let ordinals: Vec<String> = begun.after(0).map(|ordinal| ordinal.to_string()).collect();
        fields(rolls::Layout::ROWS, &b, [("bits", vec![("segments", ordinals.join(" "))])])
    });
    let _ = progress(item(rolls::AT, rolls::BYTES, "begun segments", shown));
    Ok(())
}

type Shown = (String, Fields);

fn log<F: Framing>(
    file: &dyn File,
    name: &str,
    framing: F,
    fields: &dyn Fn(&[u8]) -> Shown,
    progress: &mut Progress<'_, Inspected>,
) -> Result<()> {
    let mut scan = Scan::new(file, name.to_owned(), framing, header::BYTES as u64, u64::MAX)?;
    loop {
        let offset = scan.offset();
        let Some(found) = scan.next()? else { break };
        let found = match found {
            Item::Gap { offset, bytes, what } => item(offset, bytes as usize, "gap", Err(what)),
            Item::Filler { bytes } => item(offset, bytes as usize, "filler", Ok(Fields::new())),
            Item::Record { offset, bytes } => {
                let (kind, fields) = fields(bytes);
                item(offset, bytes.len(), &kind, Ok(fields))
            }
        };
        if progress(found).is_break() {
            break;
        }
    }
    Ok(())
}

fn value_fields(b: &[u8]) -> Shown {
    let Ok(h) = value::peek(b) else { return ("record".into(), Fields::new()) };
    let words = [word("kind", lower(h.kind)), word("codec", lower(h.codec)), word("meta_codec", lower(h.meta_codec))];
    let mut shown = fields(value::Layout::ROWS, &b[..h.key_at()], words);
    shown.push(("key", String::from_utf8_lossy(&b[h.key_at()..h.meta_at()]).into_owned()));
    if h.kind == value::Kind::Reference {
        shown.push(("refers_to", value::referred_to(&b[h.payload_at()..]).to_string()));
    }
    if let Some(removed) = value::Removed::of(&h, b) {
        let Version { time_ms, sequence } = removed.version;
        shown.push(("removes", format!("{time_ms}:{sequence}")));
        shown.push(("parted_below", removed.parted_below.to_string()));
    }
    (format!("{} record", lower(h.kind)), shown)
}

/// Formats a key-log address as segment:offset.
fn place(address: u64) -> String {
    if address == 0 {
        return "none".into();
    }
    format!("{}:{}", key::segment_of(address), key::offset_of(address))
}

fn key_fields(b: &[u8]) -> Shown {
    let Ok(r) = KeyRecord::peek(b) else { return ("key record".into(), Fields::new()) };
    let end = (r.key_at() + r.key_bytes as usize).min(b.len());
    let words = [
        ("key_bytes", vec![("key_bytes", r.key_bytes.to_string()), ("chunked", r.chunked.to_string())]),
        (
            "extent",
            vec![
                ("segment", r.extent.location.segment.to_string()),
                ("offset", r.extent.location.offset().to_string()),
                ("bytes", r.extent.bytes().to_string()),
            ],
        ),
        ("previous", vec![("previous", place(r.previous)), ("chain", r.chain.to_string())]),
        word("holder", place(r.holder)),
    ];
    let mut shown = fields(key::Layout::ROWS, &b[..r.key_at()], words);
    shown.push(("key", String::from_utf8_lossy(&b[r.key_at()..end]).into_owned()));
    ("key record".into(), shown)
}

fn pages(file: &dyn File, name: &str, seed: u32, progress: &mut Progress<'_, Inspected>) -> Result<()> {
    let len = file.len().map_err(Error::io("measure", name))?;
    for page in 1..u32::try_from(len / PAGE_BYTES as u64).unwrap_or(u32::MAX) {
        let offset = u64::from(page) * PAGE_BYTES as u64;
        let (kind, shown) = page_fields(seed, page, &files::read(file, name, offset, PAGE_BYTES)?);
        if progress(item(offset, PAGE_BYTES, kind, shown)).is_break() {
            break;
        }
    }
    Ok(())
}

fn page_fields(seed: u32, page: u32, b: &[u8]) -> (&'static str, std::result::Result<Fields, Flaw>) {
    if b.len() == PAGE_BYTES && node::is_node(b) {
        return ("node", node::decode(seed, page, b).map(|_| fields(node::Layout::ROWS, b, [])));
    }
    match if b.len() == PAGE_BYTES { run::kind_of(b) } else { None } {
        Some(run::Kind::Changes) => {
            return ("changes", run::decode(seed, page, b).map(|read| changes_fields(&read.changes, b)));
        }
        Some(run::Kind::Summary) => {
            let shown = Summary::decode(seed, page, b).map(|_| fields(run::SummaryLayout::ROWS, b, []));
            return ("summary", shown);
        }
        None => {}
    }
    match leaf::decode(seed, page, b) {
        Err(_) if all_zero(b) => ("unused page", Ok(Fields::new())),
        Err(what) => ("leaf", Err(what)),
        Ok(leaf) => {
            let slots: Vec<String> = leaf.slots.iter().map(slot_text).collect();
            let mut shown = fields(leaf::Layout::ROWS, b, [word("prefix", format!("{:x}", leaf.prefix))]);
            shown.push(("slot_list", slots.join(" ")));
            ("leaf", Ok(shown))
        }
    }
}

/// A slot as `hash->key@segment:offset`.
fn slot_text(slot: &Slot) -> String {
    let (segment, offset) = (slot.location.segment, slot.location.offset());
    format!("{:010x}->{}@{segment}:{offset}", slot.hash, place(slot.key))
}

/// The fields of a page of changes; each change as the slot that it replaces, if any, and the new
/// slot.
fn changes_fields(changes: &[Change], b: &[u8]) -> Fields {
    let text = |change: &Change| {
        let slot = if change.removes() { format!("{:010x}-", change.hash()) } else { slot_text(&change.slot) };
        let replaced = if change.replaces == 0 { String::new() } else { format!("{}=", place(change.replaces)) };
        replaced + &slot
    };
    let mut shown = fields(run::Layout::ROWS, b, []);
    shown.push(("change_list", changes.iter().map(text).collect::<Vec<_>>().join(" ")));
    shown
}
