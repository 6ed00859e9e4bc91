//! A disk that is full when a file of the store is to grow. Ballast takes all space and gives it
//! back in small steps, so that each file in turn finds no room. Each time there must be an error,
//! never a signal; nothing acknowledged is lost, and with space again puts continue.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use crate::system::{FileSystem, Result, Volume};
use crate::visitor::{Answer, Visitor};

/// Space given back between the first tries of a checkpoint.
const STEP: u64 = 32 << 10;
/// Tries after which there must be room.
const TRIES: u64 = 200;

/// A file that takes the space of a file system; it gives all back when it is dropped.
struct Ballast {
    file: File,
    bytes: u64,
}

impl Ballast {
    /// Takes all but `left` bytes.
    fn new(volume: &Path, left: u64) -> Result<Ballast> {
        let failed = |e: std::io::Error| format!("ballast: {e}");
        let file =
            File::options().create(true).truncate(true).write(true).open(volume.join("ballast")).map_err(failed)?;
        let mut ballast = Ballast { file, bytes: 0 };
        let mut piece = 64 << 20;
        while piece >= 4096 {
            match rustix::fs::fallocate(&ballast.file, FallocateFlags::empty(), ballast.bytes, piece) {
                Ok(()) => ballast.bytes += piece,
                Err(rustix::io::Errno::NOSPC) => piece /= 2,
                Err(e) => return Err(failed(e.into())),
            }
        }
        ballast.give_back(left)?;
        Ok(ballast)
    }

    /// Gives bytes back.
    fn give_back(&mut self, bytes: u64) -> Result<()> {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.file.set_len(self.bytes).map_err(|e| format!("ballast: {e}"))?;
        // Some file systems free the space only after they have logged it.
        rustix::fs::syncfs(&self.file).map_err(|e| format!("ballast: {e}"))
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = self.give_back(self.bytes);
    }
}

/// Tries each file system; prints a line for each scenario; how many went wrong.
///
/// # Errors
/// When the harness itself fails.
pub fn run(program: &Path, systems: &[FileSystem]) -> Result<usize> {
    let mut violations = 0;
    let scenarios: [(&str, Scenario); 4] =
        [("creation", creation), ("puts", puts), ("checkpoint", checkpoint), ("floor", floor)];
    for system in systems {
        for (name, scenario) in scenarios {
            let mut try_out = Trial { program, volume: Volume::new(*system)?, met: BTreeSet::new() };
            match scenario(&mut try_out) {
                Ok(()) => println!("full: {}, {name}: met at {:?}", system.name(), try_out.met),
                Err(what) => {
                    println!("full: {}, {name}: {what} (met before: {:?})", system.name(), try_out.met);
                    violations += 1;
                }
            }
        }
    }
    Ok(violations)
}

type Scenario = fn(&mut Trial<'_>) -> Result<()>;

struct Trial<'a> {
    program: &'a Path,
    volume: Volume,
    /// Files whose growth failed.
    met: BTreeSet<String>,
}

impl Trial<'_> {
    fn store(&self) -> PathBuf {
        self.volume.path().join("pages.fm")
    }

    fn key_bytes(&self) -> Result<u64> {
        std::fs::metadata(self.store().join("key0.dat")).map(|m| m.len()).map_err(|e| format!("key0.dat: {e}"))
    }

    fn visitor(&self) -> Result<Visitor> {
        Visitor::start(self.program, &self.store())
    }

    /// Notes the file for which there was no room.
    fn meet(&mut self, answer: &Answer) -> Result<()> {
        if !answer.is("full") {
            return Err(format!("the error should be that of a full disk, but {answer:?}"));
        }
        let name = answer.file().unwrap_or("-").to_owned();
        self.met.insert(if name.starts_with("value") { "a segment".to_owned() } else { name });
        Ok(())
    }

    fn must_have_met(&self, files: &[&str]) -> Result<()> {
        let absent: Vec<_> = files.iter().filter(|f| !self.met.contains(**f)).collect();
        if absent.is_empty() { Ok(()) } else { Err(format!("{absent:?} never met the full disk")) }
    }

    /// With space again: what was put is there in a cold cache, and puts continue.
    fn must_be_well(&mut self, checks: &[&str]) -> Result<()> {
        self.volume.remount()?;
        let mut visitor = self.visitor()?;
        visitor.must("open 0")?;
        for command in checks.iter().chain(&["verify", "put 7000 7500 400", "sync", "checkpoint", "close", "open 0"]) {
            visitor.must(command)?;
        }
        for command in checks.iter().chain(&["check 7000 7500 400", "verify", "close"]) {
            visitor.must(command)?;
        }
        Ok(())
    }
}

/// Space given back after the n-th try. Small steps first, so that each file fails once; then
/// larger ones: a checkpoint that fails leaves its key records behind, and some file systems need
/// more for a file than is in it.
fn step(first: u64, nth: u64) -> u64 {
    first << (nth / 20)
}

