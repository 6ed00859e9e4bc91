//! A disk of our own: one file in a FUSE file system that lives in this process. A loop device on it gives the kernel a
//! block device of which every write and flush passes through here: to be recorded, to be failed, to be exchanged.
//!
//! Invariant: the thread that serves the disk waits for nothing but the state's lock, and nobody holds that lock while
//! waiting for the kernel; else the two would wait for each other.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    WriteFlags,
};

use crate::image::{Event, Image};

/// Which writes fail: it sees each block of 4096 bytes.
pub type Aim = fn(&[u8]) -> bool;

struct State {
    image: Image,
    log: Vec<Event>,
    failing: Option<Aim>,
    flushes_fail: bool,
    failed: u64,
}

/// The disk; it is gone when this is dropped.
pub struct Disk {
    state: Arc<Mutex<State>>,
    file: PathBuf,
    _session: BackgroundSession,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Makes a disk of zeros, whose file appears in the empty directory `mount_point` under `name`.
    ///
    /// # Errors
    /// When FUSE cannot be mounted.
    pub fn new(mount_point: &Path, name: &str, bytes: u64) -> std::io::Result<Disk> {
        let image = Image::new(bytes);
        let state = State { image, log: Vec::new(), failing: None, flushes_fail: false, failed: 0 };
        let state = Arc::new(Mutex::new(state));
        let served = Served { state: Arc::clone(&state), name: name.to_owned(), bytes };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName(name.to_owned())];
        let session = fuser::spawn_mount(served, mount_point, &config)?;
        Ok(Disk { state, file: mount_point.join(name), _session: session })
    }

    /// The file that is the disk.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Forgets what was recorded; what the disk holds now.
    pub fn restart_record(&self) -> Image {
        let mut state = lock(&self.state);
        state.log.clear();
        state.image.clone()
    }

    /// Puts another content in place and forgets what was recorded. Nothing may be mounted on it.
    pub fn exchange(&self, image: Image) {
        let mut state = lock(&self.state);
        state.image = image;
        state.log.clear();
    }

    /// How many events were recorded in this record.
    pub fn position(&self) -> usize {
        lock(&self.state).log.len()
    }

    /// What was recorded in this record.
    pub fn log(&self) -> Vec<Event> {
        lock(&self.state).log.clone()
    }

    /// From now on writes that `aim` picks fail with EIO.
    pub fn fail_writes(&self, aim: Aim) {
        lock(&self.state).failing = Some(aim);
    }

    /// From now on flushes fail with EIO.
    pub fn fail_flushes(&self) {
        lock(&self.state).flushes_fail = true;
    }

    /// Nothing fails any more; how many requests did.
    pub fn heal(&self) -> u64 {
        let mut state = lock(&self.state);
        state.failing = None;
        state.flushes_fail = false;
        std::mem::take(&mut state.failed)
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
        if state.failing.is_some_and(|aim| data.chunks(4096).any(aim)) {
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
        if state.flushes_fail {
            state.failed += 1;
            reply.error(Errno::EIO);
        } else {
            state.log.push(Event::Flush);
            reply.ok();
        }
    }

    /// Closing is no flush.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    /// Nothing is discarded: the kernel then writes zeros where it needs them.
    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        reply.error(Errno::EOPNOTSUPP);
    }
}
