//! The layout of a zip file (APPNOTE 6.3.10, with zip64): every byte belongs to an entry, to the
//! central directory, or to a problem.
//!
//! A zip file describes each entry twice: in a local header before its data, and in the central
//! directory at the end of the file. Most programs trust the central directory and miss what it
//! lacks: a second zip file, an entry with a flipped bit. Here both are compared, and entries that
//! the central directory lacks are found by their local headers.
//!
//! Invariants: no byte belongs to two entries; entries come in the order of the central directory,
//! those that it lacks last; memory is bounded by [`MAX_LIST_BYTES`]; time is linear in the file.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use crate::warc::wacz::header::{CENTRAL, END, End, Header, LOCAL, LOCAL_BYTES, local_header, piece};

/// The longest central directory, and the limit for the names that it lacks: up to 180,000
/// entries, which take 70 MiB of memory.
pub(crate) const MAX_LIST_BYTES: u64 = 8 << 20;
/// The longest end of central directory record, with its comment.
const END_BYTES: u64 = 22 + 0xffff;
/// Number of bytes searched at once.
const STEP_BYTES: usize = 64 << 10;
/// Number of bytes searched first: most headers are near.
const FIRST_STEP_BYTES: usize = 1 << 10;
/// Maximum number of problems listed; more are only counted.
const MAX_PROBLEMS: usize = 1000;

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its header in the central directory.
    pub(crate) header: Header,
    /// The name in its local header, if that differs.
    pub(crate) other_name: Option<Vec<u8>>,
    /// Offset of its local header.
    pub(crate) offset: u64,
    /// Range of its data.
    pub(crate) data: Range<u64>,
    /// The checksum in its local header.
    pub(crate) other_crc: u32,
}

/// A problem in the zip file.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) offset: u64,
    /// The name of the entry that it concerns, if any.
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) what: String,
}

/// The parts of a zip file.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<Wrong>,
    /// Number of problems not listed.
    pub(crate) untold: u64,
}

impl Layout {
    fn problem(&mut self, at: u64, name: Option<&[u8]>, what: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Wrong { offset: at, name: name.map(<[u8]>::to_vec), what: what.into() });
        } else {
            self.untold += 1;
        }
    }
}

/// The central directory, and the offset that its offsets are relative to.
struct List {
    headers: Vec<Header>,
    bytes: Range<u64>,
    shift: u64,
}

/// Reads the layout; the inner error says why it cannot be read.
pub(crate) fn read<R: Read + Seek>(source: &mut R) -> io::Result<Result<Layout, String>> {
    let bytes = source.seek(SeekFrom::End(0))?;
    let mut layout = Layout::default();
    let list = match find_list(source, bytes, &mut layout)? {
        Ok(list) => list,
        Err(why) => return Ok(Err(why)),
    };
    let mut known: Vec<Range<u64>> = Vec::new();
    if let Some(list) = list {
        known.push(list.bytes.clone());
        place_entries(source, list, &mut layout, &mut known)?;
    }
    look_for_others(source, bytes, &mut layout, &mut known)?;
    name_twins(&mut layout);
    Ok(Ok(layout))
}

