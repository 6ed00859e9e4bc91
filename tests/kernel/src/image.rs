//! The bytes of a disk, and what a power loss may leave of them.
//!
//! An [`Image`] shares its pages with its copies until they are written. Writes before the last
//! flush are there; each later write, and each of its sectors of 512 bytes, may be there or not.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::random::Random;

const PAGE: usize = 4096;
/// The unit that a disk writes as a whole.
pub const SECTOR: usize = 512;
/// The file system's superblock lies below: ext4 writes its two sectors in place and takes them
/// for one piece, so that when they are torn nothing can be mounted. That says nothing of the
/// store: such a write is lost or kept as a whole.
const SUPERBLOCK_END: u64 = 4096;

/// The content of a disk.
#[derive(Clone, Debug)]
pub struct Image {
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
}

/// A command to a disk.
#[derive(Clone, Debug)]
pub enum Event {
    /// Bytes at an offset.
    Write(u64, Arc<[u8]>),
    /// Everything before it is durable when it returns.
    Flush,
}

impl Image {
    /// A disk of zeros; `bytes` is a multiple of 4096.
    pub fn new(bytes: u64) -> Image {
        Image { pages: vec![None; bytes as usize / PAGE] }
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }

    /// Reads; what lies past the end is left out.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let end = (offset as usize).saturating_add(len).min(self.pages.len() * PAGE);
        let mut at = (offset as usize).min(end);
        let mut bytes = Vec::with_capacity(end - at);
        while at < end {
            let (page, from) = (at / PAGE, at % PAGE);
            let to = PAGE.min(from + end - at);
            match &self.pages[page] {
                Some(p) => bytes.extend_from_slice(&p[from..to]),
                None => bytes.resize(bytes.len() + to - from, 0),
            }
            at += to - from;
        }
        bytes
    }

    /// Writes; whether it was within the disk.
    pub fn write(&mut self, offset: u64, mut data: &[u8]) -> bool {
        let mut at = offset as usize;
        if at + data.len() > self.pages.len() * PAGE {
            return false;
        }
        while !data.is_empty() {
            let (page, from) = (at / PAGE, at % PAGE);
            let (now, rest) = data.split_at(data.len().min(PAGE - from));
            let bytes = self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(bytes)[from..from + now.len()].copy_from_slice(now);
            at += now.len();
            data = rest;
        }
        true
    }

    /// Writes it into a file, for a person to mount and look at.
    ///
    /// # Errors
    /// Those of the file.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let file = std::fs::File::create(path)?;
        file.set_len(self.bytes())?;
        for (nth, page) in self.pages.iter().enumerate() {
            if let Some(page) = page {
                file.write_all_at(&page[..], (nth * PAGE) as u64)?;
            }
        }
        Ok(())
    }

    /// Does all that a log says.
    pub fn apply(&mut self, log: &[Event]) {
        for event in log {
            if let Event::Write(offset, data) = event {
                self.write(*offset, data);
            }
        }
    }
}

/// The fate of the writes after the last flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All are lost.
    Lost,
    /// All are kept.
    Kept,
    /// Each is lost or kept.
    Subset,
    /// Each is lost, kept, or kept in some of its sectors.
    Torn,
}

impl Fate {
    /// A number that stands for it.
    pub fn number(self) -> u64 {
        self as u64
    }

    /// The one that a number stands for.
    pub fn of(number: u64) -> Fate {
        [Fate::Lost, Fate::Kept, Fate::Subset, Fate::Torn][(number % 4) as usize]
    }

    /// One of them.
    pub fn draw(random: &mut Random) -> Fate {
        match random.below(8) {
            0 => Fate::Lost,
            1 => Fate::Kept,
            2..5 => Fate::Subset,
            _ => Fate::Torn,
        }
    }
}

/// Number of events of a log that a flush at or before its end has made durable.
pub fn durable(log: &[Event]) -> usize {
    log.iter().rposition(|e| matches!(e, Event::Flush)).map_or(0, |at| at + 1)
}

/// The disk after a power loss at the end of `unflushed`, none of which was flushed.
pub fn crash(base: &Image, unflushed: &[Event], fate: Fate, random: &mut Random) -> Image {
    let mut image = base.clone();
    for event in unflushed {
        let Event::Write(offset, data) = event else { continue };
        let luck = match fate {
            Fate::Lost => 0,
            Fate::Kept => 1,
            Fate::Subset => random.below(2),
            Fate::Torn => random.below(3),
        };
        match luck {
            0 => {}
            1 => {
                image.write(*offset, data);
            }
            _ => {
                let kept = random.one_in(2);
                for (nth, sector) in data.chunks(SECTOR).enumerate() {
                    let at = offset + (nth * SECTOR) as u64;
                    if random.one_in(2) && at >= SUPERBLOCK_END || kept && at < SUPERBLOCK_END {
                        image.write(at, sector);
                    }
                }
            }
        }
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_reads_back_what_was_written_and_a_copy_keeps_the_old() {
        let mut image = Image::new(1 << 20);
        assert!(image.write(4000, &[7; 9000]));
        let copy = image.clone();
        assert!(image.write(8192, &[9; 512]));
        assert_eq!(image.read(3999, 2), [0, 7]);
        assert_eq!(image.read(8191, 2), [7, 9]);
        assert_eq!(copy.read(8191, 2), [7, 7]);
        assert_eq!(image.read(13_000, 2), [0, 0]);
        assert_eq!(image.read((1 << 20) - 1, 10), [0]);
        assert!(!image.write((1 << 20) - 1, &[1, 2]));
    }

    #[test]
    fn a_crash_keeps_loses_and_tears_whole_sectors() {
        let base = Image::new(1 << 20);
        let log: Vec<Event> = (0..50).map(|i| Event::Write(i * 8192, Arc::from(vec![i as u8 + 1; 4096]))).collect();
        let mut random = Random::new(3, 3);
        let sectors = |image: &Image| -> Vec<Vec<u8>> {
            (0..50).map(|i| image.read(i * 8192, 4096).chunks(SECTOR).map(|s| s[0]).collect()).collect()
        };
        let all = |n: u8| (1..=50).map(|i| vec![i * n; 8]).collect::<Vec<_>>();
        assert_eq!(sectors(&crash(&base, &log, Fate::Lost, &mut random)), all(0));
        assert_eq!(sectors(&crash(&base, &log, Fate::Kept, &mut random)), all(1));
        let subset = sectors(&crash(&base, &log, Fate::Subset, &mut random));
        assert!(subset.iter().all(|w| w.iter().all(|s| *s == w[0])) && subset != all(0) && subset != all(1));
        let torn = sectors(&crash(&base, &log, Fate::Torn, &mut random));
        assert!(torn.iter().any(|w| w.iter().any(|s| *s != w[0])));
        for seed in 0..50 {
            let torn = sectors(&crash(&base, &log[..1], Fate::Torn, &mut Random::new(seed, 0)));
            assert!(torn[0].iter().all(|s| *s == torn[0][0]), "the superblock is torn");
        }
    }

    #[test]
    fn what_precedes_the_last_flush_is_durable() {
        let write = Event::Write(0, Arc::from([1u8; 512]));
        assert_eq!(durable(&[]), 0);
        assert_eq!(durable(std::slice::from_ref(&write)), 0);
        assert_eq!(durable(&[write.clone(), Event::Flush, write.clone(), Event::Flush, write]), 4);
    }
}
