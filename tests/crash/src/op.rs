//! The operations that random strings are made of.

use crate::world::{World, choice};

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A put of a new body of this length in bytes.
    Put { key: usize, time_ms: i64, bytes: usize },
    /// A put_if_changed of the newest body of the key, or of a new one where there is none.
    PutSame { key: usize, time_ms: i64 },
    /// A put of a new body, and a put_if_changed of the same.
    PutTwice { key: usize, time_ms: i64 },
    /// A batch of new bodies.
    Batch { keys: Vec<usize>, time_ms: i64 },
    /// A streamed put of a new body of this length in bytes.
    Stream { key: usize, time_ms: i64, bytes: usize },
    /// A streamed put, with a compaction in its middle that leaves no garbage.
    StreamOverCompaction { key: usize, time_ms: i64, bytes: usize },
    /// A remove.
    Remove { key: usize },
    /// A removal of one version, the nth that is there, with other operations between its steps.
    RemoveOne { key: usize, nth: usize },
    /// A sync.
    Sync,
    /// A checkpoint, with other operations between its steps.
    Checkpoint,
    /// A compaction that leaves no garbage, with other operations between its steps.
    Compact,
    /// All pages compressed again, with other operations between the steps.
    Recompress,
    /// Compaction of a segment of the key log, of one that is worth it or of any, with other
    /// operations between the steps of its checkpoints.
    CompactKeys { any: Option<usize> },
    /// Free pages of the index are given back.
    ShrinkIndex,
    /// A prune, with other operations between its steps.
    Prune { keep: Option<u32>, since_ms: Option<i64> },
    /// A backup to another disk, which is judged, with other operations between its steps; by a
    /// handle that only reads, or by the one that writes.
    Backup { by_reader: bool },
    /// A key is erased, in the end from every file; with other operations between the steps, or
    /// with none.
    Erase { key: usize, is_busy: bool },
    /// The work of background threads.
    Work,
    /// A put whose chunks do not fit into the segment.
    Roll,
    /// Puts of all keys, and a checkpoint: leaves that hold too many are split.
    Grow,
    /// Puts of alike bodies, a dictionary made of them, a put that is compressed with it, and a
    /// sync.
    Train { key: usize },
    /// A clean close, and open.
    Reopen,
    /// A long operation, during which another clone closes the handle, and a second writer
    /// opens the store and writes; then the first continues. The second writer is the one from
    /// there on.
    CloseInside { long: Long, after: usize, key: usize },
    /// A follower refreshes and reads everything.
    Follow,
}

/// A long operation during which a handle is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Long {
    Compact,
    Recompress,
    CompactKeys,
    ShrinkIndex,
    Prune,
    Train,
    Backup,
    Stream,
}

impl Long {
    const ALL: [Long; 8] = [
        Long::Compact,
        Long::Recompress,
        Long::CompactKeys,
        Long::ShrinkIndex,
        Long::Prune,
        Long::Train,
        Long::Backup,
        Long::Stream,
    ];
}

impl Op {
    /// An operation of a random string.
    pub fn random(rng: &mut fastrand::Rng, world: &World, keys: usize) -> Op {
        let key = if rng.bool() { 0 } else { rng.usize(..keys) };
        let time_ms = rng.i64(-2..6);
        let bytes = match rng.u8(..8) {
            0 => 0,
            1 => rng.usize(..2 * world.chunk_bytes as usize),
            _ => rng.usize(1..150),
        };
        loop {
            // Puts always occur.
            let (kind, op) = match rng.u8(..51) {
                0..=9 => return Op::Put { key, time_ms, bytes },
                10..=12 => (0, Op::PutSame { key, time_ms }),
                13..=14 | 35..=36 => (0, Op::PutTwice { key, time_ms }),
                15 => (1, Op::Batch { keys: (0..rng.usize(1..5)).map(|_| rng.usize(..keys)).collect(), time_ms }),
                16 => (2, Op::Stream { key, time_ms, bytes: rng.usize(..4 * world.chunk_bytes as usize) }),
                40 => {
                    (15, Op::StreamOverCompaction { key, time_ms, bytes: rng.usize(..6 * world.chunk_bytes as usize) })
                }
                17 if world.has(21) => (3, Op::RemoveOne { key, nth: bytes }),
                17..=18 => (3, Op::Remove { key }),
                19..=21 => (4, Op::Sync),
                22..=24 => (5, Op::Checkpoint),
                25..=27 => (6, Op::Work),
                28 => (7, Op::Roll),
                29 => (8, Op::Grow),
                30 => (9, Op::Reopen),
                31..=33 => (11, Op::Compact),
                34 => (12, Op::Recompress),
                37 => (14, Op::ShrinkIndex),
                38..=39 => (13, Op::CompactKeys { any: rng.bool().then(|| rng.usize(..16)) }),
                41..=42 => (16, Op::random_prune(rng)),
                43..=44 => (17, Op::Backup { by_reader: rng.bool() }),
                45 => (18, Op::Train { key }),
                46..=47 => (19, Op::Erase { key, is_busy: rng.bool() }),
                48..=49 => (20, Op::CloseInside { long: *choice(rng, &Long::ALL), after: rng.usize(..4), key }),
                _ => (10, Op::Follow),
            };
            if world.has(kind) {
                return op;
            }
        }
    }

    fn random_prune(rng: &mut fastrand::Rng) -> Op {
        let keep = rng.bool().then(|| rng.u32(1..3));
        let since_ms = (keep.is_none() || rng.bool()).then(|| rng.i64(-1..7));
        Op::Prune { keep, since_ms }
    }
}