/// Finds the central directory; `None` if there is none.
fn find_list<R: Read + Seek>(
    source: &mut R,
    bytes: u64,
    layout: &mut Layout,
) -> io::Result<Result<Option<List>, String>> {
    let from = bytes.saturating_sub(END_BYTES);
    let tail = piece(source, from, END_BYTES as usize)?;
    let ends =
        memchr::memmem::rfind_iter(&tail, &END).filter_map(|at| Some((from + at as u64, End::parse(&tail[at..])?)));
    let ends: Vec<(u64, End)> = ends.collect();
    // The one that ends with the file, otherwise the last.
    let is_last = |(at, end): &&(u64, End)| at + end.bytes == bytes;
    let Some((at, mut end)) = ends.iter().find(is_last).or(ends.first()).cloned() else {
        layout.problem(from, None, "the zip file is damaged: its end of central directory record is missing");
        return Ok(Ok(None));
    };
    let after = at + end.bytes;
    if after != bytes {
        let what = format!("the zip file is damaged: by its end record it ends at {after}, but it has {bytes} bytes");
        layout.problem(at, None, what);
    }
    let mut begin = at;
    if let Some(found) = end.take_zip64(source, at)? {
        begin = found;
    }
    let before = begin.saturating_sub(end.list_bytes);
    let mut places = Vec::new();
    for place in [end.list_offset, before] {
        let is_empty = end.entries == 0 && place == begin;
        if place <= begin && (is_empty || piece(source, place, 4)? == CENTRAL) {
            places.push(place);
        }
    }
    let Some(&place) = places.last() else {
        if end.entries > 0 || end.list_bytes > 0 {
            layout.problem(at, None, "the zip file is damaged: its central directory is not where its end record says");
        }
        return Ok(Ok(None));
    };
    if begin - place > MAX_LIST_BYTES {
        return Ok(Err("the zip file is damaged: its central directory is too long".to_owned()));
    }
    let list = piece(source, place, usize::try_from(begin - place).unwrap_or(usize::MAX))?;
    let headers = headers_of(&list, place, layout);
    if headers.len() as u64 != end.entries {
        let what = format!(
            "the zip file is damaged: its end record counts {} entries, its central directory has {}",
            end.entries,
            headers.len()
        );
        layout.problem(at, None, what);
    }
    let mut shift = 0;
    if let (Some(first), true) = (headers.first(), place != end.list_offset) {
        let moved = place.wrapping_sub(end.list_offset);
        if piece(source, first.offset.wrapping_add(moved), 4)? == LOCAL {
            shift = moved;
        }
        let what = format!(
            "the zip file is damaged: its central directory is at {place}, its end record says {}",
            end.list_offset
        );
        layout.problem(at, None, what);
    }
    Ok(Ok(Some(List { headers, bytes: place..after.min(bytes), shift })))
}

/// Parses the headers in a central directory at `place`.
fn headers_of(list: &[u8], place: u64, layout: &mut Layout) -> Vec<Header> {
    let mut headers = Vec::new();
    let mut read = 0;
    while read < list.len() {
        if let Some(header) = Header::of_list(&list[read..]) {
            read += header.bytes;
            headers.push(header);
            continue;
        }
        let next = memchr::memmem::find(&list[read + 1..], &CENTRAL).map_or(list.len(), |at| read + 1 + at);
        let what = format!("the zip file is damaged: {} bytes of its central directory are not entries", next - read);
        layout.problem(place + read as u64, None, what);
        read = next;
    }
    headers
}

/// Finds the data of the entries in the central directory, and compares their headers.
fn place_entries<R: Read + Seek>(
    source: &mut R,
    list: List,
    layout: &mut Layout,
    known: &mut Vec<Range<u64>>,
) -> io::Result<()> {
    let mut starts: Vec<u64> = list.headers.iter().map(|header| header.offset.wrapping_add(list.shift)).collect();
    starts.push(list.bytes.start);
    starts.sort_unstable();
    let mut taken = std::collections::HashSet::new();
    for mut header in list.headers {
        let offset = header.offset.wrapping_add(list.shift);
        let name = header.name.clone();
        let Some(local) = local_header(source, offset)? else {
            layout.problem(
                offset,
                Some(&name),
                "the zip entry is damaged: no local header where the central directory says",
            );
            continue;
        };
        if !taken.insert(offset) {
            layout.problem(offset, Some(&name), "the zip entry is damaged: it overlaps another one and is left out");
            continue;
        }
        if let Some(what) = header.differs(&local) {
            layout.problem(offset, Some(&name), format!("the zip entry is damaged: {what}"));
        }
        header.settle(&local);
        let mut begin = offset + local.bytes as u64;
        let next = starts[starts.partition_point(|&start| start <= offset)..].first().copied();
        let next = next.unwrap_or(list.bytes.start).max(begin);
        // The lengths in a header may be wrong though the sizes are right.
        let before = next.checked_sub(header.packed_bytes).filter(|&before| before >= offset + LOCAL_BYTES as u64);
        if let Some(before) = before.filter(|_| header.packed_bytes == local.packed_bytes)
            && (local.name != header.name || begin > before)
        {
            begin = before;
        }
        // If two sizes differ, the right one is that after which something known begins.
        let ends_at = |header: &Header| begin.checked_add(header.packed_bytes).filter(|&end| end <= next);
        if local.has_sizes() && local.packed_bytes != header.packed_bytes {
            let of_list = ends_at(&header).is_some_and(|end| is_explained(&header, next - end));
            if !of_list && ends_at(&local).is_some_and(|end| is_explained(&local, next - end)) {
                (header.packed_bytes, header.bytes_out) = (local.packed_bytes, local.bytes_out);
            }
        }
        let end = ends_at(&header).unwrap_or_else(|| {
            layout.problem(offset, Some(&name), "the zip entry is damaged: its data overlaps what follows");
            next
        });
        let behind = piece(source, end, usize::try_from(next - end).unwrap_or(usize::MAX).min(24))?;
        known.push(offset..end + header.descriptor_bytes(&behind));
        let other_crc = if local.has_sizes() { local.crc } else { header.crc };
        let other_name = (local.name != header.name).then_some(local.name);
        layout.entries.push(Entry { header, other_name, offset, data: begin..end, other_crc });
    }
    Ok(())
}

