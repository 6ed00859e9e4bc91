//! The manifest: the file that bears the set's name and says which other files are alive.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 8 | magic `FMDSET01` |
//! | 8 | 2, 2 | the version that a reader, and a writer, must know |
//! | 12 | 2, 2 | bits of a fingerprint: 64 or 80; what they are of: 0 URLs, 1 digests of bodies |
//! | 16 | 16 | the set's id: random |
//! | 32 | 8, 8 | the hash's seed; the greatest age in ms, or 0 |
//! | 48 | 8 | the next file's number |
//! | 56 | 8, 8 | the log's number; its generation |
//! | 72 | 8, 8 | URLs in the runs; graves ever dug |
//! | 88 | 8 | n, the number of runs |
//! | 96 | 8 | the branch: random, another one in each snapshot |
//! | 104 | 48 n | of each run, the oldest first: number, generation, blocks, URLs, graves, squares (a double's bits) |
//! | 104 + 48 n | 4 | CRC-32 of what is before |
//!
//! All numbers are little-endian. It is replaced as a whole, after all that it names is durable, names included: so every crash leaves a
//! manifest whose files are there. Files of the set that it does not name are what a crash left; they are removed when it is opened.

use filemap_io::{Access, Advice, Dir};

use super::key::FingerprintBits;
use super::run::RunInfo;
use crate::error::{Error, Result};
use crate::files::{self, array};

/// With which the file of a set on disk begins.
pub(crate) const MAGIC: [u8; 8] = *b"FMDSET01";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 104;
const RUN_BYTES: usize = 48;
const CRC_BYTES: usize = 4;
/// No set has so many runs that its manifest would be larger.
const BYTES_MAX: u64 = 1 << 20;
/// No set has as many blocks, or ever has as many files.
const BLOCKS_MAX: u64 = 1 << 40;
const NUMBER_MAX: u64 = 1 << 60;

/// What the fingerprints of a set are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// URLs: 24 bits are the host's.
    Urls,
    /// Digests of bodies: their first bits.
    Digests,
}

impl Keys {
    fn code(self) -> u16 {
        match self {
            Keys::Urls => 0,
            Keys::Digests => 1,
        }
    }

    fn of_code(code: u16) -> Option<Keys> {
        [Keys::Urls, Keys::Digests].into_iter().find(|keys| keys.code() == code)
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest {
    pub(super) bits: FingerprintBits,
    pub(super) keys: Keys,
    pub(super) id: [u8; 16],
    pub(super) seed: u64,
    pub(super) max_age_ms: u64,
    pub(super) next_number: u64,
    pub(super) log_number: u64,
    pub(super) log_generation: u64,
    pub(super) urls: u64,
    pub(super) graves_ever: u64,
    /// Of sets with one id, those with one branch give each number to one file only.
    pub(super) branch: u64,
    /// The oldest first.
    pub(super) runs: Vec<RunInfo>,
}

impl Manifest {
    /// # Errors
    /// `Unsupported` when the set holds other things than those.
    pub(super) fn check_keys(&self, keys: Keys, name: &str) -> Result<()> {
        if self.keys == keys {
            return Ok(());
        }
        let (op, why) = match keys {
            Keys::Urls => ("be opened as a set of URLs", "it holds digests of bodies: open it as ContentSeen"),
            Keys::Digests => ("be opened as ContentSeen", "it holds URLs: open it as DiskUrlSet"),
        };
        Err(Error::Unsupported { file: name.to_owned(), op, why: why.to_owned() })
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        (HEADER_BYTES + RUN_BYTES * self.runs.len() + CRC_BYTES) as u64
    }

    /// Replaces the set's manifest by this one.
    pub(super) fn write(&self, dir: &dyn Dir, name: &str) -> Result<()> {
        let bytes = self.encode();
        files::replace(dir, name, |file, new| file.write_at(&bytes, 0).map_err(Error::io("write", new)))
    }

    /// Reads a set's manifest.
    pub(super) fn read(dir: &dyn Dir, name: &str) -> Result<Manifest> {
        let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
        file.advise(Advice::DropCache, 0, 0);
        let len = file.len().map_err(Error::io("length", name))?;
        if len > BYTES_MAX {
            return Err(Error::corrupt(name, BYTES_MAX, "no manifest is that long"));
        }
        let mut bytes = vec![0; len as usize];
        files::read_exact(&*file, name, &mut bytes, 0)?;
        Manifest::decode(&bytes, name)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.bits.bits() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.keys.code().to_le_bytes());
        bytes.extend_from_slice(&self.id);
        let numbers = [self.seed, self.max_age_ms, self.next_number, self.log_number, self.log_generation];
        let counts = [self.urls, self.graves_ever, self.runs.len() as u64, self.branch];
        numbers.into_iter().chain(counts).for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        for run in &self.runs {
            let numbers = [run.number, run.generation, run.blocks, run.urls, run.graves, run.squares.to_bits()];
            numbers.into_iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], name: &str) -> Result<Manifest> {
        let corrupt = |offset: usize, what: &str| Err(Error::corrupt(name, offset as u64, what));
        if bytes.len() < HEADER_BYTES + CRC_BYTES || bytes[..8] != MAGIC {
            return corrupt(0, "this is no set of URLs on disk");
        }
        let crc_at = bytes.len() - CRC_BYTES;
        if u32::from_le_bytes(array(bytes, crc_at)) != crc32fast::hash(&bytes[..crc_at]) {
            return corrupt(crc_at, "the manifest's checksum is another");
        }
        files::check_version(name, bytes, VERSION)?;
        let number = |at: usize| u64::from_le_bytes(array(bytes, at));
        let short = |at: usize| u16::from_le_bytes(array(bytes, at));
        let Some(bits) = FingerprintBits::of_bits(u32::from(short(12))) else {
            return corrupt(12, "no fingerprint has that many bits");
        };
        let Some(keys) = Keys::of_code(short(14)) else {
            return corrupt(14, "no fingerprint is of such things");
        };
        let runs = &bytes[HEADER_BYTES..crc_at];
        if !runs.len().is_multiple_of(RUN_BYTES) || (runs.len() / RUN_BYTES) as u64 != number(88) {
            return corrupt(88, "there are other runs than it counts");
        }
        let run = |at: usize| RunInfo {
            number: number(at),
            generation: number(at + 8),
            blocks: number(at + 16),
            urls: number(at + 24),
            graves: number(at + 32),
            squares: f64::from_bits(number(at + 40)),
        };
        let runs: Vec<RunInfo> = (HEADER_BYTES..crc_at).step_by(RUN_BYTES).map(run).collect();
        // So that sizes and numbers can be computed with, without care.
        if !runs.iter().all(RunInfo::is_possible) || runs.iter().map(|run| run.blocks).sum::<u64>() > BLOCKS_MAX {
            return corrupt(HEADER_BYTES, "no run has that many blocks, or as many entries in them");
        }
        if number(72) > runs.iter().map(|run| run.urls).sum() {
            return corrupt(72, "its runs have fewer URLs");
        }
        let next_number = number(48);
        if next_number > NUMBER_MAX || number(56) >= next_number || runs.iter().any(|run| run.number >= next_number) {
            return corrupt(48, "a file's number is not below the next one");
        }
        Ok(Manifest {
            bits,
            keys,
            id: array(bytes, 16),
            seed: number(32),
            max_age_ms: number(40),
            next_number,
            log_number: number(56),
            log_generation: number(64),
            urls: number(72),
            graves_ever: number(80),
            branch: number(96),
            runs,
        })
    }
}
