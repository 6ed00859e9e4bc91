//! The directory and files of a simulated disk, as the engine sees them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::SimDisk;
use super::state::{Call, Inode, Refusal, SimWords};
use crate::{Access, Advice, Dir, File, Identity, Lock, Locking, Map};

#[derive(Debug)]
pub(super) struct SimDir {
    disk: SimDisk,
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    id: usize,
    writable: bool,
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    name: String,
}

struct SimMap {
    words: Arc<SimWords>,
}

impl SimDir {
    pub(super) fn new(disk: SimDisk) -> SimDir {
        SimDir { disk }
    }
}

fn refused(refusal: Refusal) -> io::Error {
    match refusal {
        Refusal::Error(e) | Refusal::Short(e) => e,
    }
}

impl Dir for SimDir {
    fn path(&self) -> &Path {
        Path::new("simulated")
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.disk.lock();
        state.begin(Call::Read).map_err(refused)?;
        Ok(state.live.keys().cloned().collect())
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let mut state = self.disk.lock();
        state.begin(if access == Access::Create { Call::Write } else { Call::Read }).map_err(refused)?;
        let id = match (state.live.get(name), access) {
            (Some(_), Access::Create) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(&id), _) => id,
            (None, Access::Create) => {
                state.files.push(Inode::default());
                let id = state.files.len() - 1;
                state.change_name(None, Some((name.to_owned(), id)));
                state.changed();
                id
            }
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        drop(state);
        Ok(Arc::new(SimFile { disk: self.disk.clone(), id, writable: access != Access::Read }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.begin(Call::Write).map_err(refused)?;
        let id = *state.live.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.change_name(Some(from.to_owned()), Some((to.to_owned(), id)));
        state.changed();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.begin(Call::Change).map_err(refused)?;
        if !state.live.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_name(Some(name.to_owned()), None);
        state.changed();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.begin(Call::Sync).map_err(refused)?;
        state.sync_names();
        state.changed();
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Locking> {
        let mut state = self.disk.lock();
        state.begin(Call::Write).map_err(refused)?;
        if !state.live.contains_key(name) {
            state.files.push(Inode::default());
            let id = state.files.len() - 1;
            state.change_name(None, Some((name.to_owned(), id)));
        }
        if !state.locks.insert(name.to_owned()) {
            return Ok(Locking::HeldBy(None));
        }
        drop(state);
        Ok(Locking::Acquired(Box::new(SimLock { disk: self.disk.clone(), name: name.to_owned() })))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX / 2)
    }

    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.disk.lock().rng.fill(buf);
        Ok(())
    }
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.lock().locks.remove(&self.name);
    }
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::Error::from_raw_os_error(9)) }
    }
}

impl File for SimFile {
    fn identity(&self) -> Option<Identity> {
        Some((0, self.id as u64))
    }

    /// Pretends that every other page is in memory. Not one of the calls that can fail.
    fn read_now_at(&self, buf: &mut [u8], offset: u64) -> Option<usize> {
        let state = self.disk.lock();
        let start = usize::try_from(offset).ok()?;
        let (first, last) = (start / 4096, (start + buf.len().checked_sub(1)?) / 4096);
        let bytes = state.files[self.id].live.get(start..start + buf.len())?;
        ((self.id + first).is_multiple_of(2) && first == last).then(|| buf.copy_from_slice(bytes))?;
        Some(buf.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.lock();
        match state.begin(Call::Read) {
            Ok(()) => {}
            // An interrupted read is retried inside, as by the real file.
            Err(Refusal::Error(e)) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(refusal) => return Err(refused(refusal)),
        }
        let live = &state.files[self.id].live;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(live.len());
        let n = buf.len().min(live.len() - start);
        buf[..n].copy_from_slice(&live[start..start + n]);
        Ok(n)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.lock();
        let result = match state.begin(Call::Write) {
            Ok(()) => Ok(data.len()),
            Err(Refusal::Error(e)) if e.kind() == io::ErrorKind::Interrupted => Ok(data.len()),
            Err(Refusal::Short(e)) => Err((data.len() / 2, e)),
            Err(Refusal::Error(e)) => Err((0, e)),
        };
        let done = match &result {
            Ok(n) | Err((n, _)) => *n,
        };
        state.write(self.id, &data[..done], offset as usize);
        state.changed();
        result.map(|_| ()).map_err(|(_, e)| e)
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.lock();
        state.begin(Call::Read).map_err(refused)?;
        Ok(state.files[self.id].live.len() as u64)
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.id].allocated_bytes() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.lock();
        state.begin(Call::Change).map_err(refused)?;
        state.files[self.id].set_len(len as usize);
        state.changed();
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.check_writable()?;
        let mut state = self.disk.lock();
        state.begin(Call::Change).map_err(refused)?;
        state.punch(self.id, offset as usize, len as usize);
        state.changed();
        Ok(true)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        match state.begin(Call::Sync) {
            Ok(()) => state.sync_file(self.id, true),
            Err(refusal) => {
                let error = refused(refusal);
                if error.kind() != io::ErrorKind::Interrupted {
                    state.sync_file(self.id, false);
                }
                state.changed();
                return Err(error);
            }
        }
        state.changed();
        Ok(())
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        if advice == Advice::DropCache {
            self.disk.lock().files[self.id].drop_cache(offset as usize, len as usize);
        }
    }

    fn map(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        let mut state = self.disk.lock();
        state.begin(Call::Read).map_err(refused)?;
        let file = &mut state.files[self.id];
        let words = Arc::new(SimWords::new(&file.live, offset as usize, len));
        file.maps.push(Arc::downgrade(&words));
        Ok(Arc::new(SimMap { words }))
    }

    fn map_writable(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        self.check_writable()?;
        let mut state = self.disk.lock();
        state.begin(Call::Read).map_err(refused)?;
        let file = &mut state.files[self.id];
        let words = Arc::new(SimWords::new(&file.live, offset as usize, len));
        file.maps.push(Arc::downgrade(&words));
        // Kept alive: stores stay in the file after the map is dropped.
        state.stored.push((self.id, Arc::clone(&words)));
        Ok(Arc::new(SimMap { words }))
    }
}

impl std::fmt::Debug for SimMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimMap").field("words", &self.words.words.len()).finish_non_exhaustive()
    }
}

impl Map for SimMap {
    fn words(&self) -> &[AtomicU64] {
        &self.words.words
    }
}
