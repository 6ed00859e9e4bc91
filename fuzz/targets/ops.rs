//! Strings of operations on a store over a simulated disk, against the oracle, as in the property
//! test.
//!
//! The first byte bounds the versions kept; then each operation is a byte and its arguments.
#![no_main]

use filemap_core::sim::{self, Limits};
use filemap_core::{Options, Store};
use filemap_io::sim::SimDisk;
use filemap_oracle::string::{self, Ground, Op};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&keep, mut rest)) = data.split_first() else { return };
    let mut ops = Vec::new();
    while let (Some((op, behind)), true) = (next(rest), ops.len() < 48) {
        ops.push(op);
        rest = behind;
    }
    let keep = Some(u32::from(keep % 4)).filter(|&keep| keep > 0);
    string::run(&mut Disk(SimDisk::new(7)), &ops, keep);
});

/// The first operation of an input, and the rest of the input.
fn next(bytes: &[u8]) -> Option<(Op, &[u8])> {
    let ([code, key, time, size], rest) = bytes.split_first_chunk::<4>()?;
    let (key, time) = (key % 12, i64::from(time % 8) - 2);
    let size = usize::from(*size);
    let op = match code % 16 {
        0..5 => Op::Put { key, time, size: 13 * size },
        5..7 => Op::PutIfChanged { key, time, same: size.is_multiple_of(2) },
        7 => Op::Batch { keys: (0..size % 5).map(|nth| (key + nth as u8) % 12).collect(), time },
        8 => Op::Stream { key, time, size: 700 * size },
        9..12 => Op::Remove { key },
        12 | 13 => Op::Checkpoint,
        14 => Op::Reopen,
        _ => Op::Crash,
    };
    Some((op, rest))
}

/// With limits so low that leaves are split and stages end all the time.
fn small(options: Options) -> Options {
    sim::with_limits(
        options,
        Limits {
            leaf_slots: 2,
            stage_pages: 2,
            flush_pages: 2,
            flush_key_bytes: 128,
            key_segment_bytes: 256,
            map_pages: 4,
            // Changes always wait.
            direct_pages: 0,
            direct_percent: 0,
            stage_changes: 2,
            join_runs: 2,
            ..Limits::default()
        },
    )
}

/// A simulated disk; a crash is the end of the process.
struct Disk(SimDisk);

impl Ground for Disk {
    fn create(&self, options: Options) -> Store {
        sim::create(self.0.dir(), small(options)).expect("a store is created")
    }

    fn open(&self, options: Options) -> Store {
        sim::open(self.0.dir(), small(options)).expect("a store opens")
    }

    fn open_read_only(&self, options: Options) -> Store {
        sim::open_read_only(self.0.dir(), small(options)).expect("a store opens for reading")
    }

    fn crash(&mut self) {
        self.0 = self.0.kill();
    }
}
