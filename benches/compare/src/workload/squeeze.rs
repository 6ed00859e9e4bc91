//! `squeeze`: gets in a child process with limited memory, page cache included: a part of the
//! index's size on disk, plus the process's own need (its anonymous memory after the same gets
//! without a limit and with a cache of 1 MiB, and 16 MiB). An engine with its own cache gets half
//! of the index's part for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use filemap_benches::drive::Outcome;
use filemap_benches::random::Random;

use super::Judge;
use crate::engine::{Kind, Purpose, Session, Settings};
use crate::measure::cgroup::Cgroup;
use crate::measure::lines::{Figures, put};
use crate::measure::usage::Memory;
use crate::pages::{Probe, distinct};
use crate::turn::Turn;

const PERCENTS: [u64; 3] = [100, 50, 25];
/// For the program's code and the kernel's records of open files.
const CODE_BYTES: u64 = 16 << 20;
/// Longest time for the untimed gets, and again for the timed ones.
const AT_MOST: Duration = Duration::from_secs(15);
const CACHE_BYTES_MIN: u64 = 1 << 20;
/// Untimed gets for each timed one.
const WARMING: u64 = 5;

/// Input of the child process.
pub struct Child {
    /// The engine.
    pub kind: &'static Kind,
    /// Its store.
    pub store: PathBuf,
    /// The memory cgroup, with its limit set.
    pub cgroup: String,
    /// File of the probes.
    pub probes: PathBuf,
    /// Number of timed gets, the last ones.
    pub timed: usize,
    /// The engine's settings.
    pub settings: Settings,
}

/// All limits.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    let Some(name) = turn.plan.cgroup.clone() else {
        return turn.lines.skipped("squeeze", "no --cgroup was given");
    };
    if !turn.kind.can.reopen {
        return turn.lines.skipped("squeeze", "its index is in memory only");
    }
    let Some(index_bytes) = turn.engine()?.index_bytes()? else {
        return turn.lines.skipped("squeeze", "what its index takes is not known, or only by reading all of it");
    };
    let group = match Cgroup::find(&name).and_then(|group| turn.drop_caches().map(|()| group)) {
        Ok(group) => group,
        Err(error) => return turn.lines.skipped("squeeze", &error.to_string()),
    };
    turn.close()?;
    let file = turn.dir.with_extension("probes");
    let measured = limits(turn, &group, &name, &file, index_bytes);
    group.unlimit()?;
    let _ = fs::remove_file(&file);
    turn.open(Purpose::Use)?;
    match measured? {
        Ok(figures) => turn.lines.result("squeeze", figures),
        Err(why) => turn.lines.skipped("squeeze", &why),
    }
}

type FiguresOrWhy = Result<Figures, String>;

fn limits(turn: &Turn<'_>, group: &Cgroup, name: &str, file: &Path, index_bytes: u64) -> Outcome<FiguresOrWhy> {
    let mut figures = Figures::new();
    group.unlimit()?;
    let settings = Settings { cache_bytes: CACHE_BYTES_MIN, ..turn.settings.clone() };
    let own_bytes = match squeezed(turn, name, file, 400, &settings)? {
        Ok(child) => child.anonymous_bytes + CODE_BYTES,
        Err(why) => return Ok(Err(format!("without a limit {why}"))),
    };
    put(&mut figures, "index_bytes", index_bytes as f64);
    put(&mut figures, "own_bytes", own_bytes as f64);
    for percent in PERCENTS {
        let part = index_bytes * percent / 100;
        let memory_bytes = part + own_bytes;
        group.limit(memory_bytes)?;
        let cache_bytes = (part / 2).max(CACHE_BYTES_MIN);
        let settings = Settings { cache_bytes, memory_bytes, ..turn.settings.clone() };
        match squeezed(turn, name, file, 300 + percent, &settings)? {
            Ok(child) => put(&mut figures, format!("per_s_{percent}"), child.per_s),
            Err(why) => return Ok(Err(format!("at {percent}% of {index_bytes} bytes and {own_bytes} {why}"))),
        }
    }
    Ok(Ok(figures))
}

/// Result of a child.
struct Measured {
    per_s: f64,
    anonymous_bytes: u64,
}

