//! A process that carries out commands on a store, line by line, and answers each. A store on
//! a failing device or a full disk works in such a process, so that a signal is seen as one.
//!
//! Commands: `open FLOOR`, `put FROM TO SIZE`, `check FROM TO SIZE`, `absent I`, `remove I`,
//! `sync`, `checkpoint`, `verify`, `close`. Answers: `ok`, or `no`, the kind of the error, its
//! file, and the error's words.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use filemap_core::{Durability, Error, Options, Record, StorageError, Store};

use crate::random::Random;

/// Text in every key, and so in every record of key0.dat and of a segment.
pub const KEY_MARK: &[u8] = b"KEYMARK";
/// Text in every body, in each of its blocks: so it is in segments and nowhere else.
pub const BODY_MARK: &[u8] = b"BODYMARK";

/// Arguments of a visitor.
#[derive(Clone, Debug, clap::Args)]
pub struct Visit {
    /// The store's folder; it is created if it is missing.
    #[arg(long)]
    store: PathBuf,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// It was refused.
    Refused {
        /// `full` (the system's ENOSPC), `eio`, `io`, `floor`, `poisoned`, `damage` or `other`.
        kind: String,
        /// The file that the error names, or `-`.
        file: String,
        /// The error's words.
        words: String,
    },
}

impl Answer {
    /// Returns whether it was refused with an error of a kind.
    pub fn is(&self, wanted: &str) -> bool {
        matches!(self, Answer::Refused { kind, .. } if kind == wanted)
    }

    /// The file that the error names.
    pub fn file(&self) -> Option<&str> {
        match self {
            Answer::Done => None,
            Answer::Refused { file, .. } => Some(file),
        }
    }
}

fn key(i: u64) -> Vec<u8> {
    format!("http://{}.example/{i}", String::from_utf8_lossy(KEY_MARK)).into_bytes()
}

/// A body of `size` bytes that no compressor makes shorter than half.
fn body(i: u64, size: u64) -> Vec<u8> {
    let mut random = Random::new(i, size);
    let mut body = Vec::with_capacity(size as usize + 64);
    while body.len() < size as usize {
        body.extend_from_slice(BODY_MARK);
        body.extend(random.bytes(56));
    }
    body.truncate(size as usize);
    body
}

/// Serves until its input ends. The store is not closed then: only a command closes it.
///
/// # Errors
/// Words, when a command is not understood.
pub fn serve(visit: &Visit) -> Result<(), String> {
    let mut store = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let words: Vec<&str> = line.split(' ').collect();
        let numbers: Vec<u64> = words[1..].iter().filter_map(|w| w.parse().ok()).collect();
        let answer = match obey(&mut store, &visit.store, words[0], &numbers) {
            Ok(()) => "ok".to_owned(),
            Err(e) => refusal(&e),
        };
        println!("{}", answer.replace('\n', " "));
    }
    std::process::exit(0);
}

fn obey(store: &mut Option<Store>, path: &Path, command: &str, numbers: &[u64]) -> Result<(), Error> {
    if let ("open", [floor]) = (command, numbers) {
        *store = Some(Store::open_or_create(path, options(*floor))?);
        return Ok(());
    }
    let open = store.as_ref().ok_or(Error::Closed)?;
    match (command, numbers) {
        ("put", &[from, to, size]) => {
            for i in from..to {
                open.put(&Record::new(&key(i), &body(i, size)).time(size.cast_signed()))?;
            }
        }
        ("check", &[from, to, size]) => {
            for i in from..to {
                if open.get(&key(i))?.is_none_or(|v| v.body != body(i, size)) {
                    return Err(wrong(format!("key {i} has not the body of {size} bytes")));
                }
            }
        }
        ("absent", &[i]) => {
            if open.get(&key(i))?.is_some() {
                return Err(wrong(format!("key {i} is there")));
            }
        }
        ("remove", &[i]) => drop(open.remove(&key(i))?),
        ("sync", []) => open.sync()?,
        ("checkpoint", []) => open.checkpoint()?,
        ("verify", []) => crate::oracle::verify(open).map_err(wrong)?,
        ("close", []) => {
            let Some(store) = store.take() else { return Err(Error::Closed) };
            store.close()?;
        }
        _ => return Err(wrong(format!("{command:?} with {numbers:?} is not a command"))),
    }
    Ok(())
}