/// No room for the files of a new store: creating it fails, and succeeds when there is room.
fn creation(t: &mut Trial<'_>) -> Result<()> {
    // The folder is there: what is wanted is the failure of each file.
    std::fs::create_dir(t.store()).map_err(|e| e.to_string())?;
    let mut ballast = Ballast::new(t.volume.path(), 0)?;
    for nth in 0..TRIES {
        let mut visitor = t.visitor()?;
        let answer = visitor.tell("open 0")?;
        if answer == Answer::Done {
            drop((visitor, ballast));
            return t.must_be_well(&[]);
        }
        t.meet(&answer)?;
        ballast.give_back(step(4096, nth))?;
    }
    Err("there should be room".into())
}

/// No room for a segment, also when it is rolled: puts fail, and what returned is there.
fn puts(t: &mut Trial<'_>) -> Result<()> {
    let mut next = 100;
    t.visitor()?.must("open 0")?;
    for left in [0, 4096, 100 << 10, 900 << 10, 1 << 20, 2 << 20] {
        let mut visitor = t.visitor()?;
        visitor.must("open 0")?;
        visitor.must(&format!("put {} {next} 600", next - 100))?;
        visitor.must("sync")?;
        let ballast = Ballast::new(t.volume.path(), left)?;
        let refused = loop {
            let answer = visitor.tell(&format!("put {next} {} 600", next + 1))?;
            if answer != Answer::Done {
                break answer;
            }
            next += 1;
        };
        t.meet(&refused)?;
        visitor.must_be_poisoned()?;
        visitor.must(&format!("check 0 {next} 600"))?;
        drop(visitor);
        drop(ballast);
        t.volume.remount()?;
        let mut visitor = t.visitor()?;
        visitor.must("open 0")?;
        visitor.must(&format!("check 0 {next} 600"))?;
        visitor.must("verify")?;
        visitor.must("close")?;
        next += 100;
    }
    t.must_have_met(&["a segment"])?;
    t.must_be_well(&[&format!("check 0 {} 600", next - 100)])
}

/// No room for key0.dat, then for address.idx, then for what the file system needs.
fn checkpoint(t: &mut Trial<'_>) -> Result<()> {
    let mut visitor = t.visitor()?;
    for command in ["open 0", "put 0 1000 300", "checkpoint", "put 500 3000 500", "remove 0", "sync"] {
        visitor.must(command)?;
    }
    let checks = ["check 1 500 300", "check 500 3000 500", "absent 0"];
    let mut ballast = Ballast::new(t.volume.path(), 0)?;
    for nth in 0..TRIES {
        let before = t.key_bytes()?;
        let answer = visitor.tell("checkpoint")?;
        if answer.file() == Some("key0.dat") && t.key_bytes()? != before {
            return Err("what did not fit into key0.dat should give its space back".into());
        }
        if answer == Answer::Done {
            t.must_have_met(&["key0.dat", "address.idx"])?;
            drop((visitor, ballast));
            return t.must_be_well(&checks);
        }
        t.meet(&answer)?;
        visitor.must_be_poisoned()?;
        for check in checks {
            visitor.must(check)?;
        }
        drop(visitor);
        ballast.give_back(step(STEP, nth))?;
        visitor = t.visitor()?;
        // Opening needs next to nothing, but some file systems give not even that.
        let mut opened = visitor.tell("open 0")?;
        for _ in 0..TRIES {
            if opened == Answer::Done {
                break;
            }
            t.meet(&opened)?;
            ballast.give_back(STEP)?;
            opened = visitor.tell("open 0")?;
        }
        for check in checks {
            visitor.must(check)?;
        }
    }
    Err("there should be room".into())
}

/// The floor: puts stop while there is room for the rest, and continue when there is space again,
/// in the same handle.
fn floor(t: &mut Trial<'_>) -> Result<()> {
    let mut visitor = t.visitor()?;
    for command in ["open 36000000", "put 0 100 600", "sync"] {
        visitor.must(command)?;
    }
    // Below the floor, with room for what is put until the store measures again.
    let ballast = Ballast::new(t.volume.path(), 30 << 20)?;
    let mut next = 100;
    let stopped = loop {
        let answer = visitor.tell(&format!("put {next} {} 200000", next + 1))?;
        if answer != Answer::Done {
            break answer;
        }
        next += 1;
        if next > 400 {
            return Err("puts do not stop at the floor".into());
        }
    };
    if !stopped.is("floor") {
        return Err(format!("puts should stop at the floor, but {stopped:?}"));
    }
    t.met.insert("the floor".into());
    for command in ["remove 0", "absent 0", "check 1 100 600", "sync", "checkpoint", "verify"] {
        visitor.must(command)?;
    }
    visitor.must_refuse(&format!("put {next} {} 10", next + 1), &["floor"])?;
    drop(ballast);
    visitor.must(&format!("put {next} {} 200000", next + 1))?;
    visitor.must("close")?;
    drop(visitor);
    t.must_be_well(&["absent 0", "check 1 100 600", &format!("check 100 {} 200000", next + 1)])
}
