//! A device that fails the writes of one file of the store, its flushes, or everything. The
//! store's error must name the file.
//!
//! Linux forgets a failed write: the pages count as clean, the next sync succeeds, and the disk
//! holds the old bytes. So the handle must refuse further writes even when the device is well
//! again, and the next open must not trust the page cache.

use std::path::Path;

use crate::aim::Aim;
use crate::system::{FileSystem, Machine, Result};
use crate::visitor::{Answer, Visitor};

/// A failure, with its preparation and effect.
struct Failure {
    name: &'static str,
    /// The writes that fail.
    aim: Aim,
    /// True if the journal of the file system fails too, after which that is read-only until it is
    /// mounted again.
    takes_the_file_system: bool,
    /// Commands before it, not synced: puts of keys 400 to 409.
    before: &'static [&'static str],
    /// The command that fails.
    command: &'static str,
    /// Prefix of the file that the error names.
    file: &'static str,
}

const FAILURES: [Failure; 8] = [
    Failure {
        name: "a segment",
        aim: Aim::Segment,
        takes_the_file_system: false,
        before: &["put 400 410 500"],
        command: "sync",
        file: "value0.dat",
    },
    Failure {
        name: "the page in which a checkpoint ended",
        aim: Aim::Segment,
        takes_the_file_system: false,
        before: &["checkpoint", "put 400 401 500"],
        command: "sync",
        file: "value0.dat",
    },
    Failure {
        name: "a new segment",
        aim: Aim::SegmentHeader,
        takes_the_file_system: false,
        before: &["put 400 410 500"],
        command: "put 1000 4000 1000",
        file: "value1.dat",
    },
    Failure {
        name: "key0.dat",
        aim: Aim::Keys,
        takes_the_file_system: false,
        before: &["put 400 410 500"],
        command: "checkpoint",
        file: "key0.dat",
    },
    Failure {
        name: "address.idx",
        aim: Aim::Leaves,
        takes_the_file_system: false,
        before: &["put 400 410 500"],
        command: "checkpoint",
        file: "address.idx",
    },
    Failure {
        name: "SUPERBLOCK",
        aim: Aim::Superblock,
        takes_the_file_system: false,
        before: &["put 400 410 500"],
        command: "checkpoint",
        file: "SUPERBLOCK",
    },
    Failure {
        name: "flushes",
        aim: Aim::Flushes,
        takes_the_file_system: true,
        before: &["put 400 410 500"],
        command: "sync",
        file: "value0.dat",
    },
    Failure {
        name: "everything",
        aim: Aim::Everything,
        takes_the_file_system: true,
        before: &["put 400 410 500"],
        command: "checkpoint",
        file: "value0.dat",
    },
];

/// The mode in which the store is opened after the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// At once: the page cache still has what the disk has not.
    Warm,
    /// At once, and nothing is put before it is closed: what was recovered is not by chance
    /// written again.
    WarmAndIdle,
    /// After the file system was mounted anew.
    Cold,
}

/// Lets each part fail, once for each way to open the store afterwards. Prints a line for each;
/// how many went wrong.
///
/// # Errors
/// When the harness itself fails.
pub fn run(program: &Path) -> Result<usize> {
    let machine = Machine::new(program, FileSystem::Ext4)?;
    let mut violations = 0;
    for failure in &FAILURES {
        for opening in [Opening::Warm, Opening::WarmAndIdle, Opening::Cold] {
            if failure.takes_the_file_system && opening != Opening::Cold {
                continue;
            }
            print!("device: EIO on {}, opened again {opening:?}: ", failure.name);
            match fail_and_open(program, &machine, failure, opening) {
                Ok(()) => println!("refused, poisoned, whole"),
                Err(what) => {
                    println!("{what}");
                    violations += 1;
                }
            }
        }
    }
    Ok(violations)
}