/// One small segment size, raw bodies, and a checkpoint only on command.
fn options(floor: u64) -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(256 << 10)
        .compression_level(0)
        .durability(Durability::Buffered)
        .checkpoint_bytes(1 << 30)
        .memtable_bytes(64 << 20)
        // What compaction does takes checkpoints.
        .space_bound(None)
        .recompression_level(None)
        .free_space_floor(floor)
}

fn wrong(words: String) -> Error {
    Error::Source(std::sync::Arc::new(std::io::Error::other(words)))
}

fn refusal(e: &Error) -> String {
    let (kind, file) = match e {
        Error::Storage(StorageError::Io { file, source, .. }) => {
            let kind = match source.raw_os_error() {
                Some(28) => "full",
                Some(5) => "eio",
                _ => "io",
            };
            (kind, file.as_str())
        }
        Error::NoSpace { .. } => ("floor", "-"),
        Error::Storage(StorageError::Poisoned { .. }) => ("poisoned", "-"),
        Error::Storage(StorageError::Corrupt { file, .. }) => ("damage", file.as_str()),
        _ => ("other", "-"),
    };
    format!("no {kind} {} {e}", file.rsplit('/').next().unwrap_or("-"))
}

/// A running visitor; it is killed when this is dropped.
pub struct Visitor {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Visitor {
    /// Starts one; `program` is this package's.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, store: &Path) -> Result<Visitor, String> {
        let mut command = Command::new(program);
        command.arg("visitor").arg("--store").arg(store).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("start of a visitor: {e}"))?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Visitor { child, answers })
    }

    /// Tells it something.
    ///
    /// # Errors
    /// When it has ended: by a signal, by a panic.
    pub fn tell(&mut self, command: &str) -> Result<Answer, String> {
        let pipe = self.child.stdin.as_mut().ok_or("no pipe")?;
        let told = pipe.write_all(format!("{command}\n").as_bytes());
        let mut line = String::new();
        let heard = self.answers.read_line(&mut line);
        let words: Vec<&str> = line.trim_end().splitn(4, ' ').collect();
        match &words[..] {
            ["ok"] => Ok(Answer::Done),
            [_, kind, file, words] => {
                Ok(Answer::Refused { kind: (*kind).into(), file: (*file).into(), words: (*words).into() })
            }
            _ => {
                let status = self.child.wait().map_err(|e| e.to_string())?;
                Err(format!("`{command}`: the process ended, {status} ({told:?}, {heard:?})"))
            }
        }
    }

    /// Tells it something that must be done.
    ///
    /// # Errors
    /// When it was refused.
    pub fn must(&mut self, command: &str) -> Result<(), String> {
        match self.tell(command)? {
            Answer::Done => Ok(()),
            refused => Err(format!("`{command}` should be done, but {refused:?}")),
        }
    }

    /// Tells it something that must be refused with one of these kinds of errors; the answer.
    ///
    /// # Errors
    /// When it was done, or refused in another way.
    pub fn must_refuse(&mut self, command: &str, kinds: &[&str]) -> Result<Answer, String> {
        let answer = self.tell(command)?;
        if kinds.iter().any(|kind| answer.is(kind)) {
            return Ok(answer);
        }
        Err(format!("`{command}` should be refused with {kinds:?}, but {answer:?}"))
    }

    /// After a failed write: nothing is written any more, whatever is tried, and however often.
    /// Whether `sync` says that all is durable: it may, when it is.
    ///
    /// # Errors
    /// What was done all the same.
    pub fn must_be_poisoned(&mut self) -> Result<bool, String> {
        let first = self.sync_if_durable()?;
        for command in ["put 9000 9001 100", "remove 0", "checkpoint", "put 9000 9001 300000"] {
            self.must_refuse(command, &["poisoned"])?;
        }
        let second = self.sync_if_durable()?;
        if first != second {
            return Err(format!("`sync` said that all is durable: {first}, and then: {second}"));
        }
        Ok(first)
    }

    fn sync_if_durable(&mut self) -> Result<bool, String> {
        match self.tell("sync")? {
            Answer::Done => Ok(true),
            refused if refused.is("poisoned") => Ok(false),
            refused => Err(format!("`sync` after a failed write: {refused:?}")),
        }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
