//! An open ordered run: its header and root, its blocks by page, and range sums.
//!
//! Only the root stays in memory, so opening costs the same for any size. Every block is read by a
//! system call and checked, also against what its parent says of it.

use std::sync::Arc;

use filemap_io::files::read_exact;
use filemap_io::{Access, Advice, File, StorageError};

use super::format::{Child, Home, Info, KIND, OrderedHeader, PAGE_BYTES, check_block, header, root};
use super::inner::Inner;
use super::leaf::Leaf;
use crate::home::file_name;
use crate::run::{Salt, copy, salt};
use crate::traffic::Traffic;

/// The root and its level, from the header that a run with this info must have.
fn read_header(file: &dyn File, name: &str, id: [u8; 16], info: &Info) -> Result<(Child, u32), StorageError> {
    let mut bytes = vec![0; OrderedHeader::BYTES];
    read_exact(file, name, &mut bytes, 0)?;
    KIND.check(name, &bytes)?;
    let found = root(&bytes, info).filter(|(root, height)| bytes == header(id, info, root, *height));
    let at = OrderedHeader::ID.at as u64;
    found.ok_or_else(|| StorageError::corrupt(name, at, "not the run that its owner names"))
}

/// An open ordered run.
///
/// ```
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// # use filemap_runs::ordered::{Change, Home, Run, Writer};
/// # let home = Home::new(dir, "keys", [7; 16], ());
/// # let mut writer = Writer::create(&home, 1).unwrap();
/// # writer.push(b"com,example)/", Change::Added).unwrap();
/// # writer.push(b"com,example)/old", Change::Removed).unwrap();
/// # writer.push(b"org,example)/", Change::Added).unwrap();
/// # let written = writer.end().unwrap().expect("not empty");
/// let run = Run::open(&home, written.info()).unwrap();
/// assert_eq!((run.entries(), run.sum_below(b"org,").unwrap()), (3, 0));
/// ```
#[derive(Debug)]
pub struct Run {
    id: [u8; 16],
    info: Info,
    name: String,
    file: Arc<dyn File>,
    salt: Salt,
    traffic: Arc<Traffic>,
    root: Child,
    /// Level of the root.
    height: u32,
    /// The root, if it is an inner block.
    top: Option<Arc<Inner>>,
}

impl Run {
    /// Opens a run that its owner has recorded: reads its header and its root.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::NewerFormat`]; [`StorageError::Io`].
    pub fn open(home: &Home, info: Info) -> Result<Run, StorageError> {
        let name = file_name(&home.name, info.number);
        if !info.is_possible() {
            return Err(StorageError::corrupt(&name, 0, format_args!("impossible number of pages: {}", info.pages)));
        }
        let file = home.open(&name, Access::Read)?;
        home.traffic.read(PAGE_BYTES as u64);
        let (root, height) = read_header(&*file, &name, home.id, &info)?;
        let len = file.len().map_err(StorageError::io("length", &name))?;
        if len != info.disk_bytes() {
            let what = format!("the file has {len} bytes, its owner recorded {}", info.disk_bytes());
            return Err(StorageError::corrupt(&name, len.min(info.disk_bytes()), what));
        }
        file.advise(Advice::Random, 0, 0);
        let (salt, traffic) = (salt(home.id, info.number), Arc::clone(&home.traffic));
        let mut run = Run { id: home.id, info, name, file, salt, traffic, root, height, top: None };
        if height > 0 {
            run.top = Some(run.inner(&root, height)?);
        } else {
            run.leaf(&root, &mut Leaf::default())?;
        }
        Ok(run)
    }

    /// The owner's record of the run.
    pub fn info(&self) -> Info {
        self.info
    }

    /// Name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of entries.
    pub fn entries(&self) -> u64 {
        self.info.entries()
    }

    /// Length of the file, in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.info.disk_bytes()
    }

    /// Bytes of memory, without the system's caches.
    pub fn memory_bytes(&self) -> u64 {
        self.top.as_ref().map_or(0, |top| top.memory_bytes())
    }

    /// Sum of the changes of all keys below `key`. Reads one block a level.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn sum_below(&self, key: &[u8]) -> Result<i64, StorageError> {
        let (mut sum, mut at, mut inner) = (0, self.root, self.top.clone());
        for level in (0..self.height).rev() {
            let Some(block) = inner.take() else { break };
            let nth = block.find(key);
            sum += block.tally(nth).sum();
            at = block.child(nth);
            if level > 0 {
                inner = Some(self.inner(&at, level)?);
            }
        }
        let mut leaf = Leaf::default();
        self.leaf(&at, &mut leaf)?;
        Ok(sum + leaf.tally(leaf.below(key)).sum())
    }

    /// Copies the file, durable except for its name, to the home of an owner with the same id.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] if the file is now too short; [`StorageError::Io`].
    pub fn copy_to(&self, to: &Home) -> Result<(), StorageError> {
        copy(&*self.file, &self.name, self.disk_bytes(), to)
    }

    /// Reads and checks the header again.
    pub(super) fn check_header(&self) -> Result<(), StorageError> {
        read_header(&*self.file, &self.name, self.id, &self.info).map(drop)
    }

    /// The root and its level.
    pub(super) fn root(&self) -> (Child, u32) {
        (self.root, self.height)
    }

    /// The root, if it is an inner block.
    pub(super) fn top(&self) -> Option<&Arc<Inner>> {
        self.top.as_ref()
    }

    /// Reads an inner block.
    pub(super) fn inner(&self, child: &Child, level: u32) -> Result<Arc<Inner>, StorageError> {
        let mut bytes = Vec::new();
        let (count, end) = self.read(child, level, &mut bytes)?;
        Inner::decode(bytes, child, count, end).map(Arc::new).map_err(|what| self.damage(child, what))
    }

    /// Reads a leaf. After an error it can only be read into again.
    pub(super) fn leaf(&self, child: &Child, leaf: &mut Leaf) -> Result<(), StorageError> {
        let (count, end) = self.read(child, 0, &mut leaf.bytes)?;
        leaf.decode(child, count, end).map_err(|what| self.damage(child, what))
    }

    /// Reads a block and checks all but its entries. Returns their number and the offset of their
    /// end.
    fn read(&self, child: &Child, level: u32, bytes: &mut Vec<u8>) -> Result<(usize, usize), StorageError> {
        bytes.resize(child.pages as usize * PAGE_BYTES, 0);
        read_exact(&*self.file, &self.name, bytes, child.page * PAGE_BYTES as u64)?;
        self.traffic.block_read(bytes.len() as u64);
        check_block(bytes, &self.salt, level, child).map_err(|what| self.damage(child, what))
    }

    /// Requests pages that will be read soon.
    pub(super) fn will_need(&self, page: u64, pages: u64) {
        let end = (page + pages).min(self.info.pages);
        if page < end {
            self.file.advise(Advice::WillNeed, page * PAGE_BYTES as u64, (end - page) * PAGE_BYTES as u64);
        }
    }

    /// The error of a damaged block.
    #[cold]
    pub(super) fn damage(&self, child: &Child, what: &str) -> StorageError {
        StorageError::corrupt(&self.name, child.page.saturating_mul(PAGE_BYTES as u64), what)
    }
}