fn fail_and_open(program: &Path, machine: &Machine, failure: &Failure, opening: Opening) -> Result<()> {
    machine.format()?;
    let mut mounted = machine.mount()?;
    let store = mounted.path().join("pages.fm");
    let all_durable = fail(program, &store, machine, failure)?;
    if opening == Opening::Cold {
        mounted.unmount()?;
        mounted = machine.mount()?;
    }
    let mut visitor = Visitor::start(program, &store)?;
    visitor.must("open 0")?;
    let shown = show(&mut visitor)?;
    if all_durable && shown.contains(&false) {
        return Err("a sync that said yes was not true".into());
    }
    check(&mut visitor)?;
    let puts = opening != Opening::WarmAndIdle;
    if puts {
        for command in ["put 500 600 700", "sync", "checkpoint"] {
            visitor.must(command)?;
        }
    }
    visitor.must("close")?;
    drop(visitor);
    mounted.unmount()?;
    let mounted = machine.mount()?;
    let mut visitor = Visitor::start(program, &store)?;
    visitor.must("open 0")?;
    check(&mut visitor)?;
    if show(&mut visitor)? != shown {
        return Err("what was shown after recovery is not what the disk has".into());
    }
    if puts {
        visitor.must("check 500 600 700")?;
    }
    for command in ["put 600 700 700", "checkpoint", "check 600 700 700", "close"] {
        visitor.must(command)?;
    }
    drop(visitor);
    mounted.unmount()
}

/// Works, and meets the failure; the device is well again when this returns. Whether the store
/// says that all puts are durable.
fn fail(program: &Path, store: &Path, machine: &Machine, failure: &Failure) -> Result<bool> {
    let mut visitor = Visitor::start(program, store)?;
    for command in ["open 0", "put 0 300 300", "sync", "checkpoint", "put 0 50 500", "put 300 400 500", "remove 299"] {
        visitor.must(command)?;
    }
    visitor.must("sync")?;
    // Not synced: it may be there or not.
    for command in failure.before {
        visitor.must(command)?;
    }
    machine.disk().fail(failure.aim)?;
    let met = meet(&mut visitor, failure);
    if machine.disk().heal()? == 0 {
        return Err("nothing was asked of the device that failed".into());
    }
    let all_durable = met?;
    let still = visitor.must_be_poisoned().map_err(|e| format!("with a device that is well again: {e}"))?;
    if still != all_durable {
        return Err("a device that is well again should change nothing".into());
    }
    visitor.must_refuse("close", &["poisoned"])?;
    Ok(all_durable)
}

/// The store meets the failure: it says so, writes no more, and reads on. Whether it says that all
/// puts are durable.
fn meet(visitor: &mut Visitor, failure: &Failure) -> Result<bool> {
    let answer = visitor.must_refuse(failure.command, &["eio", "poisoned"])?;
    let named = match &answer {
        // The thread that prepares segments met it first.
        Answer::Refused { kind, words, .. } if kind == "poisoned" => words.contains(failure.file),
        _ => answer.file() == Some(failure.file),
    };
    if !named {
        return Err(format!("the error should name {}, but {answer:?}", failure.file));
    }
    let all_durable = visitor.must_be_poisoned()?;
    check_reads(visitor)?;
    Ok(all_durable)
}

/// Returns which of the unsynced puts are present.
fn show(visitor: &mut Visitor) -> Result<Vec<bool>> {
    (400..410).map(|i| visitor.tell(&format!("check {i} {} 500", i + 1)).map(|a| a == Answer::Done)).collect()
}

/// Checks that everything synced is present.
fn check_reads(visitor: &mut Visitor) -> Result<()> {
    for command in ["check 0 50 500", "check 50 299 300", "check 300 400 500", "absent 299"] {
        visitor.must(command)?;
    }
    Ok(())
}

fn check(visitor: &mut Visitor) -> Result<()> {
    check_reads(visitor)?;
    visitor.must("verify")
}
