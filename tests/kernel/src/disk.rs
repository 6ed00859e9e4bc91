//! A recording and failing disk: a file in a FUSE file system under a loop device. Every write and
//! flush passes through here.
//!
//! A separate process serves it (command `disk`); [`Disk`] sends it commands line by line. The
//! process that uses the disk must not serve it: it could not be killed while it waits for itself.
//!
//! Invariant: the serving thread waits for nothing but the state's lock, and nobody holds that
//! lock while waiting for the kernel.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, MountOption,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use crate::aim::Aim;
use crate::image::{self, Event, Fate, Image};
use crate::random::Random;

type Result<T> = std::result::Result<T, String>;

/// Arguments of a disk's process.
#[derive(Clone, Debug, clap::Args)]
pub struct Service {
    /// The empty folder in which the disk's file appears.
    #[arg(long)]
    mount_point: PathBuf,
    /// The file's name.
    #[arg(long)]
    name: String,
    /// Its size.
    #[arg(long)]
    bytes: u64,
}

/// A disk; it is removed when this is dropped.
pub struct Disk {
    child: Child,
    pipes: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
    file: PathBuf,
}

impl Disk {
    /// Makes a disk of zeros, whose file appears in the empty directory `mount_point` under
    /// `name`; `program` is this package's.
    ///
    /// # Errors
    /// When FUSE cannot be mounted.
    pub fn new(program: &Path, mount_point: &Path, name: &str, bytes: u64) -> Result<Disk> {
        let mut command = Command::new(program);
        command.arg("disk").arg("--mount-point").arg(mount_point).args(["--name", name, "--bytes", &bytes.to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| format!("the process of a disk: {e}"))?;
        let (Some(told), Some(heard)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the process of a disk has no pipes".into());
        };
        let pipes = Mutex::new(Some((told, BufReader::new(heard))));
        let disk = Disk { child, pipes, file: mount_point.join(name) };
        // It answers when it is mounted.
        disk.tell("position")?;
        Ok(disk)
    }

    /// The file that is the disk.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// All zeros again. Nothing may be mounted on it; that goes for all that changes what it
    /// holds.
    ///
    /// # Errors
    /// When its process has ended, as for every command.
    pub fn blank(&self) -> Result<()> {
        self.tell("blank").map(drop)
    }

    /// Begins a new record.
    ///
    /// # Errors
    /// See [`Disk::blank`].
    pub fn record(&self) -> Result<()> {
        self.tell("record").map(drop)
    }

    /// Number of events in the record.
    ///
    /// # Errors
    /// See [`Disk::blank`].
    pub fn position(&self) -> Result<u64> {
        self.tell("position")
    }

    /// Makes the record the tape, from which [`Disk::lose_power`] works.
    ///
    /// # Errors
    /// See [`Disk::blank`].
    pub fn keep_tape(&self) -> Result<Tape> {
        Ok(Tape { events: self.tell("tape")?, flushes: self.tell("flushes")? })
    }

    /// Holds from now on what a power loss after `point` events of the tape may have left, and
    /// begins a new record. `lost` of the last flushes did not keep their word. Points must not
    /// become smaller.
    ///
    /// # Errors
    /// See [`Disk::blank`].
    pub fn lose_power(&self, point: u64, lost: u64, fate: Fate, random: &mut Random) -> Result<()> {
        self.tell(&format!("lose {point} {lost} {} {}", fate.number(), random.number())).map(drop)
    }

    /// As [`Disk::lose_power`], after `point` events of the record.
    ///
    /// # Errors
    /// See [`Disk::blank`].
    pub fn lose_power_again(&self, point: u64, fate: Fate, random: &mut Random) -> Result<()> {
        self.tell(&format!("again {point} {} {}", fate.number(), random.number())).map(drop)
    }

    /// Writes what it held when the record began into a file.
    ///
    /// # Errors
    /// See [`Disk::blank`].
    pub fn save(&self, path: &Path) -> Result<()> {
        self.tell(&format!("save {}", path.display())).map(drop)
    }

    /// From now on what `aim` picks fails with EIO.
    ///
    /// # Errors
    /// See [`Disk::blank`].
    pub fn fail(&self, aim: Aim) -> Result<()> {
        self.tell(&format!("fail {}", aim.number())).map(drop)
    }

    /// Nothing fails any more; how many requests did.
    ///
    /// # Errors
    /// See [`Disk::blank`].
    pub fn heal(&self) -> Result<u64> {
        self.tell("heal")
    }

    fn tell(&self, command: &str) -> Result<u64> {
        let mut pipes = lock(&self.pipes);
        let (told, heard) = pipes.as_mut().ok_or("the disk was removed")?;
        let mut line = String::new();
        let exchanged = writeln!(told, "{command}").and_then(|()| heard.read_line(&mut line));
        line.trim().parse().map_err(|_| format!("the disk's process, told `{command}`: {exchanged:?} {line:?}"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The end of its input is the end of the disk.
        *lock(&self.pipes) = None;
        let _ = self.child.wait();
    }
}

/// Content of a tape.
#[derive(Clone, Copy, Debug)]
pub struct Tape {
    /// Writes and flushes.
    pub events: u64,
    /// Flushes.
    pub flushes: u64,
}

struct State {
    image: Image,
    /// Content of the disk when the record began.
    base: Image,
    log: Vec<Event>,
    tape: Vec<Event>,
    /// Content of the disk after that number of events of the tape.
    played: (Image, usize),
    failing: Option<Aim>,
    failed: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves a disk until its input ends.
///
/// # Errors
/// When FUSE cannot be mounted, or a command is not understood.
pub fn serve(service: &Service) -> Result<()> {
    let image = Image::new(service.bytes);
    let state = State {
        base: image.clone(),
        played: (image.clone(), 0),
        image,
        log: Vec::new(),
        tape: Vec::new(),
        failing: None,
        failed: 0,
    };
    let state = Arc::new(Mutex::new(state));
    let served = Served { state: Arc::clone(&state), name: service.name.clone(), bytes: service.bytes };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName(service.name.clone())];
    let _session = fuser::spawn_mount(served, &service.mount_point, &config).map_err(|e| format!("FUSE: {e}"))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let answer = lock(&state).obey(&line)?;
        println!("{answer}");
    }
    // Who used it may have been killed: what is still mounted is unmounted while it is still
    // served.
    crate::mounts::take_down(&service.mount_point, &service.name);
    Ok(())
}

impl State {
    fn obey(&mut self, line: &str) -> Result<u64> {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Vec<u64> = rest.split(' ').filter_map(|w| w.parse().ok()).collect();
        match (command, &numbers[..]) {
            ("blank", []) => self.hold(Image::new(self.image.bytes())),
            ("record", []) => self.hold(self.image.clone()),
            ("position", []) => return Ok(self.log.len() as u64),
            ("tape", []) => {
                self.tape = std::mem::take(&mut self.log);
                self.played = (self.base.clone(), 0);
                return Ok(self.tape.len() as u64);
            }
            ("flushes", []) => return Ok(self.tape.iter().filter(|e| matches!(e, Event::Flush)).count() as u64),
            ("lose", &[point, lost, fate, seed]) => self.lose_power(point as usize, lost, fate, seed),
            ("again", &[point, fate, seed]) => {
                let log = std::mem::take(&mut self.log);
                let log = &log[..(point as usize).min(log.len())];
                let durable = image::durable(log);
                self.base.apply(&log[..durable]);
                self.hold(image::crash(&self.base, &log[durable..], Fate::of(fate), &mut Random::new(seed, 0)));
            }
            ("save", _) => self.base.save(Path::new(rest)).map_err(|e| format!("{rest}: {e}"))?,
            ("fail", &[aim]) => self.failing = Aim::of(aim),
            ("heal", []) => {
                self.failing = None;
                return Ok(std::mem::take(&mut self.failed));
            }
            _ => return Err(format!("`{line}` is not a command of a disk")),
        }
        Ok(0)
    }

    fn hold(&mut self, image: Image) {
        self.base = image.clone();
        self.image = image;
        self.log.clear();
    }

    fn lose_power(&mut self, point: usize, lost: u64, fate: u64, seed: u64) {
        let point = point.min(self.tape.len());
        let mut durable = image::durable(&self.tape[..point]);
        (0..lost).for_each(|_| durable = image::durable(&self.tape[..durable.saturating_sub(1)]));
        let (base, played) = &mut self.played;
        if durable > *played {
            base.apply(&self.tape[*played..durable]);
            *played = durable;
        }
        let unflushed = &self.tape[(*played).min(point)..point];
        let image = image::crash(base, unflushed, Fate::of(fate), &mut Random::new(seed, 0));
        self.hold(image);
    }
}

struct Served {
    state: Arc<Mutex<State>>,
    name: String,
    bytes: u64,
}

const FOR_EVER: Duration = Duration::from_secs(1 << 20);
const FILE: INodeNo = INodeNo(2);

impl Served {
    fn attr(&self, ino: INodeNo) -> FileAttr {
        let is_root = ino == INodeNo::ROOT;
        FileAttr {
            ino,
            size: if is_root { 0 } else { self.bytes },
            blocks: self.bytes / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == self.name.as_str() {
            reply.entry(&FOR_EVER, &self.attr(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attr(ino));
    }

    /// Past the page cache: the disk is the only place that holds its bytes.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(1), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = lock(&self.state).image.read(offset, size as usize);
        reply.data(&bytes);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = lock(&self.state);
        if state.failing.is_some_and(|aim| data.chunks(4096).any(|block| aim.hits(block))) {
            state.failed += 1;
            reply.error(Errno::EIO);
        } else if !state.image.write(offset, data) {
            reply.error(Errno::ENOSPC);
        } else {
            state.log.push(Event::Write(offset, Arc::from(data)));
            reply.written(data.len() as u32);
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut state = lock(&self.state);
        if state.failing == Some(Aim::Flushes) {
            state.failed += 1;
            reply.error(Errno::EIO);
        } else {
            state.log.push(Event::Flush);
            reply.ok();
        }
    }

    /// Closing is not a flush.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    /// Nothing is discarded: the kernel then writes zeros where it needs them.
    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        reply.error(Errno::EOPNOTSUPP);
    }
}
