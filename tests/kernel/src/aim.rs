//! Failures of a device: the writes of one file, recognised by their bytes; its flushes; or
//! everything.

use crate::visitor::{BODY_MARK, KEY_MARK};

/// The calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Blocks of a segment that hold records of a [visitor](crate::visitor).
    Segment,
    /// The header of a segment that has no record yet.
    SegmentHeader,
    /// Blocks of key0.dat.
    Keys,
    /// Leaf pages of address.idx.
    Leaves,
    /// Blocks of SUPERBLOCK.
    Superblock,
    /// Flushes, and no write.
    Flushes,
    /// Every write.
    Everything,
}

const ALL: [Aim; 7] =
    [Aim::Segment, Aim::SegmentHeader, Aim::Keys, Aim::Leaves, Aim::Superblock, Aim::Flushes, Aim::Everything];

impl Aim {
    /// A number that stands for it.
    pub fn number(self) -> u64 {
        self as u64
    }

    /// The one that a number stands for.
    pub fn of(number: u64) -> Option<Aim> {
        ALL.into_iter().find(|aim| aim.number() == number)
    }

    /// Returns whether the write of a block of 4096 bytes fails.
    pub fn hits(self, block: &[u8]) -> bool {
        let has = |mark: &[u8]| block.windows(mark.len()).any(|w| w == mark);
        match self {
            Aim::Segment => has(BODY_MARK),
            Aim::SegmentHeader => block.starts_with(b"FMVALUE\0") && !has(BODY_MARK),
            Aim::Keys => has(KEY_MARK) && !has(BODY_MARK),
            // By its kind, its depth, and the bytes that are zero in every leaf.
            Aim::Leaves => {
                let shaped = block.len() == 4096 && block[4] == 1 && (7..48).contains(&block[5]);
                shaped && block[24..32] == [0; 8] && !has(KEY_MARK) && !has(BODY_MARK)
            }
            Aim::Superblock => block.starts_with(b"FILEMAP\0"),
            Aim::Flushes => false,
            Aim::Everything => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_each_aim() {
        for aim in ALL {
            assert_eq!(Aim::of(aim.number()), Some(aim));
        }
        assert_eq!(Aim::of(ALL.len() as u64), None);
    }
}