/// Returns whether `bytes` bytes after an entry's data may be its descriptor.
fn is_explained(header: &Header, bytes: u64) -> bool {
    bytes == 0 || !header.has_sizes() && matches!(bytes, 12 | 16 | 20 | 24)
}

/// Reports bytes that belong to nothing known, and adds the entries among them.
fn look_for_others<R: Read + Seek>(
    source: &mut R,
    bytes: u64,
    layout: &mut Layout,
    known: &mut Vec<Range<u64>>,
) -> io::Result<()> {
    known.sort_by_key(|range| range.start);
    known.push(bytes..bytes);
    let (mut at, mut names) = (0, 0);
    for range in std::mem::take(known) {
        if range.start > at {
            let what = format!(
                "the zip file is damaged: {} bytes here belong to no entry of its central directory",
                range.start - at
            );
            layout.problem(at, None, what);
            entries_between(source, at..range.start, layout, &mut names)?;
        }
        at = at.max(range.end);
    }
    Ok(())
}

/// Adds the entries between these offsets, by their local headers.
fn entries_between<R: Read + Seek>(
    source: &mut R,
    place: Range<u64>,
    layout: &mut Layout,
    names: &mut u64,
) -> io::Result<()> {
    let mut at = place.start;
    while let Some(offset) = find(source, at..place.end, |_, bytes| bytes.starts_with(&LOCAL))? {
        at = offset + 1;
        *names += 64;
        if *names > MAX_LIST_BYTES {
            layout.problem(
                offset,
                None,
                "the zip file is damaged: too many entries are missing in its central directory; the rest is left out",
            );
            break;
        }
        let Some(mut header) = local_header(source, offset)? else { continue };
        let begin = offset + header.bytes as u64;
        *names += header.name.len() as u64;
        if begin > place.end {
            continue;
        }
        let mut behind = 0;
        if !header.has_sizes() {
            // The sizes are after the data.
            header.packed_bytes = place.end - begin;
            let found =
                find(source, begin..place.end, |end, bytes| header.clone().take_descriptor(bytes, end - begin))?;
            if let Some(end) = found {
                header.take_descriptor(&piece(source, end, 16)?, end - begin);
                behind = 16;
            }
        }
        let end = begin.saturating_add(header.packed_bytes).min(place.end);
        at = end.saturating_add(behind).min(place.end);
        let what = "the zip entry is damaged: it is missing in the central directory; it is read";
        layout.problem(offset, Some(&header.name), what);
        let other_crc = header.crc;
        layout.entries.push(Entry { header, other_name: None, offset, data: begin..end, other_crc });
    }
    Ok(())
}

/// Reports names that several entries share.
fn name_twins(layout: &mut Layout) {
    let mut names: Vec<(Vec<u8>, u64)> =
        layout.entries.iter().map(|entry| (entry.header.name.clone(), entry.offset)).collect();
    names.sort();
    let twins: Vec<_> = names.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1).map(<[_]>::to_vec).collect();
    for same in twins {
        let what = format!("the zip file is damaged: {} entries have this name; all are read", same.len());
        layout.problem(same[1].1, Some(&same[0].0), what);
    }
}

/// The first offset that `is_it` accepts. It gets the bytes from there on, at least 16 if
/// available.
fn find<R: Read + Seek>(
    source: &mut R,
    place: Range<u64>,
    is_it: impl Fn(u64, &[u8]) -> bool,
) -> io::Result<Option<u64>> {
    let (mut from, mut step) = (place.start, FIRST_STEP_BYTES);
    while from < place.end {
        let count = usize::try_from(place.end - from).unwrap_or(usize::MAX).min(step);
        let bytes = piece(source, from, count)?;
        let found = memchr::memmem::find_iter(&bytes, b"PK").find(|&at| is_it(from + at as u64, &bytes[at..]));
        if let Some(at) = found {
            return Ok(Some(from + at as u64));
        }
        if bytes.len() < count || from + count as u64 == place.end {
            return Ok(None);
        }
        from += (count - 16) as u64;
        step = (2 * step).min(STEP_BYTES);
    }
    Ok(None)
}
