//! A small frontier's files, and right checksums over whatever was done to them.
//!
//! The checksums are written after the tables in docs/FRONTIER.md, not with the frontier's code.

use std::collections::BTreeMap;

use filemap_io::sim::SimDisk;
use frontier::{Fetched, Frontier, FrontierOptions, Next, Recrawl, Result};

/// The files of a frontier.
pub type Image = BTreeMap<String, Vec<u8>>;

/// Little memory, short journals, pages that are fetched again, hosts that rest.
pub fn options() -> FrontierOptions {
    let recrawl = Recrawl::new().first_ms(60_000).min_ms(1_000).max_ms(600_000);
    FrontierOptions::new()
        .host_failures_max(u16::MAX)
        .delay_ms(500)
        .connections(4)
        .journal_bytes_min(4096)
        .memory_bytes(8192)
        .recrawl(Some(recrawl))
}

/// Number `i` of the URLs.
pub fn url(i: u32) -> String {
    format!("http://h{}.example/{i}", i % 6)
}

/// The files of a frontier that was closed: with a snapshot, batches behind it, and pages on both
/// sides of it.
pub fn image() -> Image {
    let disk = SimDisk::new(1);
    make(&disk).expect("a simulated disk");
    let names = disk.names().into_iter().filter(|name| !name.ends_with(".lock"));
    names.map(|name| (name.clone(), disk.bytes(&name).unwrap_or_default())).collect()
}

fn make(disk: &SimDisk) -> Result<()> {
    let mut frontier = Frontier::create_in(disk.dir(), options())?;
    frontier.seed(&[&url(0), &url(1)], 0)?;
    frontier.host_delay("h1.example", Some(100))?;
    for i in 0..120u32 {
        let now_ms = i64::from(i) * 700;
        let Next::Fetch(assignment) = frontier.next(now_ms)? else { continue };
        let links: Vec<String> = (0..4).map(|link| url(i * 2 + link)).collect();
        let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
        frontier.done(assignment.page, &Fetched { fetched_at_ms: now_ms, links: &links, ..Fetched::default() })?;
        if i % 9 == 0 {
            frontier.commit()?;
        }
    }
    frontier.close()
}

fn hash(parts: &[&[u8]]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().to_le_bytes()
}

fn number(bytes: &[u8], at: usize, width: usize) -> usize {
    let mut number = [0; 8];
    number[..width].copy_from_slice(&bytes[at..at + width]);
    usize::try_from(u64::from_le_bytes(number)).unwrap_or(usize::MAX)
}

/// Makes the checksums of a file right.
pub fn seal(image: &mut Image, name: &str) {
    let Some(file) = image.get_mut(name).filter(|file| file.len() >= 512) else { return };
    let sum = hash(&[&file[..508]]);
    file[508..512].copy_from_slice(&sum);
    let (id, of) = (file[16..32].to_vec(), file[32..40].to_vec());
    match name.rsplit('.').next() {
        Some("snapshot") => {
            for (block, bytes) in file[512..].chunks_mut(64 << 10).enumerate().filter(|(_, bytes)| bytes.len() > 4) {
                let sum = hash(&[&id, &of, &(block as u64).to_le_bytes(), &bytes[4..]]);
                bytes[..4].copy_from_slice(&sum);
            }
        }
        Some("journal") => records(file, 24, (8, 8), |at, _, rest| hash(&[&id, &of, &at.to_le_bytes(), rest])),
        Some("links") => records(file, 8, (4, 4), |at, _, rest| hash(&[&id, &of, &at.to_le_bytes(), rest])),
        Some("pages") => seal_rows(image, name),
        _ => records(file, 8, (4, 2), |_, nth, rest| hash(&[&id, &nth.to_le_bytes(), rest])),
    }
}

/// Makes right what the snapshot says of blocks of rows: their checksums, and what they hold.
fn seal_rows(image: &mut Image, name: &str) {
    let Some(file) = image.get(name).cloned() else { return };
    let Some(snapshot) = image.get_mut("frontier.snapshot").filter(|file| file.len() > 1024) else { return };
    // After the hosts, each with a name and 40 bytes. It is one block.
    let (pages, hosts) = (number(snapshot, 516, 4), number(snapshot, 520, 4));
    let mut at = 524 + 21 * 8 + 7 * 4;
    for _ in 0..hosts {
        let Some(name) = snapshot.get(at..at + 2) else { return };
        at += 2 + number(name, 0, 2) + 40;
    }
    for block in 0..pages.div_ceil(170) {
        let Some(named) = snapshot.get_mut(at + 16 * block..).and_then(|rest| rest.get_mut(..16)) else { return };
        let start = (1 + number(named, 0, 4)) * 4096;
        let Some(bytes) = file.get(start..start + 4096) else { continue };
        named[4..8].copy_from_slice(&hash(&[&file[16..32], &(block as u32).to_le_bytes(), bytes]));
        let rows = bytes.chunks_exact(24).take(pages - 170 * block);
        let held = rows.fold(0u64, |sum, row| sum.wrapping_add(number(row, 0, 8) as u64));
        named[8..16].copy_from_slice(&held.to_le_bytes());
    }
    seal(image, "frontier.snapshot");
}

/// Seals records that begin with a checksum and say how long they are: by offset, number and
/// contents. Batches begin at multiples of 512.
fn records(file: &mut [u8], head: usize, len: (usize, usize), sum: impl Fn(u64, u32, &[u8]) -> [u8; 4]) {
    let (mut at, mut nth) = (512, 0);
    while at + head <= file.len() {
        let end = number(file, at + len.0, len.1).saturating_add(at + head);
        if end > file.len() {
            return;
        }
        let right = sum(at as u64, nth, &file[at + 4..end]);
        file[at..at + 4].copy_from_slice(&right);
        at = if head == 24 { end.next_multiple_of(512) } else { end };
        nth += 1;
    }
}
