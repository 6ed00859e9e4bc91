//! The manifest: the file with the set's name, which names the live files.
//!
//! It is replaced as a whole after all that it names is durable, names included: every crash
//! leaves a manifest whose files exist. Other files of the set are leftovers, removed at the next
//! opening.

use filemap_io::header::seal;
use filemap_io::{Access, Advice, Dir};
use filemap_runs::RunInfo;
use filemap_runs::fixed::Fixed;

use super::key::FingerprintBits;
use crate::error::{Error, Result};
use crate::files::{read_whole, replace_by};
use crate::format::{DISK, ManifestHeader, ManifestRun};

const HEADER_BYTES: usize = ManifestHeader::BYTES;
const RUN_BYTES: usize = ManifestRun::BYTES;
const CRC_BYTES: usize = 4;
/// Maximum length, far above that of any set.
const BYTES_MAX: u64 = 1 << 20;
/// Bound of block and file numbers, far above those of any set.
const BLOCKS_MAX: u64 = 1 << 40;
const NUMBER_MAX: u64 = 1 << 60;

/// Kind of a set's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// URLs: 24 bits are the host's.
    Urls = 0,
    /// Digests of bodies: their first bits.
    Digests = 1,
}

impl Keys {
    fn of_code(code: u16) -> Option<Keys> {
        [Keys::Urls, Keys::Digests].into_iter().find(|keys| *keys as u16 == code)
    }
}

/// A run, with what only the set records about it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RunEntry {
    pub(super) info: RunInfo,
    /// Time at which its entries were inserted (see [`super::options`]).
    pub(super) generation: u64,
    /// Sum over classes of the squared number of URLs: determines collisions.
    pub(super) squares: f64,
}

impl RunEntry {
    fn is_possible(&self) -> bool {
        self.info.is_possible::<Fixed>() && self.squares >= 0.0 && self.squares.is_finite()
    }
}

/// Contents of the manifest.
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
    pub(super) tombstones_ever: u64,
    /// Sets with one id and one branch never give a number to two files.
    pub(super) branch: u64,
    /// The oldest first.
    pub(super) runs: Vec<RunEntry>,
}

impl Manifest {
    /// # Errors
    /// `Unsupported` if the set's fingerprints stand for something else.
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

    /// Replaces the set's manifest.
    pub(super) fn write(&self, dir: &dyn Dir, name: &str) -> Result<()> {
        replace_by(dir, name, &self.encode())
    }

    /// Reads a set's manifest.
    pub(super) fn read(dir: &dyn Dir, name: &str) -> Result<Manifest> {
        let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
        file.advise(Advice::DropCache, 0, 0);
        Manifest::decode(&read_whole(&*file, name, BYTES_MAX)?, name)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.disk_bytes() as usize];
        DISK.begin(&mut bytes);
        ManifestHeader::BITS.put(&mut bytes, self.bits.bits() as u16);
        ManifestHeader::KEYS.put(&mut bytes, self.keys as u16);
        ManifestHeader::ID.put(&mut bytes, self.id);
        ManifestHeader::SEED.put(&mut bytes, self.seed);
        ManifestHeader::MAX_AGE_MS.put(&mut bytes, self.max_age_ms);
        ManifestHeader::NEXT_NUMBER.put(&mut bytes, self.next_number);
        ManifestHeader::LOG_NUMBER.put(&mut bytes, self.log_number);
        ManifestHeader::LOG_GENERATION.put(&mut bytes, self.log_generation);
        ManifestHeader::URLS.put(&mut bytes, self.urls);
        ManifestHeader::TOMBSTONES_EVER.put(&mut bytes, self.tombstones_ever);
        ManifestHeader::RUNS.put(&mut bytes, self.runs.len() as u64);
        ManifestHeader::BRANCH.put(&mut bytes, self.branch);
        for (run, bytes) in self.runs.iter().zip(bytes[HEADER_BYTES..].chunks_exact_mut(RUN_BYTES)) {
            ManifestRun::NUMBER.put(bytes, run.info.number);
            ManifestRun::GENERATION.put(bytes, run.generation);
            ManifestRun::BLOCKS.put(bytes, run.info.blocks);
            ManifestRun::URLS.put(bytes, run.info.live);
            ManifestRun::TOMBSTONES.put(bytes, run.info.tombstones);
            ManifestRun::SQUARES.put(bytes, run.squares);
        }
        seal(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8], name: &str) -> Result<Manifest> {
        let corrupt = |offset: usize, what: &str| Err(Error::corrupt(name, offset as u64, what));
        DISK.check_magic(name, bytes)?;
        if bytes.len() < HEADER_BYTES + CRC_BYTES {
            return corrupt(bytes.len(), "the file ends in its header");
        }
        DISK.check(name, bytes)?;
        let Some(bits) = FingerprintBits::of_bits(u32::from(ManifestHeader::BITS.get(bytes))) else {
            return corrupt(ManifestHeader::BITS.at, "impossible number of fingerprint bits");
        };
        let Some(keys) = Keys::of_code(ManifestHeader::KEYS.get(bytes)) else {
            return corrupt(ManifestHeader::KEYS.at, "impossible kind of keys");
        };
        let runs = bytes[HEADER_BYTES..bytes.len() - CRC_BYTES].chunks(RUN_BYTES);
        if runs.clone().any(|run| run.len() < RUN_BYTES) || runs.len() as u64 != ManifestHeader::RUNS.get(bytes) {
            return corrupt(ManifestHeader::RUNS.at, "wrong count of runs");
        }
        let run = |bytes: &[u8]| RunEntry {
            info: RunInfo {
                number: ManifestRun::NUMBER.get(bytes),
                blocks: ManifestRun::BLOCKS.get(bytes),
                live: ManifestRun::URLS.get(bytes),
                tombstones: ManifestRun::TOMBSTONES.get(bytes),
            },
            generation: ManifestRun::GENERATION.get(bytes),
            squares: ManifestRun::SQUARES.get(bytes),
        };
        let runs: Vec<RunEntry> = runs.map(run).collect();
        // Later computations with sizes and numbers cannot overflow.
        if !runs.iter().all(RunEntry::is_possible) || runs.iter().map(|run| run.info.blocks).sum::<u64>() > BLOCKS_MAX {
            return corrupt(HEADER_BYTES, "impossible number of blocks or entries of a run");
        }
        let urls = ManifestHeader::URLS.get(bytes);
        if urls > runs.iter().map(|run| run.info.live).sum() {
            return corrupt(ManifestHeader::URLS.at, "more URLs than its runs have");
        }
        let (next_number, log_number) = (ManifestHeader::NEXT_NUMBER.get(bytes), ManifestHeader::LOG_NUMBER.get(bytes));
        if next_number > NUMBER_MAX
            || log_number >= next_number
            || runs.iter().any(|run| run.info.number >= next_number)
        {
            return corrupt(ManifestHeader::NEXT_NUMBER.at, "a file's number is not below the next one");
        }
        Ok(Manifest {
            bits,
            keys,
            id: ManifestHeader::ID.get(bytes),
            seed: ManifestHeader::SEED.get(bytes),
            max_age_ms: ManifestHeader::MAX_AGE_MS.get(bytes),
            next_number,
            log_number,
            log_generation: ManifestHeader::LOG_GENERATION.get(bytes),
            urls,
            tombstones_ever: ManifestHeader::TOMBSTONES_EVER.get(bytes),
            branch: ManifestHeader::BRANCH.get(bytes),
            runs,
        })
    }
}
