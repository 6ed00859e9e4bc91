//! Draws what a power loss may leave of a simulated disk.

use std::collections::{BTreeMap, HashSet};

use super::state::{Inode, Sector, Snapshot, State, put_sector, sector};
use super::{SECTOR_BYTES, SimDisk};

/// Ordering guarantees of a crash image.
///
/// ```
/// use filemap_io::Access;
/// use filemap_io::sim::{Level, Loss, SimDisk};
/// let disk = SimDisk::new(1);
/// disk.dir().open("f", Access::Create)?.sync()?;
/// // The directory was not synced; where names are in order, the file's sync takes its own along.
/// assert_eq!(disk.crash(Level::Ordered, Loss::Everything, 7).names(), ["f"]);
/// assert!(disk.crash(Level::Adversarial, Loss::Everything, 7).names().is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As ext4 with ordered data: name changes survive in order, a length implies its bytes, a
    /// file's sync makes earlier name changes durable.
    Ordered,
    /// Everything not synced is lost or kept independently; a new length may survive without its
    /// bytes.
    Adversarial,
}

/// The part of the unsynced data that is lost.
///
/// ```
/// use filemap_io::Access;
/// use filemap_io::sim::{Level, Loss, SimDisk};
/// let disk = SimDisk::new(1);
/// let file = disk.dir().open("f", Access::Create)?;
/// disk.dir().sync()?;
/// file.write_at(b"bytes", 0)?;
/// let left = |loss| disk.crash(Level::Ordered, loss, 7).bytes("f");
/// assert_eq!(left(Loss::Everything), Some(Vec::new()));
/// assert_eq!(left(Loss::Nothing), Some(b"bytes".to_vec()));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Everything.
    Everything,
    /// Nothing.
    Nothing,
    /// Some files wholly, some not, some in part; a sector keeps any one of its contents.
    Random,
    /// As `Random`; bytes under a new length that were never written are garbage (`Adversarial`
    /// only).
    Garbage,
}

impl Loss {
    /// All variants.
    pub const ALL: [Loss; 4] = [Loss::Everything, Loss::Nothing, Loss::Random, Loss::Garbage];
}

/// Fate of one file in a crash.
#[derive(Clone, Copy)]
enum Fate {
    Lost,
    Kept,
    /// Each sector independently, kept with this probability in percent.
    Mixed(u8),
}