type MeasuredOrWhy = Result<Measured, String>;

/// Runs a child; the reason why it ended without a result, if so.
fn squeezed(turn: &Turn<'_>, name: &str, file: &Path, seed: u64, settings: &Settings) -> Outcome<MeasuredOrWhy> {
    let timed = turn.plan.squeeze_gets.min(turn.pages.count());
    let count = (timed * (1 + WARMING)).min(turn.pages.count());
    let numbers = distinct(&mut Random::of(turn.plan.seed, seed), turn.pages.count(), count);
    fs::write(file, encode(&turn.pages.probes(numbers)))?;
    turn.drop_caches()?;
    let output = Command::new(std::env::current_exe()?)
        .args(["squeeze-child", "--engine", turn.kind.name, "--cgroup", name])
        .arg("--store")
        .arg(&turn.dir)
        .arg("--probes")
        .arg(file)
        .args(["--timed", &timed.to_string(), "--level", &settings.level.to_string()])
        .args(["--cache-bytes", &settings.cache_bytes.to_string()])
        .args(["--memory-bytes", &settings.memory_bytes.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [per_s, wrong, anonymous] = words[..] else {
        let said = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
        return Ok(Err(format!("it ended with {}: {said}", output.status)));
    };
    if wrong != "0" {
        Judge::new(&turn.lines, "squeeze").wrong(&format!("{wrong} wrong answers"))?;
    }
    Ok(Ok(Measured { per_s: per_s.parse()?, anonymous_bytes: anonymous.parse()? }))
}

/// Gets within the limit; prints gets a second, how many answers were wrong, and the process's own
/// memory.
pub fn child(child: &Child) -> Outcome<ExitCode> {
    let probes = decode(&fs::read(&child.probes)?).ok_or("the file of probes is cut short")?;
    Cgroup::find(&child.cgroup)?.enter()?;
    let engine = (child.kind.open)(&child.store, &child.settings, Purpose::Use)?;
    let mut session = engine.session()?;
    let mut wrong = 0;
    let (warming, timed) = probes.split_at(probes.len() - child.timed.min(probes.len()));
    get(&mut *session, warming, &mut wrong)?;
    let per_s = get(&mut *session, timed, &mut wrong)?;
    println!("{per_s} {wrong} {}", Memory::now()?.anonymous_bytes);
    drop(session);
    engine.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Gets a second, within [`AT_MOST`]: an engine that thrashes would take hours.
fn get(session: &mut dyn Session, probes: &[Probe], wrong: &mut u64) -> Outcome<f64> {
    let (mut body, mut gets) = (Vec::new(), 0u64);
    let begun = Instant::now();
    for probe in probes {
        let found = session.get_into(&probe.key, &mut body)?;
        *wrong += u64::from(!probe.is_right(found.then_some(&body[..])));
        gets += 1;
        if begun.elapsed() > AT_MOST {
            break;
        }
    }
    Ok(gets as f64 / begun.elapsed().as_secs_f64())
}

/// Length of the key, key, digest.
fn encode(probes: &[Probe]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for probe in probes {
        bytes.extend_from_slice(&(probe.key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&probe.key);
        bytes.extend_from_slice(&probe.digest.unwrap_or(0).to_le_bytes());
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Option<Vec<Probe>> {
    let mut probes = Vec::new();
    while !bytes.is_empty() {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        let (digest, rest) = rest.split_first_chunk::<8>()?;
        probes.push(Probe { number: probes.len() as u64, key: key.into(), digest: Some(u64::from_le_bytes(*digest)) });
        bytes = rest;
    }
    Some(probes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_go_through_a_file() {
        let probe = |key: &[u8], digest| Probe { number: 0, key: key.into(), digest: Some(digest) };
        let bytes = encode(&[probe(b"http://a/", 7), probe(b"", u64::MAX)]);
        let probes = decode(&bytes).unwrap();
        assert_eq!((&*probes[0].key, probes[0].digest), (&b"http://a/"[..], Some(7)));
        assert_eq!((&*probes[1].key, probes[1].digest), (&b""[..], Some(u64::MAX)));
        assert!(decode(&bytes[..bytes.len() - 1]).is_none());
    }
}
