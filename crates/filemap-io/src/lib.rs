//! The I/O seam of FileMap: everything that the store needs from the operating system, as a few
//! small traits.
//!
//! With it one simulated disk can stand under the whole engine: `filemap-core` never names
//! `std::fs`, `mmap` or a system call, but is given a [`Dir`]. [`OsDir`] is the real one; `sim`,
//! behind the feature of that name, has the simulated one.
//!
//! Invariants:
//! - a name is a plain file name inside the directory; the engine never builds a path;
//! - a map's words are atomics, since the file may be written while it is mapped; nobody gets it
//!   as a byte slice. The engine only reads its maps; `urlindex` alone stores through one
//!   ([`File::map_writable`]), whose file is fully allocated before it is mapped;
//! - nothing is durable before [`File::sync`] (bytes and length) and [`Dir::sync`] (name) have
//!   returned `Ok`.

#[macro_use]
mod debug;
mod available;
mod error;
mod failpoint;
pub mod files;
mod guard;
pub mod header;
mod latch;
pub mod layout;
mod map;
mod memory;
mod named;
mod options;
mod os;
mod seam;
#[cfg(feature = "sim")]
pub mod sim;
mod stamp;
pub mod varint;

use std::ops::ControlFlow;

pub use error::StorageError;
pub use latch::{Latch, guard};
pub use map::LargeWords;
pub use memory::LargeMemory;
pub use os::OsDir;
pub use seam::{Access, Advice, Dir, File, Identity, Lock, Locking, Map, Word};
pub use stamp::Stamp;

/// System calls beside the traits: directories, limits, memory, inspection of any file.
pub mod system {
    pub use crate::available::{Memory, memory};
    pub use crate::os::{create_dir, is_shortage, open_file_limit, open_to_inspect, remove_dir, rename_dir};
}

/// Progress callback of a long operation; return `Break` to cancel it.
pub type Progress<'a, T> = dyn FnMut(T) -> ControlFlow<()> + 'a;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("FileMap maps files of many gigabytes and is not built for 32-bit targets");
#[cfg(not(target_endian = "little"))]
compile_error!("FileMap maps its little-endian index directly and is not built for big-endian machines");