impl Snapshot<'_> {
    /// Number of calls so far that could have failed.
    pub fn calls(&self) -> u64 {
        self.state.calls.len() as u64
    }

    /// Returns whether a call has been made to fail.
    pub fn has_failed(&self) -> bool {
        self.state.failed > 0
    }

    /// Returns whether a file has bytes that are only in the cache.
    pub fn is_dirty(&self, name: &str) -> bool {
        self.state.named(name).is_some_and(|f| !f.dirty.is_empty())
    }

    /// Returns whether names were added or removed since the directory was synced.
    pub fn has_new_names(&self) -> bool {
        !self.state.changes.is_empty()
    }

    /// The disk as the next process finds it after this one is killed now.
    pub fn kill(&self) -> SimDisk {
        let mut next = State::new(self.state.rng.clone().u64(..));
        next.files = self.state.files.iter().map(|f| Inode { maps: Vec::new(), ..f.clone() }).collect();
        next.live = self.state.live.clone();
        next.durable = self.state.durable.clone();
        next.changes = self.state.changes.clone();
        SimDisk::from_state(next)
    }

    /// A disk as it may be found after a power loss now.
    pub fn crash(&self, level: Level, loss: Loss, seed: u64) -> SimDisk {
        let mut rng = fastrand::Rng::with_seed(seed);
        let names = self.names(level, loss, &mut rng);
        let mut next = State::new(rng.u64(..));
        let mut moved = BTreeMap::new();
        for (name, id) in names {
            let new = *moved.entry(id).or_insert_with(|| {
                let bytes = self.file(&self.state.files[id], level, loss, &mut rng);
                next.files.push(Inode { live: bytes.clone(), durable: bytes, ..Inode::default() });
                next.files.len() - 1
            });
            next.live.insert(name, new);
        }
        next.durable = next.live.clone();
        SimDisk::from_state(next)
    }

    fn names(&self, level: Level, loss: Loss, rng: &mut fastrand::Rng) -> BTreeMap<String, usize> {
        let changes = &self.state.changes;
        let journaled = changes.iter().rposition(|c| c.journaled).map_or(0, |at| at + 1);
        let prefix = match loss {
            Loss::Everything => journaled,
            Loss::Nothing => changes.len(),
            Loss::Random | Loss::Garbage => rng.usize(journaled..=changes.len()),
        };
        let mut names = self.state.durable.clone();
        for (at, change) in changes.iter().enumerate() {
            let kept = match (level, loss) {
                (Level::Ordered, _) => at < prefix,
                (Level::Adversarial, Loss::Everything) => false,
                (Level::Adversarial, Loss::Nothing) => true,
                (Level::Adversarial, _) => rng.bool(),
            };
            if kept {
                change.apply(&mut names);
            }
        }
        names
    }

    fn file(&self, file: &Inode, level: Level, loss: Loss, rng: &mut fastrand::Rng) -> Vec<u8> {
        let fate = match loss {
            Loss::Everything => Fate::Lost,
            Loss::Nothing => Fate::Kept,
            Loss::Random | Loss::Garbage => match rng.u8(..6) {
                0 => Fate::Lost,
                1 => Fate::Kept,
                2 => Fate::Mixed(10),
                3 => Fate::Mixed(90),
                _ => Fate::Mixed(50),
            },
        };
        let durable = file.durable.len();
        let len = match fate {
            Fate::Lost => durable,
            Fate::Kept => *file.lengths.last().unwrap_or(&durable),
            Fate::Mixed(_) => match rng.usize(..=file.lengths.len()) {
                0 => durable,
                n => file.lengths[n - 1],
            },
        };
        let mut bytes = file.durable.clone();
        bytes.resize(len, 0);
        let mut kept = HashSet::new();
        for (&number, contents) in &file.dirty {
            let is_kept = match fate {
                Fate::Lost => false,
                Fate::Kept => true,
                Fate::Mixed(chance) => {
                    let is_new = level == Level::Ordered && (number + 1) * SECTOR_BYTES > durable;
                    is_new || rng.u8(..100) < chance
                }
            };
            if is_kept {
                let which = if let Fate::Mixed(_) = fate { rng.usize(..contents.len()) } else { contents.len() - 1 };
                put_sector(&mut bytes, number, &contents[which]);
                kept.insert(number);
            }
        }
        if loss == Loss::Garbage && level == Level::Adversarial {
            let first = durable.div_ceil(SECTOR_BYTES);
            let mut source = None;
            for number in (first..len.div_ceil(SECTOR_BYTES)).filter(|n| !kept.contains(n)) {
                let garbage = self.garbage(&mut source, rng);
                put_sector(&mut bytes, number, &garbage);
            }
        }
        bytes
    }

    /// Previous contents of the device: noise, or consecutive sectors of some file. `source` is
    /// the file and sector of the last one.
    fn garbage(&self, source: &mut Option<(usize, usize)>, rng: &mut fastrand::Rng) -> Sector {
        let files = &self.state.files;
        let sectors = |file: usize| files[file].live.len().div_ceil(SECTOR_BYTES);
        *source = match *source {
            Some((file, at)) if at + 1 < sectors(file) && rng.u8(..8) > 0 => Some((file, at + 1)),
            _ => {
                let file = rng.usize(..files.len());
                (sectors(file) > 0 && rng.u8(..4) > 0).then(|| (file, rng.usize(..sectors(file))))
            }
        };
        if let Some((file, at)) = *source {
            return sector(&files[file].live, at);
        }
        let mut noise = [0; SECTOR_BYTES];
        rng.fill(&mut noise);
        noise
    }
}
